"""Typed expressions as terms: the meaning that the interpreter has, for unknown pods and nodes.

`_RULES` holds the rule for each kind of expression; aggregates and calls are in `encoded_calls`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import z3
from msgspec.structs import replace

from wharfinger.builtins import texts
from wharfinger.compiler.interpreter import holds
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import NUMERIC, Kind
from wharfinger.prove import encoded_calls
from wharfinger.prove.encoder import Encoder, Place, Unmodelled
from wharfinger.prove.logic import Condition, Value, both, chosen, constant, either, negated, real, same_truth
from wharfinger.prove.world import TEXTS

# ── leaves ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _plain(encoder: Encoder, value: Any, type_: Any) -> Value:
    if type_.kind is Kind.SET:
        return Value(encoder.world.members(frozenset(value), type_.element))
    if isinstance(value, bool):
        return Value(value)
    return Value(encoder.world.text(value)) if isinstance(value, str) else constant(float(value))


def _const(encoder: Encoder, expr: typed.Const, _: Place) -> Value:
    return _plain(encoder, expr.value, expr.type)


def _param(encoder: Encoder, expr: typed.ParamRef, _: Place) -> Value:
    return _plain(encoder, encoder.compiled.params[expr.name], expr.type)


def _let(encoder: Encoder, expr: typed.LetRef, place: Place) -> Value:
    return encoder.value(encoder.lets[expr.name], place)


def _metric(encoder: Encoder, expr: typed.MetricRef, place: Place) -> Value:
    value, _ = encoder.sample(expr.name, place.node)
    return Value(value.term, encoder.fresh(expr.name, place.node), value.low, value.high)


def _attribute(encoder: Encoder, expr: typed.AttributeRef, place: Place) -> Value:
    owner = encoder.owner(expr.attribute.subject, place)
    if expr.key is None:
        return encoder.world.attribute(owner, expr.attribute)
    key = encoder.value(expr.key, place)
    found = encoder.world.attribute(owner, expr.attribute, key.term)
    return replace(found, present=both(key.present, found.present))


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _operation(encoder: Encoder, expr: typed.Operation, place: Place) -> Value:  # noqa: PLR0911 — one case per family of operators
    values = [encoder.value(operand, place) for operand in expr.operands]
    present = both(*(value.present for value in values))
    op = expr.op
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](encoder, *values)
    if op is typed.Op.NOT:
        return Value(negated(values[0].term), present)
    a, b = values
    if op is typed.Op.AND:
        false = either(both(a.present, negated(a.term)), both(b.present, negated(b.term)))
        return Value(negated(false), either(false, present))
    if op is typed.Op.OR:
        true = either(both(a.present, a.term), both(b.present, b.term))
        return Value(true, either(true, present))
    if op is typed.Op.COALESCE:
        return _either_value(a.present, a, b, present=either(a.present, b.present))
    if expr.operands[0].type.kind is Kind.VERSION and op in _ORDER:
        newer = encoder.world.applied(f"version {op.value}", _by_version(op), [a.term, b.term], Kind.BOOL, partial=False)
        return Value(newer.term, present)
    return Value(_compared(op, expr, a, b), present)


def _compared(op: typed.Op, expr: typed.Operation, a: Value, b: Value) -> Condition:
    if op is typed.Op.IN:
        found: Condition = b.term(a.term)
        return found
    kind = expr.operands[0].type.kind
    if op is typed.Op.EQ:
        if kind is Kind.BOOL:
            return same_truth(a.term, b.term)
        if kind in NUMERIC or kind in TEXTS:
            return a.term == b.term
        raise Unmodelled(expr)
    if kind not in NUMERIC:
        raise Unmodelled(expr)
    if a.constant is not None and b.constant is not None:
        return _ORDER[op](a.constant, b.constant)
    return _ORDER[op](a.term, b.term)


def _by_version(op: typed.Op) -> Callable[[str, str], bool]:
    """The comparison of two texts that are versions; other texts do not occur."""

    def compare(a: str, b: str) -> bool:
        left, right = texts.ordered(a), texts.ordered(b)
        return left is not None and right is not None and bool(_ORDER[op](left, right))

    return compare


def _either_value(condition: Condition, a: Value, b: Value, *, present: Condition) -> Value:
    if callable(a.term) and not z3.is_expr(a.term):
        return Value(lambda member: chosen(condition, a.term(member), b.term(member)), present)
    if isinstance(condition, bool):
        return replace(a if condition else b, present=present)
    return Value(chosen(condition, a.term, b.term), present, min(a.low, b.low), max(a.high, b.high), a.whole and b.whole)


_ORDER: Mapping[typed.Op, Callable[[Any, Any], Condition]] = {
    typed.Op.LT: lambda a, b: a < b,
    typed.Op.LE: lambda a, b: a <= b,
    typed.Op.GT: lambda a, b: a > b,
    typed.Op.GE: lambda a, b: a >= b,
}
_ARITHMETIC: Mapping[typed.Op, Callable[..., Value]] = {
    typed.Op.NEG: lambda encoder, a: encoder.numbers.negative(a),
    typed.Op.ADD: lambda encoder, a, b: encoder.numbers.sum(a, b),
    typed.Op.SUB: lambda encoder, a, b: encoder.numbers.difference(a, b),
    typed.Op.MUL: lambda encoder, a, b: encoder.numbers.product(a, b),
    typed.Op.DIV: lambda encoder, a, b: encoder.numbers.quotient(a, b),
}


def _if(encoder: Encoder, expr: typed.If, place: Place) -> Value:
    condition, then, otherwise = (encoder.value(each, place) for each in (expr.condition, expr.then, expr.otherwise))
    present = both(condition.present, chosen(condition.term, then.present, otherwise.present))
    return _either_value(condition.term, then, otherwise, present=present)


def _has(encoder: Encoder, expr: typed.Has, place: Place) -> Value:
    return Value(encoder.value(expr.operand, place).present)


def _curve(encoder: Encoder, expr: typed.Curve, place: Place) -> Value:
    x = encoder.value(expr.x, place)
    points = [(encoder.number(at), encoder.number(y)) for at, y in expr.points]
    encoder.numbers.marks.update(at for at, _ in points)
    ys = [y for _, y in points]
    found = constant(points[-1][1])
    for start, end in reversed(list(itertools.pairwise(points))):
        if end[0] != start[0]:  # some x lies between
            found = _either_value(x.term < real(end[0]), encoder.numbers.line(x, start, end), found, present=True)
    found = _either_value(x.term <= real(points[0][0]), constant(points[0][1]), found, present=True)
    edge = max(abs(y) for y in ys) * 1e-12
    if not math.isfinite(edge) or not all(
        math.isfinite((y1 - y0) / (x1 - x0)) for (x0, y0), (x1, y1) in itertools.pairwise(points) if x1 != x0
    ):
        return Value(found.term, both(x.present, z3.Bool(f"{encoder.text_of(expr)} is a number at {place}")))
    return Value(found.term, x.present, min(ys) - edge, max(ys) + edge)


def _lookup(encoder: Encoder, expr: typed.Lookup, place: Place) -> Value:
    key = encoder.value(expr.key, place)
    values = [_plain(encoder, value, expr.type) for value in expr.entries.values]
    matches = [key.term == (encoder.world.text(known) if isinstance(known, str) else real(known)) for known in expr.entries.keys]
    found = values[-1]
    for condition, value in reversed(list(zip(matches, values, strict=True))):
        found = _either_value(condition, value, found, present=True)
    return replace(found, present=both(key.present, either(*matches)))


def _matches(encoder: Encoder, expr: typed.Matches, place: Place) -> Value:
    labels = expr.labels
    if not isinstance(labels, typed.AttributeRef):
        raise TypeError("a label selector is matched against labels")
    owner = encoder.owner(labels.attribute.subject, place)
    return Value(both(*(_requirement(encoder, requirement, owner, labels) for requirement in expr.requirements)))


def _requirement(encoder: Encoder, requirement: typed.Requirement, owner: str, labels: typed.AttributeRef) -> Condition:
    value = encoder.world.attribute(owner, labels.attribute, encoder.world.text(requirement.key))
    one_of = either(*(value.term == encoder.world.text(each) for each in requirement.values))
    match requirement.op:
        case typed.SelectorOp.EXISTS:
            return value.present
        case typed.SelectorOp.DOES_NOT_EXIST:
            return negated(value.present)
        case typed.SelectorOp.IN:
            return both(value.present, one_of)
        case typed.SelectorOp.NOT_IN:
            return negated(both(value.present, one_of))
    bound = requirement.values[0]
    for near in (-1, 0, 1):
        encoder.world.text(str(int(bound) + near))
    name = f"{requirement.op.value} {bound}"
    compared = encoder.world.applied(name, lambda text: holds(requirement, text), [value.term], Kind.BOOL, partial=False)
    return both(value.present, compared.term)


_RULES: Mapping[type[typed.Expr], Callable[[Encoder, Any, Place], Value]] = {
    typed.Const: _const,
    typed.ParamRef: _param,
    typed.LetRef: _let,
    typed.MetricRef: _metric,
    typed.AttributeRef: _attribute,
    typed.Operation: _operation,
    typed.If: _if,
    typed.Has: _has,
    typed.Curve: _curve,
    typed.Lookup: _lookup,
    typed.Matches: _matches,
    typed.Aggregate: encoded_calls.aggregate,
    typed.Call: encoded_calls.call,
}


class ExpressionEncoder(Encoder):
    """An encoder with the rules of this module."""

    def encode(self, expr: typed.Expr, place: Place) -> Value:
        """The value of an expression by the rule for its kind."""
        rule = _RULES.get(type(expr))
        if rule is None:
            raise Unmodelled(expr)
        return rule(self, expr, place)
