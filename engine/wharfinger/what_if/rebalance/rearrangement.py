"""Rearrangements of pods that free more although no single move gains anything.

For example, a share of a GPU leaves a node so that another share fits there, and the node of that other share then has a whole free GPU.
Such chains of moves are found by local search on a model of a few nodes: their free amounts, and the requests of each pod. Pods change
nodes at random. A change that makes the cluster worse is accepted as long as the loss is small; the accepted loss shrinks with each step
(threshold accepting; Dueck and Scheuer, Journal of Computational Physics 90, 1990). At the end, every pod whose move gains nothing returns
to its node.

The model includes requests, and the filters that depend only on a node's object. Whether a rearrangement is possible, and in which order,
is tried on the draft, where the chain decides, move by move; what it refuses is left out of the next calculation. The random numbers have
fixed seeds and only sums and products of them are compared, so the same cluster has the same result on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from wharfinger.what_if.rebalance.gains import MAX_WHOLE_SEARCH, MIN_GAIN, NO_OUTCOME, Outcome, Search

if TYPE_CHECKING:
    from wharfinger.framework.prepared import Mask
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.what_if.rebalance.draft import Acceptable
    from wharfinger.what_if.rebalance.gains import ValueFunction

MAX_STEPS = 20_000
"""Changes that one search tries."""
FIRST_LOSS = 0.12
"""The largest loss of one change at the beginning; a whole node or GPU is 1."""
MOVE = 0.02
"""The minimum cost of a pod away from its node, so that the search prefers few moves."""
SEEDS = 4
"""The number of searches for a rearrangement of the same nodes, each with other random numbers."""
GROUP_SIZE = 12
MAX_GROUPS = 60
"""The groups of nodes that are rearranged on larger clusters; each has `GROUP_SIZE` nodes."""
REFUSALS = 3
"""The number of further searches for a rearrangement without the placements that the chain has refused."""

Requests = tuple[tuple[int, int], ...]
"""The requests of a pod: pairs of the index of a resource and an amount."""


class Relocation(Struct, frozen=True, kw_only=True):
    """A pod that shall move to a node."""

    pod: PodView
    source: str
    target: str


class Relocations:
    """Rearrangements on the draft of a search."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._draft = search.draft

    def groups(self, rows: Sequence[int]) -> None:
        """Rearrange all nodes if they are few; otherwise groups of those where it may gain something, which are drawn at random."""
        if len(rows) <= MAX_WHOLE_SEARCH:
            while self.rearrange(rows)[0].net_gain > MIN_GAIN:
                pass
            return
        may_gain = self._search.value.may_gain(self._draft.snapshot)
        worthy = [row for row in rows if may_gain[row]]
        random.Random(0).shuffle(worthy)
        for start in range(0, min(len(worthy), GROUP_SIZE * MAX_GROUPS), GROUP_SIZE):
            if self._search.is_over or len(self._draft.moves) >= self._search.terms.most_moves:
                return
            self.rearrange(worthy[start : start + GROUP_SIZE], 1)

    def rearrange(self, rows: Sequence[int], seeds: int = SEEDS) -> tuple[Outcome, Sequence[Relocation]]:
        """Move pods among these nodes if that gains something; return (the outcome, the pods that should move)."""
        mark = self._draft.mark()
        refused: set[tuple[bytes, int]] = set()
        best: tuple[Outcome, Sequence[Relocation]] = NO_OUTCOME, ()
        for _ in range(REFUSALS):
            before = len(refused)
            for relocations in self._rearrangements(rows, seeds, refused):
                outcome = self.relocate(relocations, refused)
                self._draft.back_to(mark)
                if outcome > best[0]:
                    best = outcome, relocations
            if len(refused) == before or self._search.is_over:
                break
        if best[1]:
            self.relocate(best[1])
        return best

    def _rearrangements(self, rows: Sequence[int], seeds: int, refused: set[tuple[bytes, int]]) -> list[Sequence[Relocation]]:
        """The pods that should move for more to be free, by searches with several seeds, without repetitions."""
        draft, terms = self._draft, self._search.terms
        snapshot = draft.snapshot
        placed = [(pod, at) for at, (_, pods) in enumerate(self._search.movable(rows)) for pod in pods]
        if not placed:
            return []
        names, node_names = tuple(snapshot.resource_names), [snapshot.names[row] for row in rows]
        free = np.vstack((snapshot.allocatable - snapshot.requested, snapshot.allowed_pods - snapshot.pod_count))[:, list(rows)]
        others = self._search.value.others(snapshot)[list(rows)]
        allowed: dict[bytes, tuple[int, ...]] = {}
        for pod, _ in placed:
            if pod.template not in allowed:
                mask = self._by_object(pod)
                allowed[pod.template] = tuple(at for at, row in enumerate(rows) if mask[row] and (pod.template, row) not in refused)
        at = tuple(node for _, node in placed)
        start = Arrangement(
            free=tuple(tuple(int(amount) for amount in column) for column in free.T),
            others=tuple(int(number) for number in others),
            requests=tuple(_requests(pod, names) for pod, _ in placed),
            at=at,
            original=at,
            nodes=tuple(tuple(sorted({*allowed[pod.template], node})) for pod, node in placed),
        )
        value_of = self._search.value.value_function(names)
        now = sum(value_of(amounts, number)[0] for amounts, number in zip(start.free, start.others, strict=True))
        found: dict[tuple[int, ...], Sequence[Relocation]] = {}
        for seed in range(seeds):
            self._search.advance()
            better = rearranged(start, value_of, terms.cost, seed)
            gains = better.value - now - terms.cost * better.moves > MIN_GAIN
            if gains and len(draft.moves) + better.moves <= terms.most_moves:
                found[better.at] = [
                    Relocation(pod=pod, source=node_names[node], target=node_names[new])
                    for (pod, node), new in zip(placed, better.at, strict=True)
                    if node != new
                ]
        return list(found.values())

    def _by_object(self, pod: PodView) -> Mask:
        """The nodes that no filter rejects because of the node object alone, as if the plan had cordoned none."""
        draft = self._draft
        mark = draft.mark()
        draft.uncordon(list(draft.cordoned))
        draft.evict(pod)
        mask = draft.decide(draft.recreated(pod)).evaluation.filtering.by_object.copy()
        draft.back_to(mark)
        return mask

    def relocate(self, relocations: Sequence[Relocation], refused: set[tuple[bytes, int]] | None = None) -> Outcome:
        """Move these pods, each as soon as there is room; nothing has changed if they gain nothing.

        Adds to `refused` the templates and rows that the chain refuses.
        """
        draft = self._draft
        mark, began, kept = draft.mark(), self._search.begun(), draft.cordoned
        left = sorted(relocations, key=lambda each: (-self._search.size([each.pod]), each.pod.key))
        going = True
        while left and going:
            going = False
            for each in tuple(left):
                if not self._has_room_at(each):
                    continue
                before, n_moves = self._search.begun()
                row = draft.snapshot.row(each.target)
                if draft.move(each.pod, _only(each.target), kept, lambda *_, target=each.target: target) is None:
                    if refused is not None and row is not None:
                        refused.add((each.pod.template, row))
                    continue
                gained = self._search.total() - before
                why = f"{self._search.verb} {each.source}" if gained > 0 else f"makes room on {each.source}"
                draft.explain(n_moves, why, gained)
                left.remove(each)
                going = True
        outcome = self._search.since(began)
        if outcome.net_gain > MIN_GAIN and self._search.holds():
            return outcome
        draft.back_to(mark)
        return NO_OUTCOME

    def _has_room_at(self, each: Relocation) -> bool:
        """True if the requests of the pod are free on its new node."""
        snapshot = self._draft.snapshot
        row = snapshot.row(each.target)
        if row is None or snapshot.pod_count[row] >= snapshot.allowed_pods[row]:
            return False
        free = snapshot.allocatable[:, row] - snapshot.requested[:, row]
        return all(free[index] >= amount for index, amount in _requests(each.pod, tuple(snapshot.resource_names))[:-1])


