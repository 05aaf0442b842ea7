"""Whether a condition can be true and can be false at all.

The answer errs on the side of "can": only what is certainly impossible is excluded. Missing is neither.
"""

from __future__ import annotations

from collections.abc import Mapping

from wharfinger.language import typed
from wharfinger.language.check.domains import Known, conjuncts, known_from, own_domain, restriction
from wharfinger.language.check.linear import increases, linear
from wharfinger.language.check.work import Work
from wharfinger.language.describe import describe
from wharfinger.language.intervals import Intervals

Truth = frozenset[bool]
EITHER: Truth = frozenset({True, False})
ALWAYS: Truth = frozenset({True})
NEVER: Truth = frozenset({False})
NOTHING: Known = {}
QUESTION = 4  # steps that it takes to ask what one condition can be
_ORDER = frozenset({typed.Op.LT, typed.Op.LE, typed.Op.GT, typed.Op.GE})


class Truths:
    """Answers for conditions over these lets, under what is known of quantities."""

    def __init__(self, lets: Mapping[str, typed.Let], intervals: Intervals, work: Work) -> None:
        self.lets = lets
        self.intervals = intervals
        self._work = work
        self._known: Known = {}
        self._of_lets: dict[str, Truth] = {}  # under what is known

    def of(self, expr: typed.Expr, known: Known | None = None) -> Truth:
        """What a condition can be where it is not missing."""
        self._work.spend(QUESTION)
        known = NOTHING if known is None else known
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
        """All conditions that are joined are looked at together and once, whatever `and`s and lets join them."""
        joined = conjuncts(expr, self.lets)
        self._work.spend(QUESTION * len(joined))
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
        """Two quantities that are the same, or of which one is always larger."""
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
