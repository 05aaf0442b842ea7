"""Calls of builtins, selections of pods and aggregates over them, to the graph.

A builtin that can be missing by itself (`ratio` by zero) returns its value and its presence as a pair that is taken apart here. A call on
what is known of the pod alone uses the scalar reference, a call on nodes the kernel.

The predicate of a selection is a subgraph of stage ITEM. The model keeps the count of each selection up to date as pods come and go, so
an aggregate is a lookup: per node, per topology domain, or one number for the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from wharfinger.builtins import texts
from wharfinger.builtins.signature import AtMoment, AtRows
from wharfinger.compiler.graph import leaves, operations
from wharfinger.compiler.graph.ir import CONST, Node, Op, Rep, Stage, Value
from wharfinger.compiler.graph.lowering import Lowering
from wharfinger.language.report.diagnostics import Source, Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Function, Subject, Volatility
from wharfinger.language.semantics.types import Kind, Shape
from wharfinger.model import attributes
from wharfinger.model.columns.arrays import StringTable
from wharfinger.model.columns.selection import Selection


def lower_call(lowering: Lowering, expr: typed.Call) -> Value:
    """The value of a call."""
    function = expr.function
    arguments = [_argument(lowering, function, argument) for argument in (*expr.arguments, *expr.named.values())]
    present = lowering.both(*(argument.present for argument in arguments))
    nodes = [argument.node for argument in arguments]
    about_a_pod = lowering.given or any(node.stage is Stage.ITEM for node in nodes)
    if function.context and not about_a_pod:
        return _unpacked(lowering, expr, _framed(lowering, expr, nodes), present)
    if about_a_pod or not any(node.stage.of_columns for node in nodes):
        return _unpacked(lowering, expr, _scalar(lowering, expr, nodes), present)
    if isinstance(function.vector, texts.Kernel):
        return _textual(lowering, expr, nodes, present)
    return _unpacked(lowering, expr, _vector(lowering, expr, nodes), present)


def _argument(lowering: Lowering, function: Function, argument: typed.Expr) -> Value:
    if function.context and isinstance(argument, typed.MetricRef):
        return Value(lowering.graph.const(lowering.metrics[argument.name].key, Rep.OBJECT))
    return lowering(argument)


def _names(expr: typed.Call) -> tuple[str, ...]:
    return tuple(expr.named)


def _with_names(function: Any, expr: typed.Call) -> Any:
    """The function with its last arguments passed by name."""
    names = _names(expr)
    if not names:
        return function

    def call(*arguments: Any) -> Any:
        return function(*arguments[: -len(names)], **dict(zip(names, arguments[-len(names) :], strict=True)))

    return call


def can_be_absent(expr: typed.Call) -> bool:
    """True if the function can be missing although all its arguments are present."""
    return expr.function.result(tuple(argument.type.present() for argument in expr.arguments)).optional


def _run_rep(expr: typed.Call) -> Rep:
    """The representation of a kernel's result: values, or a pair of values and presence."""
    return Rep.OBJECT if can_be_absent(expr) else leaves.rep_of(expr.type, Stage.RUN)


def _framed(lowering: Lowering, expr: typed.Call, nodes: list[Node]) -> Node:
    """A call that reads the cluster."""
    call = _with_names(expr.function.vector, expr)
    op = Op(
        name=f"call {expr.function.name}",
        vector=call,
        row=_at_row(expr, nodes),
        reads_cluster=True,
        of_pod=True,
        reads_time=expr.function.volatility is Volatility.TIMED,
        may_warn=True,
        topology=_topology(expr.function, nodes),
        key=_names(expr),
        slow_reads=expr.function.slow_reads,
    )
    stage = Stage.DEVICE if expr.type.shape is Shape.DEVICE else Stage.RUN
    return lowering.graph.apply(op, nodes, _run_rep(expr), at=stage, volatility=expr.function.volatility)


def _topology(function: Function, nodes: list[Node]) -> str | None:
    """The topology key for a function of pods `by` the domains of that key; None for other functions."""
    if [parameter.name for parameter in function.parameters] != ["pods", "by"]:
        return None
    return nodes[1].value if nodes[1].op is CONST else None


