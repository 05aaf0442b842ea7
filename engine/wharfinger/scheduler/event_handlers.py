"""Event handlers: apply watch events to state and queue, and metric samples to the state.

Pods on a node go to the state, pending pods of this scheduler go to the queue, and every change is an event for the pods that wait. Events
that are repeated, late or out of order end in the last state of each uid.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from wharfinger.emit import Emit, Failed
from wharfinger.errors import InvalidObject
from wharfinger.framework.cluster_event import (
    NODE_REMOVED,
    Change,
    ClusterEvent,
    node_added,
    node_updated,
    object_put,
    object_removed,
    pod_changed,
    pod_placed,
    pod_removed,
)
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.scheduler.ports import LiveCluster
from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
from wharfinger.signals.mapping import Mapped, NodeNames

if TYPE_CHECKING:
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.scheduler.profiles import Profiles

CLAIM = "ResourceClaim"
NAMESPACE = "Namespace"
PODGROUPS = frozenset({"PodGroup", "CoschedulingPodGroup"})
OBJECTS_PER_STEP, KEYS_PER_STEP = 100, 10_000
"""The number of objects of a list that are applied in one step, and of keys that are compared in one."""


class EventHandlers:
    """The `ClusterSink` of the scheduler.

    These functions are called:

    - `leaving` with the uid of every pod that is deleted (True) or terminating (False)
    - `node_removed` with the name of every deleted node
    - `changed` after every change
    - `unreadable` with every pending pod of this scheduler that cannot be read
    - `claim_changed` with every claim for devices that is added, changed or deleted
    - `relabelled` with the name of every namespace whose labels have changed
    """

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        *,
        state: ClusterState,
        queue: SchedulingQueue,
        profiles: Profiles,
        emit: Emit,
        leaving: Callable[[str, bool], None],
        node_removed: Callable[[str], None],
        changed: Callable[[], None],
        unreadable: Callable[[PodView, BaseException], None],
        claim_changed: Callable[[objects.ResourceClaim], None],
        relabelled: Callable[[str], None],
    ) -> None:
        self._state = state
        self._queue = queue
        self._profiles = profiles
        self._emit = emit
        self._leaving = leaving
        self._node_removed = node_removed
        self._changed = changed
        self._pod_unreadable = unreadable
        self._claim_changed = claim_changed
        self._relabelled = relabelled
        self._listed: deque[objects.Pod] = deque()  # placed pods of a list that is being read, not applied yet
        self._listed_unreadable: dict[str, set[str]] = {}
        self._known: dict[str, dict[str, Any]] = {"Pod": {}, "Node": {}}  # pods as PodView
        self.synced_kinds: set[str] = set()
        self.pods_revision = 0
        """Counts the changes of `known_pods`, of waiting pods too."""

    def upsert(self, kind: str, obj: Any) -> None:
        """Apply an object that was added or changed; one that cannot be read is reported and changes nothing."""
        try:
            self._upsert(kind, obj)
        except InvalidObject as error:
            self._emit(Failed(f"{kind} {objects.key_of(obj)}", error))
        self._changed()

    def delete(self, kind: str, obj: Any) -> None:
        """Remove an object; a pod only if it is the one of that uid."""
        key = objects.key_of(obj)
        known = self._known.get(kind, {}).get(key)
        if known is None:
            if kind == "Pod":
                self._leaving(PodView(obj).uid, True)
            return
        if kind == "Pod":
            if known.uid == PodView(obj).uid:
                self._pod_gone(known)
        else:
            self._remove_object(kind, key)
        self._changed()

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Replace all objects of a kind by these."""
        for _ in self.replacing(kind, objs):
            pass

    def listing(self, kind: str, objs: Sequence[Any]) -> None:
        """Apply placed pods of a list that is being read, once all nodes are known: twice as many as come, so that those before catch up.

        Waiting pods come at the end, by age.
        """
        if kind == "Pod":
            self._listed.extend(obj for obj in objs if obj.spec.node_name)
            for _ in range(min(len(self._listed), 2 * len(objs)) if "Node" in self.synced_kinds else 0):
                self.upsert(kind, self._listed.popleft())

    def replacing(self, kind: str, objs: Sequence[Any]) -> Iterator[None]:
        """The steps of `replace`.

        Deleted objects go first. Waiting pods come last and by age, so that those of one priority queue in the order of dry runs.
        """
        if kind == "Pod":
            self._listed.clear()
        unreadable = self._listed_unreadable.pop(kind, set())
        for portion in portions(objs, KEYS_PER_STEP):
            unreadable.update(map(objects.key_of, portion))
            yield
        removed: list[str] = []
        for portion in portions(tuple(self._known.get(kind, ())), KEYS_PER_STEP):
            removed += (key for key in portion if key not in unreadable)
            yield
        for portion in portions(removed, OBJECTS_PER_STEP):
            for key in portion:
                self._deleted(kind, key)
            yield
        ordered = iter((yield from _queue_order(objs)) if kind == "Pod" else objs)
        while portion := list(itertools.islice(ordered, OBJECTS_PER_STEP)):
            for obj in portion:
                if not self._is_applied(kind, obj):
                    self.upsert(kind, obj)
            yield
        self._changed()

    def _is_applied(self, kind: str, obj: Any) -> bool:
        """True if `listing` has applied this very object."""
        known = self._known.get(kind, {}).get(objects.key_of(obj))
        return (known.object if isinstance(known, PodView) else known) is obj

    def _deleted(self, kind: str, key: str) -> None:
        known = self._known[kind].get(key)
        if known is None:
            return
        if kind == "Pod":
            self._pod_gone(known)
        else:
            self._remove_object(kind, key)

    def unreadable(self, kind: str, obj: Any, error: BaseException, *, listed: bool) -> None:
        """Keep the last readable state of an object; for a pod that was never readable, write a condition."""
        key = objects.key_of(obj)
        if listed:
            self._listed_unreadable.setdefault(kind, set()).add(key)
        if kind != "Pod":
            return
        pod, known = PodView(obj), self.known_pod(key)
        if known is not None and known.uid != pod.uid:
            self._pod_gone(known)
            known = None
        if known is not None and pod.node_name and not known.node_name:
            self._known["Pod"][key] = bound = known.placed_on(pod.node_name)
            self.pods_revision += 1
            self._queue.groups.update_pod(bound)
            self._assigned(bound)
        elif known is None and not pod.node_name and self._profiles.of(pod) is not None:
            self._pod_unreadable(pod, error)

    def synced(self, kind: str) -> None:
        """Mark the kind as synced: all existing objects are known."""
        self.synced_kinds.add(kind)
        self._changed()

    @property
    def known_pods(self) -> Collection[PodView]:
        """All pods in their last state; a view that follows later events."""
        return self._known["Pod"].values()

    def known_pod(self, key: str) -> PodView | None:
        """The pod of that `namespace/name` in its last state; None if there is none."""
        found: PodView | None = self._known["Pod"].get(key)
        return found

    def _upsert(self, kind: str, obj: Any) -> None:
        if kind == "Pod":
            self._pod(PodView(obj))
        elif kind == "Node":
            self._node(obj)
        else:
            known = self._known.setdefault(kind, {})
            key = objects.key_of(obj)
            old = known.get(key)
            if old != obj:
                known[key] = obj
                self._state.put(obj)
                self._queue.notify(object_put(kind, obj, old))
                if kind == CLAIM:
                    self._claim_changed(obj)
                if kind == NAMESPACE and (old is None or old.metadata.labels != obj.metadata.labels):
                    self._relabelled(key)
                if kind in PODGROUPS and (old is None or old.spec != obj.spec):
                    self._queue.groups.terms_changed(key)

    def _remove_object(self, kind: str, key: str) -> None:
        removed = self._known[kind].pop(key)
        if kind == "Node":
            self._state.remove_node(key)
            self._queue.notify(NODE_REMOVED)
            self._node_removed(key)
        else:
            self._state.drop(kind, key)
            self._queue.notify(object_removed(kind, removed))
            if kind == CLAIM:
                self._claim_changed(removed)
            if kind == NAMESPACE:
                self._relabelled(key)
            if kind in PODGROUPS:
                self._queue.groups.terms_changed(key)

    def _node(self, node: objects.Node) -> None:
        known = self._known["Node"]
        name = node.metadata.name
        old = known.get(name)
        change = node_added(node) if old is None else node_updated(old, node)
        if change is None:
            known[name] = node
            return
        self._state.add_node(node)
        known[name] = node
        self._queue.notify(change)

    # ── pods ──

    def _pod(self, pod: PodView) -> None:
        known = self._known["Pod"]
        old: PodView | None = known.get(pod.key)
        if old is not None and old.uid != pod.uid:  # deleted and created again between two events
            self._pod_gone(old)
            old = None
        version = pod.object.metadata.resource_version
        if old is not None and version and version == old.object.metadata.resource_version:
            return  # a list repeats what the watch has shown
        known[pod.key] = pod
        self.pods_revision += 1
        if pod.terminating:
            self._leaving(pod.uid, False)
        if pod.finished:
            self._queue.delete(pod.uid)
            self._remove(pod)
            self._queue.groups.delete_pod(pod.uid)
            return
        group = self._queue.groups.update_pod(pod)
        if pod.node_name:
            self._assigned(pod)
        else:
            self._pending(pod, old, group)

    def _assigned(self, pod: PodView) -> None:
        self._queue.delete(pod.uid)
        was = self._state.snapshot().placed(pod.uid)
        self._state.add_pod(pod)
        if was is None:
            self._queue.notify(pod_placed(pod, pod.node_name))
        elif was[1].node_name != pod.node_name:
            self._queue.notify(pod_removed(was[1], was[1].node_name))
            self._queue.notify(pod_placed(pod, pod.node_name))
        elif was[1].template != pod.template:
            self._queue.notify(pod_changed(was[1], pod))

    def _pending(self, pod: PodView, old: PodView | None, group: str | None) -> None:
        if not self._state.is_placed(pod.uid):  # an event from before the binding under way does not change it
            self._nomination(pod, old)
        profile = self._profiles.of(pod)
        if pod.terminating:
            self._queue.delete(pod.uid)
        elif profile is not None and (pod.uid in self._queue or not self._state.is_placed(pod.uid)):
            self._queue.add(pod, profile, group)

    def _nomination(self, pod: PodView, old: PodView | None) -> None:
        """Follow the nomination in the pod's status; a nomination that is not written yet stays until it is."""
        before = "" if old is None else old.nominated_node
        if pod.nominated_node:
            if pod.nominated_node != before:
                self._state.nominate(pod, pod.nominated_node)
        elif before and self._state.remove_nomination(pod):
            self._queue.notify(Change(events=ClusterEvent.NOMINATION, label="PodUpdate", node=before))

    def _pod_gone(self, pod: PodView) -> None:
        self._known["Pod"].pop(pod.key, None)
        self.pods_revision += 1
        self._leaving(pod.uid, True)
        self._queue.delete(pod.uid)
        self._remove(pod)
        self._queue.groups.delete_pod(pod.uid)

    def _remove(self, pod: PodView) -> None:
        placed = self._state.snapshot().placed(pod.uid)
        node = pod.nominated_node if placed is None else placed[1].node_name
        if self._state.remove_pod(pod):
            self._queue.notify(pod_removed(pod, node or None))


