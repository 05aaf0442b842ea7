"""Topology domains: the groups of nodes that share a label value, numbered without gaps.

Zones, racks and host names are all labels. A term over domains keeps one number per domain and gathers it per node, so a domain
needs a small dense number and each domain the list of its rows.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wharfinger.model import columns, strings


class Topology:
    """The domains of one topology key.

    `revision` counts the changes of who belongs where; while it stays the same, so do ids, number of domains and members.
    """

    __slots__ = ("__weakref__", "_ids", "_members", "_numbers", "_rows", "_sizes", "_starts", "key", "revision")

    def __init__(self, key: str, rows: columns.Rows, codes: NDArray[np.int32]) -> None:
        self.key = key
        self.revision = 0
        self._rows = rows
        self._ids = rows.column(np.int32, strings.ABSENT)
        weakref.finalize(self, rows.drop, self._ids).atexit = False
        self._numbers: dict[int, int] = {}  # string code → domain, in order of domains
        self._sizes: list[int] = []
        self._members: NDArray[np.intp] | None = None
        self._starts: NDArray[np.intp] = np.zeros(1, dtype=np.intp)
        for row, code in enumerate(codes.tolist()):
            self._join(row, code)

    @property
    def ids(self) -> NDArray[np.int32]:
        """The domain of each node, (n_rows,) int32; -1 where the node lacks the key."""
        return self._ids.view

    @property
    def n_domains(self) -> int:
        """How many domains have at least one node."""
        return len(self._sizes)

    @property
    def codes(self) -> tuple[int, ...]:
        """The string code of each domain's label value, in order of domains."""
        return tuple(self._numbers)

    def domain_of(self, code: int) -> int:
        """The domain of a label value given by its string code, -1 if no node has it."""
        return self._numbers.get(code, strings.ABSENT)

    def renumber(self, renumbered: NDArray[np.int32]) -> None:
        """Follow a change of string codes: `renumbered[old]` is the new one."""
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
        """The smallest (or largest) number in each node's own domain, (n_rows,) float64; NaN where none is or it lacks the key."""
        ids = self._ids.view
        by_domain = np.full(self.n_domains + 1, np.nan)  # the last one is for nodes without the key
        (np.fmax if highest else np.fmin).at(by_domain, ids[ids >= 0], by_node[ids >= 0])
        found: NDArray[np.float64] = by_domain[ids]
        return found

    def _changed(self) -> None:
        self.revision += 1
        self._members = None

    def _join(self, row: int, code: int) -> None:
        if code == strings.ABSENT:
            self._ids.array[row] = strings.ABSENT
            return
        domain = self._numbers.get(code)
        if domain is None:
            domain = self._numbers[code] = len(self._sizes)
            self._sizes.append(0)
        self._ids.array[row] = domain
        self._sizes[domain] += 1

    def set_row(self, row: int, code: int) -> None:
        """Put a row (new, or with a changed label) into the domain of a label value."""
        old = int(self._ids.array[row])
        if old != self._numbers.get(code, strings.ABSENT) or (old == strings.ABSENT and code != strings.ABSENT):
            self._leave(row)
            self._join(row, code)
            self._changed()

    def added(self, row: int, code: int) -> None:
        """Count in a row that was just added."""
        self._join(row, code)
        self._changed()

    def removing(self, row: int) -> None:
        """Count out a row that is about to be removed."""
        self._leave(row)
        self._changed()

    def _leave(self, row: int) -> None:
        domain = int(self._ids.array[row])
        if domain == strings.ABSENT:
            return
        self._ids.array[row] = strings.ABSENT
        self._sizes[domain] -= 1
        if not self._sizes[domain]:
            self._close(domain)

    def _close(self, domain: int) -> None:
        """Drop an empty domain; the ones after it move up."""
        ids = self._ids.view
        self._ids.array[: len(ids)] -= ids > domain
        del self._sizes[domain]
        self._numbers = {code: number - (number > domain) for code, number in self._numbers.items() if number != domain}


MOST_KEYS: Final = 256


class Topologies:
    """The topology keys in use, each made when first asked for.

    A pod may name any key. The latest are kept, and those that somebody else holds; these are kept up to date for as long as they are held.
    """

    __slots__ = ("_by_key", "_labels", "_latest", "_rows")

    def __init__(self, rows: columns.Rows, labels: Callable[[str], NDArray[np.int32]]) -> None:
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
        if len(self._latest) > MOST_KEYS:
            self._latest.popitem(last=False)
        return topology

    @property
    def codes(self) -> list[int]:
        """The string codes of the label values of all domains."""
        return [code for topology in self._by_key.values() for code in topology.codes]

    def renumber(self, renumbered: NDArray[np.int32]) -> None:
        """Follow a change of string codes: `renumbered[old]` is the new one."""
        for topology in self._by_key.values():
            topology.renumber(renumbered)

    def added(self, row: int) -> None:
        """Count in a row that was just added."""
        for key, topology in self._by_key.items():
            topology.added(row, int(self._labels(key)[row]))

    def changed(self, row: int) -> None:
        """Follow a changed label of a row."""
        for key, topology in self._by_key.items():
            topology.set_row(row, int(self._labels(key)[row]))

    def removing(self, row: int) -> None:
        """Count out a row that is about to be removed."""
        for topology in self._by_key.values():
            topology.removing(row)
