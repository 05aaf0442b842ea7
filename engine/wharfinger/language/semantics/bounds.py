"""Bounds of a number before it is computed: its interval, and its magnitude.

An interval bounds the number itself. A magnitude bounds its exponent. It shows whether arithmetic can leave the finite numbers. Both err on
the wide side: what is outside cannot occur, what is inside may. The arithmetic here is what the records of operators and builtins refer to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

# ── intervals ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

Interval = tuple[float, float]
UNBOUNDED: Final[Interval] = (-math.inf, math.inf)
MIN_POINTS: Final = 0.0
MAX_POINTS: Final = 100.0


def union(intervals: Iterable[Interval]) -> Interval:
    """The smallest interval that contains all of these."""
    lows, highs = zip(*intervals, strict=True)
    return (min(lows), max(highs))


def product(a: Interval, b: Interval) -> Interval:
    """The interval of x·y; 0·∞ is 0, because no value is infinite, only unbounded."""
    corners = [0.0 if 0 in (x, y) else x * y for x in a for y in b]
    return (min(corners), max(corners))


def quotient(a: Interval, b: Interval) -> Interval:
    """The interval of x/y for the y that are not 0."""
    if b[0] < 0 < b[1] or b == (0, 0):
        return UNBOUNDED
    near_zero = math.inf if b[1] > 0 else -math.inf  # the limit of 1/y where an end of `b` is 0

    def corner(x: float, y: float) -> float:
        if not x or math.isinf(y):
            return 0.0
        return x / y if y else near_zero * x

    corners = [corner(x, y) for x in a for y in b]
    return (min(corners), max(corners))


# ── magnitudes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

SMALLEST: Final = -1074.0  # 2 ** -1074 is the smallest float64 above 0
LARGEST: Final = 1024.0  # every finite float64 is below 2 ** 1024
CARRY: Final = 53.0  # the difference of two numbers may be as small as the last place of the smaller one


class Magnitude(msgspec.Struct, frozen=True):
    """A number that is 0, or whose absolute value is between `2 ** least` and `2 ** most`; `most` is inf if the number may be infinite."""

    least: float
    most: float

    @property
    def finite(self) -> bool:
        """True if the number is never infinite."""
        return self.most <= LARGEST

    def __add__(self, other: Magnitude) -> Magnitude:
        """The magnitude of the sum, and of the difference."""
        return bounded(min(self.least, other.least) - CARRY, max(self.most, other.most) + 1)

    def __mul__(self, other: Magnitude) -> Magnitude:
        return bounded(self.least + other.least, self.most + other.most)

    def __truediv__(self, other: Magnitude) -> Magnitude:
        return bounded(self.least - other.most if other.finite else SMALLEST, self.most - other.least)


FINITE: Final = Magnitude(SMALLEST, LARGEST)
UNKNOWN: Final = Magnitude(SMALLEST, math.inf)


def bounded(least: float, most: float) -> Magnitude:
    """The magnitude with these bounds of the exponent, as float64 can hold it."""
    return Magnitude(max(least, SMALLEST), most if most <= LARGEST else math.inf)


def either(*found: Magnitude) -> Magnitude:
    """The magnitude of a number that is one of these."""
    return Magnitude(min(one.least for one in found), max(one.most for one in found))


def of_number(value: float) -> Magnitude:
    """The magnitude of a known number."""
    number = abs(value)
    if math.isinf(number):
        return UNKNOWN
    return Magnitude(math.floor(math.log2(number)), math.ceil(math.log2(number))) if number else Magnitude(0.0, 0.0)
