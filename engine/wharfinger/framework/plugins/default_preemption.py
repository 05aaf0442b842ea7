"""DefaultPreemption: chooses the node and the pods of lower priority to evict so that a pod fits.

For every node where removing pods could help: suppose that all pods of lower priority are removed; if the pod fits then, restore them one
by one, the most important first, as long as it still fits. The pods that cannot be restored are the victims. Kubernetes' criteria choose
one of these nodes. Pods that policies do not allow to evict for this pod are never supposed to be removed.

Differences from Kubernetes: all nodes are evaluated, where Kubernetes starts at a random node and stops after a tenth of them; and of equal
nodes the first by name is chosen instead of any. Pods that are leaving already cost nothing, and a pod waits also for those that
are about to leave its nominated node for others; in their place kube-scheduler may evict one more. The cost of a node is kept until
something on it, or something that all nodes depend on, changes.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from pydantic import Field

from wharfinger.framework.eviction import Budgets, Evictable, Supposition
from wharfinger.framework.extension import Arguments, CountingPlugin, PostFilterOutcome, Rejection, StepwisePostFilter, Trial
from wharfinger.framework.prepared import NO_ROWS, Attempt, Mask, Reason, union
from wharfinger.model import objects
from wharfinger.model.columns.selection import ReadExtreme

if TYPE_CHECKING:
    from wharfinger.model.columns.pod_table import ReadInSteps
    from wharfinger.model.columns.selection import Selection
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

NAME = "DefaultPreemption"
NO_VICTIMS = Reason("No preemption victims found for incoming pod", resolvable=False)
NOT_HELPFUL = Reason("Preemption is not helpful for scheduling", resolvable=False)
NEVER = "not eligible due to preemptionPolicy=Never."
WAITING = "not eligible due to a terminating pod on the nominated node."
TRIALS_PER_STEP = 256
"""Trials of the filters on a node with supposed pods that one step takes: about 10 ms. A node has one, and one for each pod to evict."""
TRIALS_OF_CONFIRMATION = 16
"""The trials that take as long as a cluster of one node for a confirmation, besides one for each of its pods."""
MAX_INTERRUPTIONS = 2
"""Searches that begin again because the cluster has changed, until one is made at once. Filters over several nodes look at all of them."""
OFFSET = 2**31  # added to priorities before they are summed, so that many victims of low priority weigh more than one

Cost = tuple[int, int, int, int, float, str]


class DefaultPreemptionArguments(Arguments):
    """DefaultPreemptionArgs; both are accepted without effect, because all nodes are evaluated."""

    min_candidate_nodes_percentage: int = Field(default=10, ge=0, le=100)
    min_candidate_nodes_absolute: int = Field(default=100, ge=0)


class Candidate(Struct, frozen=True):
    """A node that could be freed, with the cost and the victims."""

    cost: Cost
    victims: tuple[PodView, ...]


class DefaultPreemption(CountingPlugin, StepwisePostFilter):
    """`pkg/scheduler/framework/plugins/defaultpreemption`, Kubernetes 1.36."""

    name = NAME
    arguments_model = DefaultPreemptionArguments

    def counting(self, pod: PodView, snapshot: Callable[[], Snapshot]) -> Iterator[ReadInSteps]:  # noqa: ARG002 — the extension point
        """Yield the priorities of placed pods, and the lowest of each node."""
        yield _priorities(snapshot())
        yield ReadExtreme(_priorities(snapshot()), highest=False)

    def may_take_steps(self, pod: PodView, snapshot: Snapshot) -> bool:
        """True if there are many pods on nodes with pods of lower priority."""
        pods = snapshot.pod_count[has_lower(pod.priority, snapshot)]
        return int(pods.sum()) + TRIALS_OF_CONFIRMATION * len(pods) > TRIALS_PER_STEP

    def post_filter_step(self, attempt: Attempt, rejection: Rejection) -> bool:
        """Look for victims on some nodes, or confirm some of them; False if no further work is left for `post_filter`."""
        if ineligible(attempt.pod, attempt.snapshot, rejection.unresolvable):
            return False
        search = attempt.shared.once(self, Search)
        return search.interruptions <= MAX_INTERRUPTIONS and search.step(attempt.pod, attempt.snapshot, rejection)

    def post_filter(self, attempt: Attempt, rejection: Rejection) -> PostFilterOutcome:
        """The cheapest node to free and its victims, or a message why preemption does not help."""
        pod, snapshot, shared = attempt.pod, attempt.snapshot, attempt.shared
        refusal = ineligible(pod, snapshot, rejection.unresolvable)
        if refusal:
            return PostFilterOutcome(message=f"preemption: {refusal}")
        search = shared.once(self, Search)
        search.update(pod, snapshot, rejection)
        best = search.best(rejection.trial)
        if best is None:
            return PostFilterOutcome(message=f"preemption: {search.message(snapshot.n_nodes)}")
        return PostFilterOutcome(nominated=best.cost[-1], victims=best.victims)


class Search:
    """The preemption candidates of one template by row, in a heap with the cheapest first, and the reasons why other nodes are none."""

    __slots__ = (
        "_budgets",
        "_candidates",
        "_confirmed",
        "_depends",
        "_heap",
        "_left",
        "_open",
        "_own",
        "_reasons",
        "_refused",
        "_seen",
        "interruptions",
    )

    def __init__(self) -> None:
        self.interruptions = 0  # how often a search was begun again before its end
        self._forget(0)

    def _forget(self, n_nodes: int) -> None:
        self._candidates: dict[int, Candidate] = {}
        self._confirmed: set[int] = set()
        self._heap: list[tuple[Cost, int]] = []
        self._refused: dict[int, tuple[Reason, ...]] = {}
        self._reasons: Counter[str] = Counter()
        self._open: Mask = np.zeros(n_nodes, np.bool_)
        self._left: NDArray[np.intp] = NO_ROWS  # rows that were not looked at yet
        self._budgets: Budgets | None = None
        self._seen: tuple[int, int, float] = (-1, -1, 0.0)
        self._depends: Hashable = None
        self._own = -1

    def step(self, pod: PodView, snapshot: Snapshot, rejection: Rejection) -> bool:
        """Take `TRIALS_PER_STEP` trials, or one of a node with more; True if more are left until `best` has its answer."""
        return self.update(pod, snapshot, rejection, limit=TRIALS_PER_STEP) or self._confirm_some(snapshot, rejection.trial)

    def update(self, pod: PodView, snapshot: Snapshot, rejection: Rejection, *, limit: int | None = None) -> bool:
        """Evaluate again the nodes whose cost may have changed since the last update, `limit` trials at a time; True if some are left."""
        stale = None if self._depends != rejection.evictable.depends else self._stale(pod, snapshot, rejection.trial)
        if stale is None:
            self.interruptions += bool(len(self._left))
            self._forget(snapshot.n_nodes)
            stale = np.arange(snapshot.n_nodes)
        if self._budgets is None:
            self._budgets = Budgets(snapshot.objects)
        resolvable = ~rejection.unresolvable
        changed = union(stale, np.flatnonzero(resolvable != self._open)) if len(stale) < snapshot.n_nodes else stale
        self._open = resolvable
        self._seen = snapshot.revision, _objects_revision(pod, snapshot, rejection.trial), snapshot.now
        self._own = snapshot.nominated_row(pod.uid)
        self._depends = rejection.evictable.depends
        lower = has_lower(pod.priority, snapshot)
        if self._refused or self._candidates:
            for row in changed.tolist():
                self._drop(row)
        possible = changed[resolvable[changed]]
        victimless = possible[~lower[possible]].tolist()
        self._refused.update(dict.fromkeys(victimless, (NO_VICTIMS,)))
        self._reasons[NO_VICTIMS.text] += len(victimless)
        rows = union(possible[lower[possible]], self._left[~np.isin(self._left, changed)]) if len(self._left) else possible[lower[possible]]
        now = len(rows) if limit is None else max(1, int(np.searchsorted(np.cumsum(1 + snapshot.pod_count[rows]), limit, side="right")))
        self._left = rows[now:]
        for row in rows[:now].tolist():
            self._keep(row, self._candidate_at(row, pod, snapshot, rejection))
        if not len(self._left):
            self.interruptions = 0
        return bool(len(self._left))

    def _stale(self, pod: PodView, snapshot: Snapshot, trial: Trial) -> NDArray[np.intp] | None:
        """The rows that changed since the last update; None for all rows."""
        revision, objects_seen, now = self._seen
        usage, nodes = snapshot.usage_changes(revision), snapshot.node_changes(revision)
        if revision < 0 or usage is None or nodes is None or objects_seen != _objects_revision(pod, snapshot, trial):
            return None
        if trial.spans_nodes and (snapshot.revision, snapshot.now) != (revision, now):
            return None
        # The pod itself is not counted on the node that it is nominated to, so another pod of the template gets another result.
        own = {row for row in (self._own, snapshot.nominated_row(pod.uid)) if row >= 0}
        return union(union(usage, nodes), np.array(sorted(own), np.intp))

    def _candidate_at(self, row: int, pod: PodView, snapshot: Snapshot, rejection: Rejection) -> Candidate | tuple[Reason, ...]:
        """The candidate of freeing a node, or the reasons why that does not help."""
        assert self._budgets is not None  # noqa: S101 — `update` has just read them
        return select_victims(row, pod, snapshot, rejection.trial, self._budgets, rejection.evictable)

    def _drop(self, row: int) -> None:
        self._candidates.pop(row, None)
        self._confirmed.discard(row)
        self._reasons.subtract(reason.text for reason in self._refused.pop(row, ()))

    def _keep(self, row: int, found: Candidate | tuple[Reason, ...]) -> None:
        if isinstance(found, Candidate):
            self._candidates[row] = found
            heapq.heappush(self._heap, (found.cost, row))
        else:
            self._refused[row] = found
            self._reasons.update(reason.text for reason in found)

    def best(self, trial: Trial) -> Candidate | None:
        """The cheapest candidate that every filter confirms, or None.

        Filters that do not answer for supposed pods cannot be evaluated cheaply without the victims (`Trial.confirmed`), so they run on the
        cheapest candidates only, in sequence.
        """
        while (cheapest := self._cheapest()) is not None:
            row, candidate = cheapest
            if row in self._confirmed or self._confirm(row, candidate, trial):
                return candidate
        return None

    def _confirm_some(self, snapshot: Snapshot, trial: Trial) -> bool:
        """Confirm some of the cheapest candidates; True if more have to be, until one is confirmed."""
        left = TRIALS_PER_STEP
        while (cheapest := self._cheapest()) is not None:
            row, candidate = cheapest
            if row in self._confirmed or self._confirm(row, candidate, trial):
                return False
            left -= TRIALS_OF_CONFIRMATION + int(snapshot.pod_count[row])
            if left <= 0:
                return True
        return False

    def _cheapest(self) -> tuple[int, Candidate] | None:
        """The row of the cheapest candidate, and the candidate; None if there is none."""
        while self._heap:
            cost, row = self._heap[0]
            candidate = self._candidates.get(row)
            if candidate is not None and candidate.cost == cost:
                return row, candidate
            heapq.heappop(self._heap)  # outdated: the node was evaluated again
        return None

    def _confirm(self, row: int, candidate: Candidate, trial: Trial) -> bool:
        """True if every filter lets the pod pass without the victims; the candidate is kept as refused if not."""
        reasons = trial.confirmed(row, candidate.victims)
        if reasons:
            self._drop(row)
            self._keep(row, reasons)
        else:
            self._confirmed.add(row)
        return not reasons

    def message(self, n_nodes: int) -> str:
        """kube-scheduler's message if no node can be freed."""
        counts = +self._reasons
        if n_nodes > len(self._refused):
            counts[NOT_HELPFUL.text] += n_nodes - len(self._refused)
        return f"0/{n_nodes} nodes are available: {', '.join(sorted(f'{count} {text}' for text, count in counts.items()))}."


