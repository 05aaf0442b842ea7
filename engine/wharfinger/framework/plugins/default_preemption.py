"""DefaultPreemption: chooses the node and the pods of lower priority to evict so that a pod fits.

The victims on every node where removing pods could help are found (`victims.py`), and Kubernetes' criteria choose one of these nodes. Where
filters look at several nodes at once, any change of the cluster may change all of these answers. A search in steps that is interrupted so
again and again gives way to one that looks at each node once (`PassingSearch`).

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
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from wharfinger.framework.arguments import BuiltInArguments
from wharfinger.framework.eviction import Budgets
from wharfinger.framework.extension import CountingPlugin, PostFilterOutcome, Rejection, StepwisePostFilter, Trial
from wharfinger.framework.plugins.victims import NO_VICTIMS, Candidate, Cost, has_lower, priorities, select_victims
from wharfinger.framework.prepared import NO_ROWS, Attempt, Mask, Reason, union
from wharfinger.model import objects
from wharfinger.model.columns.selection import ReadExtreme

if TYPE_CHECKING:
    from wharfinger.model.columns.pod_table import ReadInSteps
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

NAME = "DefaultPreemption"
NOT_HELPFUL = Reason("Preemption is not helpful for scheduling", resolvable=False)
NEVER = "not eligible due to preemptionPolicy=Never."
WAITING = "not eligible due to a terminating pod on the nominated node."
TRIALS_PER_STEP = 256
"""Trials of the filters on a node with supposed pods that one step takes: about 10 ms. A node has one, and one for each pod to evict."""
TRIALS_OF_CONFIRMATION = 16
"""The trials that take as long as a cluster of one node for a confirmation, besides one for each of its pods."""
MAX_INTERRUPTIONS = 2
"""Times that a search begins again because the cluster has changed, until each node is looked at once (`PassingSearch`)."""


class DefaultPreemptionArguments(BuiltInArguments, frozen=True, kw_only=True):
    """DefaultPreemptionArgs; both are accepted without effect, because all nodes are evaluated."""

    min_candidate_nodes_percentage: Annotated[int, Meta(ge=0, le=100)] = 10
    min_candidate_nodes_absolute: Annotated[int, Meta(ge=0)] = 100


class DefaultPreemption(CountingPlugin, StepwisePostFilter):
    """`pkg/scheduler/framework/plugins/defaultpreemption`, Kubernetes 1.36."""

    name = NAME
    arguments_model = DefaultPreemptionArguments

    def counting(self, pod: PodView, snapshot: Callable[[], Snapshot]) -> Iterator[ReadInSteps]:  # noqa: ARG002 — the extension point
        """Yield the priorities of placed pods, and the lowest of each node."""
        yield priorities(snapshot())
        yield ReadExtreme(priorities(snapshot()), highest=False)

    def may_take_steps(self, pod: PodView, snapshot: Snapshot) -> bool:
        """True if there are many pods on nodes with pods of lower priority."""
        pods = snapshot.pod_count[has_lower(pod.priority, snapshot)]
        return int(pods.sum()) + TRIALS_OF_CONFIRMATION * len(pods) > TRIALS_PER_STEP

    def post_filter_step(self, attempt: Attempt, rejection: Rejection) -> bool:
        """Look for victims on some nodes, or confirm some of them; False if no further work is left for `post_filter`."""
        if ineligible(attempt.pod, attempt.snapshot, rejection.unresolvable):
            return False
        return attempt.shared.once(self, _Searches).step(attempt, rejection)

    def post_filter(self, attempt: Attempt, rejection: Rejection) -> PostFilterOutcome:
        """The cheapest node to free and its victims, or a message why preemption does not help."""
        pod, snapshot = attempt.pod, attempt.snapshot
        refusal = ineligible(pod, snapshot, rejection.unresolvable)
        if refusal:
            return PostFilterOutcome(message=f"preemption: {refusal}")
        searches = attempt.shared.once(self, _Searches)
        passing = searches.passing
        best, candidates = searches.answer(attempt, rejection)
        if best is None:
            return PostFilterOutcome(message=f"preemption: {candidates.message(snapshot.n_nodes)}", while_changing=passing)
        return PostFilterOutcome(nominated=best.cost[-1], victims=best.victims, while_changing=passing)


class _Searches:
    """The search of one template that follows the cluster, and the one in its place while the cluster changes too often for it."""

    def __init__(self) -> None:
        self._exact = Search()
        self._passing: PassingSearch | None = None

    @property
    def passing(self) -> bool:
        """True while the cluster changes too often."""
        return self._passing is not None

    def step(self, attempt: Attempt, rejection: Rejection) -> bool:
        """Take a step; False if no further work is left for `answer`."""
        pod, snapshot = attempt.pod, attempt.snapshot
        if self._passing is None:
            more = self._exact.step(pod, snapshot, rejection)
            if self._exact.interruptions > MAX_INTERRUPTIONS:
                self._passing = PassingSearch(pod, snapshot, rejection)
            return more or self._passing is not None
        return self._passing.step(pod, snapshot, rejection, limit=TRIALS_PER_STEP)

    def answer(self, attempt: Attempt, rejection: Rejection) -> tuple[Candidate | None, Candidates[int] | Candidates[str]]:
        """The cheapest candidate that every filter confirms, or None; and all of the candidates."""
        pod, snapshot = attempt.pod, attempt.snapshot
        passing, self._passing = self._passing, None
        if passing is None:
            self._exact.update(pod, snapshot, rejection)
            return self._exact.best(rejection.trial), self._exact.candidates
        self._exact = Search()
        passing.step(pod, snapshot, rejection)
        return passing.best(), passing.candidates


Node = TypeVar("Node", int, str)


class Candidates(Generic[Node]):
    """The preemption candidates by node (row or name), the cheapest first, and the reasons why other nodes are none."""

    __slots__ = ("_by_node", "_heap", "_reasons", "_refused")

    def __init__(self) -> None:
        self._by_node: dict[Node, Candidate] = {}
        self._heap: list[tuple[Cost, Node]] = []
        self._refused: dict[Node, tuple[Reason, ...]] = {}
        self._reasons: Counter[str] = Counter()

    def drop(self, node: Node) -> None:
        """Forget a node."""
        self._by_node.pop(node, None)
        self._reasons.subtract(reason.text for reason in self._refused.pop(node, ()))

    def keep(self, node: Node, found: Candidate | tuple[Reason, ...]) -> None:
        """Keep the candidate of a node that is not known, or the reasons why it is none."""
        if isinstance(found, Candidate):
            self._by_node[node] = found
            heapq.heappush(self._heap, (found.cost, node))
        else:
            self._refused[node] = found
            self._reasons.update(reason.text for reason in found)

    def keep_without_victims(self, nodes: Sequence[Node]) -> None:
        """Keep nodes without pods of lower priority."""
        self._refused.update(dict.fromkeys(nodes, (NO_VICTIMS,)))
        self._reasons[NO_VICTIMS.text] += len(nodes)

    def cheapest(self) -> tuple[Node, Candidate] | None:
        """The node of the cheapest candidate, and the candidate; None if there is none."""
        while self._heap:
            cost, node = self._heap[0]
            candidate = self._by_node.get(node)
            if candidate is not None and candidate.cost == cost:
                return node, candidate
            heapq.heappop(self._heap)  # outdated: the node was evaluated again
        return None

    def __bool__(self) -> bool:
        return bool(self._refused or self._by_node)

    def message(self, n_nodes: int) -> str:
        """kube-scheduler's message if no node can be freed."""
        counts = +self._reasons
        if n_nodes > len(self._refused):
            counts[NOT_HELPFUL.text] += n_nodes - len(self._refused)
        return f"0/{n_nodes} nodes are available: {', '.join(sorted(f'{count} {text}' for text, count in counts.items()))}."


