"""The filter and score results of the chain for one pod template, kept up to date with the cluster.

    Filtering ─ feasible set ─→ Scoring ─ best rows ─→ choose

An evaluation keeps the revision of its results. The next update evaluates only the rows that changed since. It prepares all rules again and
evaluates all rows if rows were added, moved or removed. The answer is the same either way. If only the filters are needed, scores are not
updated.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.framework import prepared
from wharfinger.framework.evaluation import best_rows
from wharfinger.framework.evaluation.best_rows import Arrangements
from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.framework.evaluation.filtering import NO_FLIPS, Filtering, Flips
from wharfinger.framework.evaluation.scoring import Scoring
from wharfinger.framework.plugin_calls import NO_TIMER, Stopwatch
from wharfinger.framework.pod_devices import shared_by
from wharfinger.framework.prepared import Attempt, Changes, Shared
from wharfinger.framework.rules import policy_rules
from wharfinger.framework.rules.pod_rules import PodRules

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Evictable
    from wharfinger.model.columns.arrays import StringTable
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


CHANGED_AT_ONCE = 256
"""Changed rows up to which the next decision about pods of a template reads and computes everything at once."""
OPERATIONS_AT_ONCE = 5_000_000
"""Operations of the rules of policies, for all nodes together, up to which a decision computes them at once: about 10 ms."""
BEGINNINGS = 3
"""How often costly rules are computed before a decision, if nodes or the time change meanwhile; after that the decision computes them."""


class Choice(Struct, frozen=True):
    """The best row, and the number of equally good rows among which the hash chose it (1: no tie)."""

    row: int
    ties: int


class Evaluation:
    """The kept result for one template, as of `asked_at`. `version` grows with every change."""

    __slots__ = (
        "_behind",
        "_call_timer",
        "_changed",
        "_flips",
        "_message",
        "_next",
        "_nominee",
        "_precompute_timer",
        "_scored",
        "_scored_at",
        "_stopwatch",
        "_strings",
        "asked_at",
        "filtering",
        "pod_rules",
        "revision",
        "scoring",
        "shared",
        "version",
    )

    def __init__(self, pod_rules: PodRules, stopwatch: Stopwatch | None = None, arrangements: Arrangements | None = None) -> None:
        self.pod_rules = pod_rules
        self.shared = shared_by(pod_rules.governing)
        arrangements = Arrangements() if arrangements is None else arrangements
        self.filtering = Filtering(pod_rules.filters, arrangements, stopwatch)
        self.scoring = Scoring(pod_rules, arrangements, stopwatch)
        self._stopwatch = stopwatch
        self._call_timer = NO_TIMER
        self._precompute_timer = NO_TIMER  # of rules that were computed in steps for the next update
        self.revision = -1
        self.version = 0
        self._strings: StringTable | None = None  # of the cluster that the rules are prepared for
        self._next: tuple[Shared, StringTable] | None = None  # for the next update, if it prepares all rules
        self.asked_at = 0.0
        self._nominee: str | None = None  # the uid of the pod if it is nominated: its own nomination does not take room from it
        self._scored = False
        self._behind = True  # the scores are older than the filters: of the revision `_scored_at`
        self._scored_at = -1
        self._changed: Changes | None = None  # since then, if it is known already
        self._flips: Flips | None = None  # since then; None if all nodes are to be scored again
        self._message: str | None = None

    def update(self, pod: PodView, snapshot: Snapshot) -> None:
        """Bring the result up to date: it then equals a fresh evaluation of `pod` on `snapshot`."""
        self._update_filters(pod, snapshot)
        if self._behind:
            self._update_scores(Attempt(pod, snapshot, self.shared))
        policy_rules.forget_columns(self.pod_rules.governing, self.shared)

    def update_filters(self, pod: PodView, snapshot: Snapshot) -> None:
        """Bring the results of the filters up to date; those of the scores may be older."""
        self._update_filters(pod, snapshot)
        policy_rules.forget_columns(self.pod_rules.governing, self.shared)

    def _update_filters(self, pod: PodView, snapshot: Snapshot) -> None:
        revision = snapshot.revision
        nominee = None if snapshot.nominated_to(pod.uid) is None else pod.uid
        if revision == self.revision and snapshot.now == self.asked_at and nominee == self._nominee:
            return
        self.version += 1
        self._message = None
        changed = self._changes(snapshot, self.revision)
        if self._stopwatch is not None:
            self._call_timer = self.filtering.call_timer = self.scoring.call_timer = self._stopwatch.begin(
                whole=changed is None, policies=self.pod_rules.policies, precomputed=self._precompute_timer
            )
            self._precompute_timer = NO_TIMER
        if changed is None:
            precomputed, self._next = self._next, None
            if precomputed is not None and precomputed[1] is snapshot.strings:
                self.shared = precomputed[0]
            else:
                self.shared = shared_by(self.pod_rules.governing)
            self._strings = snapshot.strings
            self.filtering.evaluate(Attempt(pod, snapshot, self.shared))
            self._flips = None
        else:
            flips = self.filtering.refresh(Attempt(pod, snapshot, self.shared), changed)
            self._flips = _joined(self._flips, flips) if self._behind else flips
        self._call_timer.mark("Filter")
        self._changed = None if self._behind else changed
        self._behind = True
        self.revision, self.asked_at, self._nominee = revision, snapshot.now, nominee

    def _update_scores(self, attempt: Attempt) -> None:
        """Bring the scores up to date after the filters."""
        feasible_set, flips, scored = self.filtering.feasible_set, self._flips, self._scored
        self._scored = False  # a score may raise
        if feasible_set.count:
            changed = self._changed
            if scored and flips is not None and changed is None:
                changed = self._changes(attempt.snapshot, self._scored_at)
            if scored and flips is not None and changed is not None:
                self.scoring.refresh(attempt, changed, flips, feasible_set)
            else:
                self.scoring.evaluate(attempt, feasible_set)
            self._call_timer.mark("Score")
            self._scored = True
        self._behind, self._changed, self._scored_at = False, None, self.revision

    def follows(self, snapshot: Snapshot) -> bool:
        """True if the next update evaluates only what has changed; False if it evaluates all rules on all nodes."""
        return self.revision >= snapshot.layout_revision and snapshot.strings is self._strings

    def is_far_behind(self, snapshot: Snapshot) -> bool:
        """True if policies have slow reads, and so many rows have changed since the last decision that these may take long again."""
        if not any(policy.program.has_slow_reads for policy in self.pod_rules.governing):
            return False
        changed = snapshot.usage_changes(self.revision)
        return changed is None or len(changed) > CHANGED_AT_ONCE

    def compute_in_steps(self, pod: PodView, snapshot: Callable[[], Snapshot]) -> Generator[None]:
        """The steps of computing costly rules of policies for all nodes, if the next update has to."""
        for _ in range(BEGINNINGS):
            now = snapshot()
            anew, strings = not self.follows(now), now.strings  # `now` cannot be read any more after the steps
            changed = None if anew else now.usage_changes(self.revision)
            moved = changed is not None and len(changed) * self.pod_rules.operations <= OPERATIONS_AT_ONCE
            shared = shared_by(self.pod_rules.governing) if anew else self.shared
            # A new timer each time: work that is lost counts for no policy.
            self._precompute_timer = NO_TIMER if self._stopwatch is None else self._stopwatch.begin_precomputing()
            complete = yield from policy_rules.compute_in_steps(
                self.pod_rules.governing, pod, shared, snapshot, self._precompute_timer, moved=moved
            )
            if anew:
                self._next = shared, strings
            if complete:
                return

    def concluded(self, choice: Choice | None) -> None:
        """End the measurement of the decision that the last update belongs to; `choice` is its outcome."""
        if self._stopwatch is not None and self._call_timer is not NO_TIMER:
            if choice is None:
                self._call_timer.mark("PostFilter")
            self._stopwatch.ended(self._call_timer, "Unschedulable" if choice is None else "Success")
            self._call_timer = NO_TIMER

    def _changes(self, snapshot: Snapshot, since: int) -> Changes | None:
        """The changes since a revision; None if all rules must be prepared again: rows or codes were added or moved."""
        node_rows, usage_rows = snapshot.node_changes(since), snapshot.usage_changes(since)
        if node_rows is None or usage_rows is None or snapshot.strings is not self._strings:
            return None
        return prepared.changes(node_rows, usage_rows)

    def rejection_message(self, snapshot: Snapshot) -> str:
        """The reason why no node is feasible, in kube-scheduler's words; computed once and shared by all pods of the template."""
        if self._message is None:
            self._message = Diagnosis(self.filtering, snapshot.n_nodes).message
        return self._message

    def evictable(self, pod: PodView, snapshot: Snapshot) -> Evictable:
        """The pods that preemption may evict for `pod`."""
        return self._call_timer.of_victims(self.pod_rules.evictable(pod, snapshot))

    def choose(self, pod: PodView, snapshot: Snapshot) -> Choice | None:
        """The best feasible node for `pod`; None if no node is feasible."""
        feasible_set = self.filtering.feasible_set
        if not feasible_set.count:
            return None
        feasible = feasible_set.mask
        if len(self.scoring.tiers) == 1 and not self.pod_rules.tie_breaks:
            return Choice(*self.scoring.best(pod.uid, snapshot, feasible))
        return _by_hash(pod, snapshot, self.equal_rows(pod, snapshot))

    def equal_rows(self, pod: PodView, snapshot: Snapshot) -> NDArray[np.intp]:
        """The rows that are best for `pod` in every tier and tie break, in no particular order; some row must be feasible."""
        rows = self.scoring.best_rows(self.filtering.feasible_set.mask)
        for tier in self.scoring.tiers[1:]:
            if len(rows) > 1:
                keys = tier.key(rows)
                rows = rows[keys == keys.max()]
        return self._best_by_ties(pod, snapshot, rows)

    def choose_among(self, pod: PodView, snapshot: Snapshot, rows: NDArray[np.intp]) -> Choice | None:
        """The best feasible node among some rows, by scores normalised over these; None if none is feasible."""
        rows = rows[self.filtering.feasible[rows]]
        if not len(rows):
            return None
        for number in range(len(self.scoring.tiers)):
            if len(rows) > 1:
                keys = self.scoring.key_among(rows, number)
                rows = rows[keys == keys.max()]
        return _by_hash(pod, snapshot, self._best_by_ties(pod, snapshot, rows))

    def _best_by_ties(self, pod: PodView, snapshot: Snapshot, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The best of some rows with equal totals by the tie breaks of policies."""
        if not self.pod_rules.tie_breaks:
            return rows
        for rule in self.pod_rules.tie_breaks:
            if len(rows) > 1:
                rows = self._call_timer.of_policy(rule.policy, rule.best)(Attempt(pod, snapshot, self.shared), rows)
        policy_rules.forget_columns(self.pod_rules.governing, self.shared)
        return rows


def _by_hash(pod: PodView, snapshot: Snapshot, rows: NDArray[np.intp]) -> Choice:
    """The choice among equally good rows by the stable hash."""
    if len(rows) == 1:
        return Choice(int(rows[0]), 1)
    return Choice(int(rows[best_rows.winner(pod.uid, snapshot.name_hashes[rows])]), len(rows))


def _joined(before: Flips | None, after: Flips | None) -> Flips | None:
    """The flips of two updates as those of one: a row that flipped in both is as it was."""
    if before is None or after is None:
        return None
    if before is NO_FLIPS or after is NO_FLIPS:
        return after if before is NO_FLIPS else before
    return Flips(np.setxor1d(before.rows, after.rows, assume_unique=True), np.setxor1d(before.possible, after.possible, assume_unique=True))
