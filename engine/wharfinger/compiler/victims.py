"""`preemption { … }` compiled: whether a placed pod may be evicted for the pod that needs room.

The rules are one small program over the placed pod, as the predicate of `pods where …` is. What they need of the pod that needs room is
worked out once for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wharfinger.compiler import leaves, schedule
from wharfinger.compiler.ir import Graph, Module, Node, ordered
from wharfinger.compiler.lower import Lowering
from wharfinger.compiler.lower_pods import visible
from wharfinger.compiler.passes import optimized
from wharfinger.compiler.selections import item_program
from wharfinger.language import typed
from wharfinger.model.pod import PodView

ALLOWED = "allowed"


class Victims:
    """The rules of one policy about victims; `timed` says that an answer may change with time alone.

    Those of a namespace can only be about its own pods. Of others nothing says that they may go, so they stay.
    """

    def __init__(self, policy: typed.Policy, params: Mapping[str, Any]) -> None:
        module = lowered(policy, params)
        self._item = item_program(module.roots[ALLOWED])
        captures = {str(place): node for place, node in enumerate(self._item.captures)}
        self._captured = schedule.schedule(Module(graph=module.graph, roots=captures), {})
        self.timed = any(node.op is leaves.NOW_GIVEN for node in ordered(module.roots.values()))

    def allowed(self, pod: PodView, now: float) -> Callable[[PodView], bool]:
        """The predicate that says of a placed pod whether it may be evicted for `pod` at time `now`."""
        registers = schedule.bound(self._captured, pod, now=now)
        captured = [registers[self._captured.registers[str(place)]] for place in range(len(self._item.captures))]
        return lambda placed: bool(self._item.run(captured, placed))


def lowered(policy: typed.Policy, params: Mapping[str, Any]) -> Module:
    """The optimised program whose root `ALLOWED` says whether a placed pod may be evicted; of a policy that has rules about it."""
    lowering = Lowering(policy, Graph(), given_time=True)
    allowed = visible(lowering, lowering.conjunction(*(_allowed(lowering, rule) for rule in policy.victims)))
    return optimized(Module(graph=lowering.graph, roots={ALLOWED: allowed}), params)


def victims_of(policy: typed.Policy, params: Mapping[str, Any]) -> Victims | None:
    """The compiled rules; None where the policy has none."""
    return Victims(policy, params) if policy.victims else None


def _allowed(lowering: Lowering, rule: typed.VictimRule) -> Node:
    """Where a rule lets a pod be evicted."""
    condition = lowering(rule.condition)
    if condition.present is None or not rule.missing_evicts:
        return lowering.certainly(condition)
    return lowering.disjunction(lowering.negated(condition.present), condition.node)
