"""A score for the pods of one template, kept up to date: its raw scores and points on all nodes, and the points that rules read.

A rule of a policy that reads points of Kubernetes' scores has to be evaluated again where they change, and they may change on any node:
their extent moves when a node becomes feasible or infeasible. So each such plugin has its own slot (`PluginPoints`). It follows changes as
the slots of the chain do, and returns the rows with changed points. All rules of a template share the slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.framework.domains import RowClasses
from wharfinger.framework.extension import ScorePlugin
from wharfinger.framework.plugin_calls import RuleStatistics
from wharfinger.framework.prepared import ALL, NO_ROWS, OUTDATED, SKIP, Affected, Attempt, Changes, Mask, PreparedScore, Rows, Skip, union
from wharfinger.framework.rules.points import NO_EXTENT, Extent, Scale
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot

INFEASIBLE = np.zeros(1, np.bool_)
N_ENDS = 2  # an extent of two numbers is the lowest and the highest raw score


class ScoreTerm(Struct, frozen=True, kw_only=True):
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
    not move the extent. `_alike`: all nodes have the same raw score, so that no change of the feasible nodes moves it.
    """

    __slots__ = (
        "_alike",
        "_holders",
        "answer",
        "classes",
        "domains",
        "extent",
        "group",
        "plugin",
        "points",
        "raw",
        "relative",
        "rule",
        "scale",
        "skipped",
        "statistics",
        "term",
        "volatility",
        "weight",
    )

    rule: PreparedScore

    def __init__(self, term: ScoreTerm, group: int, statistics: RuleStatistics | None = None) -> None:
        self.term = term
        self.group = group
        self.statistics = statistics
        self.plugin = term.plugin
        self.scale = term.scale
        self.relative = term.scale.relative
        self.weight = term.weight
        self.volatility = term.plugin.score_volatility
        self.answer: PreparedScore | Skip = SKIP
        self.skipped = False
        self.domains: tuple[str, ...] | None = None
        self.classes: RowClasses | None = None
        self.raw: NDArray[Any] = np.empty(0)
        self.points: NDArray[Any] = self.raw
        self.extent: Extent = NO_EXTENT
        self._holders: list[int] | None = None
        self._alike = False

    def prepare(self, attempt: Attempt, feasible: Mask) -> None:
        """Prepare the score; afterwards it may be skipped or not."""
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
        self.raw = raw = self._ask(snapshot, ALL, snapshot.n_nodes).copy()  # what a plugin returns stays the plugin's
        self._alike = self.relative and self.scale.by_class and bool((raw == raw[:1]).all())
        self._normalise(self.scale.extent(self.raw, feasible), feasible)

    def evaluate_classes(self, snapshot: Snapshot, classes: RowClasses, there: Mask) -> None:
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

    def points_at(self, row: int) -> float:
        """The points of a row."""
        points: float = self.points.item(row if self.classes is None else self.classes.ids.item(row))
        return points

    def patch(self, snapshot: Snapshot, rows: NDArray[np.intp], flips: NDArray[np.intp], feasible: Mask) -> Rows:
        """Score some rows, and follow `flips`, the rows that became feasible or infeasible; returns the rows that may have other points.

        Points are right for all rows, feasible or not: a flip changes the points of its row only if it moves the extent.
        """
        if not len(rows) and (self._alike or not (self.relative and len(flips))):
            return NO_ROWS
        self._alike = False
        before = self.points[rows]
        if self.points is self.raw:  # without a normalization
            self.raw[rows] = points = self._ask(snapshot, rows, len(rows))
            return rows if np.count_nonzero(points != before) else NO_ROWS
        now = feasible[rows]
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
        return rows if np.count_nonzero(points != before) else NO_ROWS

    def patch_one(self, snapshot: Snapshot, row: int, feasible: Mask) -> bool:
        """`patch` for a change of one row whose feasibility stayed the same; True if all points are new."""
        value = self.rule.raw_at(snapshot, row)
        if self.statistics is not None:
            self.statistics.evaluated += 1
        before = self.raw.item(row)
        if value == before:
            return False
        self.raw[row] = value
        self._alike = False
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
        if self.statistics is not None:
            self.statistics.evaluated += n_rows
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


Columns = Mapping[str, NDArray[np.float64]]


class PluginPoints:
    """The points by plugin: `columns`, each `(n_nodes,) float64`, 0 where a node is not feasible or the plugin skips the pod.

    `columns` is another object once a number in it has changed.
    """

    def __init__(self, terms: Mapping[str, ScoreTerm]) -> None:
        self._slots = {name: ScoreSlot(term, 0) for name, term in terms.items()}
        self._attempt: Attempt | None = None  # by which all was evaluated
        self._changes: Changes | None = None  # that were followed last
        self._touched: Rows = NO_ROWS  # by them
        self.columns: Columns = {}

    def evaluate(self, attempt: Attempt, feasible: Mask) -> None:
        """Compute all points; once for each attempt, for all rules that use them."""
        if attempt is self._attempt:
            return
        self._attempt, self._changes = attempt, None
        for slot in self._slots.values():
            slot.prepare(attempt, feasible)
            if not slot.skipped:
                slot.evaluate(attempt.snapshot, feasible)
        self._show(feasible)

    def follow(self, snapshot: Snapshot, changes: Changes, feasible: Mask, flips: NDArray[np.intp]) -> Rows:
        """Bring all points up to date; returns the rows with other points than before. Once for each `changes`."""
        assert self._attempt is not None  # noqa: S101 — a rule is prepared before it is asked to follow
        if changes is self._changes:
            return self._touched
        attempt = Attempt(self._attempt.pod, snapshot, self._attempt.shared)
        touched: Rows = NO_ROWS
        for slot in self._slots.values():
            rows = _follow(slot, attempt, changes, feasible, flips)
            touched = ALL if isinstance(rows, slice) or isinstance(touched, slice) else union(touched, rows)
        self._changes, self._touched = changes, touched
        if isinstance(touched, slice) or len(touched) or len(flips):
            self._show(feasible)
        return touched

    def _show(self, feasible: Mask) -> None:
        nothing = np.zeros(len(feasible))
        self.columns = {name: nothing if slot.skipped else np.where(feasible, slot.points, 0.0) for name, slot in self._slots.items()}


def _follow(slot: ScoreSlot, attempt: Attempt, changes: Changes, feasible: Mask, flips: NDArray[np.intp]) -> Rows:
    """Bring one slot up to date; returns the rows with other points than before."""
    skipped = slot.skipped
    affected = _affected(slot, attempt.snapshot, changes, feasible, flips)
    if affected is OUTDATED:
        slot.prepare(attempt, feasible)
        affected = ALL
    if slot.skipped:
        return NO_ROWS if skipped else ALL
    if isinstance(affected, slice):
        slot.evaluate(attempt.snapshot, feasible)
        return ALL
    return slot.patch(attempt.snapshot, NO_ROWS if affected is None else affected, flips, feasible)


def _affected(slot: ScoreSlot, snapshot: Snapshot, changes: Changes, feasible: Mask, flips: NDArray[np.intp]) -> Affected:
    """The rows whose raw score may differ, as far as the plugin's volatility allows."""
    if slot.volatility is Volatility.STATIC:
        return changes.node_rows
    if slot.volatility is Volatility.ROW:
        return changes.rows
    if slot.domains is not None and len(changes.node_rows):  # a node may be in another domain now
        return OUTDATED
    return slot.answer.affected(snapshot, changes, feasible, flips)
