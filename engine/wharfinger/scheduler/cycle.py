"""The scheduling cycle: one pod, from the queue to an assumed placement or a reason why there is none."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from wharfinger.errors import CycleAborted
from wharfinger.framework.cluster_event import Change, ClusterEvent, pod_placed
from wharfinger.framework.evaluation.cycle import Pause
from wharfinger.framework.extension import Placement
from wharfinger.framework.plugins import default_preemption
from wharfinger.policies.budget import SUSPENDED
from wharfinger.scheduler import status
from wharfinger.scheduler.events import NOT_DECIDED, Decided, DecisionSummary
from wharfinger.scheduler.ports import LiveCluster
from wharfinger.scheduler.queue import hints
from wharfinger.scheduler.queued_pods import Place

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.framework.extension import Plugin
    from wharfinger.framework.prepared import Reason
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.policies.budget import PolicyBudget
    from wharfinger.scheduler.binding.cycle import BindingCycle
    from wharfinger.scheduler.held_changes import HeldChanges
    from wharfinger.scheduler.preemption import Preemptor
    from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
    from wharfinger.scheduler.queue.time_shares import TimeShares
    from wharfinger.scheduler.queued_pods import QueuedPod
    from wharfinger.scheduler.status import FailureHandler

AT_ONCE_SECONDS = 0.02
"""Seconds of CPU time of counting placed pods without steps, so that the cluster does not change between most pods and their decisions."""
STEPS_IN_ORDER = 256
"""Steps of the precomputation of a decision for which pods wait that come later in the queue.

