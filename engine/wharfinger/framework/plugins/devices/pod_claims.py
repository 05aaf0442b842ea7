"""The claims of a pod: their objects, the reasons why they reject every node, and whether their devices are ready.

A pod names claims, or templates; the claim made from a template is named in the pod's status. The claim that the scheduler itself makes for
extended resources comes last. `PodClaims.key` is equal for two pods whose claims request the same and are in the same state, whatever their
names, so that pods made from one template share results. The devices of a claim that is allocated are ready by the conditions that their
driver reports. Source: `PreFilter`, `foreachPodResourceClaim`, `isClaimReadyForBinding` and `isClaimTimeout` of
plugins/dynamicresources/dynamicresources.go, Kubernetes 1.36.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
from msgspec import Struct

from wharfinger.framework.plugins.devices import extended_resources
from wharfinger.framework.plugins.devices.cel.addresses import quoted
from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations, InFlight, claim_uid
from wharfinger.model.objects.devices import IN_MEMORY
from wharfinger.model.objects.pod_groups import podgroup_name

if TYPE_CHECKING:
    from wharfinger.model.objects.metadata import Time
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot


class IdentityKey(Struct, frozen=True, eq=False):
    """A key that is equal for the same object only."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class PodClaims(Struct, frozen=True, kw_only=True):
    """The claims of a pod that may be placed: `users` in the pod's order, and `special` for its extended resources, if there is one.

    `backed` are the extended resources that a class backs, `shared` the allocations in flight of `users` that the pod shares: such a claim
    counts as allocated.
    """

    users: tuple[objects.ResourceClaim, ...]
    special: objects.ResourceClaim | None
    backed: tuple[str, ...]
    shared: tuple[InFlight, ...] = ()

    @property
    def all(self) -> tuple[objects.ResourceClaim, ...]:
        """All claims, the special one last."""
        return self.users if self.special is None else (*self.users, self.special)

    @property
    def key(self) -> Hashable:
        """A key of everything that the answer for a node depends on but the cluster's devices; see the module."""
        return tuple(map(_key, self.users)), None if self.special is None else _key(self.special), self.backed


def _key(claim: objects.ResourceClaim) -> Hashable:
    if claim.status.allocation is not None or claim.metadata.name == "":
        return IdentityKey(claim)
    if claim.metadata.name == IN_MEMORY:
        return IN_MEMORY
    if extended_resources.owner_uid(claim):
        return IdentityKey(claim)
    return _ENCODER.encode(claim.spec)


_ENCODER = msgspec.json.Encoder(order="deterministic")


def pod_claims(pod: PodView, store: ObjectStore) -> PodClaims | str | None:
    """The claims of a pod, or the reason why no node can take it at the moment; None if it has no claims."""
    named = pod.object.spec.resource_claims
    backed = extended_resources.backed(pod, store)
    if not named and not backed:
        return None
    if unsupported := _claim_of_podgroup(pod, store):
        return unsupported
    users: list[objects.ResourceClaim] = []
    for name, found in _users(pod, store):
        if isinstance(found, str):
            return found
        if found is None:
            return f'could not find ResourceClaim "{pod.namespace}/{name}"'
        users.append(found)
    special = (extended_resources.written_claim(pod, store) or extended_resources.in_memory_claim(pod)) if backed else None
    shared = _shared(users, store)
    users = [shared[claim_uid(claim)].allocated if claim_uid(claim) in shared else claim for claim in users]
    claims = PodClaims(users=tuple(users), special=special, backed=backed, shared=tuple(shared.values()))
    if not claims.all:
        return None
    return _refusal(claims, store) or claims


def _shared(claims: Sequence[objects.ResourceClaim], store: ObjectStore) -> Mapping[str, InFlight]:
    """The allocations in flight that the pod of these claims shares, by the uid of the claim."""
    allocations = store.existing_follower(Allocations)
    if allocations is None:
        return {}
    waiting = (claim for claim in claims if claim.status.allocation is None)
    return {claim_uid(claim): flight for claim in waiting if (flight := allocations.shareable(claim)) is not None}


def _claim_of_podgroup(pod: PodView, store: ObjectStore) -> str:
    """The error for a pod that shares a claim with all pods of its PodGroup (`BindTo`, dynamic-resource-allocation); "" for any other."""
    name = podgroup_name(pod.object)
    group = store.get(objects.PodGroup, name, pod.namespace) if name else None
    shared = () if group is None else group.spec.resource_claims
    use = next((use for use in pod.object.spec.resource_claims if use in shared), None)
    if use is None:
        return ""
    return (
        f'spec.resourceClaims "{use.name}": the claim is shared by all pods of PodGroup "{name}" (its spec.resourceClaims), '
        "which is not supported; give each pod a claim of its own"
    )


def _users(pod: PodView, store: ObjectStore) -> Iterator[tuple[str, objects.ResourceClaim | str | None]]:
    """(name, claim) for each claim of the pod; instead of the claim None if it does not exist, or the reason why it cannot be used."""
    for use in pod.object.spec.resource_claims:
        name = use.resource_claim_name
        if name is None:
            if use.resource_claim_template_name is None:
                yield "", f'pod "{pod.key}", spec.resourceClaim "{use.name}": none of the supported fields are set'
                continue
            status = next((each for each in pod.object.status.resource_claim_statuses if each.name == use.name), None)
            if status is None:
                yield "", f'pod "{pod.key}": ResourceClaim not created yet'
                continue
            if status.resource_claim_name is None:  # the pod needs no claim here
                continue
            name = status.resource_claim_name
        claim = store.get(objects.ResourceClaim, name, pod.namespace)
        if claim is not None and claim.metadata.deletion_timestamp is not None:
            yield name, f'resourceclaim "{name}" is being deleted'
        elif claim is not None and use.resource_claim_name is None and not made_for(claim, pod):
            yield name, f"ResourceClaim {pod.namespace}/{name} was not created for Pod {pod.key} (Pod is not owner)"
        else:
            yield name, claim


