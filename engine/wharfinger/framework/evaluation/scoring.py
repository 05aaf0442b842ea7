"""The scores of all nodes for the pods of one template, kept up to date, and the best rows.

Raw scores and points are kept per term and node, or per class of nodes where a term depends on topology domains alone. After a change
only the rows concerned are scored again, as each term's volatility allows. A term is normalised again on all rows only if the extent of its
raw scores over the feasible nodes has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.evaluation import best_rows
from wharfinger.framework.evaluation.best_rows import Arrangements, BestRows, Classes
from wharfinger.framework.evaluation.changes import ALL, NO_ROWS, Changes, union
from wharfinger.framework.evaluation.lineup import Lineup, ScoreTerm
from wharfinger.framework.evaluation.points import NO_EXTENT, ROW, STATIC, Extent, TierTotals
from wharfinger.framework.evaluation.stopwatch import NO_LAPS, Effort, Stopwatch
from wharfinger.framework.prepared import OUTDATED, SKIP, SKIP_ALWAYS, Attempt, PreparedScore, Skip
from wharfinger.framework.verdict import Mask, Rows
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot

N_ENDS = 2  # an extent of two numbers is the lowest and the highest raw score


class ScoreSlot:
    """A score prepared for one template (`rule`, if the `answer` is one), with its raw scores and points, and the extent of the raw scores.

    Both are `(n_nodes,)` or, where there are `classes`, `(n_classes,)`. `group` is the number of the group of terms that it is summed with
    (see `points`). `domains` are the topology keys that alone decide its points; None if they depend on more. `_holders` counts the
    feasible nodes at each end of the extent, None until it is needed: while other nodes have the same raw score, a change of one node does
    not move the extent.
    """

    __slots__ = (
        "_holders",
        "answer",
        "classes",
        "domains",
        "effort",
        "extent",
        "group",
        "plugin",
        "points",
        "raw",
        "relative",
        "rule",
        "scale",
        "skipped",
        "term",
        "volatility",
        "weight",
    )

    rule: PreparedScore

    def __init__(self, term: ScoreTerm, group: int, effort: Effort | None = None) -> None:
        self.term = term
        self.group = group
        self.effort = effort
        self.plugin = term.plugin
        self.scale = term.scale
        self.relative = term.scale.relative
        self.weight = term.weight
        self.volatility = term.plugin.score_volatility
        self.answer: PreparedScore | Skip = SKIP
        self.skipped = False
        self.domains: tuple[str, ...] | None = None
        self.classes: Classes | None = None
        self.raw: NDArray[Any] = np.empty(0)
        self.points: NDArray[Any] = self.raw
        self.extent: Extent = NO_EXTENT
        self._holders: list[int] | None = None

    def prepare(self, attempt: Attempt, feasible: Mask) -> None:
        """Prepare the score; it may be skipped then, or be skipped no longer."""
        self.answer = self.plugin.prepare_score(attempt, feasible)
        self.skipped = isinstance(self.answer, Skip)
        self.domains = None
        if not isinstance(self.answer, Skip):
            self.rule = self.answer
            if self.volatility is Volatility.GLOBAL and self.scale.by_class:
                self.domains = self.rule.domains

    def evaluate(self, snapshot: Snapshot, feasible: Mask) -> None:
        """Score every node."""
        self.classes = None
        self.raw = self._ask(snapshot, ALL, snapshot.n_nodes).copy()  # what a plugin returns stays the plugin's
        self._normalise(self.scale.extent(self.raw, feasible), feasible)

    def evaluate_classes(self, snapshot: Snapshot, classes: Classes, there: Mask) -> None:
        """Score one row of each class; `there` (n_classes,) bool is true for classes with feasible rows."""
        self.classes = classes
        self.raw = self._ask(snapshot, classes.rows, len(classes.rows)).copy()
        self._normalise(self.scale.extent(self.raw, there), there)

    def normalise_classes(self, there: Mask) -> None:
        """Compute the points again after the set of classes with feasible rows, `there`, changed."""
        if self.relative:
            self._normalise(self.scale.extent(self.raw, there), there)

    def at(self, row: int) -> tuple[float, float]:
        """The raw score and the points of a row."""
        index = row if self.classes is None else self.classes.ids.item(row)
        return self.raw.item(index), self.points.item(index)

    def patch(self, snapshot: Snapshot, rows: NDArray[np.intp], flips: NDArray[np.intp], feasible: Mask) -> Rows:
        """Score some rows, and compute the points of these rows and of `flips` again; returns the rows with other points than before.

        `flips` are the rows that became feasible or infeasible.
        """
        touched = union(rows, flips) if self.relative else rows
        if not len(touched):
            return NO_ROWS
        raw_before, points_before = self.raw[touched], self.points[touched]
        if len(rows):
            self.raw[rows] = self._ask(snapshot, rows, len(rows))
        raw, now = self.raw[touched], feasible[touched]
        if self.relative:
            before = now ^ _among(touched, flips, len(feasible)) if len(flips) else now
            if self._moved_by(raw_before[before], raw[now], feasible):
                return ALL
        self.points[touched] = points = self.scale.points(raw, self.extent, now)
        different: NDArray[np.intp] = touched[points != points_before]
        return different

    def patch_one(self, snapshot: Snapshot, row: int, feasible: Mask) -> bool:
        """`patch` for a change of one row whose feasibility stayed the same; True if all points are new."""
        value = self.rule.raw_at(snapshot, row)
        if self.effort is not None:
            self.effort.evaluated += 1
        before = self.raw.item(row)
        if value == before:
            return False
        self.raw[row] = value
        if not self.relative:
            if self.points is not self.raw:
                self.points[row] = self.scale.point(value, self.extent)
        elif feasible.item(row):
            inside = len(self.extent) == N_ENDS and self.extent[0] <= value <= self.extent[1]
            if self._moved(lambda end: (value == end) - (before == end), feasible, inside=inside):
                return True
            self.points[row] = self.scale.point(value, self.extent)
        return False

    def _ask(self, snapshot: Snapshot, rows: Rows, n_rows: int) -> NDArray[Any]:
        if self.effort is not None:
            self.effort.evaluated += n_rows
        return self.rule.raw(snapshot, rows)

    def _moved_by(self, lost: NDArray[Any], gained: NDArray[Any], feasible: Mask) -> bool:
        """`_moved` after feasible nodes lost some raw scores and got others."""
        inside = len(self.extent) == N_ENDS and bool(((gained >= self.extent[0]) & (gained <= self.extent[1])).all())
        return self._moved(lambda end: int(np.count_nonzero(gained == end) - np.count_nonzero(lost == end)), feasible, inside=inside)

    def _moved(self, more: Callable[[float], int], feasible: Mask, *, inside: bool) -> bool:
        """True if the extent moved, after which all points are new.

        `more` is the number of additional feasible nodes with a raw score, `inside`: all new raw scores are inside of the extent.
        """
        if inside:
            if self._holders is None:
                self._holders = [int(np.count_nonzero((self.raw == end) & feasible)) for end in self.extent]
            else:
                for index, end in enumerate(self.extent):
                    self._holders[index] += more(end)
            if all(self._holders):
                return False
        self._holders = None
        extent = self.scale.extent(self.raw, feasible)
        if extent == self.extent:
            return False
        self._normalise(extent, feasible)
        return True

    def _normalise(self, extent: Extent, feasible: Mask) -> None:
        self.extent = extent
        self._holders = None
        self.points = self.scale.points(self.raw, extent, feasible)


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


def _among(rows: NDArray[np.intp], others: NDArray[np.intp], n_nodes: int) -> Mask:
    """True for the rows that are among others, `(n_rows,) bool`."""
    among = np.zeros(n_nodes, np.bool_)
    among[others] = True
    return among[rows]


def _groups(lineup: Lineup) -> list[int]:
    """The number of each term's group: one for STATIC terms, one for ROW and TIMED terms, and one for each GLOBAL term."""
    groups: list[int] = []
    for term in lineup.scores:
        volatility = term.plugin.score_volatility
        groups.append(max([ROW, *groups]) + 1 if volatility is Volatility.GLOBAL else STATIC if volatility is Volatility.STATIC else ROW)
    return groups
