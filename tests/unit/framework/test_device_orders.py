"""The devices of the chosen node that a pod gets: by `prefer device` of policies, and otherwise as Kubernetes and GpuShares do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.language.policies import policy as policy_of
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import compile_policy
from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.explain.explanation import explain_decision
from wharfinger.framework.chain import assemble
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot

GPU, SHARE, INDEX = "nvidia.com/gpu", "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-index"
BIGGEST = 'prefer device biggest = it.capacity["memory"]'
ODD = 'prefer device odd = it.name in ["gpu-1", "gpu-3"]'


def decided(state: ClusterState, pod: objects.Pod, *policies: str) -> Decision:
    texts = [f'policy "p{number}"\n{text}\n' for number, text in enumerate(policies)]
    chain = assemble([compile_policy(policy_of(text)) for text in texts])
    return decide(chain, state.snapshot(), PodView(pod))


def with_slices(sizes: list[int], count: int, **request: Any) -> tuple[ClusterState, objects.Pod]:
    """A cluster of two nodes with such devices each, and a pod whose claim requests some."""
    state = ClusterState()
    for node in ("a", "b"):
        status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}}
        state.add_node(decode.convert({"metadata": {"name": node}, "status": status}, objects.Node))
        devices = [{"name": f"gpu-{n}", "capacity": {"memory": {"value": f"{size}Gi"}}} for n, size in enumerate(sizes)]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": node, "devices": devices}
        state.put(decode.convert({"metadata": {"name": f"slice-{node}"}, "spec": spec}, objects.ResourceSlice))
    state.put(decode.convert({"metadata": {"name": "gpu"}, "spec": {}}, objects.DeviceClass))
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count, **request}}]}}
    claim = {"metadata": {"name": "c", "namespace": "default", "uid": "c"}, "spec": spec}
    state.put(decode.convert(claim, objects.ResourceClaim))
    pod = {"metadata": {"name": "p", "uid": "p"}, "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}}
    return state, decode.convert(pod, objects.Pod)


@pytest.mark.parametrize(
    ("policies", "count", "chosen"),
    [
        ((), 1, ["gpu-0"]),
        ((BIGGEST,), 1, ["gpu-2"]),
        ((BIGGEST,), 2, ["gpu-2", "gpu-1"]),
        ((BIGGEST,), 4, ["gpu-2", "gpu-1", "gpu-3", "gpu-0"]),
        ((ODD,), 2, ["gpu-1", "gpu-3"]),
        ((ODD, BIGGEST), 3, ["gpu-1", "gpu-3", "gpu-2"]),
        ((f"{ODD}\n{BIGGEST}",), 3, ["gpu-1", "gpu-3", "gpu-2"]),
        (("for pods where pod.priority > 3\n" + BIGGEST,), 1, ["gpu-0"]),
        (("prefer device biggest when pod.priority > 3 = it.capacity['memory']",), 1, ["gpu-0"]),
        (("prefer device known = it.attributes['numa']",), 2, ["gpu-0", "gpu-1"]),
    ],
)
def test_a_claim_gets_the_devices_that_policies_prefer(policies: tuple[str, ...], count: int, chosen: list[str]) -> None:
    state, pod = with_slices([16, 40, 80, 40], count)
    (claim,) = decided(state, pod, *policies).claims
    assert [result.device for result in claim.allocation.devices.results] == chosen


def test_a_preference_makes_no_device_allowed() -> None:
    small = [{"cel": {"expression": "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) < 0"}}]
    state, pod = with_slices([16, 40, 80, 8], 1, selectors=small)
    (claim,) = decided(state, pod, BIGGEST).claims
    assert [result.device for result in claim.allocation.devices.results] == ["gpu-0"]


def shares(*used: tuple[int, int]) -> ClusterState:
    """A node with four GPUs, of which pods use that many thousandths of one of them each."""
    state = ClusterState()
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "10", GPU: "4", SHARE: "4000"}
    node = {"metadata": {"name": "a"}, "status": {"allocatable": allocatable}}
    state.add_node(decode.convert(node, objects.Node))
    for number, (gpu, milli) in enumerate(used):
        state.add_pod(sharing(f"x{number}", milli, gpu))
    return state


def request(resource: str, amount: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {resource: amount}}}


def sharing(name: str, milli: int, gpu: int | None = None) -> objects.Pod:
    annotations = {} if gpu is None else {INDEX: str(gpu)}
    spec = {"containers": [request(SHARE, str(milli))], "nodeName": "" if gpu is None else "a"}
    return decode.convert({"metadata": {"name": name, "uid": name, "annotations": annotations}, "spec": spec}, objects.Pod)


def test_the_devices_of_a_decision_are_put_in_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()
    device_order = BoundPolicy.device_order

    def counted(policy: BoundPolicy, snapshot: Snapshot, row: int) -> Any:
        asked.append(row)
        return device_order(policy, snapshot, row)

    monkeypatch.setattr(BoundPolicy, "device_order", counted)
    state, fullest = shares((0, 500), (2, 700)), "prefer device fullest = -(it.free['milli'] ?? 0)"
    first = decided(state, sharing("p", 200), fullest)
    assert first.assigned.annotations[INDEX] == first.devices[0].device == "2"
    assert asked == [0]
    state.add_pod(sharing("q", 200, 2))
    second = decided(state, sharing("p", 200), fullest)
    assert second.assigned.annotations[INDEX] == second.devices[0].device == "0"
    assert asked == [0, 0]


@pytest.mark.parametrize(
    ("policy", "gpu"),
    [
        ("tie_break node.pod_count asc", "0"),
        ('prefer device tight = -it.free["milli"]', "2"),
        ('prefer device roomy = it.free["milli"]', "3"),
        ("workload t = [{ gpu: 1, milli: 600 }]\nprefer device fgd = -fragmentation_with(it, t)", "1"),
    ],
)
def test_a_share_goes_to_the_gpu_that_a_policy_prefers(policy: str, gpu: str) -> None:
    state = shares((0, 300), (1, 500), (2, 700))  # free are 700, 500, 300 and 1000
    assert decided(state, sharing("p", 300), policy).assigned.annotations[INDEX] == gpu


def test_policies_see_the_gpus_under_the_names_of_the_settings() -> None:
    names = {"count_resource": "amd.com/gpu", "share": "amd.com/gpu-milli", "index_annotation": "amd.com/index"}
    state = ClusterState()
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "10", "amd.com/gpu": "2", "amd.com/gpu-milli": "2000"}
    state.add_node(decode.convert({"metadata": {"name": "a"}, "status": {"allocatable": allocatable}}, objects.Node))
    pod = decode.convert({"metadata": {"name": "p"}, "spec": {"containers": [request("amd.com/gpu-milli", "300")]}}, objects.Pod)
    policy = compile_policy(policy_of('policy "p"\nprefer device last = it.name == "1"\n'))
    chain = assemble([policy], ChainConfig(arguments={"GpuShares": names}))
    assert decide(chain, state.snapshot(), PodView(pod)).assigned.annotations["amd.com/index"] == "1"


@pytest.mark.parametrize(
    ("policies", "count", "expected"),
    [
        ((BIGGEST,), 1, ["p0: prefer device biggest: gets gpu-2 (3Gi); others: gpu-1 (2Gi), gpu-3 (2Gi), gpu-0 (1Gi)"]),
        ((ODD.replace("in [", "not in ["),), 0, []),
        (
            ("prefer device first = if it.name == 'gpu-3' then 1 else 0", BIGGEST),
            2,
            [
                "p0: prefer device first: gets gpu-3 (1), gpu-2 (0); others: gpu-0 (0), gpu-1 (0)",
                "p1: prefer device biggest: gets gpu-2 (3Gi), gpu-3 (2Gi); others: gpu-1 (2Gi), gpu-0 (1Gi)",
            ],
        ),
        (("for pods where pod.priority > 3\n" + BIGGEST,), 1, []),
        (("prefer device biggest when pod.priority > 3 = it.capacity['memory']",), 1, []),
        (
            ("prefer device spare = it.free['cores']",),
            1,
            ["p0: prefer device spare: gets gpu-0 (missing); others: gpu-1 (missing), gpu-2 (missing), gpu-3 (missing)"],
        ),
    ],
)
def test_an_explanation_says_what_preferences_said_of_the_devices(policies: tuple[str, ...], count: int, expected: list[str]) -> None:
    state, pod = with_slices([1, 2, 3, 2], count) if count else (with_slices([1], 1)[0], objects.Pod())
    decision = decided(state, pod, *policies)
    found = explain_decision(decision, decision.snapshot, PolicyExplainer(decision.chain))
    assert list(found.preferences) == expected
    assert all(f"\n  {line}\n" in str(found) for line in expected)
