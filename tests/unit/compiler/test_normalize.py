"""Normalised scores equal those of a simple reference."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.compiler import normalize
from wharfinger.compiler.normalize import Scaling
from wharfinger.language.ast import MissingAction, Normalize
from wharfinger.language.semantics.bounds import MAX_POINTS

scalings = st.builds(
    Scaling,
    normalize=st.sampled_from(Normalize),
    min_spread=st.sampled_from([0.0, 1.0, 10.0]),
    on_missing=st.sampled_from([None, MissingAction.NEUTRAL, MissingAction.SKIP, MissingAction.POINTS]),
    missing_points=st.sampled_from([0.0, 30.0, 250.0]),
)
values = st.lists(st.tuples(st.one_of(st.none(), st.integers(-10_000, 10_000).map(lambda n: n / 8)), st.booleans()), max_size=6)


def reference_points(values: Sequence[float | None], feasible: Sequence[bool], scaling: Scaling) -> list[float | None]:
    """The points of each node, one node at a time; None where the rule does not count. The obvious definition of `extent` and `points`."""
    known = [value for value, there in zip(values, feasible, strict=True) if there and value is not None]
    scaled = [_scaled_one(value, known, scaling) for value in known]
    result: list[float | None] = []
    for value in values:
        if value is not None:
            result.append(_scaled_one(value, known or [0.0], scaling))
        elif scaling.on_missing is MissingAction.POINTS:
            result.append(min(max(scaling.missing_points, 0.0), MAX_POINTS))
        elif scaling.on_missing is MissingAction.NEUTRAL:
            result.append(math.fsum(scaled) / len(scaled) if scaled else normalize.MIDDLE_POINTS)
        else:
            result.append(None)
    return result


def _scaled_one(value: float, known: Sequence[float], scaling: Scaling) -> float:
    low, high = min(known), max(known)
    if scaling.normalize is Normalize.MAX and high != 0:
        value = value * MAX_POINTS / high
    if scaling.normalize is Normalize.MINMAX:
        value = (value - low) * MAX_POINTS / (high - low) if high > low and high - low >= scaling.min_spread else normalize.MIDDLE_POINTS
    return min(value, MAX_POINTS) if value > 0.0 else 0.0


@settings(deadline=None)
@given(values, scalings)
def test_points_are_those_of_the_reference(nodes: list[tuple[float | None, bool]], scaling: Scaling) -> None:
    raw = np.array([0.0 if value is None else value for value, _ in nodes])
    state = np.array([value is None for value, _ in nodes], dtype=np.uint8)
    feasible = np.array([there for _, there in nodes], dtype=np.bool_)
    found, counted = normalize.points(raw, state, normalize.extent(raw, state, feasible, scaling), scaling)
    wanted = reference_points([value for value, _ in nodes], feasible.tolist(), scaling)
    for points, counts, expected, there in zip(found.tolist(), counted.tolist(), wanted, feasible.tolist(), strict=True):
        assert counts == (expected is not None)
        assert 0.0 <= points <= 100.0
        if there and expected is not None:
            assert math.isclose(points, expected, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("raw", "scaling", "points"),
    [
        ([10.0, 50.0, 200.0], Scaling(normalize=Normalize.NONE), [10.0, 50.0, 100.0]),
        ([1.0, 2.0, 4.0], Scaling(normalize=Normalize.MAX), [25.0, 50.0, 100.0]),
        ([0.0, 0.0], Scaling(normalize=Normalize.MAX), [0.0, 0.0]),
        ([-3.0, -2.0, -1.0], Scaling(normalize=Normalize.MINMAX), [0.0, 50.0, 100.0]),
        ([5.0, 5.0], Scaling(normalize=Normalize.MINMAX), [50.0, 50.0]),
        ([5.0, 5.4], Scaling(normalize=Normalize.MINMAX, min_spread=0.5), [50.0, 50.0]),
        ([5.0, 5.5], Scaling(normalize=Normalize.MINMAX, min_spread=0.5), [0.0, 100.0]),
        ([10.0, None, 30.0], Scaling(normalize=Normalize.NONE, on_missing=MissingAction.NEUTRAL), [10.0, 20.0, 30.0]),
        ([None, None], Scaling(normalize=Normalize.NONE, on_missing=MissingAction.NEUTRAL), [50.0, 50.0]),
        ([10.0, None], Scaling(normalize=Normalize.NONE, on_missing=MissingAction.SKIP), [10.0, None]),
        ([10.0, None], Scaling(normalize=Normalize.NONE, on_missing=MissingAction.POINTS, missing_points=7.0), [10.0, 7.0]),
    ],
)
def test_the_reference_gives_the_points_of_each_normalization(
    raw: list[float | None], scaling: Scaling, points: list[float | None]
) -> None:
    assert reference_points(raw, [True] * len(raw), scaling) == points
