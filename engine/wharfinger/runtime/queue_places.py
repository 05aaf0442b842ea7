"""Where in the scheduling queue a pod is, and how it gets from one place to another.

As kube-scheduler 1.36 has it (pkg/scheduler/backend/queue): pods that are ready, by priority and then by how long they have waited; pods
whose backoff runs, which are taken early when nothing is ready (not those that failed with an error); pods that fit nowhere; pods that are
being tried; and gated pods. A pod is in exactly one of these places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from wharfinger.errors import PluginFault
from wharfinger.framework.ports import Clock, Observer
from wharfinger.framework.verdict import Reason
from wharfinger.runtime import hints
from wharfinger.runtime.backoff import Backoff
from wharfinger.runtime.in_flight import InFlight
from wharfinger.runtime.queued_pod import Place, QueuedPod
from wharfinger.runtime.ready_heap import ReadyHeap

PORTION = 500
"""How many waiting pods are let in at a time: some milliseconds, after which others have their turn."""
REJECTED = "ScheduleAttemptFailure"
READY = "BackoffComplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Backoffs after a rejection and after an error, and after how many seconds an unschedulable pod is tried again without a reason."""

    backoff: Backoff = field(default_factory=Backoff)
    error_backoff: Backoff = field(default_factory=Backoff)
    longest_wait: float = 300.0


class QueuePlaces:
    """The places of the queue. `stirred` is told when a pod becomes ready or its backoff begins."""

    def __init__(self, clock: Clock, settings: QueueSettings, observer: Observer, stirred: Callable[[], None]) -> None:
        self._clock = clock
        self._after_rejection = settings.backoff
        self._after_error = settings.error_backoff
        self.faulty_gate: Callable[[QueuedPod, PluginFault], None] = lambda queued, fault: observer.failed(f"pod {queued.pod.key}", fault)
        self._observer = observer
        self._stirred = stirred
        self._active = ReadyHeap()
        self._backoff = ReadyHeap()
        self._error_backoff = ReadyHeap()
        self.unschedulable = hints.WaitingPods()
        self.in_flight = InFlight()
        self._entered = 0

    @property
    def depths(self) -> dict[str, int]:
        """How many pods are in each place, as `scheduler_pending_pods` names them, and `in_flight`; all but those behind their gates."""
        return {
            "active": len(self._active),
            "backoff": len(self._backoff) + len(self._error_backoff),
            "unschedulable": len(self.unschedulable),
            "in_flight": len(self.in_flight),
        }

    # ── out of a place ──

    def next(self) -> QueuedPod | None:
        """The pod to be tried now, taken out of its place; None if no pod is ready."""
        return self._active.pop() or self._backoff.pop()

    def take_out(self, queued: QueuedPod) -> None:
        """Take a pod out of its place; it has to be put somewhere else."""
        match queued.place:
            case Place.ACTIVE:
                self._active.remove(queued)
            case Place.BACKOFF:
                self._backoff.remove(queued)
            case Place.ERROR_BACKOFF:
                self._error_backoff.remove(queued)
            case Place.UNSCHEDULABLE:
                self.unschedulable.remove(queued)
            case Place.IN_FLIGHT:
                self.in_flight.end(queued.uid)
            case Place.GATED | Place.GONE:
                pass

    # ── into a place ──

    def let_in(self, queued: QueuedPod, event: str) -> None:
        """Put a pod that is nowhere where it belongs: behind its gate, into backoff if that still runs, or among the ready.

        Where a plugin fails to say whether there is a gate, there is one, and the plugin is asked again after the backoff of errors.
        """
        try:
            queued.gate = queued.profile.gate(queued.pod)
        except PluginFault as fault:
            self._behind_faulty_gate(queued, fault)
            return
        if queued.gate is not None:
            queued.place = Place.GATED
            return
        if queued.place is Place.GATED and not queued.attempts:
            queued.first_seen = self._clock.monotonic()
        ready_at = self._after_rejection.ready_at(queued.queued_at, queued.rejections)
        if queued.rejections and ready_at > self._clock.monotonic():
            self._back_off(queued, Place.BACKOFF, ready_at, event)
        else:
            self.activate(queued, event)

    def _behind_faulty_gate(self, queued: QueuedPod, fault: PluginFault) -> None:
        queued.gate = Reason(str(fault))
        queued.gate_faults += 1
        now = self._clock.monotonic()
        self._back_off(queued, Place.ERROR_BACKOFF, self._after_error.ready_at(now, queued.gate_faults), REJECTED)
        self.faulty_gate(queued, fault)

    def shelve(self, queued: QueuedPod) -> None:
        """Put a pod that is nowhere among those that fit nowhere."""
        queued.place = Place.UNSCHEDULABLE
        self.unschedulable.add(queued)
        self._observer.queued(Place.UNSCHEDULABLE.value, REJECTED)

    def activate(self, queued: QueuedPod, event: str) -> None:
        """Put a pod that is nowhere among the ready."""
        queued.place = Place.ACTIVE
        queued.queued_at = self._clock.monotonic()
        self._active.push(queued, self._key(queued))
        self._observer.queued("active", event)
        self._stirred()

    def back_off(self, queued: QueuedPod, ready_at: float) -> None:
        """Put a pod that is nowhere into a backoff that lasts until `ready_at`, also when nothing else is ready."""
        self._back_off(queued, Place.ERROR_BACKOFF, ready_at, REJECTED)

    def _back_off(self, queued: QueuedPod, place: Place, ready_at: float, event: str) -> None:
        queued.place = place
        queued.ready_at = ready_at
        heap = self._backoff if place is Place.BACKOFF else self._error_backoff
        heap.push(queued, (ready_at, *self._key(queued)))
        self._observer.queued("backoff", event)
        self._stirred()

    def _key(self, queued: QueuedPod) -> tuple[object, ...]:
        self._entered += 1
        return queued.sort_key, queued.queued_at, self._entered

    # ── backoffs ──

    def end_backoffs(self, now: float) -> None:
        """Make the pods ready whose backoff has ended, a portion at a time; a plugin that failed at the gate of one is asked again."""
        for heap in (self._backoff, self._error_backoff):
            for _ in range(PORTION):
                queued = heap.first()
                if queued is None or queued.ready_at > now:
                    break
                heap.remove(queued)
                if queued.gate is None:
                    self.activate(queued, READY)
                else:
                    self.let_in(queued, READY)

    def next_ready_at(self) -> float | None:
        """The monotonic time at which the next backoff ends; None if none runs."""
        firsts: Iterator[QueuedPod | None] = (heap.first() for heap in (self._backoff, self._error_backoff))
        return min((queued.ready_at for queued in firsts if queued is not None), default=None)
