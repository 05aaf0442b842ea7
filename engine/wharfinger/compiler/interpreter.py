"""Reference evaluator of the policy language: one node at a time, plain Python values, None for missing.

It is slow and obvious. With the compiled form it shares the typed tree, the records of operators, attributes and builtins (of which it uses
the scalar references), and the texts of messages. It is the oracle of property tests, explains decisions and fills in messages. No module
on the path of a decision may import it.

`EVALUATE` holds the meaning of each kind of expression, as a function of the interpreter, the expression and a place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.builtins import texts
from wharfinger.builtins.signature import NO_POINTS, AtMoment, AtNode
from wharfinger.compiler import messages, metrics, reads
from wharfinger.compiler.aggregates import Aggregates
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Attribute, Subject
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.operators import OPERATORS
from wharfinger.language.semantics.types import NUMERIC, Kind, Type
from wharfinger.model.columns.domains import exact_sum
from wharfinger.model.devices.device import Device
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot

Item = PodView | Device
Pods = list[tuple[int, PodView]]
Items = Sequence[tuple[int, Item]]
Points = Mapping[str, NDArray[np.float64]]


class Place(Struct, frozen=True):
    """The place of an evaluation: a candidate node, and inside a selection a placed pod or a device."""

    row: int
    item: Item | None = None


def _plain(value: Any, type_: Type) -> Any:
    """A value with numbers as floats."""
    return float(value) if value is not None and type_.kind in NUMERIC else value


def _number(value: float | None) -> float | None:
    """A number; None (missing) for NaN, such as the difference of two infinities."""
    return None if value is None or math.isnan(value) else value


def _number_or_missing(value: Any) -> Any:
    """A value of any kind; None (missing) for NaN."""
    return _number(value) if isinstance(value, float) else value


def _const(_: Interpreter, expr: typed.Const, __: Place) -> Any:
    if isinstance(expr.value, frozenset) and expr.type.element in NUMERIC:
        return frozenset(float(member) for member in expr.value)
    return _plain(expr.value, expr.type)


def _param(self: Interpreter, expr: typed.ParamRef, _: Place) -> Any:
    return _plain(self.params[expr.name], expr.type)


def _let(self: Interpreter, expr: typed.LetRef, place: Place) -> Any:
    return self.let(expr.name, place)


def _metric(self: Interpreter, expr: typed.MetricRef, place: Place) -> Any:
    return self.metric(expr.name, place.row)


def _subject(self: Interpreter, subject: Subject, place: Place) -> Any:
    if subject is Subject.NODE:
        return self.snapshot.node(place.row)
    return self.pod if subject is Subject.POD else place.item


def _subject_ref(self: Interpreter, expr: typed.SubjectRef, place: Place) -> Any:
    return _subject(self, expr.subject, place)


def _owner(self: Interpreter, attribute: Attribute, place: Place) -> Any:
    """The argument for the `read` of an attribute."""
    subject = _subject(self, attribute.subject, place)
    return self.snapshot.objects.namespace_labels.of(subject.namespace) if attribute.of_namespace else subject


def _attribute(self: Interpreter, expr: typed.AttributeRef, place: Place) -> Any:
    owner = _owner(self, expr.attribute, place)
    if expr.key is None:
        return _plain(expr.attribute.read(owner), expr.type)
    key = self.at(expr.key, place)
    if key is not None and expr.attribute.of_group:
        return _plain(expr.attribute.read(self.snapshot.group(self.pod.namespace, key)), expr.type)
    return None if key is None else _plain(expr.attribute.read(owner, key), expr.type)


# ── operators ──


def _operation(self: Interpreter, expr: typed.Operation, place: Place) -> Any:
    rule = OPERATORS[expr.op]
    values = [self.at(operand, place) for operand in expr.operands]
    if rule.strict and any(value is None for value in values):
        return None
    if expr.operands[0].type.kind is Kind.VERSION and expr.op not in {typed.Op.EQ, typed.Op.COALESCE}:
        values = [texts.ordered(value) for value in values]
    return _number_or_missing(rule.meaning(*values))


def _if(self: Interpreter, expr: typed.If, place: Place) -> Any:
    condition = self.at(expr.condition, place)
    return None if condition is None else self.at(expr.then if condition else expr.otherwise, place)


def _has(self: Interpreter, expr: typed.Has, place: Place) -> bool:
    return self.at(expr.operand, place) is not None


def _curve(self: Interpreter, expr: typed.Curve, place: Place) -> float | None:
    x = self.at(expr.x, place)
    points = [(self.at(at, place), self.at(y, place)) for at, y in expr.points]
    if x is None or any(at is None or y is None for at, y in points):
        return None
    if x <= points[0][0]:
        return float(points[0][1])
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if x < x1:
            return _number((y1 - y0) / (x1 - x0) * (x - x0) + y0 if x1 != x0 else math.nan)
    return float(points[-1][1])


def _lookup(self: Interpreter, expr: typed.Lookup, place: Place) -> Any:
    key = self.at(expr.key, place)
    found = [value for known, value in zip(expr.entries.keys, expr.entries.values, strict=True) if known == key]
    return _plain(found[0], expr.type) if found else None


def _matches(self: Interpreter, expr: typed.Matches, place: Place) -> bool:
    labels = expr.labels
    if not isinstance(labels, typed.AttributeRef):
        raise TypeError("a label selector is matched against labels")
    owner = _owner(self, labels.attribute, place)
    return all(holds(requirement, labels.attribute.read(owner, requirement.key)) for requirement in expr.requirements)


def holds(requirement: typed.Requirement, value: str | None) -> bool:
    """True if the value of a label satisfies a requirement of a selector; None means that there is no such label."""
    match requirement.op:
        case typed.SelectorOp.EXISTS:
            return value is not None
        case typed.SelectorOp.DOES_NOT_EXIST:
            return value is None
        case typed.SelectorOp.NOT_IN:
            return value is None or value not in requirement.values
        case typed.SelectorOp.IN:
            return value is not None and value in requirement.values
        case _:
            return value is not None and _compares(requirement.op, value, requirement.values[0])


def _compares(op: typed.SelectorOp, value: str, bound: str) -> bool:
    """Gt and Lt of label selectors: both sides must be int64 numbers in decimal digits."""
    try:
        left, right = (int(text) for text in (value, bound) if text.isascii() and not set(text) & set(" _"))
    except ValueError:
        return False
    if not all(-(2**63) <= number < 2**63 for number in (left, right)):
        return False
    return left > right if op is typed.SelectorOp.GT else left < right


# ── pods ──


def _select(self: Interpreter, expr: typed.Select, place: Place) -> Items:
    if expr.type.kind is Kind.PODS:
        return self.selected(expr, place)
    devices = self.snapshot.devices.on(place.row)
    return [(place.row, each) for each in devices if expr.where is None or self.at(expr.where, Place(place.row, each)) is True]


def _aggregate(self: Interpreter, expr: typed.Aggregate, place: Place) -> float | None:
    if self.aggregates is not None and expr.selection.type.kind is Kind.PODS:
        return self.aggregates(expr, place.row)
    selected: Items = self.at(expr.selection, place)
    rows = _rows_over(self, expr, place)
    if rows is None:
        return None
    inside = [(row, item) for row, item in selected if row in rows]
    if expr.value is None:
        return float(len(inside))
    values = [(row, self.at(expr.value, replace(place, item=item))) for row, item in inside]
    return _number(_REDUCE[expr.reduction]([(row, value) for row, value in values if value is not None]))


def _rows_over(self: Interpreter, expr: typed.Aggregate, place: Place) -> Collection[int] | None:
    """The nodes that an aggregate is computed over; None if the node is in no domain."""
    everything = range(self.snapshot.n_nodes)
    if expr.per is typed.Per.CLUSTER:
        return everything
    if expr.per is typed.Per.NODE:
        return [place.row]
    key = expr.topology_key or ""
    domain = self.snapshot.node(place.row).labels.get(key)
    return None if domain is None else self.domain(key, domain)


def _sum(values: list[tuple[int, float]]) -> float:
    """The sum of the sums of each node, added in the order in which domains are added."""
    by_row: dict[int, list[float]] = {}
    for row, value in values:
        by_row.setdefault(row, []).append(value)
    return exact_sum([exact_sum(numbers) for numbers in by_row.values()])


_REDUCE: Mapping[typed.Reduction, Callable[[list[tuple[int, float]]], float | None]] = {
    typed.Reduction.SUM: _sum,
    typed.Reduction.AVG: lambda values: _sum(values) / len(values) if values else None,
    typed.Reduction.MIN: lambda values: min((value for _, value in values), default=None),
    typed.Reduction.MAX: lambda values: max((value for _, value in values), default=None),
}


def _call(self: Interpreter, expr: typed.Call, place: Place) -> Any:
    function = expr.function
    arguments = [
        self.metric_key(a.name) if function.context and isinstance(a, typed.MetricRef) else self.at(a, place) for a in expr.arguments
    ]
    named = {name: self.at(a, place) for name, a in expr.named.items()}
    if any(value is None for value in (*arguments, *named.values())):
        return None
    before = [self.context(place)] if function.context else []
    return _number_or_missing(_plain(function.scalar(*before, *arguments, **named), expr.type))


EVALUATE: Mapping[type[typed.Expr], Callable[[Interpreter, Any, Place], Any]] = {
    typed.Const: _const,
    typed.ParamRef: _param,
    typed.LetRef: _let,
    typed.MetricRef: _metric,
    typed.AttributeRef: _attribute,
    typed.SubjectRef: _subject_ref,
    typed.Operation: _operation,
    typed.If: _if,
    typed.Has: _has,
    typed.Curve: _curve,
    typed.Lookup: _lookup,
    typed.Matches: _matches,
    typed.Select: _select,
    typed.Aggregate: _aggregate,
    typed.Call: _call,
}


class Outcome(Enum):
    """Results of a score other than a number or missing."""

    SKIP = "skip"


SKIP: Final = Outcome.SKIP


class Interpreter:
    """Evaluates the expressions of a policy for one pod on one snapshot."""

    def __init__(  # noqa: PLR0913 — one parameter per input of the evaluation
        self,
        policy: typed.Policy,
        params: Mapping[str, Any],
        pod: PodView,
        snapshot: Snapshot,
        points: Points = NO_POINTS,
        *,
        counted: bool = False,
        aggregates: Aggregates | None = None,
    ) -> None:
        """`points` are those of Kubernetes' scores by plugin, each `(n_nodes,)`; without them such points are 0.

        `counted`: selections count the pod itself if it is placed, as in `permit`. `aggregates` gives the values of aggregates over
        placed pods instead of the interpreter.
        """
        self.policy = policy
        self._points = points
        self.params = params
        self.pod = pod
        self._counted = counted
        self.aggregates = aggregates
        self.snapshot = snapshot
        self._lets = {let.name: let.value for let in policy.lets}
        self._metrics = {metric.name: metric for metric in policy.metrics}
        self._suspended = {m.name for m in policy.metrics if metrics.coverage(snapshot, m) < m.min_coverage}
        self._memo: dict[Hashable, Any] = {}

    # ── rules ──

    def filter(self, rule: typed.Filter, row: int) -> list[tuple[typed.Clause, bool | None]]:
        """The result of each clause for a node: true, false, or None (missing); empty if the rule does not apply."""
        if self._left_out(rule.when, [clause.condition for clause in rule.clauses], row):
            return []
        return [(clause, self.value(clause.condition, row)) for clause in rule.clauses]

    def score(self, rule: typed.Score, row: int) -> float | Outcome | None:
        """The raw value of a score at a node; None if missing, SKIP if the rule does not apply."""
        if self._left_out(rule.when, [rule.value], row):
            return SKIP
        value = self.value(rule.value, row)
        return None if value is None or not math.isfinite(value) else float(value)

    def device_value(self, rule: typed.DevicePreference, row: int, device: Device) -> float | Outcome | None:
        """The value of a preference for a device of a node; None if missing, SKIP if the rule does not apply."""
        if self._left_out(rule.when, [rule.value], row):
            return SKIP
        value = self.value(rule.value, row, device)
        return None if value is None else float(value)

    def tie_key(self, key: typed.TieKey, row: int) -> float | str | texts.Ordered | None:
        """The value of a key of the tie break, which compares as the key does; None if missing."""
        if self._uses_suspended([key.value]):
            return None
        value = self.value(key.value, row)
        if isinstance(value, str):
            return texts.ordered(value) if key.value.type.kind is Kind.VERSION else value
        return None if value is None else float(value)

    def evictable(self, victim: PodView, row: int) -> bool:
        """True if every rule of `preemption` lets a pod placed on a node be evicted for this one."""
        if self.policy.victims and not self._visible(victim):
            return False
        answers = [(rule, self.value(rule.condition, row, victim)) for rule in self.policy.victims]
        return all(answer is True or (answer is None and rule.missing_evicts is True) for rule, answer in answers)

    def message(self, clause: typed.Clause, row: int) -> str:
        """The message of a clause for a node that it rejects, with all values filled in."""
        if self.value(clause.condition, row) is None:
            return messages.missing_text(clause.condition, self._lets)
        return messages.filled_message(clause.message, lambda expr: messages.shown(self.value(expr, row), expr.type))

    def _left_out(self, when: typed.Expr | None, exprs: Sequence[typed.Expr], row: int) -> bool:
        if self._uses_suspended([*exprs, *([] if when is None else [when])]):
            return True
        return when is not None and self.value(when, row) is not True

    def _uses_suspended(self, exprs: Sequence[typed.Expr]) -> bool:
        if not self._suspended:
            return False
        return not reads.metrics_read(exprs, self._lets).isdisjoint(self._suspended)

    # ── expressions ──

    def value(self, expr: typed.Expr, row: int, item: Item | None = None) -> Any:
        """The value of an expression at a node (inside a selection: for a placed pod or a device), None if missing.

        A selection is a list of `(row, pod)`.
        """
        return EVALUATE[type(expr)](self, expr, Place(row, item))

    def trace(self, expr: typed.Expr, row: int) -> list[tuple[str, Any]]:
        """Every sub-expression as text with its value at a node, outermost first, without the inside of selections."""
        lines: dict[str, Any] = {}
        pending = [expr]
        while pending:
            inner = pending.pop()
            text = describe(inner)
            if text not in lines:
                lines[text] = self.value(inner, row)
                pending.extend(child for child in reversed(self._operands(inner)) if _has_one_value(child))
        return list(lines.items())

    def _operands(self, expr: typed.Expr) -> tuple[typed.Expr, ...]:
        """The sub-expressions that have a value at a node."""
        if isinstance(expr, typed.LetRef):
            return (self._lets[expr.name],)
        return () if isinstance(expr, (typed.Select, typed.Aggregate)) else typed.parts(expr)

    def at(self, expr: typed.Expr, place: Place) -> Any:
        """The value of an expression at a place."""
        return EVALUATE[type(expr)](self, expr, place)

    def let(self, name: str, place: Place) -> Any:
        """The value of a let; evaluated once per place. Lets nest no deeper than a checked policy may."""
        key = "let", name, place.row, None if place.item is None else place.item.uid
        if key not in self._memo:
            self._memo[key] = self.at(self._lets[name], place)
        return self._memo[key]

    def selected(self, expr: typed.Select, place: Place) -> Pods:
        """The pods of a selection in row order, without the pod to be placed."""
        key = ("select", id(expr))
        if key not in self._memo:
            everywhere = [(row, pod) for row in range(self.snapshot.n_nodes) for pod in self.snapshot.pods_on(row)]
            others = [(row, pod) for row, pod in everywhere if (self._counted or pod.uid != self.pod.uid) and self._visible(pod)]
            self._memo[key] = [
                (row, pod) for row, pod in others if expr.where is None or self.at(expr.where, Place(place.row, pod)) is True
            ]
        found: Pods = self._memo[key]
        return found

    def _visible(self, pod: PodView) -> bool:
        """True if the policy may read a placed pod."""
        return self.policy.authority.confined_to in (None, pod.namespace)

    def domain(self, key: str, value: str) -> frozenset[int]:
        """The rows of the nodes whose label `key` is `value`."""
        memo = ("domain", key, value)
        if memo not in self._memo:
            rows = range(self.snapshot.n_nodes)
            self._memo[memo] = frozenset(row for row in rows if self.snapshot.node(row).labels.get(key) == value)
        found: frozenset[int] = self._memo[memo]
        return found

    def metric_key(self, name: str) -> typed.MetricKey:
        """The key of the samples of a metric."""
        return self._metrics[name].key

    def metric(self, name: str, row: int) -> float | None:
        """The sample of a metric at a node; None if there is none or it is too old."""
        metric = self._metrics[name]
        samples = self.snapshot.metric(*metric.key.names)
        if samples is None or not samples.present[row] or self.snapshot.now - samples.times[row] > metric.max_age:
            return None
        return float(samples.values[row])

    def context(self, place: Place) -> AtNode | AtMoment:
        """The context of a builtin that reads the cluster."""
        if isinstance(place.item, PodView):
            return AtMoment(self.snapshot.now)
        return AtNode(self.snapshot, self.pod, place.row, memo=self._memo, points=self._points)


def _has_one_value(expr: typed.Expr) -> bool:
    """True if an expression gets its own line in a trace."""
    return not isinstance(expr, (typed.Const, typed.SubjectRef)) and expr.type.kind not in (Kind.LABELS, Kind.PODS, Kind.DEVICES)
