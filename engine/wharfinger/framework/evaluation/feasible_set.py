"""The feasible nodes of one template.

A filter that depends on topology domains alone opens or closes whole classes of rows (`domains.Classes`): a zone that is full is one
flag, and not a new verdict for each of its nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.domains import Classes
from wharfinger.framework.prepared import NO_ROWS, Mask, Rows


class Flips(NamedTuple):
    """The rows that became feasible or infeasible, and the rows whose `FeasibleSet.possible` changed; both ascending."""

    rows: NDArray[np.intp]
    possible: NDArray[np.intp]


NO_FLIPS = Flips(NO_ROWS, NO_ROWS)


class FeasibleSet:
    """The feasible nodes `mask` `(n_nodes,) bool`, and their number `count`: those of `possible` `(n_nodes,) bool` in an open class.

    `possible` are the nodes that pass all filters that are kept per row; `open` `(n_classes,) bool` are the classes that pass the others.
    Without `classes`, `mask` is `possible`.
    """

    __slots__ = ("classes", "count", "mask", "open", "possible")

    def __init__(self, possible: Mask, classes: Classes | None = None, open_: Mask | None = None) -> None:
        self.possible = possible
        self.classes = classes
        self.open = np.ones(0, np.bool_) if open_ is None else open_
        self.mask = possible
        if classes is not None:
            self.mask = possible & self.open.take(classes.ids)
        self.count = int(np.count_nonzero(self.mask))

    def put(self, row: int, *, passes: bool) -> bool:
        """Set `possible` of one row; returns if it changed."""
        if passes == self.possible.item(row):
            return False
        self.possible[row] = passes
        if self.classes is None:
            self.count += 1 if passes else -1
        return True

    def put_all(self, rows: Rows, passes: Mask) -> NDArray[np.intp]:
        """Set `possible` of some rows; returns those where it changed."""
        before = self.possible[rows]
        different = (before != passes).nonzero()[0]
        if len(different):
            if self.classes is None:
                self.count += int(np.count_nonzero(passes)) - int(np.count_nonzero(before))
            self.possible[rows] = passes
        flipped: NDArray[np.intp] = different if isinstance(rows, slice) else rows[different]
        return flipped

    def follow(self, flipped: NDArray[np.intp], open_: Mask | None) -> Flips:
        """Bring `mask` up to date after `possible` changed in some rows; `open_` are the open classes if they may be others now."""
        if open_ is None or np.array_equal(open_, self.open):
            if not len(flipped):
                return NO_FLIPS
            if self.classes is None:
                return Flips(flipped, flipped)
            rows = flipped[self.open[self.classes.ids[flipped]]]
            self.mask[rows] = self.possible[rows]
            self.count += 2 * int(np.count_nonzero(self.mask[rows])) - len(rows)
            return Flips(rows, flipped)
        assert self.classes is not None  # noqa: S101 — whose `open_` it is
        before, self.open = self.mask, open_
        self.mask = self.possible & open_.take(self.classes.ids)
        self.count = int(np.count_nonzero(self.mask))
        return Flips((before != self.mask).nonzero()[0], flipped)
