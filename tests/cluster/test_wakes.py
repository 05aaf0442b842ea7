"""Queueing hints: an unschedulable pod is tried again after an event that may help it, and not before."""

import pytest

from tests.cluster import objects
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually
from tests.unit.compiler.texts import compiled
from wharfinger.framework.chain import assemble

SOON = 60.0
"""Seconds at most: who is not woken waits for five minutes."""

CLAIMED = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]}
IN_ZONE_A = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    }
}
BESIDE_DB = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"app": "db"}},
                "namespaceSelector": {"matchLabels": {"team": "data"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
AWAY_FROM_FULL = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "full"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
TAINT = [{"key": "closed", "effect": "NoSchedule"}]
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def claim(storage_class="late"):
    spec = {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim", "namespace": "default"}, "spec": spec}


def volume(name="disk", storage_class="late", **spec):
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
        "hostPath": {"path": "/none"},
        **spec,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def csi_node(name, volumes):
    driver = {"name": "disks.example.com", "nodeID": name, "allocatable": {"count": volumes}}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}}


def bound_claim(api):
    api.create({**CLASS, "metadata": {"name": "late"}, "volumeBindingMode": "Immediate"})
    api.create(volume(csi={"driver": "disks.example.com", "volumeHandle": "1"}, hostPath=None))
    api.create(claim())
    eventually(lambda: api.get("PersistentVolumeClaim", "claim")["status"]["phase"] == "Bound")


def full(api):
    api.create(objects.pod("full", cpu="7500m", labels={"app": "full"}))
    api.bind("full", "node-0000")


def strangers(api):
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strangers"}})
    api.create(objects.pod("db", namespace="strangers", labels={"app": "db"}))
    api.bind("db", "node-0000", namespace="strangers")


# what is there before, what the pod requests, what helps it
WAKES = {
    "a node is added": (full, {"cpu": "1"}, lambda api: api.create(objects.node("late"))),
    "a node grows": (
        full,
        {"cpu": "1"},
        lambda api: api.request(
            "PATCH",
            "/api/v1/nodes/node-0000/status",
            {"status": {"allocatable": {"cpu": "9"}}},
            content_type="application/merge-patch+json",
        ),
    ),
    "a label of a node changes": (
        None,
        {"affinity": {"nodeAffinity": IN_ZONE_A}},
        lambda api: api.patch("Node", "node-0000", {"metadata": {"labels": {"zone": "a"}}}),
    ),
    "a taint is removed": (
        lambda api: api.patch("Node", "node-0000", {"spec": {"taints": TAINT}}),
        {},
        lambda api: api.patch("Node", "node-0000", {"spec": {"taints": None}}),
    ),
    "a node is uncordoned": (
        lambda api: api.patch("Node", "node-0000", {"spec": {"unschedulable": True}}),
        {},
        lambda api: api.patch("Node", "node-0000", {"spec": {"unschedulable": None}}),
    ),
    "a pod that took the room is deleted": (full, {"cpu": "1"}, lambda api: api.delete("Pod", "full")),
    "a pod that kept it away is deleted": (full, {"affinity": AWAY_FROM_FULL}, lambda api: api.delete("Pod", "full")),
    "a pod that kept it away gets another label": (
        full,
        {"affinity": AWAY_FROM_FULL},
        lambda api: api.patch("Pod", "full", {"metadata": {"labels": {"app": "empty"}}}),
    ),
    "the labels of a namespace change": (
        strangers,
        {"affinity": BESIDE_DB},
        lambda api: api.patch("Namespace", "strangers", {"metadata": {"labels": {"team": "data"}}}),
    ),
    "its claim is made": (lambda api: [api.create(CLASS), api.create(volume())], CLAIMED, lambda api: api.create(claim())),
    "a volume for its claim is made": (lambda api: [api.create(CLASS), api.create(claim())], CLAIMED, lambda api: api.create(volume())),
    "the class of its claim is made": (
        lambda api: [api.create(volume()), api.create(claim("later"))],
        CLAIMED,
        lambda api: [api.create({**CLASS, "metadata": {"name": "later"}}), api.create(volume("other", "later"))],
    ),
    "the driver of its volume has more room": (
        lambda api: [bound_claim(api), api.create(csi_node("node-0000", 0))],
        CLAIMED,
        lambda api: api.request(
            "PUT",
            "/apis/storage.k8s.io/v1/csinodes/node-0000",
            {**api.get("CSINode", "node-0000"), "spec": csi_node("node-0000", 5)["spec"]},
        ),
    ),
    "its gate is removed": (
        None,
        {"schedulingGates": [{"name": "wait"}]},
        lambda api: api.patch("Pod", "waiting", {"spec": {"schedulingGates": []}}),
    ),
}

UNRELATED = {
    "a label that no rule reads": lambda api: api.patch("Node", "node-0000", {"metadata": {"labels": {"colour": "red"}}}),
    "an annotation of a node": lambda api: api.patch("Node", "node-0000", {"metadata": {"annotations": {"note": "1"}}}),
    "a node that is full from the first": lambda api: api.create(objects.node("small", cpu="100m")),
    "a namespace": lambda api: api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "another"}}),
    "a volume": lambda api: api.create(volume()),
    "a storage class": lambda api: api.create(CLASS),
}


