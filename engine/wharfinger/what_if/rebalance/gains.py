"""The gain and cost of a consolidation's moves: whole nodes or whole GPUs that become free, less the cost of each move.

The value of a cluster is a sum over its nodes, so a move changes it at two nodes only. A bundle is the smallest set of pods of one node
whose leaving gains something there. Nodes that were cordoned from the start count for nothing: no pod could use what is freed there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.framework.prepared import Mask
from wharfinger.what_if.leaving_pods import staying

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.what_if.rebalance.draft import Draft

MIN_GAIN = 1e-9
"""A smaller gain is none."""
MAX_WHOLE_SEARCH = 24
"""The largest number of nodes that is searched as a whole."""
MAX_CHOICES = 4
MAX_WAYS = 200
GPU = "nvidia.com/gpu"
SHARED_GPU = "alibabacloud.com/gpu-milli"

ValueFunction = Callable[[Sequence[int], int], tuple[int, float]]
"""(the value of a node, how near it is to a higher one, 0 to less than 1/2), by its free amounts and its number of pods."""


class Bundle(Struct, frozen=True):
    """Pods of one node that move together, and what their leaving gains at the node."""

    node: str
    pods: tuple[PodView, ...]
    gain: float


class NodeValue(Protocol):
    """A value of each node that depends on its pods."""

    def total(self, snapshot: Snapshot, excluded: frozenset[str]) -> float:
        """The value of all nodes but `excluded`."""

    def would_fall(self, snapshot: Snapshot, pod: PodView) -> Mask:
        """True for each node whose value would fall with this pod on it, `(n_nodes,) bool`."""

    def spare(self, snapshot: Snapshot) -> NDArray[np.int64]:
        """The amounts that pods can use on each node without reducing its value, (n_resources, n_nodes) int64."""

    def bundles(self, snapshot: Snapshot, row: int, movable: Sequence[PodView]) -> Iterator[Bundle]:
        """The bundles of a node whose movable pods are these."""

    def value_function(self, names: Sequence[str]) -> ValueFunction:
        """The value of one node, and how near it is to a higher one, by its free amounts of these resources."""

    def others(self, snapshot: Snapshot) -> NDArray[np.int64]:
        """The number of movable pods on each node, (n_nodes,) int64."""

    def may_gain(self, snapshot: Snapshot) -> Mask:
        """True for each node where moves of pods may change the value."""


class FreeNodes:
    """1 for each node without pods other than those that always stay."""

    def total(self, snapshot: Snapshot, excluded: frozenset[str]) -> float:
        """The number of free nodes."""
        free = self.others(snapshot) == 0
        free[_rows(snapshot, excluded)] = False
        return float(np.count_nonzero(free))

    def would_fall(self, snapshot: Snapshot, pod: PodView) -> Mask:  # noqa: ARG002 — any pod makes it fall
        """True for each free node."""
        return np.asarray(self.others(snapshot) == 0)

    def spare(self, snapshot: Snapshot) -> NDArray[np.int64]:
        """The free amounts of nodes that are not free."""
        return np.where(self.others(snapshot) == 0, 0, np.maximum(snapshot.allocatable - snapshot.requested, 0))

    def bundles(self, snapshot: Snapshot, row: int, movable: Sequence[PodView]) -> Iterator[Bundle]:
        """All pods of the node, if all may move."""
        if movable and len(movable) == self.others(snapshot)[row]:
            yield Bundle(snapshot.names[row], tuple(movable), 1.0)

    def value_function(self, names: Sequence[str]) -> ValueFunction:  # noqa: ARG002 — only the number of pods counts
        """1 for a node without pods; the fewer there are, the nearer."""
        return lambda _, others: (0, 0.5 / (1 + others)) if others else (1, 0.0)

    def others(self, snapshot: Snapshot) -> NDArray[np.int64]:
        """The number of movable pods on each node."""
        return np.asarray(snapshot.selection(("FreeNodes", "others"), lambda pod: not staying(pod)).by_node, np.int64)

    def may_gain(self, snapshot: Snapshot) -> Mask:
        """True for each node with pods."""
        return np.asarray(self.others(snapshot) > 0)


class FreeUnits:
    """The number of whole units that are free on each node; a unit is amounts of resources, such as one GPU, or eight of them.

    Where GPUs are shared, a whole one is free only if no pod has a share of it: it takes the resource of shares too.
    """

    def __init__(self, unit: Mapping[str, int]) -> None:
        self._unit = {name: amount for name, amount in unit.items() if amount > 0}

    def total(self, snapshot: Snapshot, excluded: frozenset[str]) -> float:
        """The number of free units."""
        found = self._free(snapshot, {})
        found[_rows(snapshot, excluded)] = 0
        return float(found.sum())

    def would_fall(self, snapshot: Snapshot, pod: PodView) -> Mask:
        """True for each node that would have fewer whole units free with the pod on it."""
        return np.asarray(self._free(snapshot, pod.requests) < self._free(snapshot, {}))

    def spare(self, snapshot: Snapshot) -> NDArray[np.int64]:
        """The free amounts without the whole units."""
        left = np.maximum(snapshot.allocatable - snapshot.requested, 0)
        free = self._free(snapshot, {})
        for name, amount in self._unit.items():
            index = snapshot.resource_index(name)
            if index is not None:
                left[index] -= amount * free
        return np.asarray(np.maximum(left, 0))

    def bundles(self, snapshot: Snapshot, row: int, movable: Sequence[PodView]) -> Iterator[Bundle]:
        """The smallest sets of pods that make each further unit free: at most `MAX_CHOICES`, the smallest requests first.

        Of sets of equal pods one is enough, and where there are too many ways only the largest pods are looked at.
        """
        now, limit = self._at(snapshot, row, {}), self._limit(snapshot, row)
        sharing = sorted((pod for pod in movable if self._share(pod) > 0), key=lambda pod: (-self._share(pod), pod.key))
        for more in range(1, limit - now + 1):
            n_pods = self._fewest(snapshot, row, now + more, sharing)
            if n_pods is None:
                return
            for chosen in self._choices(snapshot, row, now + more, sharing, n_pods):
                yield Bundle(snapshot.names[row], chosen, float(more))

    def value_function(self, names: Sequence[str]) -> ValueFunction:
        """The whole units, and half the square of the part that is free of the next one."""
        unit = [(names.index(name), amount) for name, amount in self._unit.items()]

        def of(free: Sequence[int], _others: int) -> tuple[int, float]:
            parts = max(0.0, min([free[index] / amount for index, amount in unit]))
            whole = int(parts)
            return whole, 0.5 * (parts - whole) ** 2

        return of

    def others(self, snapshot: Snapshot) -> NDArray[np.int64]:
        """0 for each node: how many pods there are makes no difference."""
        return np.zeros(snapshot.n_nodes, np.int64)

    def may_gain(self, snapshot: Snapshot) -> Mask:
        """True for each node that has units, some of them used."""
        limit = np.full(snapshot.n_nodes, np.iinfo(np.int64).max)
        for name, amount in self._unit.items():
            index = snapshot.resource_index(name)
            limit = np.minimum(limit, 0 if index is None else snapshot.allocatable[index] // amount)
        return np.asarray(self._free(snapshot, {}) < limit)

    def _fewest(self, snapshot: Snapshot, row: int, units: int, pods: Sequence[PodView]) -> int | None:
        """The number of pods that must leave, the largest first, so that this many units are free; None if all are too few."""
        for n_pods in range(1, len(pods) + 1):
            if self._without(snapshot, row, pods[:n_pods]) >= units:
                return n_pods
        return None

    def _choices(self, snapshot: Snapshot, row: int, units: int, pods: Sequence[PodView], n_pods: int) -> Iterator[tuple[PodView, ...]]:
        """The sets of that many pods whose leaving makes the units free."""
        several = [*combinations(pods, n_pods)] if math.comb(len(pods), n_pods) <= MAX_WAYS else [tuple(pods[:n_pods])]
        unlike = {tuple(sorted(pod.template for pod in chosen)): chosen for chosen in reversed(several)}
        enough = [chosen for chosen in unlike.values() if self._without(snapshot, row, chosen) >= units]
        yield from sorted(enough, key=lambda chosen: (sum(map(self._share, chosen)), [pod.key for pod in chosen]))[:MAX_CHOICES]

    def _limit(self, snapshot: Snapshot, row: int) -> int:
        return min(_at(snapshot, snapshot.allocatable, name, row) // amount for name, amount in self._unit.items())

    def _without(self, snapshot: Snapshot, row: int, pods: Sequence[PodView]) -> int:
        return self._at(snapshot, row, {name: -sum(pod.requests.get(name, 0) for pod in pods) for name in self._unit})

    def _share(self, pod: PodView) -> float:
        return max(pod.requests.get(name, 0) / amount for name, amount in self._unit.items())

    def _at(self, snapshot: Snapshot, row: int, more: Mapping[str, int]) -> int:
        """The units that are free on a node with requests for more (or, below zero, less)."""
        free = (
            (_at(snapshot, snapshot.allocatable, name, row) - _at(snapshot, snapshot.requested, name, row) - more.get(name, 0)) // amount
            for name, amount in self._unit.items()
        )
        return max(0, min(free))

    def _free(self, snapshot: Snapshot, more: Mapping[str, int]) -> NDArray[np.int64]:
        """The same for each node, (n_nodes,) int64."""
        free = np.full(snapshot.n_nodes, np.iinfo(np.int64).max)
        for name, amount in self._unit.items():
            index = snapshot.resource_index(name)
            left = np.zeros(snapshot.n_nodes, np.int64) if index is None else snapshot.allocatable[index] - snapshot.requested[index]
            free = np.minimum(free, (left - more.get(name, 0)) // amount)
        return np.asarray(np.maximum(free, 0))


def _at(snapshot: Snapshot, amounts: NDArray[np.int64], name: str, row: int) -> int:
    index = snapshot.resource_index(name)
    return 0 if index is None else int(amounts[index, row])


def _rows(snapshot: Snapshot, names: frozenset[str]) -> list[int]:
    return [row for name in names if (row := snapshot.row(name)) is not None]


def one_gpu(snapshot: Snapshot) -> dict[str, int]:
    """The requests for one whole GPU of this cluster: `nvidia.com/gpu: 1`, and 1000 milli if nodes offer shares of GPUs."""
    index = snapshot.resource_index(SHARED_GPU)
    shared = index is not None and bool(snapshot.allocatable[index].any())
    return {GPU: 1, SHARED_GPU: 1000} if shared else {GPU: 1}


class Terms(Struct, frozen=True, kw_only=True):
    """The limits of a plan: the gain that each move must bring, and the maximum number of moves."""

    cost: float
    most_moves: int


class Outcome(NamedTuple):
    """The result of moving some bundles; a better one is greater: gains less costs, then fewer moves, then fewer cordons."""

    net_gain: float
    moves: int
    cordons: int


NO_OUTCOME = Outcome(0.0, 0, 0)


class Interrupted(Exception):
    """The search is to end now, with what it has found."""


class Search:
    """One draft, one value, and the terms of moves.

    `may_move` selects the pods that may move, `verb` is the effect of a move on the node that it leaves. Moves are given up if `holds` is
    false after them. `advance` is called between steps, and may raise Interrupted. `ends_at` is the number of decisions after which the
    search ends.
    """

    def __init__(  # noqa: PLR0913, PLR0917 — its collaborators and settings
        self,
        draft: Draft,
        value: NodeValue,
        terms: Terms,
        may_move: Callable[[PodView], bool],
        verb: str,
        holds: Callable[[], bool],
        advance: Callable[[], None],
    ) -> None:
        self.draft = draft
        self.value = value
        self.terms = terms
        self.verb = verb
        self.holds = holds
        self.advance = advance
        self.ends_at = 0
        self._may_move = may_move
        snapshot = draft.snapshot
        self.excluded = frozenset(snapshot.names[row] for row in np.flatnonzero(snapshot.unschedulable).tolist()) - draft.cordoned
        self._largest = np.maximum(snapshot.allocatable.max(axis=1, initial=1), 1)

    @property
    def is_over(self) -> bool:
        """True once the search has made its decisions."""
        return self.draft.decisions >= self.ends_at

    def total(self) -> float:
        """The value now."""
        return self.value.total(self.draft.snapshot, self.excluded)

    def begun(self) -> tuple[float, int]:
        """The value, and the number of moves so far: where `since` counts from."""
        return self.total(), len(self.draft.moves)

    def since(self, begun: tuple[float, int]) -> Outcome:
        """The result of the moves since then."""
        value, n_moves = begun
        moved = len(self.draft.moves) - n_moves
        return Outcome(round(self.total() - value - self.terms.cost * moved, 9), -moved, -len(self.draft.cordoned))

    def open_rows(self) -> list[int]:
        """The rows of the nodes that were not cordoned from the start."""
        return [row for row, name in enumerate(self.draft.snapshot.names) if name not in self.excluded]

    def movable(self, rows: Iterable[int]) -> Iterator[tuple[int, list[PodView]]]:
        """The row of each of some nodes, and the pods that may move from there and have not been moved yet."""
        moved = {move.pod.uid for move in self.draft.moves}
        for row in rows:
            yield row, [pod for pod in self.draft.snapshot.pods_on(row) if pod.uid not in moved and self._may_move(pod)]

    def size(self, pods: Sequence[PodView]) -> float:
        """The sum of what pods request, each as the largest fraction of what the largest node has."""
        snapshot = self.draft.snapshot
        fractions = [
            max(
                (
                    amount / self._largest[index]
                    for name, amount in pod.requests.items()
                    if (index := snapshot.resource_index(name)) is not None
                ),
                default=0.0,
            )
            for pod in pods
        ]
        return float(sum(fractions))
