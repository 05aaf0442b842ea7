"""Conditions that are always true or never true.

The values that one quantity can have under some conditions decide it: the logic behind the warnings "always true" and "never true".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from wharfinger.language.check.context import WorkBudget
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.intervals import Intervals, increases, linear
from wharfinger.language.semantics.types import NUMERIC, Kind


class Domain(msgspec.Struct, frozen=True, kw_only=True):
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
        """True if nothing is left."""
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
        """True if no value is in both."""
        return self.meet(other).empty


def meet_all(domains: Sequence[Domain]) -> Domain:
    """The values in all of some domains; of many at once, because each step of a sequence would copy the values excluded so far."""
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


ANY_VALUE = Domain()
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
    """The values of x for which `x op y` is true, where y is between low and high."""
    if op in (typed.Op.LT, typed.Op.LE):
        return Domain(high=high, open_high=op is typed.Op.LT)
    return Domain(low=low, open_low=op is typed.Op.GT)


def conjuncts(condition: typed.Expr, lets: Mapping[str, typed.Let]) -> list[typed.Expr]:
    """The conditions that all hold where this one is true, in order; those of a let occur once, however often it is used."""
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
    """The domains of the quantities in these conditions, where all of them are true."""
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
    """The domain of a quantity without further conditions."""
    if isinstance(quantity, typed.Const) and quantity.type.kind in (Kind.STRING, Kind.BOOL):
        return Domain(allowed=frozenset({quantity.value}))
    if isinstance(quantity, typed.Lookup) and quantity.type.kind is Kind.STRING:
        return Domain(allowed=frozenset(quantity.entries.values))
    if quantity.type.kind not in NUMERIC:
        return ANY_VALUE
    low, high = intervals.of(quantity)
    return Domain(low=low, high=high)


Truth = frozenset[bool]
EITHER: Truth = frozenset({True, False})
ALWAYS: Truth = frozenset({True})
NEVER: Truth = frozenset({False})
NOTHING_KNOWN: Known = {}
STEPS_PER_QUESTION = 4  # steps that it takes to ask what one condition can be
_ORDER = frozenset({typed.Op.LT, typed.Op.LE, typed.Op.GT, typed.Op.GE})


class ConditionTruth:
    """Decides conditions over these lets, from the known intervals of quantities."""

    def __init__(self, lets: Mapping[str, typed.Let], intervals: Intervals, work: WorkBudget) -> None:
        self.lets = lets
        self.intervals = intervals
        self._work = work
        self._known: Known = {}
        self._of_lets: dict[str, Truth] = {}  # under the known facts

    def of(self, expr: typed.Expr, known: Known | None = None) -> Truth:
        """The values that a condition can have where it is not missing."""
        self._work.spend(STEPS_PER_QUESTION)
        known = NOTHING_KNOWN if known is None else known
        if known is not self._known:
            self._known, self._of_lets = known, {}
        if isinstance(expr, typed.Const):
            return frozenset({bool(expr.value)})
        if isinstance(expr, typed.LetRef):
            return self._let(expr, known)
        if isinstance(expr, typed.Has):
            return EITHER if expr.operand.type.optional else ALWAYS
        if isinstance(expr, typed.Matches):
            return _of_selector(expr.requirements)
        if isinstance(expr, typed.If):
            return self._if(expr, known)
        return self._operation(expr, known) if isinstance(expr, typed.Operation) else self._atom(expr, known)

    def _let(self, expr: typed.LetRef, known: Known) -> Truth:
        if expr.name not in self.lets:
            return EITHER
        if expr.name not in self._of_lets:
            self._of_lets[expr.name] = self.of(self.lets[expr.name].value, known)
        return self._of_lets[expr.name]

    def _if(self, expr: typed.If, known: Known) -> Truth:
        asked = self.of(expr.condition, known)
        then = self.of(expr.then, known) if True in asked else frozenset[bool]()
        return then | (self.of(expr.otherwise, known) if False in asked else frozenset[bool]())

    def _operation(self, expr: typed.Operation, known: Known) -> Truth:
        if expr.op is typed.Op.NOT:
            return frozenset(not value for value in self.of(expr.operands[0], known))
        if expr.op is typed.Op.AND:
            return self._and(expr, known)
        if expr.op is typed.Op.OR:
            sides = [self.of(side, known) for side in expr.operands]
            if ALWAYS in sides:
                return ALWAYS
            return NEVER if all(side == NEVER for side in sides) else EITHER
        return self._atom(expr, known)

    def _and(self, expr: typed.Operation, known: Known) -> Truth:
        """The truth of all conditions joined by `and`, also through lets; they are evaluated together and once."""
        joined = conjuncts(expr, self.lets)
        self._work.spend(STEPS_PER_QUESTION * len(joined))
        sides = [self.of(side, known) for side in joined]
        if NEVER in sides:
            return NEVER
        if all(side == ALWAYS for side in sides):
            return ALWAYS
        together = known_from(self.intervals, joined, known)
        return NEVER if any(domain.empty for domain in together.values()) else EITHER

    def _atom(self, expr: typed.Expr, known: Known) -> Truth:
        """A condition on one quantity, or on two that are compared."""
        found = set(EITHER)
        for truth in (True, False):
            restricted = restriction(self.intervals, expr, truth=truth)
            if restricted is not None:
                quantity, domain = restricted
                before = known.get(describe(quantity)) or own_domain(self.intervals, quantity)
                if before.without(domain):
                    found.discard(truth)
        if isinstance(expr, typed.Operation) and len(found) > 1:
            return self._compared(expr)
        return frozenset(found)

    def _compared(self, expr: typed.Operation) -> Truth:
        """The truth of a comparison of quantities that are equal, or one of which is always larger."""
        left, right = expr.operands[0], expr.operands[-1]
        if describe(left) == describe(right):
            return {typed.Op.EQ: ALWAYS, typed.Op.LE: ALWAYS, typed.Op.GE: ALWAYS, typed.Op.LT: NEVER, typed.Op.GT: NEVER}.get(
                expr.op, EITHER
            )
        if expr.op is typed.Op.IN:
            return NEVER if isinstance(right, typed.Const) and not right.value else EITHER
        if expr.op not in _ORDER or linear(left) is None or linear(right) is None:
            return EITHER
        rising = expr.op in (typed.Op.LT, typed.Op.LE)
        if increases(self.intervals, left, right):
            return ALWAYS if rising else NEVER
        falling = increases(self.intervals, right, left)
        return EITHER if not falling else NEVER if rising else ALWAYS

    def reason(self, expr: typed.Expr, known: Known | None = None) -> typed.Expr:
        """The smallest part of a condition that decides it by itself."""
        truth = self.of(expr, known)
        if isinstance(expr, typed.Operation) and expr.op in (typed.Op.AND, typed.Op.OR, typed.Op.NOT):
            wanted = NEVER if expr.op is typed.Op.AND else ALWAYS if expr.op is typed.Op.OR else None
            for side in expr.operands:
                found = self.of(side, known)
                if found in (ALWAYS, NEVER) and ((wanted is None and len(truth) == 1) or (found == wanted == truth)):
                    return self.reason(side, known)
        return expr


def _of_selector(requirements: tuple[typed.Requirement, ...]) -> Truth:
    if not requirements:
        return ALWAYS
    present: dict[str, set[str] | None] = {}  # None: any value
    for r in requirements:
        if r.op is typed.SelectorOp.IN:
            allowed = present.get(r.key)
            present[r.key] = set(r.values) if allowed is None else allowed & set(r.values)
        elif r.op in (typed.SelectorOp.EXISTS, typed.SelectorOp.GT, typed.SelectorOp.LT):
            present.setdefault(r.key, None)
    for r in requirements:
        allowed = present.get(r.key)
        if allowed is not None and r.op is typed.SelectorOp.NOT_IN:
            allowed -= set(r.values)
        if (r.op is typed.SelectorOp.DOES_NOT_EXIST and r.key in present) or (allowed is not None and not allowed):
            return NEVER
    return EITHER
