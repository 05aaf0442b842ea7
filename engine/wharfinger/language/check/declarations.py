"""Params, lets, metrics, workloads and functions: what the names of a policy mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.check.context import RULE, Binding, Context, infer, type_text, unknown
from wharfinger.language.check.dependencies import GroupBlock, Named, in_order, nodes_in
from wharfinger.language.check.expressions.aggregates import GROUP
from wharfinger.language.check.expressions.calls import SPECIAL
from wharfinger.language.check.expressions.functions import MAX_DEPTH, DeclaredFunction, check_declaration, declared_function
from wharfinger.language.check.expressions.names import SUBJECTS
from wharfinger.language.check.expressions.values import literal_of
from wharfinger.language.check.metrics import metric_of
from wharfinger.language.check.statements import declare_group
from wharfinger.language.check.workloads import workload_of
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Label, Source, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.bounds import UNBOUNDED, Interval
from wharfinger.language.semantics.typed import height
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape, Type

SCALARS = {k.value: k for k in (Kind.BOOL, Kind.STRING, Kind.NUMBER, Kind.COUNT, Kind.PERCENT, Kind.CPU, Kind.MEMORY, Kind.DURATION)}
PARAMETER_KINDS = SCALARS | {k.value: k for k in (Kind.TIME, Kind.VERSION)}
# Types that cannot be negative without a range.
_NOT_NEGATIVE = frozenset({Kind.COUNT, Kind.PERCENT, Kind.CPU, Kind.MEMORY, Kind.DURATION})


class Declared(msgspec.Struct):
    """The declarations of a policy and its imports, with each let after those that it needs."""

    params: list[typed.Param] = msgspec.field(default_factory=list)
    metrics: list[typed.Metric] = msgspec.field(default_factory=list)
    workloads: list[typed.Workload] = msgspec.field(default_factory=list)
    sources: list[Source] = msgspec.field(default_factory=list)  # of the imports


def declare(context: Context, declared: Declared, items: Sequence[ast.Item], prefix: str = "") -> None:
    """Check the declarations among some items and add them to the context's names; `prefix` is "shared." for an import."""
    lets: list[Named] = []
    lets.extend([GroupBlock(item) for item in items if isinstance(item, ast.Group)][:1])
    for item in items:
        if isinstance(item, ast.Function) and _is_free(context, "function", item.name, item.name_span):
            lets.append(item)
            context.names[item.name] = Binding(name=prefix + item.name, what="function", span=item.name_span, reference=unknown)
        if isinstance(item, ast.Let) and _is_free(context, "let", item.name, item.name_span):
            lets.append(item)
            context.names[item.name] = Binding(name=prefix + item.name, what="let", span=item.name_span, reference=unknown)
        elif isinstance(item, ast.Param) and _is_free(context, "param", item.name, item.name_span):
            _declare_param(context, declared, item, prefix)
        elif isinstance(item, ast.Metric) and _is_free(context, "metric", item.name, item.name_span):
            _declare_metric(context, declared, item, prefix)
        elif isinstance(item, ast.Workload) and _is_free(context, "workload", item.name, item.name_span):
            _declare_workload(context, declared, item, prefix)
    for let in in_order(context, lets):
        if isinstance(let, ast.Function):
            _declare_function(context, let, prefix)
        elif isinstance(let, GroupBlock):
            declare_group(context, let.value)
        else:
            _declare_let(context, let, prefix)


def _is_free(context: Context, what: str, name: str, span: Span) -> bool:
    """True if a name can be declared; otherwise reports why not."""
    if name in SUBJECTS or name == GROUP:
        context.error(
            Code.P311, f"`{name}` cannot be the name of a {what}", span, label="always means something else", help="choose another name"
        )
        return False
    first = context.names.get(name)
    if first is not None and first.what != "name":
        message = f"`{name}` is already a {first.what}"
        context.error(
            Code.P306,
            message,
            span,
            label="declared again",
            others=(Label(first.span, "first declared here"),),
            help="rename one of the two",
        )
        return False
    return True


# ── params ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _declare_param(context: Context, declared: Declared, item: ast.Param, prefix: str) -> None:
    name = prefix + item.name
    type_ = _type_named(context, item.type)
    reference: typed.ParamRef | None = None
    if type_ is not None:
        low, high = _range(context, item, type_)
        default = literal_of(context, item.default, type_, f"the default of `{item.name}`") if item.default else None
        _within(context, item, default, (low, high))
        declared.params.append(
            typed.Param(
                name=name,
                span=item.name_span,
                type=type_,
                default=default.value if default else None,
                low=None if low == UNBOUNDED[0] else low,
                high=None if high == UNBOUNDED[1] else high,
            )
        )
        context.intervals.params[name] = (low, high)
        reference = typed.ParamRef(span=item.name_span, type=type_, name=name)
    context.names[item.name] = _binding(name, "param", item.name_span, reference)


