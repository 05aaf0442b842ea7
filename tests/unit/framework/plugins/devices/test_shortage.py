"""Explanations of the devices of nodes: how many meet each condition of a request, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.explain.explanation import explain
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

DRIVER = "gpu.example.com"
A100 = f'device.attributes["{DRIVER}"].model == "A100"'
NO_SUCH_KEY = f'device.attributes["{DRIVER}"].modle == "a"'
TAINT = {"taints": [{"key": "broken", "effect": "NoExecute"}]}
COUNTS = {"consumesCounters": [{"counterSet": "memory", "counters": {"slices": {"value": "2"}}}]}


def device(name: str, model: str = "A100", **more: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def shared(name: str, memory: str) -> dict[str, Any]:
    return device(name, allowMultipleAllocations=True, capacity={"memory": {"value": memory}})


def on_numa(name: str, numa: int) -> dict[str, Any]:
    return device(name, attributes={"numa": {"int": numa}})


def asked(name: str = "gpu", **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu", "count": 1, **more}}


def selecting(expression: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}}]


def made(
    devices: list[dict[str, Any]],
    *requests: dict[str, Any],
    nodes: tuple[str, ...] = ("a",),
    taken: tuple[str, ...] = (),
    held: dict[str, Any] | None = None,
    constraints: tuple[dict[str, Any], ...] = (),
    n_slices: int = 1,
) -> tuple[ClusterState, PodView]:
    """A cluster whose nodes have these devices, of which another claim has those `taken`, and a pod with a claim."""
    state = ClusterState()
    for node in nodes:
        status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}}
        state.add_node(decode.convert({"metadata": {"name": node}, "status": status}, objects.Node))
        pool = {"name": node, "generation": 1, "resourceSliceCount": n_slices}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
        state.put(decode.convert({"metadata": {"name": f"slice-{node}"}, "spec": spec}, objects.ResourceSlice))
        if n_slices == 2:
            counters = [{"name": "memory", "counters": {"slices": {"value": "3"}}}]
            spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "sharedCounters": counters}
            state.put(decode.convert({"metadata": {"name": f"counters-{node}"}, "spec": spec}, objects.ResourceSlice))
    spec = {"selectors": selecting(f'device.driver == "{DRIVER}"')}
    state.put(decode.convert({"metadata": {"name": "gpu"}, "spec": spec}, objects.DeviceClass))
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": name, **(held or {})} for node in nodes for name in taken]
    if results:
        status = {"allocation": {"devices": {"results": results}}}
        state.put(decode.convert({"metadata": {"name": "held", "namespace": "other", "uid": "h"}, "status": status}, objects.ResourceClaim))
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    state.put(decode.convert({"metadata": {"name": "c", "namespace": "default", "uid": "c"}, "spec": spec}, objects.ResourceClaim))
    pod = {"metadata": {"name": "p", "uid": "p"}, "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}}
    return state, PodView(decode.convert(pod, objects.Pod))


TOGETHER = "each request could be met alone, and not all of them together with their constraints"
CASES = {
    "a selector": (
        made([device("0"), device("1", "T4")], asked(selectors=selecting(f"{A100}\n && true"), count=2)),
        [f"request gpu wants 2 devices: of 2, 2 are of class gpu, 1 matches `{A100} && true` (not 1), 1 is free"],
    ),
    "taken and tainted": (
        made([device("0"), device("1", **TAINT)], asked(), taken=("0",)),
        ["request gpu wants 1 device: of 2, 2 are of class gpu, 1 is free (not 0), 0 have no taint in the way (not 1: broken:NoExecute)"],
    ),
    "many of one node": (
        made([device(str(n)) for n in range(6)], asked(), taken=tuple(map(str, range(6)))),
        ["request gpu wants 1 device: of 6, 6 are of class gpu, 0 are free (not 0, 1, 2, 3 and 2 more)"],
    ),
    "several nodes": (
        made([device("0"), device("1", **TAINT)], asked(), taken=("0",), nodes=("a", "b", "d")),
        ["request gpu wants 1 device: of 6 on 3 nodes, 6 are of class gpu, 3 are free, 0 have no taint in the way"],
    ),
    "counters": (
        made([device("0", **COUNTS), device("1", **COUNTS)], asked(), taken=("0",), n_slices=2),
        ["request gpu wants 1 device: of 2, 2 are of class gpu, 1 is free (not 0), 0 have their counters left (not 1)"],
    ),
    "capacity": (
        made(
            [shared("0", "8Gi"), shared("1", "2Gi")],
            asked(capacity={"requests": {"memory": "4Gi"}}),
            taken=("0",),
            held={"shareID": "s", "consumedCapacity": {"memory": "6Gi"}},
        ),
        ["request gpu wants 1 device: of 2, 2 are of class gpu, 2 are free, 0 have the capacity (not 0, 1)"],
    ),
    "matchAttribute": (
        made([on_numa("0", 0), on_numa("1", 1)], asked(count=2), constraints=({"matchAttribute": f"{DRIVER}/numa"},)),
        [f"request gpu wants 2 devices: of 2, 2 are of class gpu, 2 are free, at most 1 with the same {DRIVER}/numa", TOGETHER],
    ),
    "one device for two requests": (
        made([device("0")], asked("one"), asked("two")),
        [*(f"request {name} wants 1 device: of 1, 1 is of class gpu, 1 is free" for name in ("one", "two")), TOGETHER],
    ),
    "alternatives": (
        made(
            [device("0")],
            {"name": "r", "firstAvailable": [{"name": n, "deviceClassName": "gpu", "count": c} for n, c in (("b", 3), ("s", 2))]},
        ),
        [f"request r/{n} wants {c} devices: of 1, 1 is of class gpu, 1 is free" for n, c in (("b", 3), ("s", 2))],
    ),
    "all devices, one of them taken": (
        made([device("0"), device("1")], asked(allocationMode="All"), taken=("1",)),
        ["request gpu wants all devices: of 2, 2 are of class gpu, 1 is free (not 1)"],
    ),
    "a selector that fails": (
        made([device("0")], asked(selectors=selecting(NO_SUCH_KEY)), taken=("0",)),
        [f"request gpu wants 1 device: of 1, 1 is of class gpu, 0 match `{NO_SUCH_KEY}` (not 0: CEL runtime error: no such key: modle)"],
    ),
    "all devices": (
        made([device("0", "T4")], asked(allocationMode="All", selectors=selecting(A100))),
        [f"request gpu wants all devices: of 1, 1 is of class gpu, 0 match `{A100}` (not 0)"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rejection_says_which_devices_fail_which_condition(case: str) -> None:
    (state, pod), expected = CASES[case]
    chain = assemble()
    found = explain(chain, state.snapshot(), pod, PolicyExplainer(chain), nodes=["a"])
    assert found.message.startswith(
        f"0/{state.snapshot().n_nodes} nodes are available: {state.snapshot().n_nodes} cannot allocate all claims."
    )
    (step,) = [step for step in found.steps if step.rule == "DynamicResources"]
    assert list(step.details) == expected
    (report,) = found.asked
    (verdict,) = report.rejected_by
    assert verdict.sentences == ("cannot allocate all claims",)
    assert step.details == verdict.values or state.snapshot().n_nodes > 1
    assert all(f"  {line}\n" in str(found) for line in expected)


def test_an_error_is_named() -> None:
    state, pod = made([device("0")], asked(selectors=selecting(NO_SUCH_KEY)), nodes=("a", "b"))
    found = explain(assemble(), state.snapshot(), pod, PolicyExplainer(assemble()), nodes=["a"])
    (step,) = [step for step in found.steps if step.rule == "DynamicResources"]
    (verdict,) = found.asked[0].rejected_by
    assert step.details == verdict.values == ("claim default/c: selector #0: CEL runtime error: no such key: modle",)


def test_an_incomplete_pool_is_named() -> None:
    state, pod = made([device("0")], asked(), n_slices=3)
    found = explain(assemble(), state.snapshot(), pod, PolicyExplainer(assemble()))
    (step,) = [step for step in found.steps if step.rule == "DynamicResources"]
    assert step.details == ("request gpu wants 1 device: of 0, 0 are of class gpu, 1 pool is not complete yet",)


def test_a_claim_that_has_devices_elsewhere_names_them() -> None:
    state, pod = made([device("0")], asked(), nodes=("a", "b"))
    (claim,) = [each for each in state.objects.all(objects.ResourceClaim) if each.metadata.name == "c"]
    on_b = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}
    results = [{"request": "gpu", "driver": DRIVER, "pool": "b", "device": "0"}]
    status = {"allocation": {"devices": {"results": results}, "nodeSelector": on_b}}
    spec = decode.convert({"metadata": {"name": "c", "namespace": "default", "uid": "c"}, "status": status}, objects.ResourceClaim)
    state.put(spec)
    assert claim.status.allocation is None
    found = explain(assemble(), state.snapshot(), pod, PolicyExplainer(assemble()), nodes=["a"])
    assert found.node == "b"
    (verdict,) = found.asked[0].rejected_by
    assert verdict.values == ("claim default/c has b/0 already, out of reach of 1 node",)


def test_a_node_that_passes_says_which_devices_were_out() -> None:
    state, pod = made([device("0"), device("1", **TAINT)], asked())
    found = explain(assemble(), state.snapshot(), pod, PolicyExplainer(assemble()), nodes=["a"])
    line = "request gpu wants 1 device: of 2, 2 are of class gpu, 2 are free, 1 has no taint in the way (not 1: broken:NoExecute)"
    assert f"    DynamicResources: passes\n      {line}\n" in str(found)


def test_gpus_that_are_shared_say_what_each_has_free() -> None:
    state = ClusterState()
    gpu, share = "nvidia.com/gpu", "alibabacloud.com/gpu-milli"
    for name, count in (("a", 2), ("b", 1)):
        allocatable = {"cpu": "8", "memory": "8Gi", "pods": "10", gpu: str(count), share: f"{count * 1000}"}
        state.add_node(decode.convert({"metadata": {"name": name}, "status": {"allocatable": allocatable}}, objects.Node))
        for index in range(count):
            spec = {"containers": [{"name": "c", "resources": {"requests": {share: "500"}}}], "nodeName": name}
            metadata = {"name": f"{name}{index}", "uid": f"{name}{index}", "annotations": {"alibabacloud.com/gpu-index": str(index)}}
            state.add_pod(decode.convert({"metadata": metadata, "spec": spec}, objects.Pod))
    spec = {"containers": [{"name": "c", "resources": {"requests": {share: "400"}}}]}
    small = PodView(decode.convert({"metadata": {"name": "s", "uid": "s"}, "spec": spec}, objects.Pod))
    spec = {"containers": [{"name": "c", "resources": {"requests": {share: "501"}}}]}
    big = PodView(decode.convert({"metadata": {"name": "p", "uid": "p"}, "spec": spec}, objects.Pod))
    found = explain(assemble(), state.snapshot(), big, PolicyExplainer(assemble()), nodes=["a"])
    (step,) = [step for step in found.steps if step.rule == "GpuShares"]
    assert step.details == ("1 GPU wanted: of 3 on 2 nodes, 0 have 501 thousandths free",)
    assert "1 GPU wanted: of 2, 0 have 501 thousandths free (free: 500, 500)" in str(found)
    assert "1 GPU wanted: of 2, 2 have 400 thousandths free (free: 500, 500)" in str(
        explain(assemble(), state.snapshot(), small, PolicyExplainer(assemble()), nodes=["a"])
    )


def test_an_unknown_allocation_mode_is_an_error() -> None:
    state, pod = made([device("0")], asked(allocationMode="Some"))
    decision = decide(assemble(), state.snapshot(), pod)
    assert decision.aborted["a"].endswith("filter plugin: claim default/c, request gpu: unsupported count mode Some")
