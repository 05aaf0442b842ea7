"""Which rows changed since when, so that a result can be brought up to date by evaluating just those.

Every row remembers the revision of its last change. Because most questions are "since a moment ago", the latest changes are kept in
a short list too, which answers without looking at every row.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from wharfinger.model import columns

RECENT: Final = 256  # changes looked through one by one before all rows are compared instead
NONE: Final[NDArray[np.intp]] = np.empty(0, dtype=np.intp)
NONE.setflags(write=False)


class RowChanges:
    """The last change of every row, by revision of the state."""

    __slots__ = ("_column", "_floor", "_last", "_recent")

    def __init__(self, rows: columns.Rows) -> None:
        self._column = rows.column(np.int64, 0)
        self._recent: list[tuple[int, int]] = []
        self._floor = 0  # `_recent` holds every change after this revision
        self._last = 0

    def record(self, row: int, revision: int) -> None:
        """Remember that a row changed in this revision."""
        self._column.array[row] = revision
        self._last = revision
        recent = self._recent
        recent.append((revision, row))
        if len(recent) > 4 * RECENT:
            self._floor = recent[-RECENT][0]
            del recent[:-RECENT]

    def since(self, revision: int) -> NDArray[np.intp]:
        """The rows that changed after a revision, ascending. Row numbers must not have moved since then."""
        if revision >= self._last:
            return NONE
        if revision >= self._floor:
            changed: set[int] = set()
            for steps, (at, row) in enumerate(reversed(self._recent)):
                if at <= revision:
                    return np.array(sorted(changed), dtype=np.intp)
                if steps > RECENT:
                    break
                changed.add(row)
            else:
                return np.array(sorted(changed), dtype=np.intp)
        return np.flatnonzero(self._column.view > revision)
