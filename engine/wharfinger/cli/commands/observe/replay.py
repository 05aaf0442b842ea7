"""`wharf replay`: the decisions of a log made again, or by other policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from msgspec import Struct, field

from wharfinger.cli import chosen_policies, options, streams
from wharfinger.errors import UsageError
from wharfinger.language.report import wording
from wharfinger.language.report.plain_values import plain
from wharfinger.model.objects.metadata import time_text
from wharfinger.simulate.replay import Change, Difference, Replay


class Outcome(Struct, kw_only=True):
    """The outcome of a replay. `compared`: other policies decided too."""

    compared: bool
    decisions: int = 0
    searches: int = 0
    pods: set[str] = field(default_factory=set)
    profiles: set[str] = field(default_factory=set)
    differences: list[Difference] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)


def wharf_replay(  # noqa: PLR0913, PLR0917 — one parameter per flag
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="The file of `wharf run --decision-log`; finished files in the same folder are read first.")
    ],
    policy: options.Policies = None,
    param: options.Params = None,
    scheduler_name: Annotated[
        str | None, typer.Option("--scheduler-name", metavar="NAME", help="The profile that --policy and --param belong to; default: all.")
    ] = None,
    pod: Annotated[str | None, typer.Option("--pod", metavar="NAMESPACE/NAME", help="Only decisions about this pod.")] = None,
    output: options.TextOrJson = "text",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if other policies change a decision.")] = False,
) -> int:
    """Make every decision of a decision log again, and compare to the last bit. Exit code 1 if one differs.

    With --policy or --param, other policies decide, each time on the cluster as it was recorded; the decisions that they change are listed.

    $ wharf replay decisions.jsonl --policy policies/
    """
    if pod is not None and (pod.count("/") != 1 or not all(pod.split("/"))):
        raise UsageError(f"--pod {pod}: expected NAMESPACE/NAME")
    others = chosen_policies.others_for_log(policy, param, scheduler_name)
    replay = Replay(log, others, only=pod)
    outcome = Outcome(compared=others is not None)
    try:
        _run(replay, outcome)
    finally:
        streams.warn(replay.notes)
    if pod is not None and not outcome.decisions + outcome.searches:
        raise UsageError(f"{log}: no decision about pod {pod}")
    if others is not None and scheduler_name not in {None, *outcome.profiles}:
        raise UsageError(
            f"--scheduler-name {scheduler_name}: no decision is of that profile; there are {', '.join(sorted(outcome.profiles))}"
        )
    streams.out(_table(outcome) if output == "text" else streams.json_text(_plain(outcome)))
    return int(bool(outcome.differences) or (exit_code and bool(outcome.changes)))


def _run(replay: Replay, outcome: Outcome) -> None:
    for replayed in replay.run():
        if replayed.group:
            outcome.searches += 1
        else:
            outcome.decisions += 1
            outcome.pods.add(replayed.pod)
        outcome.profiles.add(replayed.profile)
        if replayed.difference is not None:
            outcome.differences.append(replayed.difference)
        if replayed.change is not None:
            outcome.changes.append(replayed.change)


def _table(outcome: Outcome) -> str:
    return wording.lines(_lines(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    if outcome.changes:
        rows: list[Sequence[str]] = [("POD", "AT", "WAS", "WOULD BE", "FEASIBLE")]
        rows += [_row(change) for change in outcome.changes]
        table = wording.columns(rows).splitlines()
        yield table[0]
        for change, row in zip(outcome.changes, table[1:], strict=True):
            yield row
            yield from (f"    {reason}" for reason in change.reasons)
        yield ""
    yield from (f"{difference}" for difference in outcome.differences[:1])
    yield from _summary(outcome)


def _row(change: Change) -> Sequence[str]:
    feasible = f"{change.feasible} → {change.other_feasible}"
    return change.pod, time_text(change.at), _place(change.node, change.nominated), _place(change.other, change.other_nominated), feasible


def _place(node: str | None, nominated: str | None) -> str:
    """The node of a pod, or the one on which preemption makes room for it."""
    return node or (f"- (room on {nominated})" if nominated else "-")


def _summary(outcome: Outcome) -> Iterator[str]:
    made = f"{wording.count(outcome.decisions, 'decision')} about {wording.count(len(outcome.pods), 'pod')}"
    searches = f"{wording.count(outcome.searches, 'search', 'searches')} for groups"
    if outcome.searches:
        made = f"{made}, and {searches}," if outcome.decisions else searches
    same = "each as it was recorded" if not outcome.differences else f"{len(outcome.differences):,} not as recorded"
    yield f"{made} made again, {same}"
    if outcome.compared:
        yield f"{wording.count(len(outcome.changes), 'decision')} would have been another"


def _plain(outcome: Outcome) -> dict[str, Any]:
    value: dict[str, Any] = {
        "decisions": outcome.decisions,
        "pods": len(outcome.pods),
        "searches": outcome.searches,
        "differences": [_difference(difference) for difference in outcome.differences],
    }
    if outcome.compared:
        value["changes"] = [plain(change) | {"at": time_text(change.at)} for change in outcome.changes]
    return value


def _difference(found: Difference) -> dict[str, Any]:
    return {"place": str(found.place), "pod": found.pod, "part": found.part, "recorded": found.recorded, "found": found.found}