def _vector(lowering: Lowering, expr: typed.Call, nodes: list[Node]) -> Node:
    """A call that reads nothing but its operands."""
    row = _at_row(expr, nodes)
    op = Op(name=f"call {expr.function.name}", vector=_with_names(expr.function.vector, expr), row=row, may_warn=True, key=_names(expr))
    return lowering.graph.apply(op, [lowering.code(node) for node in nodes], _run_rep(expr))


def _at_row(expr: typed.Call, nodes: list[Node]) -> Callable[..., Any] | None:
    """The form for one row: the function's own or its scalar reference; None if that takes or returns selections, metrics or strings."""
    rep = _run_rep(expr)
    if expr.function.row is not None:
        call: Callable[..., Any] = _with_names(expr.function.row, expr)
    elif any(node.rep in {Rep.OBJECT, Rep.CODE} for node in nodes) or leaves.rep_of(expr.type, Stage.RUN) is Rep.CODE:
        return None
    else:
        call = _with_names(expr.function.scalar, expr)
    if rep is not Rep.OBJECT:
        return call

    def pair(*arguments: Any) -> tuple[Any, bool]:
        found = call(*arguments)
        return (0.0, False) if found is None else (found, True)

    return pair


def _scalar(lowering: Lowering, expr: typed.Call, nodes: list[Node]) -> Node:
    """A call on plain values; a builtin with a context gets the time."""
    nodes = [lowering.text(node) for node in nodes]
    call = _with_names(expr.function.scalar, expr)
    name = f"call {expr.function.name}"
    if not expr.function.context:
        return lowering.graph.apply(Op(name=name, scalar=call, key=("scalar", *_names(expr))), nodes, Rep.OBJECT)
    op = Op(name=name, scalar=lambda at, *arguments: call(AtMoment(at), *arguments), key=("moment", *_names(expr)))
    return lowering.graph.apply(op, [leaves.now(lowering.graph, given=lowering.given), *nodes], Rep.OBJECT)


def _unpacked(lowering: Lowering, expr: typed.Call, call: Node, present: Node | None) -> Value:
    """The value and presence of a finished call."""
    if call.rep is not Rep.OBJECT:
        return Value(call, present)
    rep = leaves.rep_of(expr.type, call.stage)
    own = lowering.graph.apply(operations.IS_PRESENT, (call,), Rep.BOOL) if can_be_absent(expr) else None
    return Value(lowering.graph.apply(operations.value_of(rep), (call,), rep), lowering.both(present, own))


def _on_columns(kernel: texts.Kernel, columns: list[int]) -> Callable[..., Any]:
    """The kernel with `columns` as arrays of codes; one code for all rows is an array too."""

    def call(strings: StringTable, *arguments: Any) -> Any:
        return kernel(strings, *(np.asarray(argument) if index in columns else argument for index, argument in enumerate(arguments)))

    return call


def _textual(lowering: Lowering, expr: typed.Call, nodes: list[Node], present: Node | None) -> Value:
    """A function of strings: a lookup by code for one column, the kernel itself for several."""
    kernel = cast("texts.Kernel", expr.function.vector)
    rep = leaves.rep_of(expr.type, Stage.RUN)
    table_of = leaves.strings(lowering.graph)
    columns = [index for index, node in enumerate(nodes) if node.stage.of_columns]
    if len(columns) > 1 or nodes[columns[0]].rep is not Rep.CODE:
        op = Op(name=f"call {expr.function.name}", vector=_on_columns(kernel, columns), key=tuple(columns))
        pair = lowering.graph.apply(op, (table_of, *nodes), Rep.OBJECT)
        own = lowering.graph.apply(operations.IS_PRESENT, (pair,), Rep.BOOL) if can_be_absent(expr) else None
        return Value(lowering.graph.apply(operations.value_of(rep), (pair,), rep), lowering.both(present, own))
    column = columns[0]
    make = Op(name=f"table {expr.function.name}", scalar=lambda strings, *rest: kernel.table(strings, column, *rest), key=column)
    table = lowering.graph.apply(make, (table_of, *(node for index, node in enumerate(nodes) if index != column)), Rep.OBJECT)
    own = lowering.graph.apply(operations.LOOKUP_PRESENT, (table, nodes[column]), Rep.BOOL) if can_be_absent(expr) else None
    return Value(lowering.graph.apply(operations.LOOKUP, (table, nodes[column]), rep), lowering.both(present, own))


