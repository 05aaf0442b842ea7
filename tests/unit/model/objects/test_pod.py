"""Values that follow from a pod: identity, template, requests, ports and images."""

import gc
import weakref

import pytest

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView, derive_demand, normalized_image
from wharfinger.model.reading import decode

PLAIN = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u1",
        "labels": {"app": "web", "tier": "front"},
        "annotations": {"team": "a"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc", "uid": "rs", "controller": True}],
    },
    "spec": {
        "containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
        "volumes": [{"name": "token-x1"}, {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}],
        "priority": 7,
    },
}


def changed(path, value):
    """A copy of PLAIN with one field, given as a tuple of keys, set."""

    def put(node, keys):
        if not keys:
            return value
        if isinstance(node, list):
            return [put(entry, keys[1:]) if index == keys[0] else entry for index, entry in enumerate(node)]
        return {**node, keys[0]: put(node.get(keys[0], {}), keys[1:])}

    return view(put(PLAIN, path))


def view(plain):
    return PodView(decode.convert(plain, objects.Pod))


def test_identity_and_what_follows_from_it():
    pod = view(PLAIN)
    assert (pod.key, pod.name, pod.namespace, pod.uid, pod.priority) == ("shop/web-1", "web-1", "shop", "u1", 7)
    assert pod.created == 1767225600.0
    assert pod.controller is not None
    assert pod.controller.name == "web-abc"
    assert not pod.terminating
    assert not pod.finished
    bare = view({"metadata": {"name": "p"}})
    assert (bare.key, bare.uid, bare.priority, bare.created, bare.controller, bare.qos) == (
        "default/p",
        "default/p",
        0,
        None,
        None,
        "BestEffort",
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "name"), "web-2"),
        (("metadata", "uid"), "u2"),
        (("metadata", "creationTimestamp"), "2026-02-02T00:00:00Z"),
        (("metadata", "resourceVersion"), "99"),
        (("metadata", "ownerReferences", 0, "uid"), "other"),
        (("metadata", "labels"), {"tier": "front", "app": "web"}),  # the order of a map has no meaning
        (("spec", "nodeName"), "n1"),
        (("spec", "volumes", 0, "name"), "token-x2"),
        (("spec", "volumes"), [PLAIN["spec"]["volumes"][1]]),
        (("status", "phase"), "Running"),
        (("status", "startTime"), "2026-02-02T00:00:00Z"),
        (("status", "containerStatuses"), [{"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}]),
    ],
)
def test_identity_does_not_make_another_template(path, value):
    assert changed(path, value).template == view(PLAIN).template


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "namespace"), "other"),
        (("metadata", "labels", "app"), "db"),
        (("metadata", "annotations", "team"), "b"),
        (("metadata", "deletionTimestamp"), "2026-01-01T00:00:00Z"),
        (("metadata", "ownerReferences", 0, "name"), "web-def"),
        (("metadata", "ownerReferences", 0, "controller"), False),
        (("spec", "containers", 0, "image"), "nginx:1"),
        (("spec", "containers", 0, "resources", "requests", "cpu"), "200m"),
        (("spec", "containers", 0, "ports"), [{"containerPort": 80, "hostPort": 80}]),
        (("spec", "volumes", 1, "persistentVolumeClaim", "claimName"), "disk2"),
        (("spec", "priority"), 8),
        (("spec", "preemptionPolicy"), "Never"),
        (("spec", "nodeSelector"), {"a": "b"}),
        (("spec", "tolerations"), [{"operator": "Exists"}]),
        (("spec", "affinity", "nodeAffinity"), {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}),
        (("spec", "topologySpreadConstraints"), [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
        (("spec", "schedulingGates"), [{"name": "g"}]),
        (("spec", "overhead"), {"cpu": "1m"}),
        (("spec", "resourceClaims"), [{"name": "gpu"}]),
        (("spec", "hostNetwork"), True),
        (("status", "qosClass"), "Guaranteed"),
    ],
)
def test_every_field_that_decides_is_part_of_the_template(path, value):
    assert changed(path, value).template != view(PLAIN).template


UNLIKE_THE_DEFAULT = {
    "affinity": objects.Affinity(),
    "resources": objects.ContainerResources(requests={"cpu": "1"}),
    "volumes": (objects.Volume(name="v", image=objects.ImageVolume(reference="x")),),
    "scheduling_group": objects.PodSchedulingGroup(),
    "containers": (objects.Container(name="c"),),
    "init_containers": (objects.Container(name="c"),),
    "tolerations": (objects.Toleration(),),
    "topology_spread_constraints": (objects.TopologySpreadConstraint(),),
    "scheduling_gates": (objects.PodSchedulingGate(),),
    "resource_claims": (objects.PodResourceClaim(),),
    "node_selector": {"a": "b"},
    "overhead": {"cpu": "1m"},
    "priority": 5,
    "termination_grace_period_seconds": 5,
    "host_network": True,
}


