"""What the filters of Kubernetes say about all members of a group together, as rules on nodes and domains (`packing`).

Read from the chain's own prepared filters: free resources, host ports, verdicts that depend on node objects alone, pod affinity and
anti-affinity between members and to placed pods, and hard topology spread over members. A filter that is not known here (rules of policies,
limits of volumes, plugins of others), and a combination of rules that cannot be said by domains, is left out; `exact` is False then. What
is left out can only forbid more. So a model that has no solution is a proof always, and a solution has to be confirmed by the chain.

Rules on domains hold for the members that a domain has in the end. An order in which the chain agrees to each of them exists: pods that
others want first, and for spread the emptiest domain first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import InvalidObject
from wharfinger.framework.plugins.pods import affinity_terms
from wharfinger.framework.plugins.pods.affinity_counts import Fences
from wharfinger.framework.plugins.pods.affinity_terms import Terms
from wharfinger.framework.plugins.pods.spread_counts import Constraint, Eligible, HardSpread
from wharfinger.framework.plugins.resources.node_resources_fit import Fit
from wharfinger.groups import member_classes
from wharfinger.groups.count_sets import CountSet, Space, Vector
from wharfinger.groups.packing import Packing, Part, Rule
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.objects.pod_view import taken_ports

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.framework.evaluation.filter_slot import FilterSlot
    from wharfinger.framework.verdict import Mask
    from wharfinger.groups.member_classes import MemberClass
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

MOST_VECTORS = 1 << 17
MOST_MERGED = 1 << 15
MOST_LEAST_COUNTS = 64  # combinations of the lowest final counts of spread constraints that are tried
KNOWN = frozenset({"NodeResourcesFit", "NodePorts", "InterPodAffinity", "PodTopologySpread"})


@dataclass(frozen=True, slots=True)
class _Wish:
    """Required affinity that some classes have: a domain of `key` with one of `wishing` must have a pod that their terms match.

    Such a pod is there (`there`, by domain), of `granting` classes, or, if there is none anywhere, the first of `starting` on its axis.
    """

    key: str
    wishing: tuple[int, ...]
    granting: tuple[int, ...]
    starting: tuple[int, ...]
    there: Mask
    axis: int


@dataclass(frozen=True, slots=True)
class _Evenness:
    """A hard spread constraint of the classes that it counts: `counts` and `eligible` by domain; `fixed`: the lowest count counts as 0."""

    key: str
    classes: tuple[int, ...]
    max_skew: int
    counts: NDArray[np.float64]
    eligible: Mask
    fixed: bool


@dataclass(slots=True)
class _Reading:
    """One class: its member's needs by resource, the nodes open to it, and its terms."""

    needs: Mapping[str, int] | None = None
    open_rows: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    terms: Terms = affinity_terms.NO_TERMS
    fences: Fences | None = None
    spread: HardSpread | None = None
    ports: bool = False
    affinity: bool = False

    @property
    def has_rules(self) -> bool:
        """True if the class wishes to be near or apart from others, or evenly spread."""
        return self.terms != affinity_terms.NO_TERMS or self.spread is not None


@dataclass(slots=True)
class _Entry:
    """An axis of the model: one class, or several merged ones, of which any member may stand for any other."""

    classes: list[MemberClass]
    reading: _Reading
    free: bool = False  # no rules of members are about its members, and they have none

    @property
    def alone(self) -> bool:
        """True if the classes are not merged."""
        return len(self.classes) == 1

    @property
    def pod(self) -> PodView:
        """A member of the first class."""
        return self.classes[0].pod

    @property
    def number(self) -> int:
        """The number of members."""
        return sum(len(each.members) for each in self.classes)

    def any(self, matches: Callable[[PodView], bool]) -> bool:
        """True if a member of some class matches."""
        return any(matches(each.pod) for each in self.classes)


class Merging(Enum):
    """Which classes are one axis of a model.

    With LEAST, a merged class needs the least that any of them needs and has no wishes: if there is no solution, the group has no place.
    With MOST it needs the most, and only classes without rules between members are merged: a solution is a place for the group.
    """

    EQUALS = "equals"
    LEAST = "least"
    MOST = "most"


