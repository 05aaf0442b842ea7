"""The sub-queues of the scheduling queue: pods that are ready, in backoff, unschedulable, woken or in flight.

A group of pods is one entry here, between pods of the same priority by its age. While a group is being tried no second one is taken; pods
are, so that they do not wait for a long search.

Pods of a namespace that has used its part of the time wait in backoff for a later turn. The turns are given in the order in which the pods
come, and each is used by the most urgent of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from msgspec import Struct

from wharfinger.emit import Emit
from wharfinger.errors import PluginFault
from wharfinger.event_loop import Backoff
from wharfinger.framework.kubernetes_profiles import INITIAL_BACKOFF, MAX_BACKOFF
from wharfinger.framework.ports import Clock
from wharfinger.framework.prepared import Reason
from wharfinger.scheduler.events import PodQueued
from wharfinger.scheduler.queue import hints
from wharfinger.scheduler.queued_pods import InFlight, Place, QueuedGroup, QueuedPod, ReadyHeap

PODS_PER_STEP = 500
"""The number of waiting pods that are queued at a time, which takes some milliseconds."""
REJECTED = "ScheduleAttemptFailure"
READY = "BackoffComplete"
LATER_TURN = "LaterTurn"


class QueueSettings(Struct, frozen=True, kw_only=True):
    """The backoff after a rejection or an error; an unschedulable pod is tried again after `longest_wait` seconds without an event."""

    backoff: Backoff = Backoff(initial=INITIAL_BACKOFF, maximum=MAX_BACKOFF)
    longest_wait: float = 300.0


GateFailed = Callable[[QueuedPod, PluginFault], None]
"""Called with a pod that waits because a plugin failed to say whether it may be tried."""


class WaitingMembers(Protocol):
    """The waiting members of groups."""

    def join(self, member: QueuedPod, event: str) -> None:
        """Add a member to its group, where it waits."""

    def leave(self, member: QueuedPod) -> None:
        """Take a member out of its group, or out of the attempt to place it."""


class SubQueues:
    """The sub-queues. `wake` is called when a pod becomes ready or its backoff begins; `groups` is where members wait."""

    groups: WaitingMembers

    def __init__(self, clock: Clock, settings: QueueSettings, emit: Emit, wake: Callable[[], None], gate_failed: GateFailed) -> None:
        self._clock = clock
        self._settings = settings
        self._gate_failed = gate_failed
        self._emit = emit
        self._wake = wake
        self._active = ReadyHeap[QueuedPod]()
        self._active_groups = ReadyHeap[QueuedPod]()
        self._backoff = ReadyHeap[QueuedPod]()
        self._postponed: dict[str, ReadyHeap[QueuedPod]] = {}  # of those in backoff, by namespace
        self._error_backoff = ReadyHeap[QueuedPod]()
        self.unschedulable = hints.WaitingPods[QueuedPod]()
        self.in_flight = InFlight()
        self._entered = 0

    @property
    def depths(self) -> dict[str, int]:
        """The number of pods in each place, as `scheduler_pending_pods` names them, and `in_flight`; gated pods are not counted."""
        return {
            "active": len(self._active) + len(self._active_groups),
            "backoff": len(self._backoff) + len(self._error_backoff),
            "unschedulable": len(self.unschedulable),
            "in_flight": len(self.in_flight),
        }

    # ── out of a place ──

    def next(self, *, groups: bool) -> QueuedPod | None:
        """The pod or group to be tried now, taken out of its place; None if there is none. `groups`: a group may be tried."""
        if not self._active_groups:
            early = self._active.pop()
            return early if early is not None else self._next_backoff(groups)
        if not groups:
            return self._active.pop()
        pods, grouped = self._active.first_key(), self._active_groups.first_key()
        return self._active_groups.pop() if pods is None or grouped < pods else self._active.pop()

    def _next_backoff(self, groups: bool) -> QueuedPod | None:
        first = self._backoff.first()
        queued = None if first is None else self._most_urgent(first)
        if queued is None or (not groups and isinstance(queued, QueuedGroup)):
            return None
        self._leave_backoff(queued)
        return queued

    def _most_urgent(self, first: QueuedPod) -> QueuedPod:
        """The pod or group that is tried when the backoff of `first` ends.

        That is `first`, or the most urgent one of its namespace if it waits for a turn of the namespace: the two change places.
        """
        postponed = self._postponed.get(first.pod.namespace)
        if postponed is None or first not in postponed:
            return first
        urgent = postponed.first() or first
        if urgent is not first:
            first.ready_at, urgent.ready_at = urgent.ready_at, first.ready_at
            for each in (first, urgent):
                self._backoff.push(each, (each.ready_at, *self._key(each)))
        return urgent

    def _leave_backoff(self, queued: QueuedPod) -> None:
        self._backoff.remove(queued)
        namespace = queued.pod.namespace
        postponed = self._postponed.get(namespace)
        if postponed is not None and queued in postponed:
            postponed.remove(queued)
            if not postponed:
                del self._postponed[namespace]

    def take_out(self, queued: QueuedPod) -> None:
        """Take a pod out of its place; the caller puts it into another."""
        match queued.place:
            case Place.ACTIVE:
                (self._active_groups if isinstance(queued, QueuedGroup) else self._active).remove(queued)
            case Place.BACKOFF:
                self._leave_backoff(queued)
            case Place.ERROR_BACKOFF:
                self._error_backoff.remove(queued)
            case Place.UNSCHEDULABLE:
                self.unschedulable.remove(queued)
            case Place.IN_FLIGHT:
                self.in_flight.end(queued.uid)
                if queued.group is not None:
                    self.groups.leave(queued)
            case Place.MEMBER:
                self.groups.leave(queued)
            case Place.GATED | Place.GONE:
                pass

    # ── into a place ──

    def admit(self, queued: QueuedPod, event: str) -> None:
        """Put a pod that has no place into the right one: gated, in its group, in backoff if its backoff has not ended, or active.

        If a PreEnqueue plugin fails, the pod is gated, and the plugin is called again after the error backoff.
        """
        if isinstance(queued, QueuedGroup):
            self.enqueue(queued, event)
            return
        try:
            queued.gate = queued.profile.gate(queued.pod)
        except PluginFault as fault:
            self._wait_for_faulty_gate(queued, fault)
            return
        if queued.gate is not None:
            queued.place = Place.GATED
            return
        if queued.place is Place.GATED and not queued.attempts:
            queued.first_seen = self._clock.monotonic()
        if queued.group is not None:
            self.groups.join(queued, event)
        else:
            self.enqueue(queued, event)

    def enqueue(self, queued: QueuedPod, event: str) -> None:
        """Put a pod or group that has no place and no gate into backoff if its backoff has not ended, or among the active."""
        if queued.rejections:
            ready_at = self._settings.backoff.ready_at(queued.waits_since, queued.rejections)
            if ready_at > self._clock.monotonic():
                self._back_off(queued, Place.BACKOFF, ready_at, event)
                return
        self.activate(queued, event)

    def _wait_for_faulty_gate(self, queued: QueuedPod, fault: PluginFault) -> None:
        queued.gate = Reason(str(fault))
        queued.gate_faults += 1
        now = self._clock.monotonic()
        self._back_off(queued, Place.ERROR_BACKOFF, self._settings.backoff.ready_at(now, queued.gate_faults), REJECTED)
        self._gate_failed(queued, fault)

    def wait_for_event(self, queued: QueuedPod) -> None:
        """Put a pod that has no place among the unschedulable."""
        queued.place = Place.UNSCHEDULABLE
        self.unschedulable.add(queued)
        self._emit(PodQueued(Place.UNSCHEDULABLE.value, REJECTED))

    def activate(self, queued: QueuedPod, event: str) -> None:
        """Put a pod that has no place among the active."""
        queued.place = Place.ACTIVE
        queued.queued_at = self._clock.monotonic()
        queued.ready_at = 0.0
        (self._active_groups if isinstance(queued, QueuedGroup) else self._active).push(queued, self._key(queued))
        self._emit(PodQueued("active", event))
        self._wake()

    def back_off(self, queued: QueuedPod, ready_at: float) -> None:
        """Put a pod that has no place into a backoff until `ready_at`; it is not taken early when no other pod is ready."""
        self._back_off(queued, Place.ERROR_BACKOFF, ready_at, REJECTED)

    def postpone(self, queued: QueuedPod, ready_at: float) -> None:
        """Put a pod or group that has no place into a backoff until its turn comes at `ready_at`, or that of a less urgent pod."""
        self._postponed.setdefault(queued.pod.namespace, ReadyHeap[QueuedPod]()).push(queued, self._key(queued))
        self._back_off(queued, Place.BACKOFF, ready_at, LATER_TURN)

    def _back_off(self, queued: QueuedPod, place: Place, ready_at: float, event: str) -> None:
        queued.place = place
        queued.ready_at = ready_at
        heap = self._backoff if place is Place.BACKOFF else self._error_backoff
        heap.push(queued, (ready_at, *self._key(queued)))
        self._emit(PodQueued("backoff", event))
        self._wake()

    def _key(self, queued: QueuedPod) -> tuple[object, ...]:
        self._entered += 1
        return queued.sort_key, queued.waits_since, self._entered

    # ── backoffs ──

    def end_backoffs(self, now: float) -> None:
        """Activate the pods whose backoff has ended, a portion at a time; a plugin that failed at a gate is called again."""
        for _ in range(PODS_PER_STEP):
            first = self._backoff.first()
            if first is None or first.ready_at > now:
                break
            queued = self._most_urgent(first)
            self._leave_backoff(queued)
            self.activate(queued, READY)
        for _ in range(PODS_PER_STEP):
            first = self._error_backoff.first()
            if first is None or first.ready_at > now:
                break
            self._error_backoff.remove(first)
            if first.gate is None:
                self.activate(first, READY)
            else:
                self.admit(first, READY)

    def next_ready_at(self) -> float | None:
        """The monotonic time at which the next backoff ends; None if none runs."""
        firsts: Iterator[QueuedPod | None] = (heap.first() for heap in (self._backoff, self._error_backoff))
        return min((queued.ready_at for queued in firsts if queued is not None), default=None)


RANKED_PER_STEP = 4 * PODS_PER_STEP
"""The number of woken pods that are put in order at a time, which takes some milliseconds."""
MAX_UNORDERED_EVENTS = 16
"""Events of which the pods are not in order yet. If there are more, the pods of the oldest are put in order at once: most already are."""

SCOPES_PER_STEP = 250
"""The number of scopes of policies that are evaluated for woken pods at a time: some milliseconds, as one takes 0.05 ms at most."""


class Condition(Struct, frozen=True):
    """The condition under which a woken pod is tried again: that it is `concerned`. `evaluated` returns the scopes evaluated so far."""

    concerned: Callable[[QueuedPod], bool]
    evaluated: Callable[[], int] = lambda: 0


def check(conditions: Sequence[Condition], woken: QueuedPod) -> tuple[bool, int]:
    """(True if one of the conditions holds for a pod or there is none, the number of scopes that were evaluated)."""
    before = sum(condition.evaluated() for condition in conditions)
    holds = not conditions or any(condition.concerned(woken) for condition in conditions)
    return holds, sum(condition.evaluated() for condition in conditions) - before


class WokenPods:
    """The unschedulable pods that an event has woken and that are not active yet, with that event; the most urgent become active first.

    Ordering twenty thousand pods at once would take as long as dozens of decisions. So they are put into a heap in steps too, and none
    becomes active before all pods of the same event are in it. Several events may wake a pod before it becomes active; it is tried again if
    the condition of one of them holds.
    """

    def __init__(self) -> None:
        self._unordered: deque[tuple[Iterator[QueuedPod], str, tuple[Condition, ...]]] = deque()  # to be put in order
        self._ordered = ReadyHeap[QueuedPod]()
        self._reasons: dict[str, tuple[QueuedPod, str, tuple[Condition, ...]]] = {}  # by uid; without conditions the pod is tried again
        self._complete = False

    def __bool__(self) -> bool:
        return bool(self._unordered or self._reasons)

    def add(self, waiting: Sequence[QueuedPod], label: str, condition: Condition | None) -> None:
        """Add pods that the event of that label has woken, if the condition holds when their turn comes."""
        if len(self._unordered) == MAX_UNORDERED_EVENTS:
            self._order_oldest(None)
        self._unordered.append((iter(waiting), label, () if condition is None else (condition,)))

    def step(self) -> Iterator[tuple[QueuedPod, str]]:
        """The pods to be tried again now, with their events: the next portion, or none while pods are still being ordered."""
        left = RANKED_PER_STEP
        while left and self._unordered:
            left -= self._order_oldest(left)
        scopes = 0
        for _ in range(PODS_PER_STEP if self._complete else 0):
            if scopes >= SCOPES_PER_STEP:
                return
            woken = self._ordered.pop()
            if woken is None:
                self._complete = False
                return
            _, label, conditions = self._reasons.pop(woken.uid)
            if woken.place is Place.UNSCHEDULABLE:
                holds, n_evaluated = check(conditions, woken)
                scopes += n_evaluated
                if holds:
                    yield woken, label

    def _order_oldest(self, limit: int | None) -> int:
        """The number of pods of the oldest event that were put in order, at most that many; None for all."""
        waiting, label, conditions = self._unordered[0]
        reasons, n = self._reasons, 0
        for queued in islice(waiting, limit):
            n += 1
            before = reasons.get(queued.uid)
            if before is None or before[0] is not queued:
                self._ordered.push(queued, queued.sort_key)
                reasons[queued.uid] = queued, label, conditions
            elif before[2]:
                reasons[queued.uid] = queued, label, (*before[2], *conditions) if conditions else ()
        if n != limit:
            self._unordered.popleft()
            self._complete = True
        return n
