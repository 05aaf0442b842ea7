"""`exp`, `log` and `sigmoid` with the same last bit for one number and for a column, on every machine.

The functions of the C library and of NumPy are accurate, but their last bit depends on the library and on the processor. A score computed
for one row is compared with scores computed for all rows, so both must be one sequence of operations that IEEE 754 rounds in one way: sums,
products, quotients, `floor`, and the exact `frexp` and `ldexp`. Each operation is a separate step in Python and in NumPy, so that no
compiler fuses a product and a sum into one rounding.

The formulas are those of FDLIBM 5.3 (Sun Microsystems, `e_exp.c` and `e_log.c`), which Go's `math.Log` uses too. Their error is less than
one unit in the last place.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# The natural logarithm of 2, split so that a product of `LN2_HIGH` and an exponent is exact.
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
INVERSE_LN2 = 1.44269504088896338700

HIGHEST_EXPONENT = 700.0  # exp(710) is beyond float64
LOWEST_EXPONENT = -750.0  # exp(-746) is 0 in float64


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
    """The `log` of `(1 + f) * 2 ** power`, `1 + f` between the square roots of a half and of 2; for a number or a column."""
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
