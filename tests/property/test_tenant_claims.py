"""A namespace learns nothing of the claims of others: clusters that differ in those alone look the same to its policies and previews.

In both, claims of other namespaces have the same devices. They differ in their names, labels, owners, users, requests and configuration, in
what drivers say of them, and in claims that have no devices, or have them for administration.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import assume, event, given
from hypothesis import strategies as st

from tests.property.test_tenants import (
    OWN,
    TENANT,
    Two,
    compiled,
    curious,
    outcomes,
    preview_status,
    question,
    slow,
    twos,
    waiting_pods,
    with_room,
)
from wharfinger.model import objects
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

DRIVER = "gpu.example.com"
PLACES = range(3)
DRIVERS_WORD = f'device.driver == "{DRIVER}"'

OF_DEVICES = (
    'prefer device last = it.name == "gpu-2"\n',
    "prefer device unused when pod.priority >= 0 = if it.taken ?? true then 0 else 1\n",
    "score left = count(devices where not (it.taken ?? true), on: node) normalize max on missing 0\n",
    'filter some { require count(devices where it.taken ?? true, on: node) < 3 else "{count(devices, on: node)} devices" }\n',
    "score held = sum(devices where it.name != pod.name, it.free_share / 1%, on: node) normalize minmax on missing 0\n",
)
MINE, OF_TEMPLATE = {"resource_claim_name": "mine"}, {"resource_claim_template_name": "template"}
LOOKING = st.lists(st.sampled_from(OF_DEVICES), unique=True, max_size=3).map("".join)


def made(kind: type[Any], name: str, namespace: str = "", **fields: Any) -> Any:
    """An object as the API server would send it."""
    return decode.convert({"metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}, **fields}, kind)


def slices(node: str) -> objects.ResourceSlice:
    """The devices of a node."""
    devices = [{"name": f"gpu-{place}", "attributes": {"uuid": {"string": f"{node}-{place}"}}} for place in PLACES]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return made(objects.ResourceSlice, f"{node}-gpu", spec={"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices})


def wanted(count: int, request: str = "gpu", *, admin: bool = False) -> dict[str, Any]:
    """The spec of a claim."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, "adminAccess": admin}
    return {"devices": {"requests": [{"name": request, "exactly": exactly}]}}


def result(node: str, place: int, request: str, *, admin: bool = False) -> dict[str, Any]:
    """A device that a claim has."""
    return {"request": request, "driver": DRIVER, "pool": node, "device": f"gpu-{place}", "adminAccess": admin}


@st.composite
def elsewhere(draw: st.DrawFn, node: str, place: int, *, admin: bool = False) -> objects.ResourceClaim:
    """A claim of another namespace that has a device."""
    words = st.sampled_from(["a", "secret", "bank"])
    name, request = draw(words), draw(words)
    users = [{"resource": "pods", "name": draw(words), "uid": draw(words)} for _ in range(draw(st.integers(0, 2)))]
    allocation: dict[str, Any] = {"devices": {"results": [result(node, place, request, admin=admin)]}}
    if draw(st.booleans()):
        config = {"source": "FromClaim", "requests": [request], "opaque": {"driver": DRIVER, "parameters": {"key": draw(words)}}}
        allocation["devices"]["config"] = [config]
    told_by_driver = [{"driver": DRIVER, "pool": node, "device": f"gpu-{place}", "data": {"key": draw(words)}}]
    status = {"allocation": allocation, "reservedFor": users, "devices": told_by_driver if draw(st.booleans()) else []}
    namespace = draw(st.sampled_from(["default", "bank"]))
    kind = "admin" if admin else "claim"
    found = made(objects.ResourceClaim, f"{name}-{kind}-{node}-{place}", namespace, spec=wanted(1, request, admin=admin), status=status)
    metadata = msgspec.structs.replace(found.metadata, labels=draw(st.dictionaries(words, words, max_size=2)))
    return msgspec.structs.replace(found, metadata=metadata)


