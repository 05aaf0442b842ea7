"""Building typed operations, and the helps that several of them share."""

from __future__ import annotations

from wharfinger.language import typed
from wharfinger.language.check.context import joined
from wharfinger.language.source import Span
from wharfinger.language.types import Kind, Type


def operation(op: typed.Op, kind: Kind, span: Span, *operands: typed.Expr, optional: bool | None = None) -> typed.Operation:
    """An operation whose shape and optionality are those of its operands, unless said otherwise."""
    shape, missing = joined(*operands)
    return typed.Operation(span=span, type=Type(kind, shape, missing if optional is None else optional), op=op, operands=operands)


def negated(expr: typed.Expr, span: Span) -> typed.Operation:
    """`not expr`."""
    return operation(typed.Op.NOT, Kind.BOOL, span, expr)


def whole_help(side: typed.Expr) -> str | None:
    """What to write instead of something that is not a single value; None when it is one."""
    if side.type.kind is Kind.LABELS:
        return f'take one of them, `{side.span.text}["key"]`, or use `matches`'
    if side.type.kind is Kind.PODS:
        return f"count them: `count({side.span.text}, on: node)`"
    if side.type.kind is Kind.SET:
        return "ask for membership with `in`"
    return f"take a field: `{side.span.text}.name`" if side.type.kind in (Kind.POD, Kind.NODE) else None


def ratio_help(left: typed.Expr, right: typed.Expr) -> str | None:
    """How to get a percentage where a quotient is a plain number; None where neither side is a quotient."""
    for side in (left, right):
        if isinstance(side, typed.Operation) and side.op is typed.Op.DIV and side.type.kind is Kind.NUMBER:
            a, b = side.operands
            return f"`ratio({a.span.text}, {b.span.text})` is a percentage"
    return None