def ineligible(pod: PodView, snapshot: Snapshot, unresolvable: Mask) -> str:
    """The reason why a pod may not preempt others now; "" if it may (`PodEligibleToPreemptOthers`)."""
    if pod.object.spec.preemption_policy == "Never":
        return NEVER
    node = snapshot.nominated_to(pod.uid) or pod.nominated_node
    row = snapshot.row(node) if node else None
    if row is None or unresolvable[row]:
        return ""
    leaving = (placed for placed in snapshot.pods_on(row) if placed.priority < pod.priority and _being_preempted(placed, snapshot))
    return WAITING if any(True for _ in leaving) else ""


def select_victims(  # noqa: PLR0913, PLR0917 — the node, the pod, and the inputs of the decision
    row: int, pod: PodView, snapshot: Snapshot, trial: Trial, budgets: Budgets, evictable: Evictable
) -> Candidate | tuple[Reason, ...]:
    """The victims on a node and their cost, or the reasons why the node cannot be freed (`SelectVictimsOnNode`)."""
    lower = [placed for placed in snapshot.pods_on(row) if placed.priority < pod.priority]
    potential = evictable.among(lower)
    if not potential:
        return (no_unprotected_victims(evictable),) if lower else (NO_VICTIMS,)
    supposed = trial.suppose(row)
    for placed in potential:
        supposed.remove(placed)
    reasons = trial.reasons_with_nominees(supposed)
    if reasons:
        return reasons
    importance = importance_in(snapshot)
    violating, others = budgets.split(sorted(potential, key=importance))
    broken = _leaving(violating, supposed, trial)
    victims = sorted([*broken, *_leaving(others, supposed, trial)], key=importance)
    if not victims:
        return (NO_VICTIMS,)
    evicted = [victim for victim in victims if not snapshot.leaving(victim)]
    violations = sum(not snapshot.leaving(victim) for victim in broken)
    return Candidate(cost(evicted, violations, snapshot.names[row]), tuple(victims))


