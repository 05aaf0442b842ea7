"""Volumes on a real API server, with the real controller of persistent volumes: each pod of a burst gets its own."""

import pytest

from tests.cluster import objects
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.soundness import assert_sound
from tests.cluster.test_wakes import CLASS, claim, volume
from tests.cluster.waiting import eventually, wait_bound

SMALL = {"cpu": "10m", "memory": "16Mi"}
N_PODS = 60


def own(name):
    made = claim()
    return {**made, "metadata": {**made["metadata"], "name": name}}


def mounting(name):
    return objects.pod(name, scheduler=NAME, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}], **SMALL)


def on(node):
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}
    return {"nodeAffinity": {"required": required}}


@pytest.mark.parametrize("local", [False, True])
def test_pods_of_a_burst_get_different_volumes(control_plane, nodes, local):
    api = control_plane.api
    names = nodes(3)
    pods = [f"pod-{number:03}" for number in range(N_PODS)]
    api.create(CLASS)
    api.create_many(volume(f"disk-{number:03}", **(on(names[number % 3]) if local else {})) for number in range(N_PODS))
    api.create_many(map(own, pods))
    api.create_many(map(mounting, pods))
    eventually(lambda: all(each["status"].get("phase") == "Available" for each in api.list("PersistentVolume")))
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        wait_bound(control_plane, N_PODS)
        held = [each["spec"]["claimRef"]["name"] for each in api.list("PersistentVolume")]
        assert sorted(held) == pods
        assert scheduler.complaints.counts == {}
        assert dict(scheduler.complaints.attempts) == {f"default/{name}": 1 for name in pods}
        assert_sound(control_plane, assumed=scheduler.assumed)
        assert scheduler.ask(lambda running: running._binding.volumes._assumed) == {}
