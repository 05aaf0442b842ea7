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
from wharfinger.framework.rules.work import MAX_AT_ONCE
from wharfinger.steps import at_once

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
        "_chosen",
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
        self._chosen: tuple[str, int, Choice] | None = None  # by tie breaks in steps: the uid of the pod, and the version

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
        if self._is_of(snapshot) and nominee == self._nominee:
            return
        changed = self._changes(snapshot, self.revision)
        attempt = self._begin(pod, snapshot, whole=changed is None)
        if changed is None:
            self.filtering.evaluate(attempt)
            self._flips = None
        else:
            flips = self.filtering.refresh(attempt, changed)
            self._flips = _joined(self._flips, flips) if self._behind else flips
        self._call_timer.mark("Filter")
        self._changed = None if self._behind else changed
        self._behind = True
        self.revision, self.asked_at, self._nominee = revision, snapshot.now, nominee

    def _begin(self, pod: PodView, snapshot: Snapshot, *, whole: bool, in_steps: bool = False) -> Attempt:
        """Begin another version; with `whole`, all rules are prepared again."""
        self.version += 1
        self._message = None
        self._time(whole=whole, in_steps=in_steps)
        if whole:
            precomputed, self._next = self._next, None
            if precomputed is not None and precomputed[1] is snapshot.strings:
                self.shared = precomputed[0]
            else:
                self.shared = shared_by(self.pod_rules.governing)
            self._strings = snapshot.strings
        return Attempt(pod, snapshot, self.shared)

    def _time(self, *, whole: bool, in_steps: bool) -> None:
        """Begin to measure a decision, with what was computed in steps before it."""
        if self._stopwatch is None:
            return
        if in_steps and self._precompute_timer is NO_TIMER:
            self._precompute_timer = self._stopwatch.begin_precomputing()
        self._call_timer = self.filtering.call_timer = self.scoring.call_timer = self._stopwatch.begin(
            whole=whole, policies=self.pod_rules.policies, precomputed=self._precompute_timer
        )
        self._precompute_timer = NO_TIMER

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

    def compute_in_steps(self, pod: PodView, snapshot: Callable[[], Snapshot]) -> Generator[None, None, bool]:
        """A generator of steps that computes costly rules of policies for all nodes, if the next update has to.

        Returns True if it has done so for all rules for which that is possible.
        """
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
            if not self._precompute_timer.by_policy:  # there was nothing to compute
                self._precompute_timer = NO_TIMER
            if complete:
                return True
        return False

    def is_long(self, pod: PodView, snapshot: Snapshot, *, precomputed: bool) -> bool:
        """True if one step should not bring the result up to date and choose a node; `precomputed`: all of `compute_in_steps` is done."""
        if self._updates_long(snapshot, precomputed=precomputed):
            return True
        return self._has_long_ties(snapshot) and not (self._is_of(snapshot) and self._chosen_for(pod) is not None)

    def _updates_long(self, snapshot: Snapshot, *, precomputed: bool) -> bool:
        work = self.pod_rules.work_left if precomputed else self.pod_rules.work
        if not self.follows(snapshot):
            return work.is_long(snapshot.n_nodes)
        return not self._is_of(snapshot) and work.follows_long(snapshot.n_nodes)

    def _is_of(self, snapshot: Snapshot) -> bool:
        """True if the result is that of a snapshot."""
        return (snapshot.revision, snapshot.now) == (self.revision, self.asked_at)

    def _has_long_ties(self, snapshot: Snapshot) -> bool:
        return self.pod_rules.tie_operations * snapshot.n_nodes > MAX_AT_ONCE

    def conclude_in_steps(self, pod: PodView, snapshot: Callable[[], Snapshot], *, precomputed: bool) -> Generator[None]:
        """The steps of `update` and `choose`, if `is_long`.

        If the cluster changes between two steps, or another caller has the result updated, they begin again, `BEGINNINGS` times at most.
        """
        for _ in range(BEGINNINGS):
            now = snapshot()
            work = self._conclude(pod, now, precomputed=precomputed)
            precomputed = False  # the next time
            version: int | None = None
            for _ in work:
                version = self.version if version is None else version
                yield
                if version != self.version or not now.is_same(snapshot()):
                    work.close()
                    break
            else:
                return

    def _conclude(self, pod: PodView, snapshot: Snapshot, *, precomputed: bool) -> Generator[None]:
        if self._updates_long(snapshot, precomputed=precomputed):
            yield from self._evaluate_in_steps(pod, snapshot)
        else:
            self.update(pod, snapshot)
        if self._has_long_ties(snapshot) and self.filtering.feasible_set.count:
            if self._call_timer is NO_TIMER:
                self._time(whole=False, in_steps=True)
            yield
            rows = yield from self._equal_rows(pod, snapshot)
            self._chosen = pod.uid, self.version, _by_hash(pod, snapshot, rows)

    def _evaluate_in_steps(self, pod: PodView, snapshot: Snapshot) -> Generator[None]:
        """The steps of evaluating all rules on all nodes."""
        self.revision, self._behind, self._scored = -1, True, False  # until all is done
        self._flips = self._changed = None
        precomputed = self._next is not None
        attempt = self._begin(pod, snapshot, whole=True, in_steps=True)
        if not precomputed:
            columns = policy_rules.compute_in_steps(
                self.pod_rules.governing, pod, self.shared, lambda: snapshot, self._call_timer, moved=False
            )
            yield from columns
        yield from self._marked(self.filtering.evaluate_in_steps(attempt), "Filter")
        if self.filtering.feasible_set.count:
            yield from self._marked(self.scoring.evaluate_in_steps(attempt, self.filtering.feasible_set), "Score")
            self._scored = True
        self.revision, self.asked_at = snapshot.revision, snapshot.now
        self._nominee = None if snapshot.nominated_to(pod.uid) is None else pod.uid
        self._behind, self._scored_at = False, self.revision
        policy_rules.forget_columns(self.pod_rules.governing, self.shared)

    def _marked(self, steps: Generator[None], point: str) -> Generator[None]:
        """The same steps, measured for an extension point without the time between them."""
        for _ in steps:
            self._call_timer.mark(point)
            yield
            self._call_timer.resume()
        self._call_timer.mark(point)

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
        if (chosen := self._chosen_for(pod)) is not None:
            return chosen
        if len(self.scoring.tiers) == 1 and not self.pod_rules.tie_breaks:
            return Choice(*self.scoring.best(pod.uid, snapshot, feasible))
        return _by_hash(pod, snapshot, self.equal_rows(pod, snapshot))

    def _chosen_for(self, pod: PodView) -> Choice | None:
        """The choice that was made for a pod in steps, if the result is still the same."""
        return None if self._chosen is None or self._chosen[:2] != (pod.uid, self.version) else self._chosen[2]

    def equal_rows(self, pod: PodView, snapshot: Snapshot) -> NDArray[np.intp]:
        """The rows that are best for `pod` in every tier and tie break, in no particular order; some row must be feasible."""
        return at_once(self._equal_rows(pod, snapshot))

    def _equal_rows(self, pod: PodView, snapshot: Snapshot) -> Generator[None, None, NDArray[np.intp]]:
        """A generator of steps that returns `equal_rows`."""
        rows = self.scoring.best_rows(self.filtering.feasible_set.mask)
        for tier in self.scoring.tiers[1:]:
            if len(rows) > 1:
                keys = tier.key(rows)
                rows = rows[keys == keys.max()]
        return (yield from self._best_by_ties(pod, snapshot, rows))

    def choose_among(self, pod: PodView, snapshot: Snapshot, rows: NDArray[np.intp]) -> Choice | None:
        """The best feasible node among some rows, by scores normalised over these; None if none is feasible."""
        rows = rows[self.filtering.feasible[rows]]
        if not len(rows):
            return None
        for number in range(len(self.scoring.tiers)):
            if len(rows) > 1:
                keys = self.scoring.key_among(rows, number)
                rows = rows[keys == keys.max()]
        return _by_hash(pod, snapshot, at_once(self._best_by_ties(pod, snapshot, rows)))

    def _best_by_ties(self, pod: PodView, snapshot: Snapshot, rows: NDArray[np.intp]) -> Generator[None, None, NDArray[np.intp]]:
        """A generator of steps, one for each key, that returns the best of some rows with equal totals by the tie breaks of policies."""
        if not self.pod_rules.tie_breaks:
            return rows
        for rule in self.pod_rules.tie_breaks:
            if len(rows) > 1:
                rows = self._call_timer.of_policy(rule.policy, rule.best)(Attempt(pod, snapshot, self.shared), rows)
                yield
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
