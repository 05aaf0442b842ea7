"""What filters and scores are asked about: a pod, the cluster, which rows changed, and the state that the points of a plugin share.

Kubernetes keeps a `CycleState` per scheduling cycle. Here the cycles of pods of one template share their work, so the state lives as long
as the kept result of that template: whatever PreFilter or PreScore writes may be read by every later call for that template, until the
point runs again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.verdict import Rows

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class CycleState(dict[Hashable, Any]):
    """A dict from a plugin's own key (its name, or a tuple that starts with it) to whatever it needs later.

    Policies are named by whoever writes them, so their keys are the policies and rules themselves: no name of one can ever equal a key of
    a plugin.
    """

    __slots__ = ()


NO_ROWS: NDArray[np.intp] = np.empty(0, np.intp)
NO_ROWS.setflags(write=False)
ALL = slice(None)


class Question(NamedTuple):  # a tuple, because one is made for every decision and making it must cost next to nothing
    """A pod, the cluster it is to be placed in, and the state that the points of each plugin share."""

    cycle: CycleState
    pod: PodView
    snapshot: Snapshot


class Changes(NamedTuple):
    """What happened after revision `since`, in rows that have not moved.

    `node_rows` are those whose node object changed, `rows` those and the ones whose pods changed; both ascending. Where no node object and
    the pods of just one row changed, which is what every placement does, `row` is that row and there are short cuts; otherwise it is -1.
    """

    since: int
    node_rows: NDArray[np.intp]
    rows: NDArray[np.intp]
    row: int

    def only(self, rows: Rows) -> bool:
        """Whether one row changed and `rows` has no other."""
        if self.row < 0 or isinstance(rows, slice):
            return False
        return not len(rows) or (len(rows) == 1 and rows.item() == self.row)


def changes(since: int, node_rows: NDArray[np.intp], usage_rows: NDArray[np.intp]) -> Changes:
    """The changes, from the rows whose node object and the rows whose pods changed."""
    if len(node_rows):
        return Changes(since, node_rows, union(node_rows, usage_rows), -1)
    return Changes(since, node_rows, usage_rows, usage_rows.item() if len(usage_rows) == 1 else -1)


def union(left: NDArray[np.intp], right: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows in either, ascending; cheap where one is empty or both are the same."""
    if right is left or not len(right):
        return left
    return right if not len(left) else distinct(np.concatenate((left, right)))


def distinct(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows ascending and each once, sorted in place; several times faster than `np.unique` for the few hundred rows of a change."""
    rows.sort()
    first = np.empty(len(rows), np.bool_)
    first[:1] = True
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    return rows[first]


def union_of(rows: Sequence[NDArray[np.intp]], n_nodes: int) -> Rows | None:
    """The rows of all lists, ascending; None if there are none, everything if they are a good part of all nodes anyway."""
    if not rows:
        return None
    if sum(map(len, rows)) > n_nodes // 2:
        return ALL
    return rows[0] if len(rows) == 1 else distinct(np.concatenate(rows))
