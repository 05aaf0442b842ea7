"""Claims for devices on the real API server, with the controller that makes claims of templates; the driver is part of the test."""

import json

import pytest

from tests.cluster import devices, objects
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.misbehaviour import Answer, Hold
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually
from wharfinger.model.devices.allocated import Allocations

PER_NODE = 4


@pytest.fixture
def cluster(control_plane, nodes):
    """Three nodes with four devices each, a class, and a template of claims for one device."""
    nodes(3)
    api = control_plane.api
    api.create(devices.device_class())
    api.create(devices.template())
    for each in api.list("Node"):
        api.create(devices.resource_slice(each["metadata"]["name"], PER_NODE))
    return control_plane


def bound(api):
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in api.list("Pod") if "nodeName" in each["spec"]}


def wait_bound(api, count):
    eventually(lambda: len(bound(api)) == count)


def sound(api, held):
    assert list(devices.wrong(api)) == []
    eventually(lambda: sum(devices.held(api).values()) == held)


def test_each_pod_gets_a_device_of_its_own_and_those_of_pods_that_go_are_given_again(cluster):
    api = cluster.api
    with LiveScheduler(cluster.kubeconfig) as scheduler:
        api.create_many(devices.pod(f"pod-{number}", scheduler=NAME) for number in range(14))
        wait_bound(api, 12)
        sound(api, 12)
        assert set(devices.held(api).values()) == {1}

        for name in list(bound(api))[:2]:
            api.delete("Pod", name)
        wait_bound(api, 12)
        sound(api, 12)
        eventually(lambda: not scheduler.assumed())
        assert scheduler.ask(lambda each: not list(each.state.objects.following(Allocations).all_in_flight()))


