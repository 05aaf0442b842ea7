"""An answer per topology domain, computed from counts of pods, and again only when these have changed.

After a placement one count of one selection has changed, and usually no answer has: the zone that got a pod is not full yet. A watch
detects that at little cost, and returns the nodes whose answer did change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.prepared import ALL, Rows, union_of

if TYPE_CHECKING:
    from wharfinger.model.columns.domains import Topology
    from wharfinger.model.columns.selection import Selection


class DomainWatch:
    """The result of `make` for a selection: an `answer` per domain, and a last one for nodes in no domain, `(n_domains + 1,)`.

    Without a topology the answers are per node, `(n_nodes,)`.
    """

    __slots__ = ("_make", "_topology", "_topology_seen", "_version", "answer", "selection")

    def __init__(self, selection: Selection, topology: Topology | None, make: Callable[[Selection], NDArray[Any]]) -> None:
        self.selection = selection
        self._topology = topology
        self._make = make
        self._version = selection.follow()
        self._topology_seen = 0 if topology is None else topology.revision
        self.answer = make(selection)

    def at(self, rows: Rows) -> NDArray[Any]:
        """The answers for some rows, `(n_rows,)`."""
        found: NDArray[Any] = self.answer[rows if self._topology is None else self._topology.ids[rows]]
        return found

    def domain_of(self, row: int) -> int:
        """The domain of a row, -1 for none."""
        return row if self._topology is None else int(self._topology.ids[row])

    def renew(self) -> list[NDArray[np.intp]] | None:
        """Follow the counts; returns the rows whose answer changed (an array per domain), or None if nodes have changed domains."""
        version = self.selection.follow()
        topology = self._topology
        if topology is not None and topology.revision != self._topology_seen:
            self._topology_seen, self._version, self.answer = topology.revision, version, self._make(self.selection)
            return None
        if version == self._version:
            return []
        before, self.answer, self._version = self.answer, self._make(self.selection), version
        differing = np.flatnonzero(before != self.answer)
        if topology is None:
            return [differing] if len(differing) else []
        return [topology.rows_of(domain) for domain in differing.tolist()]


def renew(watches: Iterable[DomainWatch], n_nodes: int) -> Rows | None:
    """Renew all watches; returns the rows whose answer changed, None for no rows."""
    found = [watch.renew() for watch in watches]
    if any(rows is None for rows in found):
        return ALL
    return union_of([rows for each in found if each is not None for rows in each], n_nodes)
