"""NodeUnschedulable and TaintToleration: pods stay off cordoned nodes and off nodes whose taints they do not tolerate.

They prefer nodes with fewer taints of the effect PreferNoSchedule that they do not tolerate. Many nodes have the same taints. So the
tolerations are compared once with each distinct set of taints, and each node gets the result of its set.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import FilterPlugin, GroupedHints, ScorePlugin
from wharfinger.framework.prepared import SKIP, Attempt, DefaultNormalize, Mask, PreparedFilter, PreparedScore, Reason, Rows, Skip
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.objects import matching

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

UNSCHEDULABLE_TAINT = objects.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(GroupedHints, FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodeunschedulable`, Kubernetes 1.36."""

    name = "NodeUnschedulable"
    filter_volatility = Volatility.STATIC
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_TAINT
    same_hints = True

    def hint_group(self, pod: PodView) -> Hashable:  # noqa: ARG002 — the extension point
        """The same group for all pods, because only pods that do not tolerate the taint are rejected."""
        return None

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip:
        """Skip for a pod that tolerates the taint `node.kubernetes.io/unschedulable`."""
        return SKIP if attempt.pod.tolerations.tolerate(UNSCHEDULABLE_TAINT) else Cordoned()

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if the node of the change is not cordoned, or not known."""
        return change.now is None or not change.now.spec.unschedulable


class Cordoned(PreparedFilter):
    """Bit 0 where the node is cordoned."""

    reasons = (Reason("node(s) were unschedulable", resolvable=False),)

    def bits(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """The verdicts."""
        return snapshot.unschedulable[rows]


class TaintToleration(GroupedHints, FilterPlugin, ScorePlugin):
    """`pkg/scheduler/framework/plugins/tainttoleration`, Kubernetes 1.36."""

    name = "TaintToleration"
    filter_volatility = Volatility.STATIC
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_TAINT
    score_volatility = Volatility.STATIC
    default_weight = 3
    normalization = DefaultNormalize(reverse=True)
    same_hints = True

    def hint_group(self, pod: PodView) -> Hashable:
        """The pod's tolerations."""
        return pod.object.spec.tolerations

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if the pod tolerates the node as it is now."""
        return change.now is None or not pod.tolerations.untolerated(change.now.spec.taints)

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter:
        """Never skips."""
        return UntoleratedTaints(attempt.pod)

    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore:  # noqa: ARG002 — the extension point
        """Never skips."""
        return SoftTaints(attempt.pod)


class UntoleratedTaints(PreparedFilter):
    """Bit 0 where a NoSchedule or NoExecute taint is not tolerated."""

    reasons = (Reason("node(s) had untolerated taint(s)", resolvable=False),)

    def __init__(self, pod: PodView) -> None:
        tolerations = pod.tolerations
        self._untolerated = PerTaintSet(lambda taints: len(tolerations.untolerated(taints)))

    def bits(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """The verdicts."""
        return self._untolerated.at(snapshot, rows) > 0


class SoftTaints(PreparedScore):
    """The number of PreferNoSchedule taints that are not tolerated."""

    def __init__(self, pod: PodView) -> None:
        tolerations = pod.tolerations
        self._untolerated = PerTaintSet(lambda taints: len(tolerations.untolerated(taints, {matching.PREFER_NO_SCHEDULE})))

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The raw scores."""
        return self._untolerated.at(snapshot, rows)


class PerTaintSet:
    """A number for each set of taints, computed once."""

    def __init__(self, number_of: Callable[[tuple[objects.Taint, ...]], int]) -> None:
        self._number_of = number_of
        self._known: NDArray[np.int64] = np.empty(0, np.int64)  # by number of the taint set, -1 where it is not known

    def at(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The numbers of some rows, `(n_rows,)`."""
        taint_sets = snapshot.taint_set[rows]
        size = int(taint_sets.max(initial=-1)) + 1
        if size > len(self._known):
            self._known = np.concatenate([self._known, np.full(size - len(self._known), -1, np.int64)])
        for taint_set in set(taint_sets[self._known[taint_sets] < 0].tolist()):  # the first np.unique of a process imports numpy.ma
            self._known[taint_set] = self._number_of(snapshot.taints(taint_set))
        found: NDArray[np.int64] = self._known[taint_sets]
        return found