def portions(everything: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """The parts of a sequence, each of at most `size` elements."""
    return (everything[start : start + size] for start in range(0, len(everything), size))


def _queue_order(pods: Sequence[objects.Pod]) -> Generator[None, None, Iterable[objects.Pod]]:
    """A generator of steps that returns placed pods first, then waiting pods by age."""
    placed: list[objects.Pod] = []
    waiting: list[list[objects.Pod]] = []
    for portion in portions(pods, KEYS_PER_STEP):
        placed += (pod for pod in portion if pod.spec.node_name)
        waiting.append(sorted((pod for pod in portion if not pod.spec.node_name), key=_age))
        yield
    return itertools.chain(placed, heapq.merge(*waiting, key=_age))


def _age(pod: objects.Pod) -> tuple[bool, float, str]:
    """Older pods first, those of one second by name: `simulate.placing.queue_order` without the priority."""
    created = pod.metadata.creation_timestamp
    return created is None, 0.0 if created is None else created.timestamp(), objects.key_of(pod)


_MEASURED = Change(events=ClusterEvent.METRIC, label="MetricUpdate")


class MetricSamples:
    """A `Sink` of signals: puts metric samples into the state, on the event loop that decides.

    `put` is called with each change, and applies it when no decision forbids that.
    """

    def __init__(
        self,
        cluster: LiveCluster,
        queue: SchedulingQueue,
        changed: Callable[[], None],
        put: Callable[[Callable[[], object]], None],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._changed = changed
        self._put = put
        self._nodes: NodeNames | None = None

    def nodes(self) -> NodeNames:
        """The nodes as they are now."""
        layout, names, nodes = self._cluster.state.nodes_listed()
        self._nodes = NodeNames(layout, names, nodes, self._nodes)
        return self._nodes

    def publish(self, key: str, found: Mapped) -> None:
        """Store the samples of a signal, and try again the pods that earlier samples rejected."""
        self._put(partial(self._cluster.state.put_metric, key, found.column, found.samples, found.layout))
        self.retry_rejected()

    def drop(self, key: str) -> None:
        """Remove the samples of a signal that no policy reads any more."""
        self._put(partial(self._cluster.state.drop_metric, key))

    def retry_rejected(self) -> None:
        """Try the pods again that samples rejected."""
        self._put(partial(self._queue.notify, _MEASURED))
        self._changed()

    def snapshot(self) -> Snapshot:
        """The cluster as decisions see it now."""
        return self._cluster.snapshot()
