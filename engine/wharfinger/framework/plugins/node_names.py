"""The plugins NodeName and NodeUnschedulable: the one node that a pod names, and nodes that are cordoned."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.framework import node_selection
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.evaluation.question import CycleState
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.verdict import SKIP, PreFilterAnswer, Reason, Rows, Verdicts, single
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.objects import matching

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

REASON = Reason("node(s) didn't match the requested node name", resolvable=False)


class NodeName(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodename`, Kubernetes 1.36."""

    name = "NodeName"
    filter_volatility = Volatility.STATIC
    wakes_on = ClusterEvent.NODE_ADD

    def identity(self, pod: PodView) -> Hashable:
        """The pod's `nodeName`, which is not part of the template."""
        return pod.node_name or None

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:  # noqa: ARG002 — the extension point
        """Skip for a pod that names no node."""
        return None if pod.node_name else SKIP

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:  # noqa: ARG002 — the extension point
        """The verdicts for `rows`: bit 0 for all nodes but the one named."""
        return single(REASON, ~node_selection.named(pod.node_name, snapshot, rows))


TAINT = objects.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
REASONS = (Reason("node(s) were unschedulable", resolvable=False),)


class NodeUnschedulable(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodeunschedulable`, Kubernetes 1.36."""

    name = "NodeUnschedulable"
    filter_volatility = Volatility.STATIC
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_TAINT

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:  # noqa: ARG002 — the extension point
        """Skip for a pod that tolerates the taint `node.kubernetes.io/unschedulable`."""
        return SKIP if matching.tolerated(pod.object.spec.tolerations, TAINT) else None

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if the node of the change is not cordoned, or not known."""
        return change.now is None or not change.now.spec.unschedulable

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:  # noqa: ARG002 — the extension point
        """The verdicts for `rows`: bit 0 where the node is cordoned."""
        return Verdicts(REASONS, snapshot.unschedulable[rows].view(np.uint8))
