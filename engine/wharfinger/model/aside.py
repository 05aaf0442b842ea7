"""Pods on nodes that are not known: not told yet, or not there any more. They wait for their nodes and count nowhere meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from wharfinger.model.pod import PodView


class Aside:
    """The pods by node and by uid, so that no question goes through all of them."""

    __slots__ = ("_by_node", "_node_of")

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, tuple[PodView, bool]]] = {}
        self._node_of: dict[str, str] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._node_of

    def __iter__(self) -> Iterator[tuple[PodView, str, bool]]:
        """Each pod, its node, and whether it is assumed."""
        for node, pods in self._by_node.items():
            yield from ((pod, node, assumed) for pod, assumed in pods.values())

    def put(self, pod: PodView, node: str, *, assumed: bool) -> None:
        """Let a pod wait for a node; it waits for no other."""
        self.take(pod.uid)
        self._by_node.setdefault(node, {})[pod.uid] = pod, assumed
        self._node_of[pod.uid] = node

    def take(self, uid: str) -> bool:
        """Whether a pod was here, which is not any more."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return False
        pods = self._by_node[node]
        del pods[uid]
        if not pods:
            del self._by_node[node]
        return True

    def take_all(self, node: str) -> list[tuple[PodView, bool]]:
        """The pods that waited for a node, each with whether it is assumed; they are here no more."""
        pods = self._by_node.pop(node, {})
        for uid in pods:
            del self._node_of[uid]
        return list(pods.values())

    def is_assumed(self, uid: str) -> bool:
        """Whether a pod is here that is assumed."""
        node = self._node_of.get(uid)
        return node is not None and self._by_node[node][uid][1]