def _binding(name: str, what: str, span: Span, value: typed.ParamRef | typed.MetricRef | typed.LetRef | None) -> Binding:
    def reference(at: Span) -> typed.Expr:
        return type(value)(span=at, type=value.type, name=name) if value is not None else unknown(at)

    return Binding(name=name, what=what, span=span, reference=reference)


def _type_named(context: Context, name: ast.TypeName, kinds: Mapping[str, Kind] = SCALARS) -> Type | None:
    """The type that a declaration names, or None after reporting that there is no such type."""
    word = name.element if name.name == "set" and name.element is not None else name.name
    kind = kinds.get(word)
    if kind is None:
        known = ", ".join(f"`{k}`" for k in kinds)
        near = context.closest(word, kinds)
        help_ = (
            "write the type of its members, for example `set<string>`"
            if word == "set"
            else f"did you mean `{near}`?"
            if near
            else f"types are {known} and `set<…>`"
        )
        context.error(
            Code.P210,
            f"`{word}` is not a type of {'params and metrics' if kinds is SCALARS else 'parameters'}",
            name.span,
            label="unknown type",
            help=help_,
        )
        return None
    return Type(Kind.SET, element=kind) if name.element is not None else Type(kind)


def _range(context: Context, item: ast.Param, type_: Type) -> Interval:
    least = 0.0 if type_.kind in _NOT_NEGATIVE else UNBOUNDED[0]
    if item.low is None or item.high is None:
        return (least, UNBOUNDED[1])
    if type_.kind not in NUMERIC:
        context.error(Code.P211, f"a range is for numbers, not for {type_}", item.low.span.to(item.high.span), label="leave it out")
        return UNBOUNDED
    ends = [literal_of(context, end, type_, f"the range of `{item.name}`") for end in (item.low, item.high)]
    low, high = ends
    if low is None or high is None:
        return (least, UNBOUNDED[1])
    if low.value > high.value:
        span = item.low.span.to(item.high.span)
        context.error(
            Code.P212, f"the range of `{item.name}` is empty", span, label="from larger to smaller", help="write the smaller end first"
        )
        return (least, UNBOUNDED[1])
    return (low.value, high.value)


def _within(context: Context, item: ast.Param, default: typed.Const | None, limits: Interval) -> None:
    if default is None or default.type.kind not in NUMERIC or limits[0] <= default.value <= limits[1]:
        return
    message = f"the default of `{item.name}` is outside of its range"
    if item.low is not None and item.high is not None:
        others = (Label(item.low.span.to(item.high.span), "the range"),)
        context.error(
            Code.P212, message, default.span, label="not in the range", others=others, help="widen the range or change the default"
        )
    else:
        help_ = f"a {default.type.kind.value} is 0 or more; a `range` can change this"
        context.error(Code.P212, message, default.span, label="negative", help=help_)


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _declare_metric(context: Context, declared: Declared, item: ast.Metric, prefix: str) -> None:
    type_ = _type_named(context, item.type)
    name = prefix + item.name
    if type_ is not None and type_.kind not in NUMERIC:
        context.error(Code.P210, f"a metric is a number, not {type_}", item.type.span, label="not a number")
        type_ = None
    metric = metric_of(context, item, type_, name) if type_ is not None else None
    reference = None
    if type_ is not None:
        reference = typed.MetricRef(span=item.name_span, type=type_.shaped(Shape.NODE).maybe(), name=name)
    if metric is not None:
        declared.metrics.append(metric)
    context.names[item.name] = _binding(name, "metric", item.name_span, reference)


# ── workloads ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _declare_workload(context: Context, declared: Declared, item: ast.Workload, prefix: str) -> None:
    name = prefix + item.name
    workload = workload_of(context, item, name)
    binding = Binding(name=name, what="workload", span=item.name_span, reference=unknown)
    if workload is not None:
        declared.workloads.append(workload)
        binding.reference = lambda at: typed.Const(span=at, type=Type(Kind.WORKLOAD), value=workload)
    context.names[item.name] = binding