def _only(target: str) -> Acceptable:
    """Accept this node alone."""

    def mask(snapshot: Snapshot) -> Mask:
        found = np.zeros(snapshot.n_nodes, np.bool_)
        found[snapshot.row(target)] = True
        return found

    return mask


def _requests(pod: PodView, names: Sequence[str]) -> Requests:
    """The requests of the pod for these resources, and one place for a pod, which is the last."""
    index = {name: at for at, name in enumerate(names)}
    return (*((index[name], amount) for name, amount in pod.requests.items() if amount and name in index), (len(names), 1))


# ── the model ──


class Arrangement(Struct, frozen=True, kw_only=True):
    """Some nodes with the pods on them that may move.

    `free` has the free amounts by node and resource, `others` the number of pods of each node that keep it from being free. For each pod,
    `requests` are its requests, `at` is its node, `original` its node before any move, and `nodes` are those that it may be on.
    """

    free: tuple[tuple[int, ...], ...]
    others: tuple[int, ...]
    requests: tuple[Requests, ...]
    at: tuple[int, ...]
    original: tuple[int, ...]
    nodes: tuple[tuple[int, ...], ...]


class Rearranged(Struct, frozen=True, kw_only=True):
    """The node of each pod, the sum of the values of all nodes, and the number of pods that are not on their original node."""

    at: tuple[int, ...]
    value: int
    moves: int


