"""The pods that preemption for a group may evict: those that are leaving already, and what prevents the eviction of others for now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from wharfinger.groups.preempting import may_have_victims, priority_of
from wharfinger.groups.terms import Disruption, Group
from wharfinger.scheduler.queue import hints

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.extension import Plugin
    from wharfinger.groups.membership import GroupIndex
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class GroupVictims:
    """Possible victims of groups in the state that `snapshot` returns; `index` has the groups that they belong to themselves."""

    def __init__(self, snapshot: Callable[[], Snapshot], index: GroupIndex) -> None:
        self._snapshot = snapshot
        self._index = index

    def are_leaving(self, group: Group, evicted: Iterable[str]) -> bool:
        """True if a pod of lower priority is leaving a node to which a member is nominated (`PodEligibleToPreemptOthers`).

        Or if one of the pods that were `evicted` for the group, by uid, is leaving any node: a member may fit elsewhere once it is gone.
        """
        snapshot = self._snapshot()
        if any(found is not None and snapshot.leaving(found[1]) for found in map(snapshot.placed, evicted)):
            return True
        priority = priority_of(group)
        nodes = {snapshot.nominated_to(pod.uid) or pod.nominated_node for pod in group.waiting}
        rows = [row for node in nodes if node and (row := snapshot.row(node)) is not None]
        return any(snapshot.leaving(pod) and self._priority(pod) < priority for row in rows for pod in snapshot.pods_on(row))

    def protectors(self, chain: Chain, group: Group) -> frozenset[Plugin]:
        """The rejectors for pods of lower priority that preemption may evict for the group later, but not now."""
        snapshot = self._snapshot()
        found = hints.protectors(chain.pod_rules(pod, snapshot) for pod in group.kinds)
        return found if found and may_have_victims(priority_of(group), snapshot) else frozenset()

    def disrupted_groups(self, victims: Sequence[PodView]) -> list[Group]:
        """The groups of victims that are disrupted as a whole."""
        keys = dict.fromkeys(self._index.key_of(victim.uid) for victim in victims)
        groups = [group for key in keys if key is not None and (group := self._index.group(key)) is not None]
        return [group for group in groups if group.terms.disruption is Disruption.GROUP]

    def _priority(self, pod: PodView) -> int:
        """The priority of a pod in preemption for a group: that of its own group, if it is disrupted as a whole and has one."""
        key = self._index.key_of(pod.uid)
        terms = None if key is None else self._index.terms(key)
        if terms is None or terms.priority is None or terms.disruption is not Disruption.GROUP:
            return pod.priority
        return terms.priority
