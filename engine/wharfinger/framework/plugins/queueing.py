"""The plugins of the queue: PrioritySort orders it by priority, SchedulingGates keeps pods with gates out of it (Kubernetes 1.36)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.framework.extension import PreEnqueuePlugin, QueueSortPlugin
from wharfinger.framework.prepared import Reason

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView


class PrioritySort(QueueSortPlugin):
    """`pkg/scheduler/framework/plugins/queuesort`, Kubernetes 1.36."""

    name = "PrioritySort"

    def sort_key(self, pod: PodView) -> int:
        """The priority, negated; pods of one priority keep the order in which they were queued."""
        return -pod.priority


class SchedulingGates(PreEnqueuePlugin):
    """`pkg/scheduler/framework/plugins/schedulinggates`, Kubernetes 1.36."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodView) -> Reason | None:
        """The reason with the pod's scheduling gates; None if it has none."""
        gates = " ".join(gate.name for gate in pod.object.spec.scheduling_gates)
        return Reason(f"waiting for scheduling gates: [{gates}]", resolvable=False) if gates else None
