"""Rows by the topology domains of their nodes, for terms that depend on domains alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from wharfinger.model.columns.domains import Topology
    from wharfinger.model.state.snapshot import Snapshot

MAX_CLASSES = 256
"""The most classes for which cells are kept; with more classes, terms are summed row by row."""


class Classes(NamedTuple):
    """Rows by the domains of some topology keys: `ids` (n_nodes,) intp the class of each row, `rows` (n_classes,) intp one row of each."""

    topologies: tuple[tuple[Topology, int], ...]
    ids: NDArray[np.intp]
    rows: NDArray[np.intp]

    @property
    def stands(self) -> bool:
        """True if all nodes are still in the same domains."""
        return all(topology.revision == seen for topology, seen in self.topologies)

    @property
    def keys(self) -> tuple[str, ...]:
        """The topology keys, sorted."""
        return tuple(topology.key for topology, _ in self.topologies)

    def cover(self, domains: tuple[str, ...] | None) -> bool:
        """True if rows of one class are in the same domains of all these topology keys; False for None."""
        return domains is not None and set(domains) <= set(self.keys)


def classes(keys: tuple[str, ...], snapshot: Snapshot) -> Classes | None:
    """The classes of some topology keys; None if there are more than `MAX_CLASSES`, or more than a quarter of the number of nodes."""
    topologies = [snapshot.topology(key) for key in keys]  # held, so that they are kept up to date
    most = min(MAX_CLASSES, max(2, snapshot.n_nodes // 4))
    codes: NDArray[np.intp] = np.zeros(snapshot.n_nodes, np.intp)
    n_codes = 1
    for topology in topologies:
        codes = codes * (topology.n_domains + 1) + (topology.ids + 1)
        n_codes *= topology.n_domains + 1
        if n_codes > most * 4:
            return None
    there = np.flatnonzero(np.bincount(codes, minlength=n_codes))
    if len(there) > most:
        return None
    numbers = np.zeros(n_codes, np.intp)
    numbers[there] = np.arange(len(there))
    ids = numbers[codes]
    rows = np.empty(len(there), np.intp)
    rows[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    return Classes(tuple((topology, topology.revision) for topology in topologies), ids, rows)
