"""Decisions name the devices that their pods get, and every answer that is made of decisions passes them on."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.bench import devices
from tests.unit.framework.test_device_orders import with_slices
from wharfinger.framework import pod_devices
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model import objects
from wharfinger.model.devices.allocated import with_allocation
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.operator.preview_answer import answer_preview
from wharfinger.scheduler.decision_log.recorder import logged_answer
from wharfinger.simulate.dry_run import dry_run
from wharfinger.steps import at_once

CHAIN = assemble()
GPU, SHARE = "nvidia.com/gpu", "alibabacloud.com/gpu-milli"


def shares(want: dict[str, str]) -> tuple[ClusterState, objects.Pod]:
    state = ClusterState()
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "10", GPU: "2", SHARE: "2000"}
    state.add_node(decode.convert({"metadata": {"name": "a"}, "status": {"allocatable": allocatable}}, objects.Node))
    taken = {"containers": [{"name": "c", "resources": {"requests": {SHARE: "500"}}}], "nodeName": "a"}
    annotations = {"alibabacloud.com/gpu-index": "0"}
    state.add_pod(decode.convert({"metadata": {"name": "q", "uid": "q", "annotations": annotations}, "spec": taken}, objects.Pod))
    spec = {"containers": [{"name": "c", "resources": {"requests": want}}]}
    return state, decode.convert({"metadata": {"name": "p", "uid": "p"}, "spec": spec}, objects.Pod)


def network_attached() -> tuple[ClusterState, objects.Pod]:
    state, pod = with_slices([1], 1)
    for each in list(state.objects.all(objects.ResourceSlice)):
        state.drop("ResourceSlice", objects.key_of(each))
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    card = {"name": "nic-0", "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10G"}}}
    spec = {"driver": "nic.example.com", "pool": pool, "allNodes": True, "devices": [card]}
    state.put(decode.convert({"metadata": {"name": "fabric"}, "spec": spec}, objects.ResourceSlice))
    (claim,) = state.objects.all(objects.ResourceClaim)
    capacity = {"requests": {"bandwidth": "4G"}}
    request = {"name": "nic", "exactly": {"deviceClassName": "gpu", "count": 1, "capacity": capacity}}
    state.put(structs.replace(claim, spec=decode.convert({"devices": {"requests": [request]}}, objects.ResourceClaimSpec)))
    return state, pod


def allocated_before() -> tuple[ClusterState, objects.Pod]:
    state, pod = with_slices([1, 2], 1)
    (each,) = decide(CHAIN, state.snapshot(), PodView(pod)).claims
    state.put(with_allocation(each.claim, each.allocation))
    return state, pod


def extended() -> tuple[ClusterState, objects.Pod]:
    state = devices.cluster(1)
    requests = {"deviceclass.resource.kubernetes.io/gpu": "2"}
    container = objects.Container(name="c", resources=objects.ContainerResources(requests=requests))
    metadata = objects.ObjectMeta(name="p", uid="p")
    return state, objects.Pod(metadata=metadata, spec=objects.PodSpec(containers=(container,)))


CASES = {
    "a claim": (lambda: with_slices([1, 2, 3], 2), "r: gpu-0, gpu-1", ["default/c"] * 2),
    "admin access": (lambda: with_slices([1], 1, adminAccess=True), "r: gpu-0 (admin access)", ["default/c"]),
    "a claim that has its devices": (allocated_before, "r: gpu-0", ["default/c"]),
    "a part of a device of the network": (network_attached, "nic: fabric/nic-0 (4G of bandwidth)", ["default/c"]),
    "an extended resource": (extended, "container-0-request-0: gpu-0, gpu-1", ["", ""]),
    "a share": (lambda: shares({SHARE: "600"}), f"{GPU}: 1 (600 thousandths)", [""]),
    "a whole GPU": (lambda: shares({GPU: "1"}), f"{GPU}: 1", [""]),
    "no device": (lambda: shares({"cpu": "1"}), "", []),
}


@pytest.mark.parametrize("case", CASES)
def test_a_decision_names_the_devices_of_its_pod(case: str) -> None:
    make, expected, claims = CASES[case]
    state, pod = make()
    decision = decide(CHAIN, state.snapshot(), PodView(pod))
    assert pod_devices.text(decision.devices, decision.node) == expected
    assert [each.claim for each in decision.devices] == claims
    for each in decision.devices:
        (device,) = [found for found in state.snapshot().devices.on(decision.row) if found.name == each.device and found.pool in each.pool]
        assert device.driver == each.driver


@pytest.mark.parametrize("case", CASES)
def test_answers_made_of_decisions_have_them(case: str) -> None:
    make, expected, _ = CASES[case]
    state, pod = make()
    decision = decide(CHAIN, state.snapshot(), PodView(pod))
    given = decision.devices
    assert logged_answer(decision).devices == tuple(each.uid for each in given)
    status = at_once(answer_preview(CHAIN, state.snapshot(), [PodView(pod)])).status()
    (placement,) = status["placements"]
    assert placement.get("devices") == ([f"default/p: {expected}"] if expected else None)
    (result,) = dry_run(CHAIN, state, [PodView(pod)], explained=lambda _: True).results
    assert result.explanation is not None
    assert (result.devices, result.explanation.devices) == (given, given)
    assert not expected or f"\n  gets {expected}\n" in str(result.explanation)


def test_a_pod_without_a_node_gets_none() -> None:
    state, pod = with_slices([1], 2)
    decision = decide(CHAIN, state.snapshot(), PodView(pod))
    assert (decision.node, decision.devices) == (None, ())
    assert structs.replace(decision, row=None).devices == ()
