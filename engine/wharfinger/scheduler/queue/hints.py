"""Queueing hints: which waiting pods an event may help.

A pod that fits on no node waits under the plugins that rejected it. An event wakes the pods of which one rejector lists the event and does
not rule out that the change helps. Pods of one template that the same plugins rejected are checked once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from wharfinger.emit import Emit, Failed
from wharfinger.errors import PluginFault
from wharfinger.framework.cluster_event import NO_EVENT, ClusterEvent
from wharfinger.framework.evaluation.filtering import Filtering
from wharfinger.framework.extension import GroupedHints, Plugin
from wharfinger.framework.plugin_calls import is_third_party
from wharfinger.framework.plugins import victims

if TYPE_CHECKING:
    from wharfinger.framework.cluster_event import Change
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.framework.rules.pod_rules import PodRules
    from wharfinger.groups.terms import GroupTerms
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

MAX_KINDS = 16
"""Templates of one group whose rejecting plugins are looked at one by one."""


class Waiting(Protocol):
    """A pod or a group that waits to be placed.

    `rejectors` are the plugins that rejected nodes for it last time; empty if they are not known. `kinds` are pods of which one may help:
    the pod itself, or a member of the group for each template.
    """

    @property
    def uid(self) -> str:
        """The pod's uid, or a name that no pod has."""

    @property
    def pod(self) -> PodView:
        """The pod, or one that represents the group."""

    @property
    def rejectors(self) -> frozenset[Plugin]:
        """The plugins that rejected nodes for it."""

    @property
    def kinds(self) -> Iterable[PodView]:
        """One pod for each template that is to be placed."""

    @property
    def is_group(self) -> bool:
        """True for a group."""


W = TypeVar("W", bound=Waiting)


class Nominations(Plugin):
    """The rejector for room that is reserved for nominated pods: it is free again when they are placed, also on other nodes."""

    name = "with nominated pods"
    wakes_on = ClusterEvent.NOMINATION | ClusterEvent.POD_PLACED | ClusterEvent.POD_REMOVED | ClusterEvent.NODE_ALLOCATABLE


NOMINATED = Nominations()


class ProtectedForNow(Plugin):
    """The rejector for pods that policies protect from eviction for a time: their rules read the time."""

    name = "preemption rules that read the time"
    wakes_on = ClusterEvent.TIME


PROTECTED_FOR_NOW = ProtectedForNow()


class ProtectedByLabels(Plugin):
    """The rejector for pods that policies protect from eviction by the labels of a namespace."""

    name = "preemption rules that read labels of namespaces"
    wakes_on = ClusterEvent.NAMESPACE


PROTECTED_BY_LABELS = ProtectedByLabels()


class GroupMembers(Plugin):
    """The rejector for members of a group that cannot be tried yet: the queue tries the group again when one of them can."""

    name = "members of the group"
    wakes_on = NO_EVENT


GROUP_MEMBERS = GroupMembers()


class GroupLevels(Plugin):
    """The rejector for the levels of a group: nodes that get or lose one of these labels change the domains."""

    name = "levels of the group"
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_LABEL

    def __init__(self, keys: frozenset[str]) -> None:
        super().__init__()
        self._keys = keys

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the labels alone decide
        """True for a change of one of the labels."""
        return not self._keys.isdisjoint(change.keys)


def applying_plugins(filtering: Filtering) -> set[Plugin]:
    """The plugins of the filters that apply to a pod, or of the one that refuses it; to be called right after the evaluation."""
    by_name: dict[str, Plugin] = {slot.plugin.name: slot.plugin for slot in filtering.slots}
    if filtering.refusal is not None:
        return {by_name[filtering.refusal.plugin]}
    found: set[Plugin] = {NOMINATED} if filtering.reasons_with_nominated else set()
    found |= {by_name[name] for name in (filtering.node_set.plugins if filtering.node_set is not None else ())}
    return found | {slot.plugin for slot in filtering.slots if not slot.skipped}


def rejectors(decision: Decision) -> frozenset[Plugin]:
    """The plugins that rejected nodes first, as kube-scheduler counts; to be called right after the decision.

    Empty when there are no nodes.
    """
    found = _rejectors(decision)
    if not found or decision.nominated is not None:
        return found
    protecting = protectors((decision.evaluation.pod_rules,))
    if not protecting or not victims.has_lower(decision.pod.priority, decision.snapshot).any():
        return found
    return found | protecting


def protectors(pod_rules: Iterable[PodRules]) -> frozenset[Plugin]:
    """The rejectors for pods that preemption may evict later, but not now, for pods with these rules."""
    found: set[Plugin] = set()
    for rules in pod_rules:
        found |= {PROTECTED_FOR_NOW} if rules.eviction_depends_on_time else set()
        found |= {PROTECTED_BY_LABELS} if rules.eviction_depends_on_namespaces else set()
    return frozenset(found)


def _rejectors(decision: Decision) -> frozenset[Plugin]:
    filtering = decision.evaluation.filtering
    by_name = {slot.plugin.name: slot.plugin for slot in filtering.slots}
    if filtering.refusal is not None:
        return frozenset({by_name[filtering.refusal.plugin]})
    found: set[Plugin] = {NOMINATED} if filtering.reasons_with_nominated else set()
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


