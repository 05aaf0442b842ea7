"""TaintToleration: pods stay off nodes whose taints they do not tolerate, and prefer nodes with fewer such marks.

Nodes repeat a handful of taint sets, so the tolerations are held against each distinct set once and the answer is gathered per node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.evaluation.question import CycleState
from wharfinger.framework.extension import FilterPlugin, ScorePlugin
from wharfinger.framework.verdict import DefaultNormalize, Reason, Rows, Verdicts
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.objects import matching

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

REASONS = (Reason("node(s) had untolerated taint(s)", resolvable=False),)


class TaintToleration(FilterPlugin, ScorePlugin):
    """`pkg/scheduler/framework/plugins/tainttoleration`, Kubernetes 1.36."""

    name = "TaintToleration"
    filter_volatility = Volatility.STATIC
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_TAINT
    score_volatility = Volatility.STATIC
    default_weight = 3
    normalization = DefaultNormalize(reverse=True)

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if the pod tolerates the node as it is now."""
        return change.now is None or not matching.untolerated(pod.object.spec.tolerations, change.now.spec.taints)

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:
        """The verdicts for `rows`: bit 0 where a NoSchedule or NoExecute taint is not tolerated."""
        taint_sets = snapshot.taint_set[rows]
        known = _gather(cycle, (self.name, "filter"), snapshot, taint_sets)
        for taint_set in _missing(known, taint_sets):
            known[taint_set] = bool(matching.untolerated(pod.object.spec.tolerations, snapshot.taints(taint_set)))
        return Verdicts(REASONS, known[taint_sets].astype(np.uint8))

    def score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """Raw scores for `rows`: the number of PreferNoSchedule taints that are not tolerated."""
        taint_sets = snapshot.taint_set[rows]
        known = _gather(cycle, (self.name, "score"), snapshot, taint_sets)
        for taint_set in _missing(known, taint_sets):
            soft = [each for each in pod.object.spec.tolerations if each.effect in {"", matching.PREFER_NO_SCHEDULE}]
            known[taint_set] = len(matching.untolerated(soft, snapshot.taints(taint_set), {matching.PREFER_NO_SCHEDULE}))
        return known[taint_sets]


def _gather(cycle: CycleState, key: tuple[str, str], snapshot: Snapshot, taint_sets: NDArray[np.int32]) -> NDArray[np.int64]:
    """The known result of each taint set by number, -1 where it is not known; kept per template until taint sets are renumbered."""
    table, known = cycle.get(key, (None, None))
    if table is not snapshot.strings:
        known = np.empty(0, np.int64)
    size = int(taint_sets.max(initial=-1)) + 1
    if size > len(known):
        known = np.concatenate([known, np.full(size - len(known), -1, np.int64)])
    cycle[key] = snapshot.strings, known
    found: NDArray[np.int64] = known
    return found


def _missing(known: NDArray[np.int64], taint_sets: NDArray[np.int32]) -> list[int]:
    missing: list[int] = np.unique(taint_sets[known[taint_sets] < 0]).tolist()
    return missing
