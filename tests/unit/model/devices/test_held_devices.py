"""The holders of the devices of a node."""

from __future__ import annotations

import msgspec

from tests.unit.framework.test_gpu_shares import INDEX
from tests.unit.framework.test_gpu_shares import node as gpu_node
from tests.unit.framework.test_gpu_shares import pod as gpu_pod
from tests.unit.model.devices.test_sliced_devices import MEMORY, claim, cluster, slice_
from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations
from wharfinger.model.devices.held_devices import HeldDevice, Holding
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

DEVICES = [{"name": "gpu-0"}, {"name": "gpu-1"}]
SHARED = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": MEMORY}


def held(state: ClusterState, node: str = "a") -> dict[str, HeldDevice]:
    snapshot = state.snapshot()
    return {each.device.name: each for each in snapshot.held_devices(snapshot.known_row(node))}


def holdings(state: ClusterState, device: str = "gpu-0") -> tuple[Holding, ...]:
    return held(state)[device].holdings


def user(name: str, *claims: str) -> PodView:
    """A pod on node a that names claims."""
    named = [{"name": each, "resourceClaimName": each} for each in claims]
    metadata = {"name": name, "namespace": "default", "uid": name}
    spec = {"nodeName": "a", "resourceClaims": named, "containers": [{"name": "main"}]}
    return PodView(decode.convert({"metadata": metadata, "spec": spec}, objects.Pod))


def reserved(found: objects.ResourceClaim, *pods: str) -> objects.ResourceClaim:
    consumers = tuple(objects.ClaimConsumer(resource="pods", name=name, uid=name) for name in pods)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, reserved_for=consumers))


def test_the_claims_of_the_pods_on_the_node_hold_its_devices() -> None:
    state = cluster(slice_("s", DEVICES), claim("c", {"device": "gpu-0"}))
    state.add_pod(user("p", "c"))
    assert holdings(state) == (Holding(claim="default/c", pods=("default/p",)),)
    assert holdings(state, "gpu-1") == ()


def test_a_claim_of_no_pod_of_the_node_is_found_too() -> None:
    state = cluster(slice_("s", DEVICES), claim("c", {"device": "gpu-0"}), reserved(claim("d", {"device": "gpu-1"}), "far"))
    assert holdings(state) == (Holding(claim="default/c"),)
    assert holdings(state, "gpu-1") == (Holding(claim="default/d", pods=("default/far",)),)


def test_all_that_share_a_device_are_named_with_what_they_have_of_it() -> None:
    parts = [{"device": "gpu-0", "shareID": name, "consumedCapacity": {"memory": f"{size}Gi"}} for name, size in (("x", 10), ("y", 4))]
    state = cluster(slice_("s", [SHARED]), claim("c", parts[0]), reserved(claim("d", parts[1]), "far"))
    state.add_pod(user("p", "c"))
    assert holdings(state) == (
        Holding(claim="default/c", pods=("default/p",), amounts={"memory": 10 * 2**30}),
        Holding(claim="default/d", pods=("default/far",), amounts={"memory": 4 * 2**30}),
    )


def test_an_allocation_in_flight_is_held() -> None:
    waiting, allocated = claim("c"), claim("c", {"device": "gpu-1"}).status.allocation
    assert allocated is not None
    state = cluster(slice_("s", DEVICES), waiting)
    state.add_pod(user("p", "c"))
    state.snapshot().objects.following(Allocations).take(waiting, allocated)
    assert holdings(state, "gpu-1") == (Holding(claim="default/c", pods=("default/p",), in_flight=True),)


def test_admin_access_holds_nothing_back() -> None:
    state = cluster(slice_("s", DEVICES), claim("c", {"device": "gpu-0", "adminAccess": True}))
    state.add_pod(user("p", "c"))
    (found,) = holdings(state)
    assert found.admin
    assert not held(state)["gpu-0"].device.taken


def test_a_device_whose_counters_others_have_used_up_is_blocked() -> None:
    counters = [{"name": "set", "counters": {"slots": {"value": "1"}}}]
    needs = {"consumesCounters": [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}]}
    sets = slice_("t", [], pool="a", count=2, sharedCounters=counters)
    devices = slice_("s", [{**each, **needs} for each in DEVICES], count=2)
    state = cluster(devices, sets, claim("c", {"device": "gpu-0"}))
    assert [each.blocked for each in held(state).values()] == [False, True]


def test_shares_of_gpus_are_held_by_pods() -> None:
    state = ClusterState(0.0)
    state.add_node(gpu_node("a", 2))
    state.add_pod(gpu_pod("written", 1, 300, annotations={INDEX: "1"}, on="a"))
    state.add_pod(gpu_pod("supposed", 1, 500, on="a"))
    found = held(state)
    assert found["1"].holdings == (
        Holding(pods=("default/written",), amounts={"milli": 300.0}),
        Holding(pods=("default/supposed",), amounts={"milli": 500.0}, supposed=True),
    )
    assert found["1"].device.free == {"milli": 200.0}
    assert found["0"].holdings == ()
