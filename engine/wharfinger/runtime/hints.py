"""Queueing hints: which waiting pods an event may help.

A pod that fits nowhere waits under the plugins that rejected it. An event concerns the pods of which one rejector wakes on it and, asked
about the very change, does not rule it out. Pods of one template rejected by the same plugins are asked about once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from wharfinger.errors import PluginFault
from wharfinger.framework.cluster_event import ClusterEvent
from wharfinger.framework.extension import Plugin
from wharfinger.framework.filtering import Filtering
from wharfinger.framework.plugins import default_preemption

if TYPE_CHECKING:
    from wharfinger.framework.cluster_event import Change
    from wharfinger.framework.decision import Decision
    from wharfinger.model.pod import PodView
    from wharfinger.model.snapshot import Snapshot
    from wharfinger.runtime.queued_pod import QueuedPod


Faulty: TypeAlias = Callable[[str, BaseException], None]
"""Told where something went wrong, and what."""


class Nominations(Plugin):
    """Stands for nodes on which room is being made for other pods: they are free again when those go elsewhere, or have come."""

    name = "beside nominated pods"
    wakes_on = ClusterEvent.NOMINATION | ClusterEvent.POD_PLACED | ClusterEvent.POD_REMOVED | ClusterEvent.NODE_ALLOCATABLE


NOMINATED = Nominations()


class Spared(Plugin):
    """Stands for pods that policies do not let be evicted for now: their rules read the time, and it passes."""

    name = "preemption rules that read the time"
    wakes_on = ClusterEvent.TIME


SPARED = Spared()


def rejectors(decision: Decision) -> frozenset[Plugin]:
    """The plugins that rejected nodes first, as kube-scheduler counts; asked right after the decision. Empty when there are no nodes."""
    found = _rejectors(decision)
    return found | {SPARED} if found and _spared(decision) else found


def _spared(decision: Decision) -> bool:
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
    """Pods that fit nowhere, by what rejected them and by template: a change is looked at once for all pods of a template."""

    def __init__(self) -> None:
        self._by_rejectors: dict[frozenset[Plugin], dict[Hashable, dict[str, QueuedPod]]] = {}
        self._place: dict[str, tuple[frozenset[Plugin], Hashable]] = {}

    def __len__(self) -> int:
        return len(self._place)

    def __iter__(self) -> Iterator[QueuedPod]:
        for groups in self._by_rejectors.values():
            for pods in groups.values():
                yield from pods.values()

    def add(self, queued: QueuedPod) -> None:
        """Keep a pod under its rejectors."""
        group = (queued.pod.template, queued.pod.priority)
        self._by_rejectors.setdefault(queued.rejectors, {}).setdefault(group, {})[queued.uid] = queued
        self._place[queued.uid] = queued.rejectors, group

    def remove(self, queued: QueuedPod) -> None:
        """Let go of a pod that is here."""
        rejected_by, group = self._place.pop(queued.uid)
        groups = self._by_rejectors[rejected_by]
        del groups[group][queued.uid]
        if not groups[group]:
            del groups[group]
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
            for pods in groups.values():
                if may_help(next(iter(pods.values())), change, snapshot, faulty):
                    found += pods.values()
        return found


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