def rearranged(start: Arrangement, value_of: ValueFunction, cost: float, seed: int) -> Rearranged:
    """The best arrangement that one search finds: the value less `cost` for each move, then the fewest moves."""
    search = _LocalSearch(start, value_of, cost)
    search.run(random.Random(seed))
    return search.best()


class _LocalSearch:
    """An arrangement that changes."""

    def __init__(self, start: Arrangement, value_of: ValueFunction, cost: float) -> None:
        self._start = start
        self._value_of = value_of
        self._cost = cost
        self._best: tuple[float, int, tuple[int, ...]] | None = None
        self._put(start.at)

    def _put(self, at: Sequence[int]) -> None:
        """Every pod on its node of `at`."""
        start = self._start
        self._at = list(start.at)
        self._free = [list(amounts) for amounts in start.free]
        self._others = list(start.others)
        self._values = [0] * len(start.free)
        self._sums = [0.0] * len(start.free)
        for pod, node in enumerate(at):
            self._shift(pod, node)
        for node in range(len(start.free)):
            self._count(node)
        self._moves = sum(now != original for now, original in zip(self._at, start.original, strict=True))

    def _shift(self, pod: int, node: int) -> None:
        old, self._at[pod] = self._at[pod], node
        self._others[old] -= 1
        self._others[node] += 1
        there, here = self._free[node], self._free[old]
        for index, amount in self._start.requests[pod]:
            here[index] += amount
            there[index] -= amount

    def _count(self, node: int) -> None:
        value, near = self._value_of(self._free[node], self._others[node])
        self._values[node], self._sums[node] = value, value + near

    def _fits(self, pod: int, node: int) -> bool:
        free = self._free[node]
        return all(free[index] >= amount for index, amount in self._start.requests[pod])

    def run(self, draw: random.Random) -> None:
        """Look for better arrangements, and remember the best."""
        pods = [pod for pod, nodes in enumerate(self._start.nodes) if len(nodes) > 1]
        self._remember()
        if not pods:
            return
        each = max(MOVE, self._cost)
        for step in range(MAX_STEPS):
            pod = pods[int(draw.random() * len(pods))]
            nodes = self._start.nodes[pod]
            new, old = nodes[int(draw.random() * len(nodes))], self._at[pod]
            if new == old or not self._fits(pod, new):
                continue
            values, sums = self._values[old], self._sums[old]
            new_values, new_sums = self._values[new], self._sums[new]
            self._shift(pod, new)
            self._count(old)
            self._count(new)
            original = self._start.original[pod]
            moved = (new != original) - (old != original)
            gained = self._sums[old] + self._sums[new] - sums - new_sums - each * moved
            if gained >= -FIRST_LOSS * (1 - step / MAX_STEPS) * draw.random():
                self._moves += moved
                if self._values[old] + self._values[new] != values + new_values or moved < 0:
                    self._remember()
            else:
                self._shift(pod, old)
                self._values[old], self._sums[old] = values, sums
                self._values[new], self._sums[new] = new_values, new_sums

    def _remember(self) -> None:
        rank = sum(self._values) - self._cost * self._moves, -self._moves
        if self._best is None or rank > self._best[:2]:
            self._best = *rank, tuple(self._at)

    def best(self) -> Rearranged:
        """The best arrangement, in which no pod has moved for nothing."""
        if self._best is not None:
            self._put(self._best[2])
        while self._undo_one_move():
            pass
        return Rearranged(at=tuple(self._at), value=sum(self._values), moves=self._moves)

    def _undo_one_move(self) -> bool:
        """Undo a move that gains nothing; False if there is none."""
        for pod, original in enumerate(self._start.original):
            old = self._at[pod]
            if old == original or not self._fits(pod, original):
                continue
            before = self._values[old] + self._values[original]
            self._shift(pod, original)
            self._count(old)
            self._count(original)
            if self._values[old] + self._values[original] + self._cost >= before - MIN_GAIN:
                self._moves -= 1
                return True
            self._shift(pod, old)
            self._count(old)
            self._count(original)
        return False
