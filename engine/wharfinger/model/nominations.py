"""Pods for which preemption is making room: they hold a node by name until they are placed."""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.model.pod import PodView


class Nominations:
    """Which pending pods are nominated to which node; a pod is nominated to one node at most."""

    __slots__ = ("_by_node", "_node_of", "version")

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._by_node: dict[str, dict[str, PodView]] = {}
        self.version = 0  # changes with every nomination that comes or goes

    def __len__(self) -> int:
        return len(self._node_of)

    def on(self, node_name: str) -> Sequence[PodView]:
        """The pods nominated to a node, in order of nomination."""
        return tuple(self._by_node.get(node_name, {}).values())

    def node_of(self, uid: str) -> str | None:
        """The node a pod is nominated to, or None."""
        return self._node_of.get(uid)

    def put(self, pod: PodView, node_name: str) -> None:
        """Nominate a pod, instead of any earlier nomination."""
        self.drop(pod.uid)
        self.version += 1
        self._node_of[pod.uid] = node_name
        self._by_node.setdefault(node_name, {})[pod.uid] = pod

    def drop(self, uid: str) -> str | None:
        """The node that the pod was nominated to and no longer is, or None."""
        node_name = self._node_of.pop(uid, None)
        if node_name is not None:
            self.version += 1
            pods = self._by_node[node_name]
            del pods[uid]
            if not pods:
                del self._by_node[node_name]
        return node_name

    def nodes(self) -> frozenset[str]:
        """The nodes that some pod is nominated to."""
        return frozenset(self._by_node)

    def items(self) -> list[tuple[PodView, str]]:
        """Every nominated pod with its node."""
        return [(pod, node_name) for node_name, pods in self._by_node.items() for pod in pods.values()]
