"""The group of the pod in expressions: `group`, `pod.group.name`, `it.group.name`, `pod.group.placed` and its like.

A pod names its group itself (a PodGroup, a label of the coscheduling plugin), or the `group by` of the policy does. All that counts becomes
a let that the author did not write, so that it is computed once however often it is read.
"""

from __future__ import annotations

from dataclasses import replace

from wharfinger.language.check.context import Context, is_unknown, unknown
from wharfinger.language.check.expressions.values import operation
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Attribute, Subject
from wharfinger.language.semantics.typed import height
from wharfinger.language.semantics.types import Kind, Shape, Type

GROUP = "group"
NAME = "group.name"
SIZE, MINIMUM, PLACED = "group.size", "group.min", "group.placed"
_SHAPES = {Subject.POD: Shape.POD, Subject.ITEM: Shape.ITEM}


def placed_members(context: Context, span: Span) -> typed.Expr:
    """The placed members of the pod's group: none for a pod without a group."""
    if _in_library(context, span):
        return unknown(span)
    name, others = (named(context, subject, span) for subject in (Subject.POD, Subject.ITEM))
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
    if attribute.path == NAME:
        return named(context, attribute.subject, span)
    name = named(context, Subject.POD, span)
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
    if attribute.path == PLACED:
        value = placed
    elif attribute.path == SIZE:  # where nobody counts the members that wait, at least this one does
        itself = typed.Const(span=span, type=Type(Kind.COUNT), value=1.0)
        value = operation(
            typed.Op.COALESCE, Kind.COUNT, span, known, operation(typed.Op.ADD, Kind.COUNT, span, placed, itself), optional=False
        )
    else:
        least = context.grouping.min_count or typed.Const(span=span, type=Type(Kind.COUNT), value=0.0)
        value = operation(typed.Op.COALESCE, Kind.COUNT, span, known, least, optional=False)
    return _let(context, f"pod.{attribute.path}", _where_there_is(name, value, span), span, name)


def named(context: Context, subject: Subject, span: Span) -> typed.Expr:
    """The name of the group of the pod, or of a placed pod: its own, or that of the policy's `group by`."""
    attribute = context.catalogue.attribute(subject, NAME)
    if attribute is None:
        raise LookupError(NAME)
    by = context.grouping.by
    if by is not None and is_unknown(by):
        return unknown(span)
    key = None
    if by is not None:
        nothing = typed.Const(span=span, type=Type(Kind.STRING), value="")
        own = by if subject is Subject.POD else of_placed(context, by)
        key = operation(typed.Op.COALESCE, Kind.STRING, span, own, nothing, optional=False) if by.type.optional else own
    optional = by is None or by.type.optional
    return typed.AttributeRef(span=span, type=Type(Kind.STRING, _SHAPES[subject], optional), attribute=attribute, key=key)


def of_placed(context: Context, expr: typed.Expr) -> typed.Expr:
    """The expression with the placed pod `it` in place of the pod to be placed; lets are written out."""
    context.work.spend()
    if isinstance(expr, typed.LetRef):
        return of_placed(context, context.lets[expr.name].value)
    if isinstance(expr, typed.SubjectRef) and expr.subject is Subject.POD:
        return replace(expr, type=expr.type.shaped(Shape.ITEM), subject=Subject.ITEM)
    inside = _with_parts(expr, tuple(of_placed(context, part) for part in typed.parts(expr)))
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


_WITHOUT = typed.Entries(("group",), (0.0,), Kind.COUNT)  # a table that has nothing under the key "": what is looked up is missing


def _where_there_is(name: typed.Expr, value: typed.Expr, span: Span) -> typed.Expr:
    """The value where the pod has a group, and missing elsewhere."""
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
        help_ = "write what speaks of the group in the policy, and give it to a function of the library"
        context.error(Code.P226, "a library knows no groups", span, label="which group is meant?", help=help_)
    return context.grouping.library
