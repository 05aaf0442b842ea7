"""The exact set of members that nodes can take together: every combination, by rules on nodes and on topology domains.

A combination is a vector with one coordinate per class of members, from 0 to the number of its members. A set of vectors is one integer
with a bit per vector. To place the vector `v` on a node in addition to everything in a set is then one shift, and the union of two sets is
one `|`: some microseconds for a hundred thousand vectors. So all combinations are followed at the same time.

Nodes are the leaves of a tree, domains its inner parts. From the leaves upward, the sets of the parts are added, and each domain's rules
strike out the combinations that it does not take. Parts that are alike are computed once. The root has the set of all combinations that can
be placed; if it has too few members in every vector, that is a proof. One vector is traced back to the nodes.

A set is *closed* on an axis if fewer members of that class are always possible too. Rules that need a member of another class there, or a
least number of members, break that; on closed axes only the highest vectors must be added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

WORD = 20_000
"""Bits of a set that are shifted in about a microsecond: the unit of work."""
Vector = tuple[int, ...]
CountSet = int
ZERO_VECTOR: CountSet = 1
"""The set of the zero vector alone: no member placed."""


class TooMuchWork(Exception):
    """The work exceeds the budget."""


class Space:
    """All vectors with coordinates 0 … `maxima[axis]`."""

    def __init__(self, maxima: Sequence[int]) -> None:
        self.maxima = tuple(maxima)
        strides = [1]
        for each in maxima:
            strides.append(strides[-1] * (each + 1))
        self.n_vectors = strides.pop()
        self._strides = strides
        self._coordinates: dict[int, NDArray[np.int64]] = {}
        self._upto: dict[tuple[int, int], CountSet] = {}
        self._above: dict[tuple[int, int], CountSet] = {}
        self.all: CountSet = (1 << self.n_vectors) - 1

    @staticmethod
    def size(maxima: Sequence[int]) -> int:
        """The number of vectors of the space with these coordinates."""
        return math.prod(each + 1 for each in maxima)

    def coordinate(self, axis: int) -> NDArray[np.int64]:
        """The coordinate of every vector on an axis, `(n_vectors,)`."""
        kept = self._coordinates.get(axis)
        if kept is None:
            values = np.repeat(np.arange(self.maxima[axis] + 1), self._strides[axis])
            kept = self._coordinates[axis] = np.tile(values, self.n_vectors // len(values))
        return kept

    def total(self, axes: Iterable[int], factors: Sequence[int] | None = None) -> NDArray[np.int64]:
        """The sum of the coordinates of every vector on some axes, `(n_vectors,)`; each times its factor if they are given."""
        found = np.zeros(self.n_vectors, np.int64)
        for number, axis in enumerate(axes):
            found += self.coordinate(axis) * (1 if factors is None else factors[number])
        return found

    def of(self, mask: NDArray[np.bool_]) -> CountSet:
        """The set of the vectors of a mask `(n_vectors,)`."""
        return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")

    def mask(self, found: CountSet) -> NDArray[np.bool_]:
        """The mask `(n_vectors,)` of a set."""
        raw = np.frombuffer(found.to_bytes((self.n_vectors + 7) // 8, "little"), np.uint8)
        return np.unpackbits(raw, count=self.n_vectors, bitorder="little").astype(np.bool_)

    def index(self, vector: Vector) -> int:
        """The number of a vector: its bit."""
        return sum(each * stride for each, stride in zip(vector, self._strides, strict=True))

    def has(self, found: CountSet, vector: Vector) -> bool:
        """True if a set contains a vector."""
        return bool(found >> self.index(vector) & 1)

    def vectors(self, found: CountSet) -> list[Vector]:
        """The vectors of a set, in the order of their bits."""
        return self.vectors_at(np.flatnonzero(self.mask(found)))

    def vectors_at(self, bits: NDArray[np.intp]) -> list[Vector]:
        """The vectors of some bits `(n,)`."""
        coordinates = np.unravel_index(bits, [each + 1 for each in self.maxima], order="F")
        return list(zip(*(each.tolist() for each in coordinates), strict=True))

    def upto(self, axis: int, limit: int) -> CountSet:
        """The set of all vectors with a coordinate of at most `limit` on an axis."""
        if limit >= self.maxima[axis]:
            return self.all
        kept = self._upto.get((axis, limit))
        if kept is None:
            kept = self._upto[axis, limit] = self.of(self.coordinate(axis) <= limit) if limit >= 0 else 0
        return kept

    def above(self, axis: int, limit: int) -> CountSet:
        """The set of all vectors with a coordinate above `limit` on an axis."""
        kept = self._above.get((axis, limit))
        if kept is None:
            kept = self._above[axis, limit] = self.all & ~self.upto(axis, limit)
        return kept

    def shifted(self, found: CountSet, vector: Vector) -> CountSet:
        """The sums of a vector and those of a set; sums beyond the space are left out."""
        return next(self.sums(found, (vector,)))

    def sums(self, found: CountSet, vectors: Iterable[Vector]) -> Iterator[CountSet]:
        """The sums of each vector with those of a set, without sums beyond the space.

        Quick for vectors in the order of their bits, as neighbours have the last coordinates in common.
        """
        n_axes = len(self.maxima)
        within, by = [found] * (n_axes + 1), [0] * (n_axes + 1)  # what the coordinates from an axis on can be added to, and their bits
        before: Vector = (-1,) * n_axes
        for vector in vectors:
            first = n_axes - 1
            while first > 0 and vector[first] == before[first]:
                first -= 1
            for axis in range(first, -1, -1):
                each = vector[axis]
                within[axis] = within[axis + 1] & self.upto(axis, self.maxima[axis] - each) if each else within[axis + 1]
                by[axis] = by[axis + 1] + each * self._strides[axis]
            before = vector
            yield within[0] << by[0]

    def closed(self, found: CountSet, axes: Iterable[int]) -> CountSet:
        """The set with all vectors that are lower than one of it on some axes, and equal on the others."""
        for axis in axes:
            step = 1
            while step <= self.maxima[axis]:
                found |= (found & self.above(axis, step - 1)) >> step * self._strides[axis]
                step *= 2
        return found

    def highest(self, found: CountSet, axes: Iterable[int]) -> list[Vector]:
        """The vectors of a set without those from which a step up on one of the axes stays in the set."""
        kept = found
        for axis in axes:
            kept ^= kept & ((found & self.above(axis, 0)) >> self._strides[axis])
        return self.vectors(kept)


class Rule(Struct, frozen=True):
    """The effect of a domain on the vectors of its nodes: `allowed` stay; those of `starting` stay with one more on a start axis.

    Rules of equal `key` are the same.
    """

    key: Hashable
    apply: Callable[[CountSet], CountSet]
    undone: Callable[[Vector], Sequence[Vector]]


class Part(Struct):
    """A node (`row` ≥ 0 with its `takes`), or a domain with its parts. Parts of one `kind` have equal sets. `open`: axes not closed."""

    kind: int
    row: int = -1
    parts: list[Part] = field(default_factory=list)


class _Kind(Struct):
    """The set of a kind of parts; `before` has the sets of the first 0, 1, 2 … parts added, `children` their kinds."""

    found: CountSet
    rule: Rule | None = None
    children: tuple[int, ...] = ()
    before: list[CountSet] = field(default_factory=list)
    highest: list[Vector] | None = None


class Packing:
    """The kinds of parts of one space, and the work that was spent; `open_axes` are those on which sets are not closed."""

    def __init__(self, space: Space, open_axes: frozenset[int] = frozenset()) -> None:
        self.space = space
        self.work = 0.0
        self._max_work = math.inf
        self._closed = tuple(axis for axis in range(len(space.maxima)) if axis not in open_axes)
        self._kinds: list[_Kind] = []
        self._known: dict[Hashable, int] = {}
        self._full = space.index(space.maxima)

    def begin(self, max_work: float) -> None:
        """Count the work from here on, and raise `TooMuchWork` above `max_work`."""
        self.work, self._max_work = 0.0, max_work

    def node(self, row: int, key: Hashable, takes: Callable[[], CountSet]) -> Part:
        """A node; `takes` makes its set, closed on all axes, once for all nodes of one key."""
        kind = self._known.get(key)
        if kind is None:
            kind = self._known[key] = len(self._kinds)
            self._kinds.append(_Kind(takes()))
        return Part(kind, row)

    def domain(self, parts: list[Part], rule: Rule | None) -> Generator[None, None, Part]:
        """A domain of some parts."""
        parts = sorted(parts, key=lambda part: part.kind)
        children = tuple(part.kind for part in parts)
        key = (children, None if rule is None else rule.key)
        kind = self._known.get(key)
        if kind is None:
            made = _Kind(ZERO_VECTOR, rule, children)
            for child in children:
                made.before.append(made.found)
                made.found = yield from self._sum(made.found, self._kinds[child])
            if rule is not None:
                made.found = rule.apply(made.found)
            kind = self._known[key] = len(self._kinds)
            self._kinds.append(made)
        return Part(kind, parts=parts)

    def set_of(self, part: Part) -> CountSet:
        """The combinations that a part takes."""
        return self._kinds[part.kind].found

    def _highest(self, kind: _Kind) -> list[Vector]:
        if kind.highest is None:
            kind.highest = self.space.highest(kind.found, self._closed)
        return kind.highest

    def _sum(self, found: CountSet, kind: _Kind) -> Generator[None, None, CountSet]:
        """The sums of the vectors of two sets."""
        if kind.found & 1 and found >> self._full & 1 and len(self._closed) == len(self.space.maxima):
            return found  # everything is placed already
        total = 0
        cost = 1 + self.space.n_vectors / WORD
        spent = 0.0
        for sums in self.space.sums(found, self._highest(kind)):
            total |= sums
            spent += cost
            if spent > 1_000:
                self._spend(spent)
                spent = 0.0
                yield
        self._spend(spent + cost * 10)
        yield
        return self.space.closed(total, self._closed)

    def _spend(self, work: float) -> None:
        self.work += work
        if self.work > self._max_work:
            raise TooMuchWork

    def trace(self, part: Part, vector: Vector) -> dict[int, Vector]:
        """The vector of each row by which a part takes a vector of its set."""
        if part.row >= 0:
            return {part.row: vector} if any(vector) else {}
        kind = self._kinds[part.kind]
        sources = [vector] if kind.rule is None else kind.rule.undone(vector)
        total = kind.before[-1] if kind.before else ZERO_VECTOR
        found: dict[int, Vector] = {}
        for source in sources:
            split = self._split(kind, len(kind.children) - 1, source, total)
            if split is not None:
                for child, share in zip(part.parts, split, strict=True):
                    found |= self.trace(child, share)
                return found
        raise AssertionError("a vector of the set has a source")

    def _split(self, kind: _Kind, last: int, target: Vector, total: CountSet) -> list[Vector] | None:  # noqa: ARG002
        """The shares of the children, the first ones up to `last`; None if the target is not among their sums."""
        shares: list[Vector] = []
        closed = set(self._closed)
        for number in range(last, -1, -1):
            before = kind.before[number]
            for highest in self._highest(self._kinds[kind.children[number]]):
                share = tuple(min(h, t) if axis in closed else h for axis, (h, t) in enumerate(zip(highest, target, strict=True)))
                rest = tuple(t - s for t, s in zip(target, share, strict=True))
                if min(rest) >= 0 and self.space.has(before, rest):
                    shares.append(share)
                    target = rest
                    break
            else:
                return None
        return None if any(target) else shares[::-1]
