"""The topology domains of nodes, for filters and scores that depend on domains alone: classes of rows, and an answer per domain.

The rows of one class are in the same domains, so one of them is evaluated for all. `DomainAnswers` are computed
from counts of pods, and again only when these have changed. After a placement one count of one selection has changed, and usually no answer
has: the zone that got a pod is not full yet. `renew` detects that at little cost, and returns the nodes whose answer did change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.prepared import ALL, Rows, union_of

if TYPE_CHECKING:
    from wharfinger.model.columns.domains import Topology
    from wharfinger.model.columns.selection import Selection
    from wharfinger.model.state.snapshot import Snapshot

MAX_CLASSES = 256
"""The maximum number of classes of rows with one stored answer per class; with more, answers are stored per row."""


class RowClasses(NamedTuple):
    """Rows by the domains of some topology keys: `ids` (n_nodes,) intp the class of each row, `rows` (n_classes,) intp one row of each."""

    topologies: tuple[tuple[Topology, int], ...]
    ids: NDArray[np.intp]
    rows: NDArray[np.intp]

    @property
    def is_valid(self) -> bool:
        """True if all nodes are still in the same domains."""
        return all(topology.revision == seen for topology, seen in self.topologies)

    @property
    def keys(self) -> tuple[str, ...]:
        """The topology keys, sorted."""
        return tuple(topology.key for topology, _ in self.topologies)

    def cover(self, domains: tuple[str, ...] | None) -> bool:
        """True if rows of one class are in the same domains of all these topology keys; False for None."""
        return domains is not None and set(domains) <= set(self.keys)


def row_classes(keys: tuple[str, ...], snapshot: Snapshot) -> RowClasses | None:
    """The classes of some topology keys; None if there are more than `MAX_CLASSES`, or more than a quarter of the number of nodes."""
    topologies = [snapshot.topology(key) for key in keys]  # held, so that they are kept up to date
    limit = min(MAX_CLASSES, max(2, snapshot.n_nodes // 4))
    codes: NDArray[np.intp] = np.zeros(snapshot.n_nodes, np.intp)
    n_codes = 1
    for topology in topologies:
        codes = codes * (topology.n_domains + 1) + (topology.ids + 1)
        n_codes *= topology.n_domains + 1
        if n_codes > limit * 4:
            return None
    used_codes = np.flatnonzero(np.bincount(codes, minlength=n_codes))
    if len(used_codes) > limit:
        return None
    numbers = np.zeros(n_codes, np.intp)
    numbers[used_codes] = np.arange(len(used_codes))
    ids = numbers[codes]
    rows = np.empty(len(used_codes), np.intp)
    rows[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    return RowClasses(tuple((topology, topology.revision) for topology in topologies), ids, rows)


class DomainAnswers:
    """The result of `make` for a selection, kept up to date: `values` has one per domain, and a last one for no domain, `(n_domains + 1,)`.

    Without a topology the values are per node, `(n_nodes,)`.
    """

    __slots__ = ("_make", "_topology", "_topology_seen", "_version", "selection", "values")

    def __init__(self, selection: Selection, topology: Topology | None, make: Callable[[Selection], NDArray[Any]]) -> None:
        self.selection = selection
        self._topology = topology
        self._make = make
        self._version = selection.follow()
        self._topology_seen = 0 if topology is None else topology.revision
        self.values = make(selection)

    def at(self, rows: Rows) -> NDArray[Any]:
        """The answers for some rows, `(n_rows,)`."""
        found: NDArray[Any] = self.values[rows if self._topology is None else self._topology.ids[rows]]
        return found

    def domain_of(self, row: int) -> int:
        """The domain of a row, -1 for none."""
        return row if self._topology is None else int(self._topology.ids[row])

    def renew(self) -> list[NDArray[np.intp]] | None:
        """Follow the counts; returns the rows whose answer changed (an array per domain), or None if nodes have changed domains."""
        version = self.selection.follow()
        topology = self._topology
        if topology is not None and topology.revision != self._topology_seen:
            self._topology_seen, self._version, self.values = topology.revision, version, self._make(self.selection)
            return None
        if version == self._version:
            return []
        before, self.values, self._version = self.values, self._make(self.selection), version
        differing = np.flatnonzero(before != self.values)
        if topology is None:
            return [differing] if len(differing) else []
        return [topology.rows_of(domain) for domain in differing.tolist()]


def renew_all(several: Iterable[DomainAnswers], n_nodes: int) -> Rows | None:
    """Bring all answers up to date; returns the rows whose answer changed, None for no rows."""
    found = [answers.renew() for answers in several]
    if any(rows is None for rows in found):
        return ALL
    return union_of([rows for each in found if each is not None for rows in each], n_nodes)
