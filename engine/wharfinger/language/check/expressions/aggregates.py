"""Selections of pods, and what is counted and summed over them."""

from __future__ import annotations

from dataclasses import replace

from wharfinger.language.check.context import DEVICES, SELECTION, Context, condition, form, infer, is_unknown, type_text, unknown
from wharfinger.language.check.expressions.functions import own_function
from wharfinger.language.check.expressions.values import of_kind
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.selector import key_fault
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape, Type
from wharfinger.language.syntax import ast

REDUCTIONS = {r.value: r for r in typed.Reduction}
SELECTIONS = (Kind.PODS, Kind.DEVICES)


@form(ast.Selection)
def selection(context: Context, expr: ast.Selection) -> typed.Expr:
    """`pods` and `pods where predicate`; the same of devices."""
    of_devices = expr.of == "devices"
    where = condition(context.at(DEVICES if of_devices else SELECTION), expr.where, "`where`") if expr.where else None
    if where is not None and is_unknown(where):
        return unknown(expr.span)
    shape = Shape.POD if where is not None else Shape.CONST
    return typed.Select(span=expr.span, type=Type(Kind.DEVICES if of_devices else Kind.PODS, shape), where=where)


def aggregate(context: Context, expr: ast.Call) -> typed.Expr | None:
    """`count(pods where …, on: node)` and similar calls; None for a function of numbers (`min(a, b)`)."""
    reduction = REDUCTIONS[expr.function]
    positional = [a for a in expr.arguments if a.name is None]
    if context.catalogue.function(expr.function) and not _is_selection(context, positional):
        return None
    chosen = infer(context, positional[0].value) if positional else None
    if chosen is None or chosen.type.kind not in (*SELECTIONS, Kind.UNKNOWN):
        return _not_pods(context, expr, chosen)
    of_devices = chosen.type.kind is Kind.DEVICES
    per = _extent(context, expr, of_devices=of_devices)
    if is_unknown(chosen):  # of what the value is read is not known either
        return unknown(expr.span)
    value = _measured(context.at(DEVICES if of_devices else SELECTION), expr, reduction, positional)
    if per is None or is_unknown(*((value,) if value else ())) or (value is None) != (reduction is typed.Reduction.COUNT):
        return unknown(expr.span)
    if not context.place.aggregates:
        what = "devices" if of_devices else "pods"
        help_ = (
            f"put conditions that count {what} in a `filter` or behind `when`"
            if Shape.ITEM not in _shapes(context)
            else "count outside of the selection"
        )
        return context.error(Code.P220, f"{context.place.name} cannot count {what}", expr.span, label=f"counts {what}", help=help_)
    return typed.Aggregate(
        span=expr.span,
        type=_aggregate_type(reduction, value, per),
        reduction=reduction,
        selection=chosen,
        value=value,
        per=per[0],
        topology_key=per[1],
    )


def _shapes(context: Context) -> set[Shape]:
    return {shape for shape in Shape if context.place.admits(shape)}


def _is_selection(context: Context, positional: list[ast.Argument]) -> bool:
    """True if the first argument is a selection. Reports nothing."""
    first = positional[0].value if positional else None
    if isinstance(first, ast.Selection):
        return True
    if isinstance(first, ast.Call):
        own = own_function(context, first)
        return own is not None and own.kind in SELECTIONS
    quiet = replace(context, diagnostics=Diagnostics())
    return isinstance(first, (ast.Name, ast.Member)) and infer(quiet, first).type.kind in SELECTIONS


def _not_pods(context: Context, expr: ast.Call, chosen: typed.Expr | None) -> typed.Expr:
    for argument in expr.arguments[1:]:
        if argument.name is None:
            infer(context, argument.value)
    name = expr.function
    help_ = f"for example `{name}(pods where it.namespace == pod.namespace{'' if name == 'count' else ', it.requests.cpu'}, on: node)`"
    if chosen is None:
        return context.error(Code.P207, f"`{name}` needs a selection of pods", expr.span, label="argument missing", help=help_)
    return context.error(
        Code.P206,
        f"`{name}` is over a selection of pods, not {type_text(chosen.type)}",
        chosen.span,
        label=type_text(chosen.type),
        help=help_,
    )


