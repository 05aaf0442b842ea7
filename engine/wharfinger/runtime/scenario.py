"""One `test` block brought to life: its nodes and pods as a cluster, and what happened to each pod it placed.

A test goes through the same reading, chain and `decide` as a real cluster does; only the objects are made up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.cycle import decide
from wharfinger.framework.decision import Decision
from wharfinger.language import ast, test_steps, typed, units
from wharfinger.model import decode, objects
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.pod import PodView
from wharfinger.model.snapshot import Snapshot
from wharfinger.runtime import commentary, test_objects

Compiling = Callable[[typed.Policy, Mapping[str, Any]], CompiledPolicy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One `place`: the decision, and the cluster as it was just before.

    Where preemption made room for the pod, both are those after its victims have left, and `evicted` are their names. `preempting` is the
    policy as it stood before that; None where the pod fitted at once.
    """

    decision: Decision
    evicted: tuple[str, ...]
    snapshot: Snapshot
    interpreter: Interpreter
    preempting: Interpreter | None
    governed: bool


class Scenario:
    """The cluster of a test as far as its steps have been followed."""

    def __init__(self, policy: typed.Policy, test: ast.Test, compiled: Compiling = compile_policy) -> None:
        """Compile the policy with the params that the test sets; `compiled` does it, or knows it already."""
        given = {step.name: literal(step.value) for step in test.steps if isinstance(step, test_steps.Param)}
        self.policy: CompiledPolicy = compiled(policy, given)
        self.attempts: dict[str, Attempt] = {}
        self.last: Attempt | None = None
        self._chain = assemble([self.policy])
        self._state = ClusterState()
        self._fields: dict[tuple[test_steps.ObjectKind, str], Mapping[str, Any]] = {}
        self._pods: dict[str, PodView] = {}

    def follow(self, step: ast.TestStep) -> None:
        """Carry out a step that declares or places something; an `expect` changes nothing."""
        if isinstance(step, test_steps.Object):
            self._declare(step)
        elif isinstance(step, test_steps.Running):
            self._run(step)
        elif isinstance(step, test_steps.Metric):
            self._measure(step)
        elif isinstance(step, test_steps.Place):
            self._place(step.pod)

    def _declare(self, step: test_steps.Object) -> None:
        fields = self._inherited(step.kind, step.like, step.fields)
        self._fields[step.kind, step.name] = fields
        if step.kind is test_steps.ObjectKind.NODE:
            self._state.add_node(decode.convert(test_objects.node_manifest(step.name, fields), objects.Node))
        else:
            self._pods[step.name] = PodView(decode.convert(test_objects.pod_manifest(step.name, fields), objects.Pod))

    def _run(self, step: test_steps.Running) -> None:
        fields = self._inherited(test_steps.ObjectKind.POD, step.like, step.fields)
        self._fields[test_steps.ObjectKind.POD, step.name] = fields
        self._state.add_pod(decode.convert(test_objects.pod_manifest(step.name, fields, node=step.node), objects.Pod))

    def _inherited(self, kind: test_steps.ObjectKind, like: str | None, own: tuple[ast.ObjectField, ...]) -> Mapping[str, Any]:
        base = self._fields[kind, like] if like is not None else {}
        return test_objects.merged(base, test_objects.plain(own))

    def _measure(self, step: test_steps.Metric) -> None:
        now = test_objects.NOW.timestamp()
        ages = [0.0 if age is None else literal(age) for age in step.ages]
        samples = {node: (literal(value), now - age) for (node, _), value, age in zip(step.nodes, step.values, ages, strict=True)}
        self._state.set_metric(step.name, samples)

    def _place(self, name: str) -> None:
        pod = self._pods[name]
        decision, snapshot = self._decide(pod)
        preempting = None if decision.node is not None else commentary.interpreter_of(self.policy, pod, snapshot)
        victims = decision.victims
        if victims:
            for victim in victims:
                self._state.remove_pod(victim)
            decision, snapshot = self._decide(pod)
        attempt = Attempt(
            decision=decision,
            evicted=tuple(victim.name for victim in victims),
            snapshot=snapshot,
            interpreter=commentary.interpreter_of(self.policy, pod, snapshot),
            preempting=preempting,
            governed=self.policy.governs(pod, snapshot.now),
        )
        self.attempts[name] = self.last = attempt
        if decision.node is not None:
            self._state.assume(pod, decision.node)

    def _decide(self, pod: PodView) -> tuple[Decision, Snapshot]:
        snapshot = self._state.snapshot(test_objects.NOW.timestamp()).detach()
        return decide(self._chain, snapshot, pod), snapshot


def literal(value: ast.Expr) -> Any:
    """A literal as a plain value in base units (millicores, bytes, fractions, seconds): what a param or a sample is."""
    if isinstance(value, ast.Number):
        return units.base_value(value.digits, value.unit)
    if isinstance(value, ast.Unary) and value.op is ast.UnaryOp.MINUS:
        return -literal(value.operand)
    if isinstance(value, ast.SetLiteral):
        return frozenset(literal(item) for item in value.items)
    if isinstance(value, ast.String | ast.Boolean):
        return value.value
    raise TypeError(f"{type(value).__name__} is not a literal")
