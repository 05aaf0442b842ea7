"""After any changes, the volumes of each node are counted as for its pods alone, and as after a restart."""

import random

import msgspec
import pytest

from wharfinger.framework.plugins.volumes.attached_volumes import (
    MIGRATED_ANNOTATION,
    AttachedVolumes,
    attachables,
)
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state import node_reader
from wharfinger.model.state.cluster_state import ClusterState

SEEDS = 100
STEPS = 60
DRIVERS = ("csi.example.com", "pxd.portworx.com", "ebs.csi.aws.com")
NODES, CLAIMS, VOLUMES = ([f"{kind}{number}" for number in range(6)] for kind in ("n", "c", "v"))


def node(rng):
    return objects.Node, {"metadata": {"name": rng.choice(NODES)}}


def csi_node(rng):
    drivers = [{"name": name, "allocatable": {"count": rng.randrange(4)} if rng.random() < 0.8 else None} for name in DRIVERS]
    annotations = {MIGRATED_ANNOTATION: "kubernetes.io/portworx-volume"} if rng.random() < 0.5 else {}
    some = rng.sample(drivers, rng.randrange(4))
    return objects.CSINode, {"metadata": {"name": rng.choice(NODES), "annotations": annotations}, "spec": {"drivers": some}}


def volume(rng):
    name, handle = rng.choice(VOLUMES), f"h{rng.randrange(4)}"
    sources = [
        {"csi": {"driver": rng.choice(DRIVERS), "volumeHandle": handle}},
        {"portworxVolume": {"volumeID": handle}},
        {"awsElasticBlockStore": {"volumeID": f"aws://zone/{handle}"}},
        {},
    ]
    return objects.PersistentVolume, {"metadata": {"name": name}, "spec": rng.choice(sources)}


def claim(rng):
    spec = {"volumeName": rng.choice(["", rng.choice(VOLUMES)]), "storageClassName": rng.choice(["", "s0", "s1"])}
    return objects.PersistentVolumeClaim, {"metadata": {"name": rng.choice(CLAIMS), "namespace": "default"}, "spec": spec}


def storage_class(rng):
    provisioner = rng.choice([*DRIVERS, "kubernetes.io/portworx-volume"])
    return objects.StorageClass, {"metadata": {"name": rng.choice(["s0", "s1"])}, "provisioner": provisioner}


def attachment(rng):
    spec = {"nodeName": rng.choice(NODES), "source": {"persistentVolumeName": rng.choice(VOLUMES)}}
    return objects.VolumeAttachment, {"metadata": {"name": f"a{rng.randrange(4)}"}, "spec": spec}


def pod(rng, on=""):
    claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in rng.sample(CLAIMS, rng.randrange(4))]
    inline = [{"name": "i", "portworxVolume": {"volumeID": f"h{rng.randrange(4)}"}}] if rng.random() < 0.3 else []
    name = f"p{rng.randrange(8)}"
    spec = {"containers": [{"name": "c"}], "nodeName": on, "volumes": claimed + inline}
    return objects.Pod, {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}


def placed(rng):
    return pod(rng, rng.choice(NODES))


def change(rng, state):
    kind, manifest = rng.choice(
        (node, csi_node, csi_node, volume, volume, claim, claim, storage_class, storage_class, attachment, attachment, placed, placed)
    )(rng)
    made = msgspec.convert(manifest, kind)
    if rng.random() < 0.75:
        state.put(made)
    elif kind is objects.Node:
        state.remove_node(made.metadata.name)
    elif kind is objects.Pod:
        state.remove_pod(made)
    else:
        state.drop(kind.__name__, objects.key_of(made))


@pytest.fixture(autouse=True)
def _in_steps(monkeypatch):
    monkeypatch.setattr(node_reader, "READ_AT_ONCE", 0)


@pytest.mark.parametrize("part", range(2))
def test_volumes_are_counted_as_for_one_node_and_as_at_a_fresh_start(part):
    for seed in range(part, SEEDS, 2):
        rng = random.Random(seed)
        state = ClusterState()
        for step in range(STEPS):
            change(rng, state)
            if rng.random() < 0.4:
                continue
            steps = AttachedVolumes.reading(state.snapshot)
            for _ in range(rng.randrange(8)):
                next(steps, None)
                if rng.random() < 0.3:
                    change(rng, state)
            snapshot = state.snapshot()
            wanted = frozenset(attachables(PodView(msgspec.convert(pod(rng)[1], objects.Pod)), snapshot.objects))
            kept = AttachedVolumes.of(snapshot)
            found = kept.exceeded(wanted, slice(None)).tolist()
            at_once = AttachedVolumes.of(snapshot.detach()).exceeded(wanted, slice(None)).tolist()
            one_by_one = [kept.exceeded_with(snapshot.pods_on(row), wanted, name) for row, name in enumerate(snapshot.names)]
            assert found == at_once == one_by_one, (seed, step)
