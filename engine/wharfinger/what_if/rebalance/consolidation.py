"""Searches the moves that free most: nodes or GPUs, for the fewest moves.

What a set of bundles leads to is not estimated: it is tried on the draft, where the chain says where each pod goes. No pod is moved to a
node that a bundle of the same set leaves, or whose value would fall.

Which sets are tried: of the bundles in order of what they gain per move the first 1, 1/2, 1/4, … and sizes around the best of these; then
sets in order of what they would gain if every move succeeded, which finds the best set of a small cluster. Each set is tried twice, with
the chain's own choice of nodes, and with the fullest node that fits. The search ends when no set can be better, or after a number of
decisions.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wharfinger.what_if.rebalance.draft import LOOKED_AT, Acceptable, Choice, Draft

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.framework.verdict import Mask
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.what_if.rebalance.freed_nodes import Bundle, NodeValue

EFFORT = 15_000
"""Decisions after which the search ends with what it has found."""
MOST_SETS = 20_000
SMALL = 24
"""Up to so many nodes with bundles all sets of bundles are looked at, the best first."""
LEAST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a plan may cost: the gain that each move must be worth, and how many there may be at most."""

    cost: float
    most_moves: int


class Outcome(NamedTuple):
    """What a set of bundles led to, so that the better one is greater: gains less costs, then fewer moves, then fewer cordons."""

    worth: float
    moves: int
    cordons: int


def fullest(decision: Decision, snapshot: Snapshot, acceptable: Mask) -> str | None:
    """The acceptable node, among those that the chain ranks highest, with the least room left after the pod came."""
    best: tuple[float, str] | None = None
    for ranked in decision.ranking(LOOKED_AT):
        row = snapshot.row(ranked.node)
        if row is not None and acceptable[row]:
            room = _room_left(snapshot, row, decision.pod)
            if best is None or (room, ranked.node) < best:
                best = room, ranked.node
    return None if best is None else best[1]


def _room_left(snapshot: Snapshot, row: int, pod: PodView) -> float:
    """The sum over the node's resources of the fraction that stays free, in hundredths, so that equal nodes are equal."""
    allocatable = snapshot.allocatable[:, row]
    free = allocatable - snapshot.requested[:, row]
    for name, amount in pod.requests.items():
        index = snapshot.resource_index(name)
        if index is not None:
            free = free.copy()
            free[index] -= amount
    offered = allocatable > 0
    return float(round(float((free[offered] / allocatable[offered]).sum()), 2))


