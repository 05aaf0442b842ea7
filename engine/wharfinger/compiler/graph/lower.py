"""Leaves and operators of typed expressions, to the graph; and the form of every kind of expression.

This is the only place in the compiled form where the rules for missing values are; `interpreter` states them again in another way, and
property tests compare the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wharfinger.builtins import texts
from wharfinger.compiler.graph import leaves, operations
from wharfinger.compiler.graph.ir import Graph, Node, Op, Rep, Stage, Value
from wharfinger.compiler.graph.lower_calls import lower_aggregate, lower_call, lower_select
from wharfinger.compiler.graph.lowering import Forms, Lowering
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.language.semantics.operators import OPERATORS
from wharfinger.language.semantics.types import NUMERIC, Kind, Type

# ── leaves ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def constant(lowering: Lowering, value: Any, type_: Type) -> Node:
    """A plain value of the language as a node."""
    return lowering.graph.const(as_plain(value, type_), leaves.rep_of(type_, Stage.CONST))


def as_plain(value: Any, type_: Type) -> Any:
    """A literal as the evaluators represent it: numbers are floats."""
    if type_.kind in NUMERIC:
        return float(value)
    if type_.kind is Kind.SET:
        return frozenset(float(v) if type_.element in NUMERIC else v for v in value)
    return value


def _const(lowering: Lowering, expr: typed.Const) -> Value:
    return Value(constant(lowering, expr.value, expr.type))


def _param(lowering: Lowering, expr: typed.ParamRef) -> Value:
    return Value(lowering.graph.leaf(leaves.PARAM, Stage.CONST, leaves.rep_of(expr.type, Stage.CONST), value=expr.name))


def _let(lowering: Lowering, expr: typed.LetRef) -> Value:
    return lowering.let(expr.name)


def _metric(lowering: Lowering, expr: typed.MetricRef) -> Value:
    return leaves.metric(lowering.graph, lowering.metrics[expr.name])


def _attribute(lowering: Lowering, expr: typed.AttributeRef) -> Value:
    key = None
    if expr.key is not None:
        found = lowering(expr.key)
        key = Value(lowering.text(found.node), found.present)  # a label of the pod's namespace is a code
    return leaves.attribute(lowering.graph, expr, key, given=lowering.given)


def _subject(lowering: Lowering, expr: typed.SubjectRef) -> Value:
    if expr.subject is Subject.DEVICE:
        return Value(lowering.graph.devices())
    if expr.subject is Subject.NODE:
        return Value(lowering.graph.const(None, Rep.OBJECT))
    return Value(leaves.pod(lowering.graph) if expr.subject is Subject.POD else leaves.item(lowering.graph))


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _operation(lowering: Lowering, expr: typed.Operation) -> Value:
    operands = [lowering(operand) for operand in expr.operands]
    if expr.op is typed.Op.IN:
        return _in(lowering, *operands)
    if expr.op is typed.Op.COALESCE:
        return _coalesce(lowering, *operands)
    if expr.op in _ORDER and expr.operands[0].type.kind is Kind.VERSION:
        return lowering(_version_order(expr))
    rep = Rep.BOOL if expr.type.kind is Kind.BOOL else Rep.FLOAT
    value = lowering.apply(operations.OF_OPERATOR[expr.op], *(operand.node for operand in operands), rep=rep)
    return Value(value, _presence(lowering, expr.op, operands))


_ORDER = frozenset({typed.Op.LT, typed.Op.LE, typed.Op.GT, typed.Op.GE})


def _version_order(expr: typed.Operation) -> typed.Operation:
    """`a < b` of versions as `version_compare(a, b) < 0`.

    A version is the code of its text in a column, and codes have no order; the comparison is made once for each distinct pair of texts.
    """
    plain = Type(Kind.NUMBER, expr.type.shape, expr.type.optional)
    order = typed.Call(span=expr.span, type=plain, function=texts.COMPARED, arguments=expr.operands)
    zero = typed.Const(span=expr.span, type=Type(Kind.NUMBER), value=0.0)
    return typed.Operation(span=expr.span, type=expr.type, op=expr.op, operands=(order, zero))


def _presence(lowering: Lowering, op: typed.Op, operands: Sequence[Value]) -> Node | None:
    """A node that is true where the result of an operator is present: all operands are, or a present one decides by itself."""
    present = lowering.both(*(operand.present for operand in operands))
    if op is typed.Op.DIV:
        zero = lowering.graph.const(0.0, Rep.FLOAT)
        return lowering.both(present, lowering.apply(operations.NE, operands[1].node, zero, rep=Rep.BOOL))
    decided_by = OPERATORS[op].decided_by
    if present is None or decided_by is None:
        return present
    decisive = (operand if decided_by else Value(lowering.negated(operand.node), operand.present) for operand in operands)
    return lowering.disjunction(present, *map(lowering.certainly, decisive))


def _in(lowering: Lowering, a: Value, members: Value) -> Value:
    present = lowering.both(a.present, members.present)
    if a.node.rep is Rep.CODE and members.node.stage is not Stage.ITEM:
        table = lowering.graph.apply(operations.MEMBERSHIP, (leaves.strings(lowering.graph), members.node), Rep.OBJECT)
        return Value(lowering.graph.apply(operations.LOOKUP, (table, a.node), Rep.BOOL), present)
    return Value(lowering.graph.apply(operations.MEMBER, (lowering.text(a.node), members.node), Rep.BOOL), present)


def _coalesce(lowering: Lowering, a: Value, b: Value) -> Value:
    if a.present is None:
        return a
    present = None if b.present is None else lowering.disjunction(a.present, b.present)
    return Value(lowering.apply(operations.WHERE, a.present, a.node, b.node, rep=a.node.rep), present)


# ── forms ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _if(lowering: Lowering, expr: typed.If) -> Value:
    condition, then, otherwise = lowering(expr.condition), lowering(expr.then), lowering(expr.otherwise)
    value = lowering.apply(operations.WHERE, condition.node, then.node, otherwise.node, rep=then.node.rep)
    branch = None
    if then.present is not None or otherwise.present is not None:
        sides = (side.present or lowering.graph.true() for side in (then, otherwise))
        branch = lowering.apply(operations.WHERE, condition.node, *sides, rep=Rep.BOOL)
    return Value(value, lowering.both(condition.present, branch))


def _has(lowering: Lowering, expr: typed.Has) -> Value:
    return Value(lowering(expr.operand).present or lowering.graph.true())


def _curve(lowering: Lowering, expr: typed.Curve) -> Value:
    x = lowering(expr.x)
    points = [lowering(coordinate) for point in expr.points for coordinate in point]
    value = lowering.apply(operations.CURVE, x.node, *(point.node for point in points), rep=Rep.FLOAT)
    return Value(value, lowering.both(x.present, *(point.present for point in points)))


def _lookup(lowering: Lowering, expr: typed.Lookup) -> Value:
    """The value for a key.

    In a column, it is found by the code of a string or by a binary search for a number; a single key is looked up in a dict.
    """
    key, graph, entries = lowering(expr.key), lowering.graph, expr.entries
    rep = leaves.rep_of(expr.type, key.node.stage)
    if key.node.stage.of_columns and key.node.rep is Rep.CODE:
        table = graph.apply(operations.table_of_texts(entries), (leaves.strings(graph),), Rep.OBJECT)
        present = graph.apply(operations.LOOKUP_PRESENT, (table, key.node), Rep.BOOL)
        return Value(graph.apply(operations.LOOKUP, (table, key.node), rep), lowering.both(key.present, present))
    if key.node.stage.of_columns:
        operands = (leaves.strings(graph), key.node) if rep is Rep.CODE else (key.node,)
        found = graph.apply(operations.search(entries), operands, Rep.OBJECT)
    else:
        found = graph.apply(operations.under_key(entries), (key.node,), Rep.OBJECT)
    present = graph.apply(operations.IS_PRESENT, (found,), Rep.BOOL)
    return Value(graph.apply(operations.value_of(rep), (found,), rep), lowering.both(key.present, present))


def _matches(lowering: Lowering, expr: typed.Matches) -> Value:
    """A node that is true where every requirement of the selector holds; never missing."""
    if not isinstance(expr.labels, typed.AttributeRef):
        raise TypeError("a label selector is matched against labels or annotations")
    if not expr.requirements:
        return Value(lowering.graph.true())
    return Value(lowering.conjunction(*(_requirement(lowering, expr.labels, requirement) for requirement in expr.requirements)))


def _requirement(lowering: Lowering, labels: typed.AttributeRef, requirement: typed.Requirement) -> Node:
    text = Type(Kind.STRING, labels.type.shape, optional=True)
    keyed = typed.AttributeRef(span=labels.span, type=text, attribute=labels.attribute)
    label = leaves.attribute(lowering.graph, keyed, Value(lowering.graph.const(requirement.key, Rep.TEXT)), given=lowering.given)
    present = label.present or lowering.graph.true()
    if requirement.op is typed.SelectorOp.EXISTS:
        return present
    if requirement.op is typed.SelectorOp.DOES_NOT_EXIST:
        return lowering.negated(present)
    holds = lowering.conjunction(present, _satisfies(lowering, label.node, requirement))
    return lowering.negated(holds) if requirement.op is typed.SelectorOp.NOT_IN else holds


def _satisfies(lowering: Lowering, label: Node, requirement: typed.Requirement) -> Node:
    """A node that is true where a present label satisfies a requirement (for NotIn: where it is among the values)."""
    if len(requirement.values) == 1 and requirement.op in (typed.SelectorOp.IN, typed.SelectorOp.NOT_IN):
        return lowering.apply(operations.EQ, label, lowering.graph.const(requirement.values[0], Rep.TEXT), rep=Rep.BOOL)
    test = operations.requirement_test(requirement)
    if label.rep is Rep.TEXT:
        return lowering.graph.apply(Op(name="satisfies", scalar=test, key=requirement), (label,), Rep.BOOL)
    table = lowering.graph.apply(operations.table("satisfies", test, requirement), (leaves.strings(lowering.graph),), Rep.OBJECT)
    return lowering.graph.apply(operations.LOOKUP, (table, label), Rep.BOOL)


_FORMS: Forms = {
    typed.Const: _const,
    typed.ParamRef: _param,
    typed.LetRef: _let,
    typed.MetricRef: _metric,
    typed.AttributeRef: _attribute,
    typed.SubjectRef: _subject,
    typed.Operation: _operation,
    typed.If: _if,
    typed.Has: _has,
    typed.Curve: _curve,
    typed.Lookup: _lookup,
    typed.Matches: _matches,
    typed.Select: lower_select,
    typed.Aggregate: lower_aggregate,
    typed.Call: lower_call,
}


def lowering_of(policy: typed.Policy, graph: Graph, *, given: bool = False) -> Lowering:
    """An object that lowers the expressions of a policy into a graph; `given` as for `Lowering`."""
    return Lowering(policy, graph, _FORMS, given=given)
