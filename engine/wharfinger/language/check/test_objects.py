"""The nodes and pods that a test declares: fields that exist, values that fit them."""

from __future__ import annotations

import re

from wharfinger.language import ast, typed
from wharfinger.language.check.context import Context, constant, is_unknown, type_text
from wharfinger.language.check.forms import infer
from wharfinger.language.codes import Code
from wharfinger.language.source import Span
from wharfinger.language.suggest import closest, listed
from wharfinger.language.test_fields import FIELDS, Field, Form, Many
from wharfinger.language.test_steps import ObjectKind
from wharfinger.language.types import Kind

_TAINT = re.compile(r"[^=:\s]+(=[^:\s]*)?:(NoSchedule|PreferNoSchedule|NoExecute)")
_KINDS = {Form.TEXT: Kind.STRING, Form.TAINT: Kind.STRING, Form.TRUTH: Kind.BOOL, Form.WHOLE: Kind.COUNT, Form.DURATION: Kind.DURATION}
_RESOURCE_KINDS = {"cpu": Kind.CPU, "memory": Kind.MEMORY, "ephemeral_storage": Kind.MEMORY, "ephemeral-storage": Kind.MEMORY}
Value = ast.Expr | tuple[ast.ObjectField, ...]


def check_fields(context: Context, kind: ObjectKind, fields: tuple[ast.ObjectField, ...]) -> None:
    """Reports the fields of a test object that do not exist and the values that do not fit."""
    known = FIELDS[kind]
    for given in fields:
        field = known.get(given.name)
        if field is None:
            _unknown_field(context, kind, given)
        else:
            _check_value(context, given, field)


def _unknown_field(context: Context, kind: ObjectKind, given: ast.ObjectField) -> None:
    known = FIELDS[kind]
    near = context.closest(given.name, known)
    help_ = f"did you mean `{near}`?" if near else f"its fields are {listed(known, most=20)}"
    if "/" in given.name or given.name in _RESOURCE_KINDS:
        inside = "resources" if kind is ObjectKind.NODE else "requests"
        key = given.name if given.name.isidentifier() else f'"{given.name}"'
        help_ = f"resources stand in `{inside}: {{ {key}: … }}`"
    message = f"a {kind.value} of a test has no field `{given.name}`"
    context.error(Code.P703, message, name_span(given), label="unknown field", help=help_, suggestion=near)


def name_span(given: ast.ObjectField) -> Span:
    """Where the name of a field stands."""
    start = given.span.start
    quotes = 2 if given.span.text[:1] in ('"', "'") else 0
    return Span(given.span.source, start, start + len(given.name) + quotes)


def _check_value(context: Context, given: ast.ObjectField, field: Field) -> None:
    if field.many is Many.BY_KEY:
        _check_keys(context, given, field)
    elif isinstance(given.value, tuple):
        _misfit(context, given, f"`{given.name}` is {_wanted(field)}")
    elif field.many is Many.ONE:
        _check_one(context, given.name, given.value, field)
    elif isinstance(given.value, ast.SetLiteral):
        for item in given.value.items:
            _check_one(context, given.name, item, field)
    else:
        _misfit(context, given, f"`{given.name}` is a list", f"write `{given.name}: [{given.value.span.text}]`")


def _check_keys(context: Context, given: ast.ObjectField, field: Field) -> None:
    if not isinstance(given.value, tuple):
        _misfit(context, given, f"`{given.name}` has keys", f"write `{given.name}: {{ key: {given.value.span.text} }}`")
        return
    for inner in given.value:
        if field.keys and inner.name not in field.keys:
            near = context.closest(inner.name, field.keys)
            help_ = f"did you mean `{near}`?" if near else f"its keys are {listed(field.keys)}"
            context.error(Code.P703, f"`{given.name}` has no `{inner.name}`", name_span(inner), label="unknown field", help=help_)
        elif isinstance(inner.value, tuple):
            _misfit(context, inner, f"`{inner.name}` is {_wanted(field)}")
        else:
            _check_one(context, inner.name, inner.value, field)


def _misfit(context: Context, given: ast.ObjectField, message: str, help_: str | None = None) -> None:
    value = given.value
    span = value.span if isinstance(value, ast.Expr) else given.span
    context.error(Code.P706, message, span, label="does not fit", help=help_)


def _wanted(field: Field) -> str:
    return f"a list; each is {field.form.value}" if field.many is Many.LIST else field.form.value


def _check_one(context: Context, name: str, value: ast.Expr, field: Field) -> None:
    if not is_literal(value):
        infer(context.at(constant("a test object")), value)
        context.error(Code.P706, f"`{name}` is written out", value.span, label="not a literal")
        return
    found = infer(context.at(constant("a test object")), value)
    if not isinstance(found, typed.Const) or is_unknown(found):
        return
    if fault := _fault(name, found, field):
        message, help_ = fault
        context.error(Code.P706, message, value.span, label=type_text(found.type), help=help_)


def is_literal(value: ast.Expr) -> bool:
    """Whether this is a number (perhaps negative), a text, a bool, or a list of them."""
    if isinstance(value, ast.SetLiteral):
        return all(is_literal(item) and not isinstance(item, ast.SetLiteral) for item in value.items)
    inner = value.operand if isinstance(value, ast.Unary) and value.op is ast.UnaryOp.MINUS else value
    return isinstance(inner, ast.Number) or (inner is value and isinstance(inner, (ast.String, ast.Boolean)))


def _fault(name: str, found: typed.Const, field: Field) -> tuple[str, str | None] | None:
    """What is wrong with a value: a sentence and how to mend it; None when it fits."""
    kind, text = found.type.kind, found.span.text
    if field.form is Form.AMOUNT:
        return _amount_fault(name, found)
    wanted = _KINDS[field.form]
    if kind is not wanted:
        help_ = f'write it in quotes: `"{text}"`' if wanted is Kind.STRING else None
        return f"`{name}` is {field.form.value}, not {type_text(found.type)}", help_
    if field.form is Form.TAINT and not _TAINT.fullmatch(found.value):
        return f"`{name}`: {field.form.value}", 'for example `"dedicated=gpu:NoSchedule"`'
    if field.choices and found.value not in field.choices:
        near = closest(found.value, field.choices)
        return f"`{name}` is one of {listed(field.choices)}", f"did you mean `{near}`?" if near else None
    return None


def _amount_fault(name: str, found: typed.Const) -> tuple[str, str | None] | None:
    kind = found.type.kind
    wanted = _RESOURCE_KINDS.get(name)
    plain = kind in (Kind.COUNT, Kind.NUMBER)
    fits = plain or kind is wanted or (wanted is None and kind is Kind.MEMORY)
    if fits and found.value >= 0:
        return None
    if fits:
        return f"`{name}` is 0 or more", None
    example = {Kind.CPU: "for example `4cpu` or `500m`", Kind.MEMORY: "for example `16Gi`"}.get(wanted or Kind.COUNT)
    return f"`{name}` is {wanted.value if wanted else 'a number'}, not {type_text(found.type)}", example
