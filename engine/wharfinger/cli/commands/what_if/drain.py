"""`wharf drain`: where the pods of some nodes would go, and which of them could not leave.

The report is a table, JSON or YAML. The same input gives the same bytes on every machine.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from wharfinger.cli import options, streams, what_if_input
from wharfinger.cli.commands.what_if.dry_run import pod_value
from wharfinger.cli.what_if_input import WhatIfFlags, with_flags
from wharfinger.errors import UsageError
from wharfinger.language.report import wording
from wharfinger.model.objects import matching
from wharfinger.simulate.cluster import Cluster
from wharfinger.what_if.drain.answer import BudgetUse, Drain, DrainedPod, DrainOutcome
from wharfinger.what_if.drain.plan import drain

NO_BUDGETS = (
    "the snapshot has no PodDisruptionBudget, so every eviction counts as allowed; "
    "if the cluster has some, add them: kubectl get pdb -A -o json"
)


def table(found: Drain) -> str:
    """The report as text: a line per pod that moves or cannot, then the summary."""
    listed = [_row(pod) for pod in found.pods if pod.outcome is not DrainOutcome.STAYS]
    parts = [wording.columns([("STEP", "POD", "FROM", "TO"), *listed], right=frozenset({0}))] if listed else []
    groups = wording.lines(what_if_input.group_lines(found.groups))
    return "\n".join([*parts, *([groups] if groups else []), wording.lines(_summary(found))])


def _row(pod: DrainedPod) -> Sequence[str]:
    return "-" if pod.step is None else f"{pod.step:,}", pod.pod, pod.source or "-", _destination(pod)


def _destination(pod: DrainedPod) -> str:
    place = pod.node or f"{pod.outcome.value}: {pod.reason}"
    if pod.placement is not None and pod.placement.victims:
        place += f", evicts {', '.join(pod.placement.victims)}"
    return f"{place} (evicted by preemption for {pod.displaced_by})" if pod.displaced_by else place


def _summary(found: Drain) -> Iterator[str]:
    drained = [pod for pod in found.pods if pod.source]
    leaving = [pod for pod in drained if pod.step is not None]
    nodes = wording.count(len(found.nodes), "node")
    if drained:
        steps = f" in {wording.count(found.steps, 'step')}" if found.steps else ""
        yield f"{len(leaving):,} of {wording.count(len(drained), 'pod')} would leave {nodes}{steps}"
    else:
        yield f"no pods to evict from {nodes}"
    if alone := sum(pod.alone for pod in found.pods):
        yield f"  {alone:,} alone in a step: a pod that waits may take the place of each as soon as it has left"
    counts = Counter(pod.outcome for pod in found.pods)
    yield from (f"  {counts[outcome]:,} {words}" for outcome, words in _WORDS.items() if counts[outcome])
    if found.budgets:
        rows = [(use.budget, f"{use.pods:,}", f"{use.forbidden:,}", _now(use)) for use in found.budgets]
        header = ("PodDisruptionBudget", "pods", "forbidden", "now")
        yield from wording.columns([header, *rows], right=frozenset({1, 2})).splitlines()
    elif not found.has_budgets:
        yield "no PodDisruptionBudget is known"
    yield from what_if_input.usage_lines(found.before, found.after)


def _now(use: BudgetUse) -> str:
    return f"forbids more after {wording.count(use.allowed, 'eviction')}" if use.forbids_now else "allows all"


_WORDS = {
    DrainOutcome.PLACED: "placed",
    DrainOutcome.WAITS: "would wait for a node",
    DrainOutcome.GONE: "gone without a replacement",
    DrainOutcome.FORBIDDEN: "may not leave: a PodDisruptionBudget forbids it",
    DrainOutcome.REFUSED: "may not leave: kubectl drain refuses",
    DrainOutcome.STAYS: "not moved: DaemonSets and static pods",
}


def _value(found: Drain, cluster: Cluster) -> dict[str, Any]:
    return {
        "nodes": list(found.nodes),
        "removed": found.removed,
        "revisions": what_if_input.revisions(found.chain),
        "steps": found.steps,
        "pods": [_pod(pod) for pod in found.pods],
        "groups": found.groups,
        "budgets": [
            {
                "budget": use.budget,
                "pods": use.pods,
                "allowedNow": use.allowed,
                "forbidsNow": use.forbids_now,
                "forbidden": use.forbidden,
            }
            for use in found.budgets
        ],
        "hasBudgets": found.has_budgets,
        "summary": {
            **{outcome.value: len(found.of(outcome)) for outcome in DrainOutcome},
            "before": what_if_input.usage_value(found.before),
            "after": what_if_input.usage_value(found.after),
        },
        "skipped": list(cluster.skipped),
    }


def _pod(pod: DrainedPod) -> dict[str, Any]:
    return {
        "pod": pod.pod,
        "source": pod.source or None,
        "controller": pod.controller or None,
        "outcome": pod.outcome.value,
        "step": pod.step,
        **({"alone": True} if pod.alone else {}),
        **({"reason": pod.reason} if pod.reason else {}),
        **({"displacedBy": pod.displaced_by} if pod.displaced_by else {}),
        **({} if pod.placement is None else {"replacement": pod_value(pod.placement)}),
    }


@with_flags
def wharf_drain(  # noqa: PLR0913, PLR0917 — one parameter per flag
    flags: WhatIfFlags,
    nodes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NODE", help="The nodes to drain, in this order; `node/NAME` means the same.", autocompletion=options.complete_nodes
        ),
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            "--selector", "-l", metavar="SELECTOR", help="Drain the nodes with these labels, in order of their names: pool=old,!gpu."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Evict pods without a controller too.")] = False,
    delete_emptydir_data: Annotated[bool, typer.Option("--delete-emptydir-data", help="Evict pods with an emptyDir too.")] = False,
    _ignore_daemonsets: Annotated[
        bool, typer.Option("--ignore-daemonsets", help="No effect: pods of DaemonSets always stay, as with this flag of kubectl drain.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the nodes at the end instead of keeping them cordoned.")] = False,
    pending: Annotated[bool, typer.Option("--pending", help="Place the pending pods of the snapshot too.")] = False,
    output: what_if_input.Output = "text",
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if a pod may not be evicted, or finds no other node.")
    ] = False,
) -> int:
    """Report where the pods of nodes would go if the nodes were drained. Writes nothing to the cluster.

    $ wharf drain node-7 node-8 --live --policy policies/
    """
    _refuse_contradictions(flags, nodes or [], selector, pending=pending)
    inputs = what_if_input.read(flags, lambda found: found.pending if pending else ())
    names = [name.removeprefix("node/") for name in nodes or ()] or _selected(selector or "", inputs.cluster)
    state = inputs.cluster.state
    snapshot = state.snapshot()
    on_them = sum(len(snapshot.pods_on(row)) for row in map(snapshot.row, names) if row is not None)
    with streams.bar(sys.stderr, "draining", on_them) as advance:
        found = drain(
            inputs.chain,
            state,
            names,
            force=force,
            delete_empty_dir_data=delete_emptydir_data,
            remove=remove,
            waiting=inputs.pods,
            advance=advance,
        )
    if not found.has_budgets and inputs.cluster.objects.taken_at is None:
        streams.warn([NO_BUDGETS])
    streams.out(what_if_input.rendered(output, lambda: table(found), lambda: _value(found, inputs.cluster)))
    return 1 if exit_code and not found.clean else 0


def _refuse_contradictions(flags: WhatIfFlags, nodes: Sequence[str], selector: str | None, *, pending: bool) -> None:
    """Raise UsageError unless the nodes, and the pods to place with them, are given in one way."""
    what_if_input.refuse_pods_and_pending(flags, pending=pending)
    if nodes and selector is not None:
        raise UsageError("nodes and --selector exclude each other: both select the nodes to drain")
    if not nodes and not (selector or "").strip():
        raise UsageError("no nodes to drain: name them, or give their labels with --selector")


def _selected(selector: str, cluster: Cluster) -> list[str]:
    """The names of the nodes with these labels, sorted; UsageError if there is none."""
    wanted = matching.parse_selector(selector)
    found = sorted(node.metadata.name for node in cluster.objects.nodes if wanted.matches(node.metadata.labels))
    if not found:
        raise UsageError(f"--selector {selector}: no node has these labels")
    return found