class Search:
    """The search of one template, whose answer is always that of a search on the present cluster.

    It looks again at the nodes that have changed. If something has changed that all nodes depend on, it begins again.
    """

    __slots__ = (
        "_complete",
        "_confirmed",
        "_depends",
        "_left",
        "_open",
        "_own",
        "_seen",
        "_under_way",
        "candidates",
        "interruptions",
    )

    def __init__(self) -> None:
        self.interruptions = 0  # how often it has begun again since its last answer
        self._under_way = False  # it has begun since then
        self._forget(0)

    def _forget(self, n_nodes: int) -> None:
        self.candidates: Candidates[int] = Candidates()
        self._confirmed: set[int] = set()
        self._open: Mask = np.zeros(n_nodes, np.bool_)
        self._left: NDArray[np.intp] = NO_ROWS  # rows that were not looked at yet
        self._complete = False  # the last step has found the answer
        self._seen: tuple[int, int, float] = (-1, -1, 0.0)
        self._depends: Hashable = None
        self._own = -1

    def step(self, pod: PodView, snapshot: Snapshot, rejection: Rejection) -> bool:
        """Take `TRIALS_PER_STEP` trials, or one of a node with more; True if more are left until `best` has its answer."""
        more = self.update(pod, snapshot, rejection, limit=TRIALS_PER_STEP) or self._confirm_some(snapshot, rejection.trial)
        self._complete = not more
        return more

    def update(self, pod: PodView, snapshot: Snapshot, rejection: Rejection, *, limit: int | None = None) -> bool:
        """Evaluate again the nodes whose cost may have changed since the last update, `limit` trials at a time; True if some are left."""
        if self._complete and self._differs_in_time_only(pod, snapshot, rejection.trial):
            return False
        stale = None if self._depends != rejection.evictable.depends else self._stale(pod, snapshot, rejection.trial)
        if stale is None:
            self.interruptions += self._under_way
            self._forget(snapshot.n_nodes)
            stale = np.arange(snapshot.n_nodes)
        self._under_way, self._complete = True, False
        resolvable = ~rejection.unresolvable
        changed = union(stale, np.flatnonzero(resolvable != self._open)) if len(stale) < snapshot.n_nodes else stale
        self._open = resolvable
        self._seen = snapshot.revision, _objects_revision(pod, snapshot, rejection.trial), snapshot.now
        self._own = snapshot.nominated_row(pod.uid)
        self._depends = rejection.evictable.depends
        lower = has_lower(pod.priority, snapshot)
        if self.candidates:
            for row in changed.tolist():
                self._drop(row)
        possible = changed[resolvable[changed]]
        self.candidates.keep_without_victims(possible[~lower[possible]].tolist())
        rows = union(possible[lower[possible]], self._left[~np.isin(self._left, changed)]) if len(self._left) else possible[lower[possible]]
        now = len(rows) if limit is None else max(1, int(np.searchsorted(np.cumsum(1 + snapshot.pod_count[rows]), limit, side="right")))
        self._left = rows[now:]
        budgets = snapshot.objects.following(Budgets)
        for row in rows[:now].tolist():
            self.candidates.keep(row, select_victims(row, pod, snapshot, rejection.trial, budgets, rejection.evictable))
        return bool(len(self._left))

    def _differs_in_time_only(self, pod: PodView, snapshot: Snapshot, trial: Trial) -> bool:
        """True if only the time has changed since the last step, by a second at most: a decision comes right after the last step."""
        revision, objects_seen, now = self._seen
        same = (snapshot.revision, _objects_revision(pod, snapshot, trial)) == (revision, objects_seen)
        return same and self._own == snapshot.nominated_row(pod.uid) and 0 < snapshot.now - now <= 1

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

    def _drop(self, row: int) -> None:
        self.candidates.drop(row)
        self._confirmed.discard(row)

    def best(self, trial: Trial) -> Candidate | None:
        """The cheapest candidate that every filter confirms, or None; the search has its answer then.

        Filters that do not answer for supposed pods cannot be evaluated cheaply without the victims (`Trial.confirmed`), so they run on the
        cheapest candidates only, in sequence.
        """
        self.interruptions, self._under_way = 0, False
        while (cheapest := self.candidates.cheapest()) is not None:
            row, candidate = cheapest
            if row in self._confirmed or self._confirm(row, candidate, trial):
                return candidate
        return None

    def _confirm_some(self, snapshot: Snapshot, trial: Trial) -> bool:
        """Confirm some of the cheapest candidates; True if more have to be, until one is confirmed."""
        left = TRIALS_PER_STEP
        while (cheapest := self.candidates.cheapest()) is not None:
            row, candidate = cheapest
            if row in self._confirmed or self._confirm(row, candidate, trial):
                return False
            left -= TRIALS_OF_CONFIRMATION + int(snapshot.pod_count[row])
            if left <= 0:
                return True
        return False

    def _confirm(self, row: int, candidate: Candidate, trial: Trial) -> bool:
        """True if every filter lets the pod pass without the victims; the candidate is kept as refused if not."""
        reasons = trial.confirmed(row, candidate.victims)
        if reasons:
            self._drop(row)
            self.candidates.keep(row, reasons)
        else:
            self._confirmed.add(row)
        return not reasons


