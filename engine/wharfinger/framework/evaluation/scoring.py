"""The scores of all nodes by all terms of the rules of one pod, kept up to date, and the best rows.

Raw scores and points are kept per term and node, or per class of nodes where a term depends on topology domains alone. After a change
only the rows concerned are scored again, as each term's volatility allows. A term is normalised again on all rows only if the extent of its
raw scores over the feasible nodes has moved.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wharfinger import steps
from wharfinger.framework.domains import RowClasses
from wharfinger.framework.evaluation import best_rows
from wharfinger.framework.evaluation.best_rows import Arrangements, BestRows
from wharfinger.framework.evaluation.filtering import NO_FLIPS, FeasibleSet, Flips
from wharfinger.framework.plugin_calls import NO_TIMER, Stopwatch
from wharfinger.framework.prepared import ALL, NO_ROWS, OUTDATED, SKIP_ALWAYS, Attempt, Changes, Mask, Rows, union
from wharfinger.framework.rules.pod_rules import PodRules
from wharfinger.framework.rules.points import ROW, STATIC, TierTotals
from wharfinger.framework.rules.score_slot import ScoreSlot
from wharfinger.framework.rules.work import portions
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot


Renewed: TypeAlias = list[tuple[ScoreSlot, Rows | None]]
"""Terms with the rows that have new points; None if all terms must be scored again."""


class Scoring:
    """The scores of one template: the `tiers` with the totals of each row, and the best rows of the first tier."""

    __slots__ = (
        "_arrangements",
        "_best",
        "_by_domain",
        "_classes",
        "_closed",
        "_follows",
        "_moment",
        "_n_groups",
        "_n_possible",
        "_per_unit",
        "_row",
        "_static",
        "_there",
        "call_timer",
        "slots",
        "tiers",
    )

    def __init__(self, pod_rules: PodRules, arrangements: Arrangements, stopwatch: Stopwatch | None) -> None:
        self.slots = tuple(
            ScoreSlot(term, group, None if stopwatch is None else stopwatch.statistics_of(term.plugin))
            for term, group in zip(pod_rules.scores, _groups(pod_rules), strict=True)
        )
        self.call_timer = NO_TIMER
        self._arrangements = arrangements
        self._n_groups = max((slot.group for slot in self.slots), default=ROW) + 1
        self.tiers = tuple(
            TierTotals(tier, pod_rules.quantum(tier), [slot for slot in self.slots if slot.term.tier == tier], self._n_groups)
            for tier in pod_rules.tiers
        )
        self._static: tuple[ScoreSlot, ...] = ()  # the STATIC scores that are not skipped
        self._row: tuple[ScoreSlot, ...] = ()  # the ROW scores that are not skipped
        self._follows: tuple[ScoreSlot, ...] = ()  # the TIMED and GLOBAL scores, which report their changed rows
        self._moment: Hashable = None  # at which the TIMED scores ran; None without any
        self._by_domain: tuple[ScoreSlot, ...] = ()  # the scores that depend on topology domains alone
        self._classes: RowClasses | None = None  # for which the points of these scores, and the verdicts of such filters, are kept
        self._n_possible: NDArray[np.intp] = NO_ROWS  # rows of each class that only filters by domain may reject
        self._closed: NDArray[np.float64] | None = None  # for each class 0, or -inf if a filter rejects it; None if kept per row
        self._there: Mask = np.empty(0, np.bool_)  # the classes with feasible rows
        self._per_unit: float | None = None  # the factor for rounding totals; None without points per class: totals are rounded already
        self._best: BestRows | None = None  # None after every row was scored, until a row changes

    def evaluate(self, attempt: Attempt, feasible_set: FeasibleSet) -> None:
        """Prepare every term and score every node by it."""
        steps.at_once(self.evaluate_in_steps(attempt, feasible_set))

    def evaluate_in_steps(self, attempt: Attempt, feasible_set: FeasibleSet) -> Generator[None]:
        """The steps of `evaluate`; the cluster does not change between them."""
        snapshot, feasible = attempt.snapshot, feasible_set.mask
        self._classes = self._best = self._closed = None
        for portion in portions(self.slots, snapshot.n_nodes):
            for slot in self.call_timer.each("Score", portion):
                slot.classes = None
                slot.prepare(attempt, feasible)
                if not slot.skipped and slot.domains is None:
                    slot.evaluate(snapshot, feasible)
            yield
        self._static = tuple(slot for slot in self.slots if slot.volatility is Volatility.STATIC and not slot.skipped)
        self._row = tuple(slot for slot in self.slots if slot.volatility is Volatility.ROW and not slot.skipped)
        self._follows = tuple(slot for slot in self.slots if slot.volatility >= Volatility.TIMED and slot.answer is not SKIP_ALWAYS)
        self._moment = snapshot.moment if any(slot.volatility is Volatility.TIMED for slot in self._follows) else None
        self._by_domain = tuple(slot for slot in self.slots if slot.domains is not None)
        yield from self._evaluate_domains(snapshot, feasible_set)
        self._total(snapshot.n_nodes, 0)

    def _evaluate_domains(self, snapshot: Snapshot, feasible_set: FeasibleSet) -> Generator[None]:
        """The steps of scoring by the terms that depend on topology domains alone: per class of rows, unless there are too many."""
        filtered = None if feasible_set.classes is None else feasible_set.classes.keys
        self._classes = classes = self._arrangements.common((filtered, *(slot.domains for slot in self._by_domain)), snapshot)
        if classes is not None:
            if classes.cover(filtered):
                self._close(classes, feasible_set)
            self._n_possible = np.bincount(classes.ids[self._possible(feasible_set)], minlength=len(classes.rows))
            self._there = self._classes_there()
        for portion in portions(self._by_domain, snapshot.n_nodes):
            for slot in self.call_timer.each("Score", portion):
                if classes is not None and classes.cover(slot.domains):
                    slot.evaluate_classes(snapshot, classes, self._there)
                else:
                    slot.evaluate(snapshot, feasible_set.mask)
            yield
        self._per_unit = self.tiers[0].per_unit if any(slot.classes is not None for slot in self._by_domain) else None

    def _close(self, classes: RowClasses, feasible_set: FeasibleSet) -> None:
        """Set which classes of rows the filters reject."""
        filtered = feasible_set.classes
        assert filtered is not None  # noqa: S101 — otherwise nothing is covered
        self._closed = np.where(feasible_set.open[filtered.ids[classes.rows]], 0.0, -np.inf)

    def _classes_there(self) -> Mask:
        there = self._n_possible > 0
        return there if self._closed is None else there & (self._closed == 0.0)

    def refresh(self, attempt: Attempt, changes: Changes, flips: Flips, feasible_set: FeasibleSet) -> None:
        """Bring all scores up to date."""
        moment = None if self._moment is None else attempt.snapshot.moment
        passed, self._moment = moment != self._moment, moment
        if len(changes.node_rows) and not self._classes_are_valid():
            self.evaluate(attempt, feasible_set)
            return
        if flips is not NO_FLIPS:
            if self._closed is None:  # a row flips as a whole, for any filter
                flips = Flips(flips.rows, flips.rows)
            if self._classes is not None:
                self._follow_flips(self._classes, flips, feasible_set)
        if changes.row >= 0 and (flips is NO_FLIPS or changes.only(flips.possible)):
            self._refresh_one(attempt, changes, flips, feasible_set, passed=passed)
        else:
            self._refresh_rows(attempt, changes, flips, feasible_set, passed=passed)

    def _classes_are_valid(self) -> bool:
        """True if no points depend on topology domains, or all that do are kept per class and all nodes are still in the same domains."""
        if self._classes is None:
            return not self._by_domain
        return self._classes.is_valid and all(slot.classes is not None for slot in self._by_domain)

    def _follow_flips(self, classes: RowClasses, flips: Flips, feasible_set: FeasibleSet) -> None:
        """Follow the classes with feasible rows."""
        if len(flips.possible):
            ids, now = classes.ids[flips.possible], self._possible(feasible_set)[flips.possible]
            n_classes = len(classes.rows)
            self._n_possible = self._n_possible + np.bincount(ids[now], minlength=n_classes) - np.bincount(ids[~now], minlength=n_classes)
        if self._closed is not None:
            self._close(classes, feasible_set)
        there = self._classes_there()
        if not np.array_equal(there, self._there):
            self._there = there
            for slot in self._by_domain:
                if slot.classes is not None:
                    slot.normalise_classes(there)

    def _possible(self, feasible_set: FeasibleSet) -> Mask:
        """The rows that are feasible except for closed classes: these are left to the search of the best row."""
        return feasible_set.mask if self._closed is None else feasible_set.possible

    def _refresh_rows(self, attempt: Attempt, changes: Changes, flips: Flips, feasible_set: FeasibleSet, *, passed: bool) -> None:
        snapshot, feasible = attempt.snapshot, feasible_set.mask
        renewed: Renewed = [
            *(
                (slot, slot.patch(snapshot, changes.node_rows, flips.rows, feasible))
                for slot in self.call_timer.each("Score", self._static)
            ),
            *((slot, slot.patch(snapshot, changes.rows, flips.rows, feasible)) for slot in self.call_timer.each("Score", self._row)),
            *(
                (slot, self._follow(slot, attempt, changes, flips.rows, feasible, passed=passed))
                for slot in self.call_timer.each("Score", self._follows)
            ),
        ]
        found = self._touched(renewed)
        if found is None:
            self.evaluate(attempt, feasible_set)
            return
        patched, patched_from, whole_from = found
        if len(patched):
            self._patch(patched, patched_from, whole_from)
        if whole_from < self._n_groups:
            self._total(snapshot.n_nodes, whole_from)
        elif len(patched) or len(flips.possible):
            self._rank(union(patched, flips.possible), snapshot, self._possible(feasible_set))

    def _refresh_one(self, attempt: Attempt, changes: Changes, flips: Flips, feasible_set: FeasibleSet, *, passed: bool) -> None:
        """`refresh` for a change of one row; other rows become feasible or infeasible by the domains that they are in, or not."""
        row = changes.row
        found = self._touched(self._renew_one(attempt, changes, flips.rows, feasible_set.mask, passed=passed))
        if found is None:
            self.evaluate(attempt, feasible_set)
            return
        extra, extra_from, whole_from = found
        sums = [tier.patch_one(row, ROW, whole_from) for tier in self.tiers]
        if len(extra):
            self._patch(extra, extra_from, whole_from)
        if whole_from < self._n_groups:
            self._total(attempt.snapshot.n_nodes, whole_from)
        elif self._best is None or len(extra):
            self._rank(union(changes.rows, extra), attempt.snapshot, self._possible(feasible_set))
        else:
            value = sums[0] if self._per_unit is not None else float(round(sums[0] * self.tiers[0].per_unit))
            self._best.put(row, value if self._possible(feasible_set).item(row) else -np.inf)

    def _renew_one(self, attempt: Attempt, changes: Changes, flips: NDArray[np.intp], feasible: Mask, *, passed: bool) -> Renewed:
        """Bring the terms up to date after a change of one row; new points of this row alone, except for STATIC terms, are not reported."""
        snapshot = attempt.snapshot
        renewed: Renewed = []
        if len(flips):
            renewed = [(slot, slot.patch(snapshot, NO_ROWS, flips, feasible)) for slot in self._static if slot.relative]
        for slot in self.call_timer.each("Score", self._row):
            if slot.relative and len(flips):
                renewed.append((slot, slot.patch(snapshot, changes.rows, flips, feasible)))
            elif slot.patch_one(snapshot, changes.row, feasible):
                renewed.append((slot, ALL))
        for slot in self.call_timer.each("Score", self._follows):
            touched = self._follow(slot, attempt, changes, flips, feasible, passed=passed)
            if touched is None or (touched is not NO_ROWS and not changes.only(touched)):
                renewed.append((slot, touched))
        return renewed

    def _touched(self, renewed: Renewed) -> tuple[NDArray[np.intp], int, int] | None:
        """The rows with new points, the first group of these, and the first group with new points on all rows.

        None if all terms must be scored again.
        """
        whole_from = patched_from = self._n_groups
        patched = NO_ROWS
        for slot, touched in renewed:
            if touched is None:
                return None
            if isinstance(touched, slice):
                whole_from = min(whole_from, slot.group)
            elif len(touched):
                patched_from = min(patched_from, slot.group)
                patched = union(patched, touched)
        return patched, patched_from, whole_from

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
                slot.evaluate_classes(snapshot, slot.classes, self._there)
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

    def _rank(self, rows: NDArray[np.intp], snapshot: Snapshot, possible: Mask) -> None:
        """Update the best rows after the sums of some rows changed."""
        if self._best is None:
            self._best = best_rows.best_rows(self._arrangements, self._classes, snapshot, self._ranked(ALL), possible)
        else:
            self._best.put_all(rows, np.where(possible[rows], self._ranked(rows), -np.inf))

    def _ranked(self, rows: Rows) -> NDArray[np.float64]:
        """The values of some rows that `BestRows` keeps: sums if points are kept per class, otherwise totals in whole quanta."""
        tier = self.tiers[0]
        return tier.key(rows) if self._per_unit is None else tier.sums[rows]

    @property
    def _added(self) -> list[NDArray[np.float64]]:
        """The points that are added to the sums of rows by their class."""
        added = self.tiers[0].added
        return added if self._closed is None else [*added, self._closed]

    def best(self, uid: str, snapshot: Snapshot, feasible: Mask) -> tuple[int, int]:
        """The best row of the first tier for the pod with this uid, by the tie rule, and the number of equally good rows including it."""
        if self._best is None:
            rows = self.best_rows(feasible)
            return (int(rows[0]) if len(rows) == 1 else int(rows[best_rows.winner(uid, snapshot.name_hashes[rows])])), len(rows)
        found = self._best.find(self._added, self._per_unit)
        return found.row(best_rows.place(uid, found.n_rows) if found.n_rows > 1 else 0), found.n_rows

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
            return self._best.find(self._added, self._per_unit).rows()
        keys = tier.key(ALL)
        if not feasible.all():
            keys[~feasible] = -np.inf
        return np.flatnonzero(keys == keys.max())


def _groups(pod_rules: PodRules) -> list[int]:
    """The number of each term's group: one for STATIC terms, one for ROW and TIMED terms, and one for each GLOBAL term."""
    groups: list[int] = []
    for term in pod_rules.scores:
        volatility = term.plugin.score_volatility
        groups.append(max([ROW, *groups]) + 1 if volatility is Volatility.GLOBAL else STATIC if volatility is Volatility.STATIC else ROW)
    return groups
