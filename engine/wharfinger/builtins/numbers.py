"""Arithmetic: functions of numbers only.

Scalar and vector forms are the same IEEE operations in the same order, so that both evaluators agree to the last bit on every machine; see
`elementary` for `exp`, `log` and `sigmoid`.
"""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins import elementary
from wharfinger.builtins.signature import always, numeric, plain, quotient, same_dimension
from wharfinger.language.semantics import bounds
from wharfinger.language.semantics.bounds import Interval
from wharfinger.language.semantics.catalogue import Function, Parameter
from wharfinger.language.semantics.types import NUMERIC, Kind

Numbers = NDArray[np.float64]


def _positive(value: object) -> str | None:
    return None if isinstance(value, (int, float)) and value > 0 else "must be greater than 0"


def _ratio(a: float, b: float) -> float | None:
    return a / b if b != 0 else None


def _ratio_kernel(a: Numbers, b: Numbers) -> tuple[Numbers, Any]:
    return np.divide(a, b), np.not_equal(b, 0)


def _least(*values: float) -> float:
    return min(values)


def _greatest(*values: float) -> float:
    return max(values)


def _lower(a: Any, b: Any) -> Any:
    """The smaller of each pair, the first where they are equal, as Python's `min` does; `np.minimum` may return either of 0 and -0."""
    return np.where(np.less(b, a), b, a)


def _higher(a: Any, b: Any) -> Any:
    """The larger of each pair, the first where they are equal."""
    return np.where(np.greater(b, a), b, a)


def _least_kernel(*columns: Any) -> Any:
    return reduce(_lower, columns)


def _greatest_kernel(*columns: Any) -> Any:
    return reduce(_higher, columns)


