"""Raw scores become points, and points become totals; both are updated one node at a time.

Normalisation depends on all feasible nodes through the *extent*, for example the lowest and highest raw score. After a placement a few raw
scores have changed and the extent usually has not; then only the points of those nodes change. A scale separates the two steps, and detects
changes of the extent.

The arithmetic of policies is in `compiler.normalize`. Their raw scores are one float64 per node: NaN where the value is missing, +inf where
the rule does not apply to the node.

Totals are sums of weight × points, one per tier. A floating-point sum depends on the order of its terms, so the order is fixed: all STATIC
terms, all ROW and TIMED terms, then each GLOBAL term as its own group, then the terms whose points are kept per class of rows
(`domains.RowClasses`). The sum up to each group is kept. Only the groups from the first changed one are added again, with the same result
to the last bit. Points per class are added to rows on request only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wharfinger.compiler import normalize
from wharfinger.errors import PluginFault
from wharfinger.framework import plugin_calls
from wharfinger.framework.domains import RowClasses
from wharfinger.framework.extension import Normalization
from wharfinger.framework.prepared import ALL, Mask, Rows
from wharfinger.language.ast import MissingAction, Normalize
from wharfinger.language.semantics.bounds import MAX_POINTS

if TYPE_CHECKING:
    from wharfinger.compiler.rules import CompiledScore

Extent: TypeAlias = tuple[float, ...]

NO_EXTENT: Extent = ()
ONE = np.ones(1, np.bool_)
ENCODED = np.array([0.0, np.nan, np.inf])
"""The number added to a policy's raw score, by its state (value, missing, skipped)."""
STATIC, ROW = range(2)  # numbers of the first groups of terms


class Scale(Protocol):
    """The conversion of one score's raw values to points of 0..100."""

    @property
    def relative(self) -> bool:
        """True if the points of a node depend on the other feasible nodes."""

    @property
    def by_class(self) -> bool:
        """True if points depend on the set of raw scores of feasible nodes, not on the number of nodes with each raw score."""

    def extent(self, raw: NDArray[Any], feasible: Mask) -> Extent:
        """The values, besides a node's own raw score, that its points depend on; arrays are `(n_nodes,)`."""

    def points(self, raw: NDArray[Any], extent: Extent, feasible: Mask) -> NDArray[Any]:
        """The points `(n_rows,)` of some nodes, a new array or `raw` itself; checked where a node is feasible."""

    def point(self, value: float, extent: Extent) -> float:
        """The points of one feasible node, bit for bit equal to `points`."""

    def check(self, points: NDArray[Any]) -> None:
        """Raise PluginContractError if these are no points of feasible nodes; they were computed while the nodes were not feasible."""


class IdentityScale:
    """The scale of a plugin without a normalization: its raw scores are the points."""

    relative = False
    by_class = True

    def extent(self, raw: NDArray[Any], feasible: Mask) -> Extent:  # noqa: ARG002 — nothing to know
        """The empty extent."""
        return NO_EXTENT

    def points(self, raw: NDArray[Any], extent: Extent, feasible: Mask) -> NDArray[Any]:  # noqa: ARG002 — as is
        """`raw` itself."""
        return raw

    def point(self, value: float, extent: Extent) -> float:  # noqa: ARG002 — as is
        """`value`."""
        return value

    def check(self, points: NDArray[Any]) -> None:
        """Do nothing: raw scores are checked on all nodes."""


class NormalizedScale:
    """The scale of a plugin with a normalization; the extent is (low, high)."""

    relative = True
    by_class = True

    def __init__(self, plugin: str, normalization: Normalization) -> None:
        self._plugin = plugin
        self._normalization = normalization
        self._least = normalization.least

    def extent(self, raw: NDArray[Any], feasible: Mask) -> Extent:
        """The lowest and highest raw score that counts, (0, 0) where none does."""
        counted = raw if feasible.all() else raw[feasible]
        if self._least > -np.inf:
            counted = counted[counted >= self._least]
        return (counted.min().item(), counted.max().item()) if counted.size else (0, 0)

    def points(self, raw: NDArray[Any], extent: Extent, feasible: Mask) -> NDArray[Any]:
        """The normalised scores, checked where feasible."""
        try:
            answer = self._normalization.points(raw, *extent)
        except Exception as error:
            raise PluginFault(self._plugin, "normalization", error) from error
        scores = plugin_calls.checked_whole_numbers(self._plugin, answer, len(raw))
        plugin_calls.checked_points(self._plugin, scores * feasible, len(raw))
        return scores

    def point(self, value: float, extent: Extent) -> float:
        """The normalised score, checked."""
        points: int = self.points(np.array([value]), extent, ONE).item()
        return points

    def check(self, points: NDArray[Any]) -> None:
        """Raise PluginContractError if these are no points of feasible nodes."""
        plugin_calls.checked_points(self._plugin, points, len(points))


def scale_of(plugin: str, normalization: Normalization | None) -> Scale:
    """The scale of a plugin."""
    return IdentityScale() if normalization is None else NormalizedScale(plugin, normalization)