def no_unprotected_victims(evictable: Evictable) -> Reason:
    """The reason for a node whose pods of lower priority are all protected by policies."""
    return Reason(f"No preemption victims that policy {' and '.join(evictable.policies)} allows", resolvable=False)


def _leaving(removed: Sequence[PodView], supposed: Supposition, trial: Trial) -> list[PodView]:
    """The removed pods that cannot be restored, tried in sequence, because a filter then rejects the node."""
    leaving = []
    for placed in removed:
        supposed.restore(placed)
        if trial.reasons_with_nominees(supposed):
            supposed.remove(placed)
            leaving.append(placed)
    return leaving


def importance_in(snapshot: Snapshot) -> Callable[[PodView], tuple[bool, int, float]]:
    """A key that puts the more important pod first: higher priority, then longer running (`MoreImportantPod`).

    In kube-scheduler pods that are leaving count as others do. Here they come last, so that no other pod is evicted in their place.
    """
    return lambda pod: (snapshot.leaving(pod), -pod.priority, _started(pod))


def cost(victims: Sequence[PodView], violations: int, node: str) -> Cost:
    """A key that puts the node to be freed first (`pickOneNodeForPreemption`), by the victims that are not leaving already.

    Fewest broken budgets, lowest highest priority, lowest sum of priorities, fewest victims, latest start of the longest running among the
    most important victims, name.
    """
    highest = max((victim.priority for victim in victims), default=-OFFSET)
    earliest = min((_started(victim) for victim in victims if victim.priority == highest), default=math.inf)
    return violations, highest, sum(victim.priority + OFFSET for victim in victims), len(victims), -earliest, node


