"""How good each feasible node is for the pods of one template, kept up to date.

Raw scores and points are kept per term and node. After a change only the rows concerned are scored again, as each term's volatility allows;
a term is normalised again as a whole only if the extent of its raw scores over the feasible nodes has moved.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.lineup import Lineup
from wharfinger.framework.question import ALL, NO_ROWS, Changes, Question, union
from wharfinger.framework.score_slot import ScoreSlot
from wharfinger.framework.stopwatch import NO_LAPS, Stopwatch
from wharfinger.framework.totals import FIRST_GLOBAL, ROW, STATIC, TierTotals
from wharfinger.framework.verdict import Mask, Rows
from wharfinger.language.catalogue import Volatility


class Scoring:
    """The scores of one template: `keys` `(n_nodes,) float64` is the first tier's total in quanta, −inf where a node is not feasible."""

    __slots__ = ("_global", "_moment", "_n_groups", "_row", "_static", "_timed", "keys", "laps", "slots", "tiers")

    def __init__(self, lineup: Lineup, stopwatch: Stopwatch | None = None) -> None:
        self.slots = tuple(
            ScoreSlot(term, group, None if stopwatch is None else stopwatch.effort(term.plugin))
            for term, group in zip(lineup.scores, _groups(lineup), strict=True)
        )
        self.laps = NO_LAPS
        self._n_groups = max((slot.group for slot in self.slots), default=ROW) + 1
        self.tiers = tuple(
            TierTotals(tier, lineup.quantum(tier), [slot for slot in self.slots if slot.term.tier == tier], self._n_groups)
            for tier in lineup.tiers
        )
        self._static: tuple[ScoreSlot, ...] = ()  # of the STATIC scores, and of the ROW and TIMED ones, those with something to say
        self._row: tuple[ScoreSlot, ...] = ()
        self._timed = tuple(slot for slot in self.slots if slot.volatility is Volatility.TIMED)
        self._moment: Hashable = None  # that the TIMED scores were asked at
        self._global = tuple(slot for slot in self.slots if slot.volatility is Volatility.GLOBAL)
        self.keys: NDArray[np.float64] = np.empty(0)

    def evaluate(self, asked: Question, feasible: Mask) -> None:
        """Score every node by every term."""
        for slot in self.laps.each("Score", self.slots):
            slot.prepare(asked, feasible)
            if not slot.skipped:
                slot.evaluate(asked, feasible)
        self._arrange(asked)
        self._total(asked.snapshot.n_nodes, 0, feasible)

    def _arrange(self, asked: Question) -> None:
        """Remember which terms have something to say of the pod, and at which moment the TIMED ones were asked."""
        self._static = tuple(slot for slot in self.slots if slot.volatility is Volatility.STATIC and not slot.skipped)
        self._row = tuple(slot for slot in self.slots if slot.volatility in {Volatility.ROW, Volatility.TIMED} and not slot.skipped)
        self._moment = asked.snapshot.moment

    def refresh(self, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> None:
        """Bring everything up to date; `flips` are the rows of `feasible` that are not what they were."""
        if changes.row >= 0 and not len(flips):
            self._refresh_one(asked, changes, feasible)
            return
        whole_from, patched_from = self._renew_timed(asked, feasible), self._n_groups
        patched: NDArray[np.intp] = flips
        for slot, touched in self._renewed(asked, changes, flips, feasible):
            if isinstance(touched, slice):
                whole_from = min(whole_from, slot.group)
            elif len(touched):
                patched_from = min(patched_from, slot.group)
                patched = union(patched, touched)
        if whole_from == self._n_groups:
            patched_from = min(patched_from, whole_from - 1)
        if len(patched):
            self._patch(patched, patched_from, whole_from, feasible)
        if whole_from < self._n_groups:
            self._total(asked.snapshot.n_nodes, whole_from, feasible)

    def _renewed(self, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> list[tuple[ScoreSlot, Rows]]:
        """Each term with the rows for which its points are new."""
        each = self.laps.each
        return [
            *((slot, slot.patch(asked, changes.node_rows, flips, feasible)) for slot in each("Score", self._static)),
            *((slot, slot.patch(asked, changes.rows, flips, feasible)) for slot in each("Score", self._row)),
            *((slot, self._refresh_global(slot, asked, changes, flips, feasible)) for slot in each("Score", self._global)),
        ]

    def _refresh_one(self, asked: Question, changes: Changes, feasible: Mask) -> None:
        """`refresh` for the one row that changed, which is as feasible as it was."""
        whole_from, extra = self._renew_timed(asked, feasible), NO_ROWS
        for slot in self.laps.each("Score", self._row):
            if slot.patch_one(asked, changes, feasible):
                whole_from = ROW
        for slot in self.laps.each("Score", self._global):
            touched = self._refresh_global(slot, asked, changes, NO_ROWS, feasible)
            if isinstance(touched, slice):
                whole_from = min(whole_from, slot.group)
            elif len(touched) and not changes.only(touched):
                extra = union(extra, touched)
        self._patch_one(changes.row, whole_from, feasible)
        if len(extra):
            self._patch(extra, FIRST_GLOBAL, whole_from, feasible)
        if whole_from < self._n_groups:
            self._total(asked.snapshot.n_nodes, whole_from, feasible)

    def _renew_timed(self, asked: Question, feasible: Mask) -> int:
        """The first group whose points are new because time has passed or samples have come; past the last if neither has."""
        if not self._timed or asked.snapshot.moment == self._moment:
            return self._n_groups
        for slot in self.laps.each("Score", self._timed):
            slot.prepare(asked, feasible)
            if not slot.skipped:
                slot.evaluate(asked, feasible)
        self._arrange(asked)
        return ROW

    def _refresh_global(self, slot: ScoreSlot, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> Rows:
        changed = slot.plugin.score_changes(*asked, changes.since, flips)
        if changed is None:
            return NO_ROWS if slot.skipped else slot.patch(asked, NO_ROWS, flips, feasible)
        toggled = slot.prepare(asked, feasible)
        if slot.skipped:
            return ALL if toggled else NO_ROWS
        if toggled or isinstance(changed, slice):
            slot.evaluate(asked, feasible)
            return ALL
        if len(changed) and not len(flips) and changes.only(changed):
            return ALL if slot.patch_one(asked, changes, feasible) else changed
        return slot.patch(asked, changed, flips, feasible)

    def _total(self, n_nodes: int, first: int, feasible: Mask) -> None:
        for tier in self.tiers:
            tier.evaluate(n_nodes, first)
        self.keys = self.tiers[0].key(ALL)
        if not feasible.all():
            self.keys[~feasible] = -np.inf

    def _patch(self, rows: NDArray[np.intp], first: int, stop: int, feasible: Mask) -> None:
        for tier in self.tiers:
            tier.patch(rows, first, stop)
        self.keys[rows] = np.where(feasible[rows], self.tiers[0].key(rows), -np.inf)

    def _patch_one(self, row: int, stop: int, feasible: Mask) -> None:
        keys = [tier.patch_one(row, ROW, stop) for tier in self.tiers]
        if feasible.item(row):
            self.keys[row] = keys[0]


def _groups(lineup: Lineup) -> list[int]:
    """The number of the group each term is summed in: terms of one volatility together, but GLOBAL ones each alone."""
    groups: list[int] = []
    for term in lineup.scores:
        volatility = term.plugin.score_volatility
        groups.append(max([ROW, *groups]) + 1 if volatility is Volatility.GLOBAL else STATIC if volatility is Volatility.STATIC else ROW)
    return groups