class PolicyScale:
    """The scale of one score rule.

    The extent is (low, high) over the feasible nodes that have a value. If a feasible node lacks a value and gets the mean of the others'
    points, that mean is the third number.
    """

    def __init__(self, rule: CompiledScore) -> None:
        self._scaling = normalize.Scaling(
            normalize=rule.normalize, min_spread=rule.min_spread, on_missing=rule.on_missing, missing_points=rule.missing_points
        )
        self._neutral = rule.on_missing is MissingAction.NEUTRAL
        self.by_class = not self._neutral  # the mean of points depends on how many nodes have each
        self.relative = self._neutral or rule.normalize is not Normalize.NONE

    def extent(self, raw: NDArray[Any], feasible: Mask) -> Extent:
        """The extent; (0, 0) if no feasible node has a value."""
        if not self.relative:
            return NO_EXTENT
        values = raw if feasible.all() else raw[feasible]
        finite = np.isfinite(values)
        if self._neutral and np.isnan(values).any():
            found = normalize.extent(np.where(finite, values, 0.0), (~finite).view(np.uint8), np.ones(len(values), np.bool_), self._scaling)
            return found.low, found.high, found.mean
        values = values if finite.all() else values[finite]
        return (values.min().item(), values.max().item()) if len(values) else (0.0, 0.0)

    def points(self, raw: NDArray[Any], extent: Extent, feasible: Mask) -> NDArray[Any]:  # noqa: ARG002 — points elsewhere do no harm
        """The points; 0 where the rule does not apply to the node."""
        low, high, mean = (*extent, normalize.MIDDLE_POINTS, normalize.MIDDLE_POINTS, normalize.MIDDLE_POINTS)[:3]
        finite = np.isfinite(raw)
        if np.count_nonzero(finite) == len(finite):  # several times as fast as `all` for some hundred rows
            return normalize.scaled(raw, low, high, self._scaling)
        state = np.where(
            finite, np.uint8(normalize.VALUE), np.where(np.isnan(raw), np.uint8(normalize.MISSING), np.uint8(normalize.SKIPPED))
        )
        return normalize.points(np.where(finite, raw, 0.0), state, normalize.Extent(low, high, mean), self._scaling)[0]

    def point(self, value: float, extent: Extent) -> float:
        """The points of one feasible node."""
        if not math.isfinite(value):
            points: float = self.points(np.array([value]), extent, ONE).item()
            return points
        kind = self._scaling.normalize
        if kind is Normalize.MAX:
            value = value * MAX_POINTS / extent[1] if extent[1] else value
        elif kind is Normalize.MINMAX:
            low, high = extent[0], extent[1]
            stretched = normalize.stretches(low, high, self._scaling.min_spread)
            value = (value - low) * MAX_POINTS / (high - low) if stretched else normalize.MIDDLE_POINTS
        return min(value, MAX_POINTS) if value > 0.0 else 0.0

    def check(self, points: NDArray[Any]) -> None:
        """Do nothing: `points` is computed here, and not by a plugin."""


class WeightedScore(Protocol):
    """A weighted score with its points."""

    @property
    def weight(self) -> float:
        """The factor."""

    @property
    def group(self) -> int:
        """The number of the group it is added in."""

    @property
    def skipped(self) -> bool:
        """True if PreScore skipped the score."""

    @property
    def classes(self) -> RowClasses | None:
        """The classes of rows that `points` refers to; None if `points` is per row."""

    @property
    def points(self) -> NDArray[Any]:
        """The points, `(n_nodes,)` or `(n_classes,)`."""


class TierTotals:
    """The totals of one tier for all nodes, feasible or not. `sums` `(n_nodes,) float64` leaves out the points that are kept per class."""

    __slots__ = ("_addends", "_groups", "_sums", "per_unit", "sums", "tier")

    def __init__(self, tier: int, quantum: float, addends: Sequence[WeightedScore], n_groups: int) -> None:
        self.tier = tier
        self.per_unit = 1.0 / quantum
        self._addends = tuple(addends)
        self._groups = tuple(tuple(addend for addend in addends if addend.group == number) for number in range(n_groups))
        self._sums: list[NDArray[np.float64]] = [np.empty(0)] * n_groups
        self.sums = self._sums[-1]

    def evaluate(self, n_nodes: int, first: int = 0) -> None:
        """Compute the sums of group `first` and all later groups again."""
        running = self._sums[first - 1] if first else np.zeros(n_nodes)
        for number in range(first, len(self._groups)):
            for addend in self._groups[number]:
                if not addend.skipped and addend.classes is None:
                    running = running + addend.weight * addend.points
            self._sums[number] = running
        self.sums = running

    def patch(self, rows: NDArray[np.intp], first: int, stop: int) -> None:
        """Compute the sums of some rows again, from group `first` up to but not including `stop`.

        If a term became skipped, or is skipped no longer, `stop` must be at most the number of its group: a group whose terms are all
        skipped shares the array of the group before it.
        """
        running: Any = self._sums[first - 1][rows] if first else np.zeros(len(rows))
        for number in range(first, stop):
            for addend in self._groups[number]:
                if not addend.skipped and addend.classes is None:
                    running = running + addend.weight * addend.points[rows]
            self._sums[number][rows] = running

    def patch_one(self, row: int, first: int, stop: int) -> float:
        """`patch` for one row; returns its sum if `stop` is the number of groups."""
        running: float = self._sums[first - 1].item(row) if first else 0.0
        for number in range(first, stop):
            for addend in self._groups[number]:
                if not addend.skipped and addend.classes is None:
                    running += addend.weight * addend.points.item(row)
            self._sums[number][row] = running
        return running

    @property
    def added(self) -> list[NDArray[np.float64]]:
        """The weighted points of each term that is kept per class, each `(n_classes,) float64`, in the order of addition."""
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
        """The totals of some rows in whole quanta, float64: the values that are compared."""
        quanta: NDArray[np.float64] = np.rint(self.total_of(rows) * self.per_unit)
        return quanta
