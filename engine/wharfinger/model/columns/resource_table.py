"""Allocatable, capacity and requests of nodes per resource, and the host ports in use.

cpu, memory and ephemeral-storage have fixed places. Extended resources (`nvidia.com/gpu`, `hugepages-2Mi`, …) get the next place when they
first occur, and may get another when the table is compacted: a place is valid until the next change of the cluster. Units are Kubernetes'
own integers: cpu in millicores, everything else in whole units (bytes, devices). Two sums of requests are kept, as in kube-scheduler's
NodeInfo: filters use the exact one, scores the non-zero one (a container without a request counts as a small one).

Few pods have a host port, so ports have an index from (protocol, port) to rows instead of a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.columns import arrays
from wharfinger.model.objects.pod_view import HostPort
from wharfinger.model.objects.requests import MAX_AMOUNT, NATIVE

EMPTY: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType({})
CPU: Final = 0
MEMORY: Final = 1
_NONZERO_CPU: Final = -1
_NONZERO_MEMORY: Final = -2
SPARE_LANES: Final = 64
"""Lanes of unused resources that are kept before the table is compacted."""
PODS: Final = "pods"  # has its own columns: every pod takes exactly one


class HostPorts:
    """The host IPs in use per (protocol, port) and row; an IP used twice is listed twice."""

    __slots__ = ("_users",)

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[int, tuple[str, ...]]] = {}

    def users(self, protocol: str, port: int) -> Mapping[int, tuple[str, ...]]:
        """The IPs on which a port is in use, by row."""
        return self._users.get((protocol, port), EMPTY)

    def take(self, row: int, ports: Iterable[HostPort]) -> None:
        """Add the ports of one pod to a row."""
        for ip, protocol, port in ports:
            by_row = self._users.setdefault((protocol, port), {})
            by_row[row] = (*by_row.get(row, ()), ip)

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """Remove the ports of one pod from a row."""
        for ip, protocol, port in ports:
            by_row = self._users[protocol, port]
            left = list(by_row.pop(row))
            left.remove(ip)
            if left:
                by_row[row] = tuple(left)
            elif not by_row:
                del self._users[protocol, port]


class ResourceTable:
    """Amounts per (resource, row): allocatable, capacity, requested; and the pod counts.

    Sums of requests show at most `MAX_AMOUNT`, which is far below the overflow of int64. Larger sums are kept separately, so that
    subtracting is exact.
    """

    __slots__ = (
        "_beyond",
        "_max_lanes",
        "allocatable",
        "allowed_pods",
        "capacity",
        "has_allocatable",
        "has_capacity",
        "index",
        "nonzero",
        "pod_capacity",
        "pod_count",
        "requested",
    )

    def __init__(self, rows: arrays.Rows) -> None:
        self.index: dict[str, int] = {name: place for place, name in enumerate(NATIVE)}
        self.allocatable = rows.column(np.int64, 0, lanes=len(NATIVE))
        self.capacity = rows.column(np.int64, 0, lanes=len(NATIVE))
        self.requested = rows.column(np.int64, 0, lanes=len(NATIVE))
        self.has_allocatable = rows.column(np.bool_, False, lanes=len(NATIVE))
        self.has_capacity = rows.column(np.bool_, False, lanes=len(NATIVE))
        self.nonzero = rows.column(np.int64, 0, lanes=2)
        self.pod_count = rows.column(np.int64, 0)
        self.allowed_pods = rows.column(np.int64, 0)
        self.pod_capacity = rows.column(np.int64, 0)
        self._max_lanes = len(NATIVE) + SPARE_LANES
        self._beyond: dict[tuple[int, int], int] = {}  # (lane, row) → the exact sum where it exceeds `MAX_AMOUNT`

    def place(self, resource: str) -> int:
        """The lane of a resource, added if it is new."""
        place = self.index.get(resource)
        if place is None:
            place = self.index[resource] = len(self.index)
            for column in self._by_lane:
                column.add_lane()
        return place

    @property
    def _by_lane(self) -> tuple[arrays.Column, ...]:
        return self.allocatable, self.capacity, self.requested, self.has_allocatable, self.has_capacity

    def compact(self) -> None:
        """Drop the resources that no node has and no placed pod requests, once they may be more than half of all.

        Must be called right after a change, while no snapshot is read. Such a resource reads the same with and without a lane.
        """
        if len(self.index) <= self._max_lanes:
            return
        used = np.logical_or.reduce([column.view.any(axis=1) for column in self._by_lane])
        used[: len(NATIVE)] = True
        kept = [(name, lane) for name, lane in self.index.items() if used[lane]]
        for column in self._by_lane:
            column.keep_lanes([lane for _, lane in kept])
        renumbered = {lane: number for number, (_, lane) in enumerate(kept)}
        self.index = {name: renumbered[lane] for name, lane in kept}
        # The sums of cpu and memory with defaults have keys below zero, which stay.
        self._beyond = {(renumbered.get(lane, lane), row): total for (lane, row), total in self._beyond.items()}
        self._max_lanes = 2 * len(kept) + SPARE_LANES

    def set_amounts(self, row: int, allocatable: Mapping[str, int], capacity: Mapping[str, int]) -> None:
        """Replace the allocatable amounts and the capacity of a node."""
        for resource in (*allocatable, *capacity):
            if resource != PODS:
                self.place(resource)
        for column, has, amounts in (
            (self.allocatable, self.has_allocatable, allocatable),
            (self.capacity, self.has_capacity, capacity),
        ):
            column.clear(row)
            has.clear(row)
            for resource, amount in amounts.items():
                if resource != PODS:
                    column.array[self.index[resource], row] = amount
                    has.array[self.index[resource], row] = True
        self.allowed_pods.array[row] = allocatable.get(PODS, 0)
        self.pod_capacity.array[row] = capacity.get(PODS, 0)

    def take(self, row: int, requests: Mapping[str, int], nonzero: tuple[int, int]) -> None:
        """Add one pod's requests to a row."""
        requested = self.requested.array
        for resource, amount in requests.items():
            place = self.index.get(resource)
            if place is None:
                place = self.place(resource)
                requested = self.requested.array
            self._add(requested, place, row, amount, place)
        self._add(self.nonzero.array, CPU, row, nonzero[0], _NONZERO_CPU)
        self._add(self.nonzero.array, MEMORY, row, nonzero[1], _NONZERO_MEMORY)
        self.pod_count.array[row] += 1

    def remove(self, row: int, requests: Mapping[str, int], nonzero: tuple[int, int]) -> None:
        """Subtract one pod's requests from a row: the exact inverse of `take`."""
        requested = self.requested.array
        for resource, amount in requests.items():
            place = self.index[resource]
            self._add(requested, place, row, -amount, place)
        self._add(self.nonzero.array, CPU, row, -nonzero[0], _NONZERO_CPU)
        self._add(self.nonzero.array, MEMORY, row, -nonzero[1], _NONZERO_MEMORY)
        self.pod_count.array[row] -= 1

    def _add(self, sums: NDArray[np.int64], lane: int, row: int, amount: int, key: int) -> None:
        total = sums.item(lane, row) + amount
        if total > MAX_AMOUNT or self._beyond:
            total = self._beyond.pop((key, row), total - amount) + amount
            if total > MAX_AMOUNT:
                self._beyond[key, row] = total
                total = MAX_AMOUNT
        sums[lane, row] = total

    def removed(self, row: int, last: int) -> None:
        """Follow the removal of an empty row, into whose place the row `last` moved."""
        for key, old in [where for where in self._beyond if where[1] in (row, last)]:
            total = self._beyond.pop((key, old))
            if old == last != row:
                self._beyond[key, row] = total
