"""What changes all the time leaves nothing behind: texts, taints, keys of labels and topologies."""

from __future__ import annotations

import gc

import msgspec
import pytest

from tests.unit.framework import fleet
from wharfinger.framework import chain
from wharfinger.framework.cycle import Decider
from wharfinger.model import keyed, node_table, objects, topology
from wharfinger.model.cluster_state import ClusterState

NODES = [f"n{number}" for number in range(60)]
POLICY = """
policy "reserved"
filter mine { require (node.annotations["until"] ?? "x") != "never" else "reserved" }
score late weight 1 = if matches_regex(node.annotations["until"] ?? "", "[0-4]$") then 100 else 0
filter by_name { reject node.annotations["until"] == pod.labels["run"] else "no" on missing pass }
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(node_table, "SPARE", 200)
    monkeypatch.setattr(keyed, "MOST_KEYS", 20)
    monkeypatch.setattr(topology, "MOST_KEYS", 10)


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


def test_texts_and_taints_do_not_pile_up():
    state, decider = fleet.state(*NODES), Decider(chain.assemble([fleet.policy(POLICY)]))
    strings, taints = [], []
    for moment in range(60):
        turn(state, decider, moment)
        strings.append(len(state.snapshot().strings))
        taints.append(len(state._tables.nodes.taints))
    assert max(strings) <= 2 * (2 * len(NODES) + 100) + 200  # twice what is alive, and the spare; 3,600 were made
    assert max(taints) < 300
    assert max(strings[30:]) <= max(strings[:30])


def test_keys_that_pods_ask_for_once_do_not_pile_up():
    state, decider = fleet.state(*NODES), Decider(chain.assemble())
    for number in range(100):
        constraint = objects.TopologySpreadConstraint(topology_key=f"key-{number}", when_unsatisfiable="ScheduleAnyway", max_skew=1)
        pod = fleet.pod(f"p{number}")
        spec = msgspec.structs.replace(pod.object.spec, topology_spread_constraints=(constraint,), node_selector={f"own-{number}": "x"})
        decider.decide(state.snapshot(float(1000 * number)), type(pod)(msgspec.structs.replace(pod.object, spec=spec)))
    gc.collect()
    nodes = state._tables.nodes
    assert len(nodes.labels.columns) <= 20
    assert len(nodes.topologies._by_key) <= 12
    assert len(nodes.rows.columns) < 60


def test_a_topology_that_somebody_holds_is_kept_up_to_date():
    state = fleet.state(fleet.node("a", labels={"zone": "x"}), fleet.node("b", labels={"zone": "y"}))
    held = state.snapshot().topology("zone")
    for number in range(30):
        state.snapshot().topology(f"key-{number}")
    state.add_node(fleet.node("c", labels={"zone": "y"}))
    state.remove_node("a")
    assert state.snapshot().topology("zone") is held
    assert held.ids.tolist() == [held.domain_of(state.snapshot().strings.find("y"))] * 2
