"""The users of the devices of one node: claims and their pods, or pods with a share of a GPU.

`Device` has the free part of a device, and decisions need no more. People also ask what holds the rest. Holders are read for one node when
a user requests it, and are not stored: first the claims of the node's own pods, which cost one look-up each. Only if these do not explain
all that is allocated are the other claims of the cluster looked through: those of pods on other nodes that share a device, and those of no
pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations, Usage, claim_uid
from wharfinger.model.devices.device import MILLI, Device, DeviceSource, Store, own_name, unique_name
from wharfinger.model.devices.shared_gpus import GpuHolder, SharedGpus, free_gpus
from wharfinger.model.devices.sliced_devices import SlicedDevices
from wharfinger.model.objects import quantity
from wharfinger.model.objects.devices import IN_MEMORY
from wharfinger.model.objects.pod_view import PodView


class Holding(Struct, frozen=True, kw_only=True):
    """The part of a device that a claim or a pod has.

    `claim` is `namespace/name`, or "" if there is none, or none yet. `pods` are those that may use it. `amounts` are in base units by
    capacity; empty for the whole device. `admin`: with admin access, which leaves the device free for others. `in_flight`: decided, not
    written yet. `supposed`: the pod has a share of some GPU of the node, but no index is written on it.
    """

    claim: str = ""
    pods: tuple[str, ...] = ()
    amounts: Mapping[str, float] = field(default_factory=dict)
    admin: bool = False
    in_flight: bool = False
    supposed: bool = False


class HeldDevice(Struct, frozen=True, kw_only=True):
    """A device with all that is held of it; `blocked` if nothing holds it, but other devices have used up its counters."""

    device: Device
    holdings: tuple[Holding, ...] = ()
    blocked: bool = False


def held_devices(node: objects.Node, pods: Sequence[PodView], store: Store, sources: Iterable[DeviceSource]) -> list[HeldDevice]:
    """The devices of a node with these pods, in the order in which they are tried, and who holds them."""
    found: list[HeldDevice] = []
    for source in sources:
        devices = source.devices_on(node, pods, store)
        if isinstance(source, SlicedDevices) and devices:
            found += _held_by_claims(devices, pods, store)
        elif isinstance(source, SharedGpus):
            found += _held_by_pods(devices, source, node, pods)
        else:
            found += [HeldDevice(device=device) for device in devices]
    return found


def _held_by_pods(devices: Sequence[Device], source: SharedGpus, node: objects.Node, pods: Sequence[PodView]) -> Iterator[HeldDevice]:
    names, count = source.names, source.names.offered(node)
    holders: list[GpuHolder] = []
    if count > 0:
        free_gpus(count, pods, names, holders)
    held: dict[str, list[Holding]] = {}
    for each in holders:
        holding = Holding(pods=(each.pod.key,), amounts={MILLI: float(each.milli)}, supposed=not each.written)
        for gpu in each.gpus:
            held.setdefault(str(gpu), []).append(holding)
    for device in devices:
        single = count > 0 and device.driver == names.count
        yield HeldDevice(device=device, holdings=tuple(held.get(device.name, ())) if single else ())


def _held_by_claims(devices: Sequence[Device], pods: Sequence[PodView], store: Store) -> Iterator[HeldDevice]:
    allocations: Allocations = store.following(Allocations)
    usages = {device.uid: allocations.of_device(device.driver, device.pool, device.name) or _NO_USAGE for device in devices}
    users: dict[str, list[str]] = {}
    claims: dict[str, objects.ResourceClaim] = {}
    for pod, claim in _claims_of(pods, store):
        claims[claim_uid(claim)] = claim
        users.setdefault(claim_uid(claim), []).append(pod.key)
    owners = {pod.object.metadata.uid: pod.key for pod in pods if pod.object.metadata.uid}
    for flight in allocations.all_in_flight():
        claims.setdefault(claim_uid(flight.claim), flight.claim)
    held = _holdings(claims.values(), allocations, usages, users, owners)
    if any(usage.exclusive + usage.shares > _counted(held.get(uid, ())) for uid, usage in usages.items()):
        claims |= {claim_uid(claim): claim for claim in store.all(objects.ResourceClaim)}
        held = _holdings(claims.values(), allocations, usages, users, owners)
    for device in devices:
        blocked = bool(device.taken) and not usages[device.uid].allocated
        yield HeldDevice(device=device, holdings=tuple(held.get(device.uid, ())), blocked=blocked)


_NO_USAGE = Usage()


def _counted(holdings: Iterable[Holding]) -> int:
    return sum(not holding.admin for holding in holdings)


def _claims_of(pods: Iterable[PodView], store: Store) -> Iterator[tuple[PodView, objects.ResourceClaim]]:
    """The claims that exist of each pod: named, made of a template, or made for its extended resources."""
    for pod in pods:
        status = pod.object.status
        names = [use.resource_claim_name for use in pod.object.spec.resource_claims]
        names += [each.resource_claim_name for each in status.resource_claim_statuses]
        names += [status.extended_resource_claim_status.resource_claim_name] if status.extended_resource_claim_status else []
        for name in dict.fromkeys(name for name in names if name):
            claim = store.get(objects.ResourceClaim, name, pod.namespace)
            if claim is not None:
                yield pod, claim


def _holdings(
    claims: Iterable[objects.ResourceClaim],
    allocations: Allocations,
    usages: Mapping[str, Usage],
    users: Mapping[str, Sequence[str]],
    owners: Mapping[str, str],
) -> dict[str, list[Holding]]:
    """The parts of the devices in `usages` that these claims have, by the uid of the device."""
    found: dict[str, list[Holding]] = {}
    for claim in claims:
        flight = allocations.in_flight(claim)
        allocation = claim.status.allocation or (None if flight is None else flight.allocation)
        for result in () if allocation is None else allocation.devices.results:
            uid = unique_name(result.driver, result.pool, result.device)
            if uid not in usages:
                continue
            named = claim.metadata.name != IN_MEMORY
            consumed = result.consumed_capacity.items()
            amounts = {own_name(result.driver, name): quantity.nano(text) / quantity.NANO for name, text in consumed}
            holding = Holding(
                claim=objects.key_of(claim) if named else "",
                pods=tuple(_pods_of(claim, users, owners)),
                amounts=amounts,
                admin=bool(result.admin_access),
                in_flight=claim.status.allocation is None,
            )
            found.setdefault(uid, []).append(holding)
    return found


def _pods_of(claim: objects.ResourceClaim, users: Mapping[str, Sequence[str]], owners: Mapping[str, str]) -> Iterable[str]:
    """The pods on any node that a claim is reserved for, and the pods of this node that name it or own it."""
    namespace = claim.metadata.namespace or "default"
    reserved = [f"{namespace}/{each.name}" for each in claim.status.reserved_for if each.resource == "pods"]
    owning = [owners[owner.uid] for owner in claim.metadata.owner_references if owner.uid in owners]
    return dict.fromkeys([*reserved, *users.get(claim_uid(claim), ()), *owning])
