"""Functions that a policy declares: `let headroom(x: memory) = …`.

The body is checked at its definition, with its parameters as values of the declared types. A call then checks it again with its arguments.
The result becomes a generated let with the name of the call (`headroom(node.free.memory)`). So calls with equal arguments share one let, an
argument is evaluated once, and the later stages need not handle functions. Each call spends steps for itself and for each part of the
body, which bounds what functions that call each other many times can grow to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.check.context import Binding, Context, Place, WorkBudget, admitted, infer, is_unknown, type_text, unknown
from wharfinger.language.check.expressions.values import assignable, unit_help
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Label, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.typed import height
from wharfinger.language.semantics.types import Kind, Type

MAX_DEPTH = 60
"""The maximum depth of calls: code that walks through expressions is recursive, and follows lets."""
CALL_STEPS = 20
"""The steps of a check for each call, in addition to those for the body and its lets."""
LET_STEPS = 8  # for each of these lets: its name, its height and its interval
MAX_CALL_LENGTH = 1000  # characters of a let that is named as a call is
ANYWHERE = Place(name="a function", subjects=frozenset(Subject), aggregates=True)


class DeclaredFunction(msgspec.Struct, kw_only=True):
    """A function that a policy or library declares; `name` is qualified, `context` that of its declaration.

    `parts` is how many steps a call takes, `depth` how deep the body is with those of the functions it calls, `kind` that of its result.
    `unused` are the parameters that the body does not read. `broken`: it has errors, which have been reported.
    """

    name: str
    item: ast.Function
    context: Context
    types: tuple[Type, ...]
    parts: int
    depth: int = 0
    unused: tuple[ast.Parameter, ...] = ()
    kind: Kind = Kind.UNKNOWN
    broken: bool = False

    @property
    def signature(self) -> str:
        """The signature of the function: "`headroom(x: memory)`"."""
        return f"`{self.item.name}({', '.join(f'{p.name}: {t}' for p, t in zip(self.item.parameters, self.types, strict=True))})`"


def check_declaration(declared: DeclaredFunction) -> None:
    """Check a function where it is declared, with any values of the declared types, and note what it gives."""
    context = _scratch(declared.context)
    given = [
        typed.ParamRef(span=parameter.span, type=type_.maybe(), name=f"{declared.name}.{parameter.name}")
        for parameter, type_ in zip(declared.item.parameters, declared.types, strict=True)
    ]
    inner = _inside(context, declared, given)
    value = infer(
        replace(inner, place=ANYWHERE, diagnostics=declared.context.diagnostics, notes=declared.context.notes), declared.item.value
    )
    declared.kind = value.type.kind
    if declared.kind in (Kind.POD, Kind.NODE, Kind.LABELS, Kind.TABLE):
        help_ = "a function gives a single value, a set, or a selection of pods"
        declared.context.error(
            Code.P213, f"a function cannot return {type_text(value.type)}", value.span, label=type_text(value.type), help=help_
        )
        declared.kind = Kind.UNKNOWN
    declared.broken = declared.kind is Kind.UNKNOWN
    if not declared.broken:
        declared.unused = tuple(parameter for parameter in declared.item.parameters if not inner.names[parameter.name].used)


def _scratch(context: Context) -> Context:
    """The same context with copies of what checking adds to."""
    intervals = dataclasses.replace(context.intervals, lets=dict(context.intervals.lets))
    return replace(context, lets=dict(context.lets), heights=dict(context.heights), intervals=intervals, calls=dict(context.calls))


def _inside(context: Context, declared: DeclaredFunction, given: Sequence[typed.Expr]) -> Context:
    """The context of the body where its parameters are the given values, as seen from a call in `context`."""
    names = dict(declared.context.names)
    for parameter, value in zip(declared.item.parameters, given, strict=True):
        reference = _Reference(value, context.work)
        names[parameter.name] = Binding(name=parameter.name, what="parameter", span=parameter.name_span, reference=reference)
    context.work.spend(CALL_STEPS + declared.parts + len(names) // 64)
    return replace(context, names=names, authority=declared.context.authority, diagnostics=Diagnostics(), notes=None)


class _Reference(msgspec.Struct, frozen=True):
    """A value that can be used anywhere. Each use costs as many steps as the value is long, because a string or a list may be long."""

    value: typed.Expr
    work: WorkBudget

    def __call__(self, at: Span) -> typed.Expr:
        if isinstance(self.value, typed.Const):
            self.work.count_building(_length(self.value.value))
        return replace(self.value, span=at)


def _length(value: object) -> int:
    """About how many characters a constant has when it is written out."""
    if isinstance(value, frozenset):
        return sum(map(_length, value))
    return len(value) if isinstance(value, str) else 1


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def declared_function(context: Context, expr: ast.Call) -> DeclaredFunction | None:
    """The declared function that a call means, which counts as used; None if it means none."""
    found: Binding | None
    if expr.library is None:
        found = context.names.get(expr.function)
    else:
        library = context.names.get(expr.library)
        found = library.members.get(expr.function) if library is not None and library.members else None
        if library is not None and found is not None:
            library.used = True
    if found is None or not isinstance(found.function, DeclaredFunction):
        return None
    found.used = True
    return found.function


def call_declared(context: Context, expr: ast.Call, declared: DeclaredFunction) -> typed.Expr:
    """The result of a call of a declared function."""
    given = _arguments(context, expr, declared)
    if given is None or declared.broken:
        return unknown(expr.span)
    given = [value if _is_simple(value) else _let(context, f"({describe(value)})", value, value.span) for value in given]
    texts = [describe(value) for value in given]
    context.work.count_building(sum(map(len, texts)))
    key = (declared.name, context.place.name, *((text, value.type) for text, value in zip(texts, given, strict=True)))
    if key not in context.calls:
        value = _called(context, expr, declared, given)
        if is_unknown(value):
            return value
        called = f"{declared.name}({', '.join(texts)})"
        context.calls[key] = value if _is_simple(value) else _let(context, called, value, declared.item.name_span)
    found = context.calls[key]
    if isinstance(found, typed.LetRef) and context.heights.get(found.name, 0) > MAX_DEPTH:
        message = f"this call is more than {MAX_DEPTH} deep, counting the functions and lets it needs"
        return context.error(Code.P005, message, expr.span, label="nested too deep", help="calculate with fewer functions")
    return admitted(context, replace(found, span=expr.span))


def _called(context: Context, expr: ast.Call, declared: DeclaredFunction, given: Sequence[typed.Expr]) -> typed.Expr:
    """The body with the given values; reports its errors at the call."""
    inner = _inside(context, declared, given)
    value = infer(inner, declared.item.value)
    fault = next(iter(inner.diagnostics), None)
    if fault is None:
        return value
    others = (Label(fault.span, fault.label or "here"),)
    message = f"`{declared.item.name}` cannot be called like this: {fault.message}"
    if fault.code in {Code.P005, Code.P222}:  # of a call in the body, with its subject
        return context.error(fault.code, fault.message, expr.span, label="this call", others=others, help=fault.help)
    return context.error(Code.P222, message, expr.span, label="this call", others=others, help=fault.help)


def _is_simple(value: typed.Expr) -> bool:
    """True if a value can be repeated at no cost."""
    if isinstance(value, typed.AttributeRef):
        return value.key is None or isinstance(value.key, typed.Const)
    return isinstance(value, (typed.Const, typed.ParamRef, typed.LetRef, typed.MetricRef))


def _let(context: Context, text: str, value: typed.Expr, span: Span) -> typed.Expr:
    """A let that the author did not write, with a text for its name that reads as one operand."""
    context.work.count_building(len(text))
    known = context.lets.get(text)
    if known is not None and known.value == value and known.value.type == value.type:
        return typed.LetRef(span=span, type=value.type, name=text)
    context.work.spend(LET_STEPS)
    name = text if len(text) <= MAX_CALL_LENGTH else f"{text.partition('(')[0]}(…)"
    name = name if name not in context.lets else f"{name} #{len(context.lets)}"
    context.lets[name] = typed.Let(name=name, span=span, value=value, written=False)
    context.heights[name] = height(value, context.heights)
    context.intervals.lets[name] = context.intervals.of(value)
    return typed.LetRef(span=span, type=value.type, name=name)


class _Given(msgspec.Struct):
    """Arguments by the name of their parameter."""

    by_name: dict[str, ast.Argument] = msgspec.field(default_factory=dict)
    fault: tuple[Span, str] | None = None


def _arguments(context: Context, expr: ast.Call, declared: DeclaredFunction) -> list[typed.Expr] | None:
    """The values for the parameters, in order; None after reporting an error."""
    names = [parameter.name for parameter in declared.item.parameters]
    given = _assigned(expr, declared, names)
    if given.fault is not None:
        for argument in expr.arguments:
            infer(context, argument.value)
        context.error(Code.P207, given.fault[1], given.fault[0], label="does not fit", help=f"it is {declared.signature}")
        return None
    values = {name: infer(context, given.by_name[name].value) for name in names}
    right = True
    for name, type_ in zip(names, declared.types, strict=True):
        value = values[name]
        if is_unknown(value):
            right = False
        elif not assignable(value.type, type_):
            message = f"`{name}` of `{declared.item.name}` is {type_}, not {type_text(value.type)}"
            context.error(Code.P206, message, value.span, label=type_text(value.type), help=unit_help(type_.kind, value))
            right = False
    return [values[name] for name in names] if right else None


def _assigned(expr: ast.Call, declared: DeclaredFunction, names: Sequence[str]) -> _Given:
    given = _Given()
    for argument in expr.arguments:
        free = next((name for name in names if name not in given.by_name), None)
        name = argument.name or free
        if argument.to is not None:
            given.fault = argument.span, f"`{declared.item.name}` takes no points `x -> y`; `curve` does"
        elif name is None:
            given.fault = argument.span, f"`{declared.item.name}` takes {len(names)} argument{'s' * (len(names) != 1)}"
        elif name not in names:
            given.fault = argument.span, f"`{declared.item.name}` has no parameter `{name}`"
        elif name in given.by_name:
            given.fault = argument.span, f"`{name}` is given twice"
        else:
            given.by_name[name] = argument
    absent = [f"`{name}`" for name in names if name not in given.by_name]
    if absent and given.fault is None:
        given.fault = expr.span, f"`{declared.item.name}` needs {' and '.join(absent)}"
    return given
