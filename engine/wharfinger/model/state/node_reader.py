"""Reads values from each outdated node: all at once, or in steps between which other work is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot

READ_AT_ONCE: Final = 20
"""Nodes that are read in one step, which takes some milliseconds."""


class NodeReader(ABC):
    """The outdated nodes, and the row of each node; subclasses note which nodes are outdated, and read one."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._unread: dict[str, bool] = {}  # by name; the value is for the subclass

    @abstractmethod
    def _note(self, snapshot: Snapshot) -> None:
        """Add the nodes that have changed to the unread ones."""

    @abstractmethod
    def _read_next(self, snapshot: Snapshot) -> None:
        """Take an unread node, and read it if it exists."""

    def read_all(self, snapshot: Snapshot) -> None:
        """Read all nodes that are outdated."""
        self._note(snapshot)
        while self._unread:
            self._read_next(snapshot)

    def read_in_steps(self, snapshot: Callable[[], Snapshot]) -> Generator[None, None, bool]:
        """A generator of the steps of `read_all`, a node each; none for a few nodes. Returns True if there were more.

        `snapshot` returns the present cluster. Changes between the steps are left to `read_all`.
        """
        self._note(snapshot())
        if len(self._unread) <= READ_AT_ONCE:
            return False
        for _ in range(len(self._unread)):
            now = snapshot()
            self._note(now)
            if not self._unread:
                break
            self._read_next(now)
            yield
        return True

    def _arrange(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Set the rows to the order of these nodes; returns the former row of each, −1 for a new one, `(n_nodes,) intp`."""
        former, self._rows = self._rows, {name: row for row, name in enumerate(names)}
        return np.fromiter((former.get(name, -1) for name in names), np.intp, len(names))


def moved(column: NDArray[Any], rows: NDArray[np.intp], default: float) -> NDArray[Any]:
    """The column with the values of its former `rows`; `default` where that is −1."""
    there, found = rows >= 0, np.full(len(rows), default, column.dtype)
    found[there] = column[rows[there]]
    return found
