"""NodePorts: a host port can be taken once per address, and the wildcard address takes it everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.prepared import SKIP, Attempt, Mask, PreparedFilter, Reason, Rows, Skip
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.objects.pod_view import WILDCARD, taken_ports

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class NodePorts(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodeports`, Kubernetes 1.36."""

    name = "NodePorts"
    filter_volatility = Volatility.ROW
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.POD_REMOVED

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if a node was added, or a pod went that took one of the rejected pod's ports."""
        return change.pod is None or any(taken_ports(pod, (change.pod,)))

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip:
        """Skip for a pod without host ports."""
        return TakenPorts(attempt.pod) if attempt.pod.host_ports else SKIP


class TakenPorts(PreparedFilter):
    """Bit 0 where one of the pod's host ports is taken."""

    reasons = (Reason("node(s) didn't have free ports for the requested pod ports"),)

    def __init__(self, pod: PodView) -> None:
        self._pod = pod

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8] | Mask:
        """The verdicts."""
        taken = [
            row
            for ip, protocol, port in self._pod.host_ports
            for row, addresses in snapshot.port_users(protocol, port).items()
            if ip == WILDCARD or ip in addresses or WILDCARD in addresses
        ]
        if isinstance(rows, slice):
            bits = np.zeros(snapshot.n_nodes, np.uint8)
            bits[taken] = 1
            return bits[rows]
        if not taken:
            return np.zeros(len(rows), np.uint8)
        return np.isin(rows, taken)

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reason against the supposed node, if one of the pod's ports is taken there."""
        return self.reasons if any(taken_ports(self._pod, supposed.pods())) else ()
