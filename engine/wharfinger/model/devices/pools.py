"""Pools of devices as a node sees them: which slices count for it, in what order, and if they can be trusted.

Drivers publish the devices of a pool in slices. Only slices of the highest generation count, and `resourceSliceCount` of them have to be
there, or the pool is *incomplete*. A pool that contradicts itself (two devices of one name, counters that no set has) is *invalid*. A node
sees the slices that it can reach; all slices with counter sets belong to it. That is why a node may continue using an old generation: the
new one may have no slice for it. Source: `structured/internal/incubating/pools_incubating.go`, Kubernetes 1.36.

Most nodes have the same few devices, so what a search depends on is numbered: two pools with equal `kind` differ in names only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, TypeVar, cast

import msgspec
from msgspec import Struct, field

from wharfinger.model import objects
from wharfinger.model.devices.allocated import ChangeLog, PoolId
from wharfinger.model.objects import matching, quantity

T = TypeVar("T")

MAX_CONTENTS: Final = 100_000
"""Distinct devices that are remembered at least, although no slice has them any more."""

ANY_NODE: Final = None
"""In the log of changes: the devices of any node may have changed."""


class DeviceContent:
    """All that a search may read of a device but its name and its nodes. Equal devices of a driver have the same content."""

    __slots__ = ("_made", "device", "driver", "number")

    def __init__(self, number: int, driver: str, device: objects.Device) -> None:
        self.number = number
        self.driver = driver
        self.device = device
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[DeviceContent], T]) -> T:
        """The result of `make` for the content, kept under the key."""
        if key not in self._made:
            self._made[key] = make(self)
        return cast("T", self._made[key])


class Pool(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A pool as some nodes see it.

    `devices` are those that can be tried, in order, `slices` the slice of each and `contents` what they are; `reachable` is true for each
    that the nodes can use (None: all). `others` are devices for other nodes, which may consume the same `counters` (nanos, by set and
    name).
    """

    driver: str
    name: str
    kind: int
    incomplete: bool = False
    invalid: str = ""
    devices: tuple[objects.Device, ...] = ()
    slices: tuple[objects.ResourceSlice, ...] = ()
    contents: tuple[DeviceContent, ...] = ()
    reachable: tuple[bool, ...] | None = None
    others: tuple[DeviceContent, ...] = ()
    other_names: tuple[str, ...] = ()
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def id(self) -> PoolId:
        """(driver, name)."""
        return self.driver, self.name

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"

    @cached_property
    def positions(self) -> Mapping[str, tuple[int, ...]]:
        """The positions of devices by name; those of `others` follow, and may have the name of another device."""
        found: dict[str, tuple[int, ...]] = {}
        for position, name in enumerate([*(device.name for device in self.devices), *self.other_names]):
            found[name] = (*found.get(name, ()), position)
        return found

    @cached_property
    def binds(self) -> bool:
        """True if a device has to be prepared before a pod is bound; such pools are tried last."""
        return any(device.binding_conditions for device in self.devices)


class NodePools(Struct, frozen=True):
    """The pools of a node in the order in which they are tried; `groups` numbers them by name: counters are counted per name."""

    pools: tuple[Pool, ...] = ()
    groups: tuple[int, ...] = ()


