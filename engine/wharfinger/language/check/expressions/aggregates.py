"""Selections of pods and devices, what is counted and summed over them, and the group of the pod: `group`, `pod.group.placed` and its like.

A pod names its group itself (a PodGroup, a label of the coscheduling plugin), or the `group by` of the policy does; its placed members are
a selection. All that counts becomes a let that the author did not write, so that it is computed once however often it is read.
"""

from __future__ import annotations

from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.check.context import DEVICES, SELECTION, Context, condition, form, infer, is_unknown, type_text, unknown
from wharfinger.language.check.expressions.functions import declared_function
from wharfinger.language.check.expressions.values import of_kind, operation
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Attribute, Subject
from wharfinger.language.semantics.selector import key_fault
from wharfinger.language.semantics.typed import height
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape, Type

REDUCTIONS = {r.value: r for r in typed.Reduction}
SELECTIONS = (Kind.PODS, Kind.DEVICES)

GROUP = "group"
GROUP_NAME = "group.name"
GROUP_SIZE, GROUP_PLACED = "group.size", "group.placed"


# ── selections of pods and devices, and what is calculated of them ───────────────────────────────────────────────────────────────────


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
            if not context.place.admits(Shape.ITEM)
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


def _is_selection(context: Context, positional: list[ast.Argument]) -> bool:
    """True if the first argument is a selection. Reports nothing."""
    first = positional[0].value if positional else None
    if isinstance(first, ast.Selection):
        return True
    if isinstance(first, ast.Call):
        declared = declared_function(context, first)
        return declared is not None and declared.kind in SELECTIONS
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
    """The pods that the aggregate is taken over, by its `on:` and `within:`; None after reporting an error."""
    named = [a for a in expr.arguments if a.name is not None]
    if of_devices and [a.name for a in named] != ["on"]:
        help_ = "write `on: node` behind the selection"
        span = named[0].span if named else expr.span
        mended = "on: node" if len(named) == 1 else f"{expr.span.text[:-1].rstrip(' ,')}, on: node)" if not named else None
        message = "devices are counted on the candidate node"
        context.error(Code.P207, message, span, label="does not fit", help=help_, suggestion=mended)
        return None
    wrong = next((a for a in named if a.name not in ("on", "within")), None) or (named[1] if len(named) > 1 else None)
    if wrong:
        message = (
            f"`{expr.function}` has no argument `{wrong.name}`"
            if wrong.name not in ("on", "within")
            else "give one of `on:` and `within:`, once"
        )
        context.error(
            Code.P207,
            message,
            wrong.span,
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
    """The value of each pod that is aggregated; None for `count`, or if it is not given."""
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


# ── groups: their members, and their attributes ──────────────────────────────────────────────────────────────────────────────────────


def placed_members(context: Context, span: Span) -> typed.Expr:
    """The placed members of the pod's group: none for a pod without a group."""
    if _in_library(context, span):
        return unknown(span)
    name, others = (group_name(context, subject, span) for subject in (Subject.POD, Subject.ITEM))
    if is_unknown(name, others):
        return unknown(span)
    own = [typed.AttributeRef(span=span, type=record.type, attribute=record) for record in _namespaces(context)]
    same = operation(typed.Op.EQ, Kind.BOOL, span, others, name)
    where = operation(typed.Op.AND, Kind.BOOL, span, operation(typed.Op.EQ, Kind.BOOL, span, *own), same)
    return _let(context, GROUP, typed.Select(span=span, type=Type(Kind.PODS, Shape.POD), where=where), span)


def _namespaces(context: Context) -> list[Attribute]:
    found = (context.catalogue.attribute(subject, "namespace") for subject in (Subject.ITEM, Subject.POD))
    return [record for record in found if record is not None]


def group_attribute(context: Context, attribute: Attribute, span: Span) -> typed.Expr:
    """An attribute of the group of the pod, or of a placed pod."""
    if _in_library(context, span):
        return unknown(span)
    if attribute.path == GROUP_NAME:
        return group_name(context, attribute.subject, span)
    name = group_name(context, Subject.POD, span)
    counted = placed_members(context, span)
    if is_unknown(name, counted):
        return unknown(span)
    placed = typed.Aggregate(
        span=span,
        type=Type(Kind.COUNT, Shape.POD),
        reduction=typed.Reduction.COUNT,
        selection=counted,
        value=None,
        per=typed.Per.CLUSTER,
    )
    known = typed.AttributeRef(span=span, type=attribute.type.shaped(Shape.POD).maybe(), attribute=attribute, key=name)
    value: typed.Expr
    if attribute.path == GROUP_PLACED:
        value = placed
    elif attribute.path == GROUP_SIZE:  # without a count of the waiting members there is at least this one
        itself = typed.Const(span=span, type=Type(Kind.COUNT), value=1.0)
        value = operation(
            typed.Op.COALESCE, Kind.COUNT, span, known, operation(typed.Op.ADD, Kind.COUNT, span, placed, itself), optional=False
        )
    else:
        least = context.grouping.min_count or typed.Const(span=span, type=Type(Kind.COUNT), value=0.0)
        value = operation(typed.Op.COALESCE, Kind.COUNT, span, known, least, optional=False)
    return _let(context, f"pod.{attribute.path}", _where_there_is(name, value, span), span, name)


def group_name(context: Context, subject: Subject, span: Span) -> typed.Expr:
    """The name of the group of the pod, or of a placed pod: its own, or that of the policy's `group by`."""
    attribute = context.catalogue.attribute(subject, GROUP_NAME)
    if attribute is None:
        raise LookupError(GROUP_NAME)
    by = context.grouping.by
    if by is not None and is_unknown(by):
        return unknown(span)
    key = None
    if by is not None:
        nothing = typed.Const(span=span, type=Type(Kind.STRING), value="")
        own = by if subject is Subject.POD else _of_placed(context, by)
        key = operation(typed.Op.COALESCE, Kind.STRING, span, own, nothing, optional=False) if by.type.optional else own
    optional = by is None or by.type.optional
    return typed.AttributeRef(span=span, type=Type(Kind.STRING, subject.shape, optional), attribute=attribute, key=key)


def _of_placed(context: Context, expr: typed.Expr) -> typed.Expr:
    """The expression with the placed pod `it` in place of the pod to be placed; lets are written out."""
    context.work.spend()
    if isinstance(expr, typed.LetRef):
        return _of_placed(context, context.lets[expr.name].value)
    if isinstance(expr, typed.SubjectRef) and expr.subject is Subject.POD:
        return replace(expr, type=expr.type.shaped(Shape.ITEM), subject=Subject.ITEM)
    inside = _with_parts(expr, tuple(_of_placed(context, part) for part in typed.parts(expr)))
    if inside.type.shape is Shape.POD:
        inside = replace(inside, type=inside.type.shaped(Shape.ITEM))
    if isinstance(inside, typed.AttributeRef) and inside.attribute.subject is Subject.POD:
        of_item = context.catalogue.attribute(Subject.ITEM, inside.attribute.path)
        if of_item is None:
            raise LookupError(inside.attribute.path)
        return replace(inside, attribute=of_item)
    return inside


def _with_parts(expr: typed.Expr, inner: tuple[typed.Expr, ...]) -> typed.Expr:  # noqa: PLR0911 — one case per kind
    """The expression with other operands, in the order of `typed.parts`."""
    match expr:
        case typed.Operation():
            return replace(expr, operands=inner)
        case typed.If():
            return replace(expr, condition=inner[0], then=inner[1], otherwise=inner[2])
        case typed.Curve():
            return replace(expr, x=inner[0], points=tuple(zip(inner[1::2], inner[2::2], strict=True)))
        case typed.Call(arguments=arguments, named=names):
            rest = dict(zip(names, inner[len(arguments) :], strict=True))
            return replace(expr, arguments=inner[: len(arguments)], named=rest)
        case typed.Has():
            return replace(expr, operand=inner[0])
        case typed.Lookup() | typed.AttributeRef() if inner:
            return replace(expr, key=inner[0])
        case typed.Matches():
            return replace(expr, labels=inner[0])
    return expr


_WITHOUT = typed.Entries(("group",), (0.0,), Kind.COUNT)  # a table without the key "": the value is missing


def _where_there_is(name: typed.Expr, value: typed.Expr, span: Span) -> typed.Expr:
    """The value if the pod has a group, missing otherwise."""
    if not name.type.optional:
        return value
    nothing = typed.Const(span=span, type=Type(Kind.STRING), value="")
    missing = typed.Lookup(span=span, type=Type(Kind.COUNT, optional=True), entries=_WITHOUT, key=nothing)
    condition = typed.Has(span=span, type=Type(Kind.BOOL, Shape.POD), operand=name)
    return typed.If(span=span, type=Type(Kind.COUNT, Shape.POD, optional=True), condition=condition, then=value, otherwise=missing)


def _let(context: Context, name: str, value: typed.Expr, span: Span, missing_with: typed.Expr | None = None) -> typed.LetRef:
    """A reference to a let of that name, which is made at the first use."""
    if name not in context.lets:
        context.lets[name] = typed.Let(name=name, span=span, value=value, written=False, of_group=True, missing_with=missing_with)
        context.heights[name] = height(value, context.heights)
        context.intervals.lets[name] = context.intervals.of(value)
    return typed.LetRef(span=span, type=context.lets[name].value.type, name=name)


def _in_library(context: Context, span: Span) -> bool:
    """True, after reporting it, if the text is a library, which does not know the groups of the policy that imports it."""
    if context.grouping.library:
        help_ = "read the group in the policy, and pass the value to a function of the library"
        context.error(Code.P226, "a library has no groups", span, label="which group is meant?", help=help_)
    return context.grouping.library