class Consolidation:
    """The search for one value on one draft.

    `movable` says which pods may move, `verb` what a move does to the node that it leaves. A bundle is given up if `holds` is false after
    it.
    """

    def __init__(  # noqa: PLR0913, PLR0917 — what it searches, and by which rules
        self,
        draft: Draft,
        value: NodeValue,
        terms: Terms,
        movable: Callable[[PodView], bool],
        verb: str,
        holds: Callable[[], bool] = lambda: True,
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        self._draft = draft
        self._value = value
        self._terms = terms
        self._movable = movable
        self._verb = verb
        self._holds = holds
        self._advance = advance
        snapshot = draft.snapshot
        self._closed = frozenset(snapshot.names[row] for row in np.flatnonzero(snapshot.unschedulable).tolist()) - draft.cordoned
        self._largest = np.maximum(snapshot.allocatable.max(axis=1, initial=1), 1)
        self._best = Outcome(0.0, 0, 0)
        self._ends_at = draft.decisions + EFFORT

    def total(self) -> float:
        """The value now."""
        return self._value.total(self._draft.snapshot, self._closed)

    def run(self) -> None:
        """Leaves the best moves that were found on the draft."""
        while self._draft.decisions < self._ends_at and self._improve():
            pass

    def _improve(self) -> bool:
        """Does the best set of bundles; False if none gains anything."""
        bundles = self._bundles()
        self._best, chosen = Outcome(0.0, 0, 0), None
        for tried, wanted in self._candidates(bundles):
            mark = self._draft.mark()
            outcome = self._try(tried, wanted)
            self._draft.back_to(mark)
            if outcome > self._best:
                self._best, chosen = outcome, (tried, wanted)
            if self._draft.decisions >= self._ends_at:
                break
        if chosen is None:
            return False
        self._try(*chosen)
        return True

    def _bundles(self) -> list[Bundle]:
        """The bundles that are worth their moves, those that gain most per move first."""
        snapshot = self._draft.snapshot
        found: list[Bundle] = []
        moved = {move.pod.uid for move in self._draft.moves}
        for row, name in enumerate(snapshot.names):
            if name not in self._closed:
                pods = [pod for pod in snapshot.pods_on(row) if pod.uid not in moved and self._movable(pod)]
                found += self._value.bundles(snapshot, row, pods) if pods else ()
        worth = [bundle for bundle in found if self._worth(bundle) > LEAST]
        return sorted(worth, key=lambda bundle: (len(bundle.pods) / bundle.gain, self._size(bundle.pods), bundle.node))

    def _worth(self, bundle: Bundle) -> float:
        return bundle.gain - self._terms.cost * len(bundle.pods)

    def _size(self, pods: Sequence[PodView]) -> float:
        """The sum of what pods ask for, each as the largest fraction of what the largest node has."""
        snapshot = self._draft.snapshot
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

    def _candidates(self, bundles: Sequence[Bundle]) -> Iterator[tuple[Sequence[Bundle], Choice | None]]:
        """The sets of bundles to try, each with a choice of nodes."""
        yield from self._prefixes(bundles)
        if len({bundle.node for bundle in bundles}) > SMALL:
            return
        for combined, hoped in combinations(bundles, self._worth):
            if hoped <= self._best.worth + LEAST:
                return
            if self._has_room(combined):
                ordered = sorted(combined, key=lambda bundle: (-self._size(bundle.pods), bundle.node))
                for wanted in (None, fullest):
                    yield ordered, wanted

    def _prefixes(self, bundles: Sequence[Bundle]) -> Iterator[tuple[Sequence[Bundle], Choice | None]]:
        """The first bundles of each node: as many as all, a half, a quarter, …, and then sizes between the best and its neighbours."""
        first = list({bundle.node: bundle for bundle in reversed(bundles)}.values())[::-1]
        sizes = sorted({max(1, len(first) >> shift) for shift in range(len(first).bit_length())}, reverse=True) if first else []
        tried: set[int] = set()
        top = 0
        while sizes:
            for size in sizes:
                tried.add(size)
                for wanted in (None, fullest):
                    before = self._best
                    yield first[:size], wanted
                    top = size if self._best > before else top
            below = max((size for size in tried if size < top), default=0)
            above = min((size for size in tried if size > top), default=top)
            sizes = sorted({(below + top) // 2, (top + above) // 2} - tried - {0})

    def _has_room(self, bundles: Sequence[Bundle]) -> bool:
        """False if the pods ask for more than what all nodes that no bundle leaves can spare, or one for more than any of these can."""
        snapshot = self._draft.snapshot
        spare = self._value.spare(snapshot)
        spare[:, [row for bundle in bundles if (row := snapshot.row(bundle.node)) is not None]] = 0
        spare[:, snapshot.unschedulable] = 0
        most, room = spare.max(axis=1, initial=0), spare.sum(axis=1)
        for bundle in bundles:
            for pod in bundle.pods:
                for name, amount in pod.requests.items():
                    index = snapshot.resource_index(name)
                    if index is not None:
                        room[index] -= amount
                        if amount > most[index]:
                            return False
        return bool((room >= 0).all())

    def _try(self, bundles: Sequence[Bundle], wanted: Choice | None) -> Outcome:
        """Moves the bundles that can be moved."""
        draft, terms = self._draft, self._terms
        snapshot = draft.snapshot
        row_of = {bundle.node: row for bundle in bundles if (row := snapshot.row(bundle.node)) is not None}
        avoided = np.zeros(snapshot.n_nodes, np.bool_)
        avoided[list(row_of.values())] = True
        kept = draft.cordoned
        began, n_moves = self.total(), len(draft.moves)
        for bundle in bundles:
            if len(draft.moves) + len(bundle.pods) > terms.most_moves or not self._one(bundle, avoided, kept, wanted):
                avoided[row_of[bundle.node]] = False
            else:
                kept |= {bundle.node} & draft.cordoned
        moved = len(draft.moves) - n_moves
        return Outcome(round(self.total() - began - terms.cost * moved, 9), -moved, -len(draft.cordoned))

    def _one(self, bundle: Bundle, avoided: Mask, kept: frozenset[str], wanted: Choice | None) -> bool:
        """Moves one bundle; False, and nothing has changed, if a pod of it has no place or it is not worth its moves."""
        draft = self._draft
        mark, before, began = draft.mark(), self.total(), len(draft.moves)
        self._advance()
        for pod in sorted(bundle.pods, key=lambda pod: (-self._size([pod]), pod.key)):
            if draft.move(pod, self._accepting(pod, avoided), kept, wanted) is None:
                draft.back_to(mark)
                return False
        gained = self.total() - before
        if gained - self._terms.cost * len(bundle.pods) > LEAST and self._holds():
            draft.explain(began, f"{self._verb} {bundle.node}", gained)
            return True
        draft.back_to(mark)
        return False

    def _accepting(self, pod: PodView, avoided: Mask) -> Acceptable:
        return lambda snapshot: ~(self._value.falls(snapshot, pod) | avoided)


def combinations(bundles: Sequence[Bundle], worth: Callable[[Bundle], float]) -> Iterator[tuple[list[Bundle], float]]:
    """At most one bundle of each node, in all ways, with the sum of what they are worth: the greatest sums first."""
    by_node: dict[str, list[Bundle]] = {}
    for bundle in bundles:
        by_node.setdefault(bundle.node, []).append(bundle)
    options = [sorted(found, key=lambda bundle: -worth(bundle)) for _, found in sorted(by_node.items())]
    values = [[*(worth(bundle) for bundle in found), 0.0] for found in options]
    start = (0,) * len(options)
    heap = [(-sum(found[0] for found in values), start, 0)]
    for _ in range(MOST_SETS):
        if not heap:
            return
        negative, places, last = heapq.heappop(heap)
        chosen = [found[place] for found, place in zip(options, places, strict=True) if place < len(found)]
        if chosen:
            yield chosen, -negative
        for at in range(last, len(options)):
            place = places[at] + 1
            if place < len(values[at]):
                fewer = -negative - values[at][place - 1] + values[at][place]
                heapq.heappush(heap, (-fewer, (*places[:at], place, *places[at + 1 :]), at))
