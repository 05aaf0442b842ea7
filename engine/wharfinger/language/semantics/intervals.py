"""The numbers that an expression can have: its interval, and its magnitude.

Intervals prove that a score stays within 0..100 points, and that one constant expression is larger than another for every value of the
params. Magnitudes say where arithmetic can leave the finite numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from wharfinger.language.semantics import bounds, typed
from wharfinger.language.semantics.bounds import CARRY, FINITE, LARGEST, UNBOUNDED, UNKNOWN, Interval, Magnitude, either, union
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.operators import OPERATORS
from wharfinger.language.semantics.types import NUMERIC


class _Known(msgspec.Struct, frozen=True):
    """Intervals of quantities by their text under a condition, and those known `around` it, which may be many and are not copied."""

    here: dict[str, Interval]
    around: _Known | None

    def get(self, text: str) -> Interval | None:
        """The interval of a quantity; None if nothing is known of it."""
        known: _Known | None = self
        while known is not None:
            if text in known.here:
                return known.here[text]
            known = known.around
        return None


@dataclass(slots=True)
class Intervals:
    """The intervals of params and lets, filled in as they are declared, and of any expression over them.

    `known` are tighter intervals of single quantities (by their text) that hold under a condition, such as inside a branch of `if`. Answers
    are kept, so that nested conditions are not evaluated again at each level.
    """

    params: dict[str, Interval] = field(default_factory=dict)
    lets: dict[str, Interval] = field(default_factory=dict)
    known: _Known | None = None
    _found: dict[int, tuple[typed.Expr, Interval]] = field(default_factory=dict, init=False, repr=False)  # with what keeps the id its own
    _where: dict[tuple[int, bool], tuple[typed.Expr, Intervals]] = field(default_factory=dict, init=False, repr=False)

    def of(self, expr: typed.Expr) -> Interval:
        """The interval of an expression; `UNBOUNDED` if it is not a number."""
        if expr.type.kind not in NUMERIC:
            return UNBOUNDED
        if id(expr) not in self._found:
            self._found[id(expr)] = (expr, self._of(expr))
        return self._found[id(expr)][1]

    def _of(self, expr: typed.Expr) -> Interval:
        rule = _RULES.get(type(expr))
        low, high = rule(self, expr) if rule is not None else UNBOUNDED
        found = UNBOUNDED if math.isnan(low) or math.isnan(high) else (low, high)
        tighter = self.known.get(describe(expr)) if self.known is not None and isinstance(expr, _QUANTITIES) else None
        return found if tighter is None else meet(found, tighter)

    def where(self, condition: typed.Expr, *, truth: bool = True) -> Intervals:
        """The intervals where a condition is true (or false)."""
        key = (id(condition), truth)
        if key not in self._where:
            known = _Known({}, self.known)
            for quantity, limit in _limits(self, condition, truth):
                text = describe(quantity)
                known.here[text] = meet(known.get(text) or UNBOUNDED, limit)
            self._where[key] = (condition, replace(self, known=known))
        return self._where[key][1]


_QUANTITIES = (typed.AttributeRef, typed.LetRef, typed.MetricRef, typed.ParamRef, typed.Aggregate, typed.Call, typed.Lookup)


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


# True if the left side is the smaller one where the comparison is true. `<` is taken as `<=`, which errs on the wide side.
_BELOW = {typed.Op.LT: True, typed.Op.LE: True, typed.Op.GT: False, typed.Op.GE: False}


def meet(a: Interval, b: Interval) -> Interval:
    """The intersection of two intervals; the second one if it is empty, because then the value does not occur."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else b


def holds_zero(interval: Interval) -> bool:
    """True if 0 is possible."""
    return interval[0] <= 0 <= interval[1]


def _const(_self: Intervals, expr: typed.Const) -> Interval:
    return (expr.value, expr.value) if isinstance(expr.value, (int, float)) else UNBOUNDED


def _param(self: Intervals, expr: typed.ParamRef) -> Interval:
    return self.params.get(expr.name, UNBOUNDED)


def _let(self: Intervals, expr: typed.LetRef) -> Interval:
    return self.lets.get(expr.name, UNBOUNDED)


def _attribute(_self: Intervals, expr: typed.AttributeRef) -> Interval:
    low, high = expr.attribute.low, expr.attribute.high
    return (-math.inf if low is None else low, math.inf if high is None else high)


def _operation(self: Intervals, expr: typed.Operation) -> Interval:
    rule = OPERATORS[expr.op].interval
    return rule(*(self.of(operand) for operand in expr.operands)) if rule is not None else UNBOUNDED


