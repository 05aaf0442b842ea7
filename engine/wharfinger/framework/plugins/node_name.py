"""NodeName: a pod that names its node goes there and nowhere else."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from wharfinger.framework import node_selection
from wharfinger.framework.cluster_event import ClusterEvent
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.verdict import SKIP, PreFilterAnswer, Reason, Rows, Verdicts, single
from wharfinger.language.semantics.catalogue import Volatility

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
        """The node asked for, which is no part of the template."""
        return pod.node_name or None

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:  # noqa: ARG002 — the extension point
        """Skip for a pod that names no node."""
        return None if pod.node_name else SKIP

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:  # noqa: ARG002 — the extension point
        """The verdicts for `rows`: bit 0 everywhere but on the node asked for."""
        return single(REASON, ~node_selection.named(pod.node_name, snapshot, rows))
