"""Changes of a state that are undone when the question is answered.

A copy of a large cluster takes longer than most questions. So a question changes the state that it is given, and puts it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.prepared import ClaimAllocation
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate import device_claims
from wharfinger.simulate.placing import bind_claims
from wharfinger.what_if.new_nodes import NewNode

_OF_VOLUMES = (objects.PersistentVolumeClaim, objects.PersistentVolume)


class SupposedChanges:
    """A context that puts a state back at its end: same nodes, pods, nominations, objects and groups; only the revision is higher."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._sizes = dict(state.snapshot().group_sizes)
        self._forget()

    def _forget(self) -> None:
        self._placed: dict[str, PodView] = {}
        self._nominated: list[tuple[PodView, str]] = []
        self._nodes: list[NewNode] = []
        self._left: list[PodView] = []
        self._replaced: list[objects.Node] = []
        self._put: list[tuple[str, str, objects.AnyObject | None]] = []
        self._volumes: dict[tuple[str, str], objects.AnyObject] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.undo()

    def claimed(self, pod: PodView) -> PodView:
        """The pod with claims made of the templates that it names, as the controller makes them before a scheduler sees the pod."""
        return device_claims.with_made_claims(self.state, pod, self.put)

    def place(self, pod: PodView, node: str, claims: Iterable[ClaimAllocation] = ()) -> None:
        """Count a pod on a node, with its claims bound there, and devices taken for `claims`."""
        nominated = self.state.snapshot().nominated_to(pod.uid)
        if nominated is not None:
            self._nominated.append((pod, nominated))
        if pod.object.spec.volumes and volume_claims.waiting_claims(pod, self.state.objects):
            self._keep_volumes()
            bind_claims(self.state, pod, node)
        device_claims.write_claims(self.state, pod, claims, self.put)
        self.state.assume(pod, node)
        self._placed[pod.uid] = pod

    def put(self, obj: objects.AnyObject) -> None:
        """Add or replace an object that is neither a node nor a pod."""
        before = self.state.objects.get(type(obj), obj.metadata.name, obj.metadata.namespace)
        self._put.append((objects.kind_of(obj), objects.key_of(obj), before))
        self.state.put(obj)

    def drop(self, obj: objects.AnyObject) -> None:
        """Remove an object that is neither a node nor a pod."""
        self._put.append((objects.kind_of(obj), objects.key_of(obj), obj))
        self.state.drop(objects.kind_of(obj), objects.key_of(obj))

    def add(self, new: NewNode) -> None:
        """Add a node with what runs there."""
        self.state.add_node(new.node)
        if new.drivers is not None:
            self.put(new.drivers)
        for each in new.slices:
            self.put(each)
        for pod in new.pods:
            self.state.add_pod(pod)
        self._nodes.append(new)

    def leave(self, pod: PodView) -> None:
        """Let a placed pod leave its node, and give back its devices."""
        if self.state.remove_pod(pod):
            if self._placed.pop(pod.uid, None) is None:
                self._left.append(pod)
            device_claims.give_back_claims(self.state, pod, self.put, self.drop)

    def replace(self, node: objects.Node) -> None:
        """Replace the node of this name by this one."""
        snapshot = self.state.snapshot()
        self._replaced.append(snapshot.node(snapshot.known_row(node.metadata.name)).object)
        self.state.update_node(node)

    def undo(self) -> None:
        """Put the state back; later changes can be undone likewise."""
        for pod in self._placed.values():
            self.state.forget(pod)
        for node in reversed(self._replaced):
            self.state.update_node(node)
        for pod in self._left:
            self.state.add_pod(pod)
        for pod, nominated in self._nominated:
            self.state.nominate(pod, nominated)
        for new in reversed(self._nodes):
            for pod in new.pods:
                self.state.remove_pod(pod)
            self.state.remove_node(new.name)
        self._put_volumes_back()
        for kind, key, before in reversed(self._put):
            if before is None:
                self.state.drop(kind, key)
            else:
                self.state.put(before)
        for key in {*self.state.snapshot().group_sizes, *self._sizes}:
            self.state.set_group_size(key, self._sizes.get(key, 0))
        self._forget()

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
