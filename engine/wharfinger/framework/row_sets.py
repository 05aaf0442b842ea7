"""Sets of rows: which nodes have to be looked at again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.question import ALL, distinct
from wharfinger.framework.verdict import Rows


def union_of(rows: Sequence[NDArray[np.intp]], n_nodes: int) -> Rows | None:
    """The rows of all lists, ascending; None if there are none, everything if they are a good part of all nodes anyway."""
    if not rows:
        return None
    if sum(map(len, rows)) > n_nodes // 2:
        return ALL
    return rows[0] if len(rows) == 1 else distinct(np.concatenate(rows))