class PassingSearch:
    """A search that looks at each node once, as the node is when its turn comes, while the cluster changes.

    The cheapest candidate is looked at again on the cluster as it is at the end, and so is the next one if it costs more by then. So a
    search ends after a number of steps, and the victims that it answers with are right; a node that has become cheaper since its turn may
    be missed, as by kube-scheduler, which searches on a snapshot.
    """

    __slots__ = ("_at", "_left", "_proven", "candidates")

    def __init__(self, pod: PodView, snapshot: Snapshot, rejection: Rejection) -> None:
        names, possible, lower = snapshot.names, ~rejection.unresolvable, has_lower(pod.priority, snapshot)
        self._left: list[str] = [names[row] for row in np.flatnonzero(possible & lower)[::-1].tolist()]
        self.candidates: Candidates[str] = Candidates()
        self.candidates.keep_without_victims([names[row] for row in np.flatnonzero(possible & ~lower).tolist()])
        self._at: Hashable = None
        self._proven: set[str] = set()  # candidates that every filter confirms at the moment `_at`

    def step(self, pod: PodView, snapshot: Snapshot, rejection: Rejection, *, limit: float = math.inf) -> bool:
        """Take `limit` trials, or those of one node with more; True if more are left until `best` has its answer."""
        self._follow(snapshot)
        taken = 0
        while (name := self._next()) is not None:
            row, proves = snapshot.row(name), not self._left
            n_pods = 0 if row is None else int(snapshot.pod_count[row])
            trials = 1 + n_pods + proves * (TRIALS_OF_CONFIRMATION + n_pods)
            if taken and taken + trials > limit:
                return True
            taken += trials
            if not proves:
                self._left.pop()
            self.candidates.drop(name)
            if row is not None and not rejection.unresolvable[row]:
                self.candidates.keep(name, self._found(row, pod, snapshot, rejection, proves=proves))
        return False

    def _next(self) -> str | None:
        """The next node to look at, or the cheapest one to look at again; None if there is none."""
        if self._left:
            return self._left[-1]
        cheapest = self.candidates.cheapest()
        return None if cheapest is None or cheapest[0] in self._proven else cheapest[0]

    def _follow(self, snapshot: Snapshot) -> None:
        at = snapshot.revision, snapshot.objects.revision, snapshot.now
        if at != self._at:
            self._at = at
            self._proven.clear()

    def _found(self, row: int, pod: PodView, snapshot: Snapshot, rejection: Rejection, *, proves: bool) -> Candidate | tuple[Reason, ...]:
        """The candidate of a node as it is now, with `proves` if every filter confirms it, or the reasons why it is none."""
        found = select_victims(row, pod, snapshot, rejection.trial, snapshot.objects.following(Budgets), rejection.evictable)
        if not proves or not isinstance(found, Candidate):
            return found
        reasons = rejection.trial.confirmed(row, found.victims)
        if not reasons:
            self._proven.add(snapshot.names[row])
        return reasons or found

    def best(self) -> Candidate | None:
        """The cheapest candidate, which every filter confirms once `step` has returned False; None if there is none."""
        cheapest = self.candidates.cheapest()
        return None if cheapest is None else cheapest[1]


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
