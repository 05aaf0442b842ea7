"""Topology domains: the groups of nodes with an equal label value, numbered without gaps; and sums per domain.

Zones, racks and host names are all labels. A term over domains keeps one value per domain and gathers it per node, so each domain has a
small dense number and the list of its rows.
"""

from __future__ import annotations

import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.columns import arrays
from wharfinger.model.columns.arrays import read_only

Mask = NDArray[np.bool_]
MAX_KEYS: Final = 256  # topology keys kept without another reference
MAX_EXACT_SUM: Final = 2.0**52
"""Whole numbers whose magnitudes add up to this or less are added without rounding, in any order; so are two such sums."""


class Topology:
    """The domains of one topology key.

    `revision` grows with every change of a node's domain. While it stays the same, so do `ids`, `n_domains` and `rows_of`.
    """

    __slots__ = ("__weakref__", "_ids", "_members", "_numbers", "_rows", "_sizes", "_starts", "key", "revision")

    def __init__(self, key: str, rows: arrays.Rows, codes: NDArray[np.int32]) -> None:
        self.key = key
        self.revision = 0
        self._rows = rows
        self._ids = rows.column(np.int32, arrays.ABSENT)
        labelled = np.flatnonzero(codes != arrays.ABSENT)
        values, firsts, places, sizes = np.unique(codes[labelled], return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(firsts)  # domains are numbered by their first rows
        self._ids.array[labelled] = np.argsort(order)[places]
        self._numbers: dict[int, int] = {code: domain for domain, code in enumerate(values[order].tolist())}  # in order of domains
        self._sizes: list[int] = sizes[order].tolist()
        self._members: NDArray[np.intp] | None = None
        self._starts: NDArray[np.intp] = np.zeros(1, dtype=np.intp)

    @property
    def ids(self) -> NDArray[np.int32]:
        """The domain of each node, (n_rows,) int32; -1 where the node lacks the key."""
        return self._ids.view

    @property
    def n_domains(self) -> int:
        """The number of domains; each has at least one node."""
        return len(self._sizes)

    @property
    def codes(self) -> tuple[int, ...]:
        """The string code of each domain's label value, in order of domains."""
        return tuple(self._numbers)

    def domain_of(self, code: int) -> int:
        """The domain of a label value given by its string code, -1 if no node has it."""
        return self._numbers.get(code, arrays.ABSENT)

    def renumber(self, renumbered: NDArray[np.int32]) -> None:
        """Convert the string codes: `renumbered[old]` is the new code."""
        self._numbers = {int(renumbered[code]): domain for code, domain in self._numbers.items()}

    def rows_of(self, domain: int) -> NDArray[np.intp]:
        """The rows of one domain, ascending."""
        if self._members is None:
            ids = self._ids.view
            self._members = np.argsort(ids, kind="stable")
            self._members.setflags(write=False)
            self._starts = np.searchsorted(ids, np.arange(self.n_domains + 1), sorter=self._members).astype(np.intp)
        return self._members[self._starts[domain] : self._starts[domain + 1]]

    def extremes(self, by_node: NDArray[np.float64], *, highest: bool) -> NDArray[np.float64]:
        """The smallest (or largest) number in each node's own domain, (n_rows,) float64; NaN without numbers, or if it lacks the key."""
        ids = self._ids.view
        by_domain = np.full(self.n_domains + 1, np.nan)  # the last one is for nodes without the key
        (np.fmax if highest else np.fmin).at(by_domain, ids[ids >= 0], by_node[ids >= 0])
        found: NDArray[np.float64] = by_domain[ids]
        return found

    def _changed(self) -> None:
        self.revision += 1
        self._members = None

    def _join(self, row: int, code: int) -> None:
        if code == arrays.ABSENT:
            self._ids.array[row] = arrays.ABSENT
            return
        domain = self._numbers.get(code)
        if domain is None:
            domain = self._numbers[code] = len(self._sizes)
            self._sizes.append(0)
        self._ids.array[row] = domain
        self._sizes[domain] += 1

    def set_row(self, row: int, code: int) -> None:
        """Put a row, new or with a changed label, into the domain of a label value given by its string code."""
        old = int(self._ids.array[row])
        if old != self._numbers.get(code, arrays.ABSENT) or (old == arrays.ABSENT and code != arrays.ABSENT):
            self._leave(row)
            self._join(row, code)
            self._changed()

    def added(self, row: int, code: int) -> None:
        """Add a new row to the domain of a label value given by its string code."""
        self._join(row, code)
        self._changed()

    def removing(self, row: int) -> None:
        """Take out a row that is about to be removed."""
        self._leave(row)
        self._changed()

    def _leave(self, row: int) -> None:
        domain = int(self._ids.array[row])
        if domain == arrays.ABSENT:
            return
        self._ids.array[row] = arrays.ABSENT
        self._sizes[domain] -= 1
        if not self._sizes[domain]:
            self._close(domain)

    def _close(self, domain: int) -> None:
        """Drop an empty domain; the later ones get the next lower number."""
        ids = self._ids.view
        self._ids.array[: len(ids)] -= ids > domain
        del self._sizes[domain]
        self._numbers = {code: number - (number > domain) for code, number in self._numbers.items() if number != domain}


class Topologies:
    """The topologies of the keys in use, each created at its first use.

    A pod may name any key. The most recently used are kept, and those that have another reference; all of these are kept up to date.
    """

    __slots__ = ("_by_key", "_labels", "_latest", "_rows")

    def __init__(self, rows: arrays.Rows, labels: Callable[[str], NDArray[np.int32]]) -> None:
        self._rows = rows
        self._labels = labels
        self._by_key: weakref.WeakValueDictionary[str, Topology] = weakref.WeakValueDictionary()
        self._latest: OrderedDict[str, Topology] = OrderedDict()

    def of(self, key: str) -> Topology:
        """The domains of a label key."""
        topology = self._by_key.get(key)
        if topology is None:
            topology = self._by_key[key] = Topology(key, self._rows, self._labels(key))
        self._latest[key] = topology
        self._latest.move_to_end(key)
        if len(self._latest) > MAX_KEYS:
            self._latest.popitem(last=False)
        return topology

    @property
    def codes(self) -> list[int]:
        """The string codes of the label values of all domains."""
        return [code for topology in self._by_key.values() for code in topology.codes]

    def renumber(self, renumbered: NDArray[np.int32]) -> None:
        """Convert the string codes of all topologies: `renumbered[old]` is the new code."""
        for topology in self._by_key.values():
            topology.renumber(renumbered)

    def added(self, row: int) -> None:
        """Add a new row to its domain in every topology."""
        for key, topology in self._by_key.items():
            topology.added(row, int(self._labels(key)[row]))

    def changed(self, row: int) -> None:
        """Move a row whose labels changed to its domain in every topology."""
        for key, topology in self._by_key.items():
            topology.set_row(row, int(self._labels(key)[row]))

    def removing(self, row: int) -> None:
        """Take out a row that is about to be removed from every topology."""
        for topology in self._by_key.values():
            topology.removing(row)


class DomainCounts:
    """One number per domain of a topology key, over the nodes of a mask (all nodes without a mask).

    Valid for one `Topology.revision`; a selection creates a new one after nodes have changed domains.
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
        """True if these counts are valid for the current domains and this mask."""
        if self.revision != self.topology.revision:
            return False
        if mask is None or self.mask is None:
            return mask is self.mask
        return mask is self.mask or bool(np.array_equal(mask, self.mask))

    def add(self, row: int, amount: float) -> None:
        """Add an amount to the domain of one node."""
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
            found = len(present) > 0  # the index of an extreme takes NumPy a third of the time of its value
            self._extremes = (present.item(present.argmin()), present.item(present.argmax())) if found else (None, None)
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
    """The sum of the amounts in each domain, (n_domains,) float64; `integral`: whole numbers that add up exactly (see `magnitude`)."""
    return (_whole_sums if integral else _exact_sums)(ids, amounts, n_domains)


def exact_sum(numbers: Sequence[float]) -> float:
    """The sum, rounded once, so that it does not depend on the order; infinite beyond float64, NaN with infinities of both signs."""
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
    """The sum of the absolute values of whole numbers; infinite if one is not whole. Sums are exact if it is at most `MAX_EXACT_SUM`."""
    if not np.all(amounts == np.rint(amounts)):
        return math.inf
    with np.errstate(over="ignore"):
        return float(np.abs(amounts).sum())


def _whole_sums(ids: NDArray[np.int32], amounts: NDArray[np.float64], n_domains: int) -> NDArray[np.float64]:
    return np.bincount(ids, weights=amounts, minlength=n_domains).astype(np.float64, copy=False)


def _exact_sums(ids: NDArray[np.int32], amounts: NDArray[np.float64], n_domains: int) -> NDArray[np.float64]:
    """Sums of any numbers per domain, each rounded once, so that they do not depend on the order of rows."""
    order = np.argsort(ids, kind="stable")
    numbers: list[float] = amounts[order].tolist()
    ends = np.searchsorted(ids[order], np.arange(n_domains + 1)).tolist()
    return np.array([exact_sum(numbers[start:end]) for start, end in pairwise(ends)], dtype=np.float64)
