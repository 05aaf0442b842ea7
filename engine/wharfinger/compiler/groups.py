"""The `group` block of a policy, compiled: the name of a pod's group, and the numbers that hold for it.

Both are decided without a look at nodes and other pods, as the scope of the policy is: from the pod, the time and the labels of its
namespace. So a pod is put into its group before it is tried.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.compiler.evaluation import schedule
from wharfinger.compiler.evaluation.rules import DEFAULT_TIMEOUT
from wharfinger.compiler.graph import leaves
from wharfinger.compiler.graph.ir import Graph, Module, Node
from wharfinger.compiler.graph.lower import lowering_of
from wharfinger.compiler.graph.passes import optimized
from wharfinger.language.semantics import typed
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.tables import Circumstances

NAME, PRESENT, LEAST, TIMEOUT, SCOPE = "name", "present", "least", "timeout", "scope"

LONGEST_NAME = 253
"""Characters of the name of a group, as Kubernetes allows them for a PodGroup: it is in events, conditions and log lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The group of a pod: its name within the namespace, how many members are needed, and how long placed ones wait for others."""

    name: str
    min_count: int
    timeout: float


class CompiledGroup:
    """The groups of one policy; `terms` is what it says besides numbers, `reads_namespaces` is true if they depend on labels of those."""

    def __init__(self, policy: typed.Policy, group: typed.Group, params: Mapping[str, Any]) -> None:
        self.terms = group
        module = optimized(lowered(policy, group), params)
        self.reads_namespaces = module.has(leaves.NAMESPACES_GIVEN)
        self._program = schedule.schedule(module, {})

    def of(self, pod: PodView, at: Circumstances) -> Membership | None:
        """The group of a pod that the policy governs; None if it is in none."""
        program = self._program
        registers = schedule.bound(program, pod, at=at)
        found = {part: registers[place] for part, place in program.registers.items()}
        if not found.get(PRESENT, True):
            return None
        return Membership(
            name=_bounded(found[NAME]), min_count=_whole(found.get(LEAST, 0.0)), timeout=float(found.get(TIMEOUT, DEFAULT_TIMEOUT))
        )


def _bounded(name: str) -> str:
    """The name of a group, which an annotation may make very long: such a one is cut, and still unlike all others."""
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: LONGEST_NAME - len(digest) - 1]}-{digest}"


def lowered(policy: typed.Policy, group: typed.Group) -> Module:
    """The graph of what is asked of each pod, not yet optimised."""
    lowering = lowering_of(policy, Graph(), given=True)
    name = lowering(group.name)
    roots: dict[str, Node] = {NAME: name.node}
    if name.present is not None:
        roots[PRESENT] = name.present
    for part, expr in ((LEAST, group.min_count), (TIMEOUT, group.timeout)):
        if expr is not None:
            roots[part] = lowering(expr).node
    return Module(graph=lowering.graph, roots=roots)


def asked_of_each_pod(policy: typed.Policy) -> Module:
    """The graph of what is asked of each pod whenever it changes, because the policy has groups: the scope too. Empty without groups."""
    if policy.group is None:
        return Module(graph=Graph(), roots={})
    found = lowered(policy, policy.group)
    roots = dict(found.roots)
    if policy.scope is not None:
        lowering = lowering_of(policy, found.graph, given=True)
        roots[SCOPE] = lowering.certainly(lowering(policy.scope))
    return optimized(Module(graph=found.graph, roots=roots), {})


def _whole(number: float) -> int:
    """A calculated `min_count` as a number of pods: rounded up, and 0 for what is negative, infinite or no number."""
    return max(0, math.ceil(number)) if math.isfinite(number) else 0


def group_of(policy: typed.Policy, params: Mapping[str, Any]) -> CompiledGroup | None:
    """The compiled groups; None if the policy has none."""
    return CompiledGroup(policy, policy.group, params) if policy.group is not None else None
