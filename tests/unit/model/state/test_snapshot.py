"""A snapshot is read-only, and follows ports, images, taints and labels of nodes."""

import pickle

import numpy as np
import pytest

from tests.unit.model import clusters
from wharfinger.errors import StaleSnapshot
from wharfinger.model import objects


def test_a_snapshot_is_refused_once_the_state_has_moved_on():
    cluster = clusters.state(["a"])
    snapshot = cluster.snapshot()
    assert snapshot.n_nodes == 1
    cluster.add_node(clusters.node("b"))
    for read in (lambda: snapshot.n_nodes, lambda: snapshot.requested, lambda: snapshot.label("zone"), lambda: snapshot.pods_on(0)):
        with pytest.raises(StaleSnapshot, match="revision 1"):
            read()


def test_a_detached_snapshot_lives_on():
    cluster = clusters.state(["a", "b"], [clusters.pod("web", "b", cpu=1)])
    snapshot = cluster.snapshot().detach()
    cluster.remove_node("b")
    assert list(snapshot.names) == ["a", "b"]
    assert snapshot.requested[0].tolist() == [0, 1000]
    assert [pod.name for pod in snapshot.pods_on(1)] == ["web"]


@pytest.mark.parametrize(
    "name",
    [
        "allocatable",
        "capacity",
        "requested",
        "has_allocatable",
        "nonzero",
        "pod_count",
        "allowed_pods",
        "unschedulable",
        "taint_set",
    ],
)
def test_columns_cannot_be_written_to(name):
    column = getattr(clusters.state(["a"]).snapshot(), name)
    with pytest.raises(ValueError, match="read-only"):
        column[..., 0] = 1


def test_counts_cannot_be_written_to():
    selection = clusters.state(["a"]).snapshot().selection("all", lambda _: True)
    for counts in (selection.by_node, selection.by_domain("zone"), selection.in_domain("zone")):
        with pytest.raises(ValueError, match="read-only"):
            counts[...] = 1


def test_a_snapshot_cannot_be_pickled():
    with pytest.raises(TypeError, match="live tables"):
        pickle.dumps(clusters.state(["a"]).snapshot())


def test_an_extended_resource_gets_the_next_place():
    snapshot = clusters.state(["a", clusters.node("b", **{"nvidia.com/gpu": 8})]).snapshot()
    place = snapshot.resource_index("nvidia.com/gpu")
    assert snapshot.resource_names[place] == "nvidia.com/gpu"
    assert snapshot.allocatable[place].tolist() == [0, 8]
    assert snapshot.has_allocatable[place].tolist() == [False, True]
    assert snapshot.resource_index("amd.com/gpu") is None


def test_a_pod_may_bring_a_resource_that_no_node_has():
    names = [f"example.com/{letter}" for letter in "abcdef"]
    cluster = clusters.state(["a"], [clusters.pod("web", "a", cpu=1, **dict.fromkeys(names, 3))])
    snapshot = cluster.snapshot()
    assert [int(snapshot.requested[snapshot.resource_index(name), 0]) for name in ("cpu", *names)] == [1000] + [3] * 6


def test_a_host_port_is_in_use_on_the_addresses_of_its_pods():
    cluster = clusters.state(["a", "b"], [clusters.pod("web", "b", host_port=80)])
    snapshot = cluster.snapshot()
    assert dict(snapshot.port_users("TCP", 80)) == {1: ("0.0.0.0",)}
    assert dict(snapshot.port_users("UDP", 80)) == {}


def test_ports_and_images_follow_a_node_that_moves_to_another_row():
    image = objects.ContainerImage(names=("nginx:1",), size_bytes=5)
    cluster = clusters.state(["a", "b", clusters.node("c", images=[image])], [clusters.pod("web", "c", host_port=80)])
    assert cluster.snapshot().image("nginx:1").rows.tolist() == [2]
    cluster.remove_node("a")
    snapshot = cluster.snapshot()
    row = snapshot.row("c")
    assert row == 0
    assert list(snapshot.port_users("TCP", 80)) == [row]
    assert snapshot.image("nginx:1").rows.tolist() == [row]
    assert snapshot.image("nginx:1").sizes.tolist() == [5]


def test_an_unknown_image_is_on_no_node():
    assert clusters.state(["a"]).snapshot().image("nginx:1").n_nodes == 0


