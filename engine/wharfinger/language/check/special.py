"""Calls with a typing of their own: `has`, `curve`, and (in `aggregates`) what is counted and summed over pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from wharfinger.language import ast, typed
from wharfinger.language.check.aggregates import REDUCTIONS, aggregate
from wharfinger.language.check.context import Context, constant, is_unknown, joined, type_label, type_text, unknown
from wharfinger.language.check.forms import infer
from wharfinger.language.check.kinds import PLAIN, fits
from wharfinger.language.check.linear import increases
from wharfinger.language.check.literals import common_kind, unit_help
from wharfinger.language.codes import Code
from wharfinger.language.types import NUMERIC, Kind, Type


def special(context: Context, expr: ast.Call) -> typed.Expr | None:
    """The typed form of a special call; None when it is an ordinary function after all (`min(a, b)`)."""
    return _FORMS[expr.function](context, expr)


# ── has ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _has(context: Context, expr: ast.Call) -> typed.Expr:
    if len(expr.arguments) != 1 or expr.arguments[0].name or expr.arguments[0].to:
        return context.error(
            Code.P207, "`has` takes one value", expr.span, label="does not fit", help='for example `has(node.labels["zone"])`'
        )
    operand = infer(context, expr.arguments[0].value)
    if is_unknown(operand):
        return unknown(expr.span)
    if operand.type.kind in (Kind.LABELS, Kind.PODS, Kind.POD, Kind.NODE):
        help_ = f'ask for one key: `has({operand.span.text}["…"])`' if operand.type.kind is Kind.LABELS else None
        return context.error(
            Code.P206, f"{type_text(operand.type)} is always there", operand.span, label=type_text(operand.type), help=help_
        )
    return typed.Has(span=expr.span, type=Type(Kind.BOOL, operand.type.shape), operand=operand)


# ── curve ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _curve(context: Context, expr: ast.Call) -> typed.Expr:
    arguments = expr.arguments
    if not arguments or any(a.name for a in arguments) or arguments[0].to or any(a.to is None for a in arguments[1:]):
        odd = next((a.span for i, a in enumerate(arguments) if a.name or (a.to is None) != (i == 0)), expr.span)
        return context.error(
            Code.P207,
            "`curve` takes a value and points `x -> y`",
            odd,
            label="does not fit",
            help="for example `curve(x, 0% -> 100, 90% -> 0)`",
        )
    x = infer(context, arguments[0].value)
    fixed = context.at(constant("a point of a curve"))
    points = tuple((infer(fixed, a.value), infer(fixed, a.to)) for a in arguments[1:] if a.to is not None)
    if is_unknown(x, *(e for point in points for e in point)):
        return unknown(expr.span)
    if len(points) < 2:
        return context.error(Code.P504, "a curve needs at least two points", expr.span, label=f"{len(points)} given")
    kind = common_kind(context, [y for _, y in points])
    if kind is None or kind not in NUMERIC or not _axis(context, x, points):
        return unknown(expr.span)
    shape, missing = joined(x, *(e for point in points for e in point))
    return typed.Curve(span=expr.span, type=Type(kind, shape, missing), x=x, points=points)


def _axis(context: Context, x: typed.Expr, points: tuple[tuple[typed.Expr, typed.Expr], ...]) -> bool:
    """Whether the xs measure what `x` measures and increase."""
    if x.type.kind not in NUMERIC:
        context.error(Code.P206, f"a curve is over a number, not {type_text(x.type)}", x.span, label=type_text(x.type))
        return False
    for at, _ in points:
        if not fits(at.type.kind, x.type.kind) and not {at.type.kind, x.type.kind} <= PLAIN:
            message = f"the curve is over {x.type.kind.value}, this point is {type_text(at.type)}"
            context.error(Code.P208, message, at.span, label=type_text(at.type), others=(type_label(x),), help=unit_help(x.type.kind, at))
            return False
    for (before, _), (after, _) in pairwise(points):
        if not increases(context.intervals, before, after):
            message = "the points of a curve go from left to right"
            context.error(
                Code.P504,
                message,
                after.span,
                label="may not be larger than the one before",
                others=(type_label(before),),
                help=_range_help(before, after),
            )
            return False
    return True


def _range_help(before: typed.Expr, after: typed.Expr) -> str | None:
    if isinstance(before, typed.Const) and isinstance(after, typed.Const):
        return None
    return "it must be larger for every value that the params can take: narrow their `range`"


_FORMS: Mapping[str, Callable[[Context, ast.Call], typed.Expr | None]] = {
    "has": _has,
    "curve": _curve,
    **dict.fromkeys(REDUCTIONS, aggregate),
}
SPECIAL = tuple(_FORMS)
