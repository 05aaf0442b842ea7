"""The state of a cluster that is watched, for questions that take longer than one look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState


class WatchedCluster:
    """A ClusterSink that keeps a state, and the pods by uid, those without a node too."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.pods: dict[str, PodView] = {}
        self._keys: dict[str, set[str]] = {}

    def upsert(self, kind: str, obj: Any) -> None:
        """Takes over an object that was added or changed."""
        self._keys.setdefault(kind, set()).add(_identity(obj))
        if isinstance(obj, objects.Pod):
            view = PodView(obj)
            self.pods[view.uid] = view
        self.state.put(obj)

    def delete(self, kind: str, obj: Any) -> None:
        """Removes an object."""
        self._drop(kind, _identity(obj))

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Makes these objects all that there are of a kind."""
        for gone in self._keys.get(kind, set()) - {_identity(obj) for obj in objs}:
            self._drop(kind, gone)
        for obj in objs:
            self.upsert(kind, obj)

    def synced(self, kind: str) -> None:
        """Does nothing: callers that wait for the lists ask the source."""

    def _drop(self, kind: str, identity: str) -> None:
        self._keys.get(kind, set()).discard(identity)
        if kind == "Pod":
            pod = self.pods.pop(identity, None)
            if pod is not None:
                self.state.remove_pod(pod)
        elif kind == "Node":
            self.state.remove_node(identity)
        else:
            self.state.drop(kind, identity)


def _identity(obj: Any) -> str:
    """The uid of a pod, of other objects their key."""
    return PodView(obj).uid if isinstance(obj, objects.Pod) else objects.key_of(obj)
