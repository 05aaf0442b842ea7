"""The placed pods that a plan may move, and why the others stay.

A move is an eviction, after which the controller of the pod creates it again. So a pod without a controller never moves, and neither does a
pod that would come back to its node (DaemonSet, mirror pod) or begin its work again (Job). Rules of policies about victims, budgets,
priorities, ages and namespaces keep further pods where they are.

A member of a group stays where its group must be within a domain, or is disrupted as a whole: a member on another node would break the
group apart. It stays too where its replacement would not be placed alone: the scheduler places it together with all members that wait, or
not at all while the group has too few members. A member of another group moves as any pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from wharfinger.groups.terms import Disruption
from wharfinger.what_if.leaving_pods import Evictions, staying

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.groups.membership import GroupIndex
    from wharfinger.groups.terms import GroupTerms
    from wharfinger.model import objects
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

SYSTEM = "kube-system"
NOT_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
CRITICAL = 2_000_000_000
"""The priority of system-cluster-critical; no PriorityClass of a user is above 1,000,000,000."""


def namespaces_without_pods(names: Iterable[str], pods: Iterable[objects.Pod]) -> list[str]:
    """The names of namespaces in which none of these pods is, sorted."""
    return sorted(set(names) - {pod.metadata.namespace or "default" for pod in pods})


class Limits(Struct, frozen=True, kw_only=True):
    """The pods that a user lets a plan move.

    `namespaces`: only pods of these, without any all but those of kube-system. `min_age_seconds`: no younger pods. `most_priority`: the
    highest priority that may move. `scheduler`: only pods with this schedulerName.
    """

    namespaces: frozenset[str] = field(default_factory=frozenset)
    min_age_seconds: float = 0.0
    most_priority: int = CRITICAL - 1
    scheduler: str | None = None


class Movable:
    """Computes for each placed pod whether it may move; valid while the snapshot is current. `groups` has the pods that wait too."""

    def __init__(self, chain: Chain, snapshot: Snapshot, limits: Limits, groups: GroupIndex) -> None:
        self._chain = chain
        self._snapshot = snapshot
        self._limits = limits
        self._evictions = Evictions(snapshot.objects)
        self._groups = groups

    def reason_to_stay(self, pod: PodView) -> str | None:
        """The reason why the pod must stay, in words that many pods share; None if it may move."""
        refusal = self._evictions.refusal(pod)
        return self.lasting_reason(pod) or (None if refusal is None else refusal.message)

    def lasting_reason(self, pod: PodView) -> str | None:
        """The reason why the pod must stay, apart from budgets that may allow the eviction once other pods are healthy again; or None."""
        return self._not_by_kind(pod) or self._not_by_group(pod) or self._not_by_limits(pod) or self._not_now(pod)

    def _not_by_group(self, pod: PodView) -> str | None:
        """The reason of the pod's group not to move it."""
        key = self._groups.key_of(pod.uid)
        if key is None:
            return None
        terms = self._groups.terms(key)
        if terms is None:
            return "its group has no PodGroup, for which its replacement would wait"
        if terms.disruption is Disruption.GROUP:
            return "its group is disrupted as a whole"
        level = next((level.key for level in terms.levels), None)
        if level is not None:
            return f"its group stays within one {level}"
        return f"its group is spread over {terms.spread[0]}" if terms.spread else self._not_alone(self._groups.members(key), terms)

    @staticmethod
    def _not_alone(members: Sequence[PodView], terms: GroupTerms) -> str | None:
        """The reason why the replacement of a member would not be placed alone; None if it would be."""
        if any(member.terminating or not member.node_name for member in members):
            return "members of its group have no node, or are being deleted, and its replacement would be placed only together with them"
        return "its group has fewer members than it needs, so its replacement would wait" if len(members) < terms.min_count else None

    @staticmethod
    def _not_by_kind(pod: PodView) -> str | None:
        """The reason why such a pod never moves."""
        owner = pod.controller
        if staying(pod):
            return staying(pod)
        if owner is None:
            return "no controller would create it again"
        if owner.kind == "Job":
            return "the work of a Job would begin again"
        if any(volume.empty_dir is not None for volume in pod.object.spec.volumes):
            return "its emptyDir would be deleted with it"
        return f"it has the annotation {NOT_SAFE}: false" if pod.annotations.get(NOT_SAFE) == "false" else None

    def _not_by_limits(self, pod: PodView) -> str | None:
        """The option of the user that excludes the pod."""
        limits = self._limits
        if limits.namespaces and pod.namespace not in limits.namespaces:
            return "it is of another namespace"
        if not limits.namespaces and pod.namespace == SYSTEM:
            return f"it is of namespace {SYSTEM}"
        if limits.scheduler is not None and pod.scheduler_name != limits.scheduler:
            return "it has another scheduler"
        if pod.priority > limits.most_priority:
            return f"its priority is above {limits.most_priority}"
        young = pod.created is not None and max(self._snapshot.now - pod.created, 0.0) < limits.min_age_seconds
        return f"it is younger than {limits.min_age_seconds:g} s" if young else None

    def _not_now(self, pod: PodView) -> str | None:
        """The reason why the pod cannot move at present, and will not be able to by waiting."""
        if pod.terminating:
            return "it is being deleted"
        if not self._chain.pod_rules(pod, self._snapshot).evictable(pod, self._snapshot).among([pod]):
            return "a policy protects it (never_evict or only_evict)"
        refusal = self._evictions.refusal(pod)
        return None if refusal is None or refusal.passes else refusal.message