def group_rejectors(
    decider: Decider, snapshot: Callable[[], Snapshot], terms: GroupTerms, pods: Sequence[PodView]
) -> Generator[None, None, frozenset[Plugin]]:
    """A generator of steps that returns the plugins whose rejection of these members of a group a change may end.

    It is not known which rule prevents the placement of a whole group. So these are all filters that apply to one of the members, and the
    levels of the group.
    """
    found = set[Plugin]()
    kinds = list({pod.template: pod for pod in pods}.values())
    for pod in kinds[:MAX_KINDS]:
        found |= applying_plugins(decider.filtering(snapshot(), pod))
        yield
    now = snapshot()
    for pod in kinds[MAX_KINDS:]:
        found |= set(decider.chain.pod_rules(pod, now).filters)
    if found and terms.levels:
        found.add(GroupLevels(frozenset(level.key for level in terms.levels)))
    return frozenset(found)


def timed(rejected_by: frozenset[Plugin]) -> bool:
    """True if a rejecting plugin depends on time, so that the pod has to be tried again although no event happens."""
    return any(plugin.wakes_on & ClusterEvent.TIME for plugin in rejected_by)


class WaitingPods(Generic[W]):
    """Unschedulable pods, grouped by their rejectors: a change is checked once for all pods that the rejectors treat as equal.

    Of a group that it may help, each template is checked, unless the answer is the same for all.
    """

    def __init__(self) -> None:
        self._by_rejectors: dict[frozenset[Plugin], dict[Hashable, Group[W]]] = {}
        self._place: dict[str, tuple[frozenset[Plugin], Hashable, Hashable]] = {}

    def __len__(self) -> int:
        return len(self._place)

    def __iter__(self) -> Iterator[W]:
        for groups in self._by_rejectors.values():
            for group in groups.values():
                for pods in group.values():
                    yield from pods.values()

    def add(self, queued: W) -> None:
        """Add a pod or a group under its rejectors; a group is like no other."""
        template: Hashable = queued.uid if queued.is_group else (queued.pod.template, queued.pod.priority)
        alike = template if queued.is_group else _equivalence_key(queued.rejectors, queued.pod) or template
        groups = self._by_rejectors.setdefault(queued.rejectors, {})
        groups.setdefault(alike, {}).setdefault(template, {})[queued.uid] = queued
        self._place[queued.uid] = queued.rejectors, alike, template

    def remove(self, queued: W) -> None:
        """Remove a pod."""
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

    def pods_to_wake(self, change: Change, snapshot: Callable[[], Snapshot], emit: Emit) -> list[W]:
        """The pods that a change may help. `snapshot` is the cluster after the change.

        It is taken only if a plugin checks the change itself.

        Plugins that fail to answer are reported, and a pod whose plugin fails is woken.
        """
        found: list[W] = []
        for rejected_by, groups in self._by_rejectors.items():
            if rejected_by and not any(plugin.wakes_on & change.events for plugin in rejected_by):
                continue
            for group in groups.values():
                if len(group) > 1:
                    if not _may_help_group(_first(_first(group)), change, snapshot):
                        continue
                    if _same_hints(rejected_by, change):
                        found += (queued for pods in group.values() for queued in pods.values())
                        continue
                for pods in group.values():
                    if may_help(_first(pods), change, snapshot, emit):
                        found += pods.values()
        return found


Group = dict[Hashable, dict[str, W]]  # by template and priority, then by uid
T = TypeVar("T")


def _first(found: Mapping[Any, T]) -> T:
    return next(iter(found.values()))


def _equivalence_key(rejected_by: frozenset[Plugin], pod: PodView) -> Hashable:
    """A key that is equal for pods that all rejectors treat alike; None if the answer of one rejector differs for each pod."""
    built_in = (plugin for plugin in rejected_by if isinstance(plugin, GroupedHints) and not is_third_party(plugin))
    grouped = sorted(built_in, key=lambda plugin: plugin.name)
    return tuple([plugin.hint_group(pod) for plugin in grouped]) if grouped and len(grouped) == len(rejected_by) else None


def _may_help_group(queued: Waiting, change: Change, snapshot: Callable[[], Snapshot]) -> bool:
    """True if a rejector may accept a node for some pod of a group of several templates. All rejectors of the pod have groups."""
    if change.events & ClusterEvent.POLICY:
        return True
    concerned = [plugin for plugin in queued.rejectors if isinstance(plugin, GroupedHints) and plugin.wakes_on & change.events]
    return any(plugin.may_help_group(queued.pod, change, snapshot()) for plugin in concerned)


def _same_hints(rejected_by: frozenset[Plugin], change: Change) -> bool:
    """True if a change helps all pods of a group or none, so that the answer for one of them is valid for all."""
    return all(isinstance(plugin, GroupedHints) and plugin.same_hints for plugin in rejected_by if plugin.wakes_on & change.events)


def may_help(queued: Waiting, change: Change, snapshot: Callable[[], Snapshot], emit: Emit) -> bool:
    """True if one of the pod's rejectors may accept a node after a change, or if policies changed."""
    if not queued.rejectors or change.events & ClusterEvent.POLICY:
        return True
    concerned = [plugin for plugin in queued.rejectors if plugin.wakes_on & change.events]
    return any(_may_help(plugin, pod, change, snapshot, emit) for plugin in concerned for pod in queued.kinds)


def _may_help(plugin: Plugin, pod: PodView, change: Change, snapshot: Callable[[], Snapshot], emit: Emit) -> bool:
    try:
        return plugin.may_help(pod, change, snapshot())
    except PluginFault as fault:
        emit(Failed(f"plugin {plugin.name}", fault))
        return True
