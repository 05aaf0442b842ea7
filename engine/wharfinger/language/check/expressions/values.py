"""Literals, sets and tables of them, constants, and which dimensions go together in an operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.check.context import Context, constant, form, infer, is_unknown, joined, type_label, type_text, unknown
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Label, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.operators import OPERATORS
from wharfinger.language.semantics.types import (
    NUMERIC,
    PLAIN,
    UNITS,
    Kind,
    Type,
    base_value,
    literal_kind,
    meant,
    spelled,
    unified,
    well_formed,
)

SCALAR = NUMERIC | {Kind.BOOL, Kind.STRING, Kind.VERSION}  # kinds of single values, which can be alternatives of each other


def assignable(value: Type, wanted: Type) -> bool:
    """True if a value of one type can be used for the other declared type; a whole number is also a number."""
    if value.kind is Kind.UNKNOWN or wanted.kind is Kind.UNKNOWN:
        return True
    if value.kind is Kind.SET and wanted.kind is Kind.SET:
        return value.element is None or wanted.element is None or fits(value.element, wanted.element)
    return fits(value.kind, wanted.kind)


def fits(kind: Kind, wanted: Kind) -> bool:
    """True if one kind is the other or a special case of it."""
    return kind is wanted or Kind.UNKNOWN in (kind, wanted) or (kind is Kind.COUNT and wanted is Kind.NUMBER)


def calculated(op: typed.Op, *kinds: Kind) -> Kind | None:
    """The kind of the result of an arithmetic operator; None if it has no meaning for operands of these kinds."""
    rule = OPERATORS[op].kind
    return rule(*kinds) if rule is not None and NUMERIC.issuperset(kinds) else None


def operation(op: typed.Op, kind: Kind, span: Span, *operands: typed.Expr, optional: bool | None = None) -> typed.Operation:
    """An operation with the shape and optionality of its operands, unless given."""
    shape, missing = joined(*operands)
    return typed.Operation(span=span, type=Type(kind, shape, missing if optional is None else optional), op=op, operands=operands)


def negated(expr: typed.Expr, span: Span) -> typed.Operation:
    """`not expr`."""
    return operation(typed.Op.NOT, Kind.BOOL, span, expr)


def of_kind(expr: typed.Expr, kind: Kind) -> typed.Expr:
    """An attribute that may be of several types as the one of a kind, if it has that one; else the expression itself."""
    if not isinstance(expr, typed.AttributeRef) or expr.type.kind is kind:
        return expr
    wanted = Kind.NUMBER if kind in NUMERIC else kind
    found = next((each for each in expr.attribute.alternatives if each.type.kind is wanted), None)
    return expr if found is None else replace(expr, type=replace(expr.type, kind=wanted), attribute=found)


def unify_operands(left: typed.Expr, right: typed.Expr) -> tuple[typed.Expr, typed.Expr]:
    """Two operands with one type: an attribute that can have several types gets the type of the other operand."""
    return of_kind(left, right.type.kind), of_kind(right, left.type.kind)


def whole_help(side: typed.Expr) -> str | None:
    """A help for something that is not a single value; None if it is one."""
    if side.type.kind is Kind.LABELS:
        return f'take one of them, `{side.span.text}["key"]`, or use `matches`'
    if side.type.kind is Kind.PODS:
        return f"count them: `count({side.span.text}, on: node)`"
    if side.type.kind is Kind.SET:
        return "test membership with `in`"
    if side.type.kind is Kind.TABLE:
        return f'look something up: `{side.span.text}["…"]`'
    return f"take a field: `{side.span.text}.name`" if side.type.kind in (Kind.POD, Kind.NODE) else None


def ratio_help(left: typed.Expr, right: typed.Expr) -> str | None:
    """A help to get a percentage from a quotient that is a plain number; None if neither side is a quotient."""
    for side in (left, right):
        if isinstance(side, typed.Operation) and side.op is typed.Op.DIV and side.type.kind is Kind.NUMBER:
            a, b = side.operands
            return f"`ratio({a.span.text}, {b.span.text})` is a percentage"
    return None


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
    """Report an unknown unit; `other`, what the number is compared with, narrows down what was meant."""
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
    """True if this is a number with a unit that does not exist."""
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
    wrong = next((item for item in items if not isinstance(item, typed.Const) or item.type.kind is Kind.SET), None)
    if wrong:
        return context.error(
            Code.P215,
            "a list contains literals, except on the right of `in`",
            wrong.span,
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
    """The kind that alternatives of one value share; None without alternatives. Reports the first that differs and returns UNKNOWN."""
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


_MILLI = {Kind.DURATION: "min", Kind.MEMORY: "Mi"}  # the meaning of `m` where another kind than cpu is expected


def unit_help(wanted: Kind, bare: typed.Expr) -> str | None:
    """A help for a number without a unit where `wanted` has one: "write the unit: `2Gi` or `2Mi`"; None if that is not the mistake."""
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


def folded(expr: typed.Expr) -> Any:
    """The value of a calculation with literals, or None when it is not one."""
    if isinstance(expr, typed.Const):
        return None if isinstance(expr.value, typed.Entries) else expr.value
    if not isinstance(expr, typed.Operation):
        return None
    values = [folded(operand) for operand in expr.operands]
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return None
    operator = OPERATORS[expr.op]
    return None if operator.interval is None or not operator.strict else operator.meaning(*values)


def literal_of(context: Context, expr: ast.Expr, wanted: Type, place: str, code: Code = Code.P211) -> typed.Const | None:
    """The literal as a value of the expected type, or None after reporting an error."""
    found = infer(context.at(constant(place)), expr)
    if is_unknown(found):
        return None
    value = folded(found)
    if value is None:
        context.error(Code.P215, f"{place} is written out", expr.span, label="not a literal")
    elif wanted.kind is Kind.COUNT and found.type.kind is Kind.NUMBER:
        if value == int(value):
            return typed.Const(span=expr.span, type=wanted, value=value)
        help_ = f"for example `{int(value)}`, or declare it a `number`"
        context.error(Code.P209, f"{place} is a whole number", expr.span, label="not whole", help=help_)
    elif not assignable(found.type, wanted):
        message = f"{place} is {wanted}, not {type_text(found.type)}"
        context.error(code, message, expr.span, label=type_text(found.type), help=unit_help(wanted.kind, found))
    else:
        return typed.Const(span=expr.span, type=wanted, value=value)
    return None


MAX_ENTRIES = 1000


@form(ast.Table)
def table(context: Context, expr: ast.Table) -> typed.Expr:
    """A table of literals. Its keys are all texts or all whole numbers, its values of one kind."""
    if not expr.entries:
        return context.error(
            Code.P117, "this table is empty", expr.span, label="no entries", help='for example `{ "gold": 3, "silver": 2 }`'
        )
    if len(expr.entries) > MAX_ENTRIES:
        message = f"a table has at most {MAX_ENTRIES:,} entries"
        return context.error(Code.P221, message, expr.span, label=f"{len(expr.entries):,} entries")
    keys = [_key(context, entry.key) for entry in expr.entries]
    values = [infer(context, entry.value) for entry in expr.entries]
    known = [key for key in keys if key is not None]
    if len(known) < len(keys) or is_unknown(*values) or not _keys_agree(context, expr, known):
        return unknown(expr.span)
    wrong = next((value for value in values if not isinstance(value, typed.Const) or value.type.kind in (Kind.SET, Kind.TABLE)), None)
    if wrong is not None:
        help_ = "choose between calculated values with `if … then … else …`"
        return context.error(Code.P215, "a table contains literals", wrong.span, label="not a literal", help=help_)
    kind = common_kind(context, values)
    if kind is None or kind is Kind.UNKNOWN:
        return unknown(expr.span)
    found: Any = tuple(value.value for value in values if isinstance(value, typed.Const))
    entries = typed.Entries(keys=tuple(known), values=found, kind=kind)
    return typed.Const(span=expr.span, type=Type(Kind.TABLE, element=kind), value=entries)


def _key(context: Context, key: ast.Expr) -> str | float | None:
    """A key as a plain value, or None after reporting an error."""
    if isinstance(key, ast.String):
        return key.value
    if isinstance(key, ast.Name):
        help_ = f'put it in quotes: `"{key.name}"`'
        context.error(Code.P221, "a key of a table is a text in quotes or a whole number", key.span, label="no quotes", help=help_)
        return None
    found = infer(context, key)
    if is_unknown(found):
        return None
    if found.type.kind is not Kind.COUNT or not isinstance(found, typed.Const):
        message = "a key of a table is a text in quotes or a whole number"
        help_ = f'as a text: `"{key.span.text}"`; for a number between others, use `curve` or `if`'
        context.error(Code.P221, message, key.span, label=type_text(found.type), help=help_)
        return None
    return float(found.value)


def _keys_agree(context: Context, expr: ast.Table, keys: list[str | float]) -> bool:
    """True if all keys are of one kind and none occurs twice; otherwise reports the first that is not right."""
    seen: dict[str | float, Span] = {}
    for entry, key in zip(expr.entries, keys, strict=True):
        first = expr.entries[0].key
        if isinstance(key, str) is not isinstance(keys[0], str):
            others = (Label(first.span, "a text" if isinstance(keys[0], str) else "a number"),)
            context.error(
                Code.P221, "the keys of a table are all texts or all numbers", entry.key.span, label="of another kind", others=others
            )
            return False
        if key in seen:
            others = (Label(seen[key], "first given here"),)
            message = f"`{entry.key.span.text}` is given twice"
            context.error(Code.P112, message, entry.key.span, label="given again", others=others, help="keep one of the two")
            return False
        seen[key] = entry.key.span
    return True


def looked_up(context: Context, entries: typed.Entries, key: typed.Expr, span: Span) -> typed.Expr:
    """`table[key]`: a value that may be missing."""
    if is_unknown(key):
        return unknown(span)
    texts = isinstance(entries.keys[0], str)
    if key.type.kind not in ({Kind.STRING} if texts else PLAIN):
        wanted = "texts" if texts else "whole numbers"
        return context.error(
            Code.P221, f"the keys of this table are {wanted}, not {type_text(key.type)}", key.span, label=type_text(key.type)
        )
    context.work.count_building(len(entries.keys))
    return typed.Lookup(span=span, type=Type(entries.kind, key.type.shape, optional=True), entries=entries, key=key)