def _clamp(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


def _clamp_interval(x: Interval, low: Interval, high: Interval) -> Interval:
    return (_clamp(x[0], low[0], high[0]), _clamp(x[1], low[1], high[1]))


def _abs_interval(x: Interval) -> Interval:
    return (0.0 if x[0] <= 0 <= x[1] else min(abs(x[0]), abs(x[1])), max(abs(x[0]), abs(x[1])))


def _round(x: float, step: float) -> float:
    return float(np.rint(x / step)) * step


def _round_interval(x: Interval, step: Interval) -> Interval:
    return (x[0] if math.isinf(x[0]) else _round(x[0], step[0]), x[1] if math.isinf(x[1]) else _round(x[1], step[0]))


def _floor(x: float) -> float:
    return float(np.floor(x))


def _ceil(x: float) -> float:
    return float(np.ceil(x))


def _sqrt(x: float) -> float | None:
    return math.sqrt(x) if x >= 0 else None


def _log(x: float) -> float | None:
    return elementary.log(x) if x > 0 else None


def _log_bound(x: float) -> float:
    return elementary.log(x) if x > 0 else -math.inf


NUMBERS = (
    Function(
        name="ratio",
        parameters=(numeric("part"), numeric("whole")),
        result=quotient,
        doc="`part` in relation to `whole`, which measures the same; missing where `whole` is 0.",
        example="ratio(node.free.memory, node.allocatable.memory)",
        scalar=_ratio,
        vector=_ratio_kernel,
        interval=bounds.quotient,
        absent=lambda _part, whole: whole[0] <= 0 <= whole[1],
        magnitude=operator.truediv,
    ),
    Function(
        name="min",
        parameters=(numeric("a"), numeric("b")),
        variadic=numeric("more"),
        result=same_dimension,
        doc="The smallest of its arguments, which all measure the same.",
        example="min(node.free.cpu, 4cpu)",
        scalar=_least,
        vector=_least_kernel,
        interval=lambda *found: (min(low for low, _ in found), min(high for _, high in found)),
        magnitude=bounds.either,
        never_nan=True,
    ),
    Function(
        name="max",
        parameters=(numeric("a"), numeric("b")),
        variadic=numeric("more"),
        result=same_dimension,
        doc="The largest of its arguments, which all measure the same.",
        example="max(node.free.cpu, 0cpu)",
        scalar=_greatest,
        vector=_greatest_kernel,
        interval=lambda *found: (max(low for low, _ in found), max(high for _, high in found)),
        magnitude=bounds.either,
        never_nan=True,
    ),
    Function(
        name="abs",
        parameters=(numeric("x"),),
        result=same_dimension,
        doc="`x` without its sign.",
        example="abs(node.free.cpu - pod.requests.cpu)",
        scalar=abs,
        vector=np.abs,
        interval=_abs_interval,
        magnitude=bounds.either,
        never_nan=True,
    ),
    Function(
        name="clamp",
        parameters=(numeric("x"), numeric("low"), numeric("high")),
        result=same_dimension,
        doc="`x`, but no less than `low` and no more than `high`; `high` wins where `low` is above it.",
        example="clamp(100 - node.pod_count, 0, 100)",
        scalar=_clamp,
        vector=lambda x, low, high: _lower(_higher(x, low), high),
        interval=_clamp_interval,
        magnitude=bounds.either,
        never_nan=True,
    ),
    Function(
        name="round",
        parameters=(
            numeric("x"),
            Parameter(name="step", kinds=NUMERIC, default=1.0, required=False, literal=True, validate=_positive),
        ),
        result=lambda types: same_dimension(types[:1]),
        doc="The multiple of `step` (1 unless given) that is nearest to `x`; halves go to the even multiple.",
        example="round(ratio(node.free.cpu, node.allocatable.cpu) * 100, 5)",
        scalar=_round,
        vector=lambda x, step: np.rint(x / step) * step,
        interval=_round_interval,
        never_nan=True,
    ),
    Function(
        name="floor",
        parameters=(numeric("x"),),
        result=same_dimension,
        doc="The largest whole number that is not above `x` (in base units: millicores, bytes, seconds).",
        example="floor(node.pod_count / 10)",
        scalar=_floor,
        vector=np.floor,
        interval=lambda x: (float(np.floor(x[0])), float(np.floor(x[1]))),
        never_nan=True,
    ),
    Function(
        name="ceil",
        parameters=(numeric("x"),),
        result=same_dimension,
        doc="The smallest whole number that is not below `x` (in base units: millicores, bytes, seconds).",
        example="ceil(node.pod_count / 10)",
        scalar=_ceil,
        vector=np.ceil,
        interval=lambda x: (float(np.ceil(x[0])), float(np.ceil(x[1]))),
        never_nan=True,
    ),
    Function(
        name="sqrt",
        parameters=(plain("x"),),
        result=always(Kind.NUMBER, optional=True),
        doc="The square root of `x`; missing where `x` is negative.",
        example="sqrt(node.pod_count)",
        scalar=_sqrt,
        vector=lambda x: (np.sqrt(x), np.greater_equal(x, 0)),
        interval=lambda x: (math.sqrt(max(x[0], 0)), math.sqrt(max(x[1], 0))),
        absent=lambda x: x[0] < 0,
        never_nan=True,
    ),
    Function(
        name="log",
        parameters=(plain("x"),),
        result=always(Kind.NUMBER, optional=True),
        doc="The natural logarithm of `x`; missing where `x` is not above 0.",
        example="log(1 + node.pod_count)",
        scalar=_log,
        vector=lambda x: (elementary.log_column(x), np.greater(x, 0)),
        interval=lambda x: (_log_bound(x[0]), _log_bound(x[1])),
        absent=lambda x: x[0] <= 0,
        never_nan=True,
    ),
    Function(
        name="exp",
        parameters=(plain("x"),),
        result=always(Kind.NUMBER),
        doc="e to the power of `x` (of 700, where `x` is larger).",
        example="exp(-node.pod_count)",
        scalar=elementary.exp,
        vector=elementary.exp_column,
        interval=lambda x: (elementary.exp(x[0]), elementary.exp(x[1])),
        never_nan=True,
    ),
    Function(
        name="sigmoid",
        parameters=(plain("x"),),
        result=always(Kind.NUMBER),
        doc="`1 / (1 + exp(-x))`: rises from 0 to 1, with 0.5 at 0.",
        example="100 * sigmoid(node.pod_count - 10)",
        scalar=elementary.sigmoid,
        vector=elementary.sigmoid_column,
        interval=lambda x: (elementary.sigmoid(x[0]), elementary.sigmoid(x[1])),
        never_nan=True,
    ),
)
