"""Values that are known when the policy is checked: defaults and ranges of params, options of metrics, tiers, quanta."""

from __future__ import annotations

from typing import Any

from wharfinger.language import ast, typed
from wharfinger.language.check.context import Context, constant, is_unknown, type_text
from wharfinger.language.check.forms import infer
from wharfinger.language.check.kinds import assignable
from wharfinger.language.check.literals import unit_help
from wharfinger.language.codes import Code
from wharfinger.language.operators import OPERATORS
from wharfinger.language.types import Kind, Type


def folded(expr: typed.Expr) -> Any:
    """The value of a calculation with literals, or None when it is not one."""
    if isinstance(expr, typed.Const):
        return expr.value
    if not isinstance(expr, typed.Operation):
        return None
    values = [folded(operand) for operand in expr.operands]
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return None
    operator = OPERATORS[expr.op]
    return None if operator.interval is None or not operator.strict else operator.meaning(*values)


def literal_of(context: Context, expr: ast.Expr, wanted: Type, place: str, code: Code = Code.P211) -> typed.Const | None:
    """The literal that stands for a value of the wanted type, or None after reporting why there is none."""
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
