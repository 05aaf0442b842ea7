"""SchedulingGates: a pod waits outside the queue until all its gates are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.framework.extension import PreEnqueuePlugin
from wharfinger.framework.verdict import Reason

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView


class SchedulingGates(PreEnqueuePlugin):
    """`pkg/scheduler/framework/plugins/schedulinggates`, Kubernetes 1.36."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodView) -> Reason | None:
        """The gates that are still there, or None."""
        gates = " ".join(gate.name for gate in pod.object.spec.scheduling_gates)
        return Reason(f"waiting for scheduling gates: [{gates}]", resolvable=False) if gates else None
