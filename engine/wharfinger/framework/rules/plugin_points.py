"""The points of Kubernetes' scores that rules of policies read, for the pods of one template, kept up to date.

A rule that reads them has to be evaluated again where they change, and they may change on any node: their extent moves when a node becomes
feasible or infeasible. So each plugin has a slot of its own here, which follows changes as the slots of the chain do, and says which rows
have other points than before. All rules of a template share the slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.prepared import ALL, NO_ROWS, OUTDATED, Affected, Attempt, Changes, Mask, Rows, union
from wharfinger.framework.rules.score_slot import ScoreSlot, ScoreTerm
from wharfinger.language.semantics.catalogue import Volatility

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot

Columns = Mapping[str, NDArray[np.float64]]


class PluginPoints:
    """The points by plugin: `columns`, each `(n_nodes,) float64`, 0 where a node is not feasible or the plugin skips the pod.

    `columns` is another object once a number in it has changed.
    """

    def __init__(self, terms: Mapping[str, ScoreTerm]) -> None:
        self._slots = {name: ScoreSlot(term, 0) for name, term in terms.items()}
        self._attempt: Attempt | None = None  # by which all was evaluated
        self._changes: Changes | None = None  # that were followed last
        self._touched: Rows = NO_ROWS  # by them
        self.columns: Columns = {}

    def evaluate(self, attempt: Attempt, feasible: Mask) -> None:
        """Compute all points; once for each attempt, however many rules ask for it."""
        if attempt is self._attempt:
            return
        self._attempt, self._changes = attempt, None
        for slot in self._slots.values():
            slot.prepare(attempt, feasible)
            if not slot.skipped:
                slot.evaluate(attempt.snapshot, feasible)
        self._show(feasible)

    def follow(self, snapshot: Snapshot, changes: Changes, feasible: Mask, flips: NDArray[np.intp]) -> Rows:
        """Bring all points up to date; returns the rows with other points than before. Once for each `changes`."""
        assert self._attempt is not None  # noqa: S101 — a rule is prepared before it is asked to follow
        if changes is self._changes:
            return self._touched
        attempt = Attempt(self._attempt.pod, snapshot, self._attempt.shared)
        touched: Rows = NO_ROWS
        for slot in self._slots.values():
            rows = _follow(slot, attempt, changes, feasible, flips)
            touched = ALL if isinstance(rows, slice) or isinstance(touched, slice) else union(touched, rows)
        self._changes, self._touched = changes, touched
        if isinstance(touched, slice) or len(touched) or len(flips):
            self._show(feasible)
        return touched

    def _show(self, feasible: Mask) -> None:
        nothing = np.zeros(len(feasible))
        self.columns = {name: nothing if slot.skipped else np.where(feasible, slot.points, 0.0) for name, slot in self._slots.items()}


def _follow(slot: ScoreSlot, attempt: Attempt, changes: Changes, feasible: Mask, flips: NDArray[np.intp]) -> Rows:
    """Bring one slot up to date; returns the rows with other points than before."""
    skipped = slot.skipped
    affected = _affected(slot, attempt.snapshot, changes, feasible, flips)
    if affected is OUTDATED:
        slot.prepare(attempt, feasible)
        affected = ALL
    if slot.skipped:
        return NO_ROWS if skipped else ALL
    if isinstance(affected, slice):
        slot.evaluate(attempt.snapshot, feasible)
        return ALL
    return slot.patch(attempt.snapshot, NO_ROWS if affected is None else affected, flips, feasible)


def _affected(slot: ScoreSlot, snapshot: Snapshot, changes: Changes, feasible: Mask, flips: NDArray[np.intp]) -> Affected:
    """The rows whose raw score may differ, as far as the plugin's volatility allows."""
    if slot.volatility is Volatility.STATIC:
        return changes.node_rows
    if slot.volatility is Volatility.ROW:
        return changes.rows
    if slot.domains is not None and len(changes.node_rows):  # a node may be in another domain now
        return OUTDATED
    return slot.answer.affected(snapshot, changes, feasible, flips)
