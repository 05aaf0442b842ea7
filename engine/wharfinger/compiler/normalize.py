"""Normalises the raw values of a score rule to points, over the feasible nodes that have a value.

    none     the value itself
    max      100 · value / the highest value (Kubernetes' DefaultNormalizeScore); the value itself where the highest is 0
    minmax   100 · (value − lowest) / (highest − lowest); 50 for all nodes if the spread is below the rule's smallest spread

Points are always in 0..100. Nodes without a value are handled by `on missing`: the mean of the others' points (50 if there are none), a
fixed number of points, or nothing: then neither the points nor the weight of the rule count for them.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.language.ast import MissingAction, Normalize
from wharfinger.language.semantics.bounds import MAX_POINTS
from wharfinger.language.semantics.types import Kind

MIDDLE_POINTS = 50.0
VALUE, MISSING, SKIPPED = range(3)  # states of a raw value

SMALLEST_SPREADS = {
    Kind.PERCENT: 0.01,
    Kind.CPU: 10.0,  # millicores
    Kind.MEMORY: 1024.0 * 1024.0,
    Kind.DURATION: 1.0,
    Kind.TIME: 1.0,
    Kind.COUNT: 1.0,
}


def default_spread(kind: Kind) -> float:
    """The default of the smallest spread that `minmax` stretches: 1%, 10m, 1Mi, 1s, 1; 1e-9 for numbers."""
    return SMALLEST_SPREADS.get(kind, 1e-9)


class Scaling(Struct, frozen=True, kw_only=True):
    """The conversion of a rule's raw values into points."""

    normalize: Normalize
    min_spread: float = 0.0
    on_missing: MissingAction | None = None
    missing_points: float = 0.0


class Extent(Struct, frozen=True):
    """The values of all nodes that a node's points depend on: the lowest and highest value, and the mean of the points."""

    low: float
    high: float
    mean: float


def extent(raw: NDArray[np.float64], state: NDArray[np.uint8], feasible: NDArray[np.bool_], scaling: Scaling) -> Extent:
    """The extent over the feasible nodes that have a value, (0, 0, 50) if there are none. Arrays are `(n_nodes,)`."""
    values = raw[feasible & (state == VALUE)]
    if not len(values):
        return Extent(0.0, 0.0, MIDDLE_POINTS)
    low, high = float(values.min()), float(values.max())
    if scaling.on_missing is not MissingAction.NEUTRAL:
        return Extent(low, high, MIDDLE_POINTS)
    return Extent(low, high, math.fsum(scaled(values, low, high, scaling).tolist()) / len(values))


def points(
    raw: NDArray[np.float64], state: NDArray[np.uint8], within: Extent, scaling: Scaling
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The points `(n_rows,) float64` in 0..100, and where the rule counts `(n_rows,) bool`."""
    missing = np.equal(state, MISSING)
    filled = np.where(missing, _instead(within.mean, scaling), scaled(raw, within.low, within.high, scaling))
    counted = np.not_equal(state, SKIPPED)
    if scaling.on_missing in (MissingAction.SKIP, None):
        counted &= ~missing
    return np.where(counted, filled, 0.0), counted


def scaled(raw: NDArray[np.float64], low: float, high: float, scaling: Scaling) -> NDArray[np.float64]:
    """The points of nodes that have a value, `(n_rows,) float64`, a new array."""
    if scaling.normalize is not Normalize.NONE:
        with np.errstate(over="ignore", invalid="ignore"):  # values beyond float64 become 0 or 100 like any other value
            if scaling.normalize is Normalize.MAX:
                raw = raw * MAX_POINTS / high if high else raw
            elif stretches(low, high, scaling.min_spread):
                raw = (raw - low) * MAX_POINTS / (high - low)
            else:
                raw = np.full(len(raw), MIDDLE_POINTS)
    return np.minimum(np.fmax(raw, 0.0) + 0.0, MAX_POINTS)  # never NaN, and by the sum never -0


def stretches(low: float, high: float, min_spread: float) -> bool:
    """True if the spread is large enough for `minmax` to stretch it."""
    return high > low and high - low >= min_spread


def _instead(mean: float, scaling: Scaling) -> float:
    return min(max(scaling.missing_points, 0.0), MAX_POINTS) if scaling.on_missing is MissingAction.POINTS else mean
