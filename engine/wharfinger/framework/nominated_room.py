"""The room that is being made for nominated pods, as far as it keeps another pod out.

A node for which preemption makes room has to fit the pod together with its nominees of equal or higher priority, besides fitting it as it
is. Few nodes are nominated to; what was found for them is kept until something on them changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.question import NO_ROWS, Question, distinct
from wharfinger.framework.trial import Answered, Trial
from wharfinger.framework.verdict import Mask, Reason


class NominatedRoom:
    """The nodes that cannot take the pod beside their nominees: `crowded` gives the reasons by row, `mask` is `(n_nodes,) bool`."""

    __slots__ = ("_own", "crowded", "mask")

    def __init__(self) -> None:
        self.crowded: dict[int, tuple[Reason, ...]] = {}
        self.mask: Mask = np.empty(0, np.bool_)
        self._own = -1  # the row for whose room the pod itself is the nominee

    def reset(self, n_nodes: int) -> None:
        """No node is crowded."""
        self.crowded = {}
        self.mask = np.zeros(n_nodes, np.bool_)
        self._own = -1

    def update(self, slots: Sequence[Answered], asked: Question, worth: Mask | None, changed: NDArray[np.intp] | None) -> NDArray[np.intp]:
        """Look again at nominated nodes among those that changed (None: at all); the rows that became crowded or ceased to be.

        `worth` `(n_nodes,) bool` are the nodes that are worth a look, None for all.
        """
        snapshot = asked.snapshot
        before, self._own = self._own, _own_row(asked)
        nominated = snapshot.nominated_rows
        if not len(nominated) and not self.crowded:
            return NO_ROWS
        trial = Trial(slots, asked)
        if changed is None or trial.spans_nodes:
            again = np.concatenate((nominated, np.array(list(self.crowded), np.intp)))
        else:
            again = np.concatenate((changed, np.array([row for row in (before, self._own) if row >= 0], np.intp)))
        return np.array([row for row in distinct(again).tolist() if self._look(row, trial, worth)], np.intp)

    def _look(self, row: int, trial: Trial, worth: Mask | None) -> bool:
        """Whether a node's being crowded is another now."""
        was = row in self.crowded
        reasons = trial.crowded(trial.suppose(row)) if worth is None or worth.item(row) else ()
        if reasons:
            self.crowded[row] = reasons
        elif was:
            del self.crowded[row]
        self.mask[row] = bool(reasons)
        return was != bool(reasons)


def _own_row(asked: Question) -> int:
    """The row that the pod itself is nominated to, -1 for none."""
    node = asked.snapshot.nominated_to(asked.pod.uid)
    row = None if node is None else asked.snapshot.row(node)
    return -1 if row is None else row
