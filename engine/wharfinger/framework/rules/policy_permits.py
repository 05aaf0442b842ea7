"""The `permit` rules of a compiled policy as plugins, named `policy/rule`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.reads import reads_identity
from wharfinger.framework import cluster_event
from wharfinger.framework.cluster_event import Change
from wharfinger.framework.extension import Permission, Placement, Plugin
from wharfinger.language.semantics.types import Shape

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class PolicyPermit(Plugin):
    """A `permit` as a plugin, which needs the cluster as it is when it is asked, and not as it was when the pod was placed.

    `timed`: the answer may change with time alone. `common`: pods of one template get the same answer, whatever nodes they are on.
    """

    def __init__(self, policy: CompiledPolicy, index: int) -> None:
        super().__init__()
        self._policy = policy
        self._rule = rule = policy.permits[index]
        self._typed = said = policy.policy.permits[index]
        self.name = f"{policy.name}/{rule.name}"
        self.origin = policy.name, rule.name
        self.timeout = rule.timeout
        self._wakes = cluster_event.of_filter(policy, said)
        self.wakes_on = self._wakes.events
        asked = [*([] if said.when is None else [said.when]), *(clause.condition for clause in said.clauses)]
        lets = {let.name: let.value for let in policy.policy.lets}
        self.timed = bool(self._wakes.events & cluster_event.ClusterEvent.TIME)
        self.common = all(expr.type.shape <= Shape.POD and not reads_identity(expr, lets) for expr in asked)

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if the rule reads what has changed."""
        return self._wakes.concern(change)

    def permission(self, placement: Placement, snapshot: Snapshot) -> Permission:
        """The permission to bind a placed pod; the pod itself counts among the placed ones. A node that is gone is left to the bind."""
        row = snapshot.row(placement.node)
        if row is None:
            return Permission()
        bound = BoundPolicy(self._policy, placement.pod, snapshot, counted=True)
        refused = bool(bound.bits_of(self._rule, snapshot, np.array([row], dtype=np.intp))[0])
        return Permission(approved=not refused, wait_seconds=self.timeout if refused else 0.0)

    def message(self, placement: Placement, snapshot: Snapshot) -> str:
        """The reasons why a placed pod waits: the messages of the clauses that do not hold."""
        row = snapshot.row(placement.node)
        if row is None:
            return ""
        interpreter = Interpreter(self._policy.policy, self._policy.params, placement.pod, snapshot, counted=True)
        answers = interpreter.filter(self._typed, row)
        refused = (clause for clause, answer in answers if answer is False or (answer is None and not clause.missing_passes))
        return "; ".join(interpreter.message(clause, row) for clause in refused)
