"""Which nodes can take the pods of one template, kept up to date.

Every filter's verdicts are kept per node. After a change only the rows it touched are asked again, as each filter's volatility allows, and
the feasible set is patched. The result is always what a fresh run over all rows gives.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework import pre_filtering
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.filter_slot import FilterSlot
from wharfinger.framework.question import ALL, NO_ROWS, Changes, Question, union
from wharfinger.framework.trial import Trial
from wharfinger.framework.verdict import Mask, Reason, Rows
from wharfinger.language.catalogue import Volatility


class Filtering:
    """The feasible set of one template: `feasible` `(n_nodes,) bool`, its size `count`, or the `refusal` of a PreFilter."""

    __slots__ = ("_global", "_local", "_row", "_static", "count", "crowded", "feasible", "local", "node_set", "refusal", "slots")

    def __init__(self, plugins: tuple[FilterPlugin, ...]) -> None:
        self.slots = tuple(FilterSlot(plugin) for plugin in plugins)
        self._global = tuple(slot for slot in self.slots if slot.volatility is Volatility.GLOBAL)
        self._static: tuple[FilterSlot, ...] = ()  # of the STATIC and ROW filters, those with something to say of the pod
        self._row: tuple[FilterSlot, ...] = ()
        self._local: tuple[FilterSlot, ...] = ()
        self.refusal: pre_filtering.Refusal | None = None
        self.node_set: pre_filtering.Chosen | None = None
        self.feasible: Mask = np.empty(0, np.bool_)
        self.count = 0
        self.crowded: dict[int, tuple[Reason, ...]] = {}  # nodes that do not fit the pod beside those for which room is being made there
        self.local: Mask = self.feasible  # what the STATIC and ROW filters and the node set let through

    def evaluate(self, asked: Question) -> None:
        """Run PreFilter, and every filter over every node; then once more over the nodes where room is being made for others."""
        self._evaluate(asked)
        self._crowd(asked)

    def refresh(self, asked: Question, changes: Changes) -> Rows:
        """Bring the feasible set up to date; the rows that became feasible or ceased to be, and perhaps some that did not."""
        if not self.crowded and not len(asked.snapshot.nominated_rows):
            return self._refresh(asked, changes)
        touched = self._uncrowd()
        flips = self._refresh(asked, changes)
        self._crowd(asked)
        return flips if isinstance(flips, slice) else union(flips, union(touched, np.array(sorted(self.crowded), np.intp)))

    def _uncrowd(self) -> NDArray[np.intp]:
        """Make the crowded nodes what they are without nominated pods; which they are."""
        rows = np.array(sorted(self.crowded), np.intp)
        self.crowded = {}
        if len(rows):
            self._patch(rows)
        return rows

    def _crowd(self, asked: Question) -> None:
        """Take out the nodes that do not fit the pod beside the pods nominated to them."""
        self.crowded = {}
        if self.refusal is not None:
            return
        trial = Trial(self.slots, asked)
        for row in asked.snapshot.nominated_rows.tolist():
            reasons = trial.crowded(trial.suppose(row)) if self.node_set is None or self.node_set.mask[row] else ()
            if reasons:
                self.crowded[row] = reasons
                self.count -= int(self.feasible[row])
                self.feasible[row] = False

    def _evaluate(self, asked: Question) -> None:
        self.refusal, self.node_set = pre_filtering.run(self.slots, asked)
        self._static = tuple(slot for slot in self.slots if slot.volatility is Volatility.STATIC and not slot.skipped)
        self._row = tuple(slot for slot in self.slots if slot.volatility is Volatility.ROW and not slot.skipped)
        self._local = (*self._static, *self._row)
        if self.refusal is not None:
            self.feasible = self.local = np.zeros(asked.snapshot.n_nodes, np.bool_)
            self.count = 0
            return
        for slot in self.slots:
            if not slot.skipped:
                slot.evaluate(asked)
        self._combine_local(asked.snapshot.n_nodes)
        self._combine()

    def _refresh(self, asked: Question, changes: Changes) -> Rows:
        if self.refusal is not None:
            if self._global:  # a STATIC or ROW PreFilter reads nothing that has changed
                self._evaluate(asked)
            return ALL if self.refusal is None else NO_ROWS
        renewed = self._refresh_global(asked, changes.since)
        if renewed is None:
            self._evaluate(asked)
            return ALL
        if self._refresh_local(asked, changes):
            self._combine_local(asked.snapshot.n_nodes)
            renewed = ALL
        if changes.only(renewed):
            return self._patch_one(changes)
        if len(changes.rows):
            self._patch_local(changes.rows)
        if isinstance(renewed, slice):
            before = self.feasible
            self._combine()
            return np.flatnonzero(before != self.feasible)
        return self._patch(union(changes.rows, renewed))

    def _refresh_global(self, asked: Question, since: int) -> Rows | None:
        """The rows that GLOBAL filters were asked about again; None if a PreFilter has changed its mind and all has to be done again."""
        renewed: Rows = NO_ROWS
        for slot in self._global:
            changed = slot.plugin.filter_changes(*asked, since)
            if changed is None:
                continue
            if slot.prepare(asked):
                return None
            if slot.skipped:
                continue
            if isinstance(changed, slice):
                slot.evaluate(asked)
                renewed = ALL
            elif slot.patch(asked, changed):
                renewed = ALL
            elif not isinstance(renewed, slice):
                renewed = union(renewed, changed)
        return renewed

    def _refresh_local(self, asked: Question, changes: Changes) -> bool:
        """Ask the STATIC and ROW filters about the rows that concern them; True if one was asked about all."""
        wholly = False
        if changes.row >= 0:
            for slot in self._row:
                wholly |= slot.patch_one(asked, changes)
            return wholly
        if len(changes.node_rows):
            for slot in self._static:
                wholly |= slot.patch(asked, changes.node_rows)
        if len(changes.rows):
            for slot in self._row:
                wholly |= slot.patch(asked, changes.rows)
        return wholly

    def _combine_local(self, n_nodes: int) -> None:
        self.local = np.ones(n_nodes, np.bool_) if self.node_set is None else self.node_set.mask.copy()
        for slot in self._local:
            self.local &= slot.bits == 0

    def _combine(self) -> None:
        self.feasible = self.local.copy()
        for slot in self._global:
            if not slot.skipped:
                self.feasible &= slot.bits == 0
        self.count = int(np.count_nonzero(self.feasible))

    def _patch_local(self, rows: NDArray[np.intp]) -> None:
        passes = np.ones(len(rows), np.bool_) if self.node_set is None else self.node_set.mask[rows]
        for slot in self._local:
            passes &= slot.bits[rows] == 0
        self.local[rows] = passes

    def _patch(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Patch the feasible set on some rows; those that flipped."""
        if not len(rows):
            return NO_ROWS
        before = self.feasible[rows]
        after = self.local[rows]
        for slot in self._global:
            if not slot.skipped:
                after &= slot.bits[rows] == 0
        flipped = before != after
        if not flipped.any():
            return NO_ROWS
        self.feasible[rows] = after
        self.count += int(np.count_nonzero(after)) - int(np.count_nonzero(before))
        flips: NDArray[np.intp] = rows[flipped]
        return flips

    def _patch_one(self, changes: Changes) -> NDArray[np.intp]:
        """`_patch_local` and `_patch` for the one row that changed."""
        row = changes.row
        passes = self.node_set is None or self.node_set.mask.item(row)
        for slot in self._local:
            passes = passes and not slot.bits.item(row)
        self.local[row] = passes
        for slot in self._global:
            passes = passes and (slot.skipped or not slot.bits.item(row))
        if passes == self.feasible.item(row):
            return NO_ROWS
        self.feasible[row] = passes
        self.count += 1 if passes else -1
        return changes.rows
