"""Searches the moves that free most: nodes or GPUs, for the fewest moves.

The result of a set of bundles is not estimated: it is tried on the draft, where the chain places each pod. No pod is moved to a node that a
bundle of the same set leaves, or whose value would fall.

The bundles are sorted by their gain per move. The sets to try are first all of them, a half, a quarter, …, and sizes around the best of
these; then sets in the order of the gain that they would have if every move succeeded, which finds the best set of a small cluster. Each
set is tried twice: with the chain's own choice of nodes, and with the fullest node that fits. The search ends when no set can be better, or
after a number of decisions.

Further gains are searched among a few nodes at a time, by rearranging all their pods (`rearrangement`). A small cluster is searched as a
whole, and rearrangements are also tried first, without any bundle before.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from wharfinger.what_if.rebalance.draft import LOOKED_AT, Acceptable, Choice
from wharfinger.what_if.rebalance.gains import MAX_WHOLE_SEARCH, MIN_GAIN, NO_OUTCOME, Interrupted, Outcome, Search
from wharfinger.what_if.rebalance.rearrangement import Relocation, Relocations

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.framework.prepared import Mask
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.what_if.rebalance.gains import Bundle

MAX_DECISIONS = 15_000
"""Decisions after which the search for bundles ends with what it has found; that for rearrangements after a fifth of them."""
MAX_SETS = 20_000
"""The largest number of sets of bundles that is tried on a small cluster, the best first."""


def fullest(decision: Decision, snapshot: Snapshot, acceptable: Mask) -> str | None:
    """The acceptable node, among those that the chain ranks highest, with the least room left after the pod came."""
    rows = [row for row in decision.ranked_rows(LOOKED_AT) if acceptable[row]]
    if not rows:
        return None
    return min(zip(_room_left(snapshot, rows, decision.pod), (snapshot.names[row] for row in rows), strict=True))[1]


def _room_left(snapshot: Snapshot, rows: list[int], pod: PodView) -> list[float]:
    """The sum over each node's resources of the fraction that stays free, in hundredths, so that equal nodes are equal."""
    allocatable = snapshot.allocatable[:, rows]
    free = allocatable - snapshot.requested[:, rows]
    for name, amount in pod.requests.items():
        index = snapshot.resource_index(name)
        if index is not None:
            free[index] -= amount
    fractions = np.divide(free, allocatable, out=np.zeros(free.shape), where=allocatable > 0)
    found: list[float] = np.round(fractions.sum(axis=0), 2).tolist()
    return found


