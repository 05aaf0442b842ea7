"""The set of feasible nodes for the pods of one template, kept up to date.

Every filter's verdicts are kept per node. A filter that depends on topology domains alone opens or closes whole classes of rows
(`domains.RowClasses`): a zone that is full is one flag, and not a new verdict for each of its nodes. After a change, filters run again only
on the changed rows or on the classes, as each filter's volatility allows, and the feasible set is patched. The result always equals a
fresh run over all rows.

Preemption nominates nodes for pods. The pod must fit such a node twice: with the nominated pods of equal or higher priority added, and
without them. Few nodes have nominated pods; their results are kept until something on the node changes.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger import steps
from wharfinger.framework.domains import RowClasses
from wharfinger.framework.evaluation import filter_slot
from wharfinger.framework.evaluation.best_rows import Arrangements
from wharfinger.framework.evaluation.filter_slot import FilterSlot, FilterTrial, NodeSet
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.plugin_calls import NO_TIMER, Stopwatch
from wharfinger.framework.prepared import (
    ALL,
    NO_ROWS,
    OUTDATED,
    SKIP_ALWAYS,
    AllocatingFilter,
    Attempt,
    Changes,
    ClaimAllocation,
    Mask,
    Reason,
    Rows,
    union,
)
from wharfinger.framework.rules.work import portions
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.columns.arrays import distinct

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot

MAX_FAULTS = 100
"""Nodes whose errors are put into words, of those with an error that ends the cycle: the first ones by name."""


class Filtering:
    """The feasible set of one template, or the `refusal` of a PreFilter."""

    __slots__ = (
        "_arrangements",
        "_by_domain",
        "_by_object",
        "_elsewhere",
        "_follows",
        "_moment",
        "_room",
        "_row",
        "_static",
        "allocating",
        "call_timer",
        "feasible_set",
        "local",
        "node_set",
        "refusal",
        "slots",
    )

    def __init__(self, plugins: tuple[FilterPlugin, ...], arrangements: Arrangements, stopwatch: Stopwatch | None) -> None:
        self.slots = tuple(FilterSlot(plugin, None if stopwatch is None else stopwatch.statistics_of(plugin)) for plugin in plugins)
        self.call_timer = NO_TIMER
        self._static: tuple[FilterSlot, ...] = ()  # the STATIC filters that are not skipped
        self._row: tuple[FilterSlot, ...] = ()  # the ROW filters that are not skipped
        self._follows: tuple[FilterSlot, ...] = ()  # the TIMED and GLOBAL filters, which report their changed rows
        self._elsewhere: tuple[FilterSlot, ...] = ()  # those that are not skipped, with verdicts per row
        self._by_domain: tuple[FilterSlot, ...] = ()  # those with verdicts per class of rows
        self._arrangements = arrangements
        self.allocating: tuple[FilterSlot, ...] = ()  # the filters that allocate, and may fail
        self._moment: Hashable = None  # at which the TIMED filters ran; None without any
        self.refusal: filter_slot.Refusal | None = None
        self.node_set: NodeSet | None = None
        self.feasible_set = FeasibleSet(np.empty(0, np.bool_))
        self._room = NominatedRoom()
        self._by_object: Mask = self.feasible  # the nodes that pass the STATIC filters
        self.local: Mask = self.feasible  # those of them that are in the node set and pass the ROW filters

    @property
    def feasible(self) -> Mask:
        """The feasible nodes, `(n_nodes,) bool`."""
        return self.feasible_set.mask

    @property
    def count(self) -> int:
        """The number of feasible nodes."""
        return self.feasible_set.count

    @property
    def by_object(self) -> Mask:
        """The nodes that no filter rejects because of the node object alone, `(n_nodes,) bool`."""
        return self._by_object.copy()

    def reached(self, plugin: str) -> Mask | None:
        """The nodes that no filter before that of a plugin rejects, `(n_nodes,) bool`; None if its PreFilter did not run."""
        before = list(itertools.takewhile(lambda slot: slot.plugin.name != plugin, self.slots))
        if self.refusal is None:
            return self._passing(before)
        if not self.refusal.resolvable and any(slot.plugin.name == self.refusal.plugin for slot in before):
            return None
        return self._passing(())

    def passing_others(self, plugin: str) -> Mask:
        """The nodes that no filter but that of a plugin rejects, `(n_nodes,) bool`; the pod is not refused."""
        return self._passing(slot for slot in self.slots if slot.plugin.name != plugin)

    def _passing(self, slots: Iterable[FilterSlot]) -> Mask:
        """The nodes of the node set that none of these filters rejects, `(n_nodes,) bool`, a new array."""
        mask = np.ones(len(self.feasible), np.bool_) if self.node_set is None else self.node_set.mask.copy()
        for slot in slots:
            if not slot.skipped:
                mask &= slot.bits == 0
        return mask

    def faults(self, attempt: Attempt) -> Mapping[str, str]:
        """The texts of errors that end the cycle, by node in order of names, `MAX_FAULTS` at most; empty if there is none."""
        found: dict[str, str] = {}
        for slot in self.allocating if self.refusal is None else ():
            rule = _allocating(slot)
            faulty = (slot.bits & slot.bits.dtype.type(rule.fault_bits)) != 0
            reached = self.reached(slot.plugin.name) if faulty.any() else None
            rows = [] if reached is None else np.flatnonzero(faulty & reached).tolist()
            for row in heapq.nsmallest(MAX_FAULTS, rows, attempt.snapshot.names.__getitem__):
                text = f'running "{slot.plugin.name}" filter plugin: {rule.fault_at(attempt, row)}'
                found.setdefault(attempt.snapshot.names[row], text)
        return dict(sorted(found.items())[:MAX_FAULTS])

    def allocations(self, attempt: Attempt, row: int) -> tuple[ClaimAllocation, ...]:
        """The allocations for the claims of the pod on the node of a row."""
        return tuple(each for slot in self.allocating for each in _allocating(slot).allocations(attempt, row))

    @property
    def reasons_with_nominated(self) -> Mapping[int, tuple[Reason, ...]]:
        """The reasons, by row, of nodes that the pod does not fit together with the pods nominated to them."""
        return self._room.reasons_with_nominated

    def evaluate(self, attempt: Attempt) -> None:
        """Prepare every filter and run it on all nodes, then run all filters again on nodes with nominated pods added."""
        steps.at_once(self.evaluate_in_steps(attempt))

    def evaluate_in_steps(self, attempt: Attempt) -> Generator[None]:
        """The steps of `evaluate`; the cluster does not change between them."""
        snapshot = attempt.snapshot
        self.refusal, self.node_set = yield from filter_slot.prepare(self.slots, attempt, self.call_timer)
        self.call_timer.mark("PreFilter")
        self._arrange(snapshot)
        self._room.reset(snapshot.n_nodes)
        if self.refusal is not None:
            self._by_object, self.local = np.ones(snapshot.n_nodes, np.bool_), np.zeros(snapshot.n_nodes, np.bool_)
            self.feasible_set = FeasibleSet(self.local)
            return
        applying = [slot for slot in self.slots if not slot.skipped]
        classes = self._arrangements.common((slot.domains for slot in applying), snapshot)
        for portion in portions(applying, snapshot.n_nodes):
            for slot in self.call_timer.each("Filter", portion):
                slot.evaluate(snapshot, classes if classes is not None and classes.cover(slot.domains) else None)
            yield
        self._by_domain = tuple(slot for slot in applying if slot.classes is not None)
        self._elsewhere = tuple(slot for slot in self._follows if not slot.skipped and slot.classes is None)
        self._room.update(self.slots, attempt, self.node_set, None)
        self._by_object, self.local = np.empty(snapshot.n_nodes, np.bool_), np.empty(snapshot.n_nodes, np.bool_)
        self._patch_static(ALL)
        self._patch_local(ALL)
        self.feasible_set = FeasibleSet(self._possible(), classes, self._open_classes())

    def _arrange(self, snapshot: Snapshot) -> None:
        """Arrange the filters by volatility, and keep the moment at which the TIMED filters ran."""
        self._static = tuple(slot for slot in self.slots if slot.volatility is Volatility.STATIC and not slot.skipped)
        self._row = tuple(slot for slot in self.slots if slot.volatility is Volatility.ROW and not slot.skipped)
        self.allocating = tuple(slot for slot in self.slots if isinstance(slot.answer, AllocatingFilter))
        self._follows = tuple(slot for slot in self.slots if slot.volatility >= Volatility.TIMED and slot.answer is not SKIP_ALWAYS)
        self._moment = snapshot.moment if any(slot.volatility is Volatility.TIMED for slot in self._follows) else None

    def refresh(self, attempt: Attempt, changes: Changes) -> Flips | None:
        """Bring the feasible set up to date; returns the rows whose feasibility changed, or None after a full evaluation."""
        if self.refusal is not None:
            if not self._follows:  # a STATIC or ROW filter reads nothing that has changed when it is prepared
                return NO_FLIPS
            self.evaluate(attempt)
            return None if self.refusal is None else NO_FLIPS
        classes = self.feasible_set.classes
        moved = classes is not None and len(changes.node_rows) > 0 and not classes.is_valid
        followed = None if moved else self._refresh_following(attempt, changes) if self._follows else (NO_ROWS, False)
        if followed is None:
            self.evaluate(attempt)
            return None
        renewed, domains = followed
        self._refresh_local(attempt.snapshot, changes)
        crowding = self._room.update(self.slots, attempt, self.node_set, None if domains or renewed is not NO_ROWS else changes.rows)
        if len(crowding) and not isinstance(renewed, slice):
            renewed = union(renewed, crowding)
        if changes.only(renewed):
            flipped = self._patch_one(changes)
        else:
            if len(changes.rows):
                self._patch_local(changes.rows)
            rows = ALL if isinstance(renewed, slice) else union(changes.rows, renewed)
            flipped = self.feasible_set.put_all(rows, self._possible(rows))
        return self.feasible_set.follow(flipped, self._open_classes() if domains else None)

    def _refresh_following(self, attempt: Attempt, changes: Changes) -> tuple[Rows, bool] | None:
        """Run the TIMED and GLOBAL filters again where needed; returns the rows, and if verdicts of classes may have changed.

        None if a filter was prepared again with another outline and a full evaluation is needed.
        """
        snapshot = attempt.snapshot
        renewed: Rows = NO_ROWS
        domains = False
        passed = self._moment is not None and snapshot.moment != self._moment
        for slot in self.call_timer.each("Filter", self._follows):
            follow = passed or slot.volatility is Volatility.GLOBAL
            affected = slot.answer.affected(snapshot, changes) if follow else changes.rows
            if affected is OUTDATED:
                if slot.prepare(attempt):
                    return None
                affected = ALL
            if affected is None or slot.skipped:
                continue
            if slot.classes is not None:
                slot.evaluate(snapshot, slot.classes)
                domains = True
            else:
                slot.follow(snapshot, affected, changes)
                renewed = ALL if isinstance(affected, slice) or isinstance(renewed, slice) else union(renewed, affected)
        if passed:
            self._moment = snapshot.moment
        return renewed, domains

    def _refresh_local(self, snapshot: Snapshot, changes: Changes) -> None:
        """Run the STATIC and ROW filters on the changed rows."""
        if changes.row >= 0:
            for slot in self.call_timer.each("Filter", self._row):
                slot.patch_one(snapshot, changes.row)
            return
        if len(changes.node_rows):
            for slot in self.call_timer.each("Filter", self._static):
                slot.patch(snapshot, changes.node_rows)
            self._patch_static(changes.node_rows)
        if len(changes.rows):
            for slot in self.call_timer.each("Filter", self._row):
                slot.patch(snapshot, changes.rows)

    def _open_classes(self) -> Mask | None:
        """The classes of rows that no filter by domain rejects, `(n_classes,) bool`; None without such filters."""
        return np.logical_and.reduce([slot.verdicts == 0 for slot in self._by_domain]) if self._by_domain else None

    def _possible(self, rows: Rows = ALL) -> Mask:
        """True for the rows that pass all filters but those by domain, `(n_rows,) bool`, a new array."""
        possible = self.local[rows].copy() if isinstance(rows, slice) else self.local[rows]
        for slot in self._elsewhere:
            possible &= slot.verdicts[rows] == 0
        if self._room.reasons_with_nominated:
            possible &= ~self._room.mask[rows]
        return possible

    def _patch_static(self, rows: Rows) -> None:
        self._by_object[rows] = True
        for slot in self._static:
            self._by_object[rows] &= slot.verdicts[rows] == 0

    def _patch_local(self, rows: Rows) -> None:
        passes = self._by_object[rows] if self.node_set is None else self._by_object[rows] & self.node_set.mask[rows]
        for slot in self._row:
            passes = passes & (slot.verdicts[rows] == 0)
        self.local[rows] = passes

    def _patch_one(self, changes: Changes) -> NDArray[np.intp]:
        """Combine the verdicts of the one row that changed again; returns it if the result changed."""
        row = changes.row
        passes = self._by_object.item(row) and (self.node_set is None or self.node_set.mask.item(row))
        for slot in self._row:
            passes = passes and not slot.verdicts.item(row)
        self.local[row] = passes
        for slot in self._elsewhere:
            passes = passes and not slot.verdicts.item(row)
        passes = passes and not self._room.mask.item(row)
        return changes.rows if self.feasible_set.put(row, passes=passes) else NO_ROWS


def _allocating(slot: FilterSlot) -> AllocatingFilter:
    rule = slot.rule
    assert isinstance(rule, AllocatingFilter)  # noqa: S101 — the plugin of the slot prepares no other
    return rule


class Flips(Struct, frozen=True):
    """The rows that became feasible or infeasible, and the rows whose `FeasibleSet.possible` changed; both ascending."""

    rows: NDArray[np.intp]
    possible: NDArray[np.intp]


NO_FLIPS = Flips(NO_ROWS, NO_ROWS)


class FeasibleSet:
    """The feasible nodes `mask` `(n_nodes,) bool`, and their number `count`: those of `possible` `(n_nodes,) bool` in an open class.

    `possible` are the nodes that pass all filters that are kept per row; `open` `(n_classes,) bool` are the classes that pass the others.
    Without `classes`, `mask` is `possible`.
    """

    __slots__ = ("classes", "count", "mask", "open", "possible")

    def __init__(self, possible: Mask, classes: RowClasses | None = None, open_: Mask | None = None) -> None:
        self.possible = possible
        self.classes = classes
        self.open = np.ones(0, np.bool_) if open_ is None else open_
        self.mask = possible
        if classes is not None:
            self.mask = possible & self.open.take(classes.ids)
        self.count = int(np.count_nonzero(self.mask))

    def put(self, row: int, *, passes: bool) -> bool:
        """Set `possible` of one row; returns if it changed."""
        if passes == self.possible.item(row):
            return False
        self.possible[row] = passes
        if self.classes is None:
            self.count += 1 if passes else -1
        return True

    def put_all(self, rows: Rows, passes: Mask) -> NDArray[np.intp]:
        """Set `possible` of some rows; returns those where it changed."""
        before = self.possible[rows]
        different = (before != passes).nonzero()[0]
        if len(different):
            if self.classes is None:
                self.count += int(np.count_nonzero(passes)) - int(np.count_nonzero(before))
            self.possible[rows] = passes
        flipped: NDArray[np.intp] = different if isinstance(rows, slice) else rows[different]
        return flipped

    def follow(self, flipped: NDArray[np.intp], open_: Mask | None) -> Flips:
        """Bring `mask` up to date after `possible` changed in some rows; `open_` are the open classes if they may be others now."""
        if open_ is None or np.array_equal(open_, self.open):
            if not len(flipped):
                return NO_FLIPS
            if self.classes is None:
                return Flips(flipped, flipped)
            rows = flipped[self.open[self.classes.ids[flipped]]]
            self.mask[rows] = self.possible[rows]
            self.count += 2 * int(np.count_nonzero(self.mask[rows])) - len(rows)
            return Flips(rows, flipped)
        assert self.classes is not None  # noqa: S101 — whose `open_` it is
        before, self.open = self.mask, open_
        self.mask = self.possible & open_.take(self.classes.ids)
        self.count = int(np.count_nonzero(self.mask))
        return Flips((before != self.mask).nonzero()[0], flipped)


class NominatedRoom:
    """The nodes that the pod does not fit together with the pods nominated to them.

    `reasons_with_nominated` has the reasons by row, `mask` is the same nodes as `(n_nodes,) bool`.
    """

    __slots__ = ("_own", "mask", "reasons_with_nominated")

    def __init__(self) -> None:
        self.reasons_with_nominated: dict[int, tuple[Reason, ...]] = {}
        self.mask: Mask = np.empty(0, np.bool_)
        self._own = -1  # the row that the pod itself is nominated to, -1 for none

    def reset(self, n_nodes: int) -> None:
        """Forget all results: no node is crowded."""
        self.reasons_with_nominated = {}
        self.mask = np.zeros(n_nodes, np.bool_)
        self._own = -1

    def update(
        self, slots: Sequence[FilterSlot], attempt: Attempt, node_set: NodeSet | None, changed: NDArray[np.intp] | None
    ) -> NDArray[np.intp]:
        """Check the nodes of `changed` again (None: all nominated ones); returns the rows that became crowded or are so no longer.

        Nodes outside `node_set` are never crowded.
        """
        nominated = attempt.snapshot.nominated_rows
        if not len(nominated) and not self.reasons_with_nominated:
            self._own = -1
            return NO_ROWS
        before, self._own = self._own, attempt.snapshot.nominated_row(attempt.pod.uid)
        trial = FilterTrial(slots, attempt)
        if changed is None or trial.spans_nodes:
            again = np.concatenate((nominated, np.array(list(self.reasons_with_nominated), np.intp)))
        else:
            again = np.concatenate((changed, np.array([row for row in (before, self._own) if row >= 0], np.intp)))
        return np.array([row for row in distinct(again).tolist() if self._check(row, trial, node_set)], np.intp)

    def _check(self, row: int, trial: FilterTrial, node_set: NodeSet | None) -> bool:
        """Check one node again; True if it became crowded or is crowded no longer."""
        was = row in self.reasons_with_nominated
        reasons = trial.reasons_with_nominated(trial.suppose(row)) if node_set is None or node_set.mask.item(row) else ()
        if reasons:
            self.reasons_with_nominated[row] = reasons
        elif was:
            del self.reasons_with_nominated[row]
        self.mask[row] = bool(reasons)
        return was != bool(reasons)
