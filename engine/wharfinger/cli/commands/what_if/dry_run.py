"""`wharf dry-run`: where pods would go, without a cluster to bind in.

The report is a table, JSON or YAML. The same input gives the same bytes on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer

from wharfinger.cli import options, streams, what_if_input
from wharfinger.cli.what_if_input import WhatIfFlags, with_flags
from wharfinger.errors import UsageError
from wharfinger.explain.explanation import Explanation
from wharfinger.framework import pod_devices
from wharfinger.language.report import wording
from wharfinger.language.report.plain_values import plain
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.copies import checkpoint_of
from wharfinger.simulate.cluster import Cluster
from wharfinger.simulate.dry_run import DryRun, PodResult, dry_run
from wharfinger.simulate.placing import Mode
from wharfinger.what_if.optimal.model import Answer
from wharfinger.what_if.optimal.search import Optimal, need_ortools, optimal


def table(run: DryRun, cluster: Cluster) -> str:
    """The report as text: a line per pod (or an explanation) and per group, then the summary."""
    groups = wording.lines(what_if_input.group_lines(run.groups))
    return "\n".join(part for part in (_pods(run), groups, _summary(run, cluster)) if part)


def _pods(run: DryRun) -> str:
    plain = [result for result in run.results if result.explanation is None]
    listed = wording.columns([("POD", "NODE", "TOTAL"), *map(_row, plain)]) if plain else ""
    explained = [f"{result.explanation}{_below(result)}" for result in run.results if result.explanation is not None]
    return "\n".join([*([listed] if listed else []), *explained])


def _row(result: PodResult) -> Sequence[str]:
    if result.node is None:
        room = f" Room on {result.nominated} if {_listed(result.victims)} left." if result.nominated else ""
        return result.pod, "-", result.message + room
    evicts = f", evicts {_listed(result.victims)}" if result.victims else ""
    gets = f", gets {pod_devices.text(result.devices, result.node)}" if result.devices else ""
    held = f", held by {'; '.join(result.held)}" if result.held else ""
    return result.pod, result.node, " / ".join(map(wording.number, result.totals)) + gets + evicts + held


def _below(result: PodResult) -> str:
    """The lines about preemption and permits below an explanation."""
    lines = [f"held by {held}" for held in result.held]
    if result.victims:
        listed = _listed(result.victims)
        lines.insert(0, f"evicts {listed}" if result.node else f"room on {result.nominated} if {listed} left")
    return "".join(f"  {line}\n" for line in lines)


def _listed(victims: Sequence[str]) -> str:
    return ", ".join(victims)


def _summary(run: DryRun, cluster: Cluster) -> str:
    lines = [f"{run.placed:,} of {wording.count(len(run.results), 'pod')} placed, {run.unplaced:,} unschedulable ({run.mode.value})"]
    lines += [f"{wording.count(run.evicted, 'pod')} evicted by preemption"] if run.evicted else []
    lines += (
        [f"{wording.count(run.held, 'pod')} held by permits: not bound, and without the node again after the timeout"] if run.held else []
    )
    lines += [f"  {line}" for line in _reasons(run)]
    lines += what_if_input.usage_lines(run.before, run.after)
    if cluster.ignored:
        lines.append("not needed and ignored: " + ", ".join(f"{count} {kind}" for kind, count in cluster.ignored.items()))
    return wording.lines(lines)


def _reasons(run: DryRun) -> Iterator[str]:
    rows = [(f"{found.pods:,}", f"{found.only:,}", found.reason) for found in run.reasons]
    if rows:
        yield from wording.columns([("pods", "only this", "reason"), *rows], right=frozenset({0, 1})).splitlines()


def _value(run: DryRun, cluster: Cluster, better: Optimal | None) -> dict[str, Any]:
    value = _value_of(run, cluster)
    if better is not None:
        value["optimal"] = {
            "answer": better.answer.value,
            "evicted": better.evicted,
            "plan": better.plan,
            "moves": better.moves,
            "fewest": better.fewest,
            "why": better.why,
            "leftOut": better.left_out,
        }
    return value


def _value_of(run: DryRun, cluster: Cluster) -> dict[str, Any]:
    return {
        "mode": run.mode.value,
        **what_if_input.chain_value(run.chain),
        "pods": [pod_value(result) for result in run.results],
        "groups": run.groups,
        "summary": {
            "pods": len(run.results),
            "placed": run.placed,
            "unschedulable": run.unplaced,
            "evicted": run.evicted,
            "held": run.held,
            "reasons": run.reasons,
            "before": what_if_input.usage_value(run.before),
            "after": None if run.after is None else what_if_input.usage_value(run.after),
        },
        "notes": list(run.notes),
        "ignored": dict(cluster.ignored),
        "skipped": list(cluster.skipped),
    }


def pod_value(result: PodResult) -> dict[str, Any]:
    """The decision about one pod as plain values."""
    value: dict[str, Any] = {"pod": result.pod, "node": result.node, "feasible": result.feasible}
    if result.node is None:
        value |= {"message": result.message, "reasons": dict(result.reasons)}
        value |= {"nominated": result.nominated} if result.nominated else {}
    else:
        value["totals"] = list(result.totals)
    if result.devices:
        value["devices"] = result.devices
    if result.victims:
        value["victims"] = list(result.victims)
    if result.held:
        value["held"] = list(result.held)
    if result.explanation is not None:
        value["explanation"] = _explanation(result.explanation)
    return value


def _explanation(found: Explanation) -> dict[str, Any]:
    """The explanation without the content of the decision."""
    return {key: value for key, value in plain(found).items() if key not in {"pod", "node", "message", "feasible"}}


@with_flags
def wharf_dry_run(  # noqa: PLR0913, PLR0917 — one parameter per flag
    flags: WhatIfFlags,
    pending: Annotated[bool, typer.Option("--pending", help="Place the pending pods of the snapshot; this is the default.")] = False,
    pods_of: Annotated[
        str | None, typer.Option("--pods-of", metavar="NAME", help="Place only the pending pods with this spec.schedulerName.")
    ] = None,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode",
            help="sequential: each placement counts for the next pods; independent: each pod is placed as if it were the only one.",
        ),
    ] = Mode.SEQUENTIAL,
    output: what_if_input.Output = "text",
    explain: Annotated[bool, typer.Option("--explain", help="Explain each pod: the result of every rule, with values.")] = False,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node", metavar="NODE", help="Explain this node in full; may be given several times.", autocompletion=options.complete_nodes
        ),
    ] = None,
    pod: Annotated[
        list[str] | None,
        typer.Option("--pod", metavar="POD", help="Explain this pod only (name or namespace/name).", autocompletion=options.complete_pods),
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if a pod finds no node, or a permit holds it.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--optimal",
            metavar="SECONDS",
            min=0.001,
            help="If pods find no node, search this long for a placement of all pods, or for a proof that there is none.",
        ),
    ] = None,
) -> int:
    """Place the pods of a snapshot, and report the node of each pod or why it has none. Writes nothing to the cluster.

    $ wharf dry-run --live -f web.yaml --policy policies/ --explain
    """
    _refuse_contradictions(flags, mode, seconds, pending=pending, pods_of=pods_of)
    inputs = what_if_input.read(flags, lambda found: _pending(found, pods_of))
    waiting = inputs.pods
    if not waiting:
        streams.warn([_why_none(inputs.cluster, pods_of)])
    before = None if seconds is None else checkpoint_of(inputs.cluster.state)
    now = inputs.cluster.state.snapshot().now
    with streams.bar(sys.stderr, "placing", len(waiting)) as advance:
        result = dry_run(
            inputs.chain,
            inputs.cluster.state,
            waiting,
            mode=mode,
            explained=_is_explained(explain, node, pod, waiting),
            nodes=node or (),
            advance=advance,
        )
    streams.warn(result.notes)
    better = None
    if before is not None and seconds is not None and result.unplaced:
        better = optimal(inputs.chain, before, now, waiting, seconds)
    streams.out(
        what_if_input.rendered(
            output, lambda: table(result, inputs.cluster) + _optimal(better), lambda: _value(result, inputs.cluster, better)
        )
    )
    return 1 if exit_code and (result.unplaced or result.held) else 0


def _optimal(found: Optimal | None) -> str:
    """The result of the search for a placement of all pods, in words; "" without a search."""
    if found is None:
        return ""
    if found.answer is Answer.FOUND:
        fewest = ", the fewest possible" if found.fewest else ""
        steps = [*((pod.pod, pod.source, "evicted: no other node") for pod in found.evicted)]
        rows = [("POD", "FROM", "TO"), *steps, *((placed.pod, placed.source or "-", placed.node) for placed in found.plan)]
        evicted = f"{wording.count(len(found.evicted), 'eviction')} and " if found.evicted else ""
        sentence = (
            f"all of them have a place after {evicted}{wording.count(found.moves, 'move')}{fewest}; "
            "pods that move leave first, then in this order:"
        )
        return f"\n{sentence}\n{wording.columns(rows)}{found.left_out}\n"
    if found.answer is Answer.NONE:
        return (
            "\nthere is no placement of all of them, also if every pod moved that may, "
            "and pods left that must make room for pods of a higher priority\n"
        )
    return "\n" + wording.lines([f"a placement of all of them: {found.why}"])


def _refuse_contradictions(flags: WhatIfFlags, mode: Mode, seconds: float | None, *, pending: bool, pods_of: str | None) -> None:
    """Raise UsageError for flags that exclude each other, or need a package that is not installed."""
    what_if_input.refuse_pods_and_pending(flags, pending=pending)
    if seconds is not None and mode is Mode.INDEPENDENT:
        raise UsageError("--optimal is about all pods together, --mode independent about each of them alone")
    if flags.pods and pods_of is not None:
        raise UsageError("--pods-of chooses among pending pods; --pods names the pods itself")
    if seconds is not None:
        need_ortools()


def _pending(found: Cluster, scheduler: str | None) -> tuple[PodView, ...]:
    if scheduler is None:
        return found.pending
    return tuple(pod for pod in found.pending if pod.scheduler_name == scheduler)


def _why_none(found: Cluster, scheduler: str | None) -> str:
    """The reason why there are no pods to place; `scheduler` is that of `--pods-of`."""
    if scheduler is not None and found.pending:
        others = wording.capped(sorted({pod.scheduler_name for pod in found.pending}), 3)
        return f"there are no pods to place; no pending pod has the spec.schedulerName {scheduler}; they have {others}"
    return "there are no pending pods to place; give pods with --pods"


def _is_explained(
    explain: bool, nodes: list[str] | None, names: list[str] | None, waiting: tuple[PodView, ...]
) -> Callable[[PodView], bool]:
    """The pods to explain: the named ones, or all if an explanation is requested."""
    if not names:
        everything = explain or bool(nodes)
        return lambda _pod: everything
    for name in names:
        if not any(name in (pod.name, pod.key) for pod in waiting):
            raise UsageError(f"--pod {name}: no pod to place has this name")
    return lambda pod: pod.name in names or pod.key in names
