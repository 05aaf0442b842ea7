"""The number of devices of a class on each node, and of allocated ones, for scores.

NodeResourcesFit and NodeResourcesBalancedAllocation read these where a node does not list an extended resource that a class backs. They are
counted as Kubernetes counts them for scores, which is not how it allocates: slices of every generation count, of incomplete and invalid
pools too; taints and counters do not matter; a share takes a whole device; selectors do not see that a device can be shared. An error of a
selector leaves all nodes of its device without any.

Each slice is looked at once, and again when it or an allocation in its pool changes. Source: `calculateDRAResourceTotals` of
plugins/noderesources/resource_allocation.go, Kubernetes 1.36, without its cache of answers by the names of devices and nodes, which
outlives their attributes and labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.plugins.devices.cel.selector import CostBudget, selected
from wharfinger.framework.prepared import Mask, Rows
from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations, ChangeLog, PoolId
from wharfinger.model.devices.pools import ANY_NODE, DeviceContent
from wharfinger.model.state import node_selection

if TYPE_CHECKING:
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot

DEVICES: Final = 0
ALLOCATED: Final = 1
FAULTS: Final = 2


class _Part(NamedTuple):
    """Devices of one slice that the same nodes reach (`rows`: one row, or a mask), and their part of the totals of each node."""

    rows: int | Mask
    amounts: tuple[int, int, int]


class ClassTotals:
    """The devices of every requested class."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (objects.ResourceSlice, objects.DeviceClass)

    def __init__(self, store: ObjectStore) -> None:
        self._allocations = store.following(Allocations)
        self._slices: dict[str, objects.ResourceSlice] = {}
        self._of_class: dict[str, DevicesOfClass] = {}

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Follow a slice or a class that was added, changed or removed."""
        for each in (old, new):
            if isinstance(each, objects.DeviceClass):
                self._of_class.pop(each.metadata.name, None)
            elif isinstance(each, objects.ResourceSlice):
                self._slices.pop(each.metadata.name, None)
                for known in self._of_class.values():
                    known.look_again(each.metadata.name)
        if isinstance(new, objects.ResourceSlice):
            self._slices[new.metadata.name] = new

    def of(self, device_class: objects.DeviceClass) -> DevicesOfClass:
        """The devices of a class; another object when the class has changed."""
        found = self._of_class.get(device_class.metadata.name)
        if found is None:
            found = self._of_class[device_class.metadata.name] = DevicesOfClass(device_class, self._slices, self._allocations)
        return found


class DevicesOfClass:
    """The devices of one class; `log` has the rows whose devices changed, or `ANY_NODE`."""

    def __init__(self, device_class: objects.DeviceClass, slices: Mapping[str, objects.ResourceSlice], allocations: Allocations) -> None:
        self._selectors = [selector for selector in device_class.spec.selectors if selector.cel is not None]
        self._slices = slices
        self._allocations = allocations
        self._parts: dict[str, tuple[_Part, ...]] = {}
        self._names: dict[PoolId, set[str]] = {}  # of the slices of each pool
        self._stale: set[str] = set()
        self._sums: NDArray[np.int64] = np.zeros((3, 0), np.int64)
        self._seen = self._read = -1
        self.log = ChangeLog()

    def look_again(self, name: str) -> None:
        """Count the devices of a slice again at the next call."""
        self._stale.add(name)

    def counts(self, snapshot: Snapshot, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The number of devices at some rows, and how many of them are allocated, `(n_rows,)` each; 0 where a selector fails."""
        self.follow(snapshot)
        sums = self._sums[:, rows]
        answered = sums[FAULTS] == 0
        return sums[DEVICES] * answered, sums[ALLOCATED] * answered

    def follow(self, snapshot: Snapshot) -> None:
        """Count the changes since the last call."""
        if snapshot.revision == self._seen:
            return
        node_rows = None if self._seen < 0 else snapshot.node_changes(self._seen)
        pools = self._allocations.log.since(self._read)
        self._seen, self._read = snapshot.revision, self._allocations.log.end
        if node_rows is None or pools is None:
            self._sums = np.zeros((3, snapshot.n_nodes), np.int64)
            self._parts.clear()
            self._stale.update(self._slices)
        elif len(node_rows):
            self._stale.update(name for name in self._parts if name in self._slices and _reads_labels(self._slices[name]))
        for pool in set(pools or ()):
            self._stale |= self._names.get(cast("PoolId", pool), set())
        for name in self._stale:
            self._count_again(name, snapshot)
        self._stale.clear()

    def _count_again(self, name: str, snapshot: Snapshot) -> None:
        each, before = self._slices.get(name), self._parts.pop(name, ())
        now = () if each is None else tuple(self._count(each, snapshot))
        if each is not None:
            self._names.setdefault((each.spec.driver, each.spec.pool.name), set()).add(name)
            self._parts[name] = now
        for sign, parts in ((-1, before), (1, now)):
            for part in parts:
                for amount, sums in zip(part.amounts, self._sums, strict=True):
                    sums[part.rows] += sign * amount
                self.log.add(part.rows if isinstance(part.rows, int) else ANY_NODE)

    def _count(self, each: objects.ResourceSlice, snapshot: Snapshot) -> Iterator[_Part]:
        spec = each.spec
        used = self._allocations.of_pool((spec.driver, spec.pool.name))
        cost_budget = CostBudget()  # one for each slice, so that a count does not depend on the slices before
        by_device = spec.per_device_node_selection
        for reach, devices in [(device, (device,)) for device in spec.devices] if by_device else [(spec, spec.devices)]:
            rows = _rows(reach, snapshot, otherwise=not by_device)
            if rows is not None and devices:
                matches = [self._matches(device, spec.driver, cost_budget) for device in devices]
                names = [device.name for device, matched in zip(devices, matches, strict=True) if matched]
                yield _Part(rows, (len(names), sum(name in used for name in names), matches.count(None)))

    def _matches(self, device: objects.Device, driver: str, cost_budget: CostBudget) -> bool | None:
        """True for a device of the class; None if a selector fails."""
        cost_budget.begin()
        content = DeviceContent(-1, driver, objects.Device(attributes=device.attributes, capacity=device.capacity))
        for selector in self._selectors:
            answer = selected(selector, content, cost_budget)
            if isinstance(answer, str):
                return None
            if not answer:
                return False
        return True


def _rows(reach: objects.ResourceSliceSpec | objects.Device, snapshot: Snapshot, *, otherwise: bool) -> int | Mask | None:
    """The nodes that can use a slice, or a device with its own nodes; `otherwise` (all or none) if it has no selection of nodes."""
    if reach.node_name and not reach.all_nodes:
        return snapshot.row(reach.node_name)
    terms = None if reach.all_nodes else node_selection.parse_terms(reach.node_selector)
    if terms is None:
        return np.full(snapshot.n_nodes, reach.all_nodes or otherwise, np.bool_)
    return node_selection.any_term(terms, snapshot, slice(None))


def _reads_labels(each: objects.ResourceSlice) -> bool:
    return each.spec.node_selector is not None or any(device.node_selector is not None for device in each.spec.devices)
