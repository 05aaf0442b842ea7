"""One example of each action of the process on a cluster, so that each kind of request is made at least once."""

from __future__ import annotations

from tests.cluster import custom, devices, objects
from tests.cluster.custom import EAST, running
from tests.cluster.misbehaviour import Answer
from tests.cluster.waiting import eventually

OURS = {"scheduler": "wharfinger"}
PREVIEWED = ("Deployment", "StatefulSet", "ReplicaSet", "Job", "PolicyApp")
POLICIES = "/api/v1/namespaces/wharfinger-system/configmaps/wharfinger-policies"
APP = {"image": "web:1", "replicas": 2, "port": 80, "policy": {"inline": EAST}, "evictionIntervalSeconds": 1}


def storage(api, name, provisioner):
    """A class whose volumes are bound when a pod is, and a pod with a claim of it."""
    late = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    api.create({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **late})
    spec = {"storageClassName": name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": name, "namespace": "default"}
    api.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return objects.pod(name, **OURS, volumes=volumes)


def claims_and_volumes(api):
    """A volume that is there is reserved for a claim; a claim whose volume has to be made gets its node."""
    spec = {"storageClassName": "static", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "hostPath": {"path": "/none"}}
    api.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": spec})
    api.create(storage(api, "static", "kubernetes.io/no-provisioner"))
    api.create(storage(api, "made", "disks.example.com"))
    eventually(lambda: api.get("Pod", "static")["spec"].get("nodeName"))
    eventually(lambda: "volume.kubernetes.io/selected-node" in api.get("PersistentVolumeClaim", "made")["metadata"].get("annotations", {}))


def preemption(api, important):
    """A pod takes the place of another on a node that has room for one."""
    api.create(objects.node("narrow", pods=1, labels={"kind": "narrow"}))
    where = {**OURS, "nodeSelector": {"kind": "narrow"}}
    api.create(objects.pod("victim", terminationGracePeriodSeconds=1, **where))
    eventually(lambda: api.get("Pod", "victim")["spec"].get("nodeName"))
    api.create(objects.pod("winner", priorityClassName=important, **where))
    eventually(lambda: api.get("Pod", "winner")["spec"].get("nodeName"))


def a_lost_answer(api, proxy):
    """A binding that seems to have failed is looked after."""
    fault = proxy.add(Answer(status=409), method="POST", path="/binding$", times=1)
    api.create(objects.pod("doubtful", **OURS))
    eventually(lambda: fault.done and api.get("Pod", "doubtful")["spec"].get("nodeName"))


def a_hopeless_pod(api, seen):
    """An unschedulable pod has a condition, and the event about it becomes a series when policies change and do not help."""
    api.create(objects.pod("hopeless", cpu="1000", **OURS))
    eventually(lambda: [each for each in api.list("Event") if each["regarding"].get("name") == "hopeless"])
    weights = iter(range(1, 100))

    def repeated():
        policy = f'policy "rounds"\nscore s weight {next(weights)} = 1\n'
        api.request("PATCH", POLICIES, {"data": {"rounds.policy": policy}}, content_type="application/merge-patch+json")
        return seen("PATCH", "/apis/events.k8s.io/")

    eventually(repeated, every=3.0)


def a_group(api):
    """The status of a PodGroup shows whether its members are placed."""
    api.create(objects.podgroup("team", 2))
    for name in ("team-a", "team-b"):
        api.create(objects.pod(name, schedulingGroup={"podGroupName": "team"}, **OURS))
    eventually(lambda: api.get("PodGroup", "team").get("status", {}).get("conditions"))


def devices_of_a_class(api):
    """An extended resource that a class backs becomes a claim, which is allocated before the pod is bound."""
    api.create(devices.device_class("example.com/gpu"))
    for node in api.list("Node"):  # the first ones may be full
        api.create(devices.resource_slice(node["metadata"]["name"], 2))
    pod = objects.pod("with-gpu", **OURS)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    api.create(pod)
    eventually(lambda: "nodeName" in api.get("Pod", "with-gpu")["spec"])


def an_app(cluster):
    """An app with its own policy comes, drifts and is evicted, loses its port and its policy, and goes."""
    custom.create(cluster, "PolicyApp", "web", {**APP, "driftPolicy": "Evict"})
    eventually(lambda: running(cluster, 2))
    yield
    before = {pod["metadata"]["uid"] for pod in custom.pods_of(cluster)}
    for node in cluster.api.list("Node"):
        zone = {"east": "west", "west": "east"}.get(node["metadata"]["labels"].get("zone"))
        cluster.api.patch("Node", node["metadata"]["name"], {"metadata": {"labels": {"zone": zone}}})
    eventually(lambda: before - {pod["metadata"]["uid"] for pod in custom.pods_of(cluster)})
    custom.patch(cluster, "PolicyApp", "web", {"spec": {"port": None, "policy": None}})
    eventually(lambda: not custom.items(cluster, "SchedulingPolicy"))
    custom.delete(cluster, "PolicyApp", "web")
    eventually(lambda: custom.get(cluster, "PolicyApp", "web") is None)


def previews(cluster):
    """Previews of every kind of workload, there or not, which go when their time is over."""
    for kind in PREVIEWED:
        spec = {"workloadRef": {"kind": kind, "name": "web"}, "ttlSeconds": 10}
        custom.create(cluster, "PlacementPreview", kind.lower(), spec)
    eventually(lambda: all(each.get("status") for each in custom.items(cluster, "PlacementPreview")))
    eventually(lambda: not custom.items(cluster, "PlacementPreview"))


def happen(cluster, proxy, important):
    """Returns when all of it has happened."""
    seen = lambda method, path: any(each.method == method and path in each.path for each in tuple(proxy.seen))  # noqa: E731 — one line
    claims_and_volumes(cluster.api)
    preemption(cluster.api, important)
    a_lost_answer(cluster.api, proxy)
    a_hopeless_pod(cluster.api, seen)
    a_group(cluster.api)
    devices_of_a_class(cluster.api)
    app = an_app(cluster)
    next(app)
    previews(cluster)
    list(app)
