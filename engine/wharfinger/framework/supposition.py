"""What if some pods left a node, or came to it? Pods are removed and added here in thought; the cluster stays as it is.

Preemption asks which pods have to leave before another fits, and a node for which room is being made has to fit its nominee and the
newcomer together. Kubernetes clones the node and its cycle state for that; here a plugin is told the difference
(`FilterPlugin.filter_if`) and answers for the one node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, TypeVar, cast

from wharfinger.model.state.cluster_state import ClusterState

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

T = TypeVar("T")


class Supposition:
    """The pods of one node with some removed and some added; `removed` and `added` are by uid.

    `count` and `requests` say by how much the number of pods and the sums of their requests differ from the real ones.
    """

    __slots__ = ("_memo", "added", "count", "removed", "requests", "row", "snapshot")

    def __init__(self, snapshot: Snapshot, row: int) -> None:
        self.snapshot = snapshot
        self.row = row
        self.removed: dict[str, PodView] = {}
        self.added: dict[str, PodView] = {}
        self.count = 0
        self.requests: dict[str, int] = {}
        self._memo: dict[Hashable, object] = {}

    def pods(self) -> Iterator[PodView]:
        """The pods that are supposed to be on the node."""
        for pod in self.snapshot.pods_on(self.row):
            if pod.uid not in self.removed:
                yield pod
        yield from self.added.values()

    def alone(self) -> Snapshot:
        """A cluster of this node and its supposed pods alone, at the same time and without samples of metrics."""
        state = ClusterState(self.snapshot.now)
        state.add_node(self.snapshot.node(self.row).object)
        for pod in self.pods():
            state.add_pod(pod)
        return state.snapshot(self.snapshot.now)

    def remove(self, pod: PodView) -> None:
        """Suppose that one of the node's pods is gone."""
        self.removed[pod.uid] = pod
        self._count(pod, -1)

    def restore(self, pod: PodView) -> None:
        """Suppose that a removed pod is there after all."""
        del self.removed[pod.uid]
        self._count(pod, 1)

    def add(self, pod: PodView) -> None:
        """Suppose that a pod is there which is not."""
        self.added[pod.uid] = pod
        self._count(pod, 1)

    def withdraw(self, pod: PodView) -> None:
        """Suppose no longer that an added pod is there."""
        del self.added[pod.uid]
        self._count(pod, -1)

    def difference(self, counts: Callable[[PodView], bool]) -> int:
        """How many more pods of some sort there are than in reality; negative for fewer."""
        return sum(1 for pod in self.added.values() if counts(pod)) - sum(1 for pod in self.removed.values() if counts(pod))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns; it is called only for a key that is new. For what of the node stays the same whatever pods are there."""
        if key not in self._memo:
            self._memo[key] = make()
        return cast("T", self._memo[key])

    def _count(self, pod: PodView, sign: int) -> None:
        self.count += sign
        for resource, amount in pod.requests.items():
            self.requests[resource] = self.requests.get(resource, 0) + sign * amount
