"""NodePorts: a host port can be taken once per address, and the wildcard address takes it everywhere."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import FilterPlugin, GroupedHints
from wharfinger.framework.prepared import SKIP, Attempt, Mask, PreparedFilter, Reason, Rejected, Rows, Skip
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.objects.pod_view import WILDCARD, taken_ports

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


MAX_PORTS = 500  # of a pod: the nodes on which each of them is in use are looked through


class NodePorts(GroupedHints, FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodeports`, Kubernetes 1.36."""

    name = "NodePorts"
    filter_volatility = Volatility.ROW
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.POD_REMOVED
    same_hints = True

    def hint_group(self, pod: PodView) -> Hashable:
        """The pod's host ports."""
        return pod.host_ports

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if a node was added, or a pod went that took one of the rejected pod's ports."""
        return change.pod is None or any(taken_ports(pod, (change.pod,)))

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip for a pod without host ports; `Rejected` for one with more than `MAX_PORTS`."""
        n_ports = len(attempt.pod.host_ports)
        if n_ports > MAX_PORTS:
            return Rejected((Reason(f"the pod has {n_ports:,} host ports; at most {MAX_PORTS} are supported", resolvable=False),))
        return TakenPorts(attempt.pod) if attempt.pod.host_ports else SKIP


class TakenPorts(PreparedFilter):
    """Bit 0 where one of the pod's host ports is taken."""

    reasons = (Reason("node(s) didn't have free ports for the requested pod ports"),)

    def __init__(self, pod: PodView) -> None:
        self._pod = pod

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8] | Mask:
        """The verdicts."""
        if not isinstance(rows, slice):
            return np.fromiter((self._taken_on(snapshot, row) for row in rows.tolist()), np.bool_, len(rows))
        taken: set[int] = set()
        for ip, protocol, port in self._pod.host_ports:
            users = snapshot.port_users(protocol, port)
            if ip == WILDCARD:
                taken.update(users)
            else:
                taken.update(row for row, addresses in users.items() if ip in addresses or WILDCARD in addresses)
        bits = np.zeros(snapshot.n_nodes, np.uint8)
        bits[list(taken)] = 1
        return bits[rows]

    def _taken_on(self, snapshot: Snapshot, row: int) -> bool:
        """True if one of the ports is taken on the node of a row."""
        return any(
            (addresses := snapshot.port_users(protocol, port).get(row)) is not None
            and (ip == WILDCARD or ip in addresses or WILDCARD in addresses)
            for ip, protocol, port in self._pod.host_ports
        )

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reason against the supposed node, if one of the pod's ports is taken there."""
        return self.reasons if any(taken_ports(self._pod, supposed.pods())) else ()
