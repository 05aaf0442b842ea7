"""`wharf bench`: how fast a chain decides."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated, Any

import typer

from wharfinger.cli import chosen_policies, options, streams
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.language.report import wording
from wharfinger.simulate import cluster, workloads
from wharfinger.simulate.bench import Measurement, RuleTime, measure

Family = Enum("Family", {name: name for name in workloads.FAMILIES})  # type: ignore[misc]  # the names are known at run time only


class Format(Enum):
    """How the figures are printed."""

    TABLE = "table"
    JSON = "json"


def command(  # noqa: PLR0913, PLR0917 — one parameter per flag
    policy: options.Policies = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=1_000_000, help="Nodes of the generated cluster.")] = 5000,
    pods: Annotated[int, typer.Option("--pods", min=1, max=10_000_000, help="Pods to place.")] = 10_000,
    running: Annotated[int, typer.Option("--running", min=0, max=10_000_000, help="Pods that run on the generated cluster already.")] = 0,
    family: Annotated[Family, typer.Option("--family", help="What the pods of the generated cluster ask for.")] = Family["basic"],
    templates: Annotated[int, typer.Option("--templates", min=1, max=100_000, help="Templates the pods come from, in turn.")] = 1,
    snapshot: Annotated[
        list[str] | None, typer.Option("--snapshot", "-s", metavar="FILE", help="Place the pending pods of this cluster instead.")
    ] = None,
    param: options.Params = None,
    config: options.Config = None,
    scheduler_name: options.SchedulerName = None,
    output: Annotated[Format, typer.Option("--format", help="How the figures are printed.")] = Format.TABLE,
) -> int:
    """Measure decisions per second, and the time that each rule takes over all nodes."""
    chain = assemble(chosen_policies.compiled(policy, param), chosen_policies.chosen(config, scheduler_name))
    size = workloads.Size(nodes=nodes, pods=pods, running=running, templates=templates)
    found = measure(chain, _given(snapshot) if snapshot else workloads.workload(family.value, size))
    streams.out(_as_json(found) if output is Format.JSON else _table(found))
    return 0


def _given(paths: list[str]) -> workloads.Workload:
    found = cluster.load_cluster(paths)
    if not found.pending:
        raise UsageError("the snapshot has no pending pods to measure with; leave --snapshot out to generate a cluster")
    return workloads.Workload(state=found.state, pods=tuple(found.pending))


def _as_json(found: Measurement) -> str:
    value: dict[str, Any] = {
        "decisions_per_second": round(found.decisions_per_second, 1),
        "microseconds_per_decision": round(found.microseconds_per_decision, 2),
        "placements_per_second": round(found.placements_per_second, 1),
        "nodes": found.nodes,
        "pods": found.pods,
        "placed": found.placed,
        "templates": found.templates,
        "seconds": round(found.seconds, 6),
        "rules": [{"rule": rule.rule, "point": rule.point, "microseconds": _rounded(rule)} for rule in found.rules],
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _rounded(rule: RuleTime) -> float | None:
    return None if rule.microseconds is None else round(rule.microseconds, 2)


def _table(found: Measurement) -> str:
    head = [
        ("decisions/s", f"{found.decisions_per_second:,.0f}"),
        ("µs/decision", f"{found.microseconds_per_decision:,.1f}"),
        ("placements/s", f"{found.placements_per_second:,.0f}"),
        ("nodes", f"{found.nodes:,}"),
        ("pods", f"{found.placed:,} of {found.pods:,} placed"),
        ("templates", f"{found.templates:,}"),
    ]
    rows = [("rule", "point", "µs over all nodes"), *((rule.rule, rule.point, _shown(rule)) for rule in found.rules)]
    return wording.columns(head) + "\n" + wording.columns(rows, right=frozenset({2}))


def _shown(rule: RuleTime) -> str:
    return "nothing to say" if rule.microseconds is None else f"{rule.microseconds:,.1f}"
