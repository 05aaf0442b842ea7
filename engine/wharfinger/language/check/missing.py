"""Finds values that can be missing, the guards that exclude that, and missing values that the policy does not handle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wharfinger.language.check.context import Context, WorkBudget
from wharfinger.language.check.expressions.calls import parameters_of
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Label
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.describe import describe, quoted
from wharfinger.language.semantics.intervals import Intervals, holds_zero
from wharfinger.language.semantics.typed import parts
from wharfinger.language.semantics.types import UNITS, Kind

Facts = frozenset[str]
Causes = tuple[typed.Expr, ...]
NO_FACTS: Facts = frozenset()

STEPS_OF_QUESTION = 4
"""The steps to find what may be missing in one expression under one set of facts."""

_STRICT = frozenset({typed.Op.EQ, typed.Op.LT, typed.Op.LE, typed.Op.GT, typed.Op.GE, typed.Op.IN})
_ENTAILED = frozenset({typed.SelectorOp.IN, typed.SelectorOp.EXISTS, typed.SelectorOp.GT, typed.SelectorOp.LT})


class Presence:
    """Finds the values that may be missing in expressions over these lets."""

    def __init__(self, lets: Mapping[str, typed.Let], intervals: Intervals, work: WorkBudget) -> None:
        self.lets = lets
        self.intervals = intervals
        self._work = work
        self._of_lets: dict[tuple[str, str, bool], Facts] = {}
        self._causes: dict[tuple[int, Facts], Causes] = {}
        self._texts: dict[int, str] = {}
        self._mentioned: dict[int, Facts] = {}
        self._present: dict[int, Facts] = {}
        self._asked: dict[tuple[int, str, bool], Facts] = {}
        self._keep: dict[int, typed.Expr] = {}  # an id is only good as long as its object lives

    def causes(self, expr: typed.Expr, facts: Facts = NO_FACTS) -> Causes:
        """The innermost expressions whose absence makes `expr` missing, in order of appearance; empty when it always has a value."""
        if not expr.type.optional:
            return ()
        facts = self.about(expr, facts)
        key = (id(expr), facts)
        if key not in self._causes:
            self._work.spend(STEPS_OF_QUESTION + len(facts))
            known = facts and self._text(expr) in facts
            self._causes[key] = () if known else self._unique(_CAUSES[type(expr)](self, expr, facts))
        return self._causes[key]

    def with_more(self, expr: typed.Expr, facts: Facts, more: Facts) -> Facts:
        """The facts, old and new, that can matter to an expression."""
        return self.about(expr, facts) | self.about(expr, more)

    def about(self, expr: typed.Expr, facts: Facts) -> Facts:
        """The facts that can matter to an expression."""
        return facts & self._mentions(expr) if facts else facts

    def _mentions(self, expr: typed.Expr) -> Facts:
        """Everything in an expression, lets included, that may be missing, as texts."""
        if not expr.type.optional:
            return NO_FACTS
        if id(expr) not in self._mentioned:
            within = [self.lets[expr.name].value] if isinstance(expr, typed.LetRef) and expr.name in self.lets else parts(expr)
            found = NO_FACTS.union({self._text(expr)}, *(self._mentions(part) for part in within))
            if isinstance(expr, typed.Aggregate) and expr.per is typed.Per.DOMAIN:
                found |= {_domain_label(expr)}
            self._mentioned[self._id(expr)] = found
            self._work.count_building(len(found))
        return self._mentioned[id(expr)]

    def _text(self, expr: typed.Expr) -> str:
        """An expression as text, made once."""
        if id(expr) not in self._texts:
            text = self._texts[self._id(expr)] = describe(expr)
            self._work.count_building(len(text))
        return self._texts[id(expr)]

    def _id(self, expr: typed.Expr) -> int:
        self._keep[id(expr)] = expr
        return id(expr)

    def _unique(self, causes: Causes) -> Causes:
        self._work.spend(len(causes))
        return tuple({self._text(cause): cause for cause in reversed(causes)}.values())[::-1]

    def present(self, expr: typed.Expr) -> Facts:
        """The expressions that have a value where `expr` has one."""
        if id(expr) not in self._present:
            found = self._present[self._id(expr)] = self._present_with(expr) | {self._text(expr)}
            self._work.count_building(len(found))
        return self._present[id(expr)]

    def _present_with(self, expr: typed.Expr) -> Facts:
        if isinstance(expr, typed.LetRef):
            return self._in_let(expr, "present", True, self.present)
        if isinstance(expr, typed.Operation) and expr.op not in (typed.Op.AND, typed.Op.OR, typed.Op.COALESCE):
            return self._present_all(expr.operands)
        if isinstance(expr, (typed.Curve, typed.Lookup)):
            return self.present(expr.x if isinstance(expr, typed.Curve) else expr.key)
        if isinstance(expr, typed.AttributeRef) and expr.key is not None:
            return self.present(expr.key)
        if isinstance(expr, typed.Call):
            parameters = parameters_of(expr.function, len(expr.arguments))
            return self._present_all(a for p, a in zip(parameters, expr.arguments, strict=True) if not p.optional_ok or p.name == "metric")
        return NO_FACTS

    def _present_all(self, exprs: Iterable[typed.Expr]) -> Facts:
        return NO_FACTS.union(*(self.present(e) for e in exprs))

    def where_true(self, expr: typed.Expr) -> Facts:
        """The expressions that have a value where a condition is true."""
        return self._where(expr, truth=True)

    def where_false(self, expr: typed.Expr) -> Facts:
        """The expressions that have a value where a condition is false."""
        return self._where(expr, truth=False)

    def not_false(self, expr: typed.Expr) -> Facts:
        """The expressions that have a value where a condition is true or missing."""
        return self._unless(expr, truth=False)

    def not_true(self, expr: typed.Expr) -> Facts:
        """The expressions that have a value where a condition is false or missing."""
        return self._unless(expr, truth=True)

    def _where(self, expr: typed.Expr, *, truth: bool) -> Facts:
        return self._once(expr, "where", truth, self._find_where)

    def _unless(self, expr: typed.Expr, *, truth: bool) -> Facts:
        """The facts where a condition is not `truth`: it is the opposite, or missing."""
        return self._once(expr, "unless", truth, self._find_unless)

    def _once(self, expr: typed.Expr, question: str, truth: bool, find: Callable[[typed.Expr, bool], Facts]) -> Facts:
        key = (id(expr), question, truth)
        if key not in self._asked:
            self._id(expr)
            found = self._asked[key] = find(expr, truth)
            self._work.count_building(len(found))
        return self._asked[key]

    def _find_where(self, expr: typed.Expr, truth: bool) -> Facts:
        if isinstance(expr, typed.Has):
            return self.present(expr.operand) if truth else NO_FACTS
        if isinstance(expr, typed.Matches):
            return _labels_of(expr) if truth else NO_FACTS
        if isinstance(expr, typed.LetRef):
            return self.present(expr) | self._in_let(expr, "where", truth, lambda value: self._where(value, truth=truth))
        if not isinstance(expr, typed.Operation):
            return self.present(expr) if isinstance(expr, (typed.AttributeRef, typed.Call, typed.Lookup)) else NO_FACTS
        return self._where_operation(expr, truth)

    def _where_operation(self, expr: typed.Operation, truth: bool) -> Facts:
        if expr.op is typed.Op.NOT:
            return self._where(expr.operands[0], truth=not truth)
        if expr.op in (typed.Op.AND, typed.Op.OR):
            first, second = (self._where(side, truth=truth) for side in expr.operands)
            return first | second if (expr.op is typed.Op.AND) is truth else first & second
        if expr.op is typed.Op.COALESCE:
            left, default = expr.operands
            decided = isinstance(default, typed.Const) and default.value is not truth
            return self._where(left, truth=truth) if decided else NO_FACTS
        return self._present_all(expr.operands) if expr.op in _STRICT else NO_FACTS

    def _find_unless(self, expr: typed.Expr, truth: bool) -> Facts:
        if isinstance(expr, typed.Operation) and expr.op is typed.Op.NOT:
            return self._unless(expr.operands[0], truth=not truth)
        if isinstance(expr, typed.Operation) and expr.op in (typed.Op.AND, typed.Op.OR):
            left, right = (self._unless(side, truth=truth) for side in expr.operands)
            return left | right if (expr.op is typed.Op.OR) is truth else left & right
        if isinstance(expr, typed.LetRef):
            return self._in_let(expr, "unless", truth, lambda value: self._unless(value, truth=truth))
        return NO_FACTS if self.causes(expr) else self._where(expr, truth=not truth)

    def _in_let(self, expr: typed.LetRef, question: str, truth: bool, ask: Callable[[typed.Expr], Facts]) -> Facts:
        """The cached result for the value of a let."""
        key = (expr.name, question, truth)
        if key not in self._of_lets:
            let = self.lets.get(expr.name)
            self._of_lets[key] = NO_FACTS if let is None else ask(let.value)
        return self._of_lets[key]


def _all(presence: Presence, exprs: Iterable[typed.Expr], facts: Facts) -> Causes:
    return tuple(cause for e in exprs for cause in presence.causes(e, facts))


def _attribute(presence: Presence, expr: typed.AttributeRef, facts: Facts) -> Causes:
    key = presence.causes(expr.key, facts) if expr.key else ()
    return key or (expr,)


def _itself(_presence: Presence, expr: typed.Expr, _facts: Facts) -> Causes:
    return (expr,)


def _let(presence: Presence, expr: typed.LetRef, facts: Facts) -> Causes:
    let = presence.lets.get(expr.name)
    return (expr,) if let is None else presence.causes(let.value if let.missing_with is None else let.missing_with, facts)


def _operation(presence: Presence, expr: typed.Operation, facts: Facts) -> Causes:
    if expr.op in (typed.Op.AND, typed.Op.OR):
        left, right = expr.operands
        known = presence.not_false if expr.op is typed.Op.AND else presence.not_true
        return presence.causes(left, presence.with_more(left, facts, known(right))) + presence.causes(
            right, presence.with_more(right, facts, known(left))
        )
    if expr.op is typed.Op.COALESCE:
        left, right = expr.operands
        return presence.causes(right, facts) if presence.causes(left, facts) else ()
    found = _all(presence, expr.operands, facts)
    divides = expr.op is typed.Op.DIV and holds_zero(presence.intervals.of(expr.operands[-1]))
    return found + ((expr,) if divides else ())


def _if(presence: Presence, expr: typed.If, facts: Facts) -> Causes:
    asked = presence.causes(expr.condition, facts)
    then = presence.causes(expr.then, presence.with_more(expr.then, facts, presence.where_true(expr.condition)))
    known = presence.with_more(expr.otherwise, facts, presence.where_false(expr.condition))
    return asked + then + presence.causes(expr.otherwise, known)


def _curve(presence: Presence, expr: typed.Curve, facts: Facts) -> Causes:
    return _all(presence, (expr.x, *(e for point in expr.points for e in point)), facts)


def _lookup(presence: Presence, expr: typed.Lookup, facts: Facts) -> Causes:
    return presence.causes(expr.key, facts) or (expr,)


def _aggregate(_presence: Presence, expr: typed.Aggregate, facts: Facts) -> Causes:
    on_domain = expr.per is typed.Per.DOMAIN and _domain_label(expr) not in facts
    of_none = expr.reduction not in (typed.Reduction.COUNT, typed.Reduction.SUM)
    return (expr,) if on_domain or of_none else ()


def _domain_label(expr: typed.Aggregate) -> str:
    """The label without which a node is in no domain."""
    return f"node.labels[{quoted(expr.topology_key or '')}]"


def _call(presence: Presence, expr: typed.Call, facts: Facts) -> Causes:
    parameters = parameters_of(expr.function, len(expr.arguments))
    strict = [a for p, a in zip(parameters, expr.arguments, strict=True) if not p.optional_ok]
    found = _all(presence, (*strict, *expr.named.values()), facts)
    metrics = _all(presence, (a for p, a in zip(parameters, expr.arguments, strict=True) if p.name == "metric"), facts)
    if metrics or any(p.name == "metric" for p in parameters):
        return found + metrics  # a function of a metric is missing where its sample is
    return found + ((expr,) if _partial(presence, expr) else ())


def _partial(presence: Presence, expr: typed.Call) -> bool:
    """True if a function can be missing with all its arguments there."""
    function = expr.function
    if function.absent is not None:
        return function.absent(*(presence.intervals.of(a) for a in expr.arguments))
    return function.result(tuple(a.type.present() for a in expr.arguments)).optional


def _labels_of(expr: typed.Matches) -> Facts:
    """The labels that exist if a selector matches."""
    owner = describe(expr.labels)
    return frozenset(f"{owner}[{quoted(r.key)}]" for r in expr.requirements if r.op in _ENTAILED)


_CAUSES: Mapping[type[typed.Expr], Callable[[Presence, Any, Facts], Causes]] = {
    typed.AttributeRef: _attribute,
    typed.MetricRef: _itself,
    typed.LetRef: _let,
    typed.Operation: _operation,
    typed.If: _if,
    typed.Curve: _curve,
    typed.Lookup: _lookup,
    typed.Aggregate: _aggregate,
    typed.Call: _call,
}


CHOICES = {
    Code.P401: "`on missing pass` or `on missing reject`",
    Code.P402: "`on missing neutral`, `on missing skip` or `on missing <points>`",
    Code.P404: "`on missing keep` or `on missing evict`",
}


def unhandled(context: Context, code: Code, rule: str, value: typed.Expr, causes: Causes) -> None:
    """Report that the value of a rule may be missing, naming the innermost cause and the three ways out."""
    cause = causes[0]
    within = value.span.source is cause.span.source and value.span.start <= cause.span.start and cause.span.end <= value.span.end
    subjects = "pods" if code is Code.P404 else "nodes"
    others = () if within else (Label(cause.span, why(cause)),)
    more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
    context.error(
        code,
        f"{rule} does not handle {subjects} where {subject_of(cause)} is missing{more}",
        cause.span if within else value.span,
        label=why(cause) if within else "may be missing",
        others=others,
        help=f"{missing_help(cause)}; or end the rule with {CHOICES[code]}",
    )


def subject_of(cause: typed.Expr) -> str:
    """A phrase for the missing value."""
    if isinstance(cause, typed.Aggregate):
        return f'`node.labels["{cause.topology_key}"]`' if cause.topology_key else f"`{describe(cause)}`"
    return f"`{describe(cause)}`"


def why(cause: typed.Expr) -> str:
    """A short reason why a value may be missing."""
    if isinstance(cause, typed.MetricRef):
        return "a sample may be absent or too old"
    if isinstance(cause, typed.AttributeRef):
        owner = {Subject.POD: "the pod", Subject.NODE: "a node", Subject.ITEM: "a placed pod", Subject.DEVICE: "a device"}[
            cause.attribute.subject
        ]
        return f"{owner} may not have it"
    if isinstance(cause, typed.Aggregate):
        what = "device" if cause.selection.type.kind is Kind.DEVICES else "pod"
        return "a node may not have the label" if cause.topology_key else f"there may be no such {what}"
    if isinstance(cause, typed.Lookup):
        return "the table may not have the key"
    divides = (isinstance(cause, typed.Operation) and cause.op is typed.Op.DIV) or (
        isinstance(cause, typed.Call) and cause.function.name == "ratio"
    )
    return "missing where the divisor is 0" if divides else "may be missing"


def missing_help(cause: typed.Expr) -> str:
    """The help for a value that may be missing; no default for a time or a metric, because a node without a sample is not idle."""
    default = "" if cause.type.kind is Kind.TIME or isinstance(cause, typed.MetricRef) else f"give a default, `{default_text(cause)}`; or "
    return f"{default}guard it, `{guard_text(cause)}`"


def default_text(cause: typed.Expr) -> str:
    """A cause with a default of its type."""
    return f"{describe(cause)} ?? {_default(cause.type.kind)}"


_DEFAULTS = {Kind.STRING: '""', Kind.BOOL: "false", Kind.VERSION: 'semver("0.0.0")'}


def _default(kind: Kind) -> str:
    if kind in _DEFAULTS:
        return _DEFAULTS[kind]
    unit = next((name for name, unit in UNITS.items() if unit.kind is kind and unit.factor >= 1), "%" if kind is Kind.PERCENT else "")
    return f"0{unit}"


def guard_text(cause: typed.Expr) -> str:
    """A guard that rules the absence of a cause out."""
    if isinstance(cause, typed.Aggregate) and cause.topology_key:
        return f'has(node.labels["{cause.topology_key}"])'
    return f"has({describe(cause)})"
