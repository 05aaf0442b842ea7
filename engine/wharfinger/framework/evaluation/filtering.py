"""The set of feasible nodes for the pods of one template, kept up to date.

Every filter's verdicts are kept per node. After a change, filters run again only on the changed rows, as each filter's volatility allows,
and the feasible set is patched. The result always equals a fresh run over all rows.

Preemption nominates nodes for pods. The pod must fit such a node twice: with the nominated pods of equal or higher priority added, and
without them. Few nodes have nominated pods; their results are kept until something on the node changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.evaluation import filter_slot
from wharfinger.framework.evaluation.filter_slot import FilterSlot
from wharfinger.framework.evaluation.question import ALL, NO_ROWS, Changes, Question, distinct, union
from wharfinger.framework.evaluation.stopwatch import NO_LAPS, Stopwatch
from wharfinger.framework.evaluation.supposition import Answered, Trial
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.verdict import Mask, Reason, Rows
from wharfinger.language.semantics.catalogue import Volatility


class NominatedRoom:
    """The nodes that the pod does not fit together with the pods nominated to them.

    `crowded` has the reasons by row, `mask` is the same nodes as `(n_nodes,) bool`.
    """

    __slots__ = ("_own", "crowded", "mask")

    def __init__(self) -> None:
        self.crowded: dict[int, tuple[Reason, ...]] = {}
        self.mask: Mask = np.empty(0, np.bool_)
        self._own = -1  # the row that the pod itself is nominated to, -1 for none

    def reset(self, n_nodes: int) -> None:
        """Forget all results: no node is crowded."""
        self.crowded = {}
        self.mask = np.zeros(n_nodes, np.bool_)
        self._own = -1

    def update(self, slots: Sequence[Answered], asked: Question, worth: Mask | None, changed: NDArray[np.intp] | None) -> NDArray[np.intp]:
        """Check the nodes of `changed` again (None: all nominated ones); returns the rows that became crowded or are so no longer.

        `worth` `(n_nodes,) bool` is true for the nodes that PreFilter chose; None means all nodes.
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
        """Check one node again; True if it became crowded or is crowded no longer."""
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


