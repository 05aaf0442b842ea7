"""No queueing hint skips a change that makes a rejected pod schedulable."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property import topologies
from tests.unit.framework import fleet
from wharfinger.framework.cluster_event import Change, node_added, node_updated, pod_changed, pod_placed, pod_removed
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.extension import GroupedHints
from wharfinger.framework.plugins.node_affinity import NodeAffinity
from wharfinger.framework.plugins.node_ports import NodePorts
from wharfinger.framework.plugins.node_resources import NodeResourcesFit
from wharfinger.framework.plugins.pods.inter_pod_affinity import InterPodAffinity
from wharfinger.framework.plugins.pods.pod_topology_spread import PodTopologySpread
from wharfinger.framework.plugins.taint_toleration import TaintToleration
from wharfinger.framework.plugins.volumes.volume_limits import VolumeRestrictions
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

FILTERS = [InterPodAffinity, PodTopologySpread, VolumeRestrictions, NodePorts, NodeAffinity, NodeResourcesFit, TaintToleration]
DEFAULTS = {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[ClusterState, list[objects.Node], dict[str, PodView]]:
    state = ClusterState()
    nodes = [draw(topologies.nodes(name)) for name in topologies.NODE_NAMES[: draw(st.integers(1, 4))]]
    for node in nodes:
        state.add_node(node)
    for other in draw(st.lists(topologies.others, max_size=3)):
        state.put(other)
    names = st.sampled_from([node.metadata.name for node in nodes])
    placed = {name: PodView(draw(pods(name, draw(names)))) for name in topologies.POD_NAMES[: draw(st.integers(0, 5))]}
    for pod in placed.values():
        state.add_pod(pod)
    return state, nodes, placed


@st.composite
def pods(draw: st.DrawFn, name: str, node_name: str = "") -> objects.Pod:
    """A pod of a topology that may take a port of the host too."""
    pod = draw(topologies.pods(name, node_name))
    ports = draw(st.sampled_from([(), (), (objects.ContainerPort(host_port=80),), (objects.ContainerPort(host_port=81),)]))
    containers = tuple(msgspec.structs.replace(container, ports=ports) for container in pod.spec.containers)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=containers))


def changed(draw: Any, state: ClusterState, nodes: list[objects.Node], placed: dict[str, PodView]) -> Change | None:
    """Something that happens to the cluster, with the change that the feed reports."""
    some_node = draw(st.sampled_from(nodes))
    kind = draw(st.sampled_from(["come", "go", "change", "add node", "update node"] if placed else ["come", "add node", "update node"]))
    if kind == "come":
        pod = PodView(draw(pods("newcomer", some_node.metadata.name)))
        state.add_pod(pod)
        return pod_placed(pod, pod.node_name)
    if kind == "add node":
        node = draw(topologies.nodes("another"))
        state.add_node(node)
        return node_added(node)
    if kind == "update node":
        node = draw(topologies.nodes(some_node.metadata.name))
        state.add_node(node)
        return node_updated(some_node, node)
    pod = placed[draw(st.sampled_from(sorted(placed)))]
    if kind == "go":
        state.remove_pod(pod)
        return pod_removed(pod, pod.node_name)
    metadata = msgspec.structs.replace(
        pod.object.metadata,
        labels=draw(topologies.labels),
        deletion_timestamp=draw(st.sampled_from([None, draw(pods("x")).metadata.deletion_timestamp])),
    )
    now = PodView(msgspec.structs.replace(pod.object, metadata=metadata))
    state.add_pod(now)
    return pod_changed(pod, now)


@pytest.mark.parametrize("kind", FILTERS, ids=lambda kind: kind.name)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(found=clusters(), asker=pods("asker").map(PodView), data=st.data())
def test_every_pod_that_fits_after_a_change_is_woken(kind: Any, found: Any, asker: PodView, data: st.DataObject):
    state, nodes, placed = found
    arguments = {kind.name: DEFAULTS} if kind is PodTopologySpread and data.draw(st.booleans()) else {}
    chain = fleet.chain_of(kind, **arguments)
    plugin = next(entry.plugin for entry in chain.entries)
    before = set(decide(chain, state.snapshot(), asker).feasible_nodes())
    if before:
        return  # no plugin rejected it
    change = changed(data.draw, state, nodes, placed)
    if change is None:
        return
    snapshot = state.snapshot()
    if decide(chain, snapshot, asker).feasible_nodes():
        assert plugin.wakes_on & change.events
        assert plugin.may_help(asker, change, snapshot), change
        if isinstance(plugin, GroupedHints):
            other = msgspec.structs.replace(
                asker.object.metadata, labels={**data.draw(topologies.labels), "rev": asker.labels.get("rev", "")}
            )
            alike = PodView(msgspec.structs.replace(asker.object, metadata=other))
            if plugin.hint_group(alike) == plugin.hint_group(asker):
                assert plugin.may_help_group(alike, change, snapshot), change
                assert not plugin.same_hints or plugin.may_help(alike, change, snapshot), change
