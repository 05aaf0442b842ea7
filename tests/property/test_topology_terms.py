"""Spread and affinity, counted incrementally as pods and nodes change, equal a recount of every pod by the plain rules."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property import topologies
from tests.property import topology_reference as reference
from wharfinger.framework import chain
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.prepared import Attempt, Shared, Skip
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot

CHAIN = chain.assemble(config=ChainConfig(disabled={"DefaultPreemption"}))
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def clusters(draw: st.DrawFn) -> ClusterState:
    """A state in which selections have been read in between, so that later changes are followed rather than counted."""
    state = ClusterState()
    for name in draw(st.lists(st.sampled_from(topologies.NODE_NAMES), min_size=1, max_size=6, unique=True)):
        state.add_node(draw(topologies.nodes(name)))
    for other in draw(st.lists(topologies.others, max_size=3)):
        state.put(other)
    return state


def come_and_go(data: st.DataObject, state: ClusterState, watched: PodView) -> None:
    """Some pods and nodes come, change and go; the pod is decided in between."""
    for _ in range(data.draw(st.integers(1, 6))):
        cycle.decide(CHAIN, state.snapshot(), watched)
        for name in data.draw(st.lists(st.sampled_from(topologies.POD_NAMES), max_size=4, unique=True)):
            if data.draw(st.integers(0, 3)):
                state.add_pod(data.draw(topologies.pods(name, node_name=data.draw(st.sampled_from(topologies.NODE_NAMES)))))
            else:
                state.remove_pod(data.draw(topologies.pods(name)))
        if not data.draw(st.integers(0, 4)):
            state.add_node(data.draw(topologies.nodes()))


def world_of(snapshot: Snapshot) -> reference.World:
    store = snapshot.objects
    views = [snapshot.node(row) for row in range(snapshot.n_nodes)]
    return reference.World(
        nodes=[view.object for view in views],
        pods_on={view.object.metadata.name: [pod.object for pod in view.pods] for view in views},
        namespaces={each.metadata.name: each.metadata.labels for each in store.all(objects.Namespace)},
        services=store.all(objects.Service),
    )


def rejections(name: str, pod: PodView, snapshot: Snapshot) -> dict[str, str]:
    """The result of a filter for each node by itself; at most one reason each."""
    plugin: Any = CHAIN.plugin(name)
    rule = plugin.prepare_filter(Attempt(pod, snapshot, Shared()))
    if isinstance(rule, Skip):
        return dict.fromkeys(snapshot.names, "")
    return {
        node: "".join(reason.text for index, reason in enumerate(rule.reasons) if bits >> index & 1)
        for node, bits in zip(snapshot.names, rule.bits(snapshot, slice(None)).tolist(), strict=True)
    }


def points(name: str, decision: Any) -> dict[str, int] | None:
    found = {node: [part.points for part in decision.scores_at(node) if part.name == name] for node in decision.feasible_nodes()}
    return None if not any(found.values()) else {node: int(parts[0]) for node, parts in found.items()}


@SETTINGS
@given(state=clusters(), pending=topologies.pods("new"), data=st.data())
def test_filters_and_points_are_those_of_a_recount(state, pending, data):
    pod = PodView(pending)
    come_and_go(data, state, pod)
    snapshot = state.snapshot()
    world = world_of(snapshot)
    named = {node.metadata.name: node for node in world.nodes}
    assert rejections("PodTopologySpread", pod, snapshot) == {
        name: reference.spread_filter(world, pending, node) for name, node in named.items()
    }
    assert rejections("InterPodAffinity", pod, snapshot) == {
        name: reference.affinity_filter(world, pending, node) for name, node in named.items()
    }
    decision = cycle.decide(CHAIN, snapshot, pod)
    feasible = [named[name] for name in decision.feasible_nodes()]
    if feasible:
        assert points("PodTopologySpread", decision) == reference.spread_points(world, pending, feasible)
        assert points("InterPodAffinity", decision) == reference.affinity_points(world, pending, feasible)
