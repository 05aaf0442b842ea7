"""Frequent changes leak no memory: texts, taints, keys of labels and topologies."""

from __future__ import annotations

import gc

import msgspec
import pytest

from tests.unit.framework import fleet
from wharfinger.framework import chain
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.model import objects
from wharfinger.model.columns import arrays, domains, node_table, resource_table
from wharfinger.model.objects.requests import NATIVE
from wharfinger.model.state.cluster_state import ClusterState

NODES = [f"n{number}" for number in range(60)]
POLICY = """
policy "reserved"
filter mine { require (node.annotations["until"] ?? "x") != "never" else "reserved" }
score late weight 1 = if matches_regex(node.annotations["until"] ?? "", "[0-4]$") then 100 else 0
filter by_name { reject node.annotations["until"] == pod.labels["run"] else "no" on missing pass }
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(node_table, "SPARE_CODES", 200)
    monkeypatch.setattr(arrays, "MAX_KEYS", 20)
    monkeypatch.setattr(domains, "MAX_KEYS", 10)
    monkeypatch.setattr(resource_table, "SPARE_LANES", 20)


def changed(node: objects.Node, moment: int) -> objects.Node:
    metadata = msgspec.structs.replace(node.metadata, annotations={"until": f"{node.metadata.name} at {moment}"})
    taints = (objects.Taint(key="seen", value=str(moment), effect="PreferNoSchedule"),)
    return msgspec.structs.replace(node, metadata=metadata, spec=msgspec.structs.replace(node.spec, taints=taints))


def turn(state: ClusterState, decider: Decider, moment: int) -> None:
    """Change every node, and ask about a pod of a new template."""
    for name in NODES:
        state.add_node(changed(fleet.node(name), moment))
    decision = decider.decide(state.snapshot(float(moment)), fleet.pod(labels={"run": str(moment)}))
    assert decision.node is not None


def test_texts_and_taints_do_not_accumulate():
    state, decider = fleet.state(*NODES), Decider(chain.assemble([fleet.policy(POLICY)]))
    strings, taints = [], []
    for moment in range(60):
        turn(state, decider, moment)
        strings.append(len(state.snapshot().strings))
        taints.append(len(state._tables.nodes.taints))
    assert max(strings) <= 2 * (2 * len(NODES) + 100) + 200  # twice what is alive, and the spare; 3,600 were made
    assert max(taints) < 300
    assert max(strings[30:]) <= max(strings[:30])


def test_texts_of_pods_do_not_accumulate():
    """Each pod asks for another label, of which every node has a value of its own; no node changes."""
    names = [f"n{number}" for number in range(20)]
    state = fleet.state(*(fleet.node(name, labels={f"key-{n}": f"{name}-{n}" for n in range(80)}) for name in names))
    strings, decider = [], Decider(chain.assemble())
    for number in range(80):
        pod = fleet.pod(f"p{number}", cpu="1m")
        spec = msgspec.structs.replace(pod.object.spec, node_selector={f"key-{number}": f"n3-{number}"})
        pod = type(pod)(msgspec.structs.replace(pod.object, spec=spec))
        assert decider.decide(state.snapshot(float(number)), pod).node == "n3"
        state.add_pod(pod.placed_on("n3"))
        strings.append(len(state.snapshot().strings))
    assert max(strings) <= 2 * 20 * (arrays.MAX_KEYS + 1) + 200 + 20


def test_keys_that_pods_read_once_do_not_accumulate():
    state, decider = fleet.state(*NODES), Decider(chain.assemble())
    for number in range(100):
        constraint = objects.TopologySpreadConstraint(topology_key=f"key-{number}", when_unsatisfiable="ScheduleAnyway", max_skew=1)
        pod = fleet.pod(f"p{number}")
        spec = msgspec.structs.replace(pod.object.spec, topology_spread_constraints=(constraint,), node_selector={f"own-{number}": "x"})
        decider.decide(state.snapshot(float(1000 * number)), type(pod)(msgspec.structs.replace(pod.object, spec=spec)))
    gc.collect()
    nodes = state._tables.nodes
    assert len(nodes.labels.in_use) <= 20
    assert len(nodes.topologies._by_key) <= 12
    assert len(nodes.rows.columns) < 60


def test_a_topology_in_use_is_kept_up_to_date():
    state = fleet.state(fleet.node("a", labels={"zone": "x"}), fleet.node("b", labels={"zone": "y"}))
    held = state.snapshot().topology("zone")
    for number in range(30):
        state.snapshot().topology(f"key-{number}")
    state.add_node(fleet.node("c", labels={"zone": "y"}))
    state.remove_node("a")
    assert state.snapshot().topology("zone") is held
    assert held.ids.tolist() == [held.domain_of(state.snapshot().strings.find("y"))] * 2


DEVICES = """
policy "devices"
filter kept { require (node.free["example.com/kept"] ?? 1) >= 0 else "overcommitted" }
score gone weight 1 = min(100, node.allocatable["example.com/a-3"] ?? 7)
score left weight 1 = 100 - min(100, node.requested["example.com/kept"])
"""


def offering(name: str, **devices: str) -> objects.Node:
    """A node that has that many of each `example.com/…` device."""
    plain = fleet.node(name, cpu="64")
    offer = {**plain.status.allocatable, **{f"example.com/{device.replace('_', '-')}": amount for device, amount in devices.items()}}
    return msgspec.structs.replace(plain, status=objects.NodeStatus(allocatable=offer, capacity=offer))


def asking(name: str, **devices: str):
    plain = fleet.pod(name)
    container = plain.object.spec.containers[0]
    asked = {**container.resources.requests, **{f"example.com/{device.replace('_', '-')}": amount for device, amount in devices.items()}}
    container = msgspec.structs.replace(container, resources=objects.ContainerResources(requests=asked))
    spec = msgspec.structs.replace(plain.object.spec, containers=(container,))
    return type(plain)(msgspec.structs.replace(plain.object, spec=spec))


def resource_columns(state: ClusterState):
    """Everything that is kept of resources, by name, without those that no object names."""
    table = state._tables.nodes.resources
    columns = {name: [column.view[lane].tolist() for column in table._by_lane] for name, lane in table.index.items()}
    return {name: found for name, found in columns.items() if any(map(any, found)) or name in NATIVE}


def test_names_of_unused_resources_do_not_accumulate():
    state = fleet.state(*(offering(f"n{number}", kept="8") for number in range(4)))
    asked_too_much = asking("huge", beyond="7Ei")  # more than a sum shows, so that it is remembered beside it
    state.add_pod(asked_too_much.placed_on("n3"))
    state.add_pod(asking("huge-2", beyond="7Ei").placed_on("n3"))
    policies = [fleet.policy(DEVICES)]
    decider, lanes = Decider(chain.assemble(policies)), []
    for moment in range(120):
        state.add_node(offering(f"n{moment % 3}", **{"kept": "8", f"a_{moment}": "4"}))
        stranger = asking(f"s{moment}", **{f"b_{moment}": "1"}).placed_on("n1")  # bound by another scheduler
        state.add_pod(stranger)
        if moment % 2:
            state.remove_pod(stranger)
        pod = asking(f"p{moment}", kept="1", **{f"a_{moment}": "1"})
        kept = decider.decide(state.snapshot(float(moment)), pod)
        fresh = decide(chain.assemble(policies), state.snapshot(float(moment)), pod)
        assert (kept.node, kept.totals, kept.message) == (fresh.node, fresh.totals, fresh.message)
        assert kept.node == f"n{moment % 3}"
        lanes.append(len(state.snapshot().resource_names))
        if moment % 20 == 19:
            state.remove_pod(asking(f"s{moment - 1}"))
    assert resource_columns(state) == resource_columns(rebuilt(state))
    alive = len(resource_columns(state))
    assert max(lanes) <= 2 * alive + resource_table.SPARE_LANES + 2
    state.remove_pod(asking("huge-2"))
    table = state._tables.nodes.resources
    assert table.requested.view[table.index["example.com/beyond"], state.snapshot().row("n3")] == resource_table.MAX_AMOUNT


def rebuilt(state: ClusterState) -> ClusterState:
    """The same nodes and pods in a state that never saw others."""
    tables = state._tables
    twin = fleet.state(*tables.nodes.objects)
    for row, placements in enumerate(tables.pods.by_row):
        for placement in placements.values():
            twin.add_pod(placement.pod.placed_on(tables.nodes.names[row]))
    return twin