def _if(self: Intervals, expr: typed.If) -> Interval:
    then = self.where(expr.condition).of(expr.then)
    return union((then, self.where(expr.condition, truth=False).of(expr.otherwise)))


def _curve(self: Intervals, expr: typed.Curve) -> Interval:
    return union(self.of(y) for _, y in expr.points) if expr.points else UNBOUNDED


def _lookup(_self: Intervals, expr: typed.Lookup) -> Interval:
    return expr.entries.once("interval", lambda entries: (min(entries.values), max(entries.values)))


def _aggregate(self: Intervals, expr: typed.Aggregate) -> Interval:
    if expr.value is None:
        return (0.0, math.inf)
    low, high = self.of(expr.value)
    if expr.reduction is typed.Reduction.SUM:
        return (0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf)
    return (low, high)


def _call(self: Intervals, expr: typed.Call) -> Interval:
    if expr.function.interval is None:
        return UNBOUNDED
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
    typed.Lookup: _lookup,
    typed.Aggregate: _aggregate,
    typed.Call: _call,
}


Linear = dict[str, float]
ONE = ""  # the coefficient without a param


def increases(intervals: Intervals, before: typed.Expr, after: typed.Expr) -> bool:
    """True if `after` is larger than `before` for all values that the params can take."""
    left, right = linear(before), linear(after)
    if left is None or right is None:
        return intervals.of(after)[0] > intervals.of(before)[1]
    low = 0.0
    for name in {*left, *right}:
        factor = right.get(name, 0.0) - left.get(name, 0.0)
        ends = (1.0, 1.0) if name == ONE else intervals.params.get(name, (-math.inf, math.inf))
        low += 0.0 if factor == 0 else min(factor * ends[0], factor * ends[1])
    return low > 0


def linear(expr: typed.Expr) -> Linear | None:
    """The coefficients of a linear expression over params, or None when it is not linear."""
    if isinstance(expr, typed.Const) and isinstance(expr.value, (int, float)):
        return {ONE: float(expr.value)}
    if isinstance(expr, typed.ParamRef):
        return {expr.name: 1.0}
    if not isinstance(expr, typed.Operation):
        return None
    parts = [linear(operand) for operand in expr.operands]
    known = [part for part in parts if part is not None]
    return _combined(expr.op, known) if len(known) == len(parts) else None


def _combined(op: typed.Op, parts: list[Linear]) -> Linear | None:
    if op is typed.Op.NEG:
        return _scaled(parts[0], -1.0)
    if op in (typed.Op.ADD, typed.Op.SUB):
        right = parts[1] if op is typed.Op.ADD else _scaled(parts[1], -1.0)
        return {name: parts[0].get(name, 0.0) + right.get(name, 0.0) for name in {*parts[0], *right}}
    if op is typed.Op.MUL:
        for factor, rest in (parts, parts[::-1]):
            if set(factor) <= {ONE}:
                return _scaled(rest, factor.get(ONE, 0.0))
    if op is typed.Op.DIV and set(parts[1]) <= {ONE} and parts[1].get(ONE):
        return _scaled(parts[0], 1 / parts[1][ONE])
    return None


def _scaled(part: Linear, factor: float) -> Linear:
    return {name: value * factor for name, value in part.items()}


# ── where arithmetic can leave the finite numbers ────────────────────────────────────────────────────────────────────────────────────


ATTRIBUTE: Final = Magnitude(-64.0, 64.0)  # int64 amounts, and times in seconds
COUNTED: Final = 40.0  # no cluster has 2 ** 40 pods


class Magnitudes:
    """The magnitudes of the expressions of one policy.

    The difference of two infinities, the product of 0 and infinity and the quotient of two infinities are NaN: such a value is missing. If
    the operands are known to be finite, nothing needs to be checked, which is nearly always the case: what nodes offer and pods request is
    below 2^64, and a product of attributes needs a dozen factors to reach infinity.
    """

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
            case typed.If() | typed.Lookup():
                found = self._of_choice(expr)
            case typed.Curve():
                found = either(*(self.of(y) for _, y in expr.points)) if self._slopes(expr).finite else UNKNOWN
            case typed.Call():
                found = self._of_call(expr)
            case typed.Aggregate():
                found = self._of_aggregate(expr)
        return found

    def _of_choice(self, expr: typed.If | typed.Lookup) -> Magnitude:
        if isinstance(expr, typed.If):
            return either(self.of(expr.then), self.of(expr.otherwise))
        return expr.entries.once("magnitude", lambda entries: either(*map(bounds.of_number, entries.values)))

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
