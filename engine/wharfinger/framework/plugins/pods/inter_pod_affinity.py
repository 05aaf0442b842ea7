"""InterPodAffinity: affinity and anti-affinity of the incoming pod to placed pods, and of placed pods to the incoming pod.

Filter and score need the number of placed pods in each topology domain that the terms of the incoming pod match, or whose own terms match
the incoming pod (framework/plugins/pods/affinity_counts.py).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wharfinger.errors import InvalidObject
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import Arguments, FilterPlugin, GroupedHints, ScorePlugin
from wharfinger.framework.plugins.pods import affinity_terms as affinity
from wharfinger.framework.plugins.pods.affinity_counts import (
    NAME,
    PreparedAffinityFilter,
    PreparedAffinityScore,
    SharedIncomingPod,
    fencing_keys,
)
from wharfinger.framework.prepared import SKIP_ALWAYS, Attempt, Mask, PreparedFilter, PreparedScore, Reason, Rejected, Skip
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class InterPodAffinityArguments(Arguments):
    """InterPodAffinityArgs: the weight of placed pods' required affinity to the incoming pod, and whether to ignore their preferences."""

    hard_pod_affinity_weight: int = Field(default=1, ge=0, le=100)
    ignore_preferred_terms_of_existing_pods: bool = False


@dataclass(frozen=True, slots=True)
class MinMaxNormalize:
    """`NormalizeScore` of the plugin: the lowest raw score becomes 0, the highest 100; all 0 where they are equal."""

    least: float = -np.inf

    def points(self, scores: NDArray[Any], low: float, high: float) -> NDArray[np.int64]:
        """`100·(raw − low)/(high − low)`, truncated."""
        if high <= low:
            return np.zeros(len(scores), np.int64)
        return (100.0 * ((scores - low) / (high - low))).astype(np.int64)


class InterPodAffinity(GroupedHints, FilterPlugin, ScorePlugin):
    """`pkg/scheduler/framework/plugins/interpodaffinity`, Kubernetes 1.36."""

    name = NAME
    arguments_model = InterPodAffinityArguments
    filter_volatility = Volatility.GLOBAL
    wakes_on = (
        ClusterEvent.NODE_ADD
        | ClusterEvent.NODE_LABEL
        | ClusterEvent.POD_PLACED
        | ClusterEvent.POD_CHANGED
        | ClusterEvent.POD_REMOVED
        | ClusterEvent.NAMESPACE
    )
    score_volatility = Volatility.GLOBAL
    default_weight = 2
    normalization = MinMaxNormalize()

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if a change of a placed pod, namespace or node may satisfy the terms between this pod and placed pods.

        As `isSchedulableAfterPodChange` and `isSchedulableAfterNodeChange` (plugins/interpodaffinity/plugin.go, 1.36).
        """
        try:
            terms = affinity.terms_of(pod)
        except InvalidObject:
            return False  # no event makes them readable
        if change.pod is not None:
            return _let_in(affinity.Hints(pod, terms, snapshot.objects), change, change.pod)
        if change.events & ClusterEvent.NAMESPACE:
            return True
        keys = {term.topology_key for term in terms.required}
        if change.events & ClusterEvent.NODE_ADD:
            return not keys or change.now is None or not keys.isdisjoint(change.now.metadata.labels)
        keys |= {term.topology_key for term in terms.required_anti}
        return not change.keys.isdisjoint(keys) or not change.keys.isdisjoint(fencing_keys(snapshot))

    def hint_group(self, pod: PodView) -> Hashable:
        """Everything that the pod's terms depend on (`affinity_terms.likeness`)."""
        return affinity.likeness(pod)

    def may_help_group(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:
        """True if `may_help` may be true for some pod with these terms, whatever its labels."""
        placed = change.pod
        if placed is None or change.events & ClusterEvent.POD_PLACED:
            return self.may_help(pod, change, snapshot)
        try:
            hints = affinity.Hints(pod, affinity.terms_of(pod), snapshot.objects)
        except InvalidObject:
            return False
        if change.events & ClusterEvent.POD_REMOVED:
            return hints.may_go(placed)
        return change.was is None or hints.may_go(change.was) or hints.comes(placed)

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip if neither the pod nor any placed pod has required terms that matter; `Rejected` if a selector cannot be read."""
        try:
            incoming_pod = attempt.shared.once(SharedIncomingPod, SharedIncomingPod).latest(attempt)
        except InvalidObject as error:
            return Rejected((Reason(f"pod affinity cannot be read: {error}", resolvable=False),))
        prepared = PreparedAffinityFilter(incoming_pod, attempt.snapshot)
        return prepared if prepared.matter else Skip(incoming_pod.stands)

    def prepare_score(self, attempt: Attempt, feasible: Mask) -> PreparedScore | Skip:  # noqa: ARG002 — the extension point
        """Skip if no term matches between this pod and a placed pod."""
        if self.arguments.ignore_preferred_terms_of_existing_pods and not affinity.terms_of(attempt.pod).preferred:
            return SKIP_ALWAYS
        incoming_pod = attempt.shared.once(SharedIncomingPod, SharedIncomingPod).latest(attempt)
        prepared = PreparedAffinityScore(incoming_pod, attempt.snapshot, self.arguments.hard_pod_affinity_weight)
        return prepared if prepared.any(attempt.snapshot) else Skip(prepared.stands if prepared.domains else incoming_pod.stands)


def _let_in(hints: affinity.Hints, change: Change, placed: PodView) -> bool:
    if change.events & ClusterEvent.POD_PLACED:
        return hints.comes(placed)
    if change.events & ClusterEvent.POD_REMOVED:
        return hints.goes(placed)
    return change.was is None or hints.changes(change.was, placed)
