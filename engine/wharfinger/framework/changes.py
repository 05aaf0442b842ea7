"""What changed since a revision: rows of nodes, with operations on sets of rows, and objects that are neither nodes nor pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.verdict import Rows

if TYPE_CHECKING:
    from wharfinger.model import objects
    from wharfinger.model.state.snapshot import Snapshot

NO_ROWS: NDArray[np.intp] = np.empty(0, np.intp)
NO_ROWS.setflags(write=False)
ALL = slice(None)


class Changes(NamedTuple):
    """The rows that changed after the last update of a kept result. Rows have not been added, moved or removed.

    `node_rows` are the rows whose node object changed; `rows` are these and the rows whose pods changed. Both are `(n,) intp`, ascending.
    `row` is the changed row if the pods of one row changed and no node object did, as after each placement; otherwise it is -1. Shorter
    code paths exist for that one row.
    """

    node_rows: NDArray[np.intp]
    rows: NDArray[np.intp]
    row: int

    def only(self, rows: Rows) -> bool:
        """True if exactly one row changed (see `row`) and `rows` contains no other row."""
        if self.row < 0 or isinstance(rows, slice):
            return False
        return not len(rows) or (len(rows) == 1 and rows.item() == self.row)


def changes(node_rows: NDArray[np.intp], usage_rows: NDArray[np.intp]) -> Changes:
    """The changes, given the rows whose node object changed and the rows whose pods changed."""
    if len(node_rows):
        return Changes(node_rows, union(node_rows, usage_rows), -1)
    return Changes(node_rows, usage_rows, usage_rows.item() if len(usage_rows) == 1 else -1)


def union(left: NDArray[np.intp], right: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows in either, ascending; cheap where one is empty or has one row, or both are the same."""
    if right is left or not len(right):
        return left
    if len(left) <= 1:
        return right if not len(left) else _with(right, left)
    return _with(left, right) if len(right) == 1 else distinct(np.concatenate((left, right)))


def _with(rows: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.intp]:
    """Some rows and one other: after a placement, thousands of a domain that is full now and the row of the pod, which need no sorting."""
    row = other.item()
    at = int(rows.searchsorted(row))
    if at < len(rows) and rows.item(at) == row:
        return rows
    return np.concatenate((rows[:at], other, rows[at:]))


def distinct(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows ascending and each once, sorted in place; several times faster than `np.unique` for the few hundred rows of a change."""
    rows.sort()
    first = np.empty(len(rows), np.bool_)
    first[:1] = True
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    return rows[first]


def union_of(rows: Sequence[NDArray[np.intp]], n_nodes: int) -> Rows | None:
    """The rows of all lists, ascending and each once; None without lists, `ALL` if they hold more than `n_nodes / 2` rows."""
    if not rows:
        return None
    if sum(map(len, rows)) > n_nodes // 2:
        return ALL
    return rows[0] if len(rows) == 1 else distinct(np.concatenate(rows))


class ObjectWatch:
    """The objects of some kinds, neither nodes nor pods, as they are in a snapshot: Services, claims."""

    __slots__ = ("_kinds", "_revision", "_seen")

    def __init__(self, snapshot: Snapshot, *kinds: type[objects.AnyObject]) -> None:
        self._kinds = kinds
        self._seen = snapshot.objects.revision
        self._revision = snapshot.objects.revision_of(*kinds)

    def stands(self, snapshot: Snapshot) -> bool:
        """True if none of them has changed until a later snapshot."""
        store = snapshot.objects
        if store.revision != self._seen:
            if store.revision_of(*self._kinds) != self._revision:
                return False
            self._seen = store.revision
        return True
