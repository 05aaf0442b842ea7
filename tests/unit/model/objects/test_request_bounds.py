"""Huge requests are limited, so that sums do not overflow."""

import msgspec
import pytest

from wharfinger.model import objects
from wharfinger.model.objects import requests
from wharfinger.model.state.cluster_state import ClusterState


def test_sums_of_huge_requests_do_not_overflow():
    state = ClusterState()
    state.add_node(msgspec.convert({"metadata": {"name": "a"}, "status": {"allocatable": {"memory": "1Gi"}}}, objects.Node))
    container = {"name": "main", "resources": {"requests": {"memory": "9223372036854775807"}}}
    for index in range(200):
        manifest = {"metadata": {"name": f"p{index}", "uid": f"{index}"}, "spec": {"nodeName": "a", "containers": [container]}}
        state.add_pod(msgspec.convert(manifest, objects.Pod))
    assert state.snapshot().requested[1, 0] == requests.MAX_AMOUNT
    assert state.snapshot().nonzero[1, 0] == requests.MAX_AMOUNT


@pytest.mark.parametrize("amount", ["8Pi", "9Ei", "9223372036854775807", "1e30"])
def test_the_requests_of_one_pod_are_bounded_for_each_resource(amount):
    names = ("cpu", "memory", "ephemeral-storage", "example.com/gpu")
    container = {"name": "main", "resources": {"requests": dict.fromkeys(names, amount)}}
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": [container]}}, objects.Pod)
    nanos = requests.pod_requests(pod)
    assert requests.in_scheduler_units(nanos) == dict.fromkeys(names, requests.MAX_AMOUNT)
    assert requests.cpu_and_memory(nanos) == (requests.MAX_AMOUNT, requests.MAX_AMOUNT)
