"""InterPodAffinity: affinity and anti-affinity of the incoming pod to placed pods, and of placed pods to the incoming pod.

Filter and score need the number of placed pods in each topology domain that the terms of the incoming pod match, or whose own terms match
the incoming pod (framework/plugins/pods/affinity_counts.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wharfinger.errors import InvalidObject
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.evaluation.question import ALL, CycleState
from wharfinger.framework.extension import Arguments, FilterPlugin, GroupedHints, ScorePlugin
from wharfinger.framework.plugins.pods import affinity_terms as affinity
from wharfinger.framework.plugins.pods.affinity_counts import NAME, Fences, Likings, fencing_keys
from wharfinger.framework.verdict import SKIP, Mask, PreFilterAnswer, PreScoreAnswer, Reason, Rejected, Rows, Verdicts
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.supposition import Supposition
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

REASONS = (
    Reason("node(s) didn't match pod affinity rules", resolvable=False),
    Reason("node(s) didn't match pod anti-affinity rules"),
    Reason("node(s) didn't satisfy existing pods anti-affinity rules"),
)


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

    def pre_filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> PreFilterAnswer:
        """Skip if neither the pod nor any placed pod has required terms that matter; `Rejected` if a selector cannot be read."""
        try:
            affinity.terms_of(pod)
        except InvalidObject as error:
            return Rejected((Reason(f"pod affinity cannot be read: {error}", resolvable=False),))
        fences: Fences | None = cycle.get((NAME, "fences"))
        if fences is None or not fences.stands(snapshot):
            fences = cycle[NAME, "fences"] = Fences(pod, snapshot)
        fences.advance(snapshot)
        return None if fences.matter else SKIP

    def filter(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> Verdicts:  # noqa: ARG002 — the extension point
        """The verdicts for `rows`: bit 0 for missing wanted pods, bit 1 for shunned pods, bit 2 for placed pods that shun this pod."""
        fences: Fences = cycle[NAME, "fences"]
        return Verdicts(REASONS, fences.bits(snapshot, rows))

    def filter_if(self, cycle: CycleState, pod: PodView, supposed: Supposition) -> tuple[Reason, ...]:  # noqa: ARG002 — the extension point
        """The first reason that applies to the supposed node; empty if it passes."""
        fences: Fences = cycle[NAME, "fences"]
        return tuple(REASONS[index] for index in fences.failures(supposed))[:1]

    def filter_changes(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, since: int) -> Rows | None:  # noqa: ARG002 — the extension point
        """The rows of domains that got their first, or lost their last, wanted, shunned or shunning pod."""
        fences: Fences | None = cycle.get((NAME, "fences"))
        if fences is None:
            return None  # the pod's own terms cannot be read, whatever changes
        return fences.advance(snapshot) if fences.stands(snapshot) else ALL

    def pre_score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, feasible: Mask) -> PreScoreAnswer:  # noqa: ARG002 — the extension point
        """Skip if no term matches between this pod and a placed pod."""
        if self.arguments.ignore_preferred_terms_of_existing_pods and not affinity.terms_of(pod).preferred:
            return SKIP
        likings: Likings | None = cycle.get((NAME, "likings"))
        if likings is None or not likings.stands(snapshot):
            likings = cycle[NAME, "likings"] = Likings(pod, snapshot, self.arguments.hard_pod_affinity_weight)
        likings.advance(snapshot)
        return None if likings.any(snapshot) else SKIP

    def score(self, cycle: CycleState, pod: PodView, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:  # noqa: ARG002 — the extension point
        """Raw scores for `rows`: the sum of the weights of all matching terms in the node's domains."""
        likings: Likings = cycle[NAME, "likings"]
        return likings.raw(snapshot, rows)

    def score_changes(
        self,
        cycle: CycleState,
        pod: PodView,  # noqa: ARG002 — the extension point
        snapshot: Snapshot,
        since: int,  # noqa: ARG002 — the extension point
        flipped: NDArray[np.intp],  # noqa: ARG002 — the extension point
    ) -> Rows | None:
        """The rows of the domains whose score changed."""
        likings: Likings | None = cycle.get((NAME, "likings"))
        if likings is None:
            return None
        return likings.advance(snapshot) if likings.stands(snapshot) else ALL

    def score_domains(self, cycle: CycleState, pod: PodView, snapshot: Snapshot) -> Sequence[str]:  # noqa: ARG002 — the extension point
        """The topology keys of all terms that are scored, sorted."""
        likings: Likings = cycle[NAME, "likings"]
        return likings.topology_keys


def _let_in(hints: affinity.Hints, change: Change, placed: PodView) -> bool:
    if change.events & ClusterEvent.POD_PLACED:
        return hints.comes(placed)
    if change.events & ClusterEvent.POD_REMOVED:
        return hints.goes(placed)
    return change.was is None or hints.changes(change.was, placed)