# ── selections of pods, and aggregates over them ─────────────────────────────────────────────────────────────────────────────────────────

_NAMESPACE = next(each for each in attributes.ATTRIBUTES if (each.subject, each.path) == (Subject.ITEM, "namespace"))
_NO_PLACE = Span(source=Source(name="", text=""), start=0, end=0)  # of an expression that no policy text contains
VOLATILITY = {typed.Per.NODE: Volatility.ROW, typed.Per.DOMAIN: Volatility.GLOBAL, typed.Per.CLUSTER: Volatility.GLOBAL}


def lower_select(lowering: Lowering, expr: typed.Select) -> Value:
    """The selection itself, as builtins such as `spread` take it; a pod for which the predicate is missing is not selected."""
    selected = lowering.graph.true() if expr.where is None else lowering.certainly(lowering(expr.where))
    if expr.type.kind is Kind.DEVICES:
        return Value(selected)
    return Value(_select(lowering, expr.span, visible(lowering, selected)))


def visible(lowering: Lowering, selected: Node) -> Node:
    """A node that is true for placed pods that are selected and that the policy may read."""
    namespace = lowering.authority.confined_to
    if namespace is None:
        return selected
    reference = typed.AttributeRef(span=_NO_PLACE, type=_NAMESPACE.type, attribute=_NAMESPACE)
    of_pod = leaves.attribute(lowering.graph, reference, None, given=lowering.given)
    own = lowering.apply(operations.EQ, of_pod.node, lowering.graph.const(namespace, Rep.TEXT), rep=Rep.BOOL)
    return lowering.conjunction(own, selected)


def _select(lowering: Lowering, span: Span, *operands: Node) -> Node:
    selection = lowering.graph.apply(operations.SELECT, operands, Rep.OBJECT, at=Stage.RUN)
    lowering.places.setdefault(selection.number, span)
    return selection


def lower_aggregate(lowering: Lowering, expr: typed.Aggregate) -> Value:
    """The value of an aggregate; pods whose value is missing are left out."""
    if expr.selection.type.kind is Kind.DEVICES:
        return _of_devices(lowering, expr)
    selected = lowering(expr.selection).node.args[0]
    if expr.value is None:
        return _total(lowering, expr, _select(lowering, expr.selection.span, selected))
    value = lowering(expr.value)
    weighed = _select(lowering, expr.span, selected, value.node, value.present or lowering.graph.true())
    if expr.reduction is typed.Reduction.SUM:
        return _total(lowering, expr, weighed)
    if expr.reduction is typed.Reduction.AVG:
        counted = selected if value.present is None else lowering.conjunction(selected, value.present)
        return _mean(lowering, expr, weighed, _select(lowering, expr.span, counted))
    return _extreme(lowering, expr, weighed)


def _of_devices(lowering: Lowering, expr: typed.Aggregate) -> Value:
    """The value of an aggregate over the devices of each row; devices whose value is missing are left out."""
    graph, selected = lowering.graph, lowering(expr.selection).node
    value = Value(graph.const(1.0, Rep.FLOAT)) if expr.value is None else lowering(expr.value)
    counted = graph.per_device(selected if value.present is None else lowering.conjunction(selected, value.present))
    op = Op(name=f"{expr.reduction.value} of devices", vector=operations.DEVICE_REDUCTIONS[expr.reduction], may_warn=True)
    pair = graph.apply(op, (graph.devices(), counted, graph.per_device(value.node)), Rep.OBJECT, at=Stage.RUN)
    own = graph.apply(operations.IS_PRESENT, (pair,), Rep.BOOL) if expr.type.optional else None
    return Value(graph.apply(operations.value_of(Rep.FLOAT), (pair,), Rep.FLOAT), own)


