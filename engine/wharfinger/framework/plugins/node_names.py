"""The plugins NodeName and NodeUnschedulable: the one node that a pod names, and nodes that are cordoned."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.prepared import SKIP, Attempt, Mask, PreparedFilter, Reason, Rows, Skip
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.objects import matching
from wharfinger.model.state import node_selection

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class NodeName(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodename`, Kubernetes 1.36."""

    name = "NodeName"
    filter_volatility = Volatility.STATIC
    wakes_on = ClusterEvent.NODE_ADD

    def identity(self, pod: PodView) -> Hashable:
        """The pod's `nodeName`, which is not part of the template."""
        return pod.node_name or None

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip:
        """Skip for a pod that names no node."""
        return OtherName(attempt.pod.node_name) if attempt.pod.node_name else SKIP


class OtherName(PreparedFilter):
    """Bit 0 for all nodes but the one named."""

    reasons = (Reason("node(s) didn't match the requested node name", resolvable=False),)

    def __init__(self, name: str) -> None:
        self._name = name

    def bits(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """The verdicts."""
        return ~node_selection.named(self._name, snapshot, rows)


TAINT = objects.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodeunschedulable`, Kubernetes 1.36."""

    name = "NodeUnschedulable"
    filter_volatility = Volatility.STATIC
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_TAINT

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip:
        """Skip for a pod that tolerates the taint `node.kubernetes.io/unschedulable`."""
        return SKIP if matching.tolerated(attempt.pod.object.spec.tolerations, TAINT) else Cordoned()

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if the node of the change is not cordoned, or not known."""
        return change.now is None or not change.now.spec.unschedulable


class Cordoned(PreparedFilter):
    """Bit 0 where the node is cordoned."""

    reasons = (Reason("node(s) were unschedulable", resolvable=False),)

    def bits(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """The verdicts."""
        return snapshot.unschedulable[rows]
