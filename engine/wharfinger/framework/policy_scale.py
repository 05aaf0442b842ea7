"""Points of a policy's scores: normalising over the nodes that have a value, and what happens to the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.scale import NO_EXTENT, Extent
from wharfinger.framework.verdict import Mask
from wharfinger.language.ast import MissingAction, Normalize

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledScore

MISSING = np.nan
SKIPPED = np.inf
MIDDLE = 50.0
"""The points of a node without a value when no node has one, and of all nodes when their values are too close to be told apart."""
MOST = 100.0


class PolicyScale:
    """The scale of one score rule; the extent is (low, high, neutral) over the feasible nodes that have a value."""

    def __init__(self, rule: CompiledScore) -> None:
        self._normalize = rule.normalize
        self._min_spread = rule.min_spread
        self._on_missing = rule.on_missing
        self._missing_points = rule.missing_points
        self._neutral = rule.on_missing is MissingAction.NEUTRAL
        self.relative = self._neutral or self._normalize is not Normalize.NONE

    def raw(self, answer: Any, n_rows: int) -> NDArray[Any]:  # noqa: ARG002 — kernels are tested against the interpreter instead
        """`answer`."""
        scores: NDArray[Any] = answer
        return scores

    def extent(self, raw: NDArray[Any], feasible: Mask) -> Extent:
        """The lowest and highest value (0, 0 without any), and the mean of the points if some node has to be given it."""
        if not self.relative:
            return NO_EXTENT
        counted = raw[feasible]
        values = counted[np.isfinite(counted)]
        if not values.size:
            return 0.0, 0.0, MIDDLE
        low, high = values.min().item(), values.max().item()
        if not self._neutral or not np.isnan(counted).any():
            return low, high, MIDDLE
        return low, high, self._scaled(values, low, high).mean().item()

    def moves(self, extent: Extent, values: NDArray[Any]) -> bool:
        """Whether a value is, or is beyond, an extreme; always where a mean is in use."""
        if self._neutral and extent[2] != MIDDLE:
            return True
        low, high, _ = extent
        return any(not low < value < high for value in values.tolist())

    def points(self, raw: NDArray[Any], extent: Extent, feasible: Mask) -> NDArray[Any]:  # noqa: ARG002 — the others do no harm
        """The points; 0 where the rule leaves the node alone."""
        low, high, neutral = extent if self.relative else (0.0, 0.0, MIDDLE)
        points = self._scaled(raw, low, high)
        if np.isfinite(raw).all():
            return points
        points = np.where(np.isnan(raw), self._instead(neutral), points)
        return np.where(np.isposinf(raw), 0.0, points)

    def _scaled(self, raw: NDArray[Any], low: float, high: float) -> NDArray[Any]:
        if self._normalize is Normalize.NONE:
            return raw.copy()
        if self._normalize is Normalize.MAX:
            return np.clip(raw * (MOST / high) if high else raw, 0.0, MOST)
        if high - low < self._min_spread or high == low:
            return np.full(len(raw), MIDDLE)
        return np.clip((raw - low) * (MOST / (high - low)), 0.0, MOST)

    def _instead(self, neutral: float) -> float:
        if self._on_missing is MissingAction.POINTS:
            return float(self._missing_points)
        return neutral if self._neutral else 0.0
