"""A drain: where the pods of some nodes would go, in which order, and which of them could not leave.

As `kubectl drain` does, all nodes are cordoned first and then drained in sequence. A pod for which kubectl would refuse the drain stays,
and all others are decided. Evictions go through the Eviction API, so budgets can forbid them.

The pods that may leave a node at the same time are one step. All are marked as deleted. Controllers like ReplicaSet create the replacements
then, and the chain decides about these while the old pods still count on their nodes. The old pods leave, pods that wait are tried again,
and the other controllers create their replacements; that of Jobs is the last, because it waits after the loss of a pod. The order is always
that of the queue. A replacement that has a node counts as healthy, so a budget may allow more evictions in the next step. Members of a
group that left are placed together again, within the domains of those that stayed.

Which pod of a step is gone first is chance. Where a pod that waits may get a place as soon as one of them is gone, that would decide which
pod gets it. So then a step is one eviction. Pods that wait and get no place however many pods leave are no reason for that.

A pod that needs preemption is nominated first: its victims are marked as deleted, and count on their nodes while the other pods that are
ready are tried. Once nothing is ready, the victims leave, and the pod is decided again. So is a group, of which members are nominated to
several nodes. A pod that no change has woken does not preempt others, as the scheduler does not try it.

Who gets the last disruption of a budget is chance in a real drain; here it is the first pod in the order of the queue.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import numpy as np
from msgspec import Struct, structs

from wharfinger.framework.chain import Chain
from wharfinger.framework.cluster_event import NODE_REMOVED
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.framework.extension import Plugin
from wharfinger.framework.plugins import default_preemption
from wharfinger.framework.plugins.victims import has_lower
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.results import GroupResult, GroupState
from wharfinger.groups.terms import Impossible
from wharfinger.groups.turns import groups_in_steps, with_priority
from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model.objects.node_view import NodeView
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.scheduler.queue import hints
from wharfinger.simulate.dry_run import PodResult, Utilisation, gated_result, pod_result, utilisation
from wharfinger.simulate.placing import place_members, queue_order, read_in_steps
from wharfinger.steps import at_once
from wharfinger.what_if.leaving_pods import (
    Evictions,
    Refusal,
    cordoned,
    recreated,
    refusals,
    replaceable,
    replaced_after_delay,
    replaced_early,
    staying,
)
from wharfinger.what_if.supposed_changes import SupposedChanges
from wharfinger.what_if.supposed_queue import SupposedQueue, WaitingTurn, turn_uid

PODS_PER_STEP = 64
"""The pods whose budgets are checked in one step, or that get an answer which is known."""
MOST_PREEMPTIONS = 5
"""The attempts of preemption for one pod or group: its victims may come back each time before it is decided again, without end."""
AGAIN_AND_AGAIN = f"Preemption has freed the room for it {MOST_PREEMPTIONS} times, and others took it"
LEAVING = "it is being deleted already"
LOST = "no controller creates it again"


class DrainOutcome(Enum):
    """The outcome of a drain for one pod."""

    PLACED = "placed"
    """It leaves, and its replacement gets a node."""
    WAITS = "waits"
    """It leaves, and its replacement finds no node."""
    GONE = "gone"
    """It leaves, and there is no replacement."""
    FORBIDDEN = "forbidden"
    """A PodDisruptionBudget forbids its eviction, also after all others."""
    REFUSED = "refused"
    """kubectl refuses the drain because of it."""
    STAYS = "stays"
    """It stays, and kubectl drains the node nevertheless."""


class DrainedPod(Struct, frozen=True, kw_only=True):
    """The outcome for one pod. `source` is its node before; "" for a pod that waited for one already.

    `step` is the step in which it leaves, None if it does not. `alone` is True if others may leave with it by their budgets, and do not
    because a pod that waits may take the place of one of them. `placement` is the decision about its replacement, None if there is none.
    `displaced_by` is the pod for which preemption evicted it, None if the drain did. `controller` is `kind/name`, "" for none.
    """

    pod: str
    source: str
    controller: str
    outcome: DrainOutcome
    reason: str
    step: int | None
    placement: PodResult | None
    displaced_by: str | None
    alone: bool = False

    @property
    def node(self) -> str | None:
        """The node of the replacement, None if it has none."""
        return None if self.placement is None else self.placement.node


class BudgetUse(Struct, frozen=True, kw_only=True):
    """The use of one PodDisruptionBudget by a drain: `pods` that it covers are to leave, it allows `allowed` evictions now.

    `forbidden` pods could not leave in any step.
    """

    budget: str
    pods: int
    allowed: int
    forbidden: int

    @property
    def forbids_now(self) -> bool:
        """True if it forbids an eviction of the drain now: after `allowed` evictions."""
        return self.pods > self.allowed


class Drain(Struct, frozen=True, kw_only=True):
    """A finished drain.

    `pods` are in the order in which they leave, then those that do not leave, then pods that were in the queue already. `after` is the use
    of the cluster once the pods have left: without the nodes if they were removed, otherwise with the nodes cordoned.
    `has_budgets` is False if the cluster has no PodDisruptionBudget. `groups` are those of which members leave or waited, as
    they are in the end.
    """

    chain: Chain
    nodes: tuple[str, ...]
    removed: bool
    pods: tuple[DrainedPod, ...]
    budgets: tuple[BudgetUse, ...]
    has_budgets: bool
    steps: int
    before: Utilisation
    after: Utilisation
    groups: tuple[GroupResult, ...] = ()

    def of(self, outcome: DrainOutcome) -> tuple[DrainedPod, ...]:
        """The pods with one outcome, in order."""
        return tuple(pod for pod in self.pods if pod.outcome is outcome)

    @property
    def clean(self) -> bool:
        """True if every pod that has to leave may leave, and every replacement has a node."""
        return not any(pod.outcome in {DrainOutcome.WAITS, DrainOutcome.FORBIDDEN, DrainOutcome.REFUSED} for pod in self.pods)


def drain(  # noqa: PLR0913 — the keywords are independent choices
    chain: Chain,
    state: ClusterState,
    nodes: Sequence[str],
    *,
    force: bool = False,
    delete_empty_dir_data: bool = False,
    remove: bool = False,
    waiting: Iterable[PodView] = (),
    advance: Callable[[], None] = lambda: None,
) -> Drain:
    """The drain of these nodes, in this order; `state` is left as it is after it.

    `force` lets pods without a controller leave, `delete_empty_dir_data` pods with an emptyDir. With `remove` the nodes are removed at the
    end, with everything that is still on them. The `waiting` pods are in the queue from the beginning. `advance` is called for every pod
    that is on one of the nodes. Raises UnknownObject for a node that does not exist.
    """
    supposed = SupposedChanges(state)
    attempt = _Drain(Decider(chain), supposed, lambda pod: refusals(pod, force=force, delete_empty_dir_data=delete_empty_dir_data), advance)
    names = attempt.known(nodes)
    before = utilisation(state.snapshot())
    at_once(attempt.run(names, waiting))
    if remove:
        at_once(attempt.remove(names))
    return attempt.finished(names, before, removed=remove)


def drain_steps(  # noqa: PLR0913 — the keywords are independent choices
    decider: Decider,
    supposed: SupposedChanges,
    nodes: Sequence[str],
    *,
    force: bool = False,
    delete_empty_dir_data: bool = False,
    waiting: Iterable[PodView] = (),
) -> Generator[None, None, Drain]:
    """A generator of steps, about one decision each, that returns the same as `drain` without `remove`; `supposed` can undo it."""
    attempt = _Drain(decider, supposed, lambda pod: refusals(pod, force=force, delete_empty_dir_data=delete_empty_dir_data))
    names = attempt.known(nodes)
    before = utilisation(supposed.state.snapshot())
    yield from attempt.run(names, waiting)
    return attempt.finished(names, before, removed=False)


def precompute_drain(decider: Decider, supposed: SupposedChanges, nodes: Sequence[str], waiting: Iterable[PodView] = ()) -> Generator[None]:
    """The steps of reading what the decisions of a drain read of all nodes: devices, volumes and storage. None where it is read already.

    UnknownObject for a node that does not exist.
    """
    yield from read_in_steps(decider, supposed, waiting)
    for node in nodes:
        snapshot = supposed.state.snapshot()
        for pod in tuple(snapshot.pods_on(snapshot.known_row(node))):
            for _ in decider.precompute(supposed.state.snapshot, pod):
                yield


@dataclass(slots=True, eq=False)
class _LeavingPod:
    """A pod of the question, and its state so far. `order` is that in which pods left or entered the queue."""

    pod: PodView
    source: str
    replacement: PodView = field(init=False)
    old: PodView = field(init=False)
    """The pod itself, as it is while it leaves."""
    step: int | None = None
    order: int = 0
    reason: str = ""
    staying: bool = False
    refusal: Refusal | None = None
    placement: PodResult | None = None
    displaced_by: str | None = None
    alone: bool = False

    def __post_init__(self) -> None:
        self.replacement = self.old = self.pod

    @property
    def is_replaced_early(self) -> bool:
        """True if its replacement is created before it is gone."""
        return replaced_early(self.pod) and not self.pod.terminating

    def drained(self) -> DrainedPod:
        owner = self.pod.controller
        return DrainedPod(
            pod=self.pod.key,
            source=self.source,
            controller="" if owner is None else f"{owner.kind}/{owner.name}",
            outcome=self._outcome(),
            reason=self._reason(),
            step=self.step,
            placement=self.placement,
            displaced_by=self.displaced_by,
            alone=self.alone,
        )

    def _outcome(self) -> DrainOutcome:
        if self.placement is not None:
            return DrainOutcome.WAITS if self.placement.node is None else DrainOutcome.PLACED
        if self.refusal is not None:
            return DrainOutcome.FORBIDDEN
        if self.staying:
            return DrainOutcome.STAYS
        return DrainOutcome.REFUSED if self.step is None else DrainOutcome.GONE

    def _reason(self) -> str:
        if self.placement is not None:
            return self.placement.message
        return self.reason if self.refusal is None else self.refusal.message


@dataclass(slots=True, eq=False)
class _Preempting:
    """The attempts of preemption for a pod or group that waits: how many, and the pods that were evicted for it."""

    attempts: int = 0
    evicted: tuple[PodView, ...] = ()


class _Drain:
    """The state of a drain: who has left, who waits for a node, and what budgets allow."""

    def __init__(
        self, decider: Decider, supposed: SupposedChanges, refused: Callable[[PodView], str], advance: Callable[[], None] = lambda: None
    ) -> None:
        self._chain = decider.chain
        self._supposed = supposed
        self._state = supposed.state
        self._refused = refused
        self._advance = advance
        self._decider = decider
        self._evictions = Evictions(self._state.objects)
        self._moving: dict[str, _LeavingPod] = {}
        self._queue = SupposedQueue(self._state.snapshot, self._sort_key)
        self._supposed.changed = self._queue.notify
        self._failed: dict[Hashable, tuple[PodResult, frozenset[Plugin]]] = {}
        self._failed_at = -1
        self._decided = self._tried = 0
        self._entered = 0
        self._preempting: dict[str, _Preempting] = {}  # by the uid of the turn
        self._chosen: list[tuple[str, str, list[PodView]]] = []  # victims that are not marked yet: for which turn and pod
        self._going: list[_LeavingPod] = []  # victims that are marked
        self._delayed: list[_LeavingPod] = []  # pods whose controllers wait before they create them again
        self._uses: dict[str, tuple[int, int]] = {}
        self._index = GroupIndex(self._state.objects)
        self._groups: dict[str, GroupResult] = {}
        self.steps = 0

    def known(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """The names of the nodes, each once; UnknownObject for one that does not exist."""
        names = tuple(dict.fromkeys(nodes))
        for name in names:
            self._state.snapshot().known_row(name)
        return names

    def run(self, nodes: Sequence[str], waiting: Iterable[PodView]) -> Generator[None]:
        """Cordon the nodes, and empty them in order."""
        waiting = list(waiting)
        snapshot = self._state.snapshot()
        on_nodes = [pod for node in nodes for pod in snapshot.pods_on(snapshot.known_row(node))]
        self._index = yield from groups_in_steps(self._chain, self._state, [*waiting, *on_nodes])
        leaving = []
        for node in nodes:
            leaving.append(self._pods_of(node))
            yield
        for pod in queue_order(self._chain, waiting):
            moving = self._moving.setdefault(pod.uid, _LeavingPod(pod, ""))
            moving.order = self._next_order()
            self._enqueue(moving, pod)
        yield from self._find_rejectors()
        for node in nodes:
            self._supposed.replace(cordoned(self._node(node).object))
        yield from self._place()
        left: list[_LeavingPod] = []
        for on_node in leaving:
            left += yield from self._empty(on_node)
        while left:
            still = yield from self._empty(left)
            if len(still) == len(left):
                break
            left = still

    def finished(self, nodes: tuple[str, ...], before: Utilisation, *, removed: bool) -> Drain:
        """The drain of these nodes as far as it has come."""
        return Drain(
            chain=self._chain,
            nodes=nodes,
            removed=removed,
            pods=self.outcomes(),
            budgets=self.budgets(),
            has_budgets=bool(self._state.objects.all(objects.PodDisruptionBudget)),
            steps=self.steps,
            before=before,
            after=utilisation(self._state.snapshot()),
            groups=tuple(final_result(self._index, key, tried) for key, tried in self._groups.items()),
        )

    def outcomes(self) -> tuple[DrainedPod, ...]:
        """The outcome of each pod: first those that have left, by step and order, then those that have not, then those from the queue."""
        ordered = sorted(
            enumerate(self._moving.values()),
            key=lambda item: (not item[1].source, item[1].step is None, item[1].step or 0, item[1].order, item[0]),
        )
        return tuple(moving.drained() for _, moving in ordered)

    def budgets(self) -> tuple[BudgetUse, ...]:
        """The use of each budget that covers a pod of the nodes, by name."""
        forbidden = [name for moving in self._moving.values() if moving.refusal is not None for name in moving.refusal.budgets]
        return tuple(
            BudgetUse(budget=name, pods=pods, allowed=allowed, forbidden=forbidden.count(name))
            for name, (pods, allowed) in sorted(self._uses.items())
        )

    def _pods_of(self, node: str) -> list[_LeavingPod]:
        """The pods of a node that are to leave, in the order of the queue; the others are remembered as well."""
        leaving = []
        for pod in queue_order(self._chain, self._node(node).pods):
            moving = self._moving[pod.uid] = _LeavingPod(pod, node)
            reason = staying(pod)
            moving.staying = bool(reason)
            moving.reason = reason or self._refused(pod)
            if not moving.reason:
                leaving.append(moving)
                self._note_budgets(pod)
            else:
                self._advance()
        return leaving

    def _node(self, name: str) -> NodeView:
        snapshot = self._state.snapshot()
        return snapshot.node(snapshot.known_row(name))

    def _note_budgets(self, pod: PodView) -> None:
        for budget in self._evictions.covering(pod):
            name = objects.key_of(budget)
            pods, allowed = self._uses.get(name, (0, self._evictions.allowed(budget)))
            self._uses[name] = pods + 1, allowed

    def _empty(self, leaving: Iterable[_LeavingPod]) -> Generator[None, None, list[_LeavingPod]]:
        """Evict the pods in steps, as budgets allow, and place their replacements; returns those that may not leave."""
        left = [moving for moving in leaving if moving.step is None]
        while left:
            one_by_one = len(left) > 1 and (yield from self._may_let_in(left))
            allowed = yield from self._evicted(left, one_by_one=one_by_one)
            if not allowed:
                break
            self.steps += 1
            yield from self._evict(allowed, alone=one_by_one or len(left) == 1)
            yield from self._place()
            left = [moving for moving in left if moving.step is None]
        return left

    def _evict(self, leaving: Sequence[_LeavingPod], *, alone: bool) -> Generator[None]:
        """Let pods leave. They are marked as deleted first, and gone later: both may wake pods that wait.

        Only if one pod leaves alone may they get a place. Otherwise they are put behind those that were not woken. A replacement that is
        created early is tried before any of the pods is gone.
        """
        early = [moving for moving in leaving if moving.is_replaced_early]
        late = [moving for moving in leaving if not moving.is_replaced_early]
        self._queue.in_vain = not alone
        for moving in leaving:
            moving.step, moving.refusal, moving.order = self.steps, None, self._next_order()
            self._mark(moving)
            yield from self._place_woken()
        self._queue.in_vain = False
        for moving in early:
            self._create_again(moving)
        yield from self._place_woken()
        self._queue.in_vain = not alone
        for moving in leaving:
            self._supposed.leave(moving.old)
            self._index.remove(moving.old.uid)
            self._advance()
            yield from self._place_woken()
            yield
        self._queue.in_vain = False
        for moving in late:
            self._create_again(moving)

    def _mark(self, moving: _LeavingPod, *, preempted: bool = False) -> None:
        """Mark a pod as deleted, with `preempted` for another pod."""
        moving.old = moving.pod
        if moving.is_replaced_early:
            moving.old = self._supposed.begin_leaving(moving.pod, preempted=preempted)
            self._index.remove(moving.pod.uid)
            self._index.put(moving.old)
        else:
            self._supposed.mark_deleted(moving.pod, preempted=preempted)

    def _evicted(self, left: Iterable[_LeavingPod], *, one_by_one: bool) -> Generator[None, None, list[_LeavingPod]]:
        """The pods whose eviction is allowed now, each counted; with `one_by_one` the first of them, `alone` if there are others."""
        allowed: list[_LeavingPod] = []
        for number, moving in enumerate(left):
            moving.refusal = self._evictions.refusal(moving.pod)
            if moving.refusal is None and one_by_one and allowed:
                allowed[0].alone = True
                break
            if moving.refusal is None:
                self._evictions.evict(moving.pod)
                allowed.append(moving)
            if number % PODS_PER_STEP == PODS_PER_STEP - 1:
                yield
        return allowed

    def _may_let_in(self, left: Sequence[_LeavingPod]) -> Generator[None, None, bool]:
        """True if a pod that waits may get a place when some of the pods of `left` are gone.

        A replacement that is created before that waits too if it has no place as long as they are there.
        """
        leaving = frozenset(moving.pod.uid for moving in left)
        rows = np.array([self._state.snapshot().known_row(name) for name in {moving.source for moving in left}], np.intp)
        early = [recreated(moving.pod).with_uid(f"{moving.pod.uid}/again") for moving in left if moving.is_replaced_early]
        asked: set[Hashable] = set()
        n_waiting = len(self._queue)
        for number, pod in enumerate(itertools.chain(self._queue, early)):
            group, snapshot, is_early = self._index.key_of(pod.uid), self._state.snapshot(), number >= n_waiting
            alike = group, self._chain.key(pod, snapshot), is_early
            if alike in asked:
                continue
            asked.add(alike)
            filtering = self._decider.filtering(snapshot, pod)
            if is_early and filtering.count:
                continue
            found = Diagnosis(filtering, snapshot.n_nodes)
            if group is None:
                may_come = found.may_pass_once_pods_leave(rows, preempts=_may_preempt(pod, snapshot))
            else:  # each member may fit alone, so the pods of a node are no reason here either
                members = {member.uid for member in self._index.members(group)}
                may_come = not members.isdisjoint(leaving) or found.may_pass_once_pods_leave(rows, preempts=True)
            if may_come:
                return True
            if number % PODS_PER_STEP == PODS_PER_STEP - 1:
                yield
        return False

    def _create_again(self, moving: _LeavingPod) -> None:
        """Put the replacement of a pod into the queue, if there is one; or later, if its controller waits."""
        if not replaceable(moving.pod):
            moving.placement, moving.reason = None, LEAVING if moving.pod.terminating else LOST
        elif replaced_after_delay(moving.pod):
            self._delayed.append(moving)
        else:
            self._enqueue(moving, recreated(moving.pod, self._now()))

    def _enqueue(self, moving: _LeavingPod, pod: PodView) -> None:
        pod = self._supposed.claimed(pod)
        moving.replacement, moving.placement = pod, None
        key = self._index.put(pod)
        gate = self._chain.gate(pod)
        if gate is None:
            self._queue.add(pod, key)
        else:
            moving.placement = gated_result(pod, gate, self._state.snapshot().n_nodes)

    def _next_order(self) -> int:
        self._entered += 1
        return self._entered

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._state.snapshot().now, UTC)

    def _sort_key(self, pod: PodView, group: str | None) -> Any:
        """The place of a pod in the queue, or of a group by the pod that represents it, as the chain sorts them."""
        terms = None if group is None else self._index.terms(group)
        return self._chain.sort_key(pod if terms is None else with_priority(pod, terms.priority))

    def _find_rejectors(self) -> Generator[None]:
        """Let the pods wait that were tried before the drain, as their status says, and that fit on no node."""
        ready = []
        while (turn := self._queue.pop()) is not None:
            ready.append(turn)
        for turn in ready:
            rejectors = yield from self._rejectors(turn)
            if rejectors is None:
                self._queue.wake(turn)
            else:
                self._queue.failed(turn, rejectors)

    def _rejectors(self, turn: WaitingTurn) -> Generator[None, None, frozenset[Plugin] | None]:
        """The plugins that reject nodes for a turn; None if it has not failed yet, or is a pod that fits on a node."""
        if not all(map(_has_failed, turn.members.values())):
            return None
        if turn.group is not None:
            return (yield from self._group_rejectors(turn.group, turn))
        yield
        decision = self._decider.decide(self._state.snapshot(), turn.pod)
        return hints.rejectors(decision) if decision.node is None else None

    def _group_rejectors(self, key: str, turn: WaitingTurn) -> Generator[None, None, frozenset[Plugin]]:
        """The plugins whose rejection of a group a change may end; a group without enough members waits for them."""
        terms = self._index.terms(key)
        if terms is None or self._index.waiting_reason(key) is not None:
            return frozenset({hints.GROUP_MEMBERS})
        return (yield from hints.group_rejectors(self._decider, self._state.snapshot, terms, tuple(turn.members.values())))

    def _place_woken(self) -> Generator[None]:
        """Try the pods that are ready, in the order of the queue, let victims of preemption leave, and then create the delayed pods."""
        yield from self._place_ready()
        while self._going or self._delayed:
            if self._going:
                yield from self._let_victims_leave()
                continue
            if not self._queue.end_backoffs():
                delayed, self._delayed = self._delayed, []
                for moving in delayed:
                    self._enqueue(moving, recreated(moving.pod, self._now()))
            yield from self._place_ready()

    def _place_ready(self) -> Generator[None]:
        """Try the pods that are ready, in the order of the queue. Once none is, mark the victims and try again those that wait for them."""
        while True:
            self._update_budgets()
            while (turn := self._queue.pop()) is not None:
                self._queue.failed(turn, (yield from self._attempt(turn)))
            if not self._chosen:
                return
            chosen, self._chosen = self._chosen, []
            for _, for_pod, victims in chosen:
                for victim in victims:
                    moving = self._displace(victim, for_pod)
                    self._mark(moving, preempted=True)
                    self._going.append(moving)
            for uid, _, _ in chosen:
                self._queue.activate(uid)

    def _let_victims_leave(self) -> Generator[None]:
        """Let the victims that are marked leave their nodes, and create them again as their controllers do."""
        going, self._going = self._going, []
        for moving in going:
            if moving.is_replaced_early:
                self._create_again(moving)
        yield from self._place_ready()
        for moving in going:
            self._supposed.leave(moving.old)
            self._index.remove(moving.old.uid)
            yield from self._place_ready()
        for moving in going:
            if not moving.is_replaced_early:
                self._create_again(moving)
        yield from self._place_ready()
        if self._queue.end_backoffs():
            yield from self._place_ready()

    def _update_budgets(self) -> None:
        """Write the present numbers of budgets, which preemption reads."""
        if self._queue:
            for budget in self._evictions.changed():
                self._supposed.put(budget)

    def _place(self) -> Generator[None]:
        """Try the pods that are ready, in the order of the queue, and then the others, whose reasons may be others now."""
        again = True
        while again:
            yield from self._place_woken()
            again = self._queue.end_backoffs()
            for turn in () if again else self._queue.sleeping():
                n_members = len(turn.members)
                self._queue.take(turn)
                rejectors = yield from self._attempt(turn, preempt=False)
                if turn.outdated:
                    turn.rejectors, turn.outdated = rejectors, False
                self._queue.put_back(turn)
                if len(turn.members) < n_members:
                    again = True
                    break

    def _attempt(self, turn: WaitingTurn, *, preempt: bool = True) -> Generator[None, None, frozenset[Plugin]]:
        """A generator of steps that tries a pod or a group; pods with a node leave the turn. Returns the plugins that reject others.

        With `preempt`, pods may be evicted for it.
        """
        moving = [self._moving[uid] for uid in turn.members]
        decided = self._decided
        if turn.group is None:
            rejectors = self._try(turn, moving[0], preempt=preempt)
        else:
            yield from self._try_group(turn, turn.group, preempt=preempt)
        for each in moving:
            if each.placement is not None and each.placement.node is not None:
                self._evictions.replaced(each.pod)
                del turn.members[each.replacement.uid]
        if turn.group is not None:
            rejectors = (yield from self._group_rejectors(turn.group, turn)) if turn.members else frozenset()
        self._tried += 1
        if turn.group is not None or self._decided != decided or self._tried % PODS_PER_STEP == 0:
            yield
        return rejectors

    def _try_group(self, turn: WaitingTurn, key: str, *, preempt: bool) -> Generator[None]:
        """Place the members of a group that wait, or with `preempt` nominate them where others are to be evicted for the group."""
        from wharfinger.groups.attempt import attempt  # noqa: PLC0415 — most drains have no groups, and start earlier without
        from wharfinger.scheduler.group_victims import GroupVictims  # noqa: PLC0415 — as above

        pods = tuple(turn.members.values())
        group = self._index.group(key)
        victims = GroupVictims(self._state.snapshot, self._index)
        waits = group is not None and victims.are_leaving(structs.replace(group, waiting=pods))
        found = yield from attempt(self._decider, self._state, self._index, key, pods, preempt=preempt and not waits)
        known = self._preempting.get(turn.uid, _Preempting())
        result = found.result
        if found.placed and known.evicted:
            result = structs.replace(result, victims=tuple(victim.key for victim in known.evicted))
        elif found.freed is not None and known.attempts >= MOST_PREEMPTIONS:
            result = structs.replace(result, message=f"{result.message}. {AGAIN_AND_AGAIN}")
        elif found.freed is not None:
            nodes = found.freed.placement.nodes
            self._nominate(turn, [(turn.members[uid], node) for uid, node in nodes.items()], found.freed.victims)
        elif waits and not found.placed:
            result = structs.replace(result, message=f"{result.message}. preemption: {default_preemption.WAITING}")
        elif preempt and isinstance(found.answer, Impossible):
            for pod in pods:
                self._supposed.remove_nomination(pod)
        found = structs.replace(found, result=result)
        outcomes = yield from place_members(self._decider, self._supposed, self._index, found, watch=_seen, evicted=known.evicted)
        for outcome in outcomes:
            self._moving[outcome.decision.pod.uid].placement = outcome.seen
        self._groups[key] = result

    def _try(self, turn: WaitingTurn, moving: _LeavingPod, *, preempt: bool) -> frozenset[Plugin]:
        """Decide about a replacement, for which with `preempt` pods may be evicted; returns the plugins that reject it.

        Pods with equal keys get equal answers, so a failure is decided once as long as the state is the same.
        """
        pod, snapshot = moving.replacement, self._state.snapshot()
        if self._failed_at != self._state.revision:
            self._failed, self._failed_at = {}, self._state.revision
        key = self._chain.key(pod, snapshot), snapshot.nominated_to(pod.uid) or pod.nominated_node
        known = self._failed.get(key)
        if known is not None:
            moving.placement = structs.replace(known[0], pod=pod.key)
            return known[1]
        self._decided += 1
        decision = self._decider.decide(snapshot, pod)
        preempting = self._preempting.get(turn.uid, _Preempting())
        moving.placement = pod_result(decision, preempting.evicted)
        if decision.node is not None:
            self._supposed.place(decision.assigned, decision.node, decision.claims)
            return frozenset()
        rejectors = hints.rejectors(decision)
        if decision.nominated is not None and preempting.attempts >= MOST_PREEMPTIONS:
            moving.placement = structs.replace(moving.placement, message=f"{decision.message} {AGAIN_AND_AGAIN}")
        elif decision.nominated is not None and preempt:
            self._nominate(turn, [(pod, decision.nominated)], decision.victims)
        elif decision.nominated is None and preempt and default_preemption.WAITING not in decision.message:
            self._supposed.remove_nomination(pod)
        if self._failed_at == self._state.revision and decision.nominated is None:
            self._failed[key] = moving.placement, rejectors
        return rejectors

    def _nominate(self, turn: WaitingTurn, nodes: Sequence[tuple[PodView, str]], victims: Sequence[PodView]) -> None:
        """Nominate pods of a turn to nodes from which victims are to leave, and take the nomination from those of lower priority there."""
        snapshot = self._state.snapshot()
        own = {pod.uid for pod, _ in nodes}
        lower = {
            other.uid: other
            for pod, node in nodes
            for other in snapshot.nominated(snapshot.known_row(node))
            if other.priority < pod.priority and other.uid not in own
        }
        evicted = [victim for victim in victims if not snapshot.leaving(victim)]
        for other in lower.values():
            self._supposed.remove_nomination(other)
            self._queue.activate(turn_uid(other, self._index.key_of(other.uid)))
        preempting = self._preempting.setdefault(turn.uid, _Preempting())
        preempting.attempts += 1
        preempting.evicted += tuple(evicted)
        self._chosen.append((turn.uid, nodes[0][0].key, evicted))
        for pod, node in nodes:
            self._supposed.nominate(pod, node, victims)

    def _displace(self, victim: PodView, displaced_by: str) -> _LeavingPod:
        """Count a pod that preemption evicts. A pod that the drain has evicted before leaves in the step of that."""
        self._evictions.count_lost(victim)
        self._index.remove(victim.uid)
        moving = self._moving.setdefault(victim.uid, _LeavingPod(victim, victim.node_name))
        moving.refusal = None
        if moving.step is None:
            moving.step, moving.order, moving.displaced_by = self.steps, self._next_order(), displaced_by
        return moving

    def remove(self, nodes: Sequence[str]) -> Generator[None]:
        """Remove the nodes, and place the replacements that were placed there because they tolerate a cordon. It cannot be undone."""
        for moving in self._moving.values():
            if moving.placement is not None and moving.placement.node in nodes:
                self._supposed.leave(moving.replacement)
                self._index.remove(moving.replacement.uid)
                self._enqueue(moving, moving.replacement)
        for node in nodes:
            self._state.remove_node(node)
            self._queue.notify(NODE_REMOVED)
        yield from self._place()


def _has_failed(pod: PodView) -> bool:
    """True if the status of a pod says that a scheduler found no node for it."""
    return any(found.type == "PodScheduled" and found.status == "False" for found in pod.object.status.conditions)


def _may_preempt(pod: PodView, snapshot: Snapshot) -> bool:
    """True if there are pods that may be evicted for a pod, by their priorities."""
    return pod.object.spec.preemption_policy != "Never" and bool(has_lower(pod.priority, snapshot).any())


def _seen(decision: Decision, _snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
    return pod_result(decision, evicted)


def final_result(index: GroupIndex, key: str, tried: GroupResult) -> GroupResult:
    """The final result of a group: later steps may have placed or evicted some of its members."""
    members, placed = index.members(key), index.n_placed(key)
    if placed == len(members):
        return structs.replace(tried, members=len(members), placed=placed, state=GroupState.PLACED, message="", nearest=())
    missing = placed < tried.min_count
    said = f"{placed} of {count(len(members), 'member')} {'have' if placed != 1 else 'has'} a node"
    said += f", and it needs {tried.min_count}" if missing else ""
    message = f"{said}: {tried.message}" if tried.message else said
    state = tried.state if not tried.is_placed else GroupState.IN_PART
    return structs.replace(tried, members=len(members), placed=placed, state=state, message=message)
