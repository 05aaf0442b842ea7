"""The scores of all nodes by all terms of one lineup, kept up to date, and the best rows.

Raw scores and points are kept per term and node, or per class of nodes where a term depends on topology domains alone. After a change
only the rows concerned are scored again, as each term's volatility allows. A term is normalised again on all rows only if the extent of its
raw scores over the feasible nodes has moved.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.changes import ALL, NO_ROWS, Changes, union
from wharfinger.framework.evaluation import best_rows
from wharfinger.framework.evaluation.best_rows import Arrangements, BestRows
from wharfinger.framework.prepared import OUTDATED, SKIP_ALWAYS, Attempt
from wharfinger.framework.rules.lineup import Lineup
from wharfinger.framework.rules.points import ROW, STATIC, TierTotals
from wharfinger.framework.rules.row_classes import Classes
from wharfinger.framework.rules.score_slot import ScoreSlot
from wharfinger.framework.stopwatch import NO_LAPS, Stopwatch
from wharfinger.framework.verdict import Mask, Rows
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot


class Scoring:
    """The scores of one template: the `tiers` with the totals of each row, and the best rows of the first tier."""

    __slots__ = (
        "_arrangements",
        "_best",
        "_by_domain",
        "_classes",
        "_follows",
        "_moment",
        "_n_feasible",
        "_n_groups",
        "_row",
        "_static",
        "laps",
        "slots",
        "tiers",
    )

    def __init__(self, lineup: Lineup, stopwatch: Stopwatch | None = None, arrangements: Arrangements | None = None) -> None:
        self.slots = tuple(
            ScoreSlot(term, group, None if stopwatch is None else stopwatch.effort(term.plugin))
            for term, group in zip(lineup.scores, _groups(lineup), strict=True)
        )
        self.laps = NO_LAPS
        self._arrangements = Arrangements() if arrangements is None else arrangements
        self._n_groups = max((slot.group for slot in self.slots), default=ROW) + 1
        self.tiers = tuple(
            TierTotals(tier, lineup.quantum(tier), [slot for slot in self.slots if slot.term.tier == tier], self._n_groups)
            for tier in lineup.tiers
        )
        self._static: tuple[ScoreSlot, ...] = ()  # the STATIC scores that are not skipped
        self._row: tuple[ScoreSlot, ...] = ()  # the ROW scores that are not skipped
        self._follows: tuple[ScoreSlot, ...] = ()  # the TIMED and GLOBAL scores, which are asked for changes
        self._moment: Hashable = None  # at which the TIMED scores ran; None without any
        self._by_domain: tuple[ScoreSlot, ...] = ()  # the scores that depend on topology domains alone
        self._classes: Classes | None = None  # for which the points of these scores are kept
        self._n_feasible: NDArray[np.intp] = NO_ROWS  # feasible rows of each class
        self._best: BestRows | None = None  # None after every row was scored, until a row changes

    def evaluate(self, attempt: Attempt, feasible: Mask) -> None:
        """Prepare every term and score every node by it."""
        snapshot = attempt.snapshot
        self._classes = self._best = None
        for slot in self.laps.each("Score", self.slots):
            slot.classes = None
            slot.prepare(attempt, feasible)
            if not slot.skipped and slot.domains is None:
                slot.evaluate(snapshot, feasible)
        self._static = tuple(slot for slot in self.slots if slot.volatility is Volatility.STATIC and not slot.skipped)
        self._row = tuple(slot for slot in self.slots if slot.volatility is Volatility.ROW and not slot.skipped)
        self._follows = tuple(slot for slot in self.slots if slot.volatility >= Volatility.TIMED and slot.answer is not SKIP_ALWAYS)
        self._moment = snapshot.moment if any(slot.volatility is Volatility.TIMED for slot in self._follows) else None
        self._by_domain = tuple(slot for slot in self.slots if slot.domains is not None)
        if self._by_domain:
            self._evaluate_domains(snapshot, feasible)
        self._total(snapshot.n_nodes, 0)

    def _evaluate_domains(self, snapshot: Snapshot, feasible: Mask) -> None:
        """Score by the terms that depend on topology domains alone: per class of rows, unless there are too many."""
        keys = {slot: slot.domains or () for slot in self._by_domain}
        kept = [slot for slot in self._by_domain if self._arrangements.classes(keys[slot], snapshot) is not None]
        together = tuple(sorted({key for slot in kept for key in keys[slot]}))
        self._classes = classes = self._arrangements.classes(together, snapshot) if kept else None
        if classes is not None:
            self._n_feasible = np.bincount(classes.ids[feasible], minlength=len(classes.rows))
        for slot in self.laps.each("Score", self._by_domain):
            if classes is not None and slot in kept:
                slot.evaluate_classes(snapshot, classes, self._n_feasible > 0)
            else:
                slot.evaluate(snapshot, feasible)

    def refresh(self, attempt: Attempt, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> None:
        """Bring all scores up to date; `flips` are the rows that became feasible or infeasible."""
        moment = None if self._moment is None else attempt.snapshot.moment
        passed, self._moment = moment != self._moment, moment
        if len(changes.node_rows) and not self._stands():
            self.evaluate(attempt, feasible)
        elif changes.row >= 0 and not len(flips):
            self._refresh_one(attempt, changes, feasible, passed=passed)
        else:
            self._refresh_rows(attempt, changes, flips, feasible, passed=passed)

    def _stands(self) -> bool:
        """True if no points depend on topology domains, or all that do are kept per class and all nodes are still in the same domains."""
        if not self._by_domain:
            return True
        return self._classes is not None and self._classes.stands and all(slot.classes is not None for slot in self._by_domain)

    def _refresh_rows(self, attempt: Attempt, changes: Changes, flips: NDArray[np.intp], feasible: Mask, *, passed: bool) -> None:
        snapshot = attempt.snapshot
        if len(flips) and self._classes is not None:
            self._count_flips(flips, feasible)
        whole_from = patched_from = self._n_groups
        patched = NO_ROWS
        renewed: list[tuple[ScoreSlot, Rows | None]] = [
            *((slot, slot.patch(snapshot, changes.node_rows, flips, feasible)) for slot in self.laps.each("Score", self._static)),
            *((slot, slot.patch(snapshot, changes.rows, flips, feasible)) for slot in self.laps.each("Score", self._row)),
            *(
                (slot, self._follow(slot, attempt, changes, flips, feasible, passed=passed))
                for slot in self.laps.each("Score", self._follows)
            ),
        ]
        for slot, touched in renewed:
            if touched is None:
                self.evaluate(attempt, feasible)
                return
            if isinstance(touched, slice):
                whole_from = min(whole_from, slot.group)
            elif len(touched):
                patched_from = min(patched_from, slot.group)
                patched = union(patched, touched)
        if len(patched):
            self._patch(patched, patched_from, whole_from)
        if whole_from < self._n_groups:
            self._total(snapshot.n_nodes, whole_from)
        elif len(patched) or len(flips):
            self._rank(union(patched, flips), snapshot, feasible)

    def _count_flips(self, flips: NDArray[np.intp], feasible: Mask) -> None:
        assert self._classes is not None  # noqa: S101 — called only if there are classes
        ids, n_classes = self._classes.ids[flips], len(self._classes.rows)
        now = feasible[flips]
        before = self._n_feasible
        self._n_feasible = before + np.bincount(ids[now], minlength=n_classes) - np.bincount(ids[~now], minlength=n_classes)
        there = self._n_feasible > 0
        if not np.array_equal(there, before > 0):
            for slot in self._by_domain:
                if slot.classes is not None:
                    slot.normalise_classes(there)

    def _refresh_one(self, attempt: Attempt, changes: Changes, feasible: Mask, *, passed: bool) -> None:
        """`refresh` for a change of one row whose feasibility stayed the same."""
        snapshot = attempt.snapshot
        whole_from, extra_from, extra = self._n_groups, self._n_groups, NO_ROWS
        for slot in self.laps.each("Score", self._row):
            if slot.patch_one(snapshot, changes.row, feasible):
                whole_from = ROW
        for slot in self.laps.each("Score", self._follows):
            touched = self._follow(slot, attempt, changes, NO_ROWS, feasible, passed=passed)
            if touched is None:
                self.evaluate(attempt, feasible)
                return
            if isinstance(touched, slice):
                whole_from = min(whole_from, slot.group)
            elif len(touched) and not changes.only(touched):
                extra, extra_from = union(extra, touched), min(extra_from, slot.group)
        sums = [tier.patch_one(changes.row, ROW, whole_from) for tier in self.tiers]
        if len(extra):
            self._patch(extra, extra_from, whole_from)
        if whole_from < self._n_groups:
            self._total(snapshot.n_nodes, whole_from)
        elif self._best is None or len(extra):
            self._rank(union(changes.rows, extra), snapshot, feasible)
        else:
            value = sums[0] if self._classes is not None else float(round(sums[0] * self.tiers[0].per_unit))
            self._best.put(changes.row, value if feasible.item(changes.row) else -np.inf)

    def _follow(  # noqa: PLR0913 — the arguments of all terms, and if time has passed
        self, slot: ScoreSlot, attempt: Attempt, changes: Changes, flips: NDArray[np.intp], feasible: Mask, *, passed: bool
    ) -> Rows | None:
        """Bring a TIMED or GLOBAL term up to date; returns the rows with new points, or None if all terms must be scored again.

        `passed`: time has passed, or metric samples have arrived.
        """
        snapshot = attempt.snapshot
        follow = passed or slot.volatility is Volatility.GLOBAL
        affected = slot.answer.affected(snapshot, changes, feasible, flips) if follow else changes.rows
        skipped, domains = slot.skipped, slot.domains
        if affected is OUTDATED:
            slot.prepare(attempt, feasible)
            if slot.domains != domains:
                return None
            affected = ALL
        if slot.skipped:
            return NO_ROWS if skipped else ALL
        if slot.classes is not None:
            if affected is not None:
                slot.evaluate_classes(snapshot, slot.classes, self._n_feasible > 0)
            return NO_ROWS
        if isinstance(affected, slice):
            slot.evaluate(snapshot, feasible)
            return ALL
        if affected is None:
            affected = NO_ROWS
        if len(affected) and not len(flips) and changes.only(affected):
            return ALL if slot.patch_one(snapshot, changes.row, feasible) else affected
        return slot.patch(snapshot, affected, flips, feasible)

    def _total(self, n_nodes: int, first: int) -> None:
        for tier in self.tiers:
            tier.evaluate(n_nodes, first)
        self._best = None

    def _patch(self, rows: NDArray[np.intp], first: int, stop: int) -> None:
        for tier in self.tiers:
            tier.patch(rows, first, stop)

    def _rank(self, rows: NDArray[np.intp], snapshot: Snapshot, feasible: Mask) -> None:
        """Update the best rows after the sums of some rows changed."""
        if self._best is None:
            arrangement = self._arrangements.arrangement(self._classes, snapshot)
            self._best = BestRows(arrangement, self._ranked(ALL), feasible)
        else:
            self._best.put_all(rows, np.where(feasible[rows], self._ranked(rows), -np.inf))

    def _ranked(self, rows: Rows) -> NDArray[np.float64]:
        """The values of some rows that `BestRows` keeps: sums if points are kept per class, otherwise totals in whole quanta."""
        tier = self.tiers[0]
        return tier.key(rows) if self._classes is None else tier.sums[rows]

    def best(self, uid: str, snapshot: Snapshot, feasible: Mask) -> tuple[int, int]:
        """The best row of the first tier for the pod of this uid, by the tie rule, and the number of equally good rows with it."""
        tier = self.tiers[0]
        if self._best is None:
            rows = self.best_rows(feasible)
            return (int(rows[0]) if len(rows) == 1 else int(rows[best_rows.winner(uid, snapshot.name_hashes[rows])])), len(rows)
        found = self._best.find(tier.added, tier.per_unit)
        return self._best.row(found, best_rows.place(uid, found.n_rows) if found.n_rows > 1 else 0), found.n_rows

    def key_among(self, rows: NDArray[np.intp], number: int = 0) -> NDArray[np.float64]:
        """The totals of some feasible rows in the tier of that number, in whole quanta, as if no other node were feasible."""
        tier = self.tiers[number]
        every = np.ones(len(rows), np.bool_)
        totals = np.zeros(len(rows))
        for slot in self.slots:
            if not slot.skipped and slot.term.tier == tier.tier:
                places = rows if slot.classes is None else slot.classes.ids[rows]
                if slot.relative:
                    raw = slot.raw[places]
                    totals += slot.weight * slot.scale.points(raw, slot.scale.extent(raw, every), every)
                else:
                    totals += slot.weight * slot.points[places]
        quanta: NDArray[np.float64] = np.rint(totals * tier.per_unit)
        return quanta

    def best_rows(self, feasible: Mask) -> NDArray[np.intp]:
        """All rows with the highest total in the first tier."""
        tier = self.tiers[0]
        if self._best is not None:
            return self._best.rows(self._best.find(tier.added, tier.per_unit))
        keys = tier.key(ALL)
        if not feasible.all():
            keys[~feasible] = -np.inf
        return np.flatnonzero(keys == keys.max())


def _groups(lineup: Lineup) -> list[int]:
    """The number of each term's group: one for STATIC terms, one for ROW and TIMED terms, and one for each GLOBAL term."""
    groups: list[int] = []
    for term in lineup.scores:
        volatility = term.plugin.score_volatility
        groups.append(max([ROW, *groups]) + 1 if volatility is Volatility.GLOBAL else STATIC if volatility is Volatility.STATIC else ROW)
    return groups
