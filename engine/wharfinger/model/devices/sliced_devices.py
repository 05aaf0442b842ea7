"""The devices that drivers publish in ResourceSlices, with the parts of each that claims have.

`pools` selects the slices of a node, `allocated` has the allocations. This module makes the devices that policies read from both. A device
is taken if a claim holds it or a part of it, and also if the counters that it needs of its pool are used up by other partitions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Any, Final, cast

from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations, PoolId, Usage
from wharfinger.model.devices.device import WHOLE, AttributeValue, Device, DeviceDemand, Store, Version, own_name
from wharfinger.model.devices.pools import ANY_NODE, Pool, Pools
from wharfinger.model.objects import matching, quantity
from wharfinger.model.objects.pod_view import PodView

_NO_USAGE: Final = Usage()

Counted = dict[tuple[str, str], int]


class SlicedDevices:
    """The devices of ResourceSlices."""

    def devices_on(self, node: objects.Node, pods: object, store: Store) -> list[Device]:  # noqa: ARG002 — a port
        """The devices that a node can reach, in the order in which the scheduler tries them."""
        pools: Pools = store.following(Pools)
        if not pools:
            return []
        allocations: Allocations = store.following(Allocations)
        return [device for pool in pools.on(node).pools for device in _of_pool(pool, allocations.of_pool(pool.id))]

    def demand(self, pod: PodView, store: Store) -> DeviceDemand | None:
        """The devices that the claims of a pod request. Of alternatives the first counts, and `All` counts as one."""
        claims = pod.object.spec.resource_claims
        count = sum(_count(request) for name in claims for request in _requests(pod, name, store))
        return DeviceDemand(count) if count else None

    def token(self, store: Store) -> Hashable:
        """The ends of the logs of pools and allocations."""
        return store.following(Pools).log.end, store.following(Allocations).log.end

    def changed_nodes(self, store: Store, token: Any) -> Collection[str] | None:
        """The nodes of pools that changed, or whose devices were allocated or released."""
        pools: Pools = store.following(Pools)
        of_pools, of_claims = pools.log.since(token[0]), store.following(Allocations).log.since(token[1])
        if of_pools is None or of_claims is None:
            return None
        names: set[Any] = {*of_pools, *(pools.node_of(cast("PoolId", pool)) for pool in of_claims)}
        return None if ANY_NODE in names else names


def _of_pool(pool: Pool, used: Mapping[str, Usage]) -> Iterator[Device]:
    left = _counters_left(pool, used)
    for position, device in enumerate(pool.devices):
        if pool.reachable is None or pool.reachable[position]:
            yield _device(pool, device, used.get(device.name, _NO_USAGE), left)


def _counters_left(pool: Pool, used: Mapping[str, Usage]) -> Counted:
    """The free amount of each counter of a pool, in nanos."""
    left = {(name, counter): amount for name, each in pool.counters.items() for counter, amount in each.items()}
    if left and used:
        everything = [*((device.name, device) for device in pool.devices), *_others(pool)]
        for name, device in everything:
            if name in used:
                for counter, amount in _consumption(device):
                    left[counter] = left.get(counter, 0) - amount
    return left


def _others(pool: Pool) -> Iterator[tuple[str, objects.Device]]:
    return ((name, content.device) for name, content in zip(pool.other_names, pool.others, strict=True))


def _consumption(device: objects.Device) -> Iterator[tuple[tuple[str, str], int]]:
    for consumption in device.consumes_counters:
        for name, counter in consumption.counters.items():
            yield (consumption.counter_set, name), quantity.nano(counter.value)


def _device(pool: Pool, device: objects.Device, usage: Usage, left: Counted) -> Device:
    driver = pool.driver
    capacity = {own_name(driver, name): quantity.nano(each.value) for name, each in device.capacity.items()}
    blocked = not usage.allocated and any(left.get(counter, 0) < amount for counter, amount in _consumption(device))
    shared = device.allow_multiple_allocations and not usage.exclusive and not blocked
    consumed = {own_name(driver, name): amount for name, amount in usage.consumed.items()} if shared else {}
    free = {name: amount - consumed.get(name, 0) for name, amount in capacity.items()} if shared else {}
    shares = [free[name] * WHOLE / amount for name, amount in capacity.items() if shared and amount and name in consumed]
    return Device(
        driver,
        pool.name,
        device.name,
        dict(_attributes(driver, device)),
        {name: amount / quantity.NANO for name, amount in capacity.items()},
        {name: amount / quantity.NANO for name, amount in free.items()},
        usage.allocated or blocked,
        tuple(matching.taint_text(taint) for taint in device.taints if taint.effect in matching.KEEPING_AWAY),
        float(math.floor(min(shares, default=WHOLE))) if shared else None,
    )


def _attributes(driver: str, device: objects.Device) -> Iterator[tuple[str, AttributeValue]]:
    for name, attribute in device.attributes.items():
        value = attribute.value
        if value is not None:
            yield own_name(driver, name), Version(value) if attribute.version_value is value else value


def _requests(pod: PodView, named: objects.PodResourceClaim, store: Store) -> tuple[objects.DeviceRequest, ...]:
    """The requests of a claim of a pod; of its template, as long as there is no claim."""
    name = pod.claim_name(named)
    claim = store.get(objects.ResourceClaim, name, pod.namespace) if name else None
    if claim is not None:
        return claim.spec.devices.requests
    template = store.get(objects.ResourceClaimTemplate, named.resource_claim_template_name or "", pod.namespace)
    return () if template is None else template.spec.spec.devices.requests


def _count(request: objects.DeviceRequest) -> int:
    devices = request.exactly or next(iter(request.first_available), None)
    return 0 if devices is None else devices.count or 1
