"""Leaves of the graph: the values that a policy reads from the pod, from placed pods, from nodes and from the cluster.

Attributes of pods are read by the schema's `read`, attributes of nodes by its `column`; no attribute is known here by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wharfinger.builtins.signature import AtNode, AtRows
from wharfinger.compiler import metrics
from wharfinger.compiler.graph import operations
from wharfinger.compiler.graph.ir import IDENTITY, Graph, Node, Op, Rep, Stage, Value
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Attribute, Subject, Volatility
from wharfinger.language.semantics.types import NUMERIC, Kind, Type
from wharfinger.model.devices.device_table import DevicesOf, DeviceTable, ReadColumn
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import NamespaceLabels
from wharfinger.model.state.snapshot import Snapshot

PARAM = Op(name="param")
POD = Op(name="pod")
ITEM = Op(name="it")
STRINGS = Op(name="strings")
CONTEXT = Op(name="context")  # passed by callers that have a pod and no snapshot, as to `CompiledPolicy.governs`
NOW_GIVEN = Op(name="now", scalar=lambda at: float(at.now))
NAMESPACES_GIVEN = Op(name="labels of namespaces", scalar=lambda at: at.objects.namespace_labels)
OF_NAMESPACES = "namespaces"  # marks operations that read the labels of namespaces, and nothing else that changes
OF_GROUPS = "groups"  # marks operations that read the state of a group, and nothing else that changes
NAMESPACES = Op(
    name="labels of namespaces",
    vector=lambda frame: frame.snapshot.objects.namespace_labels,
    row=lambda frame: frame.snapshot.objects.namespace_labels,
    reads_cluster=True,
    key=OF_NAMESPACES,
)
NOW = Op(name="now", vector=lambda frame: frame.now, row=lambda frame: frame.now, reads_cluster=True, key="snapshot")


def pod(graph: Graph) -> Node:
    """The pod to be placed."""
    return graph.leaf(POD, Stage.POD, Rep.OBJECT)


def item(graph: Graph) -> Node:
    """The placed pod that a selection is evaluated for."""
    return graph.leaf(ITEM, Stage.ITEM, Rep.OBJECT)


def strings(graph: Graph) -> Node:
    """The string table of the cluster that the policy is bound to."""
    return graph.leaf(STRINGS, Stage.POD, Rep.OBJECT)


def _evaluation_context(graph: Graph) -> Node:
    """The values that the caller passes in addition to the pod."""
    return graph.leaf(CONTEXT, Stage.POD, Rep.OBJECT)


def now(graph: Graph, *, given: bool) -> Node:
    """The time: the snapshot's, or (`given`) that of the caller's context."""
    if given:
        return graph.apply(NOW_GIVEN, (_evaluation_context(graph),), Rep.FLOAT)
    return graph.leaf(NOW, Stage.RUN, Rep.FLOAT, volatility=Volatility.TIMED)


def rep_of(type_: Type, stage: Stage) -> Rep:
    """The representation of values of a type at a stage."""
    if type_.kind in NUMERIC:
        return Rep.FLOAT
    if type_.kind in {Kind.STRING, Kind.VERSION}:
        return Rep.CODE if stage.of_columns else Rep.TEXT
    return Rep.BOOL if type_.kind is Kind.BOOL else Rep.OBJECT


# ── attributes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def attribute(graph: Graph, expr: typed.AttributeRef, key: Value | None, *, given: bool) -> Value:
    """The value of an attribute; its key is lowered already. `given` as for `Lowering`."""
    if expr.attribute.subject is Subject.NODE:
        return _column(graph, expr.attribute, expr.type, key)
    if expr.attribute.subject is Subject.DEVICE:
        return _of_device(graph, expr.attribute, expr.type, key)
    if expr.attribute.of_namespace:
        return _of_namespace(graph, expr.attribute, key, given=given)
    if expr.attribute.of_group:
        return _of_group(graph, expr.attribute, key)
    return _read(graph, expr.attribute, expr.type, key)


def _read(graph: Graph, record: Attribute, type_: Type, key: Value | None) -> Value:
    if record.subject is Subject.POD and key is not None and key.node.stage is Stage.RUN:
        return _read_by_later_key(graph, record, type_, key)
    view = pod(graph) if record.subject is Subject.POD else item(graph)
    op = Op(name=f"{record.subject.value}.{record.path}", scalar=_reader(record, type_), key=IDENTITY if record.identity else None)
    operands = (view,) if key is None else (view, key.node)
    maybe = graph.apply(op, operands, Rep.OBJECT)
    value = graph.apply(operations.value_of(rep_of(type_, maybe.stage)), (maybe,), rep_of(type_, maybe.stage))
    return Value(value, _presence(graph, record, maybe, key))


def _read_by_later_key(graph: Graph, record: Attribute, type_: Type, key: Value) -> Value:
    """The value of an attribute of the pod by a key that the snapshot gives: a label of the pod's namespace."""
    rep, read = rep_of(type_, Stage.RUN), _reader(record, type_)

    def value_of_pod(frame: AtRows | AtNode, label: str) -> tuple[Any, bool]:
        found = read(frame.pod, label)
        if rep is Rep.CODE:
            return np.int32(-1 if found is None else frame.snapshot.strings.code(found)), found is not None
        return (0.0, False) if found is None else (found, True)

    op = Op(name=f"pod.{record.path}", vector=value_of_pod, row=value_of_pod, reads_cluster=True, of_pod=True, key=rep)
    maybe = graph.apply(op, (key.node,), Rep.OBJECT, at=Stage.RUN)
    return Value(graph.apply(operations.value_of(rep), (maybe,), rep), _presence(graph, record, maybe, key))


