"""Which numbers an expression can have, as an interval: the proof that a score stays within 0..100 points.

Every numeric expression gets the smallest interval that can be derived from the ranges of params, the limits of attributes and functions,
and the operators. The answer errs on the wide side: what is outside of the interval is impossible, what is inside may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wharfinger.language import typed
from wharfinger.language.bounds import ANYTHING, Interval, union
from wharfinger.language.describe import describe
from wharfinger.language.operators import OPERATORS
from wharfinger.language.types import NUMERIC


@dataclass(slots=True)
class Intervals:
    """The intervals of params and lets, filled in as they are declared, and of any expression over them.

    `known` are tighter intervals of single quantities (by their text) that hold under a condition, such as inside a branch of `if`. What
    was asked once is remembered: a condition in a condition in a condition is not gone through anew for each of them.
    """

    params: dict[str, Interval] = field(default_factory=dict)
    lets: dict[str, Interval] = field(default_factory=dict)
    known: Mapping[str, Interval] = field(default_factory=dict)
    _found: dict[int, tuple[typed.Expr, Interval]] = field(default_factory=dict, init=False, repr=False)  # with what keeps the id its own
    _where: dict[tuple[int, bool], tuple[typed.Expr, Intervals]] = field(default_factory=dict, init=False, repr=False)

    def of(self, expr: typed.Expr) -> Interval:
        """The interval of an expression; `ANYTHING` for what is not a number."""
        if expr.type.kind not in NUMERIC:
            return ANYTHING
        if id(expr) not in self._found:
            self._found[id(expr)] = (expr, self._of(expr))
        return self._found[id(expr)][1]

    def _of(self, expr: typed.Expr) -> Interval:
        rule = _RULES.get(type(expr))
        low, high = rule(self, expr) if rule is not None else ANYTHING
        found = ANYTHING if math.isnan(low) or math.isnan(high) else (low, high)
        tighter = self.known.get(describe(expr)) if self.known and isinstance(expr, _QUANTITIES) else None
        return found if tighter is None else meet(found, tighter)

    def where(self, condition: typed.Expr, *, truth: bool = True) -> Intervals:
        """The intervals where a condition is true (or false)."""
        key = (id(condition), truth)
        if key not in self._where:
            known = dict(self.known)
            for quantity, limit in _limits(self, condition, truth):
                text = describe(quantity)
                known[text] = meet(known.get(text, ANYTHING), limit)
            self._where[key] = (condition, replace(self, known=known))
        return self._where[key][1]


_QUANTITIES = (typed.AttributeRef, typed.LetRef, typed.MetricRef, typed.ParamRef, typed.Aggregate, typed.Call)


def _limits(intervals: Intervals, condition: typed.Expr, truth: bool) -> Iterator[tuple[typed.Expr, Interval]]:
    """Quantities that a condition limits, each with its limits, where the condition has this truth."""
    if not isinstance(condition, typed.Operation):
        return
    op = condition.op
    if op is typed.Op.NOT:
        yield from _limits(intervals, condition.operands[0], not truth)
    elif (op is typed.Op.AND and truth) or (op is typed.Op.OR and not truth):
        for side in condition.operands:
            yield from _limits(intervals, side, truth)
    elif op in _BELOW or (op is typed.Op.EQ and truth):
        left, right = condition.operands
        if op is typed.Op.EQ:
            yield from ((left, intervals.of(right)), (right, intervals.of(left)))
        else:
            small, large = (left, right) if _BELOW[op] is truth else (right, left)
            yield small, (-math.inf, intervals.of(large)[1])
            yield large, (intervals.of(small)[0], math.inf)


# Whether the left side is the smaller one where the comparison is true. `<` is taken as `<=`, which errs on the wide side.
_BELOW = {typed.Op.LT: True, typed.Op.LE: True, typed.Op.GT: False, typed.Op.GE: False}


def meet(a: Interval, b: Interval) -> Interval:
    """What two intervals have in common; the second where they have nothing, because then the value does not occur."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else b


def holds_zero(interval: Interval) -> bool:
    """Whether 0 is possible."""
    return interval[0] <= 0 <= interval[1]


def _const(_self: Intervals, expr: typed.Const) -> Interval:
    return (expr.value, expr.value) if isinstance(expr.value, (int, float)) else ANYTHING


def _param(self: Intervals, expr: typed.ParamRef) -> Interval:
    return self.params.get(expr.name, ANYTHING)


def _let(self: Intervals, expr: typed.LetRef) -> Interval:
    return self.lets.get(expr.name, ANYTHING)


def _attribute(_self: Intervals, expr: typed.AttributeRef) -> Interval:
    low, high = expr.attribute.low, expr.attribute.high
    return (-math.inf if low is None else low, math.inf if high is None else high)


def _operation(self: Intervals, expr: typed.Operation) -> Interval:
    rule = OPERATORS[expr.op].interval
    return rule(*(self.of(operand) for operand in expr.operands)) if rule is not None else ANYTHING


def _if(self: Intervals, expr: typed.If) -> Interval:
    then = self.where(expr.condition).of(expr.then)
    return union((then, self.where(expr.condition, truth=False).of(expr.otherwise)))


def _curve(self: Intervals, expr: typed.Curve) -> Interval:
    return union(self.of(y) for _, y in expr.points) if expr.points else ANYTHING


def _aggregate(self: Intervals, expr: typed.Aggregate) -> Interval:
    if expr.value is None:
        return (0.0, math.inf)
    low, high = self.of(expr.value)
    if expr.reduction is typed.Reduction.SUM:
        return (0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf)
    return (low, high)


def _call(self: Intervals, expr: typed.Call) -> Interval:
    if expr.function.interval is None:
        return ANYTHING
    low, high = expr.function.interval(*(self.of(a) for a in expr.arguments))
    return (low, high)


_RULES: Mapping[type[typed.Expr], Callable[[Intervals, Any], Interval]] = {
    typed.Const: _const,
    typed.ParamRef: _param,
    typed.LetRef: _let,
    typed.AttributeRef: _attribute,
    typed.Operation: _operation,
    typed.If: _if,
    typed.Curve: _curve,
    typed.Aggregate: _aggregate,
    typed.Call: _call,
}
