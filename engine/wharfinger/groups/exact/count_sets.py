"""Sets of count vectors: how many members of each class some nodes take together.

A vector has one coordinate per class of members, from 0 to the number of its members. A set is one integer with a bit per vector. To place
the vector `v` on a node in addition to everything in a set is then one shift, and the union of two sets is one `|`: some microseconds for a
hundred thousand vectors. So all combinations of what the nodes take can be followed, exactly, instead of tried one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = tuple[int, ...]
CountSet = int
ZERO_VECTOR: CountSet = 1
"""The set of the zero vector alone: no member placed."""


class Space:
    """All vectors with coordinates 0 … `most[axis]`."""

    def __init__(self, most: Sequence[int]) -> None:
        self.most = tuple(most)
        strides = [1]
        for each in most:
            strides.append(strides[-1] * (each + 1))
        self.n_vectors = strides.pop()
        self._strides = strides
        self._coordinates: dict[int, NDArray[np.int64]] = {}
        self._upto: dict[tuple[int, int], CountSet] = {}
        self.all: CountSet = (1 << self.n_vectors) - 1

    @staticmethod
    def size(most: Sequence[int]) -> int:
        """The number of vectors of the space with these coordinates."""
        return math.prod(each + 1 for each in most)

    def coordinate(self, axis: int) -> NDArray[np.int64]:
        """The coordinate of every vector on an axis, `(n_vectors,)`."""
        kept = self._coordinates.get(axis)
        if kept is None:
            values = np.repeat(np.arange(self.most[axis] + 1), self._strides[axis])
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

    def vector(self, index: int) -> Vector:
        """The vector of a bit."""
        return tuple(index // stride % (most + 1) for stride, most in zip(self._strides, self.most, strict=True))

    def has(self, found: CountSet, vector: Vector) -> bool:
        """True if a set contains a vector."""
        return bool(found >> self.index(vector) & 1)

    def vectors(self, found: CountSet) -> list[Vector]:
        """The vectors of a set."""
        return [self.vector(int(index)) for index in np.flatnonzero(self.mask(found))]

    def upto(self, axis: int, limit: int) -> CountSet:
        """The set of all vectors with a coordinate of at most `limit` on an axis."""
        if limit >= self.most[axis]:
            return self.all
        kept = self._upto.get((axis, limit))
        if kept is None:
            kept = self._upto[axis, limit] = self.of(self.coordinate(axis) <= limit) if limit >= 0 else 0
        return kept

    def shifted(self, found: CountSet, vector: Vector) -> CountSet:
        """The sums of a vector and those of a set; sums beyond the space are left out."""
        by = 0
        for axis, each in enumerate(vector):
            if each:
                found &= self.upto(axis, self.most[axis] - each)
                by += each * self._strides[axis]
        return found << by

    def closed(self, found: CountSet, axes: Iterable[int]) -> CountSet:
        """The set with all vectors that are lower than one of it on some axes, and equal on the others."""
        for axis in axes:
            step = 1
            while step <= self.most[axis]:
                found |= (found & ~self.upto(axis, step - 1)) >> step * self._strides[axis]
                step *= 2
        return found

    def highest(self, found: CountSet, axes: Iterable[int]) -> list[Vector]:
        """The vectors of a set without those from which a step up on one of the axes stays in the set."""
        kept = found
        for axis in axes:
            kept &= ~((found & ~self.upto(axis, 0)) >> self._strides[axis])
        return self.vectors(kept)
