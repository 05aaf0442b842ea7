"""Pods from files get the defaults that admission sets in a cluster."""

import pytest

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.reading.admission import Admission


def admitted(spec, admission=None, name="p"):
    return (admission or Admission()).admit(decode.convert({"metadata": {"name": name}, "spec": spec}, objects.Pod))


def test_a_limit_without_a_request_is_the_request():
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    pod = admitted(
        {"containers": [{"name": "c", "resources": resources}], "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "3"}}}]}
    )
    assert pod.spec.containers[0].resources.requests == {"cpu": "500m", "memory": "1Gi"}
    assert pod.spec.init_containers[0].resources.requests == {"cpu": "3"}
    assert PodView(pod).requests == {"cpu": 3000, "memory": 1024**3}


@pytest.mark.parametrize(
    ("pod_level", "containers", "requests"),
    [
        ({"limits": {"cpu": "4", "memory": "8Gi"}}, [{"cpu": "1"}, {"cpu": "500m"}], {"cpu": "1500m", "memory": "8Gi"}),
        ({"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}, [{"cpu": "1"}], {"cpu": "2"}),
        ({"requests": {"cpu": "2"}}, [{"memory": "1Gi"}], {"cpu": "2"}),
    ],
)
def test_pod_level_requests_come_from_containers_or_limits(pod_level, containers, requests):
    parts = [{"name": str(number), "resources": {"requests": asked}} for number, asked in enumerate(containers)]
    pod = admitted({"containers": parts, "resources": pod_level})
    assert pod.spec.resources is not None
    assert pod.spec.resources.requests == requests


def priority_class(name, value, **more):
    return objects.PriorityClass(metadata=objects.ObjectMeta(name=name), value=value, **more)


def test_priorities_are_looked_up():
    admission = Admission([priority_class("high", 1000, preemption_policy="Never"), priority_class("usual", 7, global_default=True)])
    high = admitted({"priorityClassName": "high"}, admission).spec
    assert (high.priority, high.preemption_policy) == (1000, "Never")
    usual = admitted({}, admission).spec
    assert (usual.priority, usual.priority_class_name) == (7, "usual")
    assert admitted({"priorityClassName": "system-node-critical"}, admission).spec.priority == 2_000_001_000
    assert admitted({"priorityClassName": "high", "priority": 3}, admission).spec.priority == 3
    assert admitted({}).spec.priority == 0
    assert admission.warnings == []


def test_missing_references_are_reported_once():
    admission = Admission()
    for name in ("p", "q"):
        pod = admitted({"priorityClassName": "gone", "runtimeClassName": "kata"}, admission, name)
        assert pod.spec.priority == 0
    assert admission.warnings == [
        "there is no priority class 'gone' among the objects given; the priority of its pods, default/p among them, is taken to be 0",
        "there is no runtime class 'kata' among the objects given; the overhead of its pods, default/p among them, is taken to be nothing",
    ]


def test_a_runtime_has_overhead():
    overhead = objects.RuntimeClassOverhead(pod_fixed={"cpu": "250m"})
    admission = Admission(runtimes=[objects.RuntimeClass(metadata=objects.ObjectMeta(name="kata"), overhead=overhead)])
    assert admitted({"runtimeClassName": "kata"}, admission).spec.overhead == {"cpu": "250m"}
    assert admitted({"runtimeClassName": "kata", "overhead": {"cpu": "1"}}, admission).spec.overhead == {"cpu": "1"}


def limit_range(name, *items, namespace="shop"):
    limits = [{"type": "Container", **item} for item in items]
    return decode.convert({"metadata": {"name": name, "namespace": namespace}, "spec": {"limits": limits}}, objects.LimitRange)


def in_shop(resources, *limit_ranges, namespace="shop"):
    """The resources of a container in a namespace with these LimitRanges."""
    spec = {"containers": [{"name": "c", "resources": resources}], "initContainers": [{"name": "i", "resources": resources}]}
    pod = decode.convert({"metadata": {"name": "p", "namespace": namespace}, "spec": spec}, objects.Pod)
    admitted = Admission(limit_ranges=limit_ranges).admit(pod).spec
    (container,), (init,) = admitted.containers, admitted.init_containers
    assert container.resources == init.resources
    return container.resources.requests, container.resources.limits


LIMITS = limit_range("all", {"default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}})


@pytest.mark.parametrize(
    ("resources", "asked", "limits"),
    [
        ({}, {"cpu": "500m", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}),
        ({"requests": {"cpu": "1"}}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}),
        ({"limits": {"cpu": "1"}}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}),  # its own limit is its request first
        ({"requests": {"cpu": "0"}}, {"cpu": "0", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}),
    ],
)
def test_a_limit_range_fills_in_what_a_container_does_not_say(resources, asked, limits):
    assert in_shop(resources, LIMITS) == (asked, limits)


@pytest.mark.parametrize(
    ("items", "asked", "limits"),
    [
        ([{"max": {"cpu": "4"}}], {"cpu": "4"}, {"cpu": "4"}),
        ([{"min": {"cpu": "1"}}], {"cpu": "1"}, {}),
        ([{"min": {"cpu": "1"}, "max": {"cpu": "4"}}], {"cpu": "4"}, {"cpu": "4"}),
        (
            [{"min": {"cpu": "1"}, "max": {"cpu": "4"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1500m"}}],
            {"cpu": "1500m"},
            {"cpu": "2"},
        ),
        ([{"type": "Pod", "max": {"cpu": "4"}}, {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}], {}, {}),
    ],
)
def test_a_limit_range_of_a_manifest_has_the_defaults_of_its_own(items, asked, limits):
    assert in_shop({}, limit_range("all", *items)) == (asked, limits)


def test_limit_ranges_count_in_their_namespace_only_and_by_name():
    small, large = (limit_range(name, {"defaultRequest": {"cpu": cpu}}) for name, cpu in (("b", "1"), ("c", "2")))
    memory = limit_range("a", {"defaultRequest": {"memory": "1Gi"}})
    assert in_shop({}, large, small, memory)[0] == {"cpu": "1", "memory": "1Gi"}
    assert in_shop({}, large, small, memory, namespace="") == ({}, {})
    of_default = limit_range("a", {"defaultRequest": {"cpu": "1"}}, namespace="")
    assert in_shop({}, of_default, namespace="default") == in_shop({}, of_default, namespace="") == ({"cpu": "1"}, {})


def test_pods_that_share_a_spec_have_the_defaults_of_their_own_namespaces():
    admission = Admission(limit_ranges=[LIMITS])
    spec = decode.convert({"containers": [{"name": "c"}]}, objects.PodSpec)
    pods = [
        admission.admit(objects.Pod(metadata=objects.ObjectMeta(name="p", namespace=name), spec=spec)) for name in ("shop", "lab", "shop")
    ]
    assert [bool(pod.spec.containers[0].resources.requests) for pod in pods] == [True, False, True]


def test_the_requests_of_a_whole_pod_are_its_limits_though_a_limit_range_gives_its_container_less():
    spec = {"containers": [{"name": "c"}], "resources": {"limits": {"memory": "8Gi"}}}
    pod = decode.convert({"metadata": {"name": "p", "namespace": "shop"}, "spec": spec}, objects.Pod)
    admitted = Admission(limit_ranges=[LIMITS]).admit(pod).spec
    assert admitted.resources.requests == {"memory": "8Gi"}
    assert admitted.containers[0].resources.requests == {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], ["not-ready", "unreachable"]),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}], ["unreachable"]),
        ([{"operator": "Exists"}], []),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}], ["not-ready", "unreachable"]),
    ],
)
def test_a_pod_tolerates_a_node_that_is_not_ready_for_five_minutes(given, added):
    tolerations = admitted({"tolerations": given}).spec.tolerations[len(given) :]
    assert [toleration.key.removeprefix("node.kubernetes.io/") for toleration in tolerations] == added
    assert all((toleration.effect, toleration.toleration_seconds) == ("NoExecute", 300) for toleration in tolerations)


def test_names_that_are_always_there():
    spec = admitted({}).spec
    assert (spec.scheduler_name, spec.service_account_name) == ("default-scheduler", "default")
    assert admitted({"schedulerName": "wharfinger"}).spec.scheduler_name == "wharfinger"