def _namespaces(graph: Graph, *, given: bool) -> Node:
    """The labels of all namespaces; GLOBAL, because they are no property of a row, or (`given`) those of the caller's context."""
    if given:
        return graph.apply(NAMESPACES_GIVEN, (_evaluation_context(graph),), Rep.OBJECT)
    return graph.leaf(NAMESPACES, Stage.RUN, Rep.OBJECT, volatility=Volatility.GLOBAL)


def _of_namespace(graph: Graph, record: Attribute, key: Value | None, *, given: bool) -> Value:
    """The value of a label of the namespace of the pod, or of a placed pod in a selection."""
    if key is None:
        raise TypeError(f"{record.path} is read by key")
    name, labels = f"{record.subject.value}.{record.path}", _namespaces(graph, given=given)
    if given or record.subject is Subject.ITEM:
        view = pod(graph) if record.subject is Subject.POD else item(graph)
        op = Op(name=name, scalar=lambda view, labels, label: labels.of(view.namespace).get(label))
        maybe, rep = graph.apply(op, (view, labels, key.node), Rep.OBJECT), Rep.TEXT
    else:
        op = Op(name=name, vector=_namespace_label, row=_namespace_label, reads_cluster=True, of_pod=True, key=OF_NAMESPACES)
        maybe, rep = graph.apply(op, (labels, key.node), Rep.OBJECT, at=Stage.RUN), Rep.CODE
    value = graph.apply(operations.value_of(rep), (maybe,), rep)
    return Value(value, both(graph, key.present, graph.apply(operations.IS_PRESENT, (maybe,), Rep.BOOL)))


def _namespace_label(frame: AtRows | AtNode, labels: NamespaceLabels, key: str) -> tuple[Any, bool]:
    """The code of a label of the pod's namespace, and True if there is one; the same for all rows."""
    value = labels.of(frame.pod.namespace).get(key)
    return np.int32(-1 if value is None else frame.snapshot.strings.code(value)), value is not None


def _of_group(graph: Graph, record: Attribute, key: Value | None) -> Value:
    """The group of that name in the pod's namespace; missing if there is none."""
    if key is None:
        raise TypeError(f"{record.path} is read by the name of the group")

    def read(frame: AtRows | AtNode, name: str) -> tuple[float, bool]:
        found = record.read(frame.snapshot.group(frame.pod.namespace, name))
        return (0.0, False) if found is None else (float(found), True)

    op = Op(name=f"pod.{record.path}", vector=read, row=read, reads_cluster=True, of_pod=True, key=OF_GROUPS)
    pair = graph.apply(op, (key.node,), Rep.OBJECT, at=Stage.RUN, volatility=Volatility.GLOBAL)
    value = graph.apply(operations.value_of(Rep.FLOAT), (pair,), Rep.FLOAT)
    return Value(value, both(graph, key.present, graph.apply(operations.IS_PRESENT, (pair,), Rep.BOOL)))