@pytest.mark.parametrize("wake", WAKES)
def test_a_waiting_pod_is_bound_soon_after(control_plane, nodes, wake):
    before, asked, helps = WAKES[wake]
    api = control_plane.api
    nodes(1)
    if before is not None:
        before(api)
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        api.create(objects.pod("waiting", scheduler=NAME, **asked))
        eventually(lambda: scheduler.waiting().get("default/waiting") in {"unschedulable", "gated"})
        assert_sound(control_plane, assumed=scheduler.assumed)

        helps(api)
        eventually(lambda: "nodeName" in api.get("Pod", "waiting")["spec"], within=SOON, every=0.02)
        assert_sound(control_plane, assumed=scheduler.assumed)


ML_ONLY = """policy "ml"
for pods where pod.namespace_labels["team"] == "ml"
group by pod.namespace_labels["gang"] { min_count 2 }
filter gpu { require node.labels["gpu"] == "yes" else "no GPU" on missing reject }
"""


def test_policies_govern_pods_by_the_labels_that_their_namespace_has_now(control_plane, nodes):
    api = control_plane.api
    nodes(1)
    labels = {"team": "ml", "gang": "training"}
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "learners", "labels": labels}})
    with LiveScheduler(control_plane.kubeconfig, assemble([compiled(ML_ONLY)])) as scheduler:
        api.create(objects.pod("waiting", namespace="learners", scheduler=NAME))
        eventually(lambda: "learners/waiting" in scheduler.waiting())
        api.patch("Namespace", "learners", {"metadata": {"labels": {"gang": None}}})  # alone now, and still without a GPU
        eventually(lambda: scheduler.waiting().get("learners/waiting") == "unschedulable")
        assert "nodeName" not in api.get("Pod", "waiting", namespace="learners")["spec"]

        api.patch("Namespace", "learners", {"metadata": {"labels": {"team": "web"}}})
        eventually(lambda: "nodeName" in api.get("Pod", "waiting", namespace="learners")["spec"], within=SOON, every=0.02)
        assert_sound(control_plane, assumed=scheduler.assumed)


def test_an_event_that_cannot_help_wakes_no_pod(control_plane, nodes, pods):
    api = control_plane.api
    nodes(1)
    full(api)
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        waiting = pods(20, scheduler=NAME, cpu="1")
        eventually(lambda: list(scheduler.waiting().values()) == ["unschedulable"] * 20)
        before = scheduler.complaints.attempts.copy()
        assert sum(before.values()) == len(waiting)
        for happens in UNRELATED.values():
            happens(api)
        api.create(objects.pod("last", scheduler=NAME))  # when this one is bound, all of that has been seen
        eventually(lambda: "nodeName" in api.get("Pod", "last")["spec"])
        eventually(lambda: scheduler.complaints.attempts["default/last"])  # counted when the watch has shown it as bound
        assert scheduler.complaints.attempts - before == {"default/last": 1}
        assert_sound(control_plane, assumed=scheduler.assumed)
