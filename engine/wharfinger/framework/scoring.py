"""How good each feasible node is for the pods of one template, kept up to date.

Raw scores and points are kept per term and node. After a change only the rows concerned are scored again, as each term's volatility allows;
a term is normalised again as a whole only if the extent of its raw scores over the feasible nodes has moved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.lineup import Lineup
from wharfinger.framework.question import ALL, NO_ROWS, Changes, Question, union
from wharfinger.framework.score_slot import ScoreSlot
from wharfinger.framework.totals import N_CLASSES, TierTotals
from wharfinger.framework.verdict import Mask, Rows
from wharfinger.language.catalogue import Volatility

LAST = N_CLASSES - 1


class Scoring:
    """The scores of one template: `keys` `(n_nodes,) float64` is the first tier's total in quanta, −inf where a node is not feasible."""

    __slots__ = ("_global", "_row", "_static", "keys", "slots", "tiers")

    def __init__(self, lineup: Lineup) -> None:
        self.slots = tuple(ScoreSlot(term) for term in lineup.scores)
        self.tiers = tuple(
            TierTotals(tier, lineup.quantum(tier), [slot for slot in self.slots if slot.term.tier == tier]) for tier in lineup.tiers
        )
        self._static: tuple[ScoreSlot, ...] = ()  # of the STATIC and ROW scores, those with something to say of the pod
        self._row: tuple[ScoreSlot, ...] = ()
        self._global = tuple(slot for slot in self.slots if slot.volatility is Volatility.GLOBAL)
        self.keys: NDArray[np.float64] = np.empty(0)

    def evaluate(self, asked: Question, feasible: Mask) -> None:
        """Score every node by every term."""
        for slot in self.slots:
            slot.prepare(asked, feasible)
            if not slot.skipped:
                slot.evaluate(asked, feasible)
        self._static = tuple(slot for slot in self.slots if slot.volatility is Volatility.STATIC and not slot.skipped)
        self._row = tuple(slot for slot in self.slots if slot.volatility is Volatility.ROW and not slot.skipped)
        self._total(asked.snapshot.n_nodes, 0, feasible)

    def refresh(self, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> None:
        """Bring everything up to date; `flips` are the rows of `feasible` that are not what they were."""
        if changes.row >= 0 and not len(flips):
            self._refresh_one(asked, changes, feasible)
            return
        whole_from = patched_from = N_CLASSES
        patched: NDArray[np.intp] = flips
        for slot, touched in self._renewed(asked, changes, flips, feasible):
            if isinstance(touched, slice):
                whole_from = min(whole_from, slot.volatility.value)
            elif len(touched):
                patched_from = min(patched_from, slot.volatility.value)
                patched = union(patched, touched)
        if len(patched) and (patched_from < whole_from or whole_from == N_CLASSES):
            self._patch(patched, min(patched_from, LAST), feasible)
        if whole_from < N_CLASSES:
            self._total(asked.snapshot.n_nodes, whole_from, feasible)

    def _renewed(self, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> list[tuple[ScoreSlot, Rows]]:
        """Each term with the rows for which its points are new."""
        return [
            *((slot, slot.patch(asked, changes.node_rows, flips, feasible)) for slot in self._static),
            *((slot, slot.patch(asked, changes.rows, flips, feasible)) for slot in self._row),
            *((slot, self._refresh_global(slot, asked, changes.since, flips, feasible)) for slot in self._global),
        ]

    def _refresh_one(self, asked: Question, changes: Changes, feasible: Mask) -> None:
        """`refresh` for the one row that changed, which is as feasible as it was."""
        first = Volatility.ROW.value if self._row else LAST
        whole = False
        for slot in self._row:
            whole |= slot.patch_one(asked, changes, feasible)
        extra: Rows = NO_ROWS
        for slot in self._global:
            touched = self._refresh_global(slot, asked, changes.since, NO_ROWS, feasible)
            if isinstance(touched, slice) or isinstance(extra, slice):
                extra = ALL
            elif len(touched):
                extra = union(extra, touched)
        if whole:
            self._total(asked.snapshot.n_nodes, first, feasible)
            return
        self._patch_one(changes.row, first, feasible)
        if isinstance(extra, slice):
            self._total(asked.snapshot.n_nodes, LAST, feasible)
        elif len(extra):
            self._patch(extra, LAST, feasible)

    def _refresh_global(self, slot: ScoreSlot, asked: Question, since: int, flips: NDArray[np.intp], feasible: Mask) -> Rows:
        changed = slot.plugin.score_changes(*asked, since, flips)
        if changed is None:
            return NO_ROWS if slot.skipped else slot.patch(asked, NO_ROWS, flips, feasible)
        toggled = slot.prepare(asked, feasible)
        if slot.skipped:
            return ALL if toggled else NO_ROWS
        if toggled or isinstance(changed, slice):
            slot.evaluate(asked, feasible)
            return ALL
        return slot.patch(asked, changed, flips, feasible)

    def _total(self, n_nodes: int, first: int, feasible: Mask) -> None:
        for tier in self.tiers:
            tier.evaluate(n_nodes, first)
        self.keys = self.tiers[0].key(ALL)
        if not feasible.all():
            self.keys[~feasible] = -np.inf

    def _patch(self, rows: NDArray[np.intp], first: int, feasible: Mask) -> None:
        for tier in self.tiers:
            tier.patch(rows, first)
        self.keys[rows] = np.where(feasible[rows], self.tiers[0].key(rows), -np.inf)

    def _patch_one(self, row: int, first: int, feasible: Mask) -> None:
        keys = [tier.patch_one(row, first) for tier in self.tiers]
        if feasible.item(row):
            self.keys[row] = keys[0]
