"""How fast a chain decides, and which of its rules the time goes to.

Two things are measured. Decisions: pods are decided one after another, and each decision is applied (a placement is assumed, as in the live
scheduler); both the time of the decisions alone and that of the whole loop are kept. Rules: each filter and score is evaluated over all
nodes without a cache; in a running scheduler it is evaluated over one or two rows at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.extension import FilterPlugin, ScorePlugin
from wharfinger.framework.prepared import Attempt, PreparedFilter, Shared, Skip
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate.workloads import Workload

ALL = slice(None)
REPEATS = 5

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTime:
    """One filter or score: the least time of some runs over all nodes; None where it skips the pod."""

    rule: str
    point: str
    microseconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
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


def measure(chain: Chain, work: Workload, clock: Clock = time.perf_counter_ns) -> Measurement:
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
    lineup = chain.lineup(pod, snapshot)
    filters = [_filter_time(plugin, pod, snapshot, clock) for plugin in lineup.filters]
    return (*filters, *(_score_time(term.plugin, pod, snapshot, clock) for term in lineup.scores))


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
