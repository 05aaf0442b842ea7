"""Sums of weight × points, one per tier, kept up to date.

A floating-point sum depends on the order of its terms. Here it is always the same: all STATIC terms, all ROW and TIMED terms, then the
GLOBAL ones, of which each is a group of its own. The sum up to each group is kept, and only the groups from the first one that changed
are added again, with the same result to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

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
    def points(self) -> NDArray[Any]:
        """The points, `(n_nodes,)`."""


class TierTotals:
    """The totals of one tier: `total` `(n_nodes,) float64`, whatever the feasible set is."""

    __slots__ = ("_groups", "_per_unit", "_sums", "tier", "total")

    def __init__(self, tier: int, quantum: float, addends: Sequence[Addend], n_groups: int) -> None:
        self.tier = tier
        self._per_unit = 1.0 / quantum
        self._groups = tuple(tuple(addend for addend in addends if addend.group == number) for number in range(n_groups))
        self._sums: list[NDArray[np.float64]] = [np.empty(0)] * n_groups
        self.total = self._sums[-1]

    def evaluate(self, n_nodes: int, first: int = 0) -> None:
        """Form the sums of group `first` and the later ones anew."""
        running = self._sums[first - 1] if first else np.zeros(n_nodes)
        for number in range(first, len(self._groups)):
            for addend in self._groups[number]:
                if not addend.skipped:
                    running = running + addend.weight * addend.points
            self._sums[number] = running
        self.total = running

    def patch(self, rows: NDArray[np.intp], first: int, stop: int) -> None:
        """Form the sums anew on some rows, of group `first` and the later ones before `stop`.

        `stop` must be the first group in which a term was skipped and is not any more, or the other way round: a sum to which nothing was
        added is the same array as the one before.
        """
        running: Any = self._sums[first - 1][rows] if first else np.zeros(len(rows))
        for number in range(first, stop):
            for addend in self._groups[number]:
                if not addend.skipped:
                    running = running + addend.weight * addend.points[rows]
            self._sums[number][rows] = running

    def patch_one(self, row: int, first: int, stop: int) -> float:
        """`patch` for one row; its key, if `stop` is the number of groups."""
        running = self._sums[first - 1].item(row) if first else 0.0
        for number in range(first, stop):
            for addend in self._groups[number]:
                if not addend.skipped:
                    running += addend.weight * addend.points.item(row)
            self._sums[number][row] = running
        return float(round(running * self._per_unit))

    def key(self, rows: Rows) -> NDArray[np.float64]:
        """What is compared: the total of each row in whole quanta."""
        quanta: NDArray[np.float64] = np.rint(self.total[rows] * self._per_unit)
        return quanta
