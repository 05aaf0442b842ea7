"""Messages with holes: `"already runs {here} pods"`."""

from __future__ import annotations

from wharfinger.language import ast, typed
from wharfinger.language.check.context import Context, is_unknown, type_text
from wharfinger.language.check.forms import infer
from wharfinger.language.check.kinds import SCALAR
from wharfinger.language.codes import Code
from wharfinger.language.describe import describe
from wharfinger.language.parser import parse_message
from wharfinger.language.types import Kind

READ_HOLE = 20  # steps that it takes to read one hole of a message


def message_of(context: Context, message: ast.String | None, condition: typed.Expr, *, is_require: bool) -> typed.Message:
    """The typed message of a clause; without one, the condition itself is the message."""
    if message is None:
        return typed.Message(parts=(f"{'requires' if is_require else 'rejects'} {describe(condition)}",))
    parts: list[str | typed.Expr] = []
    for part in parse_message(message, context.diagnostics):
        context.work.spend(READ_HOLE)
        found = part if isinstance(part, str) else _hole(context, part)
        if found is not None:
            parts.append(found)
    return typed.Message(parts=tuple(parts))


def _hole(context: Context, expr: ast.Expr) -> typed.Expr | None:
    found = infer(context, expr)
    if is_unknown(found):
        return None
    if found.type.kind in SCALAR | {Kind.SET}:
        return found
    help_ = f"write `{{{found.span.text}.name}}`" if found.type.kind in (Kind.POD, Kind.NODE) else None
    if found.type.kind is Kind.PODS:
        help_ = f"write `{{count({found.span.text})}}`"
    context.error(Code.P213, f"{type_text(found.type)} cannot be printed", found.span, label=type_text(found.type), help=help_)
    return None
