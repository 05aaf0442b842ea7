"""Changes of a state that are undone when the question is answered.

A copy of a large cluster takes longer than most questions. So a question changes the state that it is given, and puts it back.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate.dry_run import bind_claims
from wharfinger.what_if.new_nodes import NewNode

_OF_VOLUMES = (objects.PersistentVolumeClaim, objects.PersistentVolume)


class SupposedChanges:
    """A context that puts a state back at its end: same nodes, pods, nominations and objects; only the revision is higher."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._pods: list[PodView] = []
        self._nominated: list[tuple[PodView, str]] = []
        self._nodes: list[NewNode] = []
        self._volumes: dict[tuple[str, str], objects.AnyObject] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.undo()

    def place(self, pod: PodView, node: str) -> None:
        """Count a pod on a node, with its claims bound there."""
        nominated = self.state.snapshot().nominated_to(pod.uid)
        if nominated is not None:
            self._nominated.append((pod, nominated))
        if pod.object.spec.volumes and volume_claims.waiting_claims(pod, self.state.objects):
            self._keep_volumes()
            bind_claims(self.state, pod, node)
        self.state.assume(pod, node)
        self._pods.append(pod)

    def claim(self, claim: objects.PersistentVolumeClaim) -> None:
        """Add the claim of a pod that is supposed to exist."""
        self._keep_volumes()
        self.state.put(claim)

    def add(self, new: NewNode) -> None:
        """Add a node with what runs there."""
        self.state.add_node(new.node)
        if new.drivers is not None:
            self.state.put(new.drivers)
        for pod in new.pods:
            self.state.add_pod(pod)
        self._nodes.append(new)

    def undo(self) -> None:
        """Put the state back; later changes can be undone likewise."""
        for pod in reversed(self._pods):
            self.state.forget(pod)
        for pod, node in self._nominated:
            self.state.nominate(pod, node)
        for new in reversed(self._nodes):
            for pod in new.pods:
                self.state.remove_pod(pod)
            if new.drivers is not None:
                self.state.drop("CSINode", new.name)
            self.state.remove_node(new.name)
        self._put_volumes_back()
        self._pods, self._nominated, self._nodes, self._volumes = [], [], [], None

    def _keep_volumes(self) -> None:
        if self._volumes is None:
            self._volumes = self._all_volumes()

    def _put_volumes_back(self) -> None:
        if self._volumes is None:
            return
        for (kind, key), obj in self._all_volumes().items():
            before = self._volumes.get((kind, key))
            if before is None:
                self.state.drop(kind, key)
            elif before is not obj:
                self.state.put(before)

    def _all_volumes(self) -> dict[tuple[str, str], objects.AnyObject]:
        return {(objects.kind_of(obj), objects.key_of(obj)): obj for kind in _OF_VOLUMES for obj in self.state.objects.all(kind)}
