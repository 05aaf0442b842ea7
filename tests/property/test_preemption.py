"""Victims found by supposing that pods leave are those found by really taking them out of the cluster and asking again."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.property import topologies
from tests.property.topology_reference import namespace_of, selects
from wharfinger.framework import chain
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation import cycle
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

CHAIN = chain.assemble()
WITHOUT = chain.assemble(config=ChainConfig(disabled={"DefaultPreemption"}))


class Picture:
    """The parts of a cluster, so that it can be built again with fewer pods."""

    def __init__(
        self, nodes: list[objects.Node], pods: list[PodView], others: list[objects.AnyObject], nominated: list[tuple[PodView, str]]
    ) -> None:
        self.nodes, self.pods, self.others, self.nominated = nodes, pods, others, nominated

    def __repr__(self) -> str:
        shown = [msgspec.json.encode(obj).decode() for obj in (*self.nodes, *(pod.object for pod in self.pods), *self.others)]
        return "\n".join(
            [
                "Picture:",
                *shown,
                *(f"{pod.key} is nominated to {node}: {msgspec.json.encode(pod.object).decode()}" for pod, node in self.nominated),
            ]
        )

    def state(self, without: Iterable[PodView] = ()) -> ClusterState:
        gone = {pod.uid for pod in without}
        state = ClusterState()
        for obj in (*self.nodes, *self.others):
            state.put(obj)
        for pod in self.pods:
            if pod.uid not in gone:
                state.add_pod(pod)
        for pod, node in self.nominated:
            state.nominate(pod, node)
        return state

    def fits(self, pod: PodView, node: str, without: Iterable[PodView]) -> bool:
        """True if the node is feasible once some pods are gone."""
        return node in cycle.decide(WITHOUT, self.state(without).snapshot(), pod).feasible_nodes()

    def on(self, node: str) -> list[PodView]:
        return [pod for pod in self.pods if pod.node_name == node]


def importance(pod: PodView) -> tuple[int, float]:
    return -pod.priority, math.inf if pod.started is None else pod.started


def budgeted(picture: Picture, pods: list[PodView]) -> list[PodView]:
    """Those of the pods whose eviction one after the other breaks a budget."""
    budgets = [other for other in picture.others if isinstance(other, objects.PodDisruptionBudget)]
    latest = {(each.metadata.namespace, each.metadata.name): each for each in budgets}
    left = {key: each.status.disruptions_allowed for key, each in latest.items()}
    broken = []
    for pod in pods:
        mine = [
            key
            for key, each in latest.items()
            if each.metadata.namespace == namespace_of(pod.object)
            and pod.labels
            and each.spec.selector is not None
            and (each.spec.selector.match_labels or each.spec.selector.match_expressions)
            and selects(each.spec.selector, pod.labels)
        ]
        for key in mine:
            left[key] -= 1
        if any(left[key] < 0 for key in mine):
            broken.append(pod)
    return broken


def victims_on(picture: Picture, pod: PodView, node: str) -> tuple[tuple[object, ...], list[PodView]] | None:
    """The victims of freeing a node, and their cost; None if it cannot be freed."""
    lower = sorted((placed for placed in picture.on(node) if placed.priority < pod.priority), key=importance)
    if not lower or not picture.fits(pod, node, lower):
        return None
    violating = budgeted(picture, lower)
    gone = list(lower)
    for placed in [*violating, *(other for other in lower if other not in violating)]:
        rest = [other for other in gone if other is not placed]
        if picture.fits(pod, node, rest):
            gone = rest
    if not gone:
        return None
    highest = max(victim.priority for victim in gone)
    earliest = min(importance(victim)[1] for victim in gone if victim.priority == highest)
    violations = sum(1 for victim in gone if victim in violating)
    cost = (violations, highest, sum(victim.priority + 2**31 for victim in gone), len(gone), -earliest, node)
    return cost, gone


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    names = draw(st.lists(st.sampled_from(topologies.NODE_NAMES), min_size=1, max_size=4, unique=True))
    homes = st.sampled_from(names)
    staying = st.sampled_from(topologies.POD_NAMES).flatmap(lambda name: homes.flatmap(lambda home: topologies.pods(name, node_name=home)))
    pods = draw(st.lists(staying, max_size=8, unique_by=lambda pod: pod.metadata.name))
    guests = draw(st.lists(st.tuples(topologies.pods("guest"), homes), max_size=1))
    return Picture(
        nodes=[draw(topologies.nodes(name)) for name in names],
        # A pod that is on its way out already does not count for spreading, but Kubernetes subtracts it all the same when it is removed.
        pods=[PodView(pod) for pod in pods if pod.metadata.deletion_timestamp is None],
        others=draw(st.lists(topologies.others, max_size=4)),
        nominated=[(PodView(pod), home) for pod, home in guests],
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(picture=pictures(), pending=topologies.pods("new"))
def test_victims_are_those_of_really_removing_pods(picture, pending):
    pod = PodView(pending)
    decision = cycle.decide(CHAIN, picture.state().snapshot(), pod)
    assume(decision.node is None)
    found = [freed for node in picture.nodes if (freed := victims_on(picture, pod, node.metadata.name)) is not None]
    # What no removal of pods can change is not looked at again, so a node that is rejected for good is never freed.
    final = {name for name, rejected in zip(decision.snapshot.names, decision.diagnosis.unresolvable.tolist(), strict=True) if rejected}
    found = [freed for freed in found if freed[0][-1] not in final]
    if not found:
        assert (decision.nominated, decision.victims) == (None, ())
        # DynamicResources ends PostFilter where an earlier plugin's PreFilter has refused the pod: it has not looked at it.
        assert "preemption: " in decision.message or decision.message.endswith(" not found")
    else:
        cost, gone = min(found, key=lambda freed: freed[0])
        assert decision.nominated == cost[-1]
        assert sorted(victim.key for victim in decision.victims) == sorted(victim.key for victim in gone)
