"""Literals: numbers with units, strings, bools and lists, in base units."""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.language import ast, typed
from wharfinger.language.check.context import Context, is_unknown, type_label, type_text, unknown
from wharfinger.language.check.forms import form, infer
from wharfinger.language.check.kinds import SCALAR, unified
from wharfinger.language.codes import Code
from wharfinger.language.types import Kind, Type
from wharfinger.language.units import UNITS, base_value, literal_kind, meant, spelled, well_formed


@form(ast.Number)
def number(context: Context, expr: ast.Number) -> typed.Expr:
    """A literal in base units."""
    kind = literal_kind(expr.digits, expr.unit)
    if not well_formed(expr.digits):
        return unknown(expr.span)  # reported when the text was read
    if kind is Kind.UNKNOWN:
        return unknown_unit(context, expr)
    value = base_value(expr.digits, expr.unit)
    if value is None:
        return context.error(Code.P209, "this number is too large, too small or too long", expr.span, label="cannot be used")
    return typed.Const(span=expr.span, type=Type(kind), value=value)


def unknown_unit(context: Context, expr: ast.Number, other: typed.Expr | None = None) -> typed.Expr:
    """Reports an unknown unit; `other`, what the number is compared with, narrows down what was meant."""
    wanted = other.type.kind if other and not is_unknown(other) else None
    units = meant(expr.unit, wanted)
    return context.error(
        Code.P203,
        f"cannot compare {wanted.value} with a number of unknown unit" if wanted else f"`{expr.unit}` is not a unit",
        expr.span,
        label=f"unknown unit `{expr.unit}`",
        others=(type_label(other),) if other and wanted else (),
        help="did you mean " + " or ".join(spelled(expr.digits, u) for u in units) + "?" if units else "units are " + " ".join(UNITS),
        suggestion=f"{expr.digits}{units[0]}" if len(units) == 1 else None,
    )


def has_unknown_unit(expr: ast.Expr) -> bool:
    """Whether this is a number with a unit that does not exist."""
    return isinstance(expr, ast.Number) and literal_kind(expr.digits, expr.unit) is Kind.UNKNOWN and well_formed(expr.digits)


@form(ast.String)
def string(_context: Context, expr: ast.String) -> typed.Expr:
    """A string as it is."""
    return typed.Const(span=expr.span, type=Type(Kind.STRING), value=expr.value)


@form(ast.Boolean)
def boolean(_context: Context, expr: ast.Boolean) -> typed.Expr:
    """A bool as it is."""
    return typed.Const(span=expr.span, type=Type(Kind.BOOL), value=expr.value)


@form(ast.SetLiteral)
def set_literal(context: Context, expr: ast.SetLiteral) -> typed.Expr:
    """A list of literals as a set."""
    items = [infer(context, item) for item in expr.items]
    if is_unknown(*items):
        return unknown(expr.span)
    odd = next((item for item in items if not isinstance(item, typed.Const) or item.type.kind is Kind.SET), None)
    if odd:
        return context.error(
            Code.P215,
            "a list holds literals, except on the right of `in`",
            odd.span,
            label="not a literal",
            help="compare one by one with `==` and `or`",
        )
    element = common_kind(context, items)
    if element is Kind.UNKNOWN:
        return unknown(expr.span)
    return typed.Const(
        span=expr.span, type=Type(Kind.SET, element=element), value=frozenset(i.value for i in items if isinstance(i, typed.Const))
    )


@form(ast.ObjectLiteral)
def object_literal(context: Context, expr: ast.ObjectLiteral) -> typed.Expr:
    """`{ … }` where a value is needed: only tests and arguments of plugins have objects."""
    return context.error(Code.P213, "an object in braces is not a value", expr.span, label="not a value")


def common_kind(context: Context, alternatives: Sequence[typed.Expr]) -> Kind | None:
    """The kind that alternatives of one value share; None when there are none; reports the first that differs and answers UNKNOWN."""
    kind: Kind | None = None
    for found in alternatives:
        if found.type.kind not in SCALAR | {Kind.UNKNOWN}:
            context.error(Code.P213, f"{type_text(found.type)} is not a value that can be chosen", found.span, label=type_text(found.type))
            return Kind.UNKNOWN
        both = found.type.kind if kind is None else unified(kind, found.type.kind)
        if both is None:
            return _different(context, alternatives[0], found)
        kind = both
    return kind


def _different(context: Context, first: typed.Expr, found: typed.Expr) -> Kind:
    context.error(
        Code.P208,
        f"these alternatives are {first.type.kind.value} and {found.type.kind.value}",
        found.span,
        label=type_text(found.type),
        others=(type_label(first),),
        help=unit_help(first.type.kind, found),
    )
    return Kind.UNKNOWN


_MILLI = {Kind.DURATION: "min", Kind.MEMORY: "Mi"}  # what is meant by `m` where something else than cpu is wanted


def unit_help(wanted: Kind, bare: typed.Expr) -> str | None:
    """How to write a bare number so that it measures `wanted`: "write the unit: `2Gi` or `2Mi`"; None where that is not the mistake."""
    digits = bare.span.text
    if isinstance(bare, typed.Const) and bare.type.kind is Kind.CPU and digits.endswith("m") and wanted in _MILLI:
        return f"`m` is milli: write `{digits[:-1]}{_MILLI[wanted]}`"
    if not isinstance(bare, typed.Const) or bare.type.kind not in (Kind.COUNT, Kind.NUMBER):
        return None
    if wanted is Kind.PERCENT:
        fraction = bare.type.kind is Kind.NUMBER and 0 < bare.value <= 1
        return f"write a percentage: `{bare.value * 100:.6g}%`" if fraction else f"write a percentage: `{digits}%`"
    units = {Kind.CPU: ("cpu", "m"), Kind.MEMORY: ("Gi", "Mi"), Kind.DURATION: ("s", "min")}.get(wanted)
    return "write the unit: " + " or ".join(f"`{digits}{u}`" for u in units) if units else None