class Consolidation:
    """The search of bundles, and of rearrangements before and after them."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._draft = search.draft
        self._best = NO_OUTCOME

    def run(self) -> None:
        """Leave the best moves that were found on the draft."""
        search, relocations = self._search, Relocations(self._search)
        mark, began = self._draft.mark(), search.begun()
        search.ends_at = self._draft.decisions + MAX_DECISIONS
        rows = search.open_rows()
        whole: tuple[Outcome, Sequence[Relocation]] = NO_OUTCOME, ()
        with suppress(Interrupted):
            if len(rows) <= MAX_WHOLE_SEARCH:
                whole = relocations.rearrange(rows)
                self._draft.back_to(mark)
            while not search.is_over and self._improve():
                pass
            search.ends_at = self._draft.decisions + MAX_DECISIONS // 5
            relocations.groups(rows)
        if whole[0] > search.since(began):
            self._draft.back_to(mark)
            relocations.relocate(whole[1])

    def _improve(self) -> bool:
        """Do the best set of bundles; False if none gains anything."""
        bundles = self._bundles()
        self._best, chosen = NO_OUTCOME, None
        mark = self._draft.mark()
        with suppress(Interrupted):
            for tried, wanted in self._candidates(bundles):
                outcome = self._try(tried, wanted, self._search.advance)
                self._draft.back_to(mark)
                if outcome > self._best:
                    self._best, chosen = outcome, (tried, wanted)
                if self._search.is_over:
                    break
        self._draft.back_to(mark)
        if chosen is None:
            return False
        self._try(*chosen, lambda: None)
        return True

    def _bundles(self) -> list[Bundle]:
        """The bundles that gain more than their moves cost; those with the highest gain per move first."""
        snapshot = self._draft.snapshot
        found: list[Bundle] = []
        for row, pods in self._search.movable(self._search.open_rows()):
            found += self._search.value.bundles(snapshot, row, pods) if pods else ()
        gaining = [bundle for bundle in found if self._net_gain(bundle) > MIN_GAIN]
        return sorted(gaining, key=lambda bundle: (len(bundle.pods) / bundle.gain, self._search.size(bundle.pods), bundle.node))

    def _net_gain(self, bundle: Bundle) -> float:
        return bundle.gain - self._search.terms.cost * len(bundle.pods)

    def _candidates(self, bundles: Sequence[Bundle]) -> Iterator[tuple[Sequence[Bundle], Choice | None]]:
        """The sets of bundles to try, each with a choice of nodes."""
        yield from self._prefixes(bundles)
        if len({bundle.node for bundle in bundles}) > MAX_WHOLE_SEARCH:
            return
        for combined, most in combinations(bundles, self._net_gain):
            if most <= self._best.net_gain + MIN_GAIN:
                return
            if self._has_room(combined):
                ordered = sorted(combined, key=lambda bundle: (-self._search.size(bundle.pods), bundle.node))
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
        """False if the pods request more than the remaining nodes have free together, or one pod more than each of them has."""
        snapshot = self._draft.snapshot
        spare = self._search.value.spare(snapshot)
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

    def _try(self, bundles: Sequence[Bundle], wanted: Choice | None, advance: Callable[[], None]) -> Outcome:
        """Move the bundles that can be moved; `advance` is called before each."""
        draft, snapshot = self._draft, self._draft.snapshot
        row_of = {bundle.node: row for bundle in bundles if (row := snapshot.row(bundle.node)) is not None}
        avoided = np.zeros(snapshot.n_nodes, np.bool_)
        avoided[list(row_of.values())] = True
        kept = draft.cordoned
        began = self._search.begun()
        for bundle in bundles:
            advance()
            if len(draft.moves) + len(bundle.pods) > self._search.terms.most_moves or not self._one(bundle, avoided, kept, wanted):
                avoided[row_of[bundle.node]] = False
            else:
                kept |= {bundle.node} & draft.cordoned
        return self._search.since(began)

    def _one(self, bundle: Bundle, avoided: Mask, kept: frozenset[str], wanted: Choice | None) -> bool:
        """Move one bundle. False if a pod of it has no place, or it gains less than its moves cost; then nothing has changed."""
        draft = self._draft
        mark, before, began = draft.mark(), self._search.total(), len(draft.moves)
        for pod in sorted(bundle.pods, key=lambda pod: (-self._search.size([pod]), pod.key)):
            if draft.move(pod, self._accepting(pod, avoided), kept, wanted) is None:
                draft.back_to(mark)
                return False
        gained = self._search.total() - before
        if gained - self._search.terms.cost * len(bundle.pods) > MIN_GAIN and self._search.holds():
            draft.explain(began, f"{self._search.verb} {bundle.node}", gained)
            return True
        draft.back_to(mark)
        return False

    def _accepting(self, pod: PodView, avoided: Mask) -> Acceptable:
        return lambda snapshot: ~(self._search.value.would_fall(snapshot, pod) | avoided)


def combinations(bundles: Sequence[Bundle], net_gain: Callable[[Bundle], float]) -> Iterator[tuple[list[Bundle], float]]:
    """At most one bundle of each node, in all ways, with the sum of their net gains; the greatest sums first."""
    by_node: dict[str, list[Bundle]] = {}
    for bundle in bundles:
        by_node.setdefault(bundle.node, []).append(bundle)
    options = [sorted(found, key=lambda bundle: -net_gain(bundle)) for _, found in sorted(by_node.items())]
    values = [[*(net_gain(bundle) for bundle in found), 0.0] for found in options]
    start = (0,) * len(options)
    heap = [(-sum(found[0] for found in values), start, 0)]
    for _ in range(MAX_SETS):
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
