"""What policies add to a bare verdict: where the rule stands in which file, and the values that its conditions had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.chain import Chain
from wharfinger.language import describe, typed, units
from wharfinger.language.types import NUMERIC, Kind
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot
from wharfinger.runtime import shipped, values

MOST_LETS = 8


class PolicyCommentary:
    """The commentary of a chain's policies; the rules of a policy are called `policy/rule`.

    One decision is told rule by rule and node by node: what a policy counts over all pods is counted once for all of it.
    """

    def __init__(self, chain: Chain) -> None:
        self._at: tuple[PodView, Snapshot] | None = None
        self._interpreters: dict[str, Interpreter] = {}
        self._filters = {f"{policy.name}/{rule.name}": (policy, rule) for policy in chain.policies for rule in policy.policy.filters}

    def location(self, rule: str) -> str | None:
        """`file:line:column` of a policy's filter, None for any other."""
        found = self._filters.get(rule)
        return None if found is None else shipped.shown(str(found[1].span))

    def rejection(self, pod: PodView, snapshot: Snapshot, rule: str, row: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """(sentences with values filled in, lines that show the operands) of a policy's filter at a node; None for any other filter."""
        found = self._filters.get(rule)
        if found is None:
            return None
        interpreter = self._interpreter(found[0], pod, snapshot)
        failing = [clause for clause, answer in interpreter.filter(found[1], row) if not passes(clause, answer)]
        sentences = tuple(interpreter.message(clause, row) for clause in failing)
        return sentences, tuple(line for clause in failing for line in operands(interpreter, found[0].policy, clause.condition, row))

    def _interpreter(self, policy: CompiledPolicy, pod: PodView, snapshot: Snapshot) -> Interpreter:
        if self._at is None or self._at[0] is not pod or self._at[1] is not snapshot:
            self._at, self._interpreters = (pod, snapshot), {}
        if policy.name not in self._interpreters:
            self._interpreters[policy.name] = interpreter_of(policy, pod, snapshot)
        return self._interpreters[policy.name]


def interpreter_of(policy: CompiledPolicy, pod: PodView, snapshot: Snapshot) -> Interpreter:
    """The plain evaluator of a compiled policy for one pod."""
    return Interpreter(policy.policy, policy.params, pod, snapshot)


def passes(clause: typed.Clause, answer: bool | None) -> bool:
    """Whether an answer of a clause's condition lets the pod onto the node."""
    return clause.missing_passes is True if answer is None else answer


def operands(interpreter: Interpreter, policy: typed.Policy, expression: typed.Expr, row: int) -> list[str]:
    """The source lines of an expression with the values under them, then those of the lets it reads."""
    lines: list[str] = []
    waiting = [expression]
    known = {let.name: let for let in policy.lets}
    told: set[str] = set()
    while waiting and len(told) <= MOST_LETS:
        part = waiting.pop(0)
        found = values.values(part, lambda sub: printed(interpreter.value(sub, row), sub))
        lines += values.lay_out(part.span.source, found)
        for name in values.lets(part):
            if name in known and name not in told and known[name].value.type.kind is not Kind.PODS:
                told.add(name)
                waiting.append(known[name].value)
    return lines


def printed(value: Any, expression: typed.Expr) -> str:
    """A value as text in the unit of its expression's kind, short enough to stand under an operand."""
    kind = expression.type.kind
    if value is None:
        return values.MISSING
    if kind in NUMERIC:
        return units.readable(float(value), kind)
    if isinstance(value, bool | str):
        return describe.value_text(value, kind)
    if isinstance(value, Sequence | frozenset | set):
        return f"[{', '.join(sorted(map(str, value)))}]"
    return str(value)
