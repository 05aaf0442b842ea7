"""The attempts to place the pods of a drain that wait, as the scheduler makes them: in the order of its queue, woken by changes.

A pod that no change has woken is tried too in the end, because the reason why it waits may be another one now. The scheduler does not try
it, so it does not preempt others.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable

from msgspec import structs

from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.extension import Plugin
from wharfinger.framework.plugins import default_preemption
from wharfinger.groups.results import GroupResult
from wharfinger.groups.terms import Impossible
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.scheduler.queue import hints
from wharfinger.simulate.dry_run import PodResult, pod_result
from wharfinger.simulate.placing import place_members
from wharfinger.what_if.drain.moving_pods import MovingPod, MovingPods
from wharfinger.what_if.drain.preemption import AGAIN_AND_AGAIN, Preemption
from wharfinger.what_if.drain.supposed_queue import WaitingTurn
from wharfinger.what_if.supposed_changes import SupposedChanges

ANSWERS_PER_STEP = 64
"""The pods that get an answer which is known in one step."""


class Attempts:
    """Tries the pods that wait. `groups` are the last results for groups that were tried, by key."""

    def __init__(self, decider: Decider, supposed: SupposedChanges, moving: MovingPods) -> None:
        self._decider = decider
        self._supposed = supposed
        self._state = supposed.state
        self._moving = moving
        self._queue = moving.queue
        self._preemption = Preemption(supposed, moving)
        self._failed: dict[Hashable, tuple[PodResult, frozenset[Plugin]]] = {}
        self._failed_at = -1
        self._decided = self._tried = 0
        self.groups: dict[str, GroupResult] = {}

    # ── before the drain ──

    def find_rejectors(self) -> Generator[None]:
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
        index = self._moving.index
        terms = index.terms(key)
        if terms is None or index.waiting_reason(key) is not None:
            return frozenset({hints.GROUP_MEMBERS})
        return (yield from hints.group_rejectors(self._decider, self._state.snapshot, terms, tuple(turn.members.values())))

    # ── the order of attempts ──

    def place_all(self) -> Generator[None]:
        """Try the pods that changes have woken, and then the others."""
        again = True
        while again:
            yield from self.place_woken()
            again = self._queue.end_backoffs() or (yield from self._place_sleeping())

    def place_woken(self) -> Generator[None]:
        """Try the pods that are ready, let victims of preemption leave, and create the pods again whose controllers wait."""
        yield from self._place_ready()
        while True:
            if self._preemption.has_victims:
                yield from self._preemption.let_victims_leave(self._place_ready)
                self._queue.end_backoffs()  # so much time has passed
            elif not self._moving.has_delayed:
                return
            elif not self._queue.end_backoffs():
                self._moving.create_delayed()
            yield from self._place_ready()

    def _place_ready(self) -> Generator[None]:
        """Try the pods that are ready, in the order of the queue. Once none is, mark the victims and try again those that wait for them."""
        while True:
            self._write_budgets()
            while (turn := self._queue.pop()) is not None:
                self._queue.failed(turn, (yield from self._attempt(turn)))
            if not self._preemption.mark_victims():
                return

    def _place_sleeping(self) -> Generator[None, None, bool]:
        """Try the pods that no change has woken, until one gets a node; True if one does."""
        for turn in self._queue.sleeping():
            n_members = len(turn.members)
            self._queue.take(turn)
            rejectors = yield from self._attempt(turn, preempt=False)
            if turn.outdated:
                turn.rejectors, turn.outdated = rejectors, False
            self._queue.put_back(turn)
            if len(turn.members) < n_members:
                return True
        return False

    def _write_budgets(self) -> None:
        """Write the present numbers of budgets, which preemption reads."""
        if self._queue:
            for budget in self._moving.evictions.changed():
                self._supposed.put(budget)

    # ── an attempt ──

    def _attempt(self, turn: WaitingTurn, *, preempt: bool = True) -> Generator[None, None, frozenset[Plugin]]:
        """A generator of steps that tries a pod or a group; pods with a node leave the turn. Returns the plugins that reject others.

        With `preempt`, pods may be evicted for it.
        """
        members = [self._moving[uid] for uid in turn.members]
        decided = self._decided
        if turn.group is None:
            rejectors = self._try(turn, members[0], preempt=preempt)
        else:
            yield from self._try_group(turn, turn.group, preempt=preempt)
        for each in members:
            if each.placement is not None and each.placement.node is not None:
                self._moving.evictions.replaced(each.pod)
                del turn.members[each.replacement.uid]
        if turn.group is not None:
            rejectors = (yield from self._group_rejectors(turn.group, turn)) if turn.members else frozenset()
        self._tried += 1
        if turn.group is not None or self._decided != decided or self._tried % ANSWERS_PER_STEP == 0:
            yield
        return rejectors

    def _try(self, turn: WaitingTurn, moving: MovingPod, *, preempt: bool) -> frozenset[Plugin]:
        """Decide about a replacement, for which with `preempt` pods may be evicted; returns the plugins that reject it.

        Pods with equal keys get equal answers, so a failure is decided once as long as the state is the same.
        """
        pod, snapshot = moving.replacement, self._state.snapshot()
        if self._failed_at != self._state.revision:
            self._failed, self._failed_at = {}, self._state.revision
        key = self._decider.chain.key(pod, snapshot), snapshot.nominated_to(pod.uid) or pod.nominated_node
        known = self._failed.get(key)
        if known is not None:
            moving.placement = structs.replace(known[0], pod=pod.key)
            return known[1]
        self._decided += 1
        decision = self._decider.decide(snapshot, pod)
        moving.placement = pod_result(decision, self._preemption.evicted_for(turn))
        if decision.node is not None:
            self._supposed.place(decision.assigned, decision.node, decision.claims)
            return frozenset()
        rejectors = hints.rejectors(decision)
        if decision.nominated is not None and not self._preemption.may_preempt(turn):
            moving.placement = structs.replace(moving.placement, message=f"{decision.message} {AGAIN_AND_AGAIN}")
        elif decision.nominated is not None and preempt:
            self._preemption.nominate(turn, [(pod, decision.nominated)], decision.victims)
        elif decision.nominated is None and preempt and default_preemption.WAITING not in decision.message:
            self._preemption.take_back([pod])
        if self._failed_at == self._state.revision and decision.nominated is None:
            self._failed[key] = moving.placement, rejectors
        return rejectors

    def _try_group(self, turn: WaitingTurn, key: str, *, preempt: bool) -> Generator[None]:
        """Place the members of a group that wait, or with `preempt` nominate them where others are to be evicted for the group."""
        from wharfinger.groups.attempt import attempt  # noqa: PLC0415 — most drains have no groups, and start earlier without
        from wharfinger.scheduler.group_victims import GroupVictims  # noqa: PLC0415 — as above

        index, pods = self._moving.index, tuple(turn.members.values())
        group, evicted = index.group(key), self._preemption.evicted_for(turn)
        waits = group is not None and GroupVictims(self._state.snapshot, index).are_leaving(
            structs.replace(group, waiting=pods), [victim.uid for victim in evicted]
        )
        found = yield from attempt(self._decider, self._state, index, key, pods, preempt=preempt and not waits)
        result = found.result
        if found.placed:
            result = structs.replace(result, victims=tuple(victim.key for victim in evicted))
        elif waits:
            result = structs.replace(result, message=f"{result.message}. preemption: {default_preemption.WAITING}")
        elif found.freed is not None and not self._preemption.may_preempt(turn):
            result = structs.replace(result, message=f"{result.message}. {AGAIN_AND_AGAIN}")
        elif found.freed is not None:
            nodes = found.freed.placement.nodes
            self._preemption.nominate(turn, [(turn.members[uid], node) for uid, node in nodes.items()], found.freed.victims)
        elif preempt and isinstance(found.answer, Impossible):
            self._preemption.take_back(pods)
        found = structs.replace(found, result=result)
        outcomes = yield from place_members(self._decider, self._supposed, index, found, watch=_result, evicted=evicted)
        for outcome in outcomes:
            self._moving[outcome.decision.pod.uid].placement = outcome.seen
        self.groups[key] = result


def _has_failed(pod: PodView) -> bool:
    """True if the status of a pod says that a scheduler found no node for it."""
    return any(found.type == "PodScheduled" and found.status == "False" for found in pod.object.status.conditions)


def _result(decision: Decision, _snapshot: Snapshot, evicted: tuple[PodView, ...]) -> PodResult:
    return pod_result(decision, evicted)
