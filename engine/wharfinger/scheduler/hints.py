"""Queueing hints: which waiting pods an event may help.

A pod that fits nowhere waits under the plugins that rejected it. An event concerns the pods of which one rejector wakes on it and, asked
about the very change, does not rule it out. Pods of one template rejected by the same plugins are asked about once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from wharfinger.errors import PluginFault
from wharfinger.framework.cluster_event import ClusterEvent
from wharfinger.framework.extension import GroupedHints, Plugin
from wharfinger.framework.filtering import Filtering
from wharfinger.framework.plugin_faults import is_foreign
from wharfinger.framework.plugins import default_preemption

if TYPE_CHECKING:
    from wharfinger.framework.cluster_event import Change
    from wharfinger.framework.decision import Decision
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.queued_pods import QueuedPod


Faulty: TypeAlias = Callable[[str, BaseException], None]
"""Told where something went wrong, and what."""


class Nominations(Plugin):
    """Stands for nodes on which room is being made for other pods: they are free again when those go elsewhere, or have come."""

    name = "beside nominated pods"
    wakes_on = ClusterEvent.NOMINATION | ClusterEvent.POD_PLACED | ClusterEvent.POD_REMOVED | ClusterEvent.NODE_ALLOCATABLE


NOMINATED = Nominations()


class ProtectedForNow(Plugin):
    """Stands for pods that policies do not let be evicted for now: their rules read the time, and it passes."""

    name = "preemption rules that read the time"
    wakes_on = ClusterEvent.TIME


PROTECTED_FOR_NOW = ProtectedForNow()


def rejectors(decision: Decision) -> frozenset[Plugin]:
    """The plugins that rejected nodes first, as kube-scheduler counts; asked right after the decision. Empty when there are no nodes."""
    found = _rejectors(decision)
    return found | {PROTECTED_FOR_NOW} if found and _protected_for_now(decision) else found


def _protected_for_now(decision: Decision) -> bool:
    """Whether there are pods that preemption could evict for the pod later, if not now."""
    if decision.nominated is not None or not decision.evaluation.lineup.spares_for_a_time:
        return False
    return bool(default_preemption.has_lower(decision.pod.priority, decision.snapshot).any())


def _rejectors(decision: Decision) -> frozenset[Plugin]:
    filtering = decision.evaluation.filtering
    by_name = {slot.plugin.name: slot.plugin for slot in filtering.slots}
    if filtering.refusal is not None:
        return frozenset({by_name[filtering.refusal.plugin]})
    found: set[Plugin] = {NOMINATED} if filtering.crowded else set()
    found |= {by_name[name] for name in (filtering.node_set.plugins if filtering.node_set is not None else ())}
    found |= set(_first_rejectors(filtering, decision.n_nodes))
    return frozenset(found)


def _first_rejectors(filtering: Filtering, n_nodes: int) -> Iterator[Plugin]:
    left = np.ones(n_nodes, np.bool_) if filtering.node_set is None else filtering.node_set.mask.copy()
    for slot in filtering.slots:
        if not slot.skipped:
            failing = slot.bits != 0
            if (left & failing).any():
                yield slot.plugin
                left &= ~failing


def timed(rejected_by: frozenset[Plugin]) -> bool:
    """Whether mere time may help, so that the pod has to be tried again although nothing happens."""
    return any(plugin.wakes_on & ClusterEvent.TIME for plugin in rejected_by)


class WaitingPods:
    """Pods that fit nowhere, by what rejected them: a change is looked at once for all pods that their rejectors take for alike.

    Those that it may help are looked at again, once for each template.
    """

    def __init__(self) -> None:
        self._by_rejectors: dict[frozenset[Plugin], dict[Hashable, Group]] = {}
        self._place: dict[str, tuple[frozenset[Plugin], Hashable, Hashable]] = {}

    def __len__(self) -> int:
        return len(self._place)

    def __iter__(self) -> Iterator[QueuedPod]:
        for groups in self._by_rejectors.values():
            for group in groups.values():
                for pods in group.values():
                    yield from pods.values()

    def add(self, queued: QueuedPod) -> None:
        """Keep a pod under its rejectors."""
        template = (queued.pod.template, queued.pod.priority)
        alike = _alike(queued.rejectors, queued.pod) or template
        groups = self._by_rejectors.setdefault(queued.rejectors, {})
        groups.setdefault(alike, {}).setdefault(template, {})[queued.uid] = queued
        self._place[queued.uid] = queued.rejectors, alike, template

    def remove(self, queued: QueuedPod) -> None:
        """Let go of a pod that is here."""
        rejected_by, alike, template = self._place.pop(queued.uid)
        groups = self._by_rejectors[rejected_by]
        group = groups[alike]
        del group[template][queued.uid]
        if not group[template]:
            del group[template]
            if not group:
                del groups[alike]
                if not groups:
                    del self._by_rejectors[rejected_by]

    def helped_by(self, change: Change, snapshot: Callable[[], Snapshot], faulty: Faulty) -> list[QueuedPod]:
        """The pods that a change may help. `snapshot` is the cluster after the change; taken only if somebody looks closer.

        `faulty` is told of plugins that fail to say; what they could not judge helps.
        """
        found: list[QueuedPod] = []
        for rejected_by, groups in self._by_rejectors.items():
            if rejected_by and not any(plugin.wakes_on & change.events for plugin in rejected_by):
                continue
            for group in groups.values():
                if len(group) > 1 and not _may_help_group(_first(_first(group)), change, snapshot):
                    continue
                for pods in group.values():
                    if may_help(_first(pods), change, snapshot, faulty):
                        found += pods.values()
        return found


Group = dict[Hashable, dict[str, "QueuedPod"]]  # by template and priority, then by uid
T = TypeVar("T")


def _first(found: Mapping[Any, T]) -> T:
    return next(iter(found.values()))


def _alike(rejected_by: frozenset[Plugin], pod: PodView) -> Hashable:
    """What all rejectors look at of a pod, equal for pods that they take for alike; None where one of them looks at all of it."""
    built_in = (plugin for plugin in rejected_by if isinstance(plugin, GroupedHints) and not is_foreign(plugin))
    grouped = sorted(built_in, key=lambda plugin: plugin.name)
    return tuple([plugin.hint_group(pod) for plugin in grouped]) if grouped and len(grouped) == len(rejected_by) else None


def _may_help_group(queued: QueuedPod, change: Change, snapshot: Callable[[], Snapshot]) -> bool:
    """Whether a rejector may think again about some pod of a group of several templates, all of whose rejectors have groups."""
    if change.events & ClusterEvent.POLICY:
        return True
    concerned = [plugin for plugin in queued.rejectors if isinstance(plugin, GroupedHints) and plugin.wakes_on & change.events]
    return any(plugin.may_help_group(queued.pod, change, snapshot()) for plugin in concerned)


def may_help(queued: QueuedPod, change: Change, snapshot: Callable[[], Snapshot], faulty: Faulty) -> bool:
    """Whether one of the plugins that rejected a pod would think again after a change; new policies may have others reject it, or none."""
    if not queued.rejectors or change.events & ClusterEvent.POLICY:
        return True
    concerned = [plugin for plugin in queued.rejectors if plugin.wakes_on & change.events]
    return any(_asked(plugin, queued.pod, change, snapshot, faulty) for plugin in concerned)


def _asked(plugin: Plugin, pod: PodView, change: Change, snapshot: Callable[[], Snapshot], faulty: Faulty) -> bool:
    try:
        return plugin.may_help(pod, change, snapshot())
    except PluginFault as fault:
        faulty(f"plugin {plugin.name}", fault)
        return True
