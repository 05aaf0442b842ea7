"""Calls of builtin functions, by the record of the function, and calls with special rules: `has`, `curve`, aggregates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import msgspec

from wharfinger.language import ast
from wharfinger.language.check.context import Context, admitted, constant, form, infer, is_unknown, joined, type_label, type_text, unknown
from wharfinger.language.check.expressions.aggregates import REDUCTIONS, aggregate
from wharfinger.language.check.expressions.functions import call_declared, declared_function
from wharfinger.language.check.expressions.names import may_read
from wharfinger.language.check.expressions.values import SCALAR, common_kind, fits, of_kind, operation, unit_help
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Span
from wharfinger.language.report.wording import closest, listed
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import ArgumentMismatch, Function, Parameter
from wharfinger.language.semantics.intervals import increases
from wharfinger.language.semantics.types import NUMERIC, PLAIN, Kind, Type


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
    if operand.type.kind in (Kind.LABELS, Kind.PODS, Kind.DEVICES, Kind.POD, Kind.NODE, Kind.DEVICE, Kind.TABLE, Kind.WORKLOAD):
        help_ = f'name one key: `has({operand.span.text}["…"])`' if operand.type.kind in (Kind.LABELS, Kind.TABLE) else None
        return context.error(
            Code.P206, f"{type_text(operand.type)} is always there", operand.span, label=type_text(operand.type), help=help_
        )
    found = [operand]
    if isinstance(operand, typed.AttributeRef):  # of several types: there if one of them is
        found += [of_kind(operand, each.type.kind) for each in operand.attribute.alternatives]
    asked: list[typed.Expr] = [typed.Has(span=expr.span, type=Type(Kind.BOOL, operand.type.shape), operand=each) for each in found]
    return reduce(lambda one, other: operation(typed.Op.OR, Kind.BOOL, expr.span, one, other), asked)


# ── curve ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _curve(context: Context, expr: ast.Call) -> typed.Expr:
    arguments = expr.arguments
    if not arguments or any(a.name for a in arguments) or arguments[0].to or any(a.to is None for a in arguments[1:]):
        wrong = next((a.span for i, a in enumerate(arguments) if a.name or (a.to is None) != (i == 0)), expr.span)
        return context.error(
            Code.P207,
            "`curve` takes a value and points `x -> y`",
            wrong,
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
    """True if the xs measure what `x` measures and increase."""
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


ANY_NAME = "*"


@form(ast.Call)
def call(context: Context, expr: ast.Call) -> typed.Expr:
    """A call of a function that the policy declares, of a special form or of a builtin."""
    declared = declared_function(context, expr)
    if declared is not None:
        return call_declared(context, expr, declared)
    if expr.library is not None:
        return _unknown_in_library(context, expr)
    if expr.function in SPECIAL:
        found = special(context, expr)
        if found is not None:
            return found
    function = context.catalogue.function(expr.function)
    if function is None:
        return _unknown_function(context, expr)
    if not may_read(context, function, f"{function.name}()", expr.function_span):
        return unknown(expr.span)
    return _builtin(context, expr, function)


def _unknown_in_library(context: Context, expr: ast.Call) -> typed.Expr:
    for argument in expr.arguments:
        infer(context, argument.value)
    library = context.names.get(expr.library or "")
    if not expr.library:
        return unknown(expr.span)  # reported when the text was read
    if library is not None and library.what == "import":
        library.used = True
        if library.members is None:
            return unknown(expr.span)
        functions = [name for name, member in library.members.items() if member.function is not None]
        near = context.closest(expr.function, functions)
        help_ = f"did you mean `{expr.library}.{near}`?" if near else f"it has {listed(functions)}" if functions else "it declares none"
        message = f"`{expr.library}` has no function `{expr.function}`"
        return context.error(Code.P309, message, expr.function_span, label="not in the import", help=help_)
    help_ = f"write `{expr.function}(…)` with what it needs between the parentheses"
    return context.error(
        Code.P303, f"there is no function `{expr.library}.{expr.function}`", expr.function_span, label="unknown function", help=help_
    )


def _unknown_function(context: Context, expr: ast.Call) -> typed.Expr:
    names = [f.name for f in context.catalogue.functions()]
    plain = [n for n in names if "." not in n] + [n.split(".")[0] for n in names if "." in n]
    results = sorted(n for n in names if n.startswith(f"{expr.function}."))
    for argument in expr.arguments:
        infer(context, argument.value)
    declared = context.names.get(expr.function)
    if declared is not None and declared.what in {"function", "name"}:
        return unknown(expr.span)  # its declaration has an error, which has been reported
    if results:
        return context.error(
            Code.P302,
            f"take a field of `{expr.function}(…)`",
            expr.span,
            label="which one?",
            help=f"it has {listed(n.split('.')[1] for n in results)}",
        )
    own = [name for name, binding in context.names.items() if binding.function is not None]
    near = context.closest(expr.function, (*own, *plain, *SPECIAL))
    help_ = f"did you mean `{near}`?" if near else f"functions are {listed((*plain, *SPECIAL), limit=12)}"
    if context.names.get(expr.function):
        help_ = f"`{expr.function}` is a {context.names[expr.function].what}: write it without parentheses"
    return context.error(
        Code.P303, f"there is no function `{expr.function}`", expr.function_span, label="unknown function", help=help_, suggestion=near
    )


class _Bound(msgspec.Struct):
    """Arguments as they are assigned to parameters."""

    positional: dict[str, ast.Argument] = msgspec.field(default_factory=dict)
    variadic: list[ast.Argument] = msgspec.field(default_factory=list)
    named: dict[str, ast.Argument] = msgspec.field(default_factory=dict)


def _builtin(context: Context, expr: ast.Call, function: Function) -> typed.Expr:
    bound = _bind(context, expr, function)
    if bound is None:
        return unknown(expr.span)
    arguments = [_argument(context, function, p, bound.positional.get(p.name), expr.span) for p in function.parameters]
    variadic = function.variadic
    arguments += [_argument(context, function, variadic, a, expr.span) for a in bound.variadic] if variadic else []
    named = {
        n: _argument(context, function, function.named.get(n) or function.named[ANY_NAME], a, expr.span) for n, a in bound.named.items()
    }
    if is_unknown(*(a for a in (*arguments, *named.values()) if not _is_default(a, expr))):
        return unknown(expr.span)
    return _result(context, expr, function, arguments, named)


def _is_default(argument: typed.Expr, expr: ast.Call) -> bool:
    """True if an argument is a default for one that the author left out."""
    return isinstance(argument, typed.Const) and argument.span == expr.span


def _bind(context: Context, expr: ast.Call, function: Function) -> _Bound | None:
    bound = _Bound()
    faults = [fault for argument in expr.arguments if (fault := _assign(bound, function, argument))]
    if faults:
        for argument in expr.arguments:
            infer(context, argument.value)
        for span, message in faults:
            context.error(Code.P207, message, span, label="does not fit", help=f"it is {signature(function)}")
        return None
    absent = [p.name for p in function.parameters if p.required and p.name not in bound.positional]
    if absent:
        message = f"`{function.name}` needs {' and '.join(f'`{name}`' for name in absent)}"
        context.error(Code.P207, message, expr.span, label="argument missing", help=f"it is {signature(function)}")
        return None
    return bound


def _assign(bound: _Bound, function: Function, argument: ast.Argument) -> tuple[Span, str] | None:
    """Assign one argument to its parameter; return the error if it does not fit."""
    if argument.to is not None:
        return argument.span, f"`{function.name}` takes no points `x -> y`; `curve` does"
    if argument.name is None:
        return _assign_positional(bound, function, argument)
    name = argument.name
    if name in bound.positional or name in bound.named:
        return argument.span, f"`{name}` is given twice"
    if name in {p.name for p in function.parameters}:
        bound.positional[name] = argument
    elif name in function.named or ANY_NAME in function.named:
        bound.named[name] = argument
    else:
        near = closest(name, (*(p.name for p in function.parameters), *function.named))
        return argument.span, f"`{function.name}` has no argument `{name}`" + (f"; did you mean `{near}`?" if near else "")
    return None


def _assign_positional(bound: _Bound, function: Function, argument: ast.Argument) -> tuple[Span, str] | None:
    free = next((p.name for p in function.parameters if p.name not in bound.positional), None)
    if free is not None:
        bound.positional[free] = argument
    elif function.variadic:
        bound.variadic.append(argument)
    else:
        most = len(function.parameters)
        return argument.span, f"`{function.name}` takes {'no arguments' if not most else f'at most {most} argument' + 's' * (most > 1)}"
    return None


def signature(function: Function) -> str:
    """The signature of a function: "`clamp(x, low, high)`"."""
    parts = [p.name if p.required else f"{p.name}?" for p in function.parameters]
    parts += [f"{function.variadic.name}…"] if function.variadic else []
    parts += [f"{name}:" for name in function.named if name != ANY_NAME]
    name, dot, result = function.name.partition(".")
    return f"`{name}({', '.join(parts)}){dot}{result}`"


def _argument(context: Context, function: Function, parameter: Parameter, argument: ast.Argument | None, span: Span) -> typed.Expr:
    if argument is None:
        return typed.Const(span=span, type=Type(_default_kind(parameter)), value=parameter.default)
    found = infer(context, argument.value)
    if is_unknown(found):
        return found
    if parameter.name == "metric" and not isinstance(found, typed.MetricRef):
        return context.error(Code.P206, f"`{function.name}` takes a metric of this policy", found.span, label="not a metric")
    if not _takes(parameter, found.type):
        return _wrong_kind(context, function, parameter, found)
    return _literal(context, function, parameter, found) if parameter.literal or parameter.validate else found


def _default_kind(parameter: Parameter) -> Kind:
    if isinstance(parameter.default, bool):
        return Kind.BOOL
    if isinstance(parameter.default, str):
        return Kind.STRING
    return min(parameter.kinds & {Kind.NUMBER, Kind.COUNT} or parameter.kinds, key=lambda k: k.value, default=Kind.NUMBER)


def _takes(parameter: Parameter, type_: Type) -> bool:
    if not parameter.kinds:
        return type_.kind in SCALAR or type_.kind is Kind.SET
    return any(fits(type_.kind, kind) for kind in parameter.kinds)


def _wrong_kind(context: Context, function: Function, parameter: Parameter, found: typed.Expr) -> typed.Expr:
    kinds = sorted(k.value for k in parameter.kinds)
    wanted = "a number" if len(kinds) > 3 else " or ".join(kinds) or "a value"
    message = f"`{parameter.name}` of `{function.name}` is {wanted}, not {type_text(found.type)}"
    help_ = unit_help(next(iter(parameter.kinds)), found) if len(kinds) == 1 else None
    return context.error(Code.P206, message, found.span, label=type_text(found.type), help=help_)


def _literal(context: Context, function: Function, parameter: Parameter, found: typed.Expr) -> typed.Expr:
    if not isinstance(found, typed.Const):
        if not parameter.literal:
            return found
        return context.error(
            Code.P217, f"`{parameter.name}` of `{function.name}` is written out, not calculated", found.span, label="not a literal"
        )
    context.work.spend(parameter.steps(str(found.value)) if parameter.steps else 1)
    near = (context.closest,) if parameter.suggests else ()
    fault = parameter.validate(found.value, *near) if parameter.validate else None
    if fault:
        return context.error(Code.P218, f"`{parameter.name}` of `{function.name}`: {fault}", found.span, label="refused")
    return found


def _result(
    context: Context, expr: ast.Call, function: Function, arguments: Sequence[typed.Expr], named: dict[str, typed.Expr]
) -> typed.Expr:
    try:
        result = function.result(tuple(a.type for a in arguments))
    except ArgumentMismatch as fault:
        culprit = arguments[min(fault.index, len(arguments) - 1)]
        return context.error(
            Code.P206, f"`{function.name}`: {fault}", culprit.span, label=type_text(culprit.type), help=_mismatch_help(arguments, culprit)
        )
    shape, _ = joined(*arguments, *named.values())
    if not function.own_shape:
        result = result.shaped(max(result.shape, shape))
    strict = [a for p, a in zip(parameters_of(function, len(arguments)), arguments, strict=True) if not p.optional_ok]
    optional = result.optional or any(a.type.optional for a in (*strict, *named.values()))
    final = Type(result.kind, result.shape, optional, result.element)
    if function.folded and (value := _folded(function, arguments)) is not None:
        return typed.Const(span=expr.span, type=Type(result.kind), value=value)
    return admitted(context, typed.Call(span=expr.span, type=final, function=function, arguments=tuple(arguments), named=named))


def _folded(function: Function, arguments: Sequence[typed.Expr]) -> Any:
    """The value of a call on literals; None if an argument is none, or if the call is missing."""
    values = [argument.value for argument in arguments if isinstance(argument, typed.Const)]
    return function.scalar(*values) if len(values) == len(arguments) else None


def parameters_of(function: Function, count: int) -> list[Parameter]:
    """The parameter of each of `count` positional arguments."""
    extra = count - len(function.parameters)
    return [*function.parameters, *([function.variadic] * extra if function.variadic else [])]


def _mismatch_help(arguments: Sequence[typed.Expr], culprit: typed.Expr) -> str | None:
    return next((help_ for a in arguments if (help_ := unit_help(a.type.kind, culprit))), None) or next(
        (help_ for a in arguments if (help_ := unit_help(culprit.type.kind, a))), None
    )
