"""`in` and `matches`: sets, and labels against a selector."""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.language import ast, typed
from wharfinger.language.ast import BinaryOp, UnaryOp
from wharfinger.language.check.comparison import comparison
from wharfinger.language.check.context import Context, is_unknown, type_label, type_text, unknown
from wharfinger.language.check.forms import infer
from wharfinger.language.check.kinds import fits
from wharfinger.language.check.operations import negated, operation, whole_help
from wharfinger.language.check.walk import walk
from wharfinger.language.codes import Code
from wharfinger.language.selector import SelectorError, merged, parse_selector
from wharfinger.language.source import Span
from wharfinger.language.types import NUMERIC, Kind, Shape, Type


def membership(context: Context, expr: ast.Binary) -> typed.Expr:
    """`x in set` and `x not in set`."""
    found = _member_of(context, expr)
    return negated(found, expr.span) if expr.op is BinaryOp.NOT_IN and not is_unknown(found) else found


def _member_of(context: Context, expr: ast.Binary) -> typed.Expr:
    left = infer(context, expr.left)
    if isinstance(expr.right, ast.SetLiteral) and not all(_is_literal(item) for item in expr.right.items):
        return _one_of(context, expr, left, expr.right)
    right = infer(context, expr.right)
    if is_unknown(left, right):
        return unknown(expr.span)
    if right.type.kind is not Kind.SET:
        message = f"`in` needs a set on its right, not {type_text(right.type)}"
        return context.error(Code.P204, message, right.span, label=type_text(right.type), help=_in_help(left, right))
    if right.type.element is not None and not (fits(left.type.kind, right.type.element) or fits(right.type.element, left.type.kind)):
        message = f"cannot look for {type_text(left.type)} in {right.type}"
        return context.error(Code.P202, message, left.span, label=type_text(left.type), others=(type_label(right),))
    if left.type.kind not in NUMERIC | {Kind.STRING, Kind.BOOL}:
        return context.error(
            Code.P213, f"{type_text(left.type)} cannot be in a set", left.span, label=type_text(left.type), help=whole_help(left)
        )
    return operation(typed.Op.IN, Kind.BOOL, expr.span, left, right)


def _is_literal(item: ast.Expr) -> bool:
    inner = item.operand if isinstance(item, ast.Unary) and item.op is UnaryOp.MINUS else item
    return isinstance(inner, (ast.Number, ast.String, ast.Boolean))


def _one_of(context: Context, expr: ast.Binary, left: typed.Expr, choices: ast.SetLiteral) -> typed.Expr:
    """`x in [a, b]` with members that are not literals, as `x == a or x == b`."""
    found: list[typed.Expr] = []
    repeated = sum(1 for _ in walk(left))  # the left side stands in every comparison
    for item in choices.items:
        context.work.spend(repeated)
        right = infer(context, item)
        if is_unknown(left, right):
            return unknown(expr.span)
        found.append(comparison(context, ast.Binary(span=expr.span, op=BinaryOp.EQ, left=expr.left, right=item), left, right))
    return unknown(expr.span) if is_unknown(*found) else _any_of(found, expr.span)


def _any_of(conditions: Sequence[typed.Expr], span: Span) -> typed.Expr:
    """The disjunction of some conditions, as flat as can be."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return operation(typed.Op.OR, Kind.BOOL, span, _any_of(conditions[:half], span), _any_of(conditions[half:], span))


def _in_help(left: typed.Expr, right: typed.Expr) -> str | None:
    if right.type.kind is Kind.LABELS:
        return f"to ask whether the key is there, write `has({right.span.text}[{left.span.text}])`"
    if right.type.kind is Kind.STRING:
        one, part = f"[{right.span.text}]", f"contains({right.span.text}, {left.span.text})"
        return f"for one value write `==`, for several a list `{one}`, for a part of a text `{part}`"
    return None


def matches(context: Context, expr: ast.Binary) -> typed.Expr:
    """`labels matches "selector"`."""
    labels = infer(context, expr.left)
    requirements = _selector(context, expr.right)
    if is_unknown(labels) or requirements is None:
        return unknown(expr.span)
    if labels.type.kind is not Kind.LABELS:
        help_ = (
            'write `node.labels matches "…"` or `pod.labels matches "…"`'
            if labels.type.kind is not Kind.STRING
            else _text_help(labels, expr.right)
        )
        return context.error(
            Code.P204,
            f"`matches` needs labels on its left, not {type_text(labels.type)}",
            labels.span,
            label=type_text(labels.type),
            help=help_,
        )
    shape = max(labels.type.shape, Shape.CONST)
    return typed.Matches(span=expr.span, type=Type(Kind.BOOL, shape), labels=labels, requirements=requirements)


def _text_help(labels: typed.Expr, right: ast.Expr) -> str:
    return f"to compare a text write `==`, or `matches_regex({labels.span.text}, {right.span.text})` for a pattern"


def _selector(context: Context, expr: ast.Expr) -> tuple[typed.Requirement, ...] | None:
    if not isinstance(expr, ast.String):
        context.error(Code.P217, "the label selector after `matches` is written out in quotes", expr.span, label="not a text in quotes")
        return None
    try:
        return merged(parse_selector(expr.value))
    except SelectorError as fault:
        context.error(Code.P216, f"this is not a label selector: {fault}", expr.span, label="invalid selector")
        return None
