"""Where arithmetic of a policy can leave the finite numbers.

The difference of two infinities, the product of 0 and infinity and the quotient of two infinities are NaN: such a value is missing. If the
operands are known to be finite, nothing needs to be checked, which is nearly always the case: what nodes offer and pods request is below
2^64, and a product of attributes needs a dozen factors to reach infinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wharfinger.language.semantics import bounds, typed
from wharfinger.language.semantics.bounds import CARRY, FINITE, LARGEST, UNKNOWN, Magnitude, either
from wharfinger.language.semantics.operators import OPERATORS
from wharfinger.language.semantics.types import NUMERIC

ATTRIBUTE: Final = Magnitude(-64.0, 64.0)  # int64 amounts, and times in seconds
COUNTED: Final = 40.0  # no cluster has 2 ** 40 pods


class Magnitudes:
    """The magnitudes of the expressions of one policy."""

    def __init__(self, lets: Mapping[str, typed.Expr]) -> None:
        self._lets = lets
        self._found: dict[int, Magnitude] = {}  # by the id of an expression, which the policy references
        self._by_let: dict[str, Magnitude] = {}

    def of(self, expr: typed.Expr) -> Magnitude:
        """The magnitude of an expression; UNKNOWN if it is not a number."""
        if expr.type.kind not in NUMERIC:
            return UNKNOWN
        found = self._found.get(id(expr))
        if found is None:
            found = self._found[id(expr)] = self._of(expr)
        return found

    def may_be_no_number(self, expr: typed.Expr) -> bool:
        """True if an operation, curve, call or aggregate can give NaN although all its operands are numbers."""
        match expr:
            case typed.Operation(op=typed.Op.ADD | typed.Op.SUB | typed.Op.DIV):
                return not any(self.of(operand).finite for operand in expr.operands)
            case typed.Operation(op=typed.Op.MUL):
                return not all(self.of(operand).finite for operand in expr.operands)
            case typed.Curve():
                return not self._slopes(expr).finite
            case typed.Call():
                arguments = [argument for argument in (*expr.arguments, *expr.named.values()) if argument.type.kind in NUMERIC]
                return not expr.function.never_nan and any(self.of(argument).most > LARGEST / 2 for argument in arguments)
            case typed.Aggregate(value=typed.Expr() as value):
                return not self.of(value).finite
        return False

    def _of(self, expr: typed.Expr) -> Magnitude:
        found = FINITE  # params and metrics
        match expr:
            case typed.Const():
                found = bounds.of_number(float(expr.value))
            case typed.LetRef():
                if expr.name not in self._by_let:
                    self._by_let[expr.name] = self.of(self._lets[expr.name])
                found = self._by_let[expr.name]
            case typed.AttributeRef():
                found = ATTRIBUTE
            case typed.Operation():
                rule = OPERATORS[expr.op].magnitude
                found = UNKNOWN if rule is None else rule(*map(self.of, expr.operands))
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
        across = xs + either(xs, self.of(curve.x))
        return (ys + ys) / (xs + xs) * across

    def _of_call(self, call: typed.Call) -> Magnitude:
        arguments = [self.of(argument) for argument in (*call.arguments, *call.named.values()) if argument.type.kind in NUMERIC]
        if call.function.magnitude is not None:
            return call.function.magnitude(*arguments)
        return FINITE if all(argument.most <= LARGEST / 2 for argument in arguments) else UNKNOWN

    def _of_aggregate(self, expr: typed.Aggregate) -> Magnitude:
        if expr.value is None:
            return Magnitude(0.0, COUNTED)
        value = self.of(expr.value)
        if expr.reduction in {typed.Reduction.MIN, typed.Reduction.MAX}:
            return value
        total = bounds.bounded(value.least - CARRY, value.most + COUNTED)
        return total if expr.reduction is typed.Reduction.SUM else total / Magnitude(0.0, COUNTED)
