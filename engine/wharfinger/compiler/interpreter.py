"""The policy language once more, as slowly and plainly as possible: one node at a time, plain Python values, None for missing.

It shares nothing with the compiled form but the typed tree, the schema and the scalar references of the builtins, and is there
to be compared with it, to explain decisions and to fill in messages. Nothing on the fast path may import it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from wharfinger.builtins.context import AtMoment, AtNode
from wharfinger.compiler import freshness, messages, reads
from wharfinger.compiler.meanings import EVALUATE, Place, Pods
from wharfinger.language import typed
from wharfinger.language.describe import describe
from wharfinger.language.types import Kind
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot


class Outcome(Enum):
    """What a score may be besides a number and missing."""

    SKIP = "skip"


SKIP: Final = Outcome.SKIP


class Interpreter:
    """Evaluates the expressions of a policy for one pod on one snapshot."""

    def __init__(self, policy: typed.Policy, params: Mapping[str, Any], pod: PodView, snapshot: Snapshot) -> None:
        self.policy = policy
        self.params = params
        self.pod = pod
        self.snapshot = snapshot
        self._lets = {let.name: let.value for let in policy.lets}
        self._metrics = {metric.name: metric for metric in policy.metrics}
        self._suspended = {m.name for m in policy.metrics if freshness.coverage(snapshot, m) < m.min_coverage}
        self._memo: dict[Hashable, Any] = {}

    # ── rules ──

    def filter(self, rule: typed.Filter, row: int) -> list[tuple[typed.Clause, bool | None]]:
        """What each clause of a filter says of a node: true, false, or None for missing; nothing where the rule does not apply."""
        if self._has_no_say(rule.when, [clause.condition for clause in rule.clauses], row):
            return []
        return [(clause, self.value(clause.condition, row)) for clause in rule.clauses]

    def score(self, rule: typed.Score, row: int) -> float | Outcome | None:
        """The raw value of a score at a node; None where it is missing, SKIP where the rule leaves the node alone."""
        if self._has_no_say(rule.when, [rule.value], row):
            return SKIP
        value = self.value(rule.value, row)
        return None if value is None or not math.isfinite(value) else float(value)

    def tie_key(self, key: typed.TieKey, row: int) -> float | None:
        """The value of a key of the tie break; None where it is missing."""
        if self._uses_suspended([key.value]):
            return None
        value = self.value(key.value, row)
        return None if value is None else float(value)

    def evictable(self, victim: PodView, row: int) -> bool:
        """Whether every rule of `preemption` lets a pod placed on a node be evicted for this one."""
        if self.policy.victims and not self._visible(victim):
            return False
        answers = [(rule, self.value(rule.condition, row, victim)) for rule in self.policy.victims]
        return all(answer is True or (answer is None and rule.missing_evicts is True) for rule, answer in answers)

    def message(self, clause: typed.Clause, row: int) -> str:
        """What a clause says to a node that it rejects, with every value filled in."""
        if self.value(clause.condition, row) is None:
            return messages.missing_text(clause.condition, self._lets)
        return messages.filled(clause.message, lambda expr: messages.shown(self.value(expr, row), expr.type))

    def _has_no_say(self, when: typed.Expr | None, exprs: Sequence[typed.Expr], row: int) -> bool:
        if self._uses_suspended([*exprs, *([] if when is None else [when])]):
            return True
        return when is not None and self.value(when, row) is not True

    def _uses_suspended(self, exprs: Sequence[typed.Expr]) -> bool:
        if not self._suspended:
            return False
        return any(not reads.metrics_read(expr, self._lets).isdisjoint(self._suspended) for expr in exprs)

    # ── expressions ──

    def value(self, expr: typed.Expr, row: int, item: PodView | None = None) -> Any:
        """The value of an expression at a node (inside a selection: of a placed pod), None where it is missing.

        A selection is a list of `(row, pod)`.
        """
        return EVALUATE[type(expr)](self, expr, Place(row, item))

    def trace(self, expr: typed.Expr, row: int) -> list[tuple[str, Any]]:
        """Every sub-expression as text, with its value at a node, outermost first; what is inside selections is left out."""
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
        """The parts of an expression that have a value at a node."""
        if isinstance(expr, typed.LetRef):
            return (self._lets[expr.name],)
        return () if isinstance(expr, (typed.Select, typed.Aggregate)) else reads.children(expr)

    def at(self, expr: typed.Expr, place: Place) -> Any:
        """The value of an expression at a place."""
        return EVALUATE[type(expr)](self, expr, place)

    def let(self, name: str, place: Place) -> Any:
        """The value of a let, evaluated once per place."""
        at = (place.row, None if place.item is None else place.item.uid)
        if ("let", name, at) not in self._memo:
            for earlier in self._needed(name):  # in order, so that a long chain of lets does not nest
                if ("let", earlier, at) not in self._memo:
                    self._memo["let", earlier, at] = self.at(self._lets[earlier], place)
        return self._memo["let", name, at]

    def _needed(self, name: str) -> list[str]:
        """A let and those it uses, in the order of the file."""
        if ("needed", name) not in self._memo:
            used = {inner.name for inner in reads.walk(self._lets[name], self._lets) if isinstance(inner, typed.LetRef)}
            self._memo["needed", name] = [let for let in self._lets if let in used or let == name]
        found: list[str] = self._memo["needed", name]
        return found

    def selected(self, expr: typed.Select, place: Place) -> Pods:
        """The pods of a selection, in row order; the pod being decided is never one of them."""
        key = ("select", id(expr))
        if key not in self._memo:
            everywhere = [(row, pod) for row in range(self.snapshot.n_nodes) for pod in self.snapshot.pods_on(row)]
            others = [(row, pod) for row, pod in everywhere if pod.uid != self.pod.uid and self._visible(pod)]
            self._memo[key] = [
                (row, pod) for row, pod in others if expr.where is None or self.at(expr.where, Place(place.row, pod)) is True
            ]
        found: Pods = self._memo[key]
        return found

    def _visible(self, pod: PodView) -> bool:
        """Whether the policy may look at a placed pod."""
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
        """Where the samples of a metric are."""
        return self._metrics[name].key

    def metric(self, name: str, row: int) -> float | None:
        """The sample of a metric at a node, None where there is none or it is too old."""
        metric = self._metrics[name]
        samples = self.snapshot.metric(*metric.key.names)
        if samples is None or not samples.present[row] or self.snapshot.now - samples.times[row] > metric.max_age:
            return None
        return float(samples.values[row])

    def context(self, place: Place) -> AtNode | AtMoment:
        """What a builtin that reads the cluster is given."""
        if place.item is not None:
            return AtMoment(self.snapshot.now)
        return AtNode(self.snapshot, self.pod, place.row, self._memo)


def _has_one_value(expr: typed.Expr) -> bool:
    """Whether an expression is worth a line of its own in a trace."""
    return not isinstance(expr, (typed.Const, typed.SubjectRef)) and expr.type.kind not in (Kind.LABELS, Kind.PODS)