def _presence(graph: Graph, record: Attribute, maybe: Node, key: Value | None) -> Node | None:
    """A node that is true where an attribute is present: its key, and the value under it."""
    may_be_absent = record.type.optional or record.type.kind is Kind.LABELS
    own = graph.apply(operations.IS_PRESENT, (maybe,), Rep.BOOL) if may_be_absent else None
    return both(graph, key.present if key else None, own)


def _reader(record: Attribute, type_: Type) -> Any:
    """`record.read` with numbers as floats."""
    if type_.kind not in NUMERIC:
        return record.read
    read = record.read

    def numbers(*operands: Any) -> float | None:
        found = read(*operands)
        return None if found is None else float(found)

    return numbers


def _column(graph: Graph, record: Attribute, type_: Type, key: Value | None) -> Value:
    if record.column is None:
        raise TypeError(f"node.{record.path} has no column")
    op = Op(name=f"node.{record.path}", vector=_vector_reader(record.column), row=_row_reader(record.column), reads_cluster=True)
    operands = () if key is None else (key.node,)
    pair = graph.apply(op, operands, Rep.OBJECT, at=Stage.RUN, volatility=record.volatility)
    rep = rep_of(type_, Stage.RUN)
    return Value(graph.apply(operations.value_of(rep), (pair,), rep), _presence(graph, record, pair, key))


def _of_device(graph: Graph, record: Attribute, type_: Type, key: Value | None) -> Value:
    """The value of an attribute of each device, from the columns of devices."""
    rep = rep_of(type_, Stage.DEVICE)

    def column(table: DeviceTable, *keys: str) -> ReadColumn:
        return ReadColumn(table, (record.path, type_.kind, *keys), lambda device: record.read(device, *keys), text=rep is Rep.CODE)

    def read(of: DevicesOf, *keys: str) -> tuple[Any, Any]:
        values = column(of.table, *keys).values[of.entries]
        present = values >= 0 if rep is Rep.CODE else ~np.isnan(values)
        return (values == 1.0 if rep is Rep.BOOL else values), present

    def slow_reads(snapshot: Callable[[], Snapshot], _pod: PodView, *keys: str) -> Iterator[ReadColumn]:
        yield column(snapshot().devices, *keys)

    op = Op(name=f"device.{record.path}", vector=read, key=type_.kind, slow_reads=slow_reads)
    operands = (graph.devices(), *(() if key is None else (key.node,)))
    pair = graph.apply(op, operands, Rep.OBJECT, at=Stage.DEVICE)
    own = graph.apply(operations.IS_PRESENT, (pair,), Rep.BOOL) if record.type.optional else None
    return Value(graph.apply(operations.value_of(rep), (pair,), rep), both(graph, key.present if key else None, own))


def _vector_reader(column: Any) -> Any:
    def read(frame: AtRows, *key: str) -> tuple[Any, Any]:
        values, present = column(frame.snapshot, frame.rows, *key)
        return values, True if present is None else present

    return read


def _row_reader(column: Any) -> Any:
    def read(frame: AtNode, *key: str) -> tuple[Any, bool]:
        values, present = column(frame.snapshot, frame.row, *key)  # a single row number gives NumPy scalars
        return values.item(), True if present is None else bool(present)

    return read


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def metric(graph: Graph, record: typed.Metric) -> Value:
    """The value of a metric on each node; present where there is a sample no older than `max_age`."""
    names, max_age = record.key.names, record.max_age
    op = Op(
        name=f"metric {record.name}",
        vector=lambda frame: metrics.fresh_samples(frame, names, max_age),
        row=lambda frame: metrics.fresh_sample(frame, names, max_age),
        reads_cluster=True,
    )
    pair = graph.leaf(op, Stage.RUN, Rep.OBJECT, volatility=Volatility.TIMED)
    return Value(graph.apply(operations.value_of(Rep.FLOAT), (pair,), Rep.FLOAT), graph.apply(operations.IS_PRESENT, (pair,), Rep.BOOL))


# ── presence ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def both(graph: Graph, *presences: Node | None) -> Node | None:
    """A node that is true where all of them are present; None means always."""
    found: Node | None = None
    for present in presences:
        if present is not None:
            found = present if found is None else graph.apply(operations.AND, (found, present), Rep.BOOL)
    return found
