"""Calls of builtin functions, by the record of the function.

`has`, `curve` and the aggregates over pods have a syntax or a typing of their own and live in `special`; they are tried first. `min` and
`max` are both: what their first argument is decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wharfinger.language import ast, typed
from wharfinger.language.catalogue import ArgumentMismatch, Function, Parameter
from wharfinger.language.check.attributes import may_read
from wharfinger.language.check.context import Context, admitted, is_unknown, joined, type_text, unknown
from wharfinger.language.check.forms import form, infer
from wharfinger.language.check.kinds import SCALAR, fits
from wharfinger.language.check.literals import unit_help
from wharfinger.language.check.special import SPECIAL, special
from wharfinger.language.codes import Code
from wharfinger.language.source import Span
from wharfinger.language.suggest import closest, listed
from wharfinger.language.types import Kind, Type

ANY_NAME = "*"


@form(ast.Call)
def call(context: Context, expr: ast.Call) -> typed.Expr:
    """A call of a special form or of a builtin."""
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


def _unknown_function(context: Context, expr: ast.Call) -> typed.Expr:
    names = [f.name for f in context.catalogue.functions()]
    plain = [n for n in names if "." not in n] + [n.split(".")[0] for n in names if "." in n]
    results = sorted(n for n in names if n.startswith(f"{expr.function}."))
    for argument in expr.arguments:
        infer(context, argument.value)
    if results:
        return context.error(
            Code.P302,
            f"take a field of `{expr.function}(…)`",
            expr.span,
            label="which one?",
            help=f"it has {listed(n.split('.')[1] for n in results)}",
        )
    near = context.closest(expr.function, (*plain, *SPECIAL))
    help_ = f"did you mean `{near}`?" if near else f"functions are {listed((*plain, *SPECIAL), most=12)}"
    if context.names.get(expr.function):
        help_ = f"`{expr.function}` is a {context.names[expr.function].what}: write it without parentheses"
    return context.error(
        Code.P303, f"there is no function `{expr.function}`", expr.function_span, label="unknown function", help=help_, suggestion=near
    )


@dataclass(slots=True)
class _Bound:
    """Arguments as they are assigned to parameters."""

    positional: dict[str, ast.Argument] = field(default_factory=dict)
    variadic: list[ast.Argument] = field(default_factory=list)
    named: dict[str, ast.Argument] = field(default_factory=dict)


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
    """Whether an argument was filled in for one that the author left out."""
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
    """Assigns one argument to its parameter; what is wrong with it otherwise."""
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
    """How a function is called: "`clamp(x, low, high)`"."""
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
    context.work.spend(parameter.steps)
    fault = parameter.validate(found.value) if parameter.validate else None
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
    return admitted(context, typed.Call(span=expr.span, type=final, function=function, arguments=tuple(arguments), named=named))


def parameters_of(function: Function, count: int) -> list[Parameter]:
    """The parameter of each of `count` positional arguments."""
    extra = count - len(function.parameters)
    return [*function.parameters, *([function.variadic] * extra if function.variadic else [])]


def _mismatch_help(arguments: Sequence[typed.Expr], culprit: typed.Expr) -> str | None:
    return next((help_ for a in arguments if (help_ := unit_help(a.type.kind, culprit))), None) or next(
        (help_ for a in arguments if (help_ := unit_help(culprit.type.kind, a))), None
    )