def _started(pod: PodView) -> float:
    """The start of a pod in seconds since 1970; +inf if it has not started."""
    return math.inf if pod.started is None else pod.started


def _being_preempted(pod: PodView, snapshot: Snapshot) -> bool:
    """True if a pod is leaving because a scheduler preempted it (`podTerminatingByPreemption`), or is about to leave by this one."""
    if pod.uid in snapshot.evicted:
        return True
    if not pod.terminating:
        return False
    condition = next((each for each in pod.object.status.conditions if each.type == "DisruptionTarget"), None)
    return condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"


def _objects_revision(pod: PodView, snapshot: Snapshot, trial: Trial) -> int:
    """The revision of the objects that an answer depends on: all for a pod with volumes or if filters span nodes, else budgets only."""
    if pod.object.spec.volumes or trial.spans_nodes:
        return snapshot.objects.revision
    return snapshot.objects.revision_of(objects.PodDisruptionBudget)


def _priorities(snapshot: Snapshot) -> Selection:
    """The placed pods with their priorities."""
    return snapshot.selection((NAME, "priority"), lambda _: True, value=lambda placed: float(placed.priority))


def has_lower(priority: int, snapshot: Snapshot) -> Mask:
    """The nodes that have a pod of lower priority, `(n_nodes,) bool`."""
    return np.asarray(_priorities(snapshot).extreme_by_node(highest=False) < priority)
