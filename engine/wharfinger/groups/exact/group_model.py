"""The filters of Kubernetes for all members of a group together, as rules on nodes and domains (`packing`).

What they require of each class (`Requirements`) and about members of the group together (`member_rules`) becomes sets of counts. Where
something is left out, `exact` is False. It can only forbid more, so a model without a solution is always a proof, and a solution has to
be confirmed by the chain.

Rules on domains are about the final members of a domain. There is always an order in which the chain accepts each member: first pods that
others have affinity to, and for spread the emptiest domain first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.groups.exact.member_classes import Merging
from wharfinger.groups.exact.member_rules import MemberRules
from wharfinger.groups.exact.packing import CountSet, Packing, Part, Rule, Space, Vector
from wharfinger.model.objects.pod_view import taken_ports

if TYPE_CHECKING:
    from wharfinger.framework.prepared import Mask
    from wharfinger.groups.exact.member_classes import ClassAxis, MemberClass
    from wharfinger.groups.exact.member_rules import RequiredAffinity, SpreadConstraint
    from wharfinger.model.state.snapshot import Snapshot

MAX_VECTORS = 1 << 17
NODES_PER_STEP = 32
MAX_LOWEST_COUNTS = 64  # combinations of the lowest final counts of spread constraints that are tried


class GroupModel:
    """The model of one group on one snapshot; `exact` is False if a filter may forbid more than the model does.

    Its `axes` are the classes, as far as they are not merged, and belong to it alone. `others` are the other classes of the group, of which
    it is not known where their members are.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        classes: Sequence[MemberClass],
        axes: Sequence[ClassAxis],
        merging: Merging = Merging.EQUALS,
        others: Sequence[MemberClass] = (),
    ) -> None:
        self._snapshot = snapshot
        self._classes = list(classes)
        self._axes = axes
        self._requirements = [axis.requirements for axis in self._axes]
        self.n_members = sum(len(each.members) for each in classes)
        self.exact = self.fits_in_space = False
        if Space.size([axis.number for axis in self._axes]) > MAX_VECTORS:
            return
        self._rules = MemberRules(snapshot, self._axes, others)
        self.exact = merging is Merging.EQUALS and self._rules.exact and all(requirements.complete for requirements in self._requirements)
        self._packings: dict[tuple[int, ...], Packing] = {}  # by lowest counts; shared by all domains
        self._kept_sets: dict[Hashable, CountSet] = {}
        self._domain_ids = {key: snapshot.topology(key).ids.astype(np.int64) for key in self._rules.keys}
        self._names = sorted({name for requirements in self._requirements for name in (requirements.needs or {})})
        self._free, self._slots = self._free_amounts()
        self._sums: dict[str, NDArray[np.int64]] = {}
        self.fits_in_space = Space.size(self._maxima) <= MAX_VECTORS
        self._prepared = False
        if self.fits_in_space:
            self.space = Space(self._maxima)

    def prepare(self) -> Generator[None, None, None]:
        """Compute values that are the same for all nodes, in steps; called once before `solve`, if the model is not too large."""
        if not self.fits_in_space or self._prepared:
            return
        for axis in range(len(self.space.maxima)):
            self.space.coordinate(axis)
            yield
        for name in self._names:
            self._sums[name] = self._sum_of(name)
            yield
        self._n_pods = self.space.total(range(len(self._axes)))
        yield
        self._node_rules = self._on_any_node()
        self._prepared = True
        yield

    @property
    def _maxima(self) -> list[int]:
        return [axis.number for axis in self._axes] + [1] * len(self._rules.affinities)

    # ── nodes ──

    def _sum_of(self, name: str) -> NDArray[np.int64]:
        return self.space.total(range(len(self._axes)), [(requirements.needs or {}).get(name, 0) for requirements in self._requirements])

    def _free_amounts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Free amounts of the needed resources, `(n_names, n_nodes)`, and free places for pods `(n_nodes,)`."""
        snapshot = self._snapshot
        free = np.zeros((len(self._names), snapshot.n_nodes), np.int64)
        for number, name in enumerate(self._names):
            place = snapshot.resource_index(name)
            if place is not None:
                free[number] = snapshot.allocatable[place] - snapshot.requested[place]
        return free, snapshot.allowed_pods - snapshot.pod_count

    def _on_any_node(self) -> CountSet:
        """The vectors without two members on one node whose host ports collide."""
        mask = np.ones(self.space.n_vectors, np.bool_)
        for left, right in itertools.combinations_with_replacement(range(len(self._axes)), 2):
            mine, other = self._axes[left].pod, self._axes[right].pod
            if self._requirements[left].ports and self._requirements[right].ports and any(taken_ports(mine, (other,))):
                mask &= self._not_together(left, right)
        return self.space.of(mask)

    def _not_together(self, left: int, right: int) -> Mask:
        if left == right:
            return np.asarray(self.space.coordinate(left) <= 1)
        found: Mask = (self.space.coordinate(left) == 0) | (self.space.coordinate(right) == 0)
        return found

    def _nodes(self, packing: Packing, rows: NDArray[np.intp]) -> list[Part]:
        """The nodes of some rows."""
        is_open = np.stack([requirements.open_rows[rows] for requirements in self._requirements])
        numbers = np.vstack((self._free[:, rows], self._slots[rows]))
        found = []
        for row, may, (*free, slots) in zip(rows.tolist(), is_open.T.tolist(), numbers.T.tolist(), strict=True):
            found.append(packing.node(row, ("node", *may, *free, slots), partial(self._takes, may, free, slots)))
        return found

    def _takes(self, is_open: Sequence[bool], free: Sequence[int], slots: int) -> CountSet:
        """The vectors that fit a node."""
        space = self.space
        if all(requirements.needs is not None for requirements in self._requirements):
            mask = self._n_pods <= max(0, slots)
            for name, amount in zip(self._names, free, strict=True):
                mask &= self._sums[name] <= max(0, amount)
            found = space.of(mask)
        else:
            found = space.all
        for axis in range(len(space.maxima)):
            if axis >= len(is_open) or not is_open[axis]:
                found &= space.upto(axis, 0)
        return found & self._node_rules

    # ── domains ──

    def solve(self, rows: NDArray[np.intp], max_work: float) -> Generator[None, None, Solution]:
        """The combinations that some nodes take; `TooMuchWork` if that exceeds the budget."""
        keys = self._levels(rows)
        kept = [each for each in self._rules.spreads if each.key in keys]
        found = Solution(self.space, len(self._axes))
        left = max_work
        ranges = [self._least_counts(each, rows) for each in kept]
        combinations = list(itertools.islice(itertools.product(*ranges), MAX_LOWEST_COUNTS + 1))
        if len(combinations) > MAX_LOWEST_COUNTS:
            self.exact = False
            kept, combinations = [], [()]
        for least in combinations:
            packing = self._packings.get(least)
            if packing is None:
                packing = self._packings[least] = Packing(self.space, self._rules.open_axes)
            packing.begin(left)
            root = yield from self._part(packing, keys, 0, rows, dict(zip((id(each) for each in kept), least, strict=True)))
            left -= packing.work
            found.add(packing, root)
            if found.whole:
                break
        return found

    def shares(self, solution: Solution) -> dict[tuple[int, int], int]:
        """The number of members of each class (by number) on each row, for the most members that can be placed."""
        left = [{number: len(self._classes[number].members) for number in self._numbers(axis)} for axis in self._axes]
        found: dict[tuple[int, int], int] = {}
        for row, vector in solution.rows().items():
            for of_class, amount in zip(left, vector, strict=True):
                due = amount
                for number, there in of_class.items():
                    taken = min(due, there)
                    if taken:
                        found[number, row] = taken
                        of_class[number] -= taken
                        due -= taken
        return found

    def _numbers(self, axis: ClassAxis) -> list[int]:
        return [number for number, each in enumerate(self._classes) if any(each is other for other in axis.classes)]

    def _levels(self, rows: NDArray[np.intp]) -> list[str]:
        """The topology keys of the rules, from the widest to the narrowest; those that do not lie within each other are left out."""
        levels: list[str] = []
        for key in sorted(self._domain_ids, key=lambda key: (len(np.unique(self._ids(key, rows))), key)):
            if levels:
                wide, narrow = self._ids(levels[-1], rows), self._ids(key, rows)
                pairs = np.unique(np.stack((narrow, wide)), axis=1)
                if len(np.unique(pairs[0])) != pairs.shape[1]:
                    self.exact = False
                    continue
            levels.append(key)
        return levels

    def _ids(self, key: str, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """The domain of each row; a row without the key is its own domain, with a number below 0."""
        ids = self._domain_ids[key][rows]
        return np.where(ids < 0, -1 - rows, ids)

    def _part(
        self, packing: Packing, keys: Sequence[str], level: int, rows: NDArray[np.intp], least: Mapping[int, int]
    ) -> Generator[None, None, Part]:
        if level == len(keys):
            parts = []
            for start in range(0, len(rows), NODES_PER_STEP):
                parts += self._nodes(packing, rows[start : start + NODES_PER_STEP])
                if len(parts) == start + NODES_PER_STEP:
                    yield
            return parts[0] if len(parts) == 1 else (yield from packing.domain(parts, None))
        key = keys[level]
        parts = []
        for inside in _split(rows, self._ids(key, rows)):
            part = yield from self._part(packing, keys, level + 1, inside, least)
            domain = int(self._domain_ids[key][inside[0]])
            rule = self._rule(key, domain, least) if domain >= 0 else None
            parts.append(part if rule is None else (yield from packing.domain([part], rule)))
        return parts[0] if len(parts) == 1 else (yield from packing.domain(parts, None))

    def _rule(self, key: str, domain: int, least: Mapping[int, int]) -> Rule | None:
        """The rule of a domain; None if it takes everything."""
        parts: list[tuple[Hashable, Any]] = []
        pairs = self._rules.apart.get(key)
        if pairs:
            parts.append((("apart", key), partial(self._apart_set, tuple(sorted(pairs)))))
        for number, each in enumerate(self._rules.spreads):
            if each.key == key and id(each) in least:
                low, high = least[id(each)] - each.counts[domain], least[id(each)] + each.max_skew - each.counts[domain]
                low = 0 if each.fixed or not each.eligible[domain] else max(0, int(low))
                parts.append((("even", number, low, int(high)), partial(self._even_set, each.classes, low, int(high))))
        affinities = [affinity for affinity in self._rules.affinities if affinity.key == key and not affinity.there[domain]]
        if not parts and not affinities:
            return None
        allowed = self.space.all
        for name, make in parts:
            allowed &= self._kept_set(name, make)
        steps = [self._count_sets(affinity) for affinity in affinities]
        name = (tuple(name for name, _ in parts), tuple(affinity.axis for affinity in affinities))
        return Rule(name, partial(_apply, self.space, allowed, steps), partial(_undone, self.space, steps))

    def _kept_set(self, name: Hashable, make: Callable[[], Mask]) -> CountSet:
        kept = self._kept_sets.get(name)
        if kept is None:
            kept = self._kept_sets[name] = self.space.of(make())
        return kept

    def _apart_set(self, pairs: Sequence[tuple[int, int]]) -> Mask:
        found: Mask = np.logical_and.reduce([self._not_together(left, right) for left, right in pairs])
        return found

    def _even_set(self, classes: Sequence[int], low: int, high: int) -> Mask:
        number = self.space.total(classes)
        found: Mask = (number >= low) & ((number <= high) | (number == 0))
        return found

    def _count_sets(self, affinity: RequiredAffinity) -> tuple[CountSet, CountSet, int]:
        """The vectors that need no start, those that may use one, and the start axis."""
        fulfilled = self._kept_set(
            ("fulfilled", affinity.axis), lambda: (self.space.total(affinity.requiring) == 0) | (self.space.total(affinity.granting) > 0)
        )
        started = self._kept_set(("started", affinity.axis), lambda: self.space.total(affinity.starting) > 0) if affinity.starting else 0
        return fulfilled, started, affinity.axis

    def _least_counts(self, each: SpreadConstraint, rows: NDArray[np.intp]) -> Sequence[int]:
        """The lowest counts that the eligible domains may have in the end, the highest first."""
        if each.fixed:
            return [0]
        if not each.eligible.any():
            return [1 << 30]
        ids = self._domain_ids[each.key][rows]
        inside = np.zeros(len(each.counts), np.bool_)
        inside[ids[ids >= 0]] = True
        counts = each.counts[each.eligible]
        n_members = sum(self._axes[number].number for number in each.classes)
        lowest = int(counts.min())
        outside = each.counts[each.eligible & ~inside]
        highest = int((counts.sum() + n_members) // len(counts))
        if len(outside):
            highest = min(highest, int(outside.min()))
        return range(max(lowest, highest), lowest - 1, -1)


def _split(rows: NDArray[np.intp], ids: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """The rows of each domain, the domain of the first row first: the numbers of domains differ between copies of a state."""
    _, first, place = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first[place], kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(first[place][order])) + 1)


def _apply(space: Space, allowed: CountSet, steps: Sequence[tuple[CountSet, CountSet, int]], found: CountSet) -> CountSet:
    found &= allowed
    for fulfilled, started, axis in steps:
        start = tuple(1 if number == axis else 0 for number in range(len(space.maxima)))
        found = (found & fulfilled) | space.shifted(found & (started | fulfilled), start)
    return found


def _undone(space: Space, steps: Sequence[tuple[CountSet, CountSet, int]], vector: Vector) -> list[Vector]:
    """The vectors from which `_apply` may have made a vector."""
    sources = [vector]
    for fulfilled, started, axis in reversed(steps):
        before = []
        for each in sources:
            if space.has(fulfilled, each):
                before.append(each)
            if each[axis]:
                source = tuple(value - 1 if number == axis else value for number, value in enumerate(each))
                if space.has(started | fulfilled, source):
                    before.append(source)
        sources = before
    return sources


class Solution:
    """The combinations of members that some nodes take, by count of each class."""

    def __init__(self, space: Space, n_classes: int) -> None:
        self._space = space
        self._n_classes = n_classes
        self._best: tuple[tuple[int, ...], Packing, Part, Vector] | None = None
        self.work = 0.0

    def add(self, packing: Packing, root: Part) -> None:
        """Add the solution for one choice of lowest counts."""
        self.work += packing.work
        found = packing.set_of(root)
        members = self._n_classes
        vectors = self._space.mask(found)
        if not vectors.any():
            return
        totals = np.where(vectors, self._space.total(range(members)), -1)
        n_placeable = int(totals.max())
        # Among vectors with equally many members, the one with most members of the first classes is best: these have the highest priority.
        candidates = self._space.vectors_at(np.flatnonzero(totals == n_placeable)[:1000])
        vector = max(candidates, key=lambda each: each[:members])
        key = (n_placeable, *vector[:members])
        if self._best is None or key > self._best[0]:
            self._best = key, packing, root, vector

    @property
    def n_placeable(self) -> int:
        """The maximum number of members that can be placed at once."""
        return 0 if self._best is None else self._best[0][0]

    @property
    def whole(self) -> bool:
        """True if all members are placed."""
        return self.n_placeable == sum(self._space.maxima[: self._n_classes])

    def rows(self) -> dict[int, Vector]:
        """The number of members of each class on each row, for the most members that can be placed."""
        if self._best is None:
            return {}
        _, packing, root, vector = self._best
        return {row: each[: self._n_classes] for row, each in packing.trace(root, vector).items()}
