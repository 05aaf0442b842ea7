"""Resources as columns: the lanes that a filter or score reads, and the base of the scores of resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from wharfinger.framework.arguments import BuiltInArguments
from wharfinger.framework.plugins.devices.class_totals import ClassTotals, DevicesOfClass
from wharfinger.framework.plugins.devices.extended_resources import BackingClasses, is_candidate
from wharfinger.framework.prepared import ALL, OUTDATED, Affected, Attempt, Changes, Mask, ObjectRevision, PreparedScore, Rows, union
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.columns.arrays import first_lanes
from wharfinger.model.devices.pools import ANY_NODE
from wharfinger.model.objects.requests import NATIVE, is_scalar

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot


class ResourceSpec(BuiltInArguments, frozen=True, kw_only=True):
    """A resource of a score, and its weight."""

    name: str
    weight: Annotated[int, Meta(ge=1, le=100)] = 1


class Lanes:
    """The lanes of some resources, in order."""

    __slots__ = ("_adjoin", "_fixed", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        # The native resources are the first lanes of every cluster; others may get other lanes.
        self._fixed = tuple(NATIVE.index(name) for name in names) if all(name in NATIVE for name in names) else None
        self._adjoin = bool(names) and self._fixed == tuple(range(len(names)))

    def places(self, snapshot: Snapshot) -> Sequence[int | None]:
        """The lane of each resource; None if no node or pod has it."""
        return [snapshot.resource_index(name) for name in self.names] if self._fixed is None else self._fixed

    def amounts(self, snapshot: Snapshot, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The allocatable and the requested amounts at `rows`, `(n_resources, n_rows)` each; 0 for a resource that no node has."""
        allocatable, requested = snapshot.allocatable, snapshot.requested
        if self._adjoin:
            return first_lanes(allocatable, len(self.names), rows), first_lanes(requested, len(self.names), rows)
        places = self.places(snapshot)
        absent = [lane for lane, place in enumerate(places) if place is None]
        lanes = np.array([0 if place is None else place for place in places] if absent else places, np.intp)
        index = (lanes, rows) if isinstance(rows, slice) else (lanes[:, np.newaxis], rows)
        found = allocatable[index], requested[index]
        if absent:
            for each in found:
                each[absent] = 0
        return found


class Backed(NamedTuple):
    """A scored resource that a class of devices backs: its lane in `ScoredLanes`, and the devices of the class."""

    lane: int
    devices: DevicesOfClass


