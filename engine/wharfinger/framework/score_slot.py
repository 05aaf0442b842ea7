"""One score at every node, kept for one template: per row, or per class of rows where it depends on topology domains alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework import plugin_faults
from wharfinger.framework.best_rows import Classes
from wharfinger.framework.extension import ScorePlugin
from wharfinger.framework.lineup import ScoreTerm
from wharfinger.framework.question import ALL, NO_ROWS, Changes, Question, union
from wharfinger.framework.scale import NO_EXTENT, Extent
from wharfinger.framework.stopwatch import Effort
from wharfinger.framework.verdict import Mask, Rows

N_ENDS = 2  # an extent of two numbers is the lowest and the highest raw score


class ScoreSlot:
    """Raw scores and points, and the extent the points were made with; `(n_nodes,)`, or `(n_classes,)` where there are `classes`.

    `group` is the number of the group of terms it is summed with (see `totals`). `_holders` counts the feasible nodes at each end of the
    extent, once that is asked for: while there are others, one may go.
    """

    __slots__ = (
        "_holders",
        "classes",
        "effort",
        "extent",
        "group",
        "one",
        "plugin",
        "points",
        "raw",
        "relative",
        "scale",
        "skipped",
        "term",
        "volatility",
        "weight",
    )

    def __init__(self, term: ScoreTerm, group: int, effort: Effort | None = None) -> None:
        self.term = term
        self.group = group
        self.effort = effort
        self.plugin = term.plugin
        self.one = None if type(term.plugin).score_one is ScorePlugin.score_one else term.plugin.score_one
        self.scale = term.scale
        self.relative = term.scale.relative
        self.weight = term.weight
        self.volatility = term.plugin.score_volatility
        self.skipped = False
        self.classes: Classes | None = None
        self.raw: NDArray[Any] = np.empty(0)
        self.points: NDArray[Any] = self.raw
        self.extent: Extent = NO_EXTENT
        self._holders: list[int] | None = None

    def prepare(self, asked: Question, feasible: Mask) -> bool:
        """Run PreScore; whether its answer is another than last time."""
        before = self.skipped
        answer = self.plugin.pre_score(*asked, feasible)
        plugin_faults.pre_score(self.plugin.name, answer)
        self.skipped = answer is not None
        return self.skipped is not before

    def evaluate(self, asked: Question, feasible: Mask) -> None:
        """Score every node."""
        self.classes = None
        self.raw = self._ask(asked, ALL, asked.snapshot.n_nodes).copy()  # what a plugin returns stays the plugin's
        self._normalise(self.scale.extent(self.raw, feasible), feasible)

    def evaluate_classes(self, asked: Question, classes: Classes, there: Mask) -> None:
        """Score one row of each class; `there` (n_classes,) bool says which have feasible rows."""
        self.classes = classes
        self.raw = self._ask(asked, classes.rows, len(classes.rows)).copy()
        self._normalise(self.scale.extent(self.raw, there), there)

    def normalise_classes(self, there: Mask) -> None:
        """Renew the points where other classes have feasible rows now."""
        if self.relative:
            self._normalise(self.scale.extent(self.raw, there), there)

    def at(self, row: int) -> tuple[float, float]:
        """The raw score and the points of a row."""
        index = row if self.classes is None else self.classes.ids.item(row)
        return self.raw.item(index), self.points.item(index)

    def patch(self, asked: Question, rows: NDArray[np.intp], flips: NDArray[np.intp], feasible: Mask) -> Rows:
        """Score some rows, and renew the points of those and of the rows that flipped; the rows whose points are new."""
        touched = union(rows, flips) if self.relative else rows
        if not len(touched):
            return NO_ROWS
        before = self.raw[touched]
        if len(rows):
            self.raw[rows] = self._ask(asked, rows, len(rows))
        after = self.raw[touched]
        self._holders = None
        if self.relative and self._moved(np.concatenate((before, after)), feasible):
            return ALL
        self.points[touched] = self.scale.points(after, self.extent, feasible[touched])
        return touched

    def patch_one(self, asked: Question, changes: Changes, feasible: Mask) -> bool:
        """`patch` for the one row that changed, and that is as feasible as it was; whether all points are new."""
        row = changes.row
        if self.one is None:
            value = self._ask(asked, changes.rows, 1).item()
        else:
            value = self.scale.checked(self.one(*asked, row))
            if self.effort is not None:
                self.effort.evaluated += 1
        before = self.raw.item(row)
        if value == before:
            return False
        self.raw[row] = value
        if not self.relative:
            self.points[row] = self.scale.point(value, self.extent)
        elif feasible.item(row):
            if self._may_move(before, value, feasible) and self._moved(np.array((before, value)), feasible):
                return True
            self.points[row] = self.scale.point(value, self.extent)
        return False

    def _ask(self, asked: Question, rows: Rows, n_rows: int) -> NDArray[Any]:
        if self.effort is not None:
            self.effort.evaluated += n_rows
        return self.scale.raw(self.plugin.score(*asked, rows), n_rows)

    def _may_move(self, before: float, value: float, feasible: Mask) -> bool:
        """Whether the extent may be another now that one feasible node's raw score changed."""
        if len(self.extent) != N_ENDS or not self.extent[0] <= value <= self.extent[1]:
            return True
        if self._holders is None:
            self._holders = [int(np.count_nonzero((self.raw == end) & feasible)) for end in self.extent]
        else:
            for index, end in enumerate(self.extent):
                self._holders[index] += (value == end) - (before == end)
        return not all(self._holders)

    def _moved(self, values: NDArray[Any], feasible: Mask) -> bool:
        """Whether the extent has moved, now that some feasible nodes lost and others got these raw scores; all points are new then."""
        if not self.scale.moves(self.extent, values):
            return False
        extent = self.scale.extent(self.raw, feasible)
        if extent == self.extent:
            return False
        self._normalise(extent, feasible)
        return True

    def _normalise(self, extent: Extent, feasible: Mask) -> None:
        self.extent = extent
        self._holders = None
        self.points = self.scale.points(self.raw, extent, feasible)
