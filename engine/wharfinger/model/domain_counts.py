"""What a selection of pods adds up to in each topology domain, kept up to date and gathered per node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.columns import read_only
from wharfinger.model.topology import Topology

Mask = NDArray[np.bool_]


class DomainCounts:
    """One number per domain of a topology key, over the nodes of a mask (all nodes if there is none).

    Holds for one `Topology.revision`; a selection makes a new one when nodes have changed domains.
    """

    __slots__ = ("_behind", "_counts", "_extremes", "_gathered", "_ids", "counts", "mask", "nodes", "revision", "topology")

    def __init__(self, topology: Topology, by_node: NDArray[np.float64], mask: Mask | None, *, integral: bool) -> None:
        self.topology = topology
        self.revision = topology.revision
        self.mask = mask
        self._ids = ids = topology.ids
        counted = ids >= 0 if mask is None else (ids >= 0) & mask
        self._counts = summed(ids[counted], by_node[counted], topology.n_domains, integral=integral)
        self.counts: NDArray[np.float64] = read_only(self._counts)
        self.nodes: NDArray[np.int64] = np.bincount(ids[counted], minlength=topology.n_domains)
        self.nodes.setflags(write=False)
        self._extremes: tuple[float | None, float | None] | None = None
        self._gathered: NDArray[np.float64] | None = None
        self._behind: set[int] = set()

    def fits(self, mask: Mask | None) -> bool:
        """Whether these are still the counts of the current domains over that mask."""
        if self.revision != self.topology.revision:
            return False
        if mask is None or self.mask is None:
            return mask is self.mask
        return mask is self.mask or bool(np.array_equal(mask, self.mask))

    def add(self, row: int, amount: float) -> None:
        """Follow a change of one node's number."""
        if self.revision != self.topology.revision or (self.mask is not None and not self.mask[row]):
            return
        domain = int(self._ids[row])
        if domain >= 0:
            self._counts[domain] += amount
            self._extremes = None
            self._behind.add(domain)

    def lowest(self) -> float | None:
        """The smallest count of a domain that has a node in the mask; None if there is no such domain."""
        return self._range()[0]

    def highest(self) -> float | None:
        """The largest count of a domain that has a node in the mask; None if there is no such domain."""
        return self._range()[1]

    def _range(self) -> tuple[float | None, float | None]:
        if self._extremes is None:
            present = self._counts if self.mask is None else self._counts[self.nodes > 0]
            self._extremes = (float(present.min()), float(present.max())) if len(present) else (None, None)
        return self._extremes

    def gathered(self) -> NDArray[np.float64]:
        """The count of each node's own domain, (n_nodes,) float64 read-only; 0 where the node lacks the key."""
        if self._gathered is None or len(self._behind) > 1 + len(self._counts) // 4:
            self._gathered = np.append(self._counts, 0.0)[self._ids]  # id -1 reads the appended zero
        else:
            for domain in self._behind:
                self._gathered[self.topology.rows_of(domain)] = self._counts[domain]
        self._behind.clear()
        return read_only(self._gathered)


def summed(ids: NDArray[np.int32], amounts: NDArray[np.float64], n_domains: int, *, integral: bool) -> NDArray[np.float64]:
    """What the amounts add up to in each domain, (n_domains,) float64; `integral` says that they add exactly (`magnitude`)."""
    return (_whole_sums if integral else _exact_sums)(ids, amounts, n_domains)


MOST_EXACT: Final = 2.0**52
"""Whole numbers whose magnitudes add up to no more than this are added without rounding, in whatever order, also twice of them."""


def exact_sum(numbers: Sequence[float]) -> float:
    """The sum, rounded once, so that the order does not show; infinite beyond float64, NaN where infinities of both signs occur."""
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):  # a partial sum beyond float64, or infinities of both signs
        infinite = [number for number in numbers if math.isinf(number)]
        if infinite:
            return infinite[0] if len(set(infinite)) == 1 else math.nan
        exact = sum(map(Fraction, numbers), Fraction(0))
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf


def magnitude(amounts: NDArray[np.float64]) -> float:
    """What whole numbers add up to without their signs, infinite where one of them is not whole; sums are exact up to `MOST_EXACT`."""
    if not np.all(amounts == np.rint(amounts)):
        return math.inf
    with np.errstate(over="ignore"):
        return float(np.abs(amounts).sum())


def _whole_sums(ids: NDArray[np.int32], amounts: NDArray[np.float64], n_domains: int) -> NDArray[np.float64]:
    return np.bincount(ids, weights=amounts, minlength=n_domains).astype(np.float64, copy=False)


def _exact_sums(ids: NDArray[np.int32], amounts: NDArray[np.float64], n_domains: int) -> NDArray[np.float64]:
    """Sums of numbers that are not whole, rounded once, so that the order of rows does not show."""
    order = np.argsort(ids, kind="stable")
    numbers: list[float] = amounts[order].tolist()
    ends = np.searchsorted(ids[order], np.arange(n_domains + 1)).tolist()
    return np.array([exact_sum(numbers[start:end]) for start, end in pairwise(ends)], dtype=np.float64)