class ScoredLanes(Struct, frozen=True):
    """The resources a score counts for one pod template: the requests of the pod, and the weights `(n_resources, 1)`.

    The requests are `amounts`, and as an array `added` `(n_resources, 1)`. A node that lists none of a resource in `backed` has as many as
    it has devices of the class.
    """

    lanes: Lanes
    amounts: tuple[int, ...]
    added: NDArray[np.int64]
    weights: NDArray[np.int64]
    nonzero: tuple[tuple[int, int], ...]  # (lane here, lane of `snapshot.nonzero`) for those counted with defaults
    backed: tuple[Backed, ...] = ()

    def columns(self, snapshot: Snapshot, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Allocatable, requested with the pod, and weights; the first two `(n_resources, n_rows)`."""
        lanes = self.lanes
        if not lanes.names:
            nothing = np.zeros((1, len(snapshot.pod_count[rows])), np.int64)
            return nothing, nothing, np.ones((1, 1), np.int64)
        if lanes.names == _CPU_MEMORY and self.nonzero:
            allocatable, used = first_lanes(snapshot.allocatable, 2, rows), first_lanes(snapshot.nonzero, 2, rows)
        else:
            allocatable, used = lanes.amounts(snapshot, rows)
            if self.nonzero:
                used = used.copy()
                for here, lane in self.nonzero:
                    used[here] = snapshot.nonzero[lane, rows]
        if self.backed:
            allocatable, used = allocatable.copy(), used.copy()
            for lane, devices in self.backed:
                n_devices, allocated = devices.counts(snapshot, rows)
                counted = (allocatable[lane] == 0) & (n_devices > 0)
                allocatable[lane] = np.where(counted, n_devices, allocatable[lane])
                used[lane] = np.where(counted, allocated, used[lane])
        return allocatable, used + self.added, self.weights

    def at(self, snapshot: Snapshot, row: int) -> list[tuple[int, int]]:
        """(allocatable on one node, requested there including the pod) of each resource."""
        allocatable, added = snapshot.allocatable, self.amounts
        if self.lanes.names == _CPU_MEMORY:  # nearly always
            used = snapshot.nonzero if self.nonzero else snapshot.requested
            return [
                (allocatable.item(0, row), used.item(0, row) + added[0]),
                (allocatable.item(1, row), used.item(1, row) + added[1]),
            ]
        if self.backed:
            there, with_pod, _ = self.columns(snapshot, np.array([row], np.intp))
            return list(zip(there[:, 0].tolist(), with_pod[:, 0].tolist(), strict=True))
        requested, nonzero, defaulted = snapshot.requested, snapshot.nonzero, dict(self.nonzero)
        found = []
        for lane, place in enumerate(self.lanes.places(snapshot)):
            if place is None:
                found.append((0, added[lane]))
                continue
            taken = nonzero.item(defaulted[lane], row) if lane in defaulted else requested.item(place, row)
            found.append((allocatable.item(place, row), taken + added[lane]))
        return found


_CPU_MEMORY = ("cpu", "memory")


def scored_lanes(resources: Sequence[ResourceSpec], attempt: Attempt, *, exact: bool) -> ScoredLanes:
    """The lanes that are scored for a pod: all but scalar resources that the pod does not request.

    `exact` uses the exact requests; otherwise cpu and memory include the defaults for containers without requests.
    """
    pod, store = attempt.pod, attempt.snapshot.objects
    counted = [spec for spec in resources if not is_scalar(spec.name) or pod.requests.get(spec.name, 0)]
    requests = dict(pod.requests) if exact else {**pod.requests, **dict(zip(_CPU_MEMORY, pod.score_nonzero, strict=True))}
    known = [spec.name for spec in counted if spec.name in NATIVE or is_scalar(spec.name)]
    classes = [(lane, store.following(BackingClasses).of(name)) for lane, name in enumerate(known) if is_candidate(name)]
    amounts = tuple(requests.get(name, 0) for name in known)
    return ScoredLanes(
        lanes=Lanes(known),
        amounts=amounts,
        added=np.array(amounts, np.int64).reshape(-1, 1),
        weights=np.array([spec.weight for spec in counted if spec.name in known], np.int64).reshape(-1, 1),
        nonzero=() if exact else tuple((lane, _CPU_MEMORY.index(name)) for lane, name in enumerate(known) if name in _CPU_MEMORY),
        backed=tuple(Backed(lane, store.following(ClassTotals).of(found)) for lane, found in classes if found is not None),
    )


def volatility(resources: Sequence[ResourceSpec]) -> Volatility:
    """The volatility of points for these resources: GLOBAL if a device class may back one of them."""
    return Volatility.GLOBAL if any(is_candidate(spec.name) for spec in resources) else Volatility.ROW


class ResourceScore(PreparedScore):
    """A score of resources; for GLOBAL plugins it returns the changed rows."""

    def __init__(self, lanes: ScoredLanes, snapshot: Snapshot) -> None:
        self._lanes = lanes
        self._classes = ObjectRevision(snapshot, objects.DeviceClass)
        for _, devices in lanes.backed:
            devices.follow(snapshot)
        self._read = [devices.log.end for _, devices in lanes.backed]

    def affected(self, snapshot: Snapshot, changes: Changes, feasible: Mask, flipped: NDArray[np.intp]) -> Affected:  # noqa: ARG002 — the extension point
        """The rows whose pods, node or devices changed; `OUTDATED` if a class did."""
        if not self._classes.unchanged(snapshot):
            return OUTDATED
        for _, devices in self._lanes.backed:
            devices.follow(snapshot)
        found = [devices.log.since(read) for (_, devices), read in zip(self._lanes.backed, self._read, strict=True)]
        self._read = [devices.log.end for _, devices in self._lanes.backed]
        if any(keys is None or ANY_NODE in keys for keys in found):
            return ALL
        rows = sorted({row for keys in found for row in keys or () if isinstance(row, int)})
        return union(changes.rows, np.array(rows, np.intp)) if rows else changes.rows