class Pools:
    """The pools of a cluster; `log` has the name of each node whose pools changed, or `ANY_NODE`."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (objects.ResourceSlice,)

    def __init__(self, store: object) -> None:  # noqa: ARG002 — followers are made for a store
        self._local: dict[str, dict[str, objects.ResourceSlice]] = {}
        self._shared: dict[str, objects.ResourceSlice] = {}
        self._by_pool: dict[PoolId, dict[str, objects.ResourceSlice]] = {}
        self._of_node: dict[str, tuple[Mapping[str, str], NodePools]] = {}
        self._views: dict[PoolId, dict[Hashable, Pool]] = {}
        self._contents: dict[bytes, DeviceContent] = {}
        self._kinds: dict[Hashable, int] = {}
        self._choices: dict[str, matching.NodeChoice] = {}
        self.epoch = 0
        self.log = ChangeLog()

    def __bool__(self) -> bool:
        return bool(self._by_pool)

    def on(self, node: objects.Node) -> NodePools:
        """The pools that a node sees."""
        name = node.metadata.name
        labels = node.metadata.labels
        known = self._of_node.get(name)
        if known is None or (known[0] is not labels and known[0] != labels):
            known = self._of_node[name] = labels, self._gather(node)
        return known[1]

    def node_of(self, pool: PoolId) -> str | None:
        """The only node that sees a pool; None if it may be several."""
        names = {_local_to(each) for each in self._by_pool.get(pool, {}).values()}
        return names.pop() if len(names) == 1 else None

    # ── following ──

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Follow a slice that was added, changed or removed."""
        if isinstance(old, objects.ResourceSlice):
            self._remove(old)
        if isinstance(new, objects.ResourceSlice):
            self._add(new)
        if len(self._contents) > MAX_CONTENTS and len(self._contents) > 4 * sum(len(each.spec.devices) for each in self._slices()):
            self._forget()

    def _slices(self) -> Iterable[objects.ResourceSlice]:
        return (each for slices in self._by_pool.values() for each in slices.values())

    def _forget(self) -> None:
        """Number everything again: most entries belong to slices that no longer exist."""
        self.epoch += 1
        for known in (self._contents, self._kinds, self._views, self._of_node, self._choices):
            known.clear()
        self.log.add(ANY_NODE)

    def _add(self, each: objects.ResourceSlice) -> None:
        name, node = each.metadata.name, _local_to(each)
        if node is None:
            self._shared[name] = each
        else:
            self._local.setdefault(node, {})[name] = each
        self._by_pool.setdefault(_pool_of(each), {})[name] = each
        self._note(_pool_of(each), node)

    def _remove(self, each: objects.ResourceSlice) -> None:
        name, node, pool = each.metadata.name, _local_to(each), _pool_of(each)
        self._note(pool, node)
        if node is None:
            self._shared.pop(name, None)
        elif name in self._local.get(node, {}):
            del self._local[node][name]
            if not self._local[node]:
                del self._local[node]
        if name in self._by_pool.get(pool, {}):
            del self._by_pool[pool][name]
            if not self._by_pool[pool]:
                del self._by_pool[pool]

    def _note(self, pool: PoolId, node: str | None) -> None:
        self._views.pop(pool, None)
        only = node is not None and all(_local_to(each) == node for each in self._by_pool.get(pool, {}).values())
        if only and node is not None:
            self._of_node.pop(node, None)
            self.log.add(node)
        else:
            self._of_node.clear()
            self._choices.clear()
            self.log.add(ANY_NODE)

    # ── gathering ──

    def _gather(self, node: objects.Node) -> NodePools:
        """The pools of a node (`GatherPools`)."""
        found: dict[PoolId, list[objects.ResourceSlice]] = {}
        local = self._local.get(node.metadata.name)
        for each in (*(local.values() if local else ()), *self._shared.values()):
            if not self._relevant(each, node):
                continue
            newest = found.setdefault(_pool_of(each), [])
            if newest and each.spec.pool.generation > newest[0].spec.pool.generation:
                newest.clear()
            if not newest or each.spec.pool.generation == newest[0].spec.pool.generation:
                newest.append(each)
        seen = [pool for pool_id, slices in found.items() if (pool := self._pool(pool_id, slices, node)) is not None]
        seen.sort(key=lambda pool: (pool.binds, pool.driver.encode(), pool.name.encode()))
        names = [pool.name for pool in seen]
        return NodePools(tuple(seen), tuple(names.index(name) for name in names))

    def _relevant(self, each: objects.ResourceSlice, node: objects.Node) -> bool:
        spec = each.spec
        if spec.shared_counters:
            return True
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return self._matches(node, spec, each.metadata.name)
        if not spec.per_device_node_selection:
            return False
        return any(self._matches(node, device, f"{each.metadata.name}/{device.name}") for device in spec.devices)

    def _matches(self, node: objects.Node, of: objects.ResourceSliceSpec | objects.Device, key: str) -> bool:
        if of.node_name:
            return node.metadata.name == of.node_name
        if of.all_nodes:
            return True
        if of.node_selector is None:
            return False
        choice = self._choices.get(key)
        if choice is None:
            choice = self._choices[key] = matching.node_selector(of.node_selector)
        return choice.matches(node.metadata.labels, node.metadata.name)

    def _pool(self, pool_id: PoolId, slices: list[objects.ResourceSlice], node: objects.Node) -> Pool | None:
        """The pool made from these slices; None if a newer generation replaces it."""
        slices.sort(key=lambda each: each.metadata.name.encode())
        generation, wanted = slices[0].spec.pool.generation, slices[0].spec.pool.resource_slice_count
        everything = slices
        if len(slices) != wanted:
            known = self._by_pool.get(pool_id, {}).values()
            if any(each.spec.pool.generation > generation for each in known):
                return None
            everything = [each for each in known if each.spec.pool.generation == generation]
            if len(everything) != wanted:
                return self._empty(pool_id, "incomplete")
        reachable = self._reachable(slices, node)
        views = self._views.setdefault(pool_id, {})  # forgotten whenever a slice of the pool changes
        key = (tuple(each.metadata.name for each in slices), reachable)
        view = views.get(key)
        if view is None:
            view = views[key] = self._build(pool_id, slices, everything, reachable)
        return view

    def _empty(self, pool_id: PoolId, why: str, reason: str = "") -> Pool:
        return Pool(driver=pool_id[0], name=pool_id[1], kind=self._kind(why), incomplete=why == "incomplete", invalid=reason)

    def _reachable(self, slices: Sequence[objects.ResourceSlice], node: objects.Node) -> tuple[bool, ...] | None:
        if not any(each.spec.per_device_node_selection for each in slices):
            return None
        return tuple(
            not each.spec.per_device_node_selection or self._matches(node, device, f"{each.metadata.name}/{device.name}")
            for each in slices
            if not each.spec.shared_counters
            for device in each.spec.devices
        )

    def _build(
        self,
        pool_id: PoolId,
        slices: Sequence[objects.ResourceSlice],
        everything: Sequence[objects.ResourceSlice],
        reachable: tuple[bool, ...] | None,
    ) -> Pool:
        """A complete pool (`buildPool`)."""
        pairs = [(device, each) for each in slices if not each.spec.shared_counters for device in each.spec.devices]
        sets = [counters for each in slices for counters in each.spec.shared_counters]
        names = {each.metadata.name for each in slices}
        others = [device for each in everything if each.metadata.name not in names for device in each.spec.devices]
        wrong = _repeated([device.name for device, _ in pairs], "device") or _repeated([each.name for each in sets], "counter set")
        wrong = wrong or _unknown_counters([*(device for device, _ in pairs), *others], {each.name: each for each in sets})
        if wrong:
            return self._empty(pool_id, "invalid", wrong)
        counters = {each.name: {name: quantity.nano(counter.value) for name, counter in each.counters.items()} for each in sets}
        driver = pool_id[0]
        contents = tuple(self._content(driver, device) for device, _ in pairs)
        other_contents = tuple(self._content(driver, device) for device in others) if sets else ()
        counted = tuple(sorted((name, tuple(sorted(each.items()))) for name, each in counters.items()))
        numbers = tuple(each.number for each in contents), tuple(each.number for each in other_contents)
        return Pool(
            driver=driver,
            name=pool_id[1],
            kind=self._kind((numbers, reachable, counted)),
            devices=tuple(device for device, _ in pairs),
            slices=tuple(each for _, each in pairs),
            contents=contents,
            reachable=reachable,
            others=other_contents,
            other_names=tuple(device.name for device in others) if sets else (),
            counters=counters,
        )

    def _kind(self, of: Hashable) -> int:
        return self._kinds.setdefault(of, len(self._kinds))

    def _content(self, driver: str, device: objects.Device) -> DeviceContent:
        plain = objects.Device(
            attributes=device.attributes,
            capacity=device.capacity,
            consumes_counters=device.consumes_counters,
            taints=device.taints,
            allow_multiple_allocations=device.allow_multiple_allocations,
        )
        key = driver.encode() + b"\0" + _ENCODER.encode(plain)
        known = self._contents.get(key)
        if known is None:
            known = self._contents[key] = DeviceContent(len(self._contents), driver, plain)
        return known


_ENCODER = msgspec.json.Encoder(order="deterministic")


def _pool_of(each: objects.ResourceSlice) -> PoolId:
    return each.spec.driver, each.spec.pool.name


def _local_to(each: objects.ResourceSlice) -> str | None:
    """The only node that a slice can matter to; None if it may be others."""
    return None if each.spec.shared_counters else each.spec.node_name or None


def _repeated(names: Sequence[str], what: str) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return f"duplicate {what} name {name}"
        seen.add(name)
    return ""


def _unknown_counters(devices: Iterable[objects.Device], sets: Mapping[str, objects.CounterSet]) -> str:
    """The first counter set or counter that a device consumes and the pool does not have; "" if there is none."""
    for device in devices:
        for consumption in device.consumes_counters:
            known = sets.get(consumption.counter_set)
            if known is None:
                return f"counter set {consumption.counter_set} not found"
            for name in consumption.counters:
                if name not in known.counters:
                    return f"counter {name} not found in counter set {known.name}"
    return ""
