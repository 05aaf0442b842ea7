"""Operators: which operands go together, and what comes out."""

from __future__ import annotations

from wharfinger.language import ast, typed
from wharfinger.language.ast import BinaryOp, UnaryOp
from wharfinger.language.check.comparison import comparison
from wharfinger.language.check.context import Context, is_unknown, joined, type_label, type_text, unknown
from wharfinger.language.check.forms import condition, form, infer
from wharfinger.language.check.kinds import calculated
from wharfinger.language.check.literals import common_kind, has_unknown_unit, unit_help, unknown_unit
from wharfinger.language.check.membership import matches, membership
from wharfinger.language.check.operations import negated, operation, ratio_help, whole_help
from wharfinger.language.codes import Code
from wharfinger.language.intervals import holds_zero
from wharfinger.language.types import NUMERIC, Kind, Shape, Type

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
    operand = infer(context, expr.operand)
    if is_unknown(operand):
        return unknown(expr.span)
    if expr.op is UnaryOp.NOT:
        if operand.type.kind is Kind.BOOL:
            return negated(operand, expr.span)
        return _wrong_operand(context, "`not` needs a condition", operand)
    if operand.type.kind in NUMERIC - {Kind.TIME}:
        if isinstance(operand, typed.Const):
            return typed.Const(span=expr.span, type=operand.type, value=-operand.value)
        return operation(typed.Op.NEG, operand.type.kind, expr.span, operand)
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
    """Both operands, or None when one has an error; an unknown unit is reported with what stands on the other side."""
    left, right = expr.left, expr.right
    if has_unknown_unit(right) and not has_unknown_unit(left) and isinstance(right, ast.Number):
        unknown_unit(context, right, infer(context, left))
        return None
    if has_unknown_unit(left) and not has_unknown_unit(right) and isinstance(left, ast.Number):
        unknown_unit(context, left, infer(context, right))
        return None
    found = infer(context, left), infer(context, right)
    return None if is_unknown(*found) else found


def _logic(context: Context, expr: ast.Binary) -> typed.Expr:
    left, right = infer(context, expr.left), infer(context, expr.right)
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
    return f"to ask whether it is there, write `has({side.span.text})`" if side.type.optional else None


def _calculation(context: Context, expr: ast.Binary, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    kind = calculated(expr.op, left.type.kind, right.type.kind)
    if kind is None:
        return _incalculable(context, expr, left, right)
    op = _ARITHMETIC[expr.op]
    missing = left.type.optional or right.type.optional
    if op is typed.Op.DIV:
        # The limits of attributes are only used to demand less of authors (`missing`); masks rely on what is certain.
        missing = missing or right.type.shape is not Shape.CONST or holds_zero(context.intervals.of(right))
    return operation(op, kind, expr.span, left, right, optional=missing)


def _incalculable(context: Context, expr: ast.Binary, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    odd = next((side for side in (left, right) if side.type.kind not in NUMERIC), None)
    if odd:
        text = odd.type.kind is Kind.STRING and expr.op is BinaryOp.ADD
        help_ = 'texts are not joined; a message has holes: `"… {node.name} …"`' if text else whole_help(odd)
        return context.error(
            Code.P204, f"`{expr.op.value}` needs numbers, not {type_text(odd.type)}", odd.span, label=type_text(odd.type), help=help_
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
