"""NodePorts: a host port can be taken once per address, and the wildcard address takes it everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wharfinger.framework import node_selection
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.evaluation.question import CycleState
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.verdict import SKIP, PreFilterAnswer, Reason, Rows, Verdicts
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.objects.pod_view import WILDCARD, taken_ports

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.supposition import Supposition
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

REASONS = (Reason("node(s) didn't have free ports for the requested pod ports"),)


class NodePorts(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodeports`, Kubernetes 1.36."""

    name = "NodePorts"
    filter_volatility = Volatility.ROW
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.POD_REMOVED

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if a node was added, or a pod went that took one of the rejected pod's ports."""
        return change.pod is None or any(taken_ports(pod, (change.pod,)))

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:  # noqa: ARG002 — the extension point
        """Skip for a pod without host ports."""
        return None if pod.host_ports else SKIP

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:  # noqa: ARG002 — the extension point
        """The verdicts for `rows`: bit 0 where one of the pod's host ports is taken."""
        taken = [
            row
            for ip, protocol, port in pod.host_ports
            for row, addresses in snapshot.port_users(protocol, port).items()
            if ip == WILDCARD or ip in addresses or WILDCARD in addresses
        ]
        if isinstance(rows, slice):
            bits = np.zeros(snapshot.n_nodes, np.uint8)
            bits[taken] = 1
            return Verdicts(REASONS, bits[rows])
        if not taken:
            return Verdicts(REASONS, np.zeros(node_selection.row_count(snapshot, rows), np.uint8))
        return Verdicts(REASONS, np.isin(rows, taken).view(np.uint8))

    def filter_if(self, cycle: CycleState, pod: PodView, supposed: Supposition) -> tuple[Reason, ...]:  # noqa: ARG002 — the extension point
        """The reason against the supposed node, if one of the pod's ports is taken there."""
        return REASONS if any(taken_ports(pod, supposed.pods())) else ()
