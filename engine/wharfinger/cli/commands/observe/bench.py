"""`wharf bench`: how fast a chain decides, and which of its rules the time goes to.

Two things are measured. Decisions: pods are decided in sequence, and each decision is applied (a placement is assumed, as in the live
scheduler); both the time of the decisions alone and that of the whole loop are kept. Rules: each filter and score is evaluated over all
nodes without a cache; in a running scheduler it is evaluated over one or two rows at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

import numpy as np
import typer
from msgspec import Struct

from wharfinger.cli import chosen_policies, options, streams
from wharfinger.errors import UsageError
from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.extension import FilterPlugin, ScorePlugin
from wharfinger.framework.prepared import Attempt, PreparedFilter, Shared, Skip
from wharfinger.language.report import wording
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate import cluster, workloads

ALL = slice(None)
REPEATS = 5

Clock = Callable[[], int]

Family = Enum("Family", {name: name for name in workloads.FAMILIES})  # type: ignore[misc]  # the names are known at run time only


def wharf_bench(  # noqa: PLR0913, PLR0917 — one parameter per flag
    policy: options.Policies = None,
    nodes: Annotated[int, typer.Option("--nodes", metavar="N", min=1, max=1_000_000, help="Nodes of the generated cluster.")] = 5000,
    pods: Annotated[int, typer.Option("--pods", metavar="N", min=1, max=10_000_000, help="Pods to place.")] = 10_000,
    running: Annotated[
        int, typer.Option("--running", metavar="N", min=0, max=10_000_000, help="Running pods of the generated cluster.")
    ] = 0,
    family: Annotated[Family, typer.Option("--family", help="The kind of constraints of the pods.")] = Family["basic"],
    templates: Annotated[
        int, typer.Option("--templates", metavar="N", min=1, max=100_000, help="The number of different pod templates.")
    ] = 1,
    snapshot: Annotated[
        list[str] | None, typer.Option("--snapshot", "-s", metavar="FILE", help="Place the pending pods of this snapshot instead.")
    ] = None,
    param: options.Params = None,
    config: options.Config = None,
    scheduler_name: options.SchedulerName = None,
    output: options.TextOrJson = "text",
) -> int:
    """Measure decisions per second, and the time of each rule over all nodes.

    $ wharf bench --nodes 5000 --pods 10000 --policy policies/
    """
    chain = assemble(chosen_policies.compiled(policy, param), chosen_policies.chosen(config, scheduler_name))
    size = workloads.Size(nodes=nodes, pods=pods, running=running, templates=templates)
    found = measure(chain, _workload_of_snapshot(snapshot) if snapshot else workloads.workload(family.value, size))
    streams.out(_table(found) if output == "text" else streams.json_text(_plain(found)))
    return 0


def _workload_of_snapshot(paths: list[str]) -> workloads.Workload:
    found = cluster.load_cluster(paths)
    if not found.pending:
        raise UsageError("the snapshot has no pending pods to measure with; leave --snapshot out to generate a cluster")
    return workloads.Workload(state=found.state, pods=tuple(found.pending))


def _plain(found: Measurement) -> dict[str, Any]:
    return {
        "decisionsPerSecond": round(found.decisions_per_second, 1),
        "microsecondsPerDecision": round(found.microseconds_per_decision, 2),
        "placementsPerSecond": round(found.placements_per_second, 1),
        "nodes": found.nodes,
        "pods": found.pods,
        "placed": found.placed,
        "templates": found.templates,
        "seconds": round(found.seconds, 6),
        "rules": [{"rule": rule.rule, "point": rule.point, "microseconds": _rounded(rule)} for rule in found.rules],
    }


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


class RuleTime(Struct, frozen=True, kw_only=True):
    """One filter or score: the least time of some runs over all nodes; None where it skips the pod."""

    rule: str
    point: str
    microseconds: float | None


class Measurement(Struct, frozen=True, kw_only=True):
    """The figures of a run. `seconds` is the whole loop, `deciding_seconds` the part spent in decisions; the rest is placing the pods."""

    nodes: int
    pods: int
    templates: int
    placed: int
    seconds: float
    deciding_seconds: float
    rules: tuple[RuleTime, ...]

    @property
    def decisions_per_second(self) -> float:
        """Decisions per second of deciding."""
        return self.pods / self.deciding_seconds if self.deciding_seconds else 0.0

    @property
    def microseconds_per_decision(self) -> float:
        """The mean time of a decision, the first of each template included."""
        return 1e6 * self.deciding_seconds / self.pods if self.pods else 0.0

    @property
    def placements_per_second(self) -> float:
        """Pods decided and assumed per second of the whole loop."""
        return self.pods / self.seconds if self.seconds else 0.0


def measure(chain: Chain, work: workloads.Workload, clock: Clock = time.perf_counter_ns) -> Measurement:
    """Decide the pods of a workload in their order and measure; its state is left after the last decision."""
    state, pods = work.state, work.pods
    rules = _rules(chain, state.snapshot(), pods[0], clock) if pods else ()
    templates = len({pod.template for pod in pods})
    decider = Decider(chain)
    placed = deciding = 0
    started = clock()
    for pod in pods:
        before = clock()
        decision = decider.decide(state.snapshot(), pod)
        deciding += clock() - before
        placed += decision.node is not None or decision.nominated is not None
        work.after_decision(state, pod, decision)
    return Measurement(
        nodes=state.snapshot().n_nodes,
        pods=len(pods),
        templates=templates,
        placed=placed,
        seconds=(clock() - started) / 1e9,
        deciding_seconds=deciding / 1e9,
        rules=rules,
    )


def _rules(chain: Chain, snapshot: Snapshot, pod: PodView, clock: Clock) -> tuple[RuleTime, ...]:
    pod_rules = chain.pod_rules(pod, snapshot)
    filters = [_filter_time(plugin, pod, snapshot, clock) for plugin in pod_rules.filters]
    return (*filters, *(_score_time(term.plugin, pod, snapshot, clock) for term in pod_rules.scores))


def _filter_time(plugin: FilterPlugin, pod: PodView, snapshot: Snapshot, clock: Clock) -> RuleTime:
    def run() -> bool:
        answer = plugin.prepare_filter(Attempt(pod, snapshot, Shared()))
        if not isinstance(answer, PreparedFilter) or answer.nodes is not None:
            return False
        answer.bits(snapshot, ALL)
        return True

    return RuleTime(rule=plugin.name, point="filter", microseconds=_least(run, clock))


def _score_time(plugin: ScorePlugin, pod: PodView, snapshot: Snapshot, clock: Clock) -> RuleTime:
    everything = np.ones(snapshot.n_nodes, np.bool_)

    def run() -> bool:
        answer = plugin.prepare_score(Attempt(pod, snapshot, Shared()), everything)
        if isinstance(answer, Skip):
            return False
        answer.raw(snapshot, ALL)
        return True

    return RuleTime(rule=plugin.name, point="score", microseconds=_least(run, clock))


def _least(run: Callable[[], bool], clock: Clock) -> float | None:
    """The least time of some runs in microseconds; None as soon as a run returns False: there was nothing to do."""
    times = []
    for _ in range(REPEATS):
        started = clock()
        if not run():
            return None
        times.append(clock() - started)
    return min(times) / 1e3