def test_equal_taints_share_a_number():
    taint = objects.Taint(key="spot", effect="NoSchedule")
    tainted = [objects.Node(metadata=objects.ObjectMeta(name=name), spec=objects.NodeSpec(taints=(taint,))) for name in "ab"]
    snapshot = clusters.state([*tainted, "c"]).snapshot()
    assert snapshot.taint_set.tolist() == [1, 1, 0]
    assert snapshot.taints(1) == (taint,)
    assert snapshot.taints(0) == ()


def test_a_label_has_a_code_and_its_absence_has_none():
    cluster = clusters.state([clusters.node("a", {"disk": "ssd"}), clusters.node("b", {"disk": ""}), "c"])
    snapshot = cluster.snapshot()
    assert [snapshot.strings.text(code) for code in snapshot.label("disk").tolist()] == ["ssd", "", None]


def test_name_hashes_depend_on_the_name_alone():
    assert clusters.state(["a"]).snapshot().name_hashes[0] == clusters.state(["b", "a"]).snapshot().name_hashes[1]
    assert clusters.state(["a"]).snapshot().name_hashes.dtype == np.uint64


def test_changes_are_unknown_after_rows_have_moved():
    cluster = clusters.state(["a", "b"])
    before = cluster.revision
    cluster.remove_node("a")
    assert cluster.snapshot().node_changes(before) is None
    assert cluster.snapshot().usage_changes(before) is None
    assert cluster.snapshot().layout_revision > before


@pytest.mark.parametrize("placements", [1, 100, 2000])
def test_the_rows_that_changed_are_known_however_many_they_are(placements):
    cluster = clusters.state([f"node-{number}" for number in range(40)])
    before = cluster.revision
    pods = [clusters.view(f"pod-{number}") for number in range(placements)]
    for number, pod in enumerate(pods):
        cluster.assume(pod, f"node-{number % 20}")
    snapshot = cluster.snapshot()
    assert snapshot.usage_changes(before).tolist() == list(range(min(20, placements)))
    assert snapshot.node_changes(before).tolist() == []
    assert snapshot.usage_changes(snapshot.revision).tolist() == []


def test_unseen_requests_are_those_of_pods_that_started_after_the_sample():
    cluster = clusters.state(["a", "b"])
    cluster.set_metric("load", {"a": (0.5, 1_000.0)})
    assert cluster.snapshot().metric("other") is None
    assert cluster.snapshot().unseen("other") is None
    cluster.assume(clusters.view("assumed", cpu=1, memory=100), "a")
    cluster.assume(clusters.view("without-sample", cpu=1), "b")
    assert cluster.snapshot().unseen("load")["cpu"].tolist() == [1000.0, 0.0]
    cluster.add_pod(clusters.pod("old", "a", cpu=2, phase="Running"))
    assert cluster.snapshot().unseen("load")["cpu"].tolist() == [1000.0, 0.0]
    assert cluster.snapshot().unseen("load")["memory"].tolist() == [100.0, 0.0]
    cluster.forget(clusters.view("assumed"))
    assert cluster.snapshot().unseen("load")["cpu"].tolist() == [0.0, 0.0]


def test_the_first_name_that_has_samples_counts():
    cluster = clusters.state(["a"])
    cluster.set_metric("load", {"a": (0.1, 1.0)})
    assert cluster.snapshot().metric("signal", "policy.load", "load").values.tolist() == [0.1]
    cluster.set_metric("policy.load", {"a": (0.2, 1.0)})
    assert cluster.snapshot().metric("signal", "policy.load", "load").values.tolist() == [0.2]
    cluster.set_metric("signal", {})
    assert not cluster.snapshot().metric("signal", "policy.load", "load").present.any()
    cluster.drop_metric("signal")
    cluster.drop_metric("policy.load")
    assert cluster.snapshot().metric("signal", "policy.load", "load").values.tolist() == [0.1]
    assert cluster.snapshot().unseen("signal", "policy.load", "load") is not None
    assert cluster.snapshot().metric("signal") is None


def test_values_that_are_not_finite_are_no_samples():
    cluster = clusters.state(["a", "b"])
    cluster.set_metric("load", {"a": (float("nan"), 1.0), "b": (float("inf"), 1.0)})
    assert cluster.snapshot().metric("load").present.tolist() == [False, False]
