"""The volumes of nodes are read in steps, and only those of nodes where something has changed."""

import msgspec
import pytest

from tests.work import calls
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.plugins.volumes.attached_volumes import AttachedVolumes
from wharfinger.framework.plugins.volumes.volume_binding import StorageCapacities
from wharfinger.framework.plugins.volumes.volume_claims import reading
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.node_reader import READ_AT_ONCE
from wharfinger.model.state.object_store import READ_PER_STEP

NODES = 3 * READ_AT_ONCE
DRIVER = "csi.example.com"


def made(kind, **manifest):
    return msgspec.convert(manifest, kind)


def node(name):
    offer = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    return made(objects.Node, metadata={"name": name}, status={"allocatable": offer})


def csi_node(name, count=2):
    return made(objects.CSINode, metadata={"name": name}, spec={"drivers": [{"name": DRIVER, "allocatable": {"count": count}}]})


def volume(name):
    return made(objects.PersistentVolume, metadata={"name": name}, spec={"csi": {"driver": DRIVER, "volumeHandle": name}})


def claim(name):
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    return made(
        objects.PersistentVolumeClaim, metadata={"name": name, "namespace": "default", "annotations": bound}, spec={"volumeName": name}
    )


def pod(name, on=""):
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    metadata = {"name": name, "namespace": "default", "uid": name}
    return PodView(made(objects.Pod, metadata=metadata, spec={"containers": [{"name": "c"}], "nodeName": on, "volumes": volumes}))


def add_node(state, number):
    """A node with one volume, of the two that its driver can attach."""
    name = f"n{number}"
    state.add_node(node(name))
    state.put(csi_node(name))
    add_pod(state, f"v{number}", name)


def add_pod(state, name, on=""):
    state.put(volume(name))
    state.put(claim(name))
    if on:
        state.add_pod(pod(name, on))


@pytest.fixture
def state():
    found = ClusterState()
    for number in range(NODES):
        add_node(found, number)
    add_pod(found, "new")
    return found


@pytest.fixture
def read(monkeypatch):
    """The nodes that were read."""
    names, read_one = [], AttachedVolumes._read

    def counted(self, name, pods):
        names.append(name)
        read_one(self, name, pods)

    monkeypatch.setattr(AttachedVolumes, "_read", counted)
    return names


def decided(state):
    return Decider(assemble()).decide(state.snapshot(), pod("new"))


def test_each_node_is_a_step_and_the_decision_reads_none(state, read):
    for number, _ in enumerate(Decider(assemble()).precompute(state.snapshot, pod("new")), start=1):
        assert len(read) == number
    assert sorted(read) == sorted(state.snapshot().names)
    assert decided(state).node is not None
    assert len(read) == NODES


def test_changes_between_two_steps_are_read_for_the_decision(state, read):
    steps = Decider(assemble()).precompute(state.snapshot, pod("new"))
    for _ in range(5):
        next(steps)
    for number in range(NODES):  # every node is full now but one
        if number != 7:
            add_pod(state, f"w{number}", f"n{number}")
    state.remove_node("n3")
    add_node(state, NODES)
    add_pod(state, "last", f"n{NODES}")
    list(steps)
    assert decided(state).node == "n7"


@pytest.mark.parametrize("change", ["node", "pod", "volume", "removed"])
def test_after_a_change_only_the_nodes_concerned_are_read(state, read, change):
    decided(state)
    read.clear()
    if change == "node":
        add_node(state, NODES)
    elif change == "pod":
        add_pod(state, "more", "n5")
    elif change == "volume":
        state.put(volume("v5"))
    else:
        state.remove_node("n0")  # the last node gets its row
    assert not list(Decider(assemble()).precompute(state.snapshot, pod("new")))
    assert decided(state).node is not None
    assert read == {"node": [f"n{NODES}"], "pod": ["n5"], "volume": ["n5"], "removed": []}[change]


def test_a_change_of_all_nodes_is_read_in_steps_again(state, read):
    decided(state)
    read.clear()
    state.put(made(objects.StorageClass, metadata={"name": "s"}, provisioner=DRIVER))
    assert len(list(Decider(assemble()).precompute(state.snapshot, pod("new")))) == NODES


def local_volume(number):
    there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"n{number}"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}}
    spec = {"storageClassName": "local", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nodeAffinity": affinity}
    return made(objects.PersistentVolume, metadata={"name": f"l{number}"}, spec=spec, status={"phase": "Available"})


def local_cluster(count):
    """Nodes with a free local volume each, and a claim that waits for its first consumer."""
    state = ClusterState()
    for number in range(count):
        one = node(f"n{number}")
        labels = {"kubernetes.io/hostname": f"n{number}"}
        state.add_node(msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, labels=labels)))
        state.put(local_volume(number))
    mode = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    state.put(made(objects.StorageClass, metadata={"name": "local"}, **mode))
    spec = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    state.put(made(objects.PersistentVolumeClaim, metadata={"name": "new", "namespace": "default"}, spec=spec))
    return state


