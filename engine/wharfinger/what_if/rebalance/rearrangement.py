"""Rearrangements of pods that free more although no single move gains anything.

A share of a GPU may have to leave a node so that another one can come, whose leaving then makes a GPU whole. Such chains of moves are found
by local search on a model of a few nodes: what is free there, and what each pod asks for. Pods change their nodes at random. A change that
makes the cluster worse is accepted as long as the loss is small, and smaller with each step (threshold accepting; Dueck and Scheuer,
Journal of Computational Physics 90, 1990). Then every pod goes back whose move was for nothing.

The model knows requests, and the filters that depend on a node's object alone. Whether a rearrangement is possible, and in which order, is
tried on the draft, where the chain decides. The random numbers have fixed seeds and only sums and products of them are compared, so the
same cluster has the same result on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MIN_GAIN = 1e-9
"""A smaller gain is none."""
MAX_STEPS = 20_000
"""Changes that one search tries."""
FIRST_LOSS = 0.12
"""The largest loss of one change at the beginning; a whole node or GPU is 1."""
MOVE = 0.02
"""What a pod away from its node counts at least, so that the search prefers few moves."""

Worth = Callable[[Sequence[int], int], tuple[int, float]]
"""(the value of a node, how near it is to more: from 0 to less than 1/2), by what is free there and the number of its pods."""
Ask = tuple[tuple[int, int], ...]
"""What a pod asks for: pairs of the index of a resource and an amount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """Some nodes with the pods on them that may move.

    `free` has the free amounts by node and resource, `others` the number of pods of each node that keep it from being free. For each pod,
    `asks` are its requests, `at` is its node, `home` the node where it counts as not moved, and `nodes` are those that it may be on.
    """

    free: tuple[tuple[int, ...], ...]
    others: tuple[int, ...]
    asks: tuple[Ask, ...]
    at: tuple[int, ...]
    home: tuple[int, ...]
    nodes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearranged:
    """The node of each pod, the sum of the values of all nodes, and the number of pods that are not at home."""

    at: tuple[int, ...]
    value: int
    moves: int


def rearranged(start: Arrangement, worth: Worth, cost: float, seed: int) -> Rearranged:
    """The best arrangement that one search finds: the value less `cost` for each move, then the fewest moves."""
    search = _Search(start, worth, cost)
    search.run(random.Random(seed))
    return search.best()


class _Search:
    """An arrangement that changes."""

    def __init__(self, start: Arrangement, worth: Worth, cost: float) -> None:
        self._start = start
        self._worth = worth
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
        self._moves = sum(now != home for now, home in zip(self._at, start.home, strict=True))

    def _shift(self, pod: int, node: int) -> None:
        old, self._at[pod] = self._at[pod], node
        self._others[old] -= 1
        self._others[node] += 1
        there, here = self._free[node], self._free[old]
        for index, amount in self._start.asks[pod]:
            here[index] += amount
            there[index] -= amount

    def _count(self, node: int) -> None:
        value, near = self._worth(self._free[node], self._others[node])
        self._values[node], self._sums[node] = value, value + near

    def _fits(self, pod: int, node: int) -> bool:
        free = self._free[node]
        return all(free[index] >= amount for index, amount in self._start.asks[pod])

    def run(self, draw: random.Random) -> None:
        """Looks for better arrangements, and remembers the best."""
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
            home = self._start.home[pod]
            moved = (new != home) - (old != home)
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
        while self._one_home():
            pass
        return Rearranged(at=tuple(self._at), value=sum(self._values), moves=self._moves)

    def _one_home(self) -> bool:
        """Takes a pod back whose move gains nothing; False if there is none."""
        for pod, home in enumerate(self._start.home):
            old = self._at[pod]
            if old == home or not self._fits(pod, home):
                continue
            before = self._values[old] + self._values[home]
            self._shift(pod, home)
            self._count(old)
            self._count(home)
            if self._values[old] + self._values[home] + self._cost >= before - MIN_GAIN:
                self._moves -= 1
                return True
            self._shift(pod, old)
            self._count(old)
            self._count(home)
        return False
