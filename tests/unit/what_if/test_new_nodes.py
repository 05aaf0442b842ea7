"""New nodes are ready copies of their model, with what runs on every node."""

import msgspec
import pytest

from wharfinger.errors import UnknownObject
from wharfinger.model import objects
from wharfinger.model.node_labels import HOSTNAME
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.what_if.supposed_changes import nodes_like

MODEL = {
    "metadata": {"name": "gpu-7", "labels": {HOSTNAME: "gpu-7", "pool": "gpu"}},
    "spec": {
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoSchedule"}],
    },
    "status": {
        "allocatable": {"cpu": "8"},
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"}],
        "images": [{"names": ["web"], "sizeBytes": 5}],
    },
}


def placed(name, **metadata):
    return msgspec.convert({"metadata": {"name": name, "namespace": "x", **metadata}, "spec": {"nodeName": "gpu-7"}}, objects.Pod)


@pytest.fixture
def snapshot():
    state = ClusterState()
    state.add_node(msgspec.convert(MODEL, objects.Node))
    state.add_pod(placed("agent-1", ownerReferences=[{"kind": "DaemonSet", "name": "agent", "controller": True}]))
    state.add_pod(placed("proxy", annotations={"kubernetes.io/config.mirror": "x"}))
    state.add_pod(placed("web", ownerReferences=[{"kind": "ReplicaSet", "name": "web", "controller": True}]))
    state.put(
        objects.CSINode(metadata=objects.ObjectMeta(name="gpu-7"), spec=objects.CSINodeSpec(drivers=(objects.CSINodeDriver(name="d"),)))
    )
    return state.snapshot()


def test_a_new_node_is_like_its_model_but_ready(snapshot):
    (new,) = nodes_like(snapshot, "gpu-7")
    assert new.name == "gpu-7-new-1"
    assert new.node.metadata.labels == {HOSTNAME: "gpu-7-new-1", "pool": "gpu"}
    assert [taint.key for taint in new.node.spec.taints] == ["gpu"]
    assert not new.node.spec.unschedulable
    assert {found.type: found.status for found in new.node.status.conditions} == {"Ready": "True", "DiskPressure": "False"}
    assert (new.node.status.allocatable, new.node.status.images) == ({"cpu": "8"}, ())
    assert [driver.name for driver in new.drivers.spec.drivers] == ["d"]


def test_daemon_pods_run_on_a_new_node(snapshot):
    (new,) = nodes_like(snapshot, "gpu-7")
    assert [(pod.name, pod.node_name) for pod in new.pods] == [("agent-1-gpu-7-new-1", new.name), ("proxy-gpu-7-new-1", new.name)]
    assert not {pod.uid for pod in new.pods} & {pod.uid for pod in snapshot.pods_on(0)}


def test_names_are_free(snapshot):
    assert [new.name for new in nodes_like(snapshot, "gpu-7", 2, {"gpu-7-new-1"})] == ["gpu-7-new-2", "gpu-7-new-3"]


def test_an_unknown_model_is_refused_with_the_nearest_name(snapshot):
    with pytest.raises(UnknownObject, match="there is no node gpu-8; did you mean gpu-7"):
        nodes_like(snapshot, "gpu-8")