class GroupModel:
    """The model of one group on one snapshot; `exact` is False if a filter may forbid more than the model does.

    Classes without rules between members that need the same and may go to the same nodes are one axis of the model. With `merging`, others
    that are much alike are merged too, until the space of their counts is small enough.
    """

    def __init__(self, decider: Decider, snapshot: Snapshot, classes: Sequence[MemberClass], merging: Merging = Merging.EQUALS) -> None:
        self.exact = merging is Merging.EQUALS
        self._snapshot = snapshot
        self._classes = list(classes)
        self._entries = [_Entry([each], self._read(decider, each)) for each in classes]
        for entry in self._entries:
            entry.free = not entry.reading.has_rules and not entry.pod.host_ports and not self._is_meant(entry.pod)
        self._merge_equals()
        if merging is not Merging.EQUALS:
            self._merge(merging)
        self._readings = [entry.reading for entry in self._entries]
        self._apart: dict[str, set[tuple[int, int]]] = {}
        self._wishes: list[_Wish] = []
        self._evenness: list[_Evenness] = []
        self._packings: dict[tuple[int, ...], Packing] = {}  # by lowest counts; shared by all domains
        self._kept_sets: dict[Hashable, CountSet] = {}
        self._read_terms()
        self._read_spread()
        keys = {*self._apart, *(wish.key for wish in self._wishes), *(each.key for each in self._evenness)}
        self._domain_ids = {key: snapshot.topology(key).ids.astype(np.int64) for key in sorted(keys)}
        self._names = sorted({name for reading in self._readings for name in (reading.needs or {})})
        self._free, self._slots = self._free_amounts()
        self._open_axes = frozenset(self._unclosed())
        self._sums: dict[str, NDArray[np.int64]] = {}
        self.fits_in_space = Space.size(self._most) <= MOST_VECTORS
        if self.fits_in_space:
            self.space = Space(self._most)

    def prepare(self) -> Generator[None, None, None]:
        """Compute what is the same for all nodes, in steps; before the first `solve`, of a model that fits in its space."""
        if not self.fits_in_space:
            return
        for axis in range(len(self.space.most)):
            self.space.coordinate(axis)
            yield
        for name in self._names:
            self._sums[name] = self._sum_of(name)
            yield
        self._n_pods = self.space.total(range(len(self._entries)))
        yield
        self._node_rules = self._on_any_node()
        yield

    @property
    def _most(self) -> list[int]:
        return [entry.number for entry in self._entries] + [1] * len(self._wishes)

    def _is_meant(self, pod: PodView) -> bool:
        """True if terms or constraints of some class are about a member."""
        for entry in self._entries:
            reading = entry.reading
            terms = (*reading.terms.required, *reading.terms.required_anti)
            constraints = () if reading.spread is None else reading.spread.constraints
            if any(term.matches(pod, {}) for term in terms) or any(each.counts(pod, entry.pod.namespace) for each in constraints):
                return True
        return False

    def _merge_equals(self) -> None:
        """Merge classes of which any member may stand for any other."""
        merged: dict[Hashable, _Entry] = {}
        for entry in self._entries:
            needs = None if entry.reading.needs is None else tuple(sorted(entry.reading.needs.items()))
            key: Hashable = (needs, entry.reading.open_rows.tobytes()) if entry.free else id(entry)
            if key in merged:
                merged[key].classes += entry.classes
            else:
                merged[key] = entry
        self._entries = list(merged.values())

    def _merge(self, merging: Merging) -> None:
        """Merge neighbours in the order of needs, those with the smallest difference first."""
        least = merging is Merging.LEAST
        self._entries.sort(key=lambda entry: (not entry.free, entry.reading.has_rules, _weight(entry.reading)))
        while Space.size([entry.number for entry in self._entries]) > MOST_MERGED:
            pairs = [number for number in range(len(self._entries) - 1) if least or self._entries[number + 1].free]
            if not pairs:
                return
            first = min(pairs, key=lambda number: _loss(self._entries[number], self._entries[number + 1]))
            left, right = self._entries[first], self._entries.pop(first + 1)
            reading = (_least_of if least else _most_of)(left.reading, right.reading)
            self._entries[first] = _Entry(left.classes + right.classes, reading, left.free and right.free)

    # ── what the filters say ──

    def _read(self, decider: Decider, each: MemberClass) -> _Reading:
        snapshot = self._snapshot
        filtering = decider.evaluation(snapshot, each.pod).filtering
        reading = _Reading(open_rows=member_classes.open_rows(filtering, snapshot.n_nodes))
        if filtering.refusal is not None:
            self.exact = False
            return reading
        for slot in filtering.slots:
            self._read_slot(slot, reading, each)
        if filtering.crowded:
            self.exact = False
        return reading

    def _read_slot(self, slot: FilterSlot, reading: _Reading, each: MemberClass) -> None:
        name = slot.plugin.name
        if name == "NodePorts":
            reading.ports = True
        elif name == "InterPodAffinity":
            try:
                reading.terms = affinity_terms.terms_of(each.pod).resolved(self._snapshot.objects)
            except InvalidObject:
                self.exact = False
            reading.affinity = True
        if slot.skipped:
            return
        answer = slot.answer
        if isinstance(answer, Fit):
            reading.needs = answer.needs
        elif isinstance(answer, Fences):
            reading.fences = answer
            reading.open_rows &= ~answer.repelled(self._snapshot)
        elif isinstance(answer, HardSpread):
            reading.spread = answer
        elif slot.volatility is not Volatility.STATIC and name not in KNOWN:
            self.exact = False

    def _read_terms(self) -> None:
        alone = [number for number, entry in enumerate(self._entries) if entry.alone]
        for left, right in itertools.product(alone, repeat=2):
            mine, other = self._readings[left], self._entries[right].pod
            if self._readings[right].affinity and mine.affinity:
                for term in mine.terms.required_anti:
                    if term.matches(other, {}):
                        self._apart.setdefault(term.topology_key, set()).update({(left, right), (right, left)})
        by_terms: dict[Hashable, list[int]] = {}
        for number, reading in enumerate(self._readings):
            if reading.terms.required:
                by_terms.setdefault(reading.terms.required, []).append(number)
        for wishing in by_terms.values():
            self._wishes.append(self._wish(wishing, len(self._entries) + len(self._wishes)))

    def _wish(self, wishing: Sequence[int], axis: int) -> _Wish:
        snapshot, reading = self._snapshot, self._readings[wishing[0]]
        terms = reading.terms.required
        keys = sorted({term.topology_key for term in terms})
        key = max(keys, key=lambda each: snapshot.topology(each).n_domains)  # the narrowest: what is there is in the wider ones too
        granting = [n for n, entry in enumerate(self._entries) if entry.any(partial(affinity_terms.matches_all, terms))]
        nowhere = np.zeros(snapshot.topology(key).n_domains + 1, np.bool_)
        first = reading.fences is None or not reading.fences.has_wanted
        for each in keys:
            present = snapshot.topology(each).ids >= 0
            for number in wishing:
                self._readings[number].open_rows &= present
        return _Wish(
            key=key,
            wishing=tuple(wishing),
            granting=tuple(n for n in granting if n not in wishing),
            starting=tuple(n for n in granting if n in wishing) if first else (),
            there=nowhere if reading.fences is None else reading.fences.wanted_in(key).copy(),
            axis=axis,
        )

    def _read_spread(self) -> None:
        done: set[Hashable] = set()
        for number, reading in enumerate(self._readings):
            if reading.spread is None:
                continue
            for constraint, among in zip(reading.spread.constraints, reading.spread.eligible, strict=True):
                identity = (constraint, among.key, self._entries[number].pod.namespace)
                reading.open_rows &= self._snapshot.topology(constraint.topology_key).ids >= 0
                if identity not in done:
                    done.add(identity)
                    self._read_constraint(self._entries[number].pod, constraint, among)

    def _read_constraint(self, pod: PodView, constraint: Constraint, among: Eligible) -> None:
        """Keep a constraint if exactly the classes that have it are counted by it, and only on eligible nodes."""
        counts_for = partial(constraint.counts, namespace=pod.namespace)
        counted = [n for n, entry in enumerate(self._entries) if entry.any(counts_for)]
        having = [n for n, entry in enumerate(self._entries) if entry.pod.namespace == pod.namespace and self._has(n, constraint, among)]
        present = self._snapshot.topology(constraint.topology_key).ids >= 0
        mask = among.mask
        inside = mask is None or all(not (self._readings[n].open_rows & present & ~mask).any() for n in counted)
        if counted != having or not inside:
            self.exact = False
            return
        selection = constraint.selection(self._snapshot, pod.namespace)
        counts = selection.domains(constraint.topology_key, mask_key=among.key, mask=mask)
        eligible = counts.nodes > 0 if counts.mask is not None else np.ones(len(counts.counts), np.bool_)
        fixed = int(np.count_nonzero(eligible)) < constraint.min_domains
        self._evenness.append(
            _Evenness(constraint.topology_key, tuple(counted), constraint.max_skew, counts.counts.copy(), eligible, fixed)
        )

    def _has(self, number: int, constraint: Constraint, among: Eligible) -> bool:
        spread = self._readings[number].spread
        if spread is None:
            return False
        return any(c == constraint and e.key == among.key for c, e in zip(spread.constraints, spread.eligible, strict=True))

    # ── nodes ──

    def _sum_of(self, name: str) -> NDArray[np.int64]:
        return self.space.total(range(len(self._entries)), [(reading.needs or {}).get(name, 0) for reading in self._readings])

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
        for left, right in itertools.combinations_with_replacement(range(len(self._entries)), 2):
            mine, other = self._entries[left].pod, self._entries[right].pod
            if self._readings[left].ports and self._readings[right].ports and any(taken_ports(mine, (other,))):
                mask &= self._not_together(left, right)
        return self.space.of(mask)

    def _not_together(self, left: int, right: int) -> Mask:
        if left == right:
            return np.asarray(self.space.coordinate(left) <= 1)
        found: Mask = (self.space.coordinate(left) == 0) | (self.space.coordinate(right) == 0)
        return found

    def _node(self, packing: Packing, row: int) -> Part:
        is_open = tuple(bool(reading.open_rows[row]) for reading in self._readings)
        free = tuple(self._free[:, row].tolist())
        slots = int(self._slots[row])
        return packing.node(row, ("node", is_open, free, slots), lambda: self._takes(is_open, free, slots))

    def _takes(self, is_open: Sequence[bool], free: Sequence[int], slots: int) -> CountSet:
        """The vectors that fit a node."""
        space = self.space
        if all(reading.needs is not None for reading in self._readings):
            mask = self._n_pods <= max(0, slots)
            for name, amount in zip(self._names, free, strict=True):
                mask &= (self._sums[name] <= amount) | (self._sums[name] == 0)
            found = space.of(mask)
        else:
            found = space.all
        for axis in range(len(space.most)):
            if axis >= len(is_open) or not is_open[axis]:
                found &= space.upto(axis, 0)
        return found & self._node_rules

    # ── domains ──

    def _unclosed(self) -> Iterable[int]:
        for wish in self._wishes:
            yield wish.axis
            yield from wish.granting
            if set(wish.wishing) - set(wish.starting):
                yield from wish.starting
        for each in self._evenness:
            yield from each.classes

    def solve(self, rows: NDArray[np.intp], most_work: float) -> Generator[None, None, Solution]:
        """The combinations that some nodes take; `TooMuchWork` if that exceeds the budget."""
        keys = self._levels(rows)
        kept = [each for each in self._evenness if each.key in keys]
        found = Solution(self.space, len(self._entries))
        left = most_work
        ranges = [self._least_counts(each, rows) for each in kept]
        combinations = list(itertools.islice(itertools.product(*ranges), MOST_LEAST_COUNTS + 1))
        if len(combinations) > MOST_LEAST_COUNTS:
            self.exact = False
            kept, combinations = [], [()]
        for least in combinations:
            packing = self._packings.get(least)
            if packing is None:
                packing = self._packings[least] = Packing(self.space, self._open_axes)
            packing.begin(left)
            root = yield from self._part(packing, keys, 0, rows, dict(zip((id(each) for each in kept), least, strict=True)))
            left -= packing.work
            found.add(packing, root)
            if found.whole:
                break
        return found

    def shares(self, solution: Solution) -> dict[tuple[int, int], int]:
        """How many members of each class (by number) go to each row, for the most members that can be placed."""
        left = [{number: len(self._classes[number].members) for number in self._numbers(entry)} for entry in self._entries]
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

    def _numbers(self, entry: _Entry) -> list[int]:
        return [number for number, each in enumerate(self._classes) if any(each is other for other in entry.classes)]

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
        """The domain of each row; a row without the key is a domain of its own, numbered below 0."""
        ids = self._domain_ids[key][rows]
        return np.where(ids < 0, -1 - rows, ids)

    def _part(
        self, packing: Packing, keys: Sequence[str], level: int, rows: NDArray[np.intp], least: Mapping[int, int]
    ) -> Generator[None, None, Part]:
        if level == len(keys):
            parts = []
            for number, row in enumerate(rows.tolist()):
                parts.append(self._node(packing, row))
                if number % 32 == 31:
                    yield
            return parts[0] if len(parts) == 1 else (yield from packing.domain(parts, None))
        key = keys[level]
        ids = self._ids(key, rows)
        order = np.argsort(ids, kind="stable")
        starts = np.flatnonzero(np.diff(ids[order], prepend=np.iinfo(np.int64).min))
        parts = []
        for inside in np.split(rows[order], starts[1:]):
            part = yield from self._part(packing, keys, level + 1, inside, least)
            domain = int(self._domain_ids[key][inside[0]])
            rule = self._rule(key, domain, least) if domain >= 0 else None
            parts.append(part if rule is None else (yield from packing.domain([part], rule)))
        return parts[0] if len(parts) == 1 else (yield from packing.domain(parts, None))

    def _rule(self, key: str, domain: int, least: Mapping[int, int]) -> Rule | None:
        """The rule of a domain; None if it takes everything."""
        parts: list[tuple[Hashable, Any]] = []
        pairs = self._apart.get(key)
        if pairs:
            parts.append((("apart", key), partial(self._apart_set, tuple(sorted(pairs)))))
        for number, each in enumerate(self._evenness):
            if each.key == key and id(each) in least:
                low, high = least[id(each)] - each.counts[domain], least[id(each)] + each.max_skew - each.counts[domain]
                low = 0 if each.fixed or not each.eligible[domain] else max(0, int(low))
                parts.append((("even", number, low, int(high)), partial(self._even_set, each.classes, low, int(high))))
        wishes = [wish for wish in self._wishes if wish.key == key and not wish.there[domain]]
        if not parts and not wishes:
            return None
        allowed = self.space.all
        for name, make in parts:
            allowed &= self._kept_set(name, make)
        steps = [self._wish_sets(wish) for wish in wishes]
        name = (tuple(name for name, _ in parts), tuple(wish.axis for wish in wishes))
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

    def _wish_sets(self, wish: _Wish) -> tuple[CountSet, CountSet, int]:
        """The vectors that need no start, those that may use one, and the start axis."""
        fulfilled = self._kept_set(
            ("fulfilled", wish.axis), lambda: (self.space.total(wish.wishing) == 0) | (self.space.total(wish.granting) > 0)
        )
        started = self._kept_set(("started", wish.axis), lambda: self.space.total(wish.starting) > 0) if wish.starting else 0
        return fulfilled, started, wish.axis

    def _least_counts(self, each: _Evenness, rows: NDArray[np.intp]) -> Sequence[int]:
        """The lowest counts that the eligible domains may have in the end, the highest first."""
        if each.fixed:
            return [0]
        if not each.eligible.any():
            return [1 << 30]
        ids = self._domain_ids[each.key][rows]
        inside = np.zeros(len(each.counts), np.bool_)
        inside[ids[ids >= 0]] = True
        counts = each.counts[each.eligible]
        n_members = sum(self._entries[number].number for number in each.classes)
        lowest = int(counts.min())
        outside = each.counts[each.eligible & ~inside]
        highest = int((counts.sum() + n_members) // len(counts))
        if len(outside):
            highest = min(highest, int(outside.min()))
        return range(max(lowest, highest), lowest - 1, -1)


def _weight(reading: _Reading) -> float:
    """A number for how much a member needs, to sort by; 0 if that is not known."""
    return sum(math.log1p(amount) for amount in (reading.needs or {}).values())


def _loss(left: _Entry, right: _Entry) -> float:
    """A number for how much is lost if two classes are merged."""
    mine, other = left.reading.needs or {}, right.reading.needs or {}
    lost = 0.0
    for name in mine.keys() | other.keys():
        low, high = sorted((mine.get(name, 0), other.get(name, 0)))
        lost += (high - low) / high * (left.number if mine.get(name, 0) == high else right.number) if high else 0.0
    return lost + sum(entry.number for entry in (left, right) if entry.reading.has_rules)


def _least_of(left: _Reading, right: _Reading) -> _Reading:
    """What is known of a member of either class."""
    needs = None
    if left.needs is not None and right.needs is not None:
        needs = {name: min(left.needs.get(name, 0), right.needs.get(name, 0)) for name in left.needs.keys() & right.needs.keys()}
    return _Reading(needs=needs, open_rows=left.open_rows | right.open_rows)


def _most_of(left: _Reading, right: _Reading) -> _Reading:
    """What is enough for a member of either class."""
    needs = None
    if left.needs is not None and right.needs is not None:
        needs = {name: max(left.needs.get(name, 0), right.needs.get(name, 0)) for name in left.needs.keys() | right.needs.keys()}
    return _Reading(needs=needs, open_rows=left.open_rows & right.open_rows)


def _apply(space: Space, allowed: CountSet, steps: Sequence[tuple[CountSet, CountSet, int]], found: CountSet) -> CountSet:
    found &= allowed
    for fulfilled, started, axis in steps:
        start = tuple(1 if number == axis else 0 for number in range(len(space.most)))
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
        self._found: list[tuple[Packing, Part]] = []
        self._best: tuple[tuple[int, ...], Packing, Part, Vector] | None = None
        self.work = 0.0

    def add(self, packing: Packing, root: Part) -> None:
        """Take in what was found for one choice of lowest counts."""
        self.work += packing.work
        found = packing.set_of(root)
        members = self._n_classes
        vectors = self._space.mask(found)
        if not vectors.any():
            return
        totals = np.where(vectors, self._space.total(range(members)), -1)
        most = int(totals.max())
        # of vectors with equally many members, the one with most of the first classes, which are those of the highest priority
        candidates = [self._space.vector(int(index)) for index in np.flatnonzero(totals == most)[:1000]]
        vector = max(candidates, key=lambda each: each[:members])
        key = (most, *vector[:members])
        if self._best is None or key > self._best[0]:
            self._best = key, packing, root, vector

    @property
    def most(self) -> int:
        """The most members that are placed at once."""
        return 0 if self._best is None else self._best[0][0]

    @property
    def whole(self) -> bool:
        """True if all members are placed."""
        return self.most == sum(self._space.most[: self._n_classes])

    def rows(self) -> dict[int, Vector]:
        """How many members of each class go to each row, for the most members that can be placed."""
        if self._best is None:
            return {}
        _, packing, root, vector = self._best
        return {row: each[: self._n_classes] for row, each in packing.trace(root, vector).items()}
