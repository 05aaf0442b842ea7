"""How large a number of a policy can be, and so where arithmetic may leave the numbers.

A difference of two infinities, a product of 0 and infinity and a quotient of two infinities are no numbers: such a value is missing. Where
the operands are known to be finite, nothing has to be looked at, and that is nearly everywhere: what nodes offer and pods request is below
2^64. The bounds are powers of two, as logarithms; a product of attributes needs a dozen factors to reach infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wharfinger.language import typed
from wharfinger.language.types import NUMERIC

SMALLEST: Final = -1074.0  # 2 ** -1074 is the smallest number above 0
LARGEST: Final = 1024.0  # every finite number is below 2 ** 1024


@dataclass(frozen=True, slots=True)
class Magnitude:
    """A number is 0 or between `2 ** least` and `2 ** most`, without its sign; `most` is infinite where it may be infinite."""

    least: float
    most: float

    @property
    def finite(self) -> bool:
        """Whether it is never infinite."""
        return self.most <= LARGEST


FINITE: Final = Magnitude(SMALLEST, LARGEST)
UNKNOWN: Final = Magnitude(SMALLEST, math.inf)
ATTRIBUTE: Final = Magnitude(-64.0, 64.0)  # int64 amounts, and times in seconds
COUNTED: Final = 40.0  # no cluster has 2 ** 40 pods
CARRY: Final = 53.0  # the difference of two numbers may be as small as the last place of the smaller


def _bounded(least: float, most: float) -> Magnitude:
    return Magnitude(max(least, SMALLEST), most if most <= LARGEST else math.inf)


def either(*found: Magnitude) -> Magnitude:
    """One of these."""
    return Magnitude(min(one.least for one in found), max(one.most for one in found))


class Magnitudes:
    """The magnitudes of the expressions of one policy."""

    def __init__(self, lets: Mapping[str, typed.Expr]) -> None:
        self._lets = lets
        self._found: dict[int, Magnitude] = {}  # by the identity of an expression, which the policy keeps alive
        self._by_let: dict[str, Magnitude] = {}

    def of(self, expr: typed.Expr) -> Magnitude:
        """The magnitude of an expression that is a number; any for others."""
        if expr.type.kind not in NUMERIC:
            return UNKNOWN
        found = self._found.get(id(expr))
        if found is None:
            found = self._found[id(expr)] = self._of(expr)
        return found

    def may_be_no_number(self, expr: typed.Expr) -> bool:
        """Whether an operation, curve, call or aggregate may give NaN although all that it is made of are numbers."""
        match expr:
            case typed.Operation(op=typed.Op.ADD | typed.Op.SUB | typed.Op.DIV):
                return not any(self.of(operand).finite for operand in expr.operands)
            case typed.Operation(op=typed.Op.MUL):
                return not all(self.of(operand).finite for operand in expr.operands)
            case typed.Curve():
                return not self._slopes(expr).finite
            case typed.Call():
                arguments = [argument for argument in (*expr.arguments, *expr.named.values()) if argument.type.kind in NUMERIC]
                wide = expr.function.name not in _NUMBERS_GIVE_NUMBERS
                return wide and any(self.of(argument).most > LARGEST / 2 for argument in arguments)
            case typed.Aggregate(value=typed.Expr() as value):
                return not self.of(value).finite
        return False

    def _of(self, expr: typed.Expr) -> Magnitude:
        found = FINITE  # params and metrics
        match expr:
            case typed.Const():
                found = _of_number(expr.value)
            case typed.LetRef():
                if expr.name not in self._by_let:
                    self._by_let[expr.name] = self.of(self._lets[expr.name])
                found = self._by_let[expr.name]
            case typed.AttributeRef():
                found = ATTRIBUTE
            case typed.Operation():
                found = _OPERATIONS[expr.op](*map(self.of, expr.operands))
            case typed.If():
                found = either(self.of(expr.then), self.of(expr.otherwise))
            case typed.Curve():
                found = either(*(self.of(y) for _, y in expr.points)) if self._slopes(expr).finite else UNKNOWN
            case typed.Call():
                found = self._of_call(expr)
            case typed.Aggregate():
                found = self._of_aggregate(expr)
        return found

    def _slopes(self, curve: typed.Curve) -> Magnitude:
        xs, ys = (either(*(self.of(point[place]) for point in curve.points)) for place in (0, 1))
        across = _sum(xs, either(xs, self.of(curve.x)))
        return _product(_quotient(_sum(ys, ys), _sum(xs, xs)), across)

    def _of_call(self, call: typed.Call) -> Magnitude:
        arguments = [self.of(argument) for argument in (*call.arguments, *call.named.values()) if argument.type.kind in NUMERIC]
        if call.function.name in _ONE_OF_ARGUMENTS and arguments:
            return either(*arguments)
        if call.function.name == "ratio":
            return _quotient(*arguments)
        return FINITE if all(argument.most <= LARGEST / 2 for argument in arguments) else UNKNOWN

    def _of_aggregate(self, expr: typed.Aggregate) -> Magnitude:
        if expr.value is None:
            return Magnitude(0.0, COUNTED)
        value = self.of(expr.value)
        if expr.reduction in {typed.Reduction.MIN, typed.Reduction.MAX}:
            return value
        total = _bounded(value.least - CARRY, value.most + COUNTED)
        return total if expr.reduction is typed.Reduction.SUM else _quotient(total, Magnitude(0.0, COUNTED))


_ONE_OF_ARGUMENTS: Final = frozenset({"min", "max", "clamp", "abs"})
_NUMBERS_GIVE_NUMBERS: Final = _ONE_OF_ARGUMENTS | {"floor", "ceil", "sqrt", "log", "exp", "sigmoid", "round", "age", "number"}
"""Functions that give no NaN whatever numbers they are given, infinite ones included."""


def _of_number(value: Any) -> Magnitude:
    number = abs(float(value))
    if math.isinf(number):
        return UNKNOWN
    return Magnitude(math.floor(math.log2(number)), math.ceil(math.log2(number))) if number else Magnitude(0.0, 0.0)


def _sum(a: Magnitude, b: Magnitude) -> Magnitude:
    return _bounded(min(a.least, b.least) - CARRY, max(a.most, b.most) + 1)


def _product(a: Magnitude, b: Magnitude) -> Magnitude:
    return _bounded(a.least + b.least, a.most + b.most)


def _quotient(a: Magnitude, b: Magnitude) -> Magnitude:
    return _bounded(a.least - b.most if b.finite else SMALLEST, a.most - b.least)


_OPERATIONS: Final[Mapping[typed.Op, Callable[..., Magnitude]]] = {
    typed.Op.ADD: _sum,
    typed.Op.SUB: _sum,
    typed.Op.MUL: _product,
    typed.Op.DIV: _quotient,
    typed.Op.NEG: lambda a: a,
    typed.Op.COALESCE: either,
}
