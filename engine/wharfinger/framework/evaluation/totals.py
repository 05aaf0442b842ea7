"""Sums of weight × points, one per tier, kept up to date.

A floating-point sum depends on the order of its terms. Here it is always the same: all STATIC terms, all ROW and TIMED terms, then the
GLOBAL ones, of which each is a group of its own, then those whose points are kept per class of rows (`best_rows.Classes`). The sum up to
each group is kept, and only the groups from the first one that changed are added again, with the same result to the last bit. What is added
per class is never added to rows unless somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.evaluation.best_rows import Classes
from wharfinger.framework.evaluation.question import ALL
from wharfinger.framework.verdict import Rows

STATIC, ROW, FIRST_GLOBAL = range(3)  # numbers of groups


class Addend(Protocol):
    """A weighted score with its points."""

    @property
    def weight(self) -> float:
        """The factor."""

    @property
    def group(self) -> int:
        """The number of the group it is added in."""

    @property
    def skipped(self) -> bool:
        """Whether it is left out."""

    @property
    def classes(self) -> Classes | None:
        """The classes of rows that the points are of; None where they are of single rows."""

    @property
    def points(self) -> NDArray[Any]:
        """The points, `(n_nodes,)` or `(n_classes,)`."""


class TierTotals:
    """The totals of one tier, whatever the feasible set is. `sums` `(n_nodes,) float64` are without what is added per class."""

    __slots__ = ("_addends", "_groups", "_sums", "per_unit", "sums", "tier")

    def __init__(self, tier: int, quantum: float, addends: Sequence[Addend], n_groups: int) -> None:
        self.tier = tier
        self.per_unit = 1.0 / quantum
        self._addends = tuple(addends)
        self._groups = tuple(tuple(addend for addend in addends if addend.group == number) for number in range(n_groups))
        self._sums: list[NDArray[np.float64]] = [np.empty(0)] * n_groups
        self.sums = self._sums[-1]

    def evaluate(self, n_nodes: int, first: int = 0) -> None:
        """Form the sums of group `first` and the later ones anew."""
        running = self._sums[first - 1] if first else np.zeros(n_nodes)
        for number in range(first, len(self._groups)):
            for addend in self._groups[number]:
                if not addend.skipped and addend.classes is None:
                    running = running + addend.weight * addend.points
            self._sums[number] = running
        self.sums = running

    def patch(self, rows: NDArray[np.intp], first: int, stop: int) -> None:
        """Form the sums anew on some rows, of group `first` and the later ones before `stop`.

        `stop` must be the first group in which a term was skipped and is not any more, or the other way round: a sum to which nothing was
        added is the same array as the one before.
        """
        running: Any = self._sums[first - 1][rows] if first else np.zeros(len(rows))
        for number in range(first, stop):
            for addend in self._groups[number]:
                if not addend.skipped and addend.classes is None:
                    running = running + addend.weight * addend.points[rows]
            self._sums[number][rows] = running

    def patch_one(self, row: int, first: int, stop: int) -> float:
        """`patch` for one row; its sum, if `stop` is the number of groups."""
        running: float = self._sums[first - 1].item(row) if first else 0.0
        for number in range(first, stop):
            for addend in self._groups[number]:
                if not addend.skipped and addend.classes is None:
                    running += addend.weight * addend.points.item(row)
            self._sums[number][row] = running
        return running

    @property
    def added(self) -> list[NDArray[np.float64]]:
        """What is added per class, each `(n_classes,) float64`, in the order in which it is added."""
        return [addend.weight * addend.points for addend in self._addends if addend.classes is not None and not addend.skipped]

    @property
    def total(self) -> NDArray[np.float64]:
        """The total of each row, `(n_nodes,) float64`."""
        return self.total_of(ALL)

    def total_of(self, rows: Rows) -> NDArray[np.float64]:
        """The totals of some rows."""
        total = self.sums[rows]
        for addend in self._addends:
            if addend.classes is not None and not addend.skipped:
                total = total + (addend.weight * addend.points)[addend.classes.ids[rows]]
        return total

    def key(self, rows: Rows) -> NDArray[np.float64]:
        """What is compared: the total of each row in whole quanta."""
        quanta: NDArray[np.float64] = np.rint(self.total_of(rows) * self.per_unit)
        return quanta
