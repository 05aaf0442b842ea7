"""The requests of a pod are computed as by Kubernetes."""

import json

import pytest

from tests.unit.model import cases
from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.objects import requests
from wharfinger.model.objects.pod_view import PodView, derive_demand
from wharfinger.model.reading import decode


def pod_of(plain):
    return decode.convert(plain, objects.Pod)


@pytest.mark.parametrize("case", cases.lines("pod-requests.jsonl.gz"), ids=lambda case: str(len(json.dumps(case))))
def test_counts_as_kubernetes_counts(case):
    demand = PodView(pod_of(case["pod"])).demand
    answer = case["answer"]
    assert demand.requests == answer["requests"]
    assert list(demand.nonzero) == answer["nonzero"]
    assert list(demand.score_nonzero) == answer["score"]
    assert demand.qos == answer["qos"]


def test_a_sidecar_counts_from_its_turn_on():
    spec = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [
            {"name": "first", "resources": {"requests": {"cpu": "4"}}},
            {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}},
            {"name": "last", "resources": {"requests": {"cpu": "3"}}},
        ],
    }
    # first alone 4; side and last 5; side and main 3
    assert PodView(pod_of({"spec": spec})).requests == {"cpu": 5000}


def test_resources_without_a_domain_are_not_counted():
    spec = {"containers": [{"name": "c", "resources": {"requests": {"storage": "1Gi", "example.com/x": "1", "pods": "3"}}}]}
    assert PodView(pod_of({"spec": spec})).requests == {"example.com/x": 1}


@pytest.mark.parametrize(("reason", "cpu"), [("Infeasible", 1000), ("Deferred", 4000)])
def test_an_infeasible_resize_is_not_counted(reason, cpu):
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    status = {
        "conditions": [{"type": "PodResizePending", "reason": reason}],
        "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}],
    }
    placed = pod_of({"spec": {"nodeName": "n", "containers": [container]}, "status": status})
    assert PodView(placed).requests["cpu"] == cpu


def test_resources_in_the_status_count_only_on_a_node():
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}
    assert PodView(pod_of({"spec": {"containers": [container]}, "status": status})).requests["cpu"] == 1000
    assert PodView(pod_of({"spec": {"containers": [container], "nodeName": "n"}, "status": status})).requests["cpu"] == 3000


def test_a_bad_quantity_names_its_container_and_resource():
    # Decoding refuses it already; a pod built otherwise still says where it is wrong.
    container = objects.Container(name="web", resources=objects.ContainerResources(requests={"cpu": "lots"}))
    pod = objects.Pod(spec=objects.PodSpec(containers=(container,)))
    with pytest.raises(InvalidObject, match=r"container 'web' resources.requests: 'lots' is not a quantity"):
        derive_demand(pod)


def test_resources_without_a_domain_are_not_counted_except_native_ones_huge_pages_and_volumes():
    names = ["cpu", "memory", "ephemeral-storage", "hugepages-1Gi", "attachable-volumes-aws-ebs", "a.com/x", "pods", "storage"]
    assert [name for name in names if requests.is_counted(name)] == names[:-2]
