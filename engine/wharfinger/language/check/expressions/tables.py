"""Tables: `{ "gold": 3, "silver": 2 }`, and the value under a key."""

from __future__ import annotations

from typing import Any

from wharfinger.language.check.context import Context, form, infer, is_unknown, type_text, unknown
from wharfinger.language.check.expressions.values import common_kind
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Label, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import PLAIN, Kind, Type
from wharfinger.language.syntax import ast

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
    odd = next((value for value in values if not isinstance(value, typed.Const) or value.type.kind in (Kind.SET, Kind.TABLE)), None)
    if odd is not None:
        help_ = "choose between calculated values with `if … then … else …`"
        return context.error(Code.P215, "a table holds literals", odd.span, label="not a literal", help=help_)
    kind = common_kind(context, values)
    if kind is None or kind is Kind.UNKNOWN:
        return unknown(expr.span)
    found: Any = tuple(value.value for value in values if isinstance(value, typed.Const))
    entries = typed.Entries(keys=tuple(known), values=found, kind=kind)
    return typed.Const(span=expr.span, type=Type(Kind.TABLE, element=kind), value=entries)


def _key(context: Context, key: ast.Expr) -> str | float | None:
    """A key as a plain value, or None after reporting what is wrong with it."""
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
    """True if all keys are of one kind and none is there twice; otherwise reports the first that is not right."""
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
    context.work.put_together(len(entries.keys))
    return typed.Lookup(span=span, type=Type(entries.kind, key.type.shape, optional=True), entries=entries, key=key)
