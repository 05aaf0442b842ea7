"""What the filters and scores are asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.cycle_state import CycleState

if TYPE_CHECKING:
    from wharfinger.model.pod import PodView
    from wharfinger.model.snapshot import Snapshot

NO_ROWS: NDArray[np.intp] = np.empty(0, np.intp)
NO_ROWS.setflags(write=False)
ALL = slice(None)


@dataclass(frozen=True, slots=True)
class Question:
    """A pod, the cluster it is to be placed in, and the state that the points of each plugin share."""

    cycle: CycleState
    pod: PodView
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened after revision `since`, in rows that have not moved.

    `node_rows` are those whose node object changed, `rows` those and the ones whose pods changed; both ascending.
    """

    since: int
    node_rows: NDArray[np.intp]
    rows: NDArray[np.intp]


def union(left: NDArray[np.intp], right: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows in either, ascending; cheap where one is empty or both are the same."""
    if right is left or not len(right):
        return left
    return right if not len(left) else np.union1d(left, right)