@st.composite
def unmet(draw: st.DrawFn, number: int) -> objects.ResourceClaim:
    """A claim of another namespace without devices, which may have the name of one that pods of the namespace ask for."""
    name = draw(st.sampled_from(["mine", "theirs", f"pending-{number}"]))
    return made(objects.ResourceClaim, name, "default", spec=wanted(draw(st.integers(1, 3))))


@dataclass(frozen=True)
class WithClaims(Two):
    """Two clusters with devices; `claims` are those of other namespaces, `own` the objects of the namespace in both."""

    claims: tuple[list[objects.ResourceClaim], list[objects.ResourceClaim]] = ([], [])
    own: list[Any] = field(default_factory=list)

    def state(self, which: int, *, budgets: bool = False) -> ClusterState:
        """One of the two."""
        state = super().state(which, budgets=budgets)
        state.put(made(objects.DeviceClass, "gpu", spec={"selectors": [{"cel": {"expression": DRIVERS_WORD}}]}))
        for each in (*(slices(node.metadata.name) for node in self.nodes), *self.own, *self.claims[which]):
            state.put(each)
        return state


@st.composite
def with_claims(draw: st.DrawFn) -> WithClaims:
    """Two clusters with devices, some of which other namespaces have, and some the namespace itself."""
    two = draw(twos())
    claims: tuple[list[objects.ResourceClaim], list[objects.ResourceClaim]] = ([], [])
    own: list[Any] = [
        made(objects.ResourceClaim, "mine", OWN, spec=wanted(draw(st.integers(1, 3)))),
        made(objects.ResourceClaimTemplate, "template", OWN, spec={"spec": wanted(draw(st.integers(1, 2)))}),
    ]
    for node in (node.metadata.name for node in two.nodes):
        for place in PLACES:
            holder = draw(st.sampled_from(["nobody", "nobody", "others", "others", "own"]))
            if holder == "own":
                status = {"allocation": {"devices": {"results": [result(node, place, "gpu")]}}}
                own.append(made(objects.ResourceClaim, f"own-{node}-{place}", OWN, spec=wanted(1), status=status))
            for side in claims:
                if holder == "others":
                    side.append(draw(elsewhere(node, place)))
                if draw(st.booleans()):
                    side.append(draw(elsewhere(node, place, admin=True)))
    for side in claims:
        side.extend(draw(unmet(number)) for number in range(draw(st.integers(0, 2))))
    nodes = [with_room(node) for node in two.nodes] if draw(st.integers(0, 3)) else two.nodes
    return WithClaims(nodes, two.pods, two.budgets, two.samples, claims, own)


@st.composite
def claiming_pods(draw: st.DrawFn) -> objects.Pod:
    """A pod of the namespace that requests devices."""
    pod = draw(waiting_pods())
    names = draw(st.sampled_from([MINE, MINE, OF_TEMPLATE, OF_TEMPLATE, {"resource_claim_name": "theirs"}]))
    uses = (objects.PodResourceClaim(name="gpu", **names),)
    spec = objects.PodSpec(containers=(objects.Container(name="c"),)) if draw(st.integers(0, 3)) else pod.spec
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, resource_claims=uses))


@st.composite
def of_devices(draw: st.DrawFn) -> str:
    """Policies that read as much of pods and devices as they can."""
    return draw(st.one_of(curious(), st.just('policy "p"\n'))) + draw(LOOKING)


@slow
@given(of_devices(), with_claims(), claiming_pods())
def test_outcomes_of_a_policy_do_not_depend_on_claims_of_other_namespaces(text: str, two: WithClaims, pod: objects.Pod) -> None:
    policy = compiled(text, TENANT)
    assume(policy is not None)
    assert policy is not None
    one, other = (outcomes(policy, two, which, pod) for which in (0, 1))
    event("placed" if one[0][0] else "not placed")
    assert one == other


@slow
@given(st.one_of(st.none(), of_devices()), with_claims(), claiming_pods())
def test_a_preview_does_not_depend_on_claims_of_other_namespaces(text: str | None, two: WithClaims, pod: objects.Pod) -> None:
    one, other = (preview_status(two.state(which, budgets=True), question(text, pod)) for which in (0, 1))
    event(str(json.loads(one).get("placed")))
    assert one == other
