"""Points of a policy's scores: normalising over the nodes that have a value, and what happens to the others.

The arithmetic is `compiler.normalize`'s. Here a raw score is one float64 per node, so that it can be kept like any other: NaN where the
value is missing, +inf where the rule leaves the node alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.compiler import normalize
from wharfinger.framework.scale import NO_EXTENT, ONE, Extent
from wharfinger.framework.verdict import Mask
from wharfinger.language.syntax.ast import MissingAction, Normalize

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledScore

ENCODED = np.array([0.0, np.nan, np.inf])
"""What is added to a raw score, by its state; values have 0 there."""


class PolicyScale:
    """The scale of one score rule.

    The extent is (low, high) over the feasible nodes that have a value, and the mean of their points where some node is to be given it.
    """

    def __init__(self, rule: CompiledScore) -> None:
        self._scaling = normalize.Scaling(
            normalize=rule.normalize, min_spread=rule.min_spread, on_missing=rule.on_missing, missing_points=rule.missing_points
        )
        self._neutral = rule.on_missing is MissingAction.NEUTRAL
        self.by_class = not self._neutral  # the mean of points depends on how many nodes have each
        self.relative = self._neutral or rule.normalize is not Normalize.NONE

    def raw(self, answer: Any, n_rows: int) -> NDArray[Any]:  # noqa: ARG002 — kernels are compared with the interpreter, not checked here
        """`answer`."""
        scores: NDArray[Any] = answer
        return scores

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

    def moves(self, extent: Extent, values: NDArray[Any]) -> bool:
        """Whether a value is, or is beyond, an extreme; always where a mean is in use."""
        if len(extent) > len(("low", "high")):
            return True
        low, high = extent
        return any(not low < value < high for value in values.tolist())

    def points(self, raw: NDArray[Any], extent: Extent, feasible: Mask) -> NDArray[Any]:  # noqa: ARG002 — points elsewhere do no harm
        """The points; 0 where the rule leaves the node alone."""
        low, high, mean = (*extent, normalize.MIDDLE, normalize.MIDDLE, normalize.MIDDLE)[:3]
        finite = np.isfinite(raw)
        if finite.all():
            return normalize.scaled(raw, low, high, self._scaling)
        state = np.where(
            finite, np.uint8(normalize.VALUE), np.where(np.isnan(raw), np.uint8(normalize.MISSING), np.uint8(normalize.SKIPPED))
        )
        return normalize.points(np.where(finite, raw, 0.0), state, normalize.Extent(low, high, mean), self._scaling)[0]

    def checked(self, value: float) -> float:
        """`value`."""
        return value

    def point(self, value: float, extent: Extent) -> float:
        """The points of one feasible node."""
        if not math.isfinite(value):
            points: float = self.points(np.array([value]), extent, ONE).item()
            return points
        kind = self._scaling.normalize
        if kind is Normalize.MAX:
            value = value * normalize.MOST / extent[1] if extent[1] else value
        elif kind is Normalize.MINMAX:
            low, high = extent[0], extent[1]
            stretched = normalize.stretches(low, high, self._scaling.min_spread)
            value = (value - low) * normalize.MOST / (high - low) if stretched else normalize.MIDDLE
        return min(value, normalize.MOST) if value > 0.0 else 0.0
