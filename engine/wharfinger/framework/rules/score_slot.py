"""One score for the pods of one template: its raw scores and points on all nodes, kept up to date."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.domains import Classes
from wharfinger.framework.extension import ScorePlugin
from wharfinger.framework.plugin_calls import Effort
from wharfinger.framework.prepared import ALL, NO_ROWS, SKIP, Attempt, Mask, PreparedScore, Rows, Skip
from wharfinger.framework.rules.points import NO_EXTENT, Extent, Scale
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot

INFEASIBLE = np.zeros(1, np.bool_)
N_ENDS = 2  # an extent of two numbers is the lowest and the highest raw score


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTerm:
    """A score that counts: `weight` × points, added to the total of `tier`."""

    plugin: ScorePlugin
    weight: float
    tier: int
    scale: Scale


class ScoreSlot:
    """A score prepared for one template (`rule`, if the `answer` is one), with its raw scores and points, and the extent of the raw scores.

    Both are `(n_nodes,)` or, where there are `classes`, `(n_classes,)`. `group` is the number of the group of terms that it is summed with
    (see `points`). `domains` are the topology keys that alone decide its points; None if they depend on more. `_holders` counts the
    feasible nodes at each end of the extent, None until it is needed: while other nodes have the same raw score, a change of one node does
    not move the extent.
    """

    __slots__ = (
        "_holders",
        "answer",
        "classes",
        "domains",
        "effort",
        "extent",
        "group",
        "plugin",
        "points",
        "raw",
        "relative",
        "rule",
        "scale",
        "skipped",
        "term",
        "volatility",
        "weight",
    )

    rule: PreparedScore

    def __init__(self, term: ScoreTerm, group: int, effort: Effort | None = None) -> None:
        self.term = term
        self.group = group
        self.effort = effort
        self.plugin = term.plugin
        self.scale = term.scale
        self.relative = term.scale.relative
        self.weight = term.weight
        self.volatility = term.plugin.score_volatility
        self.answer: PreparedScore | Skip = SKIP
        self.skipped = False
        self.domains: tuple[str, ...] | None = None
        self.classes: Classes | None = None
        self.raw: NDArray[Any] = np.empty(0)
        self.points: NDArray[Any] = self.raw
        self.extent: Extent = NO_EXTENT
        self._holders: list[int] | None = None

    def prepare(self, attempt: Attempt, feasible: Mask) -> None:
        """Prepare the score; it may be skipped then, or be skipped no longer."""
        self.answer = self.plugin.prepare_score(attempt, feasible)
        self.skipped = isinstance(self.answer, Skip)
        self.domains = None
        if not isinstance(self.answer, Skip):
            self.rule = self.answer
            if self.volatility is Volatility.GLOBAL and self.scale.by_class:
                self.domains = self.rule.domains

    def evaluate(self, snapshot: Snapshot, feasible: Mask) -> None:
        """Score every node."""
        self.classes = None
        self.raw = self._ask(snapshot, ALL, snapshot.n_nodes).copy()  # what a plugin returns stays the plugin's
        self._normalise(self.scale.extent(self.raw, feasible), feasible)

    def evaluate_classes(self, snapshot: Snapshot, classes: Classes, there: Mask) -> None:
        """Score one row of each class; `there` (n_classes,) bool is true for classes with feasible rows."""
        self.classes = classes
        self.raw = self._ask(snapshot, classes.rows, len(classes.rows)).copy()
        self._normalise(self.scale.extent(self.raw, there), there)

    def normalise_classes(self, there: Mask) -> None:
        """Compute the points again after the set of classes with feasible rows, `there`, changed."""
        if self.relative:
            self._normalise(self.scale.extent(self.raw, there), there)

    def at(self, row: int) -> tuple[float, float]:
        """The raw score and the points of a row."""
        index = row if self.classes is None else self.classes.ids.item(row)
        return self.raw.item(index), self.points.item(index)

    def patch(self, snapshot: Snapshot, rows: NDArray[np.intp], flips: NDArray[np.intp], feasible: Mask) -> Rows:
        """Score some rows, and follow `flips`, the rows that became feasible or infeasible; returns the rows that may have other points.

        Points are right for all rows, feasible or not: a flip changes the points of its row only if it moves the extent.
        """
        if not len(rows) and not (self.relative and len(flips)):
            return NO_ROWS
        now, before = feasible[rows], self.points[rows]
        if not self.relative:
            self.raw[rows] = self._ask(snapshot, rows, len(rows))
        else:
            leaving = coming = rows[now]
            if len(flips):
                there = feasible[flips]
                staying = rows[now & ~_among(rows, flips)]
                leaving, coming = np.concatenate((staying, flips[~there])), np.concatenate((staying, flips[there]))
            lost = self.raw[leaving]
            if len(rows):
                self.raw[rows] = self._ask(snapshot, rows, len(rows))
            if self._moved_by(lost, self.raw[coming], feasible):
                return ALL
        self.points[rows] = points = self.scale.points(self.raw[rows], self.extent, now)
        if self.relative and len(flips):
            self.scale.check(self.points[coming])
        return rows if (points != before).any() else NO_ROWS

    def patch_one(self, snapshot: Snapshot, row: int, feasible: Mask) -> bool:
        """`patch` for a change of one row whose feasibility stayed the same; True if all points are new."""
        value = self.rule.raw_at(snapshot, row)
        if self.effort is not None:
            self.effort.evaluated += 1
        before = self.raw.item(row)
        if value == before:
            return False
        self.raw[row] = value
        if not self.relative:
            if self.points is not self.raw:
                self.points[row] = self.scale.point(value, self.extent)
        elif feasible.item(row):
            inside = len(self.extent) == N_ENDS and self.extent[0] <= value <= self.extent[1]
            if self._moved(lambda end: (value == end) - (before == end), feasible, inside=inside):
                return True
            self.points[row] = self.scale.point(value, self.extent)
        else:
            self.points[row] = self.scale.points(np.array([value]), self.extent, INFEASIBLE).item()
        return False

    def _ask(self, snapshot: Snapshot, rows: Rows, n_rows: int) -> NDArray[Any]:
        if self.effort is not None:
            self.effort.evaluated += n_rows
        return self.rule.raw(snapshot, rows)

    def _moved_by(self, lost: NDArray[Any], gained: NDArray[Any], feasible: Mask) -> bool:
        """`_moved` after feasible nodes lost some raw scores and got others."""
        inside = len(self.extent) == N_ENDS and bool(((gained >= self.extent[0]) & (gained <= self.extent[1])).all())
        return self._moved(lambda end: int(np.count_nonzero(gained == end) - np.count_nonzero(lost == end)), feasible, inside=inside)

    def _moved(self, more: Callable[[float], int], feasible: Mask, *, inside: bool) -> bool:
        """True if the extent moved, after which all points are new.

        `more` is the number of additional feasible nodes with a raw score, `inside`: all new raw scores are inside of the extent.
        """
        if inside:
            if self._holders is None:
                self._holders = [int(np.count_nonzero((self.raw == end) & feasible)) for end in self.extent]
            else:
                for index, end in enumerate(self.extent):
                    self._holders[index] += more(end)
            if all(self._holders):
                return False
        self._holders = None
        extent = self.scale.extent(self.raw, feasible)
        if extent == self.extent:
            return False
        self._normalise(extent, feasible)
        return True

    def _normalise(self, extent: Extent, feasible: Mask) -> None:
        self.extent = extent
        self._holders = None
        self.points = self.scale.points(self.raw, extent, feasible)


def _among(rows: NDArray[np.intp], others: NDArray[np.intp]) -> Mask:
    """True for the rows that are among others, which are ascending and not empty, `(n_rows,) bool`."""
    found: Mask = others.take(others.searchsorted(rows), mode="clip") == rows
    return found
