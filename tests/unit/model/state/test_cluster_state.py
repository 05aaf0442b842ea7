"""The transitions of a pod, expected and unexpected; tests/property/test_cluster_state.py tests the columns."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from tests.unit.model import clusters
from wharfinger.errors import InvalidObject, UnknownObject
from wharfinger.model import objects
from wharfinger.model.reading.files import Objects
from wharfinger.model.reading.snapshot_file import Sample
from wharfinger.model.state.cluster_state import ClusterState


def test_a_pod_goes_from_assumed_to_placed_to_gone():
    cluster = clusters.state(["a", "b"])
    pod = clusters.view("web", cpu=1)
    cluster.assume(pod, "a")
    assert cluster.is_assumed(pod.uid)
    assert clusters.requested(cluster, "a") == 1000
    cluster.add_pod(clusters.pod("web", "a", cpu=1))
    assert cluster.is_placed(pod.uid)
    assert not cluster.is_assumed(pod.uid)
    assert clusters.requested(cluster, "a") == 1000
    assert cluster.remove_pod(clusters.pod("web", "a", cpu=1))
    assert not cluster.is_placed(pod.uid)
    assert clusters.requested(cluster, "a") == 0


def test_an_assumed_pod_is_on_its_node():
    cluster = clusters.state(["a"])
    pod = clusters.view("web")
    cluster.assume(pod, "a")
    (placed,) = cluster.snapshot().pods_on(0)
    assert placed.node_name == "a"
    assert pod.node_name == ""


def test_forgetting_takes_back_an_assumption():
    cluster = clusters.state(["a"])
    pod = clusters.view("web", cpu=1)
    cluster.assume(pod, "a")
    assert cluster.forget(pod)
    assert clusters.requested(cluster, "a") == 0
    assert not cluster.forget(pod)


def test_a_placed_pod_is_not_forgotten():
    cluster = clusters.state(["a"], [clusters.pod("web", "a", cpu=1)])
    assert not cluster.forget(clusters.view("web"))
    assert clusters.requested(cluster, "a") == 1000


def test_a_pod_confirmed_with_labels_of_its_node_stays_and_has_them():
    cluster = clusters.state(["a"])
    cluster.assume(clusters.view("web", cpu=1, labels={"app": "web"}), "a")
    row_before = cluster.revision
    by_app = cluster.snapshot().tally("zones", lambda pod: pod.labels.values())
    assert dict(by_app.found).keys() == {"web"}
    cluster.add_pod(clusters.pod("web", "a", cpu=1, labels={"app": "web", "topology.kubernetes.io/zone": "z"}))
    assert not cluster.is_assumed(clusters.view("web").uid)
    assert clusters.requested(cluster, "a") == 1000
    assert cluster.snapshot().usage_changes(row_before).tolist() == [0]
    assert dict(cluster.snapshot().tally("zones", lambda pod: pod.labels.values()).found).keys() == {"web", "z"}
    assert cluster.remove_pod(clusters.pod("web", "a", cpu=1))
    assert clusters.requested(cluster, "a") == 0


def test_a_pod_confirmed_elsewhere_moves():
    cluster = clusters.state(["a", "b"])
    cluster.assume(clusters.view("web", cpu=1), "a")
    cluster.add_pod(clusters.pod("web", "b", cpu=1))
    assert clusters.requested(cluster, "a") == 0
    assert clusters.requested(cluster, "b") == 1000


def test_an_update_of_an_unknown_pod_adds_it():
    cluster = clusters.state(["a"])
    cluster.add_pod(clusters.pod("web", "a", cpu=1))
    assert clusters.requested(cluster, "a") == 1000


def test_a_repeated_add_changes_no_column():
    cluster = clusters.state(["a"], [clusters.pod("web", "a", cpu=1)])
    before = cluster.revision
    cluster.add_pod(clusters.pod("web", "a", cpu=1))
    assert clusters.requested(cluster, "a") == 1000
    assert cluster.snapshot().usage_changes(before).tolist() == []


def test_a_resize_counts():
    cluster = clusters.state(["a"], [clusters.pod("web", "a", cpu=1)])
    before = cluster.revision
    cluster.add_pod(clusters.pod("web", "a", cpu=3))
    assert clusters.requested(cluster, "a") == 3000
    assert cluster.snapshot().usage_changes(before).tolist() == [0]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_takes_no_room(phase):
    cluster = clusters.state(["a"], [clusters.pod("web", "a", cpu=1)])
    cluster.add_pod(clusters.pod("web", "a", cpu=1, phase=phase))
    assert clusters.requested(cluster, "a") == 0
    cluster.add_pod(clusters.pod("other", "a", cpu=1, phase=phase))
    assert clusters.uids_on(cluster, "a") == set()


def test_an_update_of_an_assumed_pod_without_node_changes_nothing():
    cluster = clusters.state(["a"])
    cluster.assume(clusters.view("web", cpu=1), "a")
    cluster.add_pod(clusters.pod("web", labels={"new": "label"}, cpu=1))
    assert cluster.is_assumed("default/web")
    assert clusters.requested(cluster, "a") == 1000


def test_assuming_twice_is_an_error():
    cluster = clusters.state(["a", "b"])
    cluster.assume(clusters.view("web"), "a")
    with pytest.raises(ValueError, match="already"):
        cluster.assume(clusters.view("web"), "b")


def test_assuming_on_an_unknown_node_is_an_error():
    cluster = clusters.state(["a"])
    with pytest.raises(UnknownObject, match="'b'"):
        cluster.assume(clusters.view("web"), "b")
    assert not cluster.is_placed("default/web")


def test_a_pod_waits_aside_for_its_node():
    cluster = clusters.state(["a"], [clusters.pod("web", "late", cpu=1)])
    assert cluster.is_placed("default/web")
    cluster.add_node(clusters.node("late"))
    assert clusters.requested(cluster, "late") == 1000


def test_the_pods_of_a_removed_node_return_with_it():
    cluster = clusters.state(["a", "b"], [clusters.pod("placed", "a", cpu=1)])
    cluster.assume(clusters.view("assumed", cpu=2), "a")
    assert cluster.remove_node("a")
    assert not cluster.remove_node("a")
    assert cluster.snapshot().n_nodes == 1
    assert cluster.is_assumed("default/assumed")
    cluster.add_node(clusters.node("a"))
    assert clusters.requested(cluster, "a") == 3000
    assert cluster.forget(clusters.view("assumed"))
    assert clusters.requested(cluster, "a") == 1000


def test_an_assumption_aside_can_be_forgotten_and_a_placed_pod_aside_cannot():
    cluster = clusters.state(["a"], [clusters.pod("placed", "a")])
    cluster.assume(clusters.view("assumed"), "a")
    cluster.remove_node("a")
    assert cluster.forget(clusters.view("assumed"))
    assert not cluster.forget(clusters.view("placed"))
    cluster.add_node(clusters.node("a"))
    assert clusters.uids_on(cluster, "a") == {"default/placed"}


def test_a_pod_aside_can_move_and_go():
    cluster = clusters.state(["a"], [clusters.pod("web", "late"), clusters.pod("gone", "late")])
    cluster.add_pod(clusters.pod("web", "a"))
    assert cluster.remove_pod(clusters.pod("gone", "late"))
    cluster.add_node(clusters.node("late"))
    assert clusters.uids_on(cluster, "late") == set()
    assert clusters.uids_on(cluster, "a") == {"default/web"}


def test_a_pod_that_cannot_be_read_leaves_no_trace():
    cluster = clusters.state(["a"])
    before = cluster.revision
    with pytest.raises(InvalidObject):
        cluster.add_pod(clusters.pod("web", "a", cpu="much"))
    with pytest.raises(InvalidObject):
        cluster.assume(clusters.view("web", cpu="much"), "a")
    assert cluster.revision == before
    assert not cluster.is_placed("default/web")


def test_a_node_that_cannot_be_read_leaves_no_trace():
    cluster = clusters.state(["a"])
    before = cluster.revision, cluster.snapshot().now
    late = objects.NodeCondition(type="Ready", status="True", last_heartbeat_time=datetime.fromtimestamp(9, UTC))
    for name in ("b", "a"):
        broken = clusters.node(name, cpu="much")
        with pytest.raises(InvalidObject):
            cluster.add_node(structs.replace(broken, status=structs.replace(broken.status, conditions=(late,))))
    assert (cluster.revision, cluster.snapshot().now) == before
    assert list(cluster.snapshot().names) == ["a"]
    assert cluster.snapshot().allocatable[0].tolist() == [4000]


def test_a_heartbeat_is_no_change_of_the_row():
    ready = {"type": "Ready", "status": "True"}
    beats = [objects.NodeCondition(**ready, last_heartbeat_time=datetime.fromtimestamp(second, UTC)) for second in (1, 2)]
    nodes = [objects.Node(metadata=objects.ObjectMeta(name="a"), status=objects.NodeStatus(conditions=(beat,))) for beat in beats]
    cluster = clusters.state([nodes[0]])
    before = cluster.revision
    cluster.update_node(nodes[1])
    assert cluster.snapshot().node_changes(before).tolist() == []
    assert cluster.snapshot().node(0).object is nodes[1]
    assert cluster.snapshot().now == 2.0


def test_nomination_ends_when_the_pod_finds_a_place():
    cluster = clusters.state(["a", "b"])
    pod = clusters.view("web")
    cluster.nominate(pod, "a")
    assert [nominated.uid for nominated in cluster.snapshot().nominated(0)] == [pod.uid]
    cluster.nominate(pod, "b")
    assert cluster.snapshot().nominated_rows.tolist() == [1]
    cluster.assume(pod, "a")
    assert cluster.snapshot().nominated_rows.tolist() == []


def test_a_pending_pod_is_nominated_by_its_status():
    cluster = clusters.state(["a"])
    pending = clusters.pod("web")
    cluster.add_pod(objects.Pod(metadata=pending.metadata, spec=pending.spec, status=objects.PodStatus(nominated_node_name="a")))
    assert [pod.name for pod in cluster.snapshot().nominated(0)] == ["web"]
    assert cluster.remove_pod(pending)
    assert cluster.snapshot().nominated(0) == ()


def test_a_change_of_a_nomination_is_a_change_of_its_row():
    cluster = clusters.state(["a", "b"])
    before = cluster.revision
    cluster.nominate(clusters.view("web"), "b")
    assert cluster.snapshot().usage_changes(before).tolist() == [1]
    before = cluster.revision
    assert cluster.remove_nomination(clusters.view("web"))
    assert cluster.snapshot().usage_changes(before).tolist() == [1]
    assert not cluster.remove_nomination(clusters.view("web"))


def test_from_objects_takes_what_was_read():
    service = objects.Service(metadata=objects.ObjectMeta(name="web"))
    found = Objects(
        by_kind={
            objects.Pod: [clusters.pod("on-a", "a", cpu=1), clusters.pod("waiting"), clusters.pod("done", "a", cpu=1, phase="Succeeded")],
            objects.Node: [clusters.node("a")],
            objects.Service: [service],
        },
        metrics={"load": {"a": Sample(0.5, None), "b": Sample(0.1, 7.0)}},
    )
    cluster = ClusterState.from_objects(found, now=100.0)
    snapshot = cluster.snapshot()
    assert snapshot.now == 100.0
    assert clusters.uids_on(cluster, "a") == {"default/on-a"}
    assert snapshot.objects.get(objects.Service, "web") is service
    assert snapshot.metric("load").values.tolist() == [0.5]
    assert snapshot.metric("load").times.tolist() == [100.0]  # a sample without a time was taken with the snapshot


def test_the_time_of_a_snapshot_is_the_newest_in_it():
    born = datetime.fromtimestamp(50, UTC)
    node = objects.Node(metadata=objects.ObjectMeta(name="a", creation_timestamp=born))
    cluster = clusters.state([node])
    assert cluster.snapshot().now == 50.0
    cluster.set_metric("load", {"a": (0.5, 60.0)})
    assert cluster.snapshot().now == 60.0
    assert cluster.snapshot(now=55.0).now == 55.0


def test_other_objects_are_kept_and_dropped():
    cluster = ClusterState()
    cluster.put(objects.Namespace(metadata=objects.ObjectMeta(name="web")))
    cluster.put(clusters.node("a"))
    cluster.put(clusters.pod("web", "a"))
    assert clusters.uids_on(cluster, "a") == {"default/web"}
    assert [space.metadata.name for space in cluster.objects.all(objects.Namespace)] == ["web"]
    assert cluster.drop("Namespace", "web")
    assert not cluster.drop("Namespace", "web")
    assert repr(cluster).startswith("ClusterState(1 node, 1 pod")
