"""The `group` block of a policy, compiled: the name of a pod's group, and the numbers that hold for it.

Both are decided without a look at nodes and other pods, as the scope of the policy is: from the pod, the time and the labels of its
namespace. So a pod is put into its group before it is tried.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wharfinger.compiler.evaluation import schedule
from wharfinger.compiler.evaluation.rules import timeout_of
from wharfinger.compiler.graph import leaves
from wharfinger.compiler.graph.ir import Graph, Module, Node
from wharfinger.compiler.graph.lower import lowering_of
from wharfinger.compiler.graph.passes import optimized
from wharfinger.language.semantics import typed
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import Circumstances

NAME, PRESENT, MINIMUM, TIMEOUT, GOVERNED = "name", "present", "least", "timeout", "governed"

MAX_NAME_LENGTH = 253
"""Characters of the name of a group, as Kubernetes allows them for a PodGroup: it is in events, conditions and log lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The group of a pod: its name within the namespace, how many members are needed, and how long placed ones wait for others."""

    name: str
    min_count: int
    timeout: float


class CompiledGroup:
    """The groups of one policy: `terms` is what it says besides numbers, `module` what it computes for each pod.

    `reads_namespaces` is true if that depends on labels of namespaces.
    """

    def __init__(self, policy: typed.Policy, group: typed.Group, params: Mapping[str, Any]) -> None:
        self.terms = group
        self.authority = policy.authority
        self.module = lowered(policy, group, params)
        self.reads_namespaces = self.module.has(leaves.NAMESPACES_GIVEN)
        self._timeout = timeout_of(self.module.roots.get(TIMEOUT), group.span)

    @cached_property
    def _program(self) -> schedule.Program:
        return schedule.schedule(self.module, {})  # not before a pod is asked: a policy that costs too much is refused by then

    def of(self, pod: PodView, at: Circumstances) -> Membership | None:
        """The group of a pod; None if the policy does not govern it, or puts it into none."""
        if not self.authority.covers(pod.namespace):
            return None
        program = self._program
        registers = schedule.bound(program, pod, at=at)
        found = {part: registers[place] for part, place in program.registers.items()}
        if not (found.get(GOVERNED, True) and found.get(PRESENT, True)):
            return None
        return Membership(name=_bounded(found[NAME]), min_count=_whole(found.get(MINIMUM, 0.0)), timeout=self._timeout)


def _bounded(name: str) -> str:
    """The name of a group, which an annotation may make very long: such a one is cut, and still unlike all others."""
    if len(name) <= MAX_NAME_LENGTH:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: MAX_NAME_LENGTH - len(digest) - 1]}-{digest}"


def lowered(policy: typed.Policy, group: typed.Group, params: Mapping[str, Any]) -> Module:
    """The optimised program of what is asked of each pod, whenever it changes, to find its group: whether it is governed, too."""
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


def _whole(number: float) -> int:
    """A calculated `min_count` as a number of pods: rounded up, and 0 for what is negative, infinite or no number."""
    return max(0, math.ceil(number)) if math.isfinite(number) else 0


def group_of(policy: typed.Policy, params: Mapping[str, Any]) -> CompiledGroup | None:
    """The compiled groups; None if the policy has none."""
    return CompiledGroup(policy, policy.group, params) if policy.group is not None else None
