"""Resources as columns: the lanes that a filter or score reads, and the kinds of resource names.

Names: `pkg/apis/core/v1/helper` and `pkg/scheduler/util`, Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wharfinger.framework.extension import Arguments
from wharfinger.framework.verdict import Rows

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

NATIVE = ("cpu", "memory", "ephemeral-storage")
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
# An extended resource must still be a qualified name with "requests." before it, which a quota calls it by.
_QUALIFIED = re.compile(rf"(?=[^/]{{1,244}}/){_DOMAIN}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?\Z")


def is_extended(name: str) -> bool:
    """True if it is an extended resource, such as `nvidia.com/gpu`."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.") and _QUALIFIED.match(name) is not None


def is_scalar(name: str) -> bool:
    """True for Kubernetes' scalar resources: extended resources, huge pages and attachable volumes."""
    return is_extended(name) or name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name


class ResourceSpec(Arguments):
    """A resource of a score, and its weight."""

    name: str
    weight: int = Field(default=1, ge=1, le=100)


class Lanes:
    """The lanes of some resources, in order."""

    __slots__ = ("_fixed", "_together", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        # The native resources are the first lanes of every cluster; others may get other lanes.
        self._fixed = tuple(NATIVE.index(name) for name in names) if all(name in NATIVE for name in names) else None
        self._together = slice(0, len(names)) if names and self._fixed == tuple(range(len(names))) else None

    def places(self, snapshot: Snapshot) -> Sequence[int | None]:
        """The lane of each resource; None if no node or pod has it."""
        return [snapshot.resource_index(name) for name in self.names] if self._fixed is None else self._fixed

    def take(self, snapshot: Snapshot, columns: NDArray[Any], rows: Rows) -> NDArray[Any]:
        """The lanes of `columns` at `rows`, `(n_resources, n_rows)`; 0 where no node has the resource."""
        if self._together is not None:
            return columns[self._together, rows]
        places = self.places(snapshot)
        absent = [lane for lane, place in enumerate(places) if place is None]
        lanes = np.array([0 if place is None else place for place in places] if absent else places, np.intp)
        taken = columns[lanes] if isinstance(rows, slice) else columns[lanes[:, np.newaxis], rows]
        if absent:
            taken[absent] = 0
        return taken


@dataclass(frozen=True, slots=True)
class ScoredLanes:
    """The resources a score counts for one pod template: what the pod adds `(n_resources, 1)`, and the weights `(n_resources, 1)`."""

    lanes: Lanes
    added: NDArray[np.int64]
    weights: NDArray[np.int64]
    nonzero: tuple[tuple[int, int], ...]  # (lane here, lane of `snapshot.nonzero`) for those counted with defaults

    def columns(self, snapshot: Snapshot, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Allocatable, requested with the pod, and weights; the first two `(n_resources, n_rows)`."""
        lanes = self.lanes
        if not lanes.names:
            nothing = np.zeros((1, len(snapshot.pod_count[rows])), np.int64)
            return nothing, nothing, np.ones((1, 1), np.int64)
        if lanes.names == _CPU_MEMORY and self.nonzero:
            used = snapshot.nonzero[:, rows]
        else:
            used = lanes.take(snapshot, snapshot.requested, rows)
            if self.nonzero:
                used = used.copy()
                for here, lane in self.nonzero:
                    used[here] = snapshot.nonzero[lane, rows]
        return lanes.take(snapshot, snapshot.allocatable, rows), used + self.added, self.weights

    def at(self, snapshot: Snapshot, row: int) -> list[tuple[int, int]]:
        """For each resource, (allocatable on one node, requested there including the pod)."""
        allocatable, added = snapshot.allocatable, self.added[:, 0].tolist()
        if self.lanes.names == _CPU_MEMORY:  # nearly always
            used = snapshot.nonzero if self.nonzero else snapshot.requested
            return [
                (allocatable.item(0, row), used.item(0, row) + added[0]),
                (allocatable.item(1, row), used.item(1, row) + added[1]),
            ]
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


def scored_lanes(resources: Sequence[ResourceSpec], pod: PodView, *, exact: bool) -> ScoredLanes:
    """The lanes that are scored for a pod: all but scalar resources that the pod does not request.

    `exact` uses the exact requests; otherwise cpu and memory include the defaults for containers without requests.
    """
    counted = [spec for spec in resources if not is_scalar(spec.name) or pod.requests.get(spec.name, 0)]
    amounts = dict(pod.requests) if exact else {**pod.requests, **dict(zip(_CPU_MEMORY, pod.score_nonzero, strict=True))}
    known = [spec for spec in counted if spec.name in NATIVE or is_scalar(spec.name)]
    return ScoredLanes(
        lanes=Lanes([spec.name for spec in known]),
        added=np.array([amounts.get(spec.name, 0) for spec in known], np.int64).reshape(-1, 1),
        weights=np.array([spec.weight for spec in known], np.int64).reshape(-1, 1),
        nonzero=() if exact else tuple((lane, _CPU_MEMORY.index(spec.name)) for lane, spec in enumerate(known) if spec.name in _CPU_MEMORY),
    )