def test_free_local_volumes_are_read_in_steps_and_each_is_compared_with_its_own_node_alone():
    def work(count):
        state, decider = local_cluster(count), Decider(assemble())
        assert len(list(reading(pod("new"), state.objects))) == count // READ_PER_STEP
        AttachedVolumes.of(state.snapshot())
        assert not list(decider.precompute(state.snapshot, pod("new")))
        return calls(lambda: decider.decide(state.snapshot(), pod("new")))

    few, many = work(READ_PER_STEP), work(4 * READ_PER_STEP)
    assert (many - few) / (3 * READ_PER_STEP) < 60


def offering_cluster(count, most=lambda number: "2Gi" if number == 3 else "1Mi"):
    """Nodes with an offer of storage each, and a claim that waits for its first consumer."""
    state = local_cluster(count)
    for number in range(count):
        state.drop("PersistentVolume", f"l{number}")
        where = {"matchLabels": {"kubernetes.io/hostname": f"n{number}"}}
        offer = {"storageClassName": "local", "capacity": most(number), "nodeTopology": where}
        state.put(made(objects.CSIStorageCapacity, metadata={"name": f"o{number}", "namespace": "default"}, **offer))
    mode = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    state.put(made(objects.StorageClass, metadata={"name": "local"}, **mode))
    state.put(made(objects.CSIDriver, metadata={"name": DRIVER}, spec={"storageCapacity": True}))
    return state


def test_offers_of_storage_are_read_in_steps_and_the_decision_reads_none(monkeypatch):
    read, read_one = [], StorageCapacities._read
    monkeypatch.setattr(StorageCapacities, "_read", lambda self, obj: read.append(obj) or read_one(self, obj))
    state, decider, count = offering_cluster(4 * READ_PER_STEP), Decider(assemble()), 0
    AttachedVolumes.of(state.snapshot())
    for _ in decider.precompute(state.snapshot, pod("new")):
        assert len(read) - count <= READ_PER_STEP
        count = len(read)
    assert count == 4 * READ_PER_STEP
    assert decider.decide(state.snapshot(), pod("new")).node == "n3"
    assert len(read) == count


def test_offers_for_single_nodes_are_looked_up_together():
    def work(count):
        state, decider = offering_cluster(count, lambda _: "2Gi"), Decider(assemble())
        AttachedVolumes.of(state.snapshot())
        list(decider.precompute(state.snapshot, pod("new")))
        return calls(lambda: decider.decide(state.snapshot(), pod("new")))

    assert work(400) - work(100) < 300 * 18


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ({"matchLabels": {"kubernetes.io/hostname": "n1"}}, {"n1"}),
        ({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0", "n2"]}]}, {"n0", "n2"}),
        ({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n0", "n2"]}]}, {"n1", "n3"}),
        ({"matchLabels": {"kubernetes.io/hostname": "n1", "no": "label"}}, set()),
        ({}, {"n0", "n1", "n2", "n3"}),
        (None, set()),
    ],
)
def test_storage_is_offered_to_the_nodes_of_its_topology(topology, expected):
    state = offering_cluster(4, lambda _: "1Mi")
    offer = {"storageClassName": "local", "capacity": "2Gi"} | ({} if topology is None else {"nodeTopology": topology})
    state.put(made(objects.CSIStorageCapacity, metadata={"name": "more", "namespace": "default"}, **offer))
    assert set(Decider(assemble()).decide(state.snapshot(), pod("new")).feasible_nodes()) == expected


def test_an_offer_of_storage_for_each_node_is_compared_with_its_own_node_alone():
    def work(count):
        state = offering_cluster(count)
        AttachedVolumes.of(state.snapshot())
        decider = Decider(assemble())
        assert decider.decide(state.snapshot(), pod("new")).node == "n3"
        more = {"storageClassName": "local", "capacity": "3Gi", "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "n5"}}}
        state.put(made(objects.CSIStorageCapacity, metadata={"name": "o5", "namespace": "default"}, **more))
        assert set(decider.decide(state.snapshot(), pod("new")).feasible_nodes()) == {"n3", "n5"}
        state.drop("CSIStorageCapacity", "default/o3")
        return calls(lambda: decider.decide(state.snapshot(), pod("new")))

    assert work(400) - work(100) < 300 * 30


def test_a_local_volume_that_goes_to_another_node_is_read_again():
    state, decider = local_cluster(3), Decider(assemble())
    for name in ("l0", "l2"):
        state.drop("PersistentVolume", name)
    assert decider.decide(state.snapshot(), pod("new")).node == "n1"
    moved = local_volume(2)
    state.put(msgspec.structs.replace(moved, metadata=msgspec.structs.replace(moved.metadata, name="l1")))
    assert decider.decide(state.snapshot(), pod("new")).node == "n2"


def test_a_pod_without_volumes_reads_none(state, read):
    plain = PodView(made(objects.Pod, metadata={"name": "plain", "namespace": "default"}, spec={"containers": [{"name": "c"}]}))
    decider = Decider(assemble())
    assert not list(decider.precompute(state.snapshot, plain))
    assert decider.decide(state.snapshot(), plain).node is not None
    assert read == []