def made_for(claim: objects.ResourceClaim, pod: PodView) -> bool:
    """True if the pod is the controller of the claim."""
    return any(owner.controller and owner.uid == pod.object.metadata.uid for owner in claim.metadata.owner_references)


def _refusal(claims: PodClaims, store: ObjectStore) -> str:
    allocations = store.existing_follower(Allocations)
    for claim in claims.all:
        if claim.status.allocation is not None:
            continue
        if allocations is not None and claim.metadata.name != IN_MEMORY and allocations.in_flight(claim) is not None:
            return f"resource claim {objects.key_of(claim)} is in the process of being allocated"
        if claim is not claims.special:
            missing = _missing_class(claim, store)
            if missing:
                return missing
    return ""


def _missing_class(claim: objects.ResourceClaim, store: ObjectStore) -> str:
    for request in claim.spec.devices.requests:
        wanted: Sequence[tuple[str, objects.RequestedDevices]] = [
            *([] if request.exactly is None else [(request.name, request.exactly)]),
            *((f"{request.name}/{each.name}", each) for each in request.first_available if request.exactly is None),
        ]
        if not wanted:
            return f"resource claim {objects.key_of(claim)}, request {request.name}: unknown request type"
        for name, of in wanted:
            if not of.device_class_name:
                return f"request {name}: unsupported request type"
            if store.get(objects.DeviceClass, of.device_class_name) is None:
                return f"request {name}: device class {of.device_class_name} does not exist"
    return ""


class DeviceWaits:
    """The waits for the devices of allocated claims, as an object store has them.

    The time of an allocation is a time of day. It is compared with the present time once, at the first question about the allocation, and
    the wait is measured by the monotonic clock from then on: setting the clock of the machine neither ends nor extends it.
    """

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (objects.ResourceClaim,)

    def __init__(self, store: ObjectStore) -> None:  # noqa: ARG002 — each follower is made with its store
        self._began: dict[str, tuple[Time, float]] = {}  # by uid of the claim: the time of its allocation, by both clocks

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Forget the wait for a claim that is gone."""
        if new is None and isinstance(old, objects.ResourceClaim):
            self._began.pop(claim_uid(old), None)

    def ends_at(self, claim: objects.ResourceClaim, snapshot: Snapshot, timeout: float) -> float | None:
        """The monotonic time at which the devices of a claim must be ready; `timeout` in seconds; None for no limit."""
        allocation = claim.status.allocation
        if allocation is None or allocation.allocation_timestamp is None:
            return None
        if not any(result.binding_conditions for result in allocation.devices.results):
            return None
        uid, at = claim_uid(claim), allocation.allocation_timestamp
        known, began = self._began.get(uid, (None, 0.0))
        if known != at:
            began = snapshot.monotonic - max(0.0, snapshot.now - at.timestamp())
            self._began[uid] = at, began
        return began + timeout


def deadline_and_broken(
    allocated: Sequence[tuple[int, objects.ResourceClaim]], snapshot: Snapshot, timeout: float
) -> tuple[float, frozenset[int]]:
    """(the end of the wait for the next claim, the indexes of claims whose devices failed or were not ready in time).

    `timeout` is in seconds, the end a monotonic time.
    """
    deadline = math.inf
    broken = set()
    for index, claim in allocated:
        ready = readiness(claim)
        if isinstance(ready, str):
            broken.add(index)
        elif not ready and (limit := snapshot.objects.following(DeviceWaits).ends_at(claim, snapshot, timeout)) is not None:
            if snapshot.monotonic > limit:
                broken.add(index)
            else:
                deadline = min(deadline, limit)
    return deadline, frozenset(broken)


def readiness(claim: objects.ResourceClaim) -> bool | str:
    """True if the devices of a claim are ready to be bound, or the text of the error if one has failed (`isClaimReadyForBinding`)."""
    allocation = claim.status.allocation
    for result in () if allocation is None else allocation.devices.results:
        if not result.binding_conditions:
            continue
        conditions = _conditions(claim, result)
        if conditions is None:
            return False
        failed = next((conditions[kind] for kind in result.binding_failure_conditions if kind in conditions), None)
        if failed is not None:
            return f"device binding failed: claim={claim.metadata.name}, reason={failed.reason}, message={quoted(failed.message)}"
        if not all(kind in conditions for kind in result.binding_conditions):
            return False
    return True


def _conditions(claim: objects.ResourceClaim, result: objects.AllocatedDevice) -> Mapping[str, objects.DeviceCondition] | None:
    """The conditions that are true of an allocated device, as its driver reports, by type; None if it reports nothing."""
    for device in claim.status.devices:
        if (device.driver, device.pool, device.device) == (result.driver, result.pool, result.device):
            return {condition.type: condition for condition in device.conditions if condition.status == "True"}
    return None
