"""A remembered evaluation that was brought up to date says exactly what a fresh one says, whatever happened to the cluster in between."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.property import clusters
from wharfinger.framework import chain, cycle, registry
from wharfinger.framework.decision import Decision
from wharfinger.framework.extension import FilterPlugin, ScorePlugin
from wharfinger.framework.normalization import DefaultNormalize
from wharfinger.framework.verdict import SKIP, NodeSet, Reason, Rejected, Verdicts, single
from wharfinger.language.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.pod import PodView


class Cordoned(FilterPlugin):
    name = "Cordoned"
    filter_volatility = Volatility.STATIC

    def filter(self, cycle, pod, snapshot, rows):
        return single(Reason("cordoned", resolvable=False), snapshot.unschedulable[rows])


class Crowded(FilterPlugin):
    name = "Crowded"
    filter_volatility = Volatility.ROW

    def filter(self, cycle, pod, snapshot, rows):
        crowd = snapshot.pod_count[rows]
        return Verdicts((Reason("three"), Reason("even", resolvable=False)), ((crowd == 3) + 2 * (crowd == 2)).astype(np.uint8))


class Moody(FilterPlugin):
    """Every answer that PreFilter can give, depending on how many pods there are in all."""

    name = "Moody"

    def pre_filter(self, cycle, pod, snapshot):
        total = int(snapshot.pod_count.sum())
        moods = [
            SKIP,
            None,
            Rejected((Reason("bad day"),)),
            NodeSet(frozenset(clusters.NODE_NAMES[:2])),
            Rejected((Reason("never", resolvable=False),)),
        ]
        cycle[self.name] = total
        return moods[total % 7] if total % 7 < len(moods) else None

    def filter(self, cycle, pod, snapshot, rows):
        limit = cycle[self.name] // 2
        return single(Reason("above the mean"), snapshot.pod_count[rows] > limit)


class Patient(FilterPlugin):
    """A GLOBAL filter that knows which rows a change concerns, and whose reasons change with the pods."""

    name = "Patient"

    def filter(self, cycle, pod, snapshot, rows):
        reasons = (Reason("few") if snapshot.pod_count.max(initial=0) < 2 else Reason("many"),)
        return Verdicts(reasons, (snapshot.pod_count[rows] > 3).astype(np.uint16))

    def filter_changes(self, cycle, pod, snapshot, since):
        rows = snapshot.usage_changes(since)
        return rows if len(rows) else None


class Disks(ScorePlugin):
    name = "Disks"
    score_volatility = Volatility.STATIC
    normalization = DefaultNormalize()

    def score(self, cycle, pod, snapshot, rows):
        return 3 * (snapshot.label("disk")[rows] >= 0) + 2 * (snapshot.label(clusters.ZONE)[rows] >= 0)


class Emptier(ScorePlugin):
    name = "Emptier"
    score_volatility = Volatility.ROW
    normalization = DefaultNormalize(reverse=True)

    def score(self, cycle, pod, snapshot, rows):
        return snapshot.pod_count[rows].copy()


class Points(ScorePlugin):
    name = "Points"
    score_volatility = Volatility.ROW
    default_weight = 7

    def score(self, cycle, pod, snapshot, rows):
        return np.maximum(0, 100 - snapshot.nonzero[0][rows] // 50)


class Crowds(ScorePlugin):
    """A GLOBAL score that depends on the feasible set and sometimes has nothing to say."""

    name = "Crowds"
    normalization = DefaultNormalize()

    def pre_score(self, cycle, pod, snapshot, feasible):
        cycle[self.name] = int(np.count_nonzero(feasible))
        return SKIP if cycle[self.name] == 3 else None

    def score(self, cycle, pod, snapshot, rows):
        return snapshot.pod_count[rows] * cycle[self.name]


class Neighbours(ScorePlugin):
    """A GLOBAL score that knows when nothing has changed for it."""

    name = "Neighbours"

    def score(self, cycle, pod, snapshot, rows):
        found = snapshot.selection("app a", lambda other: other.labels.get("app") == "a").in_domain(clusters.ZONE)
        return np.clip(np.nan_to_num(found, nan=0.0)[rows], 0, 100).astype(np.int64)

    def score_changes(self, cycle, pod, snapshot, since, flipped):
        unchanged = not len(snapshot.usage_changes(since)) and not len(snapshot.node_changes(since))
        return None if unchanged else slice(None)


LOCAL = [Cordoned, Crowded, Disks, Emptier, Points]
GLOBAL = [Patient, Crowds, Neighbours]


def chain_of(plugins: list[Any]) -> chain.Chain:
    return chain.assemble(registry=registry.Registry([("this test", plugin) for plugin in plugins]))


CHAINS = [chain_of(LOCAL), chain_of([*LOCAL, *GLOBAL]), chain_of([*LOCAL, *GLOBAL, Moody]), chain.assemble()]


def told(decision: Decision) -> dict[str, Any]:
    """Everything that a decision says, by name."""
    return {
        "outcome": (decision.node, decision.feasible, decision.n_nodes, decision.ties, decision.message, decision.totals, decision.margin),
        "filters": decision.diagnosis.filters,
        "unresolvable": decision.diagnosis.unresolvable.tolist(),
        "feasible": decision.feasible_nodes(),
        "ranking": decision.ranking(9),
        "rejections": {name: decision.rejections_at(name) for name in decision.snapshot.names},
        "scores": {name: decision.scores_at(name) for name in decision.snapshot.names} if decision.feasible else {},
    }


class Remembering(RuleBasedStateMachine):
    """Any change to the cluster, then the same questions to one that remembers and one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.deciders = [cycle.Decider(each) for each in CHAINS]
        self.askers: list[PodView] = []
        self.started = 0

    @initialize(
        pods=st.lists(clusters.pods(st.just("asker")), min_size=1, max_size=2), nodes=st.lists(clusters.nodes(), min_size=3, max_size=8)
    )
    def begin(self, pods: list[objects.Pod], nodes: list[objects.Node]) -> None:
        self.askers = [PodView(pod) for pod in pods]
        for node in nodes:
            self.state.add_node(node)

    @rule(node=clusters.nodes())
    def add_or_update_node(self, node: objects.Node) -> None:
        self.state.add_node(node)

    @precondition(lambda self: self.state.snapshot().n_nodes)
    @rule(draw=st.data())
    def update_node(self, draw: st.DataObject) -> None:
        names = sorted(self.state.snapshot().names)
        self.state.add_node(draw.draw(clusters.nodes(st.sampled_from(names))))

    @rule(name=st.sampled_from(clusters.NODE_NAMES))
    def remove_node(self, name: str) -> None:
        self.state.remove_node(name)

    @precondition(lambda self: self.state.snapshot().n_nodes)
    @rule(draw=st.data(), count=st.integers(1, 3))
    def start_pods(self, draw: st.DataObject, count: int) -> None:
        name = draw.draw(st.sampled_from(sorted(self.state.snapshot().names)))
        for _ in range(count):
            self.started += 1
            self.state.add_pod(draw.draw(clusters.pods(st.just(f"started-{self.started}"), node_name=name)))

    @rule(pods=st.lists(st.sampled_from(clusters.NODE_NAMES).flatmap(lambda name: clusters.pods(node_name=name)), min_size=1, max_size=4))
    def add_pods(self, pods: list[objects.Pod]) -> None:
        for pod in pods:
            self.state.add_pod(pod)

    @rule(pod=clusters.pods())
    def remove_pod(self, pod: objects.Pod) -> None:
        self.state.remove_pod(pod)

    @rule(pod=clusters.pods())
    def place(self, pod: objects.Pod) -> None:
        view = PodView(pod)
        decision = self.deciders[0].decide(self.state.snapshot(), view)
        if decision.node is not None and not self.state.is_placed(view.uid):
            self.state.assume(view, decision.node)

    @invariant()
    def both_say_the_same(self) -> None:
        for decider in self.deciders:
            for pod in self.askers:
                snapshot = self.state.snapshot()
                assert told(decider.decide(snapshot, pod)) == told(cycle.decide(decider.chain, snapshot, pod))


TestRemembering = Remembering.TestCase
TestRemembering.settings = settings(max_examples=50, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
