"""The scores of all nodes for the pods of one template, kept up to date, and the best rows.

Raw scores and points are kept per term and node, or per class of nodes where a term depends on topology domains alone. After a change
only the rows concerned are scored again, as each term's volatility allows. A term is normalised again on all rows only if the extent of its
raw scores over the feasible nodes has moved.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework import plugin_faults
from wharfinger.framework.evaluation import best_rows
from wharfinger.framework.evaluation.best_rows import Arrangements, BestRows, Classes
from wharfinger.framework.evaluation.lineup import Lineup, ScoreTerm
from wharfinger.framework.evaluation.points import FIRST_GLOBAL, NO_EXTENT, ROW, STATIC, Extent, TierTotals
from wharfinger.framework.evaluation.question import ALL, NO_ROWS, Changes, Question, union
from wharfinger.framework.evaluation.stopwatch import NO_LAPS, Effort, Stopwatch
from wharfinger.framework.extension import ScorePlugin
from wharfinger.framework.verdict import Mask, Rows
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot

N_ENDS = 2  # an extent of two numbers is the lowest and the highest raw score


class ScoreSlot:
    """The raw scores and points of one term, `(n_nodes,)` or, where there are `classes`, `(n_classes,)`; and the extent of the raw scores.

    `group` is the number of the group of terms that it is summed with (see `points`). `_holders` counts the feasible nodes at each end of
    the extent, None until it is needed: while other nodes have the same raw score, a change of one node does not move the extent.
    """

    __slots__ = (
        "_holders",
        "classes",
        "effort",
        "extent",
        "group",
        "one",
        "plugin",
        "points",
        "raw",
        "relative",
        "scale",
        "skipped",
        "term",
        "volatility",
        "weight",
    )

    def __init__(self, term: ScoreTerm, group: int, effort: Effort | None = None) -> None:
        self.term = term
        self.group = group
        self.effort = effort
        self.plugin = term.plugin
        self.one = None if type(term.plugin).score_one is ScorePlugin.score_one else term.plugin.score_one
        self.scale = term.scale
        self.relative = term.scale.relative
        self.weight = term.weight
        self.volatility = term.plugin.score_volatility
        self.skipped = False
        self.classes: Classes | None = None
        self.raw: NDArray[Any] = np.empty(0)
        self.points: NDArray[Any] = self.raw
        self.extent: Extent = NO_EXTENT
        self._holders: list[int] | None = None

    def prepare(self, asked: Question, feasible: Mask) -> bool:
        """Run PreScore; True if the term became skipped or is skipped no longer."""
        before = self.skipped
        answer = self.plugin.pre_score(*asked, feasible)
        plugin_faults.pre_score(self.plugin.name, answer)
        self.skipped = answer is not None
        return self.skipped is not before

    def evaluate(self, asked: Question, feasible: Mask) -> None:
        """Score every node."""
        self.classes = None
        self.raw = self._ask(asked, ALL, asked.snapshot.n_nodes).copy()  # what a plugin returns stays the plugin's
        self._normalise(self.scale.extent(self.raw, feasible), feasible)

    def evaluate_classes(self, asked: Question, classes: Classes, there: Mask) -> None:
        """Score one row of each class; `there` (n_classes,) bool is true for classes with feasible rows."""
        self.classes = classes
        self.raw = self._ask(asked, classes.rows, len(classes.rows)).copy()
        self._normalise(self.scale.extent(self.raw, there), there)

    def normalise_classes(self, there: Mask) -> None:
        """Compute the points again after the set of classes with feasible rows, `there`, changed."""
        if self.relative:
            self._normalise(self.scale.extent(self.raw, there), there)

    def at(self, row: int) -> tuple[float, float]:
        """The raw score and the points of a row."""
        index = row if self.classes is None else self.classes.ids.item(row)
        return self.raw.item(index), self.points.item(index)

    def patch(self, asked: Question, rows: NDArray[np.intp], flips: NDArray[np.intp], feasible: Mask) -> Rows:
        """Score some rows, and compute the points of these rows and of `flips` again; returns the rows with new points.

        `flips` are the rows that became feasible or infeasible.
        """
        touched = union(rows, flips) if self.relative else rows
        if not len(touched):
            return NO_ROWS
        before = self.raw[touched]
        if len(rows):
            self.raw[rows] = self._ask(asked, rows, len(rows))
        after = self.raw[touched]
        self._holders = None
        if self.relative and self._moved(np.concatenate((before, after)), feasible):
            return ALL
        self.points[touched] = self.scale.points(after, self.extent, feasible[touched])
        return touched

    def patch_one(self, asked: Question, changes: Changes, feasible: Mask) -> bool:
        """`patch` for a change of one row whose feasibility stayed the same; True if all points are new."""
        row = changes.row
        if self.one is None:
            value = self._ask(asked, changes.rows, 1).item()
        else:
            value = self.scale.checked(self.one(*asked, row))
            if self.effort is not None:
                self.effort.evaluated += 1
        before = self.raw.item(row)
        if value == before:
            return False
        self.raw[row] = value
        if not self.relative:
            self.points[row] = self.scale.point(value, self.extent)
        elif feasible.item(row):
            if self._may_move(before, value, feasible) and self._moved(np.array((before, value)), feasible):
                return True
            self.points[row] = self.scale.point(value, self.extent)
        return False

    def _ask(self, asked: Question, rows: Rows, n_rows: int) -> NDArray[Any]:
        if self.effort is not None:
            self.effort.evaluated += n_rows
        return self.scale.raw(self.plugin.score(*asked, rows), n_rows)

    def _may_move(self, before: float, value: float, feasible: Mask) -> bool:
        """True if the extent may have moved after one feasible node's raw score changed from `before` to `value`."""
        if len(self.extent) != N_ENDS or not self.extent[0] <= value <= self.extent[1]:
            return True
        if self._holders is None:
            self._holders = [int(np.count_nonzero((self.raw == end) & feasible)) for end in self.extent]
        else:
            for index, end in enumerate(self.extent):
                self._holders[index] += (value == end) - (before == end)
        return not all(self._holders)

    def _moved(self, values: NDArray[Any], feasible: Mask) -> bool:
        """True if the extent moved after feasible nodes lost or got the raw scores `values`; then all points are computed again."""
        if not self.scale.moves(self.extent, values):
            return False
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
        "_classes",
        "_domain_keys",
        "_global",
        "_moment",
        "_n_feasible",
        "_n_groups",
        "_row",
        "_static",
        "_timed",
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
        self._static: tuple[ScoreSlot, ...] = ()  # the STATIC scores, and in `_row` the ROW and TIMED ones, that are not skipped
        self._row: tuple[ScoreSlot, ...] = ()
        self._timed = tuple(slot for slot in self.slots if slot.volatility is Volatility.TIMED)
        self._moment: Hashable = None  # at which the TIMED scores ran
        self._global = tuple(slot for slot in self.slots if slot.volatility is Volatility.GLOBAL)
        self._domain_keys: dict[ScoreSlot, tuple[str, ...]] = {}  # of the scores that depend on topology domains alone
        self._classes: Classes | None = None  # for which the points of these scores are kept
        self._n_feasible: NDArray[np.intp] = NO_ROWS  # feasible rows of each class
        self._best: BestRows | None = None  # None after every row was scored, until a row changes

    def evaluate(self, asked: Question, feasible: Mask) -> None:
        """Score every node by every term."""
        self._domain_keys.clear()
        self._classes = self._best = None
        for slot in self.laps.each("Score", self.slots):
            slot.classes = None
            slot.prepare(asked, feasible)
            if slot.skipped:
                continue
            keys = _domain_keys(slot, asked)
            if keys is None:
                slot.evaluate(asked, feasible)
            else:
                self._domain_keys[slot] = keys
        if self._domain_keys:
            self._evaluate_domains(asked, feasible)
        self._arrange(asked)
        self._total(asked.snapshot.n_nodes, 0)

    def _evaluate_domains(self, asked: Question, feasible: Mask) -> None:
        """Score by the terms that depend on topology domains alone: per class of rows, unless there are too many."""
        kept = [slot for slot, keys in self._domain_keys.items() if self._arrangements.classes(keys, asked.snapshot) is not None]
        keys = tuple(sorted({key for slot in kept for key in self._domain_keys[slot]}))
        self._classes = classes = self._arrangements.classes(keys, asked.snapshot) if kept else None
        if classes is not None:
            self._n_feasible = np.bincount(classes.ids[feasible], minlength=len(classes.rows))
        for slot in self.laps.each("Score", tuple(self._domain_keys)):
            if classes is not None and slot in kept:
                slot.evaluate_classes(asked, classes, self._n_feasible > 0)
            else:
                slot.evaluate(asked, feasible)

    def _arrange(self, asked: Question) -> None:
        """Keep the terms that PreScore did not skip, by volatility, and the moment at which the TIMED terms ran."""
        self._static = tuple(slot for slot in self.slots if slot.volatility is Volatility.STATIC and not slot.skipped)
        self._row = tuple(slot for slot in self.slots if slot.volatility in {Volatility.ROW, Volatility.TIMED} and not slot.skipped)
        self._moment = asked.snapshot.moment

    def refresh(self, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> None:
        """Bring all scores up to date; `flips` are the rows that became feasible or infeasible."""
        if len(changes.node_rows) and not self._stands():
            self.evaluate(asked, feasible)
        elif changes.row >= 0 and not len(flips):
            self._refresh_one(asked, changes, feasible)
        else:
            self._refresh_rows(asked, changes, flips, feasible)

    def _stands(self) -> bool:
        """True if no points depend on topology domains, or all that do are kept per class and all nodes are still in the same domains."""
        if not self._domain_keys:
            return True
        return self._classes is not None and self._classes.stands and all(slot.classes is not None for slot in self._domain_keys)

    def _refresh_rows(self, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> None:
        if len(flips) and self._classes is not None:
            self._count_flips(flips, feasible)
        whole_from, patched_from = self._renew_timed(asked, feasible), self._n_groups
        patched: NDArray[np.intp] = flips
        for slot, touched in self._renewed(asked, changes, flips, feasible):
            if touched is None:
                self.evaluate(asked, feasible)
                return
            if isinstance(touched, slice):
                whole_from = min(whole_from, slot.group)
            elif len(touched):
                patched_from = min(patched_from, slot.group)
                patched = union(patched, touched)
        if whole_from == self._n_groups:
            patched_from = min(patched_from, whole_from - 1)
        if len(patched):
            self._patch(patched, patched_from, whole_from)
        if whole_from < self._n_groups:
            self._total(asked.snapshot.n_nodes, whole_from)
        elif len(patched):
            self._rank(patched, asked, feasible)

    def _count_flips(self, flips: NDArray[np.intp], feasible: Mask) -> None:
        assert self._classes is not None  # noqa: S101 — called only if there are classes
        ids, n_classes = self._classes.ids[flips], len(self._classes.rows)
        now = feasible[flips]
        before = self._n_feasible
        self._n_feasible = before + np.bincount(ids[now], minlength=n_classes) - np.bincount(ids[~now], minlength=n_classes)
        there = self._n_feasible > 0
        if not np.array_equal(there, before > 0):
            for slot in self._domain_keys:
                if slot.classes is not None and not slot.skipped:
                    slot.normalise_classes(there)

    def _renewed(self, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> list[tuple[ScoreSlot, Rows | None]]:
        """Each term with the rows on which its points are new; None in place of rows if all terms must be scored again."""
        each = self.laps.each
        return [
            *((slot, slot.patch(asked, changes.node_rows, flips, feasible)) for slot in each("Score", self._static)),
            *((slot, slot.patch(asked, changes.rows, flips, feasible)) for slot in each("Score", self._row)),
            *((slot, self._refresh_global(slot, asked, changes, flips, feasible)) for slot in each("Score", self._global)),
        ]

    def _refresh_one(self, asked: Question, changes: Changes, feasible: Mask) -> None:
        """`refresh` for a change of one row whose feasibility stayed the same."""
        whole_from, extra = self._renew_timed(asked, feasible), NO_ROWS
        for slot in self.laps.each("Score", self._row):
            if slot.patch_one(asked, changes, feasible):
                whole_from = ROW
        for slot in self.laps.each("Score", self._global):
            touched = self._refresh_global(slot, asked, changes, NO_ROWS, feasible)
            if touched is None:
                self.evaluate(asked, feasible)
                return
            if isinstance(touched, slice):
                whole_from = min(whole_from, slot.group)
            elif len(touched) and not changes.only(touched):
                extra = union(extra, touched)
        sums = [tier.patch_one(changes.row, ROW, whole_from) for tier in self.tiers]
        if len(extra):
            self._patch(extra, FIRST_GLOBAL, whole_from)
        if whole_from < self._n_groups:
            self._total(asked.snapshot.n_nodes, whole_from)
        elif self._best is None or len(extra):
            self._rank(union(changes.rows, extra), asked, feasible)
        else:
            value = sums[0] if self._classes is not None else float(round(sums[0] * self.tiers[0].per_unit))
            self._best.put(changes.row, value if feasible.item(changes.row) else -np.inf)

    def _renew_timed(self, asked: Question, feasible: Mask) -> int:
        """Score by the TIMED terms again if time has passed or metric samples have arrived.

        Returns the first group whose points are new, or the number of groups if there is none.
        """
        if not self._timed or asked.snapshot.moment == self._moment:
            return self._n_groups
        for slot in self.laps.each("Score", self._timed):
            slot.prepare(asked, feasible)
            if not slot.skipped:
                slot.evaluate(asked, feasible)
        self._arrange(asked)
        return ROW

    def _refresh_global(self, slot: ScoreSlot, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask) -> Rows | None:
        """Bring a GLOBAL term up to date; returns the rows with new points, or None if all terms must be scored again."""
        changed = slot.plugin.score_changes(*asked, changes.since, flips)
        if changed is None:
            return NO_ROWS if slot.skipped or slot.classes is not None else slot.patch(asked, NO_ROWS, flips, feasible)
        toggled = slot.prepare(asked, feasible)
        if toggled and slot in self._domain_keys:
            return None
        if slot.skipped:
            return ALL if toggled else NO_ROWS
        if _domain_keys(slot, asked) != self._domain_keys.get(slot):
            return None
        return self._score_global(slot, asked, changes, flips, feasible, ALL if toggled else changed)

    def _score_global(  # noqa: PLR0913, PLR0917 — the arguments of all terms, and the changed rows
        self, slot: ScoreSlot, asked: Question, changes: Changes, flips: NDArray[np.intp], feasible: Mask, changed: Rows
    ) -> Rows:
        """Score by a GLOBAL term that is not skipped; returns the rows with new points."""
        if slot.classes is not None:
            slot.evaluate_classes(asked, slot.classes, self._n_feasible > 0)
            return NO_ROWS
        if isinstance(changed, slice):
            slot.evaluate(asked, feasible)
            return ALL
        if len(changed) and not len(flips) and changes.only(changed):
            return ALL if slot.patch_one(asked, changes, feasible) else changed
        return slot.patch(asked, changed, flips, feasible)

    def _total(self, n_nodes: int, first: int) -> None:
        for tier in self.tiers:
            tier.evaluate(n_nodes, first)
        self._best = None

    def _patch(self, rows: NDArray[np.intp], first: int, stop: int) -> None:
        for tier in self.tiers:
            tier.patch(rows, first, stop)

    def _rank(self, rows: NDArray[np.intp], asked: Question, feasible: Mask) -> None:
        """Update the best rows after the sums of some rows changed."""
        if self._best is None:
            arrangement = self._arrangements.arrangement(self._classes, asked.snapshot)
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

    def best_rows(self, feasible: Mask) -> NDArray[np.intp]:
        """All rows with the highest total in the first tier."""
        tier = self.tiers[0]
        if self._best is not None:
            return self._best.rows(self._best.find(tier.added, tier.per_unit))
        keys = tier.key(ALL)
        if not feasible.all():
            keys[~feasible] = -np.inf
        return np.flatnonzero(keys == keys.max())


def _domain_keys(slot: ScoreSlot, asked: Question) -> tuple[str, ...] | None:
    """The topology keys that alone decide a GLOBAL term's points, sorted; None if the points depend on more, or the term is not GLOBAL."""
    if slot.volatility is not Volatility.GLOBAL or not slot.scale.by_class:
        return None
    keys = slot.plugin.score_domains(*asked)
    return None if keys is None else tuple(sorted(keys))


def _groups(lineup: Lineup) -> list[int]:
    """The number of each term's group: one for STATIC terms, one for ROW and TIMED terms, and one for each GLOBAL term."""
    groups: list[int] = []
    for term in lineup.scores:
        volatility = term.plugin.score_volatility
        groups.append(max([ROW, *groups]) + 1 if volatility is Volatility.GLOBAL else STATIC if volatility is Volatility.STATIC else ROW)
    return groups
