"""The pods that take up room on nodes: one entry per pod, in classes of pods that every question about pods answers alike.

Two pods of equal template are of one class: a selection evaluates its predicate once per class. Entries are dense arrays (row and
class per pod), so counting a selection from scratch is one `np.bincount`; from then on it follows the log of comings and goings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wharfinger.model import columns
from wharfinger.model.pod import PodView

LOG_LIMIT: Final = 1024  # comings and goings remembered; a reader further behind counts again, and who has gone is kept no longer


class PodClass:
    """Pods that no question tells apart, except one about identity; `serial` is never used again, `number` is once the class is empty."""

    __slots__ = ("count", "example", "number", "serial")

    def __init__(self, example: PodView, number: int, serial: int) -> None:
        self.example = example
        self.number = number
        self.serial = serial
        self.count = 0


class Placement:
    """A pod on a node: assumed (decided here, not yet confirmed) or placed; `started` as of `started_at`."""

    __slots__ = ("assumed", "entry", "group", "pod", "row", "started")

    def __init__(self, pod: PodView, row: int, group: PodClass, *, assumed: bool) -> None:
        self.pod = pod
        self.row = row
        self.group = group
        self.started = started_at(pod)
        self.assumed = assumed
        self.entry = -1


def started_at(pod: PodView) -> float:
    """When a pod on a node began, in seconds since 1970: +inf while it has not, -inf when it runs and nothing says since when."""
    started = pod.started
    if started is not None:
        return started
    return -math.inf if pod.object.status.phase == "Running" else math.inf


Change = tuple[Placement, int, int]  # the placement, its row then, and +1 (came) or -1 (went)


class PodTable:
    """Every placement, by uid and by row; `n_changes` counts comings and goings since the beginning."""

    __slots__ = ("_free_numbers", "_log", "_n_classes", "_rows", "_table", "by_row", "by_uid", "classes", "entries", "n_changes")

    def __init__(self) -> None:
        self.by_uid: dict[str, Placement] = {}
        self.by_row: list[dict[str, Placement]] = []
        self._rows = columns.Rows()
        self._table = (self._rows.column(np.int32, -1), self._rows.column(np.int32, -1), self._rows.column(np.float64, 0.0))
        self.entries: list[Placement] = []
        self.classes: dict[bytes, PodClass] = {}
        self._free_numbers: list[int] = []
        self._n_classes = 0
        self._log: list[Change] = []
        self.n_changes = 0

    @property
    def entry_rows(self) -> NDArray[np.int32]:
        """The node row of each pod, (n_pods,) int32."""
        return self._table[0].view

    @property
    def entry_classes(self) -> NDArray[np.int32]:
        """The class number of each pod, (n_pods,) int32."""
        return self._table[1].view

    @property
    def entry_starts(self) -> NDArray[np.float64]:
        """When each pod began, (n_pods,) float64 as of `started_at`."""
        return self._table[2].view

    @property
    def class_numbers(self) -> int:
        """One more than the largest class number ever in use."""
        return len(self.classes) + len(self._free_numbers)

    def add(self, pod: PodView, row: int, *, assumed: bool) -> Placement:
        """The placement of a pod that had none."""
        group = self._class_of(pod)
        group.count += 1
        placement = Placement(pod, row, group, assumed=assumed)
        placement.entry = entry = self._rows.add()
        rows, classes, starts = self._table
        rows.array[entry] = row
        classes.array[entry] = group.number
        starts.array[entry] = placement.started
        self.entries.append(placement)
        self.by_uid[pod.uid] = placement
        self.by_row[row][pod.uid] = placement
        self._record(placement, row, 1)
        return placement

    def remove(self, placement: Placement) -> None:
        """Take a placement out."""
        uid, entry, group = placement.pod.uid, placement.entry, placement.group
        del self.by_uid[uid]
        del self.by_row[placement.row][uid]
        last = self._rows.remove(entry)
        self.entries[entry] = self.entries[last]
        self.entries[entry].entry = entry
        self.entries.pop()
        group.count -= 1
        if not group.count:
            del self.classes[placement.pod.template]
            self._free_numbers.append(group.number)
        self._record(placement, placement.row, -1)

    def _class_of(self, pod: PodView) -> PodClass:
        group = self.classes.get(pod.template)
        if group is None:
            number = self._free_numbers.pop() if self._free_numbers else len(self.classes)
            self._n_classes += 1
            group = self.classes[pod.template] = PodClass(pod, number, self._n_classes)
        return group

    def _record(self, placement: Placement, row: int, sign: int) -> None:
        self._log.append((placement, row, sign))
        self.n_changes += 1
        if len(self._log) > 2 * LOG_LIMIT:
            del self._log[:-LOG_LIMIT]

    def changes_since(self, n_changes: int) -> Iterable[Change] | None:
        """The comings and goings after the first `n_changes`, oldest first; None when they are no longer known."""
        behind = self.n_changes - n_changes
        if behind > len(self._log):
            return None
        return self._log[-behind:] if behind else ()

    def row_added(self) -> None:
        """Make room for the pods of a new last row."""
        self.by_row.append({})

    def row_removed(self, row: int, last: int) -> None:
        """Follow the move of the last row's pods to `row`, which has none any more."""
        if row != last:
            self.by_row[row] = self.by_row[last]
            rows = self._table[0].array
            for placement in self.by_row[row].values():
                placement.row = row
                rows[placement.entry] = row
        self.by_row.pop()
        self._log.clear()  # its row numbers may mean other nodes now
