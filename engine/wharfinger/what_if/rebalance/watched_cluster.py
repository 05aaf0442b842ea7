"""The cluster as it is watched while a plan is carried out, with its changes since they were last read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

_Owner = tuple[str, str, str, str]
_Controller: TypeAlias = objects.ReplicaSet | objects.StatefulSet | objects.ReplicationController
_CONTROLLERS: Mapping[str, type[_Controller]] = {
    kind.__name__: kind for kind in (objects.ReplicaSet, objects.StatefulSet, objects.ReplicationController)
}
_NO_PODS: Mapping[str, PodView] = {}


class Change(NamedTuple):
    """An object as it was, and as it is now; None where it was not there or is gone."""

    kind: str
    before: Any
    now: Any


class WatchedCluster:
    """A ClusterSink that keeps a state, and all pods by uid, those without a node too.

    `changed` is set by every watch event; the task that waits for one clears it.
    """

    def __init__(self) -> None:
        self.state = ClusterState()
        self.pods: dict[str, PodView] = {}
        self.changed = asyncio.Event()
        self._known: dict[str, dict[str, Any]] = {}
        self._former: dict[tuple[str, str], Any] = {}
        self._owned: dict[_Owner, dict[str, PodView]] = {}
        self._waiting: list[Callable[[], None]] | None = None  # events that came while it is held

    @contextmanager
    def held(self) -> Iterator[None]:
        """A context in which nothing changes: events that come wait for its end."""
        waiting: list[Callable[[], None]] = []
        self._waiting = waiting
        try:
            yield
        finally:
            self._waiting = None
            for take in waiting:
                take()

    def upsert(self, kind: str, obj: Any) -> None:
        """Apply an object that was added or changed."""
        if self._waiting is not None:
            self._waiting.append(partial(self.upsert, kind, obj))
            return
        identity = _identity(obj)
        self._note(kind, identity)
        self._known.setdefault(kind, {})[identity] = obj
        if isinstance(obj, objects.Pod):
            self._forget(identity)
            view = self.pods[identity] = PodView(obj)
            self._owned.setdefault(_owner(view), {})[identity] = view
        self.state.put(obj)

    def delete(self, kind: str, obj: Any) -> None:
        """Remove an object."""
        if self._waiting is not None:
            self._waiting.append(partial(self.delete, kind, obj))
            return
        self._drop(kind, _identity(obj))

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Replace all objects of a kind by these."""
        if self._waiting is not None:
            self._waiting.append(partial(self.replace, kind, objs))
            return
        for gone in self._known.get(kind, {}).keys() - set(map(_identity, objs)):
            self._drop(kind, gone)
        for obj in objs:
            self.upsert(kind, obj)

    def synced(self, kind: str) -> None:
        """Do nothing: callers that wait for the lists ask the source."""

    def siblings(self, pod: PodView) -> Mapping[str, PodView]:
        """The pods of the same controller by uid, in a view that follows changes; none without a controller."""
        return _NO_PODS if pod.controller is None else self._owned.setdefault(_owner(pod), {})

    def why_no_replacement(self, pod: PodView) -> str:
        """The reason why the controller of a pod does not replace it once it has left; "" if it may do so.

        Nothing is known of a kind of which no object was seen: it may not be readable.
        """
        owner = pod.controller
        kind = None if owner is None else _CONTROLLERS.get(owner.kind)
        if owner is None or kind is None or owner.kind not in self._known:
            return ""
        found = self.state.objects.get(kind, owner.name, pod.namespace)
        name = f"{owner.kind} {pod.namespace}/{owner.name}"
        if found is None or found.metadata.uid != owner.uid or found.metadata.deletion_timestamp is not None:
            return f"{name} is gone, or being deleted"
        wanted = 1 if found.spec.replicas is None else found.spec.replicas
        there = sum(not other.terminating for uid, other in self.siblings(pod).items() if uid != pod.uid)
        return f"{name} wants {wording.count(wanted, 'pod')}, and has that many" if there >= wanted else ""

    def changes(self) -> Iterator[Change]:
        """The objects that were added, changed or removed since the last call."""
        former, self._former = self._former, {}
        for (kind, identity), before in former.items():
            yield Change(kind, before, self._known.get(kind, {}).get(identity))

    def _note(self, kind: str, identity: str) -> None:
        self._former.setdefault((kind, identity), self._known.get(kind, {}).get(identity))
        self.changed.set()

    def _drop(self, kind: str, identity: str) -> None:
        self._note(kind, identity)
        self._known.get(kind, {}).pop(identity, None)
        if kind == "Pod":
            pod = self._forget(identity)
            if pod is not None:
                self.state.remove_pod(pod)
        elif kind == "Node":
            self.state.remove_node(identity)
        else:
            self.state.drop(kind, identity)

    def _forget(self, uid: str) -> PodView | None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._owned[_owner(pod)].pop(uid, None)
        return pod


def _owner(pod: PodView) -> _Owner:
    """The namespace, kind, name and uid of the pod's controller; empty texts without one."""
    owner = pod.controller
    return ("", "", "", "") if owner is None else (pod.namespace, owner.kind, owner.name, owner.uid)


def _identity(obj: Any) -> str:
    """The uid of a pod, of other objects their key."""
    return PodView(obj).uid if isinstance(obj, objects.Pod) else objects.key_of(obj)
