"""Conditions and float64 arithmetic as terms of z3.

A condition is a plain `True` or `False` where it is known, and a z3 term otherwise; the functions here keep what is known small.

A float64 is modelled by a real number of z3. Where an operation is exact, its result is the exact one. Otherwise the result is a function
of the operands with only the properties that IEEE 754 guarantees: it lies within half a unit in the last place of the exact result, and on
the same side of every float64. That allows more than the machine does, so what is proved holds for the machine, and what is found is tried
out before it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import z3
from msgspec import Struct

Condition: TypeAlias = Any
"""A bool, or a z3 term of sort Bool."""
Term: TypeAlias = Any
"""A z3 term, or for a set the function from a member to the condition that it belongs to the set."""

EXACT = 2.0**53  # whole numbers up to here are float64
MAX_SAFE = 2.0**100  # below it no single operation leaves the finite numbers
ULP = Fraction(1, 2**53)
UNDERFLOW_MARGIN = Fraction(1, 2**200)  # above what rounding near 0 can add
MAX_COMPARED = 4_000
"""Comparisons of results with marks that are stated in one question. Further results are compared with 0 only."""


def both(*conditions: Condition) -> Condition:
    """The condition that all of some conditions hold."""
    open_ = [each for each in conditions if each is not True]
    if any(each is False for each in open_):
        return False
    return True if not open_ else open_[0] if len(open_) == 1 else z3.And(*open_)


def either(*conditions: Condition) -> Condition:
    """The condition that one of some conditions holds."""
    open_ = [each for each in conditions if each is not False]
    if any(each is True for each in open_):
        return True
    return False if not open_ else open_[0] if len(open_) == 1 else z3.Or(*open_)


def negated(condition: Condition) -> Condition:
    """The condition that another one does not hold."""
    return not condition if isinstance(condition, bool) else z3.Not(condition)


def implied(premise: Condition, conclusion: Condition) -> Condition:
    """The condition that one follows from the other."""
    return either(negated(premise), conclusion)


def same_truth(a: Condition, b: Condition) -> Condition:
    """The condition that two conditions are both true or both false."""
    if isinstance(a, bool):
        return b if a else negated(b)
    return same_truth(b, a) if isinstance(b, bool) else a == b


def chosen(condition: Condition, a: Term, b: Term) -> Term:
    """The term `a` where a condition is true, `b` otherwise."""
    if isinstance(condition, bool):
        return a if condition else b
    if isinstance(a, bool) or isinstance(b, bool):
        return either(both(condition, a), both(negated(condition), b))
    return z3.If(condition, a, b)


def as_bool(condition: Condition) -> Any:
    """A condition as a z3 term."""
    return z3.BoolVal(condition) if isinstance(condition, bool) else condition


def real(value: float | Fraction) -> Any:
    """A number as a z3 term."""
    exact = Fraction(value)
    return z3.RealVal(f"{exact.numerator}/{exact.denominator}")


def number_of(term: Any) -> Fraction:
    """The number that a z3 value of sort Int or Real is; one near it where it is no fraction."""
    if z3.is_algebraic_value(term):
        term = term.approx(30)
    return Fraction(term.as_fraction()) if z3.is_rational_value(term) else Fraction(term.as_long())


class Value(Struct, frozen=True):
    """The value of an expression: a term, where it is present, and for a number the interval it is in and whether it is whole.

    The interval of a value that is used under a condition only holds where this condition, `within`, is true.
    """

    term: Term
    present: Condition = True
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    within: Condition = True

    @property
    def constant(self) -> float | None:
        """The number that it always is, or None."""
        return self.low if self.low == self.high and math.isfinite(self.low) else None

    @property
    def largest(self) -> float:
        """An upper bound of the absolute value."""
        return max(abs(self.low), abs(self.high))


def constant(value: float) -> Value:
    """A known number; beyond float64 nothing is known of it but that it is itself."""
    return Value(real(value), True, value, value, value.is_integer())


def _spread(low: float, high: float) -> tuple[float, float]:
    """An interval a little wider, for results that are rounded."""
    return math.nextafter(low, -math.inf), math.nextafter(high, math.inf)


class Numbers:
    """The arithmetic of one question. `approximate` calculates with real numbers instead, to look for examples that are then tried out.

    `facts` are the conditions that hold of the terms made so far, `marks` the numbers that quotients are compared with.
    """

    def __init__(self, *, approximate: bool) -> None:
        self.approximate = approximate
        self.facts: list[Any] = []
        self.marks: set[float] = {0.0, 1.0}
        self._n_compared = 0  # of MAX_COMPARED
        self._made: dict[tuple[Any, ...], Value] = {}
        self._alive: list[Value] = []  # an id of z3 is good as long as its term lives

    def _kept(self, name: str, a: Value, b: Value) -> tuple[tuple[Any, ...], Value | None]:
        self._alive += (a, b)
        key = (name, a.term.get_id(), b.term.get_id(), a.low, a.high, b.low, b.high, a.within is True, b.within is True)
        return key, self._made.get(key)

    def negative(self, a: Value) -> Value:
        """The value of `-a`."""
        return Value(-a.term, a.present, -a.high, -a.low, a.whole, a.within)

    def sum(self, a: Value, b: Value) -> Value:
        """The value of `a + b`."""
        return self._linear("sum", a, b, lambda x, y: x + y, (a.low + b.low, a.high + b.high))

    def difference(self, a: Value, b: Value) -> Value:
        """The value of `a - b`."""
        return self._linear("difference", a, b, lambda x, y: x - y, (a.low - b.high, a.high - b.low))

    def product(self, a: Value, b: Value) -> Value:
        """The value of `a * b`."""
        if a.constant is not None and b.constant is None:
            a, b = b, a
        if b.constant in (0.0, 1.0) and a.largest < MAX_SAFE:
            return a if b.constant else Value(real(0), both(a.present, b.present), 0.0, 0.0, True)
        corners = [0.0 if 0 in (x, y) else x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        if b.constant is not None:
            return self._linear("product", a, b, lambda x, y: x * y, (min(corners), max(corners)))
        return self._opaque("product", a, b, (min(corners), max(corners)))

    def quotient(self, a: Value, b: Value) -> Value:
        """The value of `a / b`, missing where `b` is 0."""
        if b.constant == 1.0:
            return Value(a.term, both(a.present, b.present), a.low, a.high, a.whole)
        if b.constant is not None and b.constant != 0:
            ends = sorted((a.low / b.constant, a.high / b.constant))
            whole = Value(b.term, b.present, b.low, b.high, whole=False)
            return self._linear("quotient", a, whole, lambda x, y: x / y, (ends[0], ends[1]))
        return self._opaque("quotient", a, b, _quotient_ends(a, b))

    def line(self, x: Value, start: tuple[float, float], end: tuple[float, float]) -> Value:
        """The value of `slope * (x - x0) + y0` for an x from `start` to `end`, which are (x0, y0) and (x1, y1).

        Nothing is known of it for another x. So the number of facts is independent of the other lines of a curve.
        """
        (x0, y0), (x1, y1) = start, end
        low, high = max(x.low, x0), min(x.high, x1)
        if low > high:
            return constant(y0)  # no x lies between
        slope = constant((y1 - y0) / (x1 - x0))
        if slope.constant == 0.0:
            return constant(y0)
        x = Value(x.term, x.present, low, high, x.whole, z3.And(x.term >= real(x0), x.term <= real(x1)))
        rise = distance = self._linear("difference", x, constant(x0), lambda a, b: a - b, (low - x0, high - x0), marks=())
        if slope.constant != 1.0:
            ends = sorted((distance.low * slope.low, distance.high * slope.low))
            rise = self._linear("product", distance, slope, lambda a, b: a * b, (ends[0], ends[1]), marks=() if y0 else None)
        return self._linear("sum", rise, constant(y0), lambda a, b: a + b, (rise.low + y0, rise.high + y0), marks=(y0,))

    def _marks(self, low: float, high: float) -> list[float]:
        """The marks from `low` to `high`, in order; none where they are more than may still be compared."""
        low, high = _spread(low, high)
        found = sorted(mark for mark in self.marks if low <= mark <= high)
        if self._n_compared + len(found) > MAX_COMPARED:
            return []
        self._n_compared += len(found)
        return found

    def _linear(  # noqa: PLR0913 — one parameter per part of the operation
        self, name: str, a: Value, b: Value, exact: Any, ends: tuple[float, float], *, marks: Sequence[float] | None = None
    ) -> Value:
        """The value of an operation whose exact result is linear in the unknowns.

        The result is compared with `marks`; with those of the question for None.
        """
        present, within = both(a.present, b.present), both(a.within, b.within)
        if name in ("sum", "product"):
            a, b = sorted((a, b), key=lambda each: each.term.get_id())
        if a.constant is not None and b.constant is not None:
            x, y = a.constant, b.constant
            known = {"sum": x + y, "difference": x - y, "product": x * y, "quotient": x / y if y else math.nan}[name]
            if math.isfinite(known):
                return Value(real(known), present, known, known, known.is_integer())
        if any(math.isnan(end) for end in ends):
            ends = (-math.inf, math.inf)
        term = exact(a.term, b.term)
        whole = a.whole and b.whole
        if (whole and max(map(abs, ends)) <= EXACT) or self.approximate:
            return Value(term, present, *ends, whole, within)
        if 0.0 in (a.constant, b.constant) and name in ("sum", "difference"):
            return Value(term, present, *ends, whole, within)
        key, found = self._kept(name, a, b)
        if found is None:
            compared = self._marks(*ends) if marks is None else marks
            found = self._made[key] = self._rounded(name, a, b, term, ends, whole=whole, marks=compared)
        return Value(found.term, both(present, found.present), found.low, found.high, found.whole, within)

    def _rounded(  # noqa: PLR0913 — one parameter per part of the operation
        self, name: str, a: Value, b: Value, exact: Any, ends: tuple[float, float], *, whole: bool, marks: Sequence[float]
    ) -> Value:
        result = z3.Function(f"float {name}", z3.RealSort(), z3.RealSort(), z3.RealSort())(a.term, b.term)
        small = self._small(a, b)
        tiny = real(0 if name in ("sum", "difference") else UNDERFLOW_MARGIN)
        error = z3.If(exact >= 0, exact, -exact) * real(ULP) + tiny
        sign = z3.And(z3.Implies(exact >= 0, result >= 0), z3.Implies(exact <= 0, result <= 0))
        bounds = z3.And(sign, result - exact <= error, exact - result <= error)
        compared = [
            z3.And(z3.Implies(exact >= mark, result >= mark), z3.Implies(exact <= mark, result <= mark))
            for mark in (real(each) for each in marks if each)
        ]
        if whole:
            bounds = z3.And(bounds, z3.Implies(z3.And(exact <= real(EXACT), exact >= real(-EXACT)), result == exact))
        self.facts.append(as_bool(implied(both(a.within, b.within, small), z3.And(bounds, *compared))))
        if small is True:
            low, high = _spread(*ends)
            return Value(result, True, low, high, whole)
        is_number = z3.Function(f"float {name} is a number", z3.RealSort(), z3.RealSort(), z3.BoolSort())(a.term, b.term)
        self.facts.append(as_bool(implied(small, is_number)))
        return Value(result, is_number)

    def _small(self, *values: Value) -> Condition:
        """The condition that operands are so small that nothing leaves the finite numbers."""
        limit = real(MAX_SAFE)
        open_ = [each.term for each in values if each.largest > MAX_SAFE]
        return both(*(z3.And(term <= limit, term >= -limit) for term in open_))

    def _opaque(self, name: str, a: Value, b: Value, ends: tuple[float, float]) -> Value:
        """The value of a product or quotient of two unknowns."""
        quotient = name == "quotient"
        if not quotient:
            a, b = sorted((a, b), key=lambda each: each.term.get_id())
        present = both(a.present, b.present, b.term != 0 if quotient and b.low <= 0 <= b.high else True)
        key, found = self._kept(name, a, b)
        if found is None:
            found = self._made[key] = self._compared(name, a, b, ends)
        return Value(found.term, both(present, found.present), found.low, found.high)

    def _compared(self, name: str, a: Value, b: Value, ends: tuple[float, float]) -> Value:
        result = z3.Function(f"float {name}", z3.RealSort(), z3.RealSort(), z3.RealSort())(a.term, b.term)
        if self.approximate:
            self.facts.append(result * b.term == a.term if name == "quotient" else result == a.term * b.term)
            return Value(result, True, *ends)
        small = self._small(a, b)
        bounded = small is True and all(map(math.isfinite, ends))
        if name == "product":
            facts = _signs(result, a, b)
        else:
            marks = self._marks(*ends if bounded else (-math.inf, math.inf)) or [0.0]
            facts = [fact for mark in marks for fact in _quotient_near(result, a, b, mark)]
        is_number: Condition = True
        if small is not True:
            is_number = z3.Function(f"float {name} is a number", z3.RealSort(), z3.RealSort(), z3.BoolSort())(a.term, b.term)
            facts.append(is_number)
        if bounded:
            low, high = _spread(*ends)
            facts += [result >= real(low), result <= real(high)]
            self.facts.append(z3.And(*facts))
            return Value(result, is_number, low, high)
        # a divisor near 0 may give more than float64 holds, which is then as good as any large number
        self.facts.append(as_bool(implied(small, z3.And(*facts))))
        return Value(result, is_number)


def _signs(result: Any, a: Value, b: Value) -> list[Any]:
    x, y = a.term, b.term
    return [
        z3.Implies(z3.Or(z3.And(x >= 0, y >= 0), z3.And(x <= 0, y <= 0)), result >= 0),
        z3.Implies(z3.Or(z3.And(x >= 0, y <= 0), z3.And(x <= 0, y >= 0)), result <= 0),
    ]


def _quotient_near(result: Any, a: Value, b: Value, mark: float) -> list[Any]:
    """The known bounds of `a / b` near a float64: rounding does not cross it, and reaches it only from its immediate neighbours."""
    x, y, at = a.term, b.term, real(mark)
    below, above = real(math.nextafter(mark, -math.inf)), real(math.nextafter(mark, math.inf))
    facts = []
    for positive in (True, False):
        sign = y > 0 if positive else y < 0
        if (positive and b.high <= 0) or (not positive and b.low >= 0):
            continue

        def less(limit: Any, positive: bool = positive) -> Any:
            return x <= limit * y if positive else x >= limit * y

        def more(limit: Any, positive: bool = positive) -> Any:
            return x >= limit * y if positive else x <= limit * y

        facts += [
            z3.Implies(z3.And(sign, more(at)), result >= at),
            z3.Implies(z3.And(sign, less(at)), result <= at),
            z3.Implies(z3.And(sign, more(above)), result >= above),
            z3.Implies(z3.And(sign, less(below)), result <= below),
        ]
    return facts


def _quotient_ends(a: Value, b: Value) -> tuple[float, float]:
    if b.low < 0:
        return -math.inf, math.inf
    if b.low == 0:
        return (0.0 if a.low >= 0 else -math.inf), (0.0 if a.high <= 0 else math.inf)
    corners = [x / y for x in (a.low, a.high) for y in (b.low, b.high) if not (math.isinf(x) and math.isinf(y))]
    return (min(corners), max(corners)) if corners else (-math.inf, math.inf)