@pytest.mark.parametrize("field", objects.PodSpec.__struct_fields__)
def test_every_field_of_the_spec_but_the_node_is_in_the_template(field):
    """INVARIANT: a field added to PodSpec is part of the template unless it is identity."""
    spec = objects.PodSpec(**{field: UNLIKE_THE_DEFAULT.get(field, "x")})
    same = PodView(objects.Pod(spec=spec)).template == PodView(objects.Pod()).template
    assert same == (field == "node_name")


def test_pods_with_ephemeral_volumes_have_claims_of_their_own():
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}]
    one = view({"metadata": {"name": "a"}, "spec": {"volumes": volumes}})
    two = view({"metadata": {"name": "b"}, "spec": {"volumes": volumes}})
    assert one.template != two.template


def test_a_resize_under_way_makes_another_template_and_other_requests():
    reported = [{"name": "c", "resources": {"requests": {"cpu": "300m", "memory": "1Gi"}}}]
    plain = {**PLAIN, "spec": {**PLAIN["spec"], "nodeName": "n"}, "status": {"containerStatuses": reported}}
    resized = view(plain)
    assert resized.template != view(PLAIN).template
    assert resized.requests["cpu"] == 300
    assert view(PLAIN).requests["cpu"] == 100


def test_shared_demand_equals_a_fresh_one():
    pods = [changed(("metadata", "name"), f"web-{number}") for number in range(3)]
    assert len({id(pod.demand) for pod in pods}) == 1
    assert all(pod.demand == derive_demand(pod.object) for pod in pods)


def test_the_demand_of_a_template_goes_with_its_last_pod():
    pods = [PodView(objects.Pod(metadata=objects.ObjectMeta(name=name, labels={"only": "here"}))) for name in "ab"]
    demand = weakref.ref(pods[0].demand)
    assert pods[1].demand is demand()
    del pods[0]
    gc.collect()
    assert demand() is pods[0].demand
    del pods[0]
    gc.collect()
    assert demand() is None


def test_host_ports_of_containers_and_sidecars():
    pod = view(
        {
            "spec": {
                "initContainers": [
                    {"name": "once", "ports": [{"containerPort": 1, "hostPort": 1}]},
                    {"name": "side", "restartPolicy": "Always", "ports": [{"containerPort": 2, "hostPort": 53, "protocol": "UDP"}]},
                ],
                "containers": [
                    {"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}, {"containerPort": 90}]},
                    {"name": "d", "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}]},
                ],
            }
        }
    )
    assert pod.host_ports == (("0.0.0.0", "UDP", 53), ("10.0.0.1", "TCP", 8080))


def test_on_the_host_network_every_port_is_the_hosts():
    ports = [{"containerPort": 9100}, {"containerPort": 80, "hostPort": 81}]
    pod = view({"spec": {"hostNetwork": True, "containers": [{"name": "c", "ports": ports}]}})
    assert pod.host_ports == (("0.0.0.0", "TCP", 9100), ("0.0.0.0", "TCP", 81))


@pytest.mark.parametrize(
    ("name", "normalized"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1.25", "nginx:1.25"),
        ("registry:5000/nginx", "registry:5000/nginx:latest"),
        ("registry:5000/nginx:1", "registry:5000/nginx:1"),
        ("nginx@sha256:abc", "nginx@sha256:abc"),
        ("", ":latest"),
    ],
)
def test_an_image_name_without_tag_and_digest_gets_the_tag_latest(name, normalized):
    assert normalized_image(name) == normalized


def test_images_are_listed_as_often_as_they_are_used():
    spec = {
        "initContainers": [{"name": "i", "image": "a"}],
        "containers": [{"name": "c", "image": "b:1"}, {"name": "d", "image": "a"}],
        "volumes": [{"name": "v", "image": {"reference": "data:2"}}],
    }
    assert view({"spec": spec}).images == ("a:latest", "b:1", "a:latest", "data:2")


def test_the_phase_says_if_a_pod_has_finished_and_the_deletion_time_if_it_terminates():
    assert view({"status": {"phase": "Succeeded"}}).finished
    assert view({"status": {"phase": "Failed"}}).finished
    assert not view({"status": {"phase": "Running"}}).finished
    assert view({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}).terminating


def test_a_pod_placed_on_a_node_has_all_other_values_of_the_pod():
    spec = objects.PodSpec(priority=7, scheduling_group=objects.PodSchedulingGroup(pod_group_name="train"))
    made = PodView(objects.Pod(metadata=objects.ObjectMeta(name="p", namespace="n", uid="u", labels={"a": "b"}), spec=spec))
    of_pod = made.assigning({"gpu": "0"})
    assert of_pod.template
    assert of_pod.demand
    placed = of_pod.placed_on("node-a")
    assert placed.node_name == "node-a"
    assert of_pod.node_name == ""
    for name in set(PodView.__slots__) - {"node_name"}:
        assert getattr(placed, name) is getattr(of_pod, name), name
