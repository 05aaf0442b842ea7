"""Decisions with claims for devices: `python -m tests.bench.devices [--nodes 5000] [--pods 2000] [--largest]`.

Every node has eight GPUs in one slice, each with a unique id, on two NUMA nodes. Pods have one claim of a template each. After each
decision the pod is assumed and its devices count as taken, as in a scheduler. Prints decisions per second of CPU time, without the making
of pods and claims, in three cases: no claims, one device, and four of one NUMA node.

With `--largest`, the claims are those that take most work of all that the API server accepts. Prints the steps before the first
decision, the longest of them in CPU time, and the decision.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Mapping, Sequence

from msgspec import structs

from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

DRIVER = "gpu.example.com"
DEVICES = 8


def cluster(n_nodes: int) -> ClusterState:
    """The cluster: nodes, their slices, and the class `gpu`."""
    state = ClusterState(now=1_800_000_000.0)
    for number in range(n_nodes):
        name = f"n{number:05}"
        allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        node = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": {"allocatable": allocatable}}
        state.put(decode.convert(node, objects.Node))
        devices = [device(name, place) for place in range(DEVICES)]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        state.put(decode.convert({"metadata": {"name": f"{name}-gpu"}, "spec": spec}, objects.ResourceSlice))
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "a100"'}}
    state.put(decode.convert({"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}, objects.DeviceClass))
    return state


def device(node: str, place: int) -> dict[str, object]:
    """One GPU."""
    attributes = {"model": {"string": "a100"}, "uuid": {"string": f"{node}-{place}"}, "numa": {"int": place // 4}}
    return {"name": f"gpu-{place}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def claim(pod: str, count: int) -> objects.ResourceClaim:
    """The claim of a pod."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    devices: dict[str, object] = {"requests": [{"name": "gpu", "exactly": exactly}]}
    if count > 1:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/numa"}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": True}
    metadata = {"name": f"{pod}-gpu", "namespace": "default", "uid": f"{pod}-gpu", "ownerReferences": [owner]}
    return decode.convert({"metadata": metadata, "spec": {"devices": devices}}, objects.ResourceClaim)


def claim_of(pod: str, wanted: Mapping[str, object]) -> objects.ResourceClaim:
    """The claim of a pod with these requests and constraints."""
    plain = claim(pod, 1)
    return structs.replace(plain, spec=decode.convert({"devices": wanted}, objects.ResourceClaimSpec))


def one_of(number: int, alternatives: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """A request with alternatives, each with these further fields."""
    of = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    return {"name": f"r{number}", "firstAvailable": [{"name": f"a{place}", **of, **more} for place, more in enumerate(alternatives)]}


def _unlike(*numbers: int) -> dict[str, object]:
    text = "-".join(map(str, numbers))
    return {"cel": {"expression": f'device.attributes["{DRIVER}"].uuid != "{text}"'}}


def _tolerated(*numbers: int) -> list[dict[str, object]]:
    return [{"key": f"{'-'.join(map(str, numbers))}-{place}", "operator": "Exists"} for place in range(16)]


def _amount(number: int) -> dict[str, object]:
    return {"requests": {"memory": f"{1 + number}Mi"}}


ONE_UUID = {"requests": ["r0"], "matchAttribute": f"{DRIVER}/uuid"}
LARGEST: Mapping[str, Mapping[str, object]] = {
    "alternatives": {"requests": [one_of(n, [{"tolerations": _tolerated(n, m)[:1]} for m in range(8)]) for n in range(32)]},
    "tolerations": {"requests": [one_of(n, [{"tolerations": _tolerated(n, m)} for m in range(8)]) for n in range(32)]},
    "amounts": {"requests": [one_of(n, [{"capacity": _amount(8 * n + m)} for m in range(8)]) for n in range(32)]},
    "selectors": {"requests": [one_of(n, [{"selectors": [_unlike(n, m, k) for k in range(32)]} for m in range(8)]) for n in range(32)]},
    "orders": {"requests": [one_of(n, [{}]) for n in range(9)], "constraints": [ONE_UUID]},
}
"""Requests and constraints that take most work: 32 requests with 8 alternatives, and all orders of the devices of a node."""


def pending(name: str, *, claims: bool) -> PodView:
    """A pod, with a claim of a template or without."""
    resources = {"requests": {"cpu": "1", "memory": "4Gi"}}
    spec: dict[str, object] = {"containers": [{"name": "c", "resources": resources}]}
    status: dict[str, object] = {}
    if claims:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    plain = {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec, "status": status}
    return PodView(decode.convert(plain, objects.Pod))


def decisions(n_nodes: int, n_pods: int, count: int) -> tuple[float, float, int]:
    """CPU seconds of the first decision and of all others, and the number of pods that were placed; `count` devices for each pod."""
    state, decider = cluster(n_nodes), Decider(assemble())
    spent = first = 0.0
    placed = 0
    for number in range(n_pods):
        pod = pending(f"p{number}", claims=count > 0)
        if count:
            state.put(claim(pod.name, count))
        started = time.process_time()
        decision = decider.decide(state.snapshot(), pod)
        if decision.node is not None:
            placed += 1
            for each in decision.claims:
                state.reserve_devices(each.claim, each.allocation)
            state.assume(pod, decision.node)
        took = time.process_time() - started
        if number:
            spent += took
        else:
            first = took
    return first, spent, placed


def longest_step(n_nodes: int, wanted: Mapping[str, object]) -> tuple[int, float, float, str]:
    """The number of steps before the first decision, CPU seconds of the longest one and of the decision, and its message."""
    state, decider = cluster(n_nodes), Decider(assemble())
    gc.freeze()  # garbage is collected as by `wharf run`
    state.put(claim("usual", 1))
    decider.decide(state.snapshot(), pending("usual", claims=True))
    state.put(claim_of("p", wanted))
    pod, taken = pending("p", claims=True), []
    began = time.process_time()
    for _ in decider.precompute(state.snapshot, pod):
        now = time.process_time()
        taken.append(now - began)
        began = now
    decision = decider.decide(state.snapshot(), pod)
    return len(taken), max(taken), time.process_time() - began, decision.message


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.devices", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--largest", action="store_true")
    options = parser.parse_args()
    if options.largest:
        for name, wanted in LARGEST.items():
            n_steps, longest, decided, message = longest_step(options.nodes, wanted)
            sys.stdout.write(
                f"{name:12}  {n_steps:5} steps, {longest * 1000:3.0f} ms at most, then {decided * 1000:3.0f} ms: {message[:90]}\n"
            )
        return
    sys.stdout.write("devices  first, ms  decisions/s   µs  placed\n")
    for count in (0, 1, 4):
        first, spent, placed = decisions(options.nodes, options.pods, count)
        each = spent / max(1, options.pods - 1)
        sys.stdout.write(f"{count:7}  {first * 1000:9.0f}  {1 / each:11.0f}  {each * 1e6:3.0f}  {placed:6}\n")


if __name__ == "__main__":
    main()
