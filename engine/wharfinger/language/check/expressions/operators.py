"""Operators: which operands go together, and the type of the result."""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.language import ast
from wharfinger.language.ast import BinaryOp, UnaryOp
from wharfinger.language.check.context import Context, condition, form, infer, is_unknown, joined, type_label, type_text, unknown
from wharfinger.language.check.expressions.values import (
    SCALAR,
    calculated,
    common_kind,
    fits,
    has_unknown_unit,
    negated,
    of_kind,
    operation,
    ratio_help,
    unify_operands,
    unit_help,
    unknown_unit,
    whole_help,
)
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.intervals import holds_zero
from wharfinger.language.semantics.selector import SelectorError, merged, parse_selector
from wharfinger.language.semantics.typed import walk
from wharfinger.language.semantics.types import NUMERIC, PLAIN, Kind, Shape, Type, unified

_ORDER = {BinaryOp.LT: typed.Op.LT, BinaryOp.LE: typed.Op.LE, BinaryOp.GT: typed.Op.GT, BinaryOp.GE: typed.Op.GE}


def comparison(context: Context, expr: ast.Binary, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    """`left == right`, `left < right` and so on, of operands without errors."""
    kinds = (left.type.kind, right.type.kind)
    ordered = expr.op in _ORDER
    for side in (left, right):
        if side.type.kind not in SCALAR:
            return context.error(
                Code.P213, f"{type_text(side.type)} cannot be compared", side.span, label=type_text(side.type), help=whole_help(side)
            )
    if unified(*kinds) is None:
        return _incomparable(context, expr.span, left, right)
    if ordered and kinds[0] not in NUMERIC | {Kind.VERSION}:
        help_ = None
        if kinds[0] is Kind.STRING:
            help_ = f"versions have one: `semver({left.span.text}) {expr.op.value} semver({right.span.text})`"
        message = f"{kinds[0].value} has no order"
        return context.error(Code.P202, message, expr.span, label=f"`{expr.op.value}` needs numbers", help=help_)
    if ordered:
        return operation(_ORDER[expr.op], Kind.BOOL, expr.span, left, right)
    equal = operation(typed.Op.EQ, Kind.BOOL, expr.span, left, right)
    return negated(equal, expr.span) if expr.op is BinaryOp.NE else equal


def _incomparable(context: Context, span: Span, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    help_ = unit_help(left.type.kind, right) or unit_help(right.type.kind, left) or ratio_help(left, right)
    if {left.type.kind, right.type.kind} == {Kind.STRING, Kind.VERSION}:
        words = right if right.type.kind is Kind.STRING else left
        help_ = f"write `semver({words.span.text})`"
    culprit, other = (left, right) if isinstance(left, typed.Const) and not isinstance(right, typed.Const) else (right, left)
    what = "a bare number" if isinstance(culprit, typed.Const) and culprit.type.kind in PLAIN else type_text(culprit.type)
    return context.error(
        Code.P202,
        f"cannot compare {other.type.kind.value} with {what}",
        culprit.span if culprit.span.text else span,
        label=what,
        others=(type_label(other),),
        help=help_,
    )


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
    left = of_kind(left, right.type.element or left.type.kind)
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
    repeated = sum(1 for _ in walk(left))  # the left side occurs in every comparison
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
        return f"to check whether the key is present, write `has({right.span.text}[{left.span.text}])`"
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


_ARITHMETIC = {BinaryOp.ADD: typed.Op.ADD, BinaryOp.SUB: typed.Op.SUB, BinaryOp.MUL: typed.Op.MUL, BinaryOp.DIV: typed.Op.DIV}
_VERBS = {
    BinaryOp.ADD: "add {b} to {a}",
    BinaryOp.SUB: "subtract {b} from {a}",
    BinaryOp.MUL: "multiply {a} by {b}",
    BinaryOp.DIV: "divide {a} by {b}",
}


@form(ast.Unary)
def unary(context: Context, expr: ast.Unary) -> typed.Expr:
    """`not x` and `-x`."""
    operand = of_kind(infer(context, expr.operand), Kind.BOOL if expr.op is UnaryOp.NOT else Kind.NUMBER)
    if is_unknown(operand):
        return unknown(expr.span)
    if expr.op is UnaryOp.NOT:
        if operand.type.kind is Kind.BOOL:
            return negated(operand, expr.span)
        return _wrong_operand(context, "`not` needs a condition", operand)
    kind = calculated(typed.Op.NEG, operand.type.kind)
    if kind is not None:
        if isinstance(operand, typed.Const):
            return typed.Const(span=expr.span, type=operand.type, value=-operand.value)
        return operation(typed.Op.NEG, kind, expr.span, operand)
    return _wrong_operand(context, "`-` needs a number", operand)


def _wrong_operand(context: Context, message: str, operand: typed.Expr) -> typed.Expr:
    return context.error(Code.P204, f"{message}, not {type_text(operand.type)}", operand.span, label=type_text(operand.type))


@form(ast.Binary)
def binary(context: Context, expr: ast.Binary) -> typed.Expr:
    """`left op right`."""
    if expr.op in (BinaryOp.AND, BinaryOp.OR):
        return _logic(context, expr)
    if expr.op is BinaryOp.MATCHES:
        return matches(context, expr)
    if expr.op in (BinaryOp.IN, BinaryOp.NOT_IN):
        return membership(context, expr)
    pair = _operands(context, expr)
    if pair is None:
        return unknown(expr.span)
    left, right = pair
    if expr.op is BinaryOp.COALESCE:
        return _coalesce(context, expr, left, right)
    return _calculation(context, expr, left, right) if expr.op in _ARITHMETIC else comparison(context, expr, left, right)


def _operands(context: Context, expr: ast.Binary) -> tuple[typed.Expr, typed.Expr] | None:
    """Both operands, or None when one has an error; an unknown unit is reported with the type of the other side."""
    left, right = expr.left, expr.right
    if has_unknown_unit(right) and not has_unknown_unit(left) and isinstance(right, ast.Number):
        unknown_unit(context, right, infer(context, left))
        return None
    if has_unknown_unit(left) and not has_unknown_unit(right) and isinstance(left, ast.Number):
        unknown_unit(context, left, infer(context, right))
        return None
    found = unify_operands(infer(context, left), infer(context, right))
    if expr.op in _ARITHMETIC and {each.type.kind for each in found} == {Kind.STRING}:
        found = of_kind(found[0], Kind.NUMBER), of_kind(found[1], Kind.NUMBER)
    return None if is_unknown(*found) else found


def _logic(context: Context, expr: ast.Binary) -> typed.Expr:
    left, right = (of_kind(infer(context, side), Kind.BOOL) for side in (expr.left, expr.right))
    word = expr.op.value
    for side in (left, right):
        if side.type.kind not in (Kind.BOOL, Kind.UNKNOWN):
            message = f"`{word}` joins conditions, not {type_text(side.type)}"
            context.error(Code.P204, message, side.span, label=type_text(side.type), help=_logic_help(expr, side))
    if is_unknown(left, right) or {left.type.kind, right.type.kind} != {Kind.BOOL}:
        return unknown(expr.span)
    return operation(typed.Op.AND if expr.op is BinaryOp.AND else typed.Op.OR, Kind.BOOL, expr.span, left, right)


def _logic_help(expr: ast.Binary, side: typed.Expr) -> str | None:
    left = expr.left
    if expr.op is BinaryOp.OR and side.type.kind is Kind.STRING and isinstance(left, ast.Binary) and left.op is BinaryOp.EQ:
        return f"to allow several values write `{left.left.span.text} in [{left.right.span.text}, {expr.right.span.text}]`"
    return f"to check whether it is present, write `has({side.span.text})`" if side.type.optional else None


def _calculation(context: Context, expr: ast.Binary, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    op = _ARITHMETIC[expr.op]
    kind = calculated(op, left.type.kind, right.type.kind)
    if kind is None:
        return _incalculable(context, expr, left, right)
    missing = left.type.optional or right.type.optional
    if op is typed.Op.DIV:
        # The limits of attributes are only used to demand less of authors (`missing`); masks rely on what is certain.
        missing = missing or right.type.shape is not Shape.CONST or holds_zero(context.intervals.of(right))
    return operation(op, kind, expr.span, left, right, optional=missing)


def _incalculable(context: Context, expr: ast.Binary, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    wrong = next((side for side in (left, right) if side.type.kind not in NUMERIC), None)
    if wrong:
        text = wrong.type.kind is Kind.STRING and expr.op is BinaryOp.ADD
        help_ = 'texts are not joined; a message has placeholders: `"… {node.name} …"`' if text else whole_help(wrong)
        return context.error(
            Code.P204, f"`{expr.op.value}` needs numbers, not {type_text(wrong.type)}", wrong.span, label=type_text(wrong.type), help=help_
        )
    verb = _VERBS[expr.op].format(a=left.type.kind.value, b=right.type.kind.value)
    additive = expr.op in (BinaryOp.ADD, BinaryOp.SUB)
    help_ = (unit_help(left.type.kind, right) or unit_help(right.type.kind, left) or ratio_help(left, right)) if additive else None
    others = (type_label(left),)
    return context.error(Code.P201, f"cannot {verb}", right.span, label=type_text(right.type), others=others, help=help_)


def _coalesce(context: Context, expr: ast.Binary, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    kind = common_kind(context, (left, right))
    if kind is Kind.UNKNOWN or kind is None:
        return unknown(expr.span)
    return operation(typed.Op.COALESCE, kind, expr.span, left, right, optional=left.type.optional and right.type.optional)


@form(ast.If)
def if_(context: Context, expr: ast.If) -> typed.Expr:
    """`if condition then a else b`."""
    asked = condition(context, expr.condition, "`if`")
    then, otherwise = infer(context, expr.then), infer(context, expr.otherwise)
    if is_unknown(asked, then, otherwise):
        return unknown(expr.span)
    kind = common_kind(context, (then, otherwise))
    if kind is Kind.UNKNOWN or kind is None:
        return unknown(expr.span)
    shape, missing = joined(asked, then, otherwise)
    return typed.If(span=expr.span, type=Type(kind, shape, missing), condition=asked, then=then, otherwise=otherwise)