Steps are counted, not timed, so that the order of decisions depends on the objects and not on the speed of the machine.
"""
ALWAYS_IN_ORDER = 1024
"""Templates of placed pods up to which those pods wait for all steps of counting placed pods."""


class Precomputation:
    """An iterator of the steps of `Decider.precompute`; those that count placed pods are taken at once for `AT_ONCE_SECONDS`.

    `concluding`: the cluster should not change until the decision is made.
    """

    def __init__(self, steps: Generator[Pause], snapshot: Callable[[], Snapshot], timer: Callable[[], float]) -> None:
        self._steps = steps
        self._snapshot = snapshot
        self._timer = timer
        self._at_once_until = timer() + AT_ONCE_SECONDS
        self._taken = 0  # the steps that count towards `STEPS_IN_ORDER`
        self.concluding = False

    @property
    def may_be_passed(self) -> bool:
        """True if so many steps were taken that pods which come later in the queue may be placed now."""
        return self._taken > STEPS_IN_ORDER and not self.concluding

    def __iter__(self) -> Self:
        """The iterator itself."""
        return self

    def __next__(self) -> None:
        """Take a step, or several of counting placed pods."""
        for pause in self._steps:
            self.concluding = pause is Pause.CONCLUDING
            if self.concluding:
                return
            self._taken += pause is Pause.SEARCHING or self._snapshot().n_templates > ALWAYS_IN_ORDER
            if pause is Pause.SEARCHING or self.may_be_passed or self._timer() >= self._at_once_until:
                return
        raise StopIteration

    def close(self) -> None:
        """Give up the steps that are left."""
        self._steps.close()


class _PrecomputedPod(Struct, frozen=True):
    """A pod with the precomputation of its decision by `decider`.

    `may_postpone`: the decision may find that more must be computed first.
    """

    queued: QueuedPod
    decider: Decider
    steps: Precomputation
    may_postpone: bool


class SchedulingCycle:
    """Decides about pods on the live state and acts on the decisions."""

    def __init__(  # noqa: PLR0913, PLR0917 — its collaborators and settings
        self,
        cluster: LiveCluster,
        queue: SchedulingQueue,
        binding: BindingCycle,
        failures: FailureHandler,
        preemptor: Preemptor,
        budget: PolicyBudget,
        shares: TimeShares,
        changes: HeldChanges,
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.ports.clock
        self._queue = queue
        self._binding = binding
        self._failures = failures
        self._preemptor = preemptor
        self._budget = budget
        self._shares = shares
        self._changes = changes
        self._emit = cluster.ports.emit
        self._timer = budget.settings.timer
        self._precomputing: deque[_PrecomputedPod] = deque()

    @property
    def busy(self) -> bool:
        """True while something is being computed for the decision about a pod."""
        return bool(self._precomputing)

    @property
    def may_be_passed(self) -> bool:
        """True if pods may be placed now that come later in the queue: the precomputation of a decision takes long, or there is none."""
        return not self._precomputing or self._precomputing[0].steps.may_be_passed

    def schedule(self, queued: QueuedPod, ends_at: float) -> None:
        """Try a pod that was just popped, until the monotonic time `ends_at` if it takes steps and later pods wait for it.

        Afterwards it is being bound, waits again, has left the queue, or `advance` continues with it.
        """
        began, free = self._clock.monotonic(), self._shares.free_seconds(queued)
        waits = bool(queued.profile.chain.scanning) and self._is_settled(queued)  # first, as precomputing may look at all placed pods
        if not waits:
            self._precompute_or_decide(queued)
        self._shares.took(queued, self._clock.monotonic() - began - free)
        if not self.may_be_passed and self._clock.monotonic() < ends_at:
            self.advance(ends_at)

    def _precompute_or_decide(self, queued: QueuedPod) -> None:
        """Begin with the precomputation of a decision; decide about the pod if there is none."""
        if not self._begin(queued, queued.profile.decider.precompute(self._cluster.snapshot, queued.pod), may_postpone=True):
            self._decide(queued, may_postpone=True)

    def _begin(self, queued: QueuedPod, work: Generator[Pause], *, may_postpone: bool) -> bool:
        """Begin with the precomputation of a decision; True if it takes steps: `advance` takes them, and then decides about the pod."""
        steps = Precomputation(work, self._cluster.snapshot, self._timer)
        for _ in steps:
            self._precomputing.append(_PrecomputedPod(queued, queued.profile.decider, steps, may_postpone))
            return True
        return False

    def advance(self, ends_at: float) -> None:
        """Continue until the monotonic time `ends_at` with precomputations, and decide about pods for which they are done."""
        while self._precomputing:
            first = self._precomputing[0]
            queued = first.queued
            began, free = self._clock.monotonic(), self._shares.free_seconds(queued)
            done = self._advanced(first, ends_at)
            self._shares.took(queued, self._clock.monotonic() - began - free)
            if not done:
                return
            if self._clock.monotonic() >= ends_at or not self._binding.slot_free.is_set():
                return

    def _advanced(self, precomputed: _PrecomputedPod, ends_at: float) -> bool:
        """True once the steps are done and the pod is decided; False if steps are left at the monotonic time `ends_at`."""
        queued = precomputed.queued
        waits = queued.place is Place.IN_FLIGHT  # otherwise it was deleted between two steps
        if waits and precomputed.steps.concluding:
            self._changes.hold(self)
        for _ in precomputed.steps if waits else ():
            if precomputed.steps.concluding:
                self._changes.hold(self)
            if self._clock.monotonic() >= ends_at:
                return False
        self._precomputing.popleft()
        try:
            if waits and queued.profile.decider is not precomputed.decider:  # policies were adopted meanwhile
                self._precompute_or_decide(queued)
            elif waits:
                self._decide(queued, may_postpone=precomputed.may_postpone)
        finally:
            self._changes.release(self)
        return True

    def cancel(self) -> None:
        """Give up all precomputations; the pods wait as if they had not been tried."""
        while self._precomputing:
            given_up = self._precomputing.popleft()
            given_up.steps.close()
            self._queue.put_back(given_up.queued)
        self._changes.release(self)

    def _decide(self, queued: QueuedPod, *, may_postpone: bool = False) -> None:
        """Decide about a pod. With `may_postpone`, a decision that takes a long search for pods to evict is left to `advance`."""
        if self._is_settled(queued):
            return
        try:
            decision, suspends = self._decision(queued, may_postpone=may_postpone)
            if suspends and self._held(queued):
                return
            if decision is None:
                self._search_for_victims(queued)
                return
            self._emit(Decided(queued.profile.name, decision))
            if decision.aborted:
                self._failures.error(queued, CycleAborted(decision.message), DecisionSummary.of(decision))
            elif decision.node is None:
                self._rejected(queued, decision)
            else:
                self._place(queued, decision.node, decision)
        except Exception as error:  # noqa: BLE001 — an object or a plugin may cause any exception; the other pods continue
            self._failures.error(queued, error)

    def _search_for_victims(self, queued: QueuedPod) -> None:
        """Search for pods to evict in steps, and decide about the pod after them."""
        work = queued.profile.decider.post_filter_in_steps(self._cluster.snapshot, queued.pod)
        if not self._begin(queued, work, may_postpone=False):
            self._decide(queued)

    def _decision(self, queued: QueuedPod, *, may_postpone: bool) -> tuple[Decision | None, bool]:
        """(the decision about a pod, whether it suspends a policy); None with `may_postpone` if steps are to be taken before.

        One that raises counts for budgets too: it may have taken long.
        """
        started, snapshot, chain = self._clock.monotonic(), self._cluster.snapshot(), queued.profile.chain
        decision, goes_on = None, False
        self._budget.deciding()
        try:
            decider = queued.profile.decider
            decision = (decider.decide_unless_long if may_postpone else decider.decide)(snapshot, queued.pod)
            goes_on = decision is None
        finally:
            queued.stages["decide"] = spent = self._clock.monotonic() - started
            pod_rules = chain.pod_rules(queued.pod, snapshot) if decision is None else decision.evaluation.pod_rules
            suspends = self._budget.decided(pod_rules.governing, spent, goes_on=goes_on)
        return decision, suspends

    def _is_settled(self, queued: QueuedPod) -> bool:
        """True if there is nothing to decide now: the pod has left the queue, or waits for an event or a policy."""
        try:
            return self._skipped(queued) or self._held(queued)
        except Exception as error:  # noqa: BLE001 — a scope may cause any exception; the other pods continue
            self._failures.error(queued, error)
            return True

    def _skipped(self, queued: QueuedPod) -> bool:
        """True if there is nothing to decide: the pod is terminating, placed, or waits for its victims."""
        pod = queued.pod
        if pod.terminating:
            self._queue.done(queued)
            self._cluster.ports.events.record(pod, status.failed_scheduling(f"skip schedule deleting pod: {pod.key}"))
            return True
        if self._cluster.state.is_placed(pod.uid):
            self._queue.done(queued)
            return True
        if self._preemptor.evicting_for(pod.uid):
            self._queue.wait_for_event(queued)
            return True
        return False

    def _held(self, queued: QueuedPod) -> bool:
        """True if the pod waits because a policy that governs it is suspended."""
        holding = self._budget.holding(queued.profile.chain, queued.pod, self._cluster.snapshot())
        if holding:
            self._failures.unschedulable(queued, frozenset({SUSPENDED}), NOT_DECIDED, message="; ".join(map(str, holding)))
        return bool(holding)

    def _place(self, queued: QueuedPod, node: str, decision: Decision) -> None:
        pod = decision.assigned
        decided = DecisionSummary.of(decision)
        placement = Placement(pod=pod, node=node, shared=decision.evaluation.shared)
        self._cluster.state.assume(pod, node)
        reserved, refusal = False, None
        try:
            if decision.claims:
                self._binding.claims.reserve(pod, decision.claims)
            self._binding.volumes.reserve(pod, node)
            refusal = self._reserve(queued, placement)
            if refusal is None:
                self._queue.notify(pod_placed(pod, node))
                reserved = True
        finally:
            if not reserved:  # nothing may stay assumed that is not being bound
                self._binding.undo(queued, placement, known=False)
        if refusal is None:
            self._binding.start(queued, placement, decided)
        else:
            plugin, reason = refusal
            self._failures.unschedulable(queued, frozenset({plugin}), decided, message=reason.text)

    def _reserve(self, queued: QueuedPod, placement: Placement) -> tuple[Plugin, Reason] | None:
        """The plugin that refuses to reserve the placement, and why; None if no plugin refuses."""
        started = self._clock.monotonic()
        try:
            refusals = ((plugin, plugin.reserve(placement)) for plugin in queued.profile.reserves)
            return next(((plugin, reason) for plugin, reason in refusals if reason is not None), None)
        finally:
            queued.stages["reserve"] = self._clock.monotonic() - started

    def _rejected(self, queued: QueuedPod, decision: Decision) -> None:
        rejectors = hints.rejectors(decision)
        decided = DecisionSummary.of(decision, tuple(sorted(plugin.name for plugin in rejectors)))
        if decision.nominated is not None:
            self._failures.unschedulable(queued, rejectors, decided, nominated=decision.nominated)
            self._preemptor.preempt(queued, decision.nominated, decision.victims)
        else:
            self._binding.claims.clean_up(decision)
            keeps = default_preemption.WAITING in decision.message or not self._take_nomination_back(queued.pod)
            self._failures.unschedulable(queued, rejectors, decided, nominated=None if keeps else "")

    def _take_nomination_back(self, pod: PodView) -> bool:
        """True if the pod had a nominated node that does not help it; the nomination is taken back."""
        node = self._cluster.snapshot().nominated_to(pod.uid) or pod.nominated_node
        if not node:
            return False
        self._cluster.state.remove_nomination(pod)
        self._queue.notify(Change(events=ClusterEvent.NOMINATION, label="PodUpdate", node=node))
        return True
