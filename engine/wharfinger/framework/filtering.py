"""Which nodes can take the pods of one template, kept up to date.

Every filter's verdicts are kept per node. After a change only the rows it touched are asked again, as each filter's volatility allows, and
the feasible set is patched. The result is always what a fresh run over all rows gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework import contract, pre_filtering
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.question import ALL, NO_ROWS, Changes, Question, union
from wharfinger.framework.trial import Trial
from wharfinger.framework.verdict import Mask, PreFilterAnswer, Reason, Rows, Skip
from wharfinger.language.catalogue import Volatility


class FilterSlot:
    """One filter's part: what its PreFilter said, and its verdict bits `(n_nodes,)` with their reasons."""

    __slots__ = ("answer", "bits", "plugin", "reasons", "skipped")

    def __init__(self, plugin: FilterPlugin) -> None:
        self.plugin = plugin
        self.answer: PreFilterAnswer = None
        self.skipped = False
        self.reasons: tuple[Reason, ...] = ()
        self.bits: NDArray[Any] = np.empty(0, np.uint8)

    def prepare(self, asked: Question) -> bool:
        """Run PreFilter; whether its answer is another than last time."""
        before, self.answer = self.answer, self.plugin.pre_filter(asked.cycle, asked.pod, asked.snapshot)
        contract.pre_filter(self.plugin.name, self.answer)
        self.skipped = isinstance(self.answer, Skip)
        return self.answer != before

    def evaluate(self, asked: Question) -> None:
        """Ask about every node."""
        answer = contract.verdicts(
            self.plugin.name, self.plugin.filter(asked.cycle, asked.pod, asked.snapshot, ALL), asked.snapshot.n_nodes
        )
        contract.reasons(self.plugin.name, answer.reasons, int(answer.bits.max(initial=0)))
        self.reasons = answer.reasons
        self.bits = answer.bits.astype(_narrowest(len(answer.reasons)))  # a copy: what a plugin returns stays the plugin's

    def patch(self, asked: Question, rows: NDArray[np.intp]) -> bool:
        """Ask about some rows; True if all had to be asked after all, because the reasons are others now."""
        answer = contract.verdicts(self.plugin.name, self.plugin.filter(asked.cycle, asked.pod, asked.snapshot, rows), len(rows))
        if answer.reasons is not self.reasons and answer.reasons != self.reasons:
            self.evaluate(asked)
            return True
        self.bits[rows] = answer.bits
        return False


class Filtering:
    """The feasible set of one template: `feasible` `(n_nodes,) bool`, its size `count`, or the `refusal` of a PreFilter."""

    __slots__ = ("_global", "_local", "_local_slots", "count", "crowded", "feasible", "node_set", "refusal", "slots")

    def __init__(self, plugins: tuple[FilterPlugin, ...]) -> None:
        self.slots = tuple(FilterSlot(plugin) for plugin in plugins)
        self._local_slots = tuple(slot for slot in self.slots if slot.plugin.filter_volatility is not Volatility.GLOBAL)
        self._global = tuple(slot for slot in self.slots if slot.plugin.filter_volatility is Volatility.GLOBAL)
        self.refusal: pre_filtering.Refusal | None = None
        self.node_set: pre_filtering.Chosen | None = None
        self.feasible: Mask = np.empty(0, np.bool_)
        self.count = 0
        self.crowded: dict[int, tuple[Reason, ...]] = {}  # nodes that do not fit the pod beside those for which room is being made there
        self._local: Mask = self.feasible  # what the STATIC and ROW filters let through

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
        if self.refusal is not None:
            self.feasible = self._local = np.zeros(asked.snapshot.n_nodes, np.bool_)
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
        elif len(changes.rows):
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
            changed = slot.plugin.filter_changes(asked.cycle, asked.pod, asked.snapshot, since)
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
        for slot in self._local_slots:
            touched = changes.node_rows if slot.plugin.filter_volatility is Volatility.STATIC else changes.rows
            if len(touched) and not slot.skipped:
                wholly |= slot.patch(asked, touched)
        return wholly

    def _combine_local(self, n_nodes: int) -> None:
        self._local = np.ones(n_nodes, np.bool_) if self.node_set is None else self.node_set.mask.copy()
        for slot in self._local_slots:
            if not slot.skipped:
                self._local &= slot.bits == 0

    def _patch_local(self, rows: NDArray[np.intp]) -> None:
        passes = np.ones(len(rows), np.bool_) if self.node_set is None else self.node_set.mask[rows]
        for slot in self._local_slots:
            if not slot.skipped:
                passes &= slot.bits[rows] == 0
        self._local[rows] = passes

    def _combine(self) -> None:
        self.feasible = self._local.copy()
        for slot in self._global:
            if not slot.skipped:
                self.feasible &= slot.bits == 0
        self.count = int(np.count_nonzero(self.feasible))

    def _patch(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Patch the feasible set on some rows; those that flipped."""
        if not len(rows):
            return NO_ROWS
        before = self.feasible[rows]
        after = self._local[rows]
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


def _narrowest(n_reasons: int) -> type[np.unsignedinteger[Any]]:
    """The smallest dtype with a bit for each reason: one byte per node nearly always."""
    for dtype, width in ((np.uint8, 8), (np.uint16, 16), (np.uint32, 32)):
        if n_reasons <= width:
            return dtype
    return np.uint64