def test_parameters_for_the_driver_may_be_nested_deeper_than_can_be_read(cluster, kubectl):
    """Everybody who may create claims can write them: the API server takes 10,000 levels, and 10,240 bytes."""
    api = cluster.api
    deep = "[" * 5_000 + "]" * 5_000
    claim = devices.claim("deep")
    claim["spec"]["devices"]["config"] = [{"opaque": {"driver": devices.DRIVER, "parameters": {"a": "HERE"}}}]
    text = json.dumps(claim).replace('"HERE"', deep)
    kubectl("create", "-f", "-", content=text)
    try:
        with LiveScheduler(cluster.kubeconfig) as scheduler:  # which lists it
            api.create(devices.pod("deep", claim_name="deep", scheduler=NAME))
            wait_bound(api, 1)
            kubectl("create", "-f", "-", content=text.replace('"name": "deep"', '"name": "deeper"'))  # which it watches
            api.create(devices.pod("deeper", claim_name="deeper", scheduler=NAME))
            wait_bound(api, 2)
            assert not scheduler.complaints.counts
    finally:  # the next test lists claims in Python, which is not made for such
        api.delete_all("Pod", "default")
        for name in kubectl("get", "resourceclaims", "-o", "name").split():
            kubectl("patch", name, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
            kubectl("delete", name, "--ignore-not-found")


def test_pods_that_share_a_claim_go_where_its_device_is(cluster):
    api = cluster.api
    api.create(devices.claim("shared"))
    with LiveScheduler(cluster.kubeconfig):
        api.create_many(devices.pod(f"pod-{number}", claim_name="shared", scheduler=NAME) for number in range(3))
        wait_bound(api, 3)
    assert len(set(bound(api).values())) == 1
    assert len(api.get("ResourceClaim", "shared")["status"]["reservedFor"]) == 3


def test_members_of_a_group_share_a_claim_that_is_not_allocated_yet(cluster):
    api = cluster.api
    api.create(devices.claim("shared"))
    api.create(objects.podgroup("gang", 4))
    with LiveScheduler(cluster.kubeconfig):
        gang = {"schedulingGroup": {"podGroupName": "gang"}}
        api.create_many(devices.pod(f"pod-{number}", claim_name="shared", scheduler=NAME, **gang) for number in range(4))
        wait_bound(api, 4)
    assert len(set(bound(api).values())) == 1
    assert len(api.get("ResourceClaim", "shared")["status"]["reservedFor"]) == 4


def test_a_driver_that_comes_late_or_starts_again_is_followed(cluster):
    api = cluster.api
    for each in api.list("ResourceSlice"):
        api.delete("ResourceSlice", each["metadata"]["name"])
    with LiveScheduler(cluster.kubeconfig):
        api.create_many(devices.pod(f"pod-{number}", scheduler=NAME) for number in range(3))
        eventually(lambda: all("cannot allocate all claims" in str(each.get("status")) for each in api.list("Pod")))
        node = api.list("Node")[0]["metadata"]["name"]
        api.create(devices.resource_slice(node, 1))
        wait_bound(api, 1)
        api.create(devices.resource_slice(node, 3, generation=2))  # the older generation counts no more
        wait_bound(api, 3)
        sound(api, 3)


def test_an_extended_resource_that_a_class_backs_becomes_a_claim(cluster):
    api = cluster.api
    api.delete("DeviceClass", devices.CLASS)
    api.create(devices.device_class("example.com/gpu"))
    with LiveScheduler(cluster.kubeconfig):
        pod = objects.pod("pod", scheduler=NAME)
        wanting = {"example.com/gpu": "2"}
        pod["spec"]["containers"][0]["resources"] = {"requests": wanting, "limits": wanting}
        api.create(pod)
        wait_bound(api, 1)
    status = api.get("Pod", "pod")["status"]["extendedResourceClaimStatus"]
    assert (
        status["requestMappings"] == [{"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}]
        or len(status["requestMappings"]) == 1
    )
    claim = api.get("ResourceClaim", status["resourceClaimName"])
    assert len(claim["status"]["allocation"]["devices"]["results"]) == 2
    assert claim["status"]["reservedFor"][0]["name"] == "pod"


def test_a_scheduler_that_is_killed_between_allocation_and_binding_leaves_nothing_behind(cluster, proxy):
    api = cluster.api
    held = Hold()
    proxy.add(held, method="POST", path="/binding$")
    with WharfProcess(cluster, kubeconfig=proxy.kubeconfig) as wharf:
        api.create_many(devices.pod(f"pod-{number}", scheduler=NAME) for number in range(12))
        eventually(lambda: sum(devices.held(api).values()) == 12)
        wharf.kill()
    proxy.clear()
    assert bound(api) == {}
    with WharfProcess(cluster) as wharf:
        wait_bound(api, 12)
        sound(api, 12)
        assert wharf.terminate() == 0


@pytest.mark.parametrize("fault", ["refused", "conflict"])
def test_writes_that_fail_are_repeated_and_no_device_is_given_twice(cluster, proxy, fault):
    api = cluster.api
    proxy.add(Answer(status={"refused": 503, "conflict": 409}[fault]), method="PATCH", path="/resourceclaims/", every=3, times=30)
    with LiveScheduler(proxy.kubeconfig):
        api.create_many(devices.pod(f"pod-{number}", scheduler=NAME) for number in range(12))
        wait_bound(api, 12)
    sound(api, 12)


def test_the_api_server_starts_again_in_the_middle(cluster):
    api = cluster.api
    with LiveScheduler(cluster.kubeconfig):
        api.create_many(devices.pod(f"pod-{number}", scheduler=NAME) for number in range(12))
        eventually(lambda: len(bound(api)) > 2, every=0.05)
        cluster.api_server.kill()
        cluster.start_api_server()
        wait_bound(api, 12)
    sound(api, 12)


def test_a_pod_that_is_deleted_before_it_is_bound_leaves_its_device(cluster, proxy):
    api = cluster.api
    proxy.add(Answer(status=503), method="POST", path="/binding$")
    with LiveScheduler(proxy.kubeconfig) as scheduler:
        api.create_many(devices.pod(f"pod-{number}", scheduler=NAME) for number in range(4))
        eventually(lambda: sum(devices.held(api).values()) == 4)
        api.delete_all("Pod", "default")
        eventually(lambda: not devices.held(api))
        eventually(lambda: not scheduler.waiting())
