"""Selections of pods and aggregates over them to the graph.

The predicate of a selection is a subgraph of ITEM stage. The model keeps the count of each selection up to date as pods come and go, so an
aggregate is a gather: per node, per topology domain, or one number for the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wharfinger.builtins.context import AtRows
from wharfinger.compiler import leaves, ops
from wharfinger.compiler.ir import Node, Op, Rep, Stage, Value
from wharfinger.language import typed
from wharfinger.language.catalogue import Subject, Volatility
from wharfinger.language.source import Source, Span
from wharfinger.model import schema
from wharfinger.model.selection import Selection

if TYPE_CHECKING:
    from wharfinger.compiler.lower import Lowering

_NAMESPACE = next(each for each in schema.ATTRIBUTES if (each.subject, each.path) == (Subject.ITEM, "namespace"))
_NO_PLACE = Span(source=Source(name="", text=""), start=0, end=0)  # written by nobody
VOLATILITY = {typed.Per.NODE: Volatility.ROW, typed.Per.DOMAIN: Volatility.GLOBAL, typed.Per.CLUSTER: Volatility.GLOBAL}


def lower_select(lowering: Lowering, expr: typed.Select) -> Value:
    """The selection itself, as builtins such as `spread` take it; where the predicate is missing a pod is not selected."""
    selected = lowering.graph.true() if expr.where is None else lowering.certainly(lowering(expr.where))
    return Value(_select(lowering, expr.span, visible(lowering, selected)))


def visible(lowering: Lowering, selected: Node) -> Node:
    """Where a placed pod is selected and the policy may look at it, whatever its text says."""
    namespace = lowering.authority.confined_to
    if namespace is None:
        return selected
    of_pod = leaves.attribute(lowering.graph, typed.AttributeRef(span=_NO_PLACE, type=_NAMESPACE.type, attribute=_NAMESPACE), None)
    own = lowering.apply(ops.EQ, of_pod.node, lowering.graph.const(namespace, Rep.TEXT), rep=Rep.BOOL)
    return lowering.conjunction(own, selected)


def _select(lowering: Lowering, span: Span, *operands: Node) -> Node:
    selection = lowering.graph.apply(ops.SELECT, operands, Rep.OBJECT, at=Stage.RUN)
    lowering.places.setdefault(selection.number, span)
    return selection


def lower_aggregate(lowering: Lowering, expr: typed.Aggregate) -> Value:
    """The value of an aggregate; pods whose value is missing are left out."""
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


def _read(lowering: Lowering, expr: typed.Aggregate, selection: Node, name: str, read: Any) -> Node:
    """What `read(frame, selection)` gives, as a node."""
    row = _at_row(name, highest=expr.reduction is typed.Reduction.MAX) if expr.per is typed.Per.NODE else None
    op = Op(name=f"{name} per {expr.per.value}", vector=read, row=row, framed=True, key=expr.topology_key)
    return lowering.graph.apply(op, (selection,), Rep.FLOAT, volatility=VOLATILITY[expr.per])


def _at_row(name: str, *, highest: bool) -> Any:
    """What is read of one row: taken from the counts of all, which are there anyway."""
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
    op = Op(name="in a domain", vector=lambda frame: np.greater_equal(frame.snapshot.domain(key)[0][frame.rows], 0), framed=True, key=key)
    return lowering.graph.leaf(op, Stage.RUN, Rep.BOOL)


def _mean(lowering: Lowering, expr: typed.Aggregate, weighed: Node, counted: Node) -> Value:
    """The sum divided by the number; missing where there is none."""
    total = _sum(lowering, expr, weighed)
    number = _sum(lowering, expr, counted)
    some = lowering.apply(ops.GT, number, lowering.graph.const(0.0, Rep.FLOAT), rep=Rep.BOOL)
    return Value(lowering.apply(ops.DIV, total, number, rep=Rep.FLOAT), some)


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
    return Value(extreme, lowering.apply(ops.EQ, extreme, extreme, rep=Rep.BOOL))  # NaN, "none", is not equal to itself
