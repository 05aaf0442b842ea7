"""Arithmetic: functions of numbers only.

Scalar and vector forms are the same IEEE operations in the same order, so that both evaluators agree to the last bit on every machine.

The `exp` and `log` of the C library and of NumPy are accurate, but their last bit depends on the library and on the processor. Those here
are sequences of operations that IEEE 754 rounds in one way: sums, products, quotients, `floor`, and the exact `frexp` and `ldexp`. Each
operation is a separate step in Python and in NumPy, so that no compiler fuses a product and a sum into one rounding. The formulas are those
of FDLIBM 5.3 (Sun Microsystems, `e_exp.c` and `e_log.c`), which Go's `math.Log` uses too. Their error is less than one unit in the last
place.
"""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.signature import always, numeric, plain, quotient, same_dimension
from wharfinger.language.semantics import bounds
from wharfinger.language.semantics.bounds import Interval
from wharfinger.language.semantics.catalogue import Function, Parameter
from wharfinger.language.semantics.types import NUMERIC, Kind

Numbers = NDArray[np.float64]

# The natural logarithm of 2, split so that a product of `LN2_HIGH` and an exponent is exact.
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
INVERSE_LN2 = 1.44269504088896338700

HIGHEST_EXPONENT = 700.0  # exp(710) is beyond float64
LOWEST_EXPONENT = -750.0  # exp(-746) is 0 in float64


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
    return log(x) if x > 0 else None


def _log_bound(x: float) -> float:
    return log(x) if x > 0 else -math.inf


# ── exp, log and sigmoid ──


def exp(x: float) -> float:
    """Euler's number to the power of `x` (of 700, where `x` is larger); 0 where `x` is NaN."""
    x = min(HIGHEST_EXPONENT, max(LOWEST_EXPONENT, x))  # in this order of arguments NaN becomes the lowest
    power = math.floor(x * INVERSE_LN2 + 0.5)
    return math.ldexp(_exp_of_remainder(x - power * LN2_HIGH, power * LN2_LOW), power)


def exp_column(x: Any) -> Any:
    """`exp` of each number, a new array."""
    x = np.where(np.greater(x, LOWEST_EXPONENT), x, LOWEST_EXPONENT)
    x = np.where(np.less(x, HIGHEST_EXPONENT), x, HIGHEST_EXPONENT)
    power = np.floor(x * INVERSE_LN2 + 0.5)
    return np.ldexp(_exp_of_remainder(x - power * LN2_HIGH, power * LN2_LOW), power.astype(np.int32))


def log(x: float) -> float:
    """The natural logarithm of a number above 0; infinite where `x` is infinite."""
    if x == math.inf:
        return x
    fraction, power = math.frexp(x)
    if fraction < math.sqrt(0.5):
        fraction, power = fraction * 2, power - 1
    found: float = _log_of_parts(fraction - 1, power)
    return found


def log_column(x: Any) -> Any:
    """`log` of each number, a new array; arbitrary where a number is not above 0."""
    fraction, power = np.frexp(x)
    low = np.less(fraction, math.sqrt(0.5))
    found = _log_of_parts(np.where(low, fraction * 2, fraction) - 1, np.where(low, power - 1, power))
    return np.where(np.equal(x, np.inf), x, found)


def sigmoid(x: float) -> float:
    """`1 / (1 + exp(-x))`."""
    e = exp(-abs(x))
    return 1 / (1 + e) if x >= 0 else e / (1 + e)


def sigmoid_column(x: Any) -> Any:
    """`sigmoid` of each number, a new array."""
    e = exp_column(-np.abs(x))
    return np.where(np.greater_equal(x, 0), 1, e) / (1 + e)


def _exp_of_remainder(high: Any, low: Any) -> Any:
    """The `exp` of `high - low`, which is at most half of ln 2 from 0; for a number or a column."""
    x = high - low
    square = x * x
    c = 4.13813679705723846039e-08 * square + -1.65339022054652515390e-06
    c = c * square + 6.61375632143793436117e-05
    c = c * square + -2.77777777770155933842e-03
    c = x - (c * square + 1.66666666666666019037e-01) * square
    return 1 - ((low - x * c / (2 - c)) - high)


def _log_of_parts(f: Any, power: Any) -> Any:
    """The logarithm of `(1 + f) * 2 ** power`, with `1 + f` between sqrt(1/2) and sqrt(2); for a number or a column."""
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    odd = 1.479819860511658591e-01 * s4 + 1.818357216161805012e-01
    odd = odd * s4 + 2.857142874366239149e-01
    odd = (odd * s4 + 6.666666666666735130e-01) * s2
    even = 1.531383769920937332e-01 * s4 + 2.222219843214978396e-01
    even = (even * s4 + 3.999999999940941908e-01) * s4
    half = 0.5 * f * f
    return power * LN2_HIGH - ((half - (s * (half + (odd + even)) + power * LN2_LOW)) - f)


# ── the records ──


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
        vector=lambda x: (log_column(x), np.greater(x, 0)),
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
        scalar=exp,
        vector=exp_column,
        interval=lambda x: (exp(x[0]), exp(x[1])),
        never_nan=True,
    ),
    Function(
        name="sigmoid",
        parameters=(plain("x"),),
        result=always(Kind.NUMBER),
        doc="`1 / (1 + exp(-x))`: rises from 0 to 1, with 0.5 at 0.",
        example="100 * sigmoid(node.pod_count - 10)",
        scalar=sigmoid,
        vector=sigmoid_column,
        interval=lambda x: (sigmoid(x[0]), sigmoid(x[1])),
        never_nan=True,
    ),
)