def _read(lowering: Lowering, expr: typed.Aggregate, selection: Node, name: str, read: Any) -> Node:
    """The node for `read(frame, selection)`."""
    highest = expr.reduction is typed.Reduction.MAX
    row = _total_at_row(name, highest=highest) if expr.per is typed.Per.NODE else None
    topology = expr.topology_key if expr.per is typed.Per.DOMAIN else None
    extreme = None if name == "sum" else highest
    op = Op(
        name=f"{name} per {expr.per.value}",
        vector=read,
        row=row,
        reads_cluster=True,
        topology=topology,
        key=expr.topology_key,
        extreme=extreme,
    )
    return lowering.graph.apply(op, (selection,), Rep.FLOAT, volatility=VOLATILITY[expr.per])


def _total_at_row(name: str, *, highest: bool) -> Any:
    """The form for one row: looked up in the stored counts of all nodes."""
    if name == "sum":
        return lambda frame, selection: selection.by_node.item(frame.row)
    return lambda frame, selection: selection.extreme_by_node(highest=highest).item(frame.row)


def _sum(lowering: Lowering, expr: typed.Aggregate, selection: Node) -> Node:
    return _read(lowering, expr, selection, "sum", _sum_reader(expr))


def _sum_reader(expr: typed.Aggregate) -> Any:
    key = expr.topology_key or ""

    def per_node(frame: AtRows, selection: Selection) -> Any:
        return selection.by_node[frame.rows]

    def per_domain(frame: AtRows, selection: Selection) -> Any:
        return selection.in_domain(key)[frame.rows]

    def in_cluster(_: AtRows, selection: Selection) -> Any:
        return selection.total

    return {typed.Per.NODE: per_node, typed.Per.DOMAIN: per_domain, typed.Per.CLUSTER: in_cluster}[expr.per]


def _total(lowering: Lowering, expr: typed.Aggregate, selection: Node) -> Value:
    """A count or sum; missing only on nodes that are in no domain."""
    total = _sum(lowering, expr, selection)
    return Value(total, _in_a_domain(lowering, expr.topology_key) if expr.per is typed.Per.DOMAIN else None)


def _in_a_domain(lowering: Lowering, topology_key: str | None) -> Node:
    key = topology_key or ""
    op = Op(
        name="in a domain",
        vector=lambda frame: np.greater_equal(frame.snapshot.domain(key)[0][frame.rows], 0),
        reads_cluster=True,
        topology=key,
        key=key,
    )
    return lowering.graph.leaf(op, Stage.RUN, Rep.BOOL)


def _mean(lowering: Lowering, expr: typed.Aggregate, weighed: Node, counted: Node) -> Value:
    """The sum divided by the number of pods; missing where there is none."""
    total = _sum(lowering, expr, weighed)
    number = _sum(lowering, expr, counted)
    some = lowering.apply(operations.GT, number, lowering.graph.const(0.0, Rep.FLOAT), rep=Rep.BOOL)
    return Value(lowering.apply(operations.DIV, total, number, rep=Rep.FLOAT), some)


def _extreme(lowering: Lowering, expr: typed.Aggregate, weighed: Node) -> Value:
    """The smallest or largest value; missing where no pod has one."""
    highest = expr.reduction is typed.Reduction.MAX
    key = expr.topology_key or ""

    def per_node(frame: AtRows, selection: Selection) -> Any:
        return selection.extreme_by_node(highest=highest)[frame.rows]

    def per_domain(frame: AtRows, selection: Selection) -> Any:
        return selection.extreme_in_domain(key, highest=highest)[frame.rows]

    def in_cluster(_: AtRows, selection: Selection) -> Any:
        return (np.fmax if highest else np.fmin).reduce(selection.extreme_by_node(highest=highest), initial=np.nan)

    read = {typed.Per.NODE: per_node, typed.Per.DOMAIN: per_domain, typed.Per.CLUSTER: in_cluster}[expr.per]
    extreme = _read(lowering, expr, weighed, expr.reduction.value, read)
    return Value(extreme, lowering.apply(operations.EQ, extreme, extreme, rep=Rep.BOOL))  # NaN means no value, and is not equal to itself
