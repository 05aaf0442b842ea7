"""The devices of ResourceSlices, and what claims hold of them, as policies see them."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations
from wharfinger.model.devices.device import Device, DeviceDemand, Version
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

DRIVER = "gpu.example.com"
MEMORY = {"memory": {"value": "40Gi"}}


def slice_(name: str, devices: list[dict[str, Any]], node: str = "a", **spec: Any) -> objects.ResourceSlice:
    pool = {"name": spec.pop("pool", node), "generation": spec.pop("generation", 1), "resourceSliceCount": spec.pop("count", 1)}
    return decode.convert(
        {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices, **spec}},
        objects.ResourceSlice,
    )


def claim(name: str, *devices: dict[str, Any], count: int = 1) -> objects.ResourceClaim:
    results = [{"request": "r", "driver": DRIVER, "pool": "a", **each} for each in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}]}}
    return decode.convert(
        {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec, "status": status}, objects.ResourceClaim
    )


def cluster(*stored: objects.AnyObject) -> ClusterState:
    state = ClusterState()
    for name in ("a", "b"):
        state.add_node(objects.Node(metadata=objects.ObjectMeta(name=name)))
    state.snapshot().devices.follow()
    for each in stored:
        state.put(each)
    return state


def on(state: ClusterState, node: str = "a") -> dict[str, Device]:
    snapshot = state.snapshot()
    return {device.name: device for device in snapshot.devices.on(snapshot.known_row(node))}


def test_attributes_and_capacities_from_a_slice() -> None:
    attributes = {
        "model": {"string": "A100"},
        f"{DRIVER}/index": {"int": 3},
        "other.com/fast": {"bool": True},
        "driverVersion": {"version": "535.0.0"},
    }
    taints = [
        {"key": "broken", "effect": "NoSchedule"},
        {"key": "worn", "value": "fan", "effect": "NoExecute"},
        {"key": "old", "effect": "None"},
    ]
    state = cluster(slice_("s", [{"name": "gpu-0", "attributes": attributes, "capacity": MEMORY, "taints": taints}]))
    (device,) = on(state).values()

    assert device.uid == f"{DRIVER}/a/gpu-0"
    assert device.attributes == {"model": "A100", "index": 3, "other.com/fast": True, "driverVersion": "535.0.0"}
    assert isinstance(device.attribute("driverVersion"), Version)
    assert not isinstance(device.attribute("model"), Version)
    assert (device.capacity_of("memory"), device.free_of("memory"), device.taken) == (40.0 * 2**30, 40.0 * 2**30, False)
    assert device.taints == ("broken:NoSchedule", "worn=fan:NoExecute")
    assert not on(state, "b")


def test_a_claim_takes_devices_and_gives_them_back() -> None:
    state = cluster(slice_("s", [{"name": "gpu-0", "capacity": MEMORY}, {"name": "gpu-1", "capacity": MEMORY}]))
    for change, taken in ((claim("c", {"device": "gpu-1"}), [False, True]), (claim("c"), [False, False])):
        before = state.revision
        state.put(change)
        assert [device.taken for device in on(state).values()] == taken
        assert [device.free_of("memory") for device in on(state).values()] == [0.0 if each else 40.0 * 2**30 for each in taken]
        changed = state.snapshot().usage_changes(before)
        assert changed is not None
        assert changed.tolist() == [0]


def test_an_allocation_in_flight_counts() -> None:
    state = cluster(slice_("s", [{"name": "gpu-0"}]), claim("c"))
    allocated = claim("c", {"device": "gpu-0"})
    assert allocated.status.allocation is not None
    assert not on(state)["gpu-0"].taken
    state.objects.following(Allocations).take(claim("c"), allocated.status.allocation)
    assert on(state)["gpu-0"].taken


def test_a_share_leaves_the_remaining_capacity_free() -> None:
    device = {"name": "gpu-0", "capacity": MEMORY, "allowMultipleAllocations": True}
    shares = [{"device": "gpu-0", "shareID": share, "consumedCapacity": {"memory": "10Gi"}} for share in ("x", "y")]
    shared = on(cluster(slice_("s", [device]), claim("c", *shares)))["gpu-0"]

    assert (shared.taken, shared.free_of("memory"), shared.thousandths) == (True, 20.0 * 2**30, 500.0)
    assert on(cluster(slice_("s", [device])))["gpu-0"].thousandths == 1000.0


def test_a_partition_takes_what_it_shares_with_others() -> None:
    def part(name: str, units: str) -> dict[str, Any]:
        return {"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": {"units": {"value": units}}}]}

    counters = decode.convert(
        {
            "metadata": {"name": "t"},
            "spec": {
                "driver": DRIVER,
                "pool": {"name": "a", "generation": 1, "resourceSliceCount": 2},
                "nodeName": "a",
                "sharedCounters": [{"name": "gpu", "counters": {"units": {"value": "4"}}}],
            },
        },
        objects.ResourceSlice,
    )
    parts = slice_("s", [part("whole", "4"), part("half-0", "2"), part("half-1", "2")], count=2)
    assert [device.taken for device in on(cluster(counters, parts)).values()] == [False, False, False]
    assert [device.taken for device in on(cluster(counters, parts, claim("c", {"device": "half-0"}))).values()] == [True, True, False]


def test_a_new_generation_replaces_the_devices() -> None:
    state = cluster(slice_("s", [{"name": "gpu-0"}, {"name": "gpu-1"}]))
    assert list(on(state)) == ["gpu-0", "gpu-1"]
    state.put(slice_("s", [{"name": "gpu-7"}], generation=2))
    assert list(on(state)) == ["gpu-7"]
    state.drop("ResourceSlice", "s")
    assert not on(state)


@pytest.mark.parametrize(("made", "asked"), [(True, 3), (False, 2)])
def test_devices_that_a_pod_requests(made: bool, asked: int) -> None:
    template = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}}}
    state = cluster(
        claim("c", count=3),
        decode.convert({"metadata": {"name": "t", "namespace": "default"}, "spec": template}, objects.ResourceClaimTemplate),
    )
    statuses = [{"name": "gpu", "resourceClaimName": "c"}] if made else []
    pod = decode.convert(
        {
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
            "status": {"resourceClaimStatuses": statuses},
        },
        objects.Pod,
    )
    assert state.snapshot().devices.demand(PodView(pod)) == DeviceDemand(asked)
