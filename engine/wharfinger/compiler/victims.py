"""The rules of `preemption { … }`, compiled: which placed pods may be evicted for a pod that needs room.

They are one small program over a placed pod, as the predicate of `pods where …` is. What they need of the pod that needs room is computed
once for that pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wharfinger.compiler.evaluation import schedule
from wharfinger.compiler.evaluation.selections import item_program
from wharfinger.compiler.graph import leaves
from wharfinger.compiler.graph.ir import Graph, Module, Node
from wharfinger.compiler.graph.lower import lowering_of
from wharfinger.compiler.graph.lower_calls import visible
from wharfinger.compiler.graph.lowering import Lowering
from wharfinger.compiler.graph.passes import optimized
from wharfinger.language.semantics import typed
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import Circumstances

ALLOWED = "allowed"


class Victims:
    """The rules of one policy about victims, as the program `module`.

    `timed`: an answer may change with time alone; `reads_namespaces`: with the labels of namespaces.

    Rules of a namespace apply to its own pods alone; pods of other namespaces are never evicted for it.
    """

    def __init__(self, policy: typed.Policy, params: Mapping[str, Any]) -> None:
        self.module = module = lowered(policy, params)
        self._item = item_program(module.roots[ALLOWED])
        captures = {str(place): node for place, node in enumerate(self._item.captures)}
        self._captured = schedule.schedule(Module(graph=module.graph, roots=captures), {})
        self.timed = module.has(leaves.NOW_GIVEN)
        self.reads_namespaces = module.has(leaves.NAMESPACES_GIVEN)

    def allowed(self, pod: PodView, at: Circumstances) -> Callable[[PodView], bool]:
        """The predicate that is true of placed pods that may be evicted for `pod`, as long as the circumstances are these."""
        registers = schedule.bound(self._captured, pod, at=at)
        captured = [registers[self._captured.registers[str(place)]] for place in range(len(self._item.captures))]
        return lambda placed: bool(self._item.run(captured, placed))


def lowered(policy: typed.Policy, params: Mapping[str, Any]) -> Module:
    """The optimised program of a policy that has rules about victims; its root `ALLOWED` is true if a placed pod may be evicted."""
    lowering = lowering_of(policy, Graph(), given=True)
    allowed = visible(lowering, lowering.conjunction(*(_allowed(lowering, rule) for rule in policy.victims)))
    return optimized(Module(graph=lowering.graph, roots={ALLOWED: allowed}), params)


def victims_of(policy: typed.Policy, params: Mapping[str, Any]) -> Victims | None:
    """The compiled rules; None if the policy has none."""
    return Victims(policy, params) if policy.victims else None


def _allowed(lowering: Lowering, rule: typed.VictimRule) -> Node:
    """The node that says where a rule lets a pod be evicted."""
    condition = lowering(rule.condition)
    if condition.present is None or not rule.missing_evicts:
        return lowering.certainly(condition)
    return lowering.disjunction(lowering.negated(condition.present), condition.node)
