"""One node with pods supposed to be removed or added, while the cluster itself does not change.

Kubernetes clones the node and its cycle state for this purpose. Here a plugin gets the difference (`PreparedFilter.supposing`) and answers
for the one node.
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

    `count` and `requests` are the differences to the real number of pods and to the real sums of their requests, by resource.
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
        """A snapshot of a cluster with only this node and its supposed pods, at the same time and without metric samples."""
        state = ClusterState(self.snapshot.now)
        state.add_node(self.snapshot.node(self.row).object)
        for pod in self.pods():
            state.add_pod(pod)
        return state.snapshot(self.snapshot.now)

    def remove(self, pod: PodView) -> None:
        """Suppose that one of the node's pods is removed."""
        self.removed[pod.uid] = pod
        self._count(pod, -1)

    def restore(self, pod: PodView) -> None:
        """Undo `remove`."""
        del self.removed[pod.uid]
        self._count(pod, 1)

    def add(self, pod: PodView) -> None:
        """Suppose that a pod is added to the node."""
        self.added[pod.uid] = pod
        self._count(pod, 1)

    def withdraw(self, pod: PodView) -> None:
        """Undo `add`."""
        del self.added[pod.uid]
        self._count(pod, -1)

    def difference(self, counts: Callable[[PodView], bool]) -> int:
        """The number of added pods that `counts` is true for, less the number of removed ones."""
        return sum(1 for pod in self.added.values() if counts(pod)) - sum(1 for pod in self.removed.values() if counts(pod))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, which is called once per key; for values of the node that do not depend on its pods."""
        if key not in self._memo:
            self._memo[key] = make()
        return cast("T", self._memo[key])

    def _count(self, pod: PodView, sign: int) -> None:
        self.count += sign
        for resource, amount in pod.requests.items():
            self.requests[resource] = self.requests.get(resource, 0) + sign * amount