def _extent(context: Context, expr: ast.Call, *, of_devices: bool) -> tuple[typed.Per, str | None] | None:
    """What the aggregate is taken over, by its `on:` and `within:`; None when they are wrong."""
    named = [a for a in expr.arguments if a.name is not None]
    if of_devices and [a.name for a in named] != ["on"]:
        help_ = "write `on: node` behind the selection"
        span = named[0].span if named else expr.span
        mended = "on: node" if len(named) == 1 else f"{expr.span.text[:-1].rstrip(' ,')}, on: node)" if not named else None
        message = "devices are counted on the candidate node"
        context.error(Code.P207, message, span, label="does not fit", help=help_, suggestion=mended)
        return None
    odd = next((a for a in named if a.name not in ("on", "within")), None) or (named[1] if len(named) > 1 else None)
    if odd:
        message = (
            f"`{expr.function}` has no argument `{odd.name}`"
            if odd.name not in ("on", "within")
            else "give one of `on:` and `within:`, once"
        )
        context.error(
            Code.P207,
            message,
            odd.span,
            label="does not fit",
            help='`on: node`, or `within: "<label key of nodes>"`, or neither for the whole cluster',
        )
        return None
    if not named:
        return typed.Per.CLUSTER, None
    return _on_node(context, named[0]) if named[0].name == "on" else _within(context, named[0])


def _on_node(context: Context, argument: ast.Argument) -> tuple[typed.Per, str | None] | None:
    if isinstance(argument.value, ast.Name) and argument.value.name == "node":
        return typed.Per.NODE, None
    context.error(
        Code.P207,
        "`on:` takes `node`",
        argument.value.span,
        label="not `node`",
        help='for the nodes with the same label: `within: "<label key>"`',
    )
    return None


def _within(context: Context, argument: ast.Argument) -> tuple[typed.Per, str | None] | None:
    value = argument.value
    if not isinstance(value, ast.String):
        context.error(Code.P217, "`within:` is a label key of nodes, in quotes", value.span, label="not a text in quotes")
    elif fault := key_fault(value.value):
        context.error(Code.P310, f"no node can have this label key: {fault}", value.span, label="not a key")
    else:
        return typed.Per.DOMAIN, value.value
    return None


def _measured(context: Context, expr: ast.Call, reduction: typed.Reduction, positional: list[ast.Argument]) -> typed.Expr | None:
    """What is summed up of each pod; None for `count`, or where it is not there."""
    wanted = 1 if reduction is typed.Reduction.COUNT else 2
    if len(positional) != wanted:
        text = "only a selection" if wanted == 1 else "a selection and a value, for example `it.requests.cpu`"
        context.error(
            Code.P207,
            f"`{expr.function}` takes {text}",
            positional[wanted].span if len(positional) > wanted else expr.span,
            label="does not fit",
        )
        return unknown(expr.span)
    if wanted == 1:
        return None
    value = of_kind(infer(context, positional[1].value), Kind.NUMBER)
    kinds = NUMERIC - ({Kind.TIME} if reduction is typed.Reduction.SUM else set())
    if value.type.kind not in kinds | {Kind.UNKNOWN}:
        return context.error(
            Code.P206, f"`{expr.function}` is of numbers, not of {type_text(value.type)}", value.span, label=type_text(value.type)
        )
    return value


def _aggregate_type(reduction: typed.Reduction, value: typed.Expr | None, per: tuple[typed.Per, str | None]) -> Type:
    kind = Kind.COUNT if value is None else value.type.kind
    if reduction is typed.Reduction.AVG and kind is Kind.COUNT:
        kind = Kind.NUMBER
    optional = per[0] is typed.Per.DOMAIN or reduction not in (typed.Reduction.COUNT, typed.Reduction.SUM)
    return Type(kind, Shape.POD if per[0] is typed.Per.CLUSTER else Shape.NODE, optional)
