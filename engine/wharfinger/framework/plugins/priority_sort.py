"""PrioritySort: pods of higher priority are tried first; among equals whoever waits longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.framework.extension import QueueSortPlugin

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView


class PrioritySort(QueueSortPlugin):
    """`pkg/scheduler/framework/plugins/queuesort`, Kubernetes 1.36."""

    name = "PrioritySort"

    def sort_key(self, pod: PodView) -> int:
        """The priority, negated; pods of one priority keep the order in which they were queued."""
        return -pod.priority