class Filtering:
    """The feasible set of one template: `feasible` `(n_nodes,) bool`, its size `count`, or the `refusal` of a PreFilter."""

    __slots__ = (
        "_global",
        "_local",
        "_moment",
        "_room",
        "_row",
        "_static",
        "_timed",
        "count",
        "feasible",
        "laps",
        "local",
        "node_set",
        "refusal",
        "slots",
    )

    def __init__(self, plugins: tuple[FilterPlugin, ...], stopwatch: Stopwatch | None = None) -> None:
        self.slots = tuple(FilterSlot(plugin, None if stopwatch is None else stopwatch.effort(plugin)) for plugin in plugins)
        self.laps = NO_LAPS
        self._global = tuple(slot for slot in self.slots if slot.volatility is Volatility.GLOBAL)
        self._timed = tuple(slot for slot in self.slots if slot.volatility is Volatility.TIMED)
        self._moment: Hashable = None  # at which the TIMED filters ran
        self._static: tuple[FilterSlot, ...] = ()  # the STATIC filters, and in `_row` the ROW and TIMED ones, that are not skipped
        self._row: tuple[FilterSlot, ...] = ()
        self._local: tuple[FilterSlot, ...] = ()
        self.refusal: filter_slot.Refusal | None = None
        self.node_set: filter_slot.Chosen | None = None
        self.feasible: Mask = np.empty(0, np.bool_)
        self.count = 0
        self._room = NominatedRoom()
        self.local: Mask = self.feasible  # the nodes that pass the STATIC, ROW and TIMED filters and the node set

    @property
    def _worth(self) -> Mask | None:
        return None if self.node_set is None else self.node_set.mask

    @property
    def crowded(self) -> Mapping[int, tuple[Reason, ...]]:
        """The reasons, by row, of nodes that the pod does not fit together with the pods nominated to them."""
        return self._room.crowded

    def evaluate(self, asked: Question) -> None:
        """Run PreFilter and every filter on all nodes, then all filters again on nodes with nominated pods added."""
        self.refusal, self.node_set = filter_slot.run(self.laps.each("PreFilter", self.slots), asked)
        self.laps.mark("PreFilter")
        self._arrange(asked)
        self._room.reset(asked.snapshot.n_nodes)
        if self.refusal is not None:
            self.feasible = self.local = np.zeros(asked.snapshot.n_nodes, np.bool_)
            self.count = 0
            return
        for slot in self.laps.each("Filter", [slot for slot in self.slots if not slot.skipped]):
            slot.evaluate(asked)
        self._room.update(self.slots, asked, self._worth, None)
        self._combine_local(asked.snapshot.n_nodes)
        self._combine()

    def _arrange(self, asked: Question) -> None:
        """Keep the filters that PreFilter did not skip, by volatility, and the moment at which the TIMED filters ran."""
        self._static = tuple(slot for slot in self.slots if slot.volatility is Volatility.STATIC and not slot.skipped)
        self._row = tuple(slot for slot in self.slots if slot.volatility in {Volatility.ROW, Volatility.TIMED} and not slot.skipped)
        self._local = (*self._static, *self._row)
        self._moment = asked.snapshot.moment

    def refresh(self, asked: Question, changes: Changes) -> Rows:
        """Bring the feasible set up to date; returns the rows that became feasible or infeasible, or all rows after a full evaluation."""
        if self.refusal is not None:
            if self._global or self._timed:  # the PreFilter of a STATIC or ROW filter reads nothing that has changed
                self.evaluate(asked)
            return ALL if self.refusal is None else NO_ROWS
        renewed = self._refresh_global(asked, changes)
        if renewed is None or (timely := self._refresh_timed(asked)) is None:
            self.evaluate(asked)
            return ALL
        if self._refresh_local(asked, changes) or timely:
            self._combine_local(asked.snapshot.n_nodes)
            renewed = ALL
        crowding = self._room.update(self.slots, asked, self._worth, changes.rows if renewed is NO_ROWS else None)
        if len(crowding) and not isinstance(renewed, slice):
            renewed = union(renewed, crowding)
        if changes.only(renewed):
            return self._patch_one(changes)
        if len(changes.rows):
            self._patch_local(changes.rows)
        if isinstance(renewed, slice):
            before = self.feasible
            self._combine()
            return np.flatnonzero(before != self.feasible)
        return self._patch(union(changes.rows, renewed))

    def _refresh_global(self, asked: Question, changes: Changes) -> Rows | None:
        """Run the GLOBAL filters again where needed; returns these rows.

        None if a PreFilter answer changed and a full evaluation is needed.
        """
        renewed: Rows = NO_ROWS
        for slot in self.laps.each("Filter", self._global):
            changed = slot.plugin.filter_changes(*asked, changes.since)
            if changed is None:
                continue
            if slot.prepare(asked):
                return None
            if slot.skipped:
                continue
            if isinstance(changed, slice):
                slot.evaluate(asked)
                renewed = ALL
            elif slot.patch_one(asked, changes) if changes.only(changed) and len(changed) else slot.patch(asked, changed):
                renewed = ALL
            elif not isinstance(renewed, slice):
                renewed = union(renewed, changed)
        return renewed

    def _refresh_timed(self, asked: Question) -> bool | None:
        """Run the TIMED filters on every node if time has passed or metric samples have arrived; True if they ran.

        None if a PreFilter answer changed and a full evaluation is needed.
        """
        if not self._timed or asked.snapshot.moment == self._moment:
            return False
        for slot in self.laps.each("Filter", self._timed):
            if slot.prepare(asked):
                return None
            if not slot.skipped:
                slot.evaluate(asked)
        self._moment = asked.snapshot.moment
        return True

    def _refresh_local(self, asked: Question, changes: Changes) -> bool:
        """Run the STATIC, ROW and TIMED filters on the changed rows; True if one of them ran on all rows."""
        wholly = False
        if changes.row >= 0:
            for slot in self.laps.each("Filter", self._row):
                wholly |= slot.patch_one(asked, changes)
            return wholly
        if len(changes.node_rows):
            for slot in self.laps.each("Filter", self._static):
                wholly |= slot.patch(asked, changes.node_rows)
        if len(changes.rows):
            for slot in self.laps.each("Filter", self._row):
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
        if self._room.crowded:
            self.feasible &= ~self._room.mask
        self.count = int(np.count_nonzero(self.feasible))

    def _patch_local(self, rows: NDArray[np.intp]) -> None:
        passes = np.ones(len(rows), np.bool_) if self.node_set is None else self.node_set.mask[rows]
        for slot in self._local:
            passes &= slot.bits[rows] == 0
        self.local[rows] = passes

    def _patch(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Patch the feasible set on some rows; returns the rows that became feasible or infeasible."""
        if not len(rows):
            return NO_ROWS
        before = self.feasible[rows]
        after = self.local[rows]
        for slot in self._global:
            if not slot.skipped:
                after &= slot.bits[rows] == 0
        if self._room.crowded:
            after &= ~self._room.mask[rows]
        flipped = before != after
        if not flipped.any():
            return NO_ROWS
        self.feasible[rows] = after
        self.count += int(np.count_nonzero(after)) - int(np.count_nonzero(before))
        flips: NDArray[np.intp] = rows[flipped]
        return flips

    def _patch_one(self, changes: Changes) -> NDArray[np.intp]:
        """`_patch_local` and `_patch` for a change of one row."""
        row = changes.row
        passes = self.node_set is None or self.node_set.mask.item(row)
        for slot in self._local:
            passes = passes and not slot.bits.item(row)
        self.local[row] = passes
        for slot in self._global:
            passes = passes and (slot.skipped or not slot.bits.item(row))
        passes = passes and not self._room.mask.item(row)
        if passes == self.feasible.item(row):
            return NO_ROWS
        self.feasible[row] = passes
        self.count += 1 if passes else -1
        return changes.rows
