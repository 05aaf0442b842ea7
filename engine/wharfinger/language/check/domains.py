"""Which values one quantity can have under some conditions: the small logic behind "always true", "never true" and "already said".

A condition such as `pod.priority >= 1000` or `node.labels["tier"] in ["a", "b"]` restricts one quantity. Conditions on the same quantity
(the same text) are met; where nothing is left, they contradict each other; where a later one takes nothing away, it was already said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.language import typed
from wharfinger.language.describe import describe
from wharfinger.language.intervals import Intervals
from wharfinger.language.types import NUMERIC, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The values left.

    Numbers between two ends (which belong to it unless `open_low`/`open_high`), or others that are allowed and not excluded.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    allowed: frozenset[Any] | None = None
    excluded: frozenset[Any] = frozenset()

    def meet(self, other: Domain) -> Domain:
        """The values in both."""
        return meet_all([self, other])

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        if self.low > self.high or (self.low == self.high and (self.open_low or self.open_high)):
            return True
        return self.allowed is not None and not any(self._holds(value) for value in self.allowed)

    def _holds(self, value: Any) -> bool:
        if value in self.excluded:
            return False
        if not isinstance(value, float):
            return True
        above = value > self.low or (value == self.low and not self.open_low)
        return above and (value < self.high or (value == self.high and not self.open_high))

    def without(self, other: Domain) -> bool:
        """Whether no value is in both."""
        return self.meet(other).empty


def meet_all(domains: Sequence[Domain]) -> Domain:
    """The values in all of some domains; of many at once, because each step of one after the other would copy what is excluded so far."""
    low, open_low = max((domain.low, domain.open_low) for domain in domains)
    high, shut = min((domain.high, not domain.open_high) for domain in domains)
    lists = sorted((domain.allowed for domain in domains if domain.allowed is not None), key=len)
    return Domain(
        low=low,
        high=high,
        open_low=open_low,
        open_high=not shut,
        allowed=lists[0].intersection(*lists[1:]) if lists else None,
        excluded=frozenset[Any]().union(*(domain.excluded for domain in domains)),
    )


ANYTHING = Domain()
Known = Mapping[str, Domain]


def restriction(intervals: Intervals, condition: typed.Expr, *, truth: bool = True) -> tuple[typed.Expr, Domain] | None:
    """The quantity that a condition is about and the values it leaves where the condition is true (or false).

    None when the condition is not so simple.
    """
    if isinstance(condition, typed.Operation):
        if condition.op is typed.Op.NOT:
            return restriction(intervals, condition.operands[0], truth=not truth)
        if len(condition.operands) == 2:
            return _comparison(intervals, condition, truth)
    if condition.type.kind is Kind.BOOL and isinstance(condition, (typed.AttributeRef, typed.ParamRef)):
        return condition, Domain(allowed=frozenset({truth}))
    return None


def _comparison(intervals: Intervals, condition: typed.Operation, truth: bool) -> tuple[typed.Expr, Domain] | None:
    left, right = condition.operands
    op = condition.op
    if op is typed.Op.IN:
        return (left, _one_of(right.value, truth)) if isinstance(right, typed.Const) else None
    if isinstance(left, typed.Const) and not isinstance(right, typed.Const):
        left, right, op = right, left, _MIRRORED.get(op, op)
    if op is typed.Op.EQ and isinstance(right, typed.Const):
        return left, _one_of(frozenset({right.value}), truth)
    if op not in _MIRRORED or op is typed.Op.EQ or left.type.kind not in NUMERIC:
        return None
    low, high = intervals.of(right)
    return left, _ordered(op if truth else _OPPOSITE[op], low, high)


_MIRRORED = {
    typed.Op.LT: typed.Op.GT,
    typed.Op.LE: typed.Op.GE,
    typed.Op.GT: typed.Op.LT,
    typed.Op.GE: typed.Op.LE,
    typed.Op.EQ: typed.Op.EQ,
}
_OPPOSITE = {typed.Op.LT: typed.Op.GE, typed.Op.LE: typed.Op.GT, typed.Op.GT: typed.Op.LE, typed.Op.GE: typed.Op.LT}


def _one_of(values: frozenset[Any], truth: bool) -> Domain:
    return Domain(allowed=values) if truth else Domain(excluded=values)


def _ordered(op: typed.Op, low: float, high: float) -> Domain:
    """What is left of x where `x op y` and y lies between low and high."""
    if op in (typed.Op.LT, typed.Op.LE):
        return Domain(high=high, open_high=op is typed.Op.LT)
    return Domain(low=low, open_low=op is typed.Op.GT)


def conjuncts(condition: typed.Expr, lets: Mapping[str, typed.Let]) -> list[typed.Expr]:
    """The conditions that all hold where this one is true, in order; those of a let are there once, however often it is used."""
    found: list[typed.Expr] = []
    followed: set[str] = set()
    pending = [condition]
    while pending:
        expr = pending.pop()
        if isinstance(expr, typed.LetRef) and expr.name in lets:
            if expr.name not in followed:
                followed.add(expr.name)
                pending.append(lets[expr.name].value)
        elif isinstance(expr, typed.Operation) and expr.op is typed.Op.AND:
            pending.extend(reversed(expr.operands))
        elif (inner := _negated_or(expr)) is not None:
            pending.extend(reversed(inner))
        else:
            found.append(expr)
    return found


def _negated_or(expr: typed.Expr) -> list[typed.Expr] | None:
    """`not (a or b)` as `not a`, `not b`."""
    if not isinstance(expr, typed.Operation) or expr.op is not typed.Op.NOT:
        return None
    inner = expr.operands[0]
    if isinstance(inner, typed.Operation) and inner.op is typed.Op.NOT:
        return [inner.operands[0]]
    if not isinstance(inner, typed.Operation) or inner.op is not typed.Op.OR:
        return None
    return [typed.Operation(span=side.span, type=side.type, op=typed.Op.NOT, operands=(side,)) for side in inner.operands]


def known_from(intervals: Intervals, conditions: Iterable[typed.Expr], known: Known) -> dict[str, Domain]:
    """What is known of the quantities that these conditions are about, where all of them are true."""
    quantities: dict[str, typed.Expr] = {}
    found: dict[str, list[Domain]] = {}
    for condition in conditions:
        restricted = restriction(intervals, condition)
        if restricted is not None:
            text = describe(restricted[0])
            quantities.setdefault(text, restricted[0])
            found.setdefault(text, []).append(restricted[1])
    return {text: meet_all([known.get(text) or own_domain(intervals, quantities[text]), *found[text]]) for text in found}


def own_domain(intervals: Intervals, quantity: typed.Expr) -> Domain:
    """What is known of a quantity by itself."""
    if isinstance(quantity, typed.Const) and quantity.type.kind in (Kind.STRING, Kind.BOOL):
        return Domain(allowed=frozenset({quantity.value}))
    if quantity.type.kind not in NUMERIC:
        return ANYTHING
    low, high = intervals.of(quantity)
    return Domain(low=low, high=high)
