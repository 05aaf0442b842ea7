"""The report of `wharf diff`: a table as text, Markdown for a merge request, plain values for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from wharfinger.cli import what_if_input
from wharfinger.errors import printable
from wharfinger.explain.difference import Cause
from wharfinger.framework import pod_devices
from wharfinger.framework.pod_devices import PodDevice
from wharfinger.language.report import wording
from wharfinger.language.report.plain_values import plain
from wharfinger.model.objects.metadata import time_text
from wharfinger.simulate.dry_run import DryRun
from wharfinger.what_if.diff import DecisionChange, Diff, Domain, GroupChange, LogDiff, PodChange, Side, Spread, Totals

MAX_DOMAINS = 20
FOLLOWS = "follows others: with the other pods on their new nodes, both sides choose this node"
OTHERS = "only following others"
GROUP_FOLLOWS = "follows others: it is placed whole on both sides"
MAX_NODES = 3
"""Nodes of a group that a row names."""

Row = tuple[str, ...]
AnyChange: TypeAlias = PodChange | GroupChange | DecisionChange


class Titles(Struct, frozen=True, kw_only=True):
    """The names of the two sides."""

    before: str
    after: str


# ── for people ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def table(found: Diff | LogDiff, titles: Titles, limit: int) -> str:
    """The report for a terminal; `limit` changes are listed."""
    return "\n".join(wording.lines(part) for part in _parts(found, titles, limit) if part)


def _parts(found: Diff | LogDiff, titles: Titles, limit: int) -> Iterator[list[str]]:
    listed = found.rows[:limit]
    if listed:
        yield list(_listed(listed, len(found.rows)))
    yield [f"before: {titles.before}", f"after:  {titles.after}", "", _headline(found), *(f"  {line}" for line in _by_rule(found.totals))]
    if isinstance(found, Diff):
        yield wording.columns([("", "before", "after", "of"), *_sums(found)], right=frozenset({1, 2, 3})).splitlines()
        reasons = _reasons(found)
        if reasons:
            yield wording.columns([("before", "after", "pods without a node because of"), *reasons], right=frozenset({0, 1})).splitlines()


def _listed(changes: Sequence[AnyChange], of: int) -> Iterator[str]:
    lines = wording.columns([_head(changes[0]), *map(_row, changes)]).splitlines()
    yield lines[0]
    for change, line in zip(changes, lines[1:], strict=True):
        yield line
        yield from (f"    {sentence}" for sentence in why(change))
    if len(changes) < of:
        yield f"… and {wording.count(of - len(changes), 'more change')}; --most {of} lists all"


def _head(change: AnyChange) -> Row:
    return ("POD", "AT", "BEFORE", "AFTER") if isinstance(change, DecisionChange) else ("POD", "BEFORE", "AFTER")


def _row(change: AnyChange) -> Row:
    if isinstance(change, GroupChange):
        before, after = (wording.capped(names, MAX_NODES) or "-" for names in (change.before, change.after))
        return f"group {change.group} ({wording.count(len(change.members), 'pod')})", before, after
    at = (time_text(change.at),) if isinstance(change, DecisionChange) else ()
    return change.pod, *at, *_places(change)


def _places(change: PodChange | DecisionChange) -> tuple[str, str]:
    """The places of the pod before and after, with its devices if they differ."""
    before, after = change.before or "-", change.after or "-"
    devices_before, devices_after = _devices(change)
    if devices_before == devices_after:
        return before, after
    return _with(before, devices_before), _with(after, devices_after)


def _with(node: str, devices: Sequence[PodDevice]) -> str:
    return f"{node} ({pod_devices.text(devices, node)})" if devices else node


def _devices(change: PodChange | DecisionChange) -> tuple[tuple[PodDevice, ...], tuple[PodDevice, ...]]:
    """The devices of the pod before and after; of a change in a decision log they are not known."""
    return (change.before_devices, change.after_devices) if isinstance(change, PodChange) else ((), ())


def why(change: AnyChange) -> Iterator[str]:
    """Sentences about why a pod or a group changes: the rules that make the difference, or the message of the side without a node."""
    if isinstance(change, GroupChange):
        yield from _why(change.members[0])
        yield f"pods: {', '.join(member.pod for member in change.members)}"
    else:
        yield from _why(change)


def _why(change: PodChange | DecisionChange) -> Iterator[str]:
    if change.before is not None and change.before == change.after:
        yield "the same node, with other devices"
        return
    if not change.causes:
        yield _message(change) or (GROUP_FOLLOWS if isinstance(change, PodChange) and change.group else FOLLOWS)
        return
    instead = change.causes[0].nodes[0]
    if instead != change.before:
        yield f"with the other pods on their new nodes, the rules before choose {instead or 'no node'}"
    yield from map(str, change.causes)


def _message(change: PodChange | DecisionChange) -> str:
    return f"before: {change.before_message}" if change.before is None else change.after_message


def _headline(found: Diff | LogDiff) -> str:
    total = found.totals
    of = wording.count(found.pods, "pod") if isinstance(found, Diff) else wording.count(found.decisions, "decision")
    if not total.changes:
        return f"nothing differs for {of}"
    return f"{total.changes:,} of {of} {'differs' if total.changes == 1 else 'differ'}: {', '.join(_kinds_of_change(total))}"


def _kinds_of_change(total: Totals) -> Iterator[str]:
    ways = (
        (total.elsewhere, "elsewhere"),
        (total.lost, "on no node any more"),
        (total.gained, "on a node only now"),
        (total.devices, "with other devices"),
    )
    yield from (f"{number:,} {way}" for number, way in ways if number)


def _by_rule(total: Totals) -> list[str]:
    rows = [*((f"{pods:,}", rule) for rule, pods in total.rules), *([(f"{total.follow:,}", OTHERS)] if total.follow else [])]
    return wording.columns([("pods", "decided otherwise by"), *rows], right=frozenset({0})).splitlines() if rows else []


def _sums(found: Diff) -> Iterator[Row]:
    before, after = found.before.run, found.after.run
    yield "pods placed", f"{before.placed:,}", f"{after.placed:,}", f"{found.pods:,}"
    if before.evicted or after.evicted:
        yield "pods evicted", f"{before.evicted:,}", f"{after.evicted:,}", ""
    if before.groups or after.groups:
        placed = (f"{sum(group.is_placed for group in run.groups):,} of {len(run.groups):,}" for run in (before, after))
        yield "groups placed", *placed, ""
    yield from what_if_input.usage_rows(before.after or before.before, after.after or after.before)
    for former, later in zip(found.before.spreads, found.after.spreads, strict=True):
        yield from _spread(former, later)


def _spread(before: Spread, after: Spread) -> Iterator[Row]:
    label = before.label.rpartition("/")[2]
    pairs = list(zip(before.domains, after.domains, strict=True))
    for former, later in pairs[:MAX_DOMAINS]:
        yield f"pods in {label} {former.value}" if former.value is not None else f"pods in no {label}", *_counts([former], [later])
    if len(pairs) > MAX_DOMAINS:
        others = pairs[MAX_DOMAINS:]
        yield f"pods in {len(others):,} more", *_counts([former for former, _ in others], [later for _, later in others])


def _counts(before: Iterable[Domain], after: Iterable[Domain]) -> Row:
    return *(f"{sum(domain.pods for domain in side):,}" for side in (before, after)), ""


def _reasons(found: Diff) -> list[Row]:
    before, after = (Counter({each.reason: each.pods for each in side.run.reasons}) for side in (found.before, found.after))
    ordered = sorted(before | after, key=lambda reason: (-after[reason], -before[reason], wording.natural(reason)))
    return [(f"{before[reason]:,}", f"{after[reason]:,}", reason) for reason in ordered]


# ── for a merge request ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def markdown(found: Diff | LogDiff, titles: Titles, limit: int) -> str:
    """The report as GitHub-flavoured Markdown; `limit` changes are listed."""
    return "\n".join(f"{line}" for line in _markdown(found, titles, limit)) + "\n"


def _markdown(found: Diff | LogDiff, titles: Titles, limit: int) -> Iterator[str]:
    yield f"### Placement: {_cell(_headline(found))}"
    yield f"\n- before: {_cell(titles.before)}\n- after: {_cell(titles.after)}\n"
    total = found.totals
    rules = [*((rule, f"{pods:,}") for rule, pods in total.rules), *([(OTHERS, f"{total.follow:,}")] if total.follow else [])]
    if rules:
        yield from _grid([("decided otherwise by", "pods"), *rules], right={1})
    if isinstance(found, Diff):
        yield from _grid([("", "before", "after", "of"), *_sums(found)], right={1, 2, 3})
        reasons = [(reason, before, after) for before, after, reason in _reasons(found)]
        if reasons:
            yield from _grid([("pods without a node because of", "before", "after"), *reasons], right={1, 2})
    listed = found.rows[:limit]
    if listed:
        yield f"<details><summary>{len(listed):,} of {wording.count(len(found.rows), 'change')}</summary>\n"
        head = (*(word.lower() for word in _head(listed[0])), "why")
        rows: list[Sequence[str | Row]] = [(*_row(change), tuple(why(change))) for change in listed]
        yield from _grid([head, *rows], right=set())
        yield "</details>"


def _grid(rows: Sequence[Sequence[str | Row]], right: set[int]) -> Iterator[str]:
    head, *body = rows
    yield f"| {' | '.join(map(_cell, head))} |"
    yield f"| {' | '.join('---:' if column in right else '---' for column in range(len(head)))} |"
    yield from (f"| {' | '.join(map(_cell, row))} |" for row in body)
    yield ""


def _cell(text: str | Row) -> str:
    """Text that Markdown shows as it is, on one line of a table; several texts with breaks between them."""
    if not isinstance(text, str):
        return "<br>".join(map(_cell, text))
    escaped = "".join(f"\\{letter}" if letter in "\\`*_[]|~" else letter for letter in printable(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# ── for programs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def value(found: Diff | LogDiff, titles: Titles) -> dict[str, Any]:
    """The report as plain values."""
    total = found.totals
    whole: dict[str, Any] = {
        "before": {"title": titles.before},
        "after": {"title": titles.after},
        "changes": [_change(change) for change in found.changes],
        "summary": {
            "changes": total.changes,
            "elsewhere": total.elsewhere,
            "lost": total.lost,
            "gained": total.gained,
            "devices": total.devices,
            "follow": total.follow,
            "rules": [{"rule": rule, "pods": pods} for rule, pods in total.rules],
        },
        "notes": list(found.notes),
    }
    if isinstance(found, Diff):
        whole["before"] |= _side(found.before)
        whole["after"] |= _side(found.after)
        groups = [_group(row) for row in found.rows if isinstance(row, GroupChange)]
        return whole | {"groups": groups, "pods": found.pods, "replaced": found.replaced}
    for name, unplaced in zip(("before", "after"), found.unplaced, strict=True):
        whole[name]["unschedulable"] = unplaced
    return whole | {"decisions": found.decisions, "pods": found.pods, "profiles": list(found.profiles)}


def _group(change: GroupChange) -> dict[str, Any]:
    return {
        "group": change.group,
        "way": change.members[0].way.value,
        "pods": [member.pod for member in change.members],
        "before": list(change.before),
        "after": list(change.after),
    }


def _change(change: PodChange | DecisionChange) -> dict[str, Any]:
    if isinstance(change, PodChange):
        own: dict[str, Any] = {"follows": change.follows, **({"group": change.group} if change.group else {})}
    else:
        own = {"at": time_text(change.at), "profile": change.profile}
    devices_before, devices_after = _devices(change)
    return {
        "pod": change.pod,
        **own,
        "before": _place(change.before, change.before_message, devices_before),
        "after": _place(change.after, change.after_message, devices_after),
        "causes": [_cause(cause) for cause in change.causes],
    }


def _place(node: str | None, message: str, devices: Sequence[PodDevice]) -> dict[str, Any]:
    return {"node": node, "message": message} | ({"devices": devices} if devices else {})


def _cause(cause: Cause) -> dict[str, Any]:
    return {**plain(cause), "message": str(cause)}


def _side(side: Side) -> dict[str, Any]:
    run = side.run
    return {
        **what_if_input.chain_value(side.chain),
        **_placed(run),
        "utilisation": what_if_input.usage_value(run.after or run.before),
        "spread": side.spreads,
    }


def _placed(run: DryRun) -> dict[str, Any]:
    return {
        "placed": run.placed,
        "unschedulable": run.unplaced,
        "evicted": run.evicted,
        "reasons": run.reasons,
    }
