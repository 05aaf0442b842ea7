"""How good each feasible node is for the pods of one template, kept up to date.

Raw scores and points are kept per term and node. After a change only the rows concerned are scored again, as each term's volatility allows;
a term is normalised again as a whole only if the extent of its raw scores over the feasible nodes has moved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework import contract
from wharfinger.framework.lineup import Lineup, ScoreTerm
from wharfinger.framework.question import ALL, NO_ROWS, Changes, Question, union
from wharfinger.framework.scale import NO_EXTENT, Extent
from wharfinger.framework.totals import N_CLASSES, TierTotals
from wharfinger.framework.verdict import Mask, Rows
from wharfinger.language.catalogue import Volatility


class ScoreSlot:
    """One term's part: raw scores and points `(n_nodes,)`, and the extent the points were made with."""

    __slots__ = ("extent", "plugin", "points", "raw", "scale", "skipped", "term", "volatility", "weight")

    def __init__(self, term: ScoreTerm) -> None:
        self.term = term
        self.plugin = term.plugin
        self.scale = term.scale
        self.weight = term.weight
        self.volatility = term.plugin.score_volatility
        self.skipped = False
        self.raw: NDArray[Any] = np.empty(0)
        self.points: NDArray[Any] = self.raw
        self.extent: Extent = NO_EXTENT

    def prepare(self, asked: Question, feasible: Mask) -> bool:
        """Run PreScore; whether its answer is another than last time."""
        before = self.skipped
        answer = self.plugin.pre_score(asked.cycle, asked.pod, asked.snapshot, feasible)
        contract.pre_score(self.plugin.name, answer)
        self.skipped = answer is not None
        return self.skipped is not before

    def evaluate(self, asked: Question, feasible: Mask) -> None:
        """Score every node."""
        self.raw = self._ask(asked, ALL, asked.snapshot.n_nodes).copy()  # what a plugin returns stays the plugin's
        self.normalise(feasible)

    def normalise(self, feasible: Mask) -> None:
        """Make the points of every node from the raw scores."""
        self.extent = self.scale.extent(self.raw, feasible)
        self.points = self.scale.points(self.raw, self.extent, feasible)

    def patch(self, asked: Question, rows: NDArray[np.intp], flips: NDArray[np.intp], feasible: Mask) -> Rows:
        """Score some rows, and renew the points of those and of the rows that flipped; the rows whose points are new."""
        touched = union(rows, flips) if self.scale.relative else rows
        if not len(touched):
            return NO_ROWS
        before = self.raw[touched]
        if len(rows):
            self.raw[rows] = self._ask(asked, rows, len(rows))
        after = self.raw[touched]
        if self.scale.relative and self._moved(before, after, len(flips) > 0, feasible):
            self.normalise(feasible)
            return ALL
        self.points[touched] = self.scale.points(after, self.extent, feasible[touched])
        return touched

    def _ask(self, asked: Question, rows: Rows, n_rows: int) -> NDArray[Any]:
        return self.scale.raw(self.plugin.score(asked.cycle, asked.pod, asked.snapshot, rows), n_rows)

    def _moved(self, before: NDArray[Any], after: NDArray[Any], flipped: bool, feasible: Mask) -> bool:
        if not flipped and np.array_equal(before, after):
            return False
        doubtful = self.scale.moves(self.extent, before) or self.scale.moves(self.extent, after)
        return doubtful and self.scale.extent(self.raw, feasible) != self.extent


class Scoring:
    """The scores of one template: `keys` `(n_nodes,) float64` is the first tier's total in quanta, −inf where a node is not feasible."""

    __slots__ = ("keys", "slots", "tiers")

    def __init__(self, lineup: Lineup) -> None:
        self.slots = tuple(ScoreSlot(term) for term in lineup.scores)
        self.tiers = tuple(
            TierTotals(tier, lineup.quantum(tier), [slot for slot in self.slots if slot.term.tier == tier]) for tier in lineup.tiers
        )
        self.keys: NDArray[np.float64] = np.empty(0)

    def evaluate(self, asked: Question, feasible: Mask) -> None:
        """Score every node by every term."""
        for slot in self.slots:
            slot.prepare(asked, feasible)
            if not slot.skipped:
                slot.evaluate(asked, feasible)
        self._total(asked.snapshot.n_nodes, 0, feasible)

    def refresh(self, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> None:
        """Bring everything up to date; `flips` are the rows of `feasible` that are not what they were."""
        whole_from = patched_from = N_CLASSES
        patched: NDArray[np.intp] = flips
        for slot in self.slots:
            touched = self._refresh(slot, asked, changes, flips, feasible)
            if isinstance(touched, slice):
                whole_from = min(whole_from, slot.volatility.value)
            elif len(touched):
                patched_from = min(patched_from, slot.volatility.value)
                patched = union(patched, touched)
        if whole_from < N_CLASSES:
            self._total(asked.snapshot.n_nodes, min(whole_from, patched_from), feasible)
        elif len(patched):
            self._patch(patched, min(patched_from, N_CLASSES - 1), feasible)

    def _refresh(self, slot: ScoreSlot, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> Rows:
        """The rows for which a term's points are new."""
        if slot.volatility is Volatility.GLOBAL:
            return self._refresh_global(slot, asked, changes.since, flips, feasible)
        if slot.skipped:
            return NO_ROWS
        return slot.patch(asked, changes.node_rows if slot.volatility is Volatility.STATIC else changes.rows, flips, feasible)

    def _refresh_global(self, slot: ScoreSlot, asked: Question, since: int, flips: NDArray[np.intp], feasible: Mask) -> Rows:
        changed = slot.plugin.score_changes(asked.cycle, asked.pod, asked.snapshot, since, flips)
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
        self.keys = np.where(feasible, self.tiers[0].key(ALL), -np.inf)

    def _patch(self, rows: NDArray[np.intp], first: int, feasible: Mask) -> None:
        for tier in self.tiers:
            tier.patch(rows, first)
        self.keys[rows] = np.where(feasible[rows], self.tiers[0].key(rows), -np.inf)
