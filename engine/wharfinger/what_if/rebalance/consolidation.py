"""Searches the moves that free most: nodes or GPUs, for the fewest moves.

What a set of bundles leads to is not estimated: it is tried on the draft, where the chain says where each pod goes. No pod is moved to a
node that a bundle of the same set leaves, or whose value would fall.

Which sets are tried: of the bundles in order of what they gain per move the first 1, 1/2, 1/4, … and sizes around the best of these; then
sets in order of what they would gain if every move succeeded, which finds the best set of a small cluster. Each set is tried twice, with
the chain's own choice of nodes, and with the fullest node that fits. The search ends when no set can be better, or after a number of
decisions.

What bundles leave is looked for among a few nodes at a time: rearrangements of all their pods, see `rearrangement`. On a small cluster
these nodes are all, and rearrangements are also tried from the start, without any bundle before.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wharfinger.what_if.rebalance.draft import LOOKED_AT, Acceptable, Choice, Draft
from wharfinger.what_if.rebalance.rearrangement import Arrangement, Ask, rearranged

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.framework.verdict import Mask
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.what_if.rebalance.freed_nodes import Bundle, NodeValue

EFFORT = 15_000
"""Decisions after which the search for bundles ends with what it has found; that for rearrangements after a fifth of them."""
MOST_SETS = 20_000
SMALL = 24
"""Up to so many nodes with bundles all sets of bundles are looked at, the best first."""
SEEDS = 4
"""How often a rearrangement of the same nodes is looked for, by other random numbers."""
GROUP = 12
MOST_GROUPS = 60
"""Of larger clusters so many groups of nodes are rearranged, each of so many nodes."""
REFUSALS = 3
"""How often a rearrangement is looked for again without what the chain has refused."""
LEAST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """A pod that shall move to a node."""

    pod: PodView
    source: str
    target: str


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
        mark, began = self._draft.mark(), self._here()
        rows = self._open_rows()
        whole: tuple[Outcome, Sequence[Relocation]] = Outcome(0.0, 0, 0), ()
        if len(rows) <= SMALL:
            whole = self._rearrange(rows, SEEDS)
            self._draft.back_to(mark)
        while self._draft.decisions < self._ends_at and self._improve():
            pass
        self._ends_at = self._draft.decisions + EFFORT // 5
        self._rearrange_groups(rows)
        if whole[0] > self._since(began):
            self._draft.back_to(mark)
            self._relocate(whole[1])

    def _here(self) -> tuple[float, int]:
        """The value, and the number of moves so far."""
        return self.total(), len(self._draft.moves)

    def _since(self, began: tuple[float, int]) -> Outcome:
        value, n_moves = began
        moved = len(self._draft.moves) - n_moves
        return Outcome(round(self.total() - value - self._terms.cost * moved, 9), -moved, -len(self._draft.cordoned))

    # ── rearrangements ──

    def _open_rows(self) -> list[int]:
        """The rows of the nodes that were not cordoned from the start."""
        return [row for row, name in enumerate(self._draft.snapshot.names) if name not in self._closed]

    def _rearrange_groups(self, rows: Sequence[int]) -> None:
        """Rearranges all nodes if they are few; otherwise groups of those where it may gain something, which are drawn at random."""
        if len(rows) <= SMALL:
            while self._rearrange(rows, SEEDS)[0].worth > LEAST:
                pass
            return
        may_gain = self._value.may_gain(self._draft.snapshot)
        worthy = [row for row in rows if may_gain[row]]
        random.Random(0).shuffle(worthy)
        for start in range(0, min(len(worthy), GROUP * MOST_GROUPS), GROUP):
            if self._draft.decisions >= self._ends_at or len(self._draft.moves) >= self._terms.most_moves:
                return
            self._rearrange(worthy[start : start + GROUP], 1)

    def _rearrange(self, rows: Sequence[int], seeds: int) -> tuple[Outcome, Sequence[Relocation]]:
        """Moves pods among these nodes if that gains something; (what it led to, the pods that should move)."""
        mark = self._draft.mark()
        refused: set[tuple[bytes, int]] = set()
        best: tuple[Outcome, Sequence[Relocation]] = Outcome(0.0, 0, 0), ()
        for _ in range(REFUSALS):
            before = len(refused)
            for relocations in self._rearrangements(rows, seeds, refused):
                outcome = self._relocate(relocations, refused)
                self._draft.back_to(mark)
                if outcome > best[0]:
                    best = outcome, relocations
            if len(refused) == before or self._draft.decisions >= self._ends_at:
                break
        if best[1]:
            self._relocate(best[1])
        return best

    def _rearrangements(self, rows: Sequence[int], seeds: int, refused: set[tuple[bytes, int]]) -> list[Sequence[Relocation]]:
        """The pods that should move for more to be free, by searches with several seeds, without repetitions."""
        draft, terms = self._draft, self._terms
        snapshot = draft.snapshot
        moved = {move.pod.uid for move in draft.moves}
        placed = [(pod, at) for at, row in enumerate(rows) for pod in snapshot.pods_on(row) if pod.uid not in moved and self._movable(pod)]
        if not placed:
            return []
        names, node_names = tuple(snapshot.resource_names), [snapshot.names[row] for row in rows]
        free = np.vstack((snapshot.allocatable - snapshot.requested, snapshot.allowed_pods - snapshot.pod_count))[:, list(rows)]
        others = self._value.others(snapshot)[list(rows)]
        allowed: dict[bytes, tuple[int, ...]] = {}
        for pod, _ in placed:
            if pod.template not in allowed:
                mask = self._by_object(pod)
                allowed[pod.template] = tuple(at for at, row in enumerate(rows) if mask[row] and (pod.template, row) not in refused)
        at = tuple(node for _, node in placed)
        start = Arrangement(
            free=tuple(tuple(int(amount) for amount in column) for column in free.T),
            others=tuple(int(number) for number in others),
            asks=tuple(_ask(pod, names) for pod, _ in placed),
            at=at,
            home=at,
            nodes=tuple(tuple(sorted({*allowed[pod.template], node})) for pod, node in placed),
        )
        worth = self._value.worth(names)
        now = sum(worth(amounts, number)[0] for amounts, number in zip(start.free, start.others, strict=True))
        found: dict[tuple[int, ...], Sequence[Relocation]] = {}
        for seed in range(seeds):
            self._advance()
            better = rearranged(start, worth, terms.cost, seed)
            gains = better.value - now - terms.cost * better.moves > LEAST
            if gains and len(draft.moves) + better.moves <= terms.most_moves:
                found[better.at] = [
                    Relocation(pod=pod, source=node_names[node], target=node_names[new])
                    for (pod, node), new in zip(placed, better.at, strict=True)
                    if node != new
                ]
        return list(found.values())

    def _by_object(self, pod: PodView) -> Mask:
        """The nodes that no filter rejects for the pod for the sake of the node's object alone, as if none were cordoned for the plan."""
        draft = self._draft
        mark = draft.mark()
        draft.uncordon(list(draft.cordoned))
        draft.evict(pod)
        mask = draft.decide(draft.again(pod)).evaluation.filtering.by_object.copy()
        draft.back_to(mark)
        return mask

    def _relocate(self, relocations: Sequence[Relocation], refused: set[tuple[bytes, int]] | None = None) -> Outcome:
        """Moves these pods, each as soon as there is room; nothing has changed if they gain nothing.

        Adds to `refused` the templates and rows that the chain refuses.
        """
        draft = self._draft
        mark, began, kept = draft.mark(), self._here(), draft.cordoned
        left = sorted(relocations, key=lambda each: (-self._size([each.pod]), each.pod.key))
        going = True
        while left and going:
            going = False
            for each in tuple(left):
                if not self._has_room_at(each):
                    continue
                before, n_moves = self._here()
                row = draft.snapshot.row(each.target)
                if draft.move(each.pod, _only(each.target), kept, lambda *_, target=each.target: target) is None:
                    if refused is not None and row is not None:
                        refused.add((each.pod.template, row))
                    continue
                gained = self.total() - before
                why = f"{self._verb} {each.source}" if gained > 0 else f"makes room on {each.source}"
                draft.explain(n_moves, why, gained)
                left.remove(each)
                going = True
        outcome = self._since(began)
        if outcome.worth > LEAST and self._holds():
            return outcome
        draft.back_to(mark)
        return Outcome(0.0, 0, 0)

    def _has_room_at(self, each: Relocation) -> bool:
        """True if what the pod asks for is free on its new node."""
        snapshot = self._draft.snapshot
        row = snapshot.row(each.target)
        if row is None or snapshot.pod_count[row] >= snapshot.allowed_pods[row]:
            return False
        free = snapshot.allocatable[:, row] - snapshot.requested[:, row]
        return all(free[index] >= amount for index, amount in _ask(each.pod, tuple(snapshot.resource_names))[:-1])

    # ── bundles ──

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


def _only(target: str) -> Acceptable:
    """Accepts this node alone."""

    def mask(snapshot: Snapshot) -> Mask:
        found = np.zeros(snapshot.n_nodes, np.bool_)
        found[snapshot.row(target)] = True
        return found

    return mask


def _ask(pod: PodView, names: Sequence[str]) -> Ask:
    """What the pod asks for of these resources, and one place for a pod, which is the last."""
    index = {name: at for at, name in enumerate(names)}
    return (*((index[name], amount) for name, amount in pod.requests.items() if amount and name in index), (len(names), 1))


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
