"""Programs of a policy that read no node: the group of a pod, and the placed pods that may be evicted for a pod.

The group is found from the pod, the time and the labels of its namespace, as the scope of the policy is: so a pod is put into its group
before it is tried. The rules of `preemption { … }` are one program over a placed pod, as the predicate of `pods where …` is; what they need
of the pod that needs room is computed once for that pod.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from wharfinger.compiler import schedule
from wharfinger.compiler.graph import leaves
from wharfinger.compiler.graph.ir import Graph, Module, Node
from wharfinger.compiler.graph.lower import lowering_of
from wharfinger.compiler.graph.lower_calls import visible
from wharfinger.compiler.graph.lowering import Lowering
from wharfinger.compiler.graph.passes import optimized
from wharfinger.compiler.rules import timeout_of
from wharfinger.compiler.selections import item_program
from wharfinger.language.semantics import typed
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import EvaluationContext

NAME, PRESENT, MINIMUM, TIMEOUT, GOVERNED = "name", "present", "least", "timeout", "governed"

MAX_NAME_LENGTH = 253
"""Characters of the name of a group, as Kubernetes allows them for a PodGroup: it is in events, conditions and log lines."""


class Membership(Struct, frozen=True, kw_only=True):
    """The group of a pod: its name within the namespace, how many members are needed, and how long placed ones wait for others."""

    name: str
    min_count: int
    timeout: float


class CompiledGroup:
    """The groups of one policy: `terms` are its settings without numbers, `module` computes the values for each pod.

    `reads_namespaces` is true if that depends on labels of namespaces.
    """

    def __init__(self, policy: typed.Policy, group: typed.Group, params: Mapping[str, Any]) -> None:
        self.terms = group
        self.authority = policy.authority
        self.module = module_of_group(policy, group, params)
        self.reads_namespaces = self.module.has(leaves.NAMESPACES_GIVEN)
        self._timeout = timeout_of(self.module.roots.get(TIMEOUT), group.span)

    @cached_property
    def _program(self) -> schedule.Program:
        return schedule.schedule(self.module, {})  # only at first use: a policy that costs too much is refused before

    def of(self, pod: PodView, at: EvaluationContext) -> Membership | None:
        """The group of a pod; None if the policy does not govern it, or puts it into none."""
        if not self.authority.covers(pod.namespace):
            return None
        program = self._program
        registers = schedule.bound(program, pod, at=at)
        found = {part: registers[place] for part, place in program.registers.items()}
        if not (found.get(GOVERNED, True) and found.get(PRESENT, True)):
            return None
        return Membership(name=_bounded(found[NAME]), min_count=_rounded_up(found.get(MINIMUM, 0.0)), timeout=self._timeout)


def _bounded(name: str) -> str:
    """The name of a group. A very long one, as an annotation may give, is shortened, and is still different from all others."""
    if len(name) <= MAX_NAME_LENGTH:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: MAX_NAME_LENGTH - len(digest) - 1]}-{digest}"


def module_of_group(policy: typed.Policy, group: typed.Group, params: Mapping[str, Any]) -> Module:
    """The optimised program that finds the group of a pod whenever the pod changes. It also computes whether the pod is governed."""
    lowering = lowering_of(policy, Graph(), given=True)
    name = lowering(group.name)
    roots: dict[str, Node] = {NAME: name.node}
    if name.present is not None:
        roots[PRESENT] = name.present
    for part, expr in ((MINIMUM, group.min_count), (TIMEOUT, group.timeout)):
        if expr is not None:
            roots[part] = lowering(expr).node
    if policy.scope is not None:
        roots[GOVERNED] = lowering.certainly(lowering(policy.scope))
    return optimized(Module(graph=lowering.graph, roots=roots), params)


def _rounded_up(number: float) -> int:
    """A calculated `min_count` as a number of pods: rounded up, and 0 if it is negative, infinite or NaN."""
    return max(0, math.ceil(number)) if math.isfinite(number) else 0


def group_of(policy: typed.Policy, params: Mapping[str, Any]) -> CompiledGroup | None:
    """The compiled groups; None if the policy has none."""
    return CompiledGroup(policy, policy.group, params) if policy.group is not None else None


ALLOWED = "allowed"


class Victims:
    """The rules of one policy about victims, as the program `module`.

    `reads_time`: an answer may change with time alone; `reads_namespaces`: with the labels of namespaces.

    Rules of a namespace apply to its own pods alone; pods of other namespaces are never evicted for it.
    """

    def __init__(self, policy: typed.Policy, params: Mapping[str, Any]) -> None:
        self.module = module = module_of_victims(policy, params)
        self._item = item_program(module.roots[ALLOWED])
        captures = {str(place): node for place, node in enumerate(self._item.captures)}
        self._captured = schedule.schedule(Module(graph=module.graph, roots=captures), {})
        self.reads_time = module.has(leaves.NOW_GIVEN)
        self.reads_namespaces = module.has(leaves.NAMESPACES_GIVEN)

    def allowed(self, pod: PodView, at: EvaluationContext) -> Callable[[PodView], bool]:
        """The predicate that is true of placed pods that may be evicted for `pod`, as long as time and objects are these."""
        registers = schedule.bound(self._captured, pod, at=at)
        captured = [registers[self._captured.registers[str(place)]] for place in range(len(self._item.captures))]
        return lambda placed: bool(self._item.run(captured, placed))


def module_of_victims(policy: typed.Policy, params: Mapping[str, Any]) -> Module:
    """The optimised program of a policy that has rules about victims; its root `ALLOWED` is true if a placed pod may be evicted."""
    lowering = lowering_of(policy, Graph(), given=True)
    allowed = visible(lowering, lowering.conjunction(*(_allowed(lowering, rule) for rule in policy.victims)))
    return optimized(Module(graph=lowering.graph, roots={ALLOWED: allowed}), params)


def victims_of(policy: typed.Policy, params: Mapping[str, Any]) -> Victims | None:
    """The compiled rules; None if the policy has none."""
    return Victims(policy, params) if policy.victims else None


def _allowed(lowering: Lowering, rule: typed.VictimRule) -> Node:
    """The node that is true where a rule allows the eviction of a pod."""
    condition = lowering(rule.condition)
    if condition.present is None or not rule.missing_evicts:
        return lowering.certainly(condition)
    return lowering.disjunction(lowering.negated(condition.present), condition.node)