# ── lets ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _declare_let(context: Context, item: ast.Let, prefix: str) -> None:
    name = prefix + item.name
    context.work.at = item.name_span
    value = infer(context.at(RULE), item.value)
    if value.type.kind in (Kind.POD, Kind.NODE, Kind.WORKLOAD):
        help_ = f"write `{item.value.span.text}` where it is needed"
        value = context.error(
            Code.P213, f"{type_text(value.type)} cannot have another name", value.span, label=type_text(value.type), help=help_
        )
    binding = context.names[item.name]
    if height(value, context.heights) > MAX_DEPTH:
        message = f"`{item.name}` is more than {MAX_DEPTH} deep, counting the lets it needs"
        value = context.error(Code.P005, message, item.name_span, label="nested too deep", help="calculate with fewer lets")
    if value.type.kind is Kind.UNKNOWN:
        binding.reference = unknown
    elif isinstance(value, typed.Const) and isinstance(value.value, typed.Entries):
        named = replace(value, value=value.value.named(name))  # a table is no value either
        context.lets[name] = typed.Let(name=name, span=item.name_span, value=value)
        binding.reference = lambda at: replace(named, span=at)
    elif value.type.kind is Kind.LABELS and isinstance(value, typed.AttributeRef):
        labels = value  # labels are no value: the name means the attribute
        binding.reference = lambda at: typed.AttributeRef(span=at, type=labels.type, attribute=labels.attribute)
    else:
        reference = typed.LetRef(span=item.name_span, type=value.type, name=name)
        context.names[item.name] = _binding(name, "let", item.name_span, reference)
        context.names[item.name].used = binding.used
        let = typed.Let(name=name, span=item.name_span, value=value)
        context.lets[name] = let
        context.heights[name] = height(value, context.heights)
        context.intervals.lets[name] = context.intervals.of(value)


BRANCH_STEPS = 12
"""The steps of a check for an `if`, `and` or `or`: its condition narrows intervals."""


def _steps_inside(body: ast.Expr) -> int:
    """The steps that checking the body of a function takes."""
    return sum(BRANCH_STEPS if _narrows(node) else 1 for node in nodes_in(body))


def _narrows(node: ast.Node) -> bool:
    return isinstance(node, ast.If) or (isinstance(node, ast.Binary) and node.op in (ast.BinaryOp.AND, ast.BinaryOp.OR))


def _declare_function(context: Context, item: ast.Function, prefix: str) -> None:
    context.work.at = item.name_span
    binding = context.names[item.name]
    types = [_type_named(context, parameter.type, PARAMETER_KINDS) for parameter in item.parameters]
    known = tuple(type_ for type_ in types if type_ is not None)
    declared = DeclaredFunction(name=prefix + item.name, item=item, context=context.at(RULE), types=known, parts=_steps_inside(item.value))
    declared.broken = not _is_new(context, item) or not _parameters_are_new(context, item) or len(known) < len(types)
    if not declared.broken:
        declared.broken = _is_too_deep(context, declared)
    if declared.broken:
        declared.types = tuple(type_ or Type(Kind.UNKNOWN) for type_ in types)
    else:
        check_declaration(declared)
    binding.reference, binding.function = None, declared


def _is_new(context: Context, item: ast.Function) -> bool:
    """True if the language has no function of that name; otherwise reports that it has."""
    builtin = {function.name.partition(".")[0] for function in context.catalogue.functions()} | set(SPECIAL)
    if item.name not in builtin:
        return True
    message = f"`{item.name}` is already a function of the language"
    context.error(Code.P306, message, item.name_span, label="declared again", help="choose another name")
    return False


def _parameters_are_new(context: Context, item: ast.Function) -> bool:
    """True if no parameter has a name that means something else; otherwise reports the first that does."""
    seen: dict[str, Span] = {}
    for parameter in item.parameters:
        name, span = parameter.name, parameter.name_span
        if name in SUBJECTS or name == GROUP:
            label = "always means something else"
            context.error(Code.P311, f"`{name}` cannot be the name of a parameter", span, label=label, help="choose another name")
            return False
        first = seen.get(name) or (context.names[name].span if name in context.names else None)
        if first is not None:
            what = "parameter" if name in seen else context.names[name].what
            others = (Label(first, "first declared here"),)
            context.error(
                Code.P306, f"`{name}` is already a {what}", span, label="declared again", others=others, help="rename one of the two"
            )
            return False
        seen[name] = span
    return True


def _is_too_deep(context: Context, declared: DeclaredFunction) -> bool:
    """True, after reporting it, if calls of functions in functions nest so deep that going through them is not safe."""
    declared.depth = _depth(context, declared.item.value)
    if declared.depth <= MAX_DEPTH:
        return False
    message = f"`{declared.item.name}` is more than {MAX_DEPTH} deep, counting the functions it needs"
    context.error(Code.P005, message, declared.item.name_span, label="nested too deep", help="calculate with fewer functions")
    return True


def _depth(context: Context, root: ast.Expr) -> int:
    """The depth of an expression, with the bodies of the functions that it calls written out."""
    deepest = 0
    waiting: list[tuple[ast.Node, int]] = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        declared = declared_function(context, node) if isinstance(node, ast.Call) else None
        deepest = max(deepest, depth + (declared.depth + 1 if declared is not None else 0))
        waiting.extend((child, depth + isinstance(child, ast.Expr)) for child in ast.children(node))
    return deepest
