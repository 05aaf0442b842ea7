"""Comparisons: equality of anything of one kind, order of numbers."""

from __future__ import annotations

from wharfinger.language import ast, typed
from wharfinger.language.ast import BinaryOp
from wharfinger.language.check.context import Context, type_label, type_text
from wharfinger.language.check.kinds import PLAIN, unified
from wharfinger.language.check.literals import unit_help
from wharfinger.language.check.operations import negated, operation, ratio_help, whole_help
from wharfinger.language.codes import Code
from wharfinger.language.source import Span
from wharfinger.language.types import NUMERIC, Kind

_ORDER = {BinaryOp.LT: typed.Op.LT, BinaryOp.LE: typed.Op.LE, BinaryOp.GT: typed.Op.GT, BinaryOp.GE: typed.Op.GE}


def comparison(context: Context, expr: ast.Binary, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    """`left == right`, `left < right` and so on, of operands without errors."""
    kinds = (left.type.kind, right.type.kind)
    ordered = expr.op in _ORDER
    for side in (left, right):
        if side.type.kind not in NUMERIC | {Kind.BOOL, Kind.STRING}:
            return context.error(
                Code.P213, f"{type_text(side.type)} cannot be compared", side.span, label=type_text(side.type), help=whole_help(side)
            )
    if unified(*kinds) is None:
        return _incomparable(context, expr.span, left, right)
    if ordered and kinds[0] not in NUMERIC:
        help_ = None
        if kinds[0] is Kind.STRING:
            help_ = f'versions are compared with `version_at_least({left.span.text}, "1.30.0")`'
        message = f"{kinds[0].value} has no order"
        return context.error(Code.P202, message, expr.span, label=f"`{expr.op.value}` needs numbers", help=help_)
    if ordered:
        return operation(_ORDER[expr.op], Kind.BOOL, expr.span, left, right)
    equal = operation(typed.Op.EQ, Kind.BOOL, expr.span, left, right)
    return negated(equal, expr.span) if expr.op is BinaryOp.NE else equal


def _incomparable(context: Context, span: Span, left: typed.Expr, right: typed.Expr) -> typed.Expr:
    help_ = unit_help(left.type.kind, right) or unit_help(right.type.kind, left) or ratio_help(left, right)
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
