"""The scheduling queue: which pod is tried next, and when a pod that could not be placed is tried again.

As kube-scheduler 1.36 has it (pkg/scheduler/backend/queue): pods that are ready, by priority and then by how long they have waited; pods
whose backoff runs, which are taken early when nothing is ready (not those that failed with an error); pods that fit nowhere, until an event
may help them or, in case one was missed, for five minutes; and gated pods. A pod is in exactly one of these places, by uid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.ports import Clock, Observer, SilentObserver
from wharfinger.runtime import hints
from wharfinger.runtime.backoff import Backoff
from wharfinger.runtime.in_flight import InFlight
from wharfinger.runtime.queued_pod import Place, QueuedPod
from wharfinger.runtime.ready_heap import ReadyHeap

if TYPE_CHECKING:
    from wharfinger.framework.extension import Plugin
    from wharfinger.model.pod import PodView
    from wharfinger.model.snapshot import Snapshot
    from wharfinger.runtime.profiles import Profile

ADDED = "PodAdd"
UPDATED = "PodUpdate"
REJECTED = "ScheduleAttemptFailure"
READY = "BackoffComplete"
FLUSHED = "UnschedulableTimeout"
ACTIVATED = "ForceActivate"
POLICY = "PolicyUpdate"


SWEEP = 30.0
"""Seconds between two looks for pods that have waited too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Backoffs after a rejection and after an error, and after how many seconds an unschedulable pod is tried again without a reason."""

    backoff: Backoff = field(default_factory=Backoff)
    error_backoff: Backoff = field(default_factory=Backoff)
    longest_wait: float = 300.0


class SchedulingQueue:
    """Pods waiting to be placed.

    `snapshot` gives the cluster as it is, for hints that look closer at an event; `stirred` is told when a pod becomes ready or its
    backoff begins.
    """

    def __init__(
        self,
        clock: Clock,
        snapshot: Callable[[], Snapshot],
        *,
        settings: QueueSettings | None = None,
        observer: Observer | None = None,
        stirred: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._snapshot = snapshot
        self._settings = settings or QueueSettings()
        self._observer: Observer = observer or SilentObserver()
        self._stirred = stirred
        self._pods: dict[str, QueuedPod] = {}
        self._active = ReadyHeap()
        self._backoff = ReadyHeap()
        self._error_backoff = ReadyHeap()
        self._unschedulable = hints.WaitingPods()
        self._in_flight = InFlight()
        self._entered = 0
        self._next_sweep = 0.0
        self.flushes = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def get(self, uid: str) -> QueuedPod | None:
        """The pod of that uid as it stands in the queue, in whatever place; None if it is not queued."""
        return self._pods.get(uid)

    @property
    def depths(self) -> Mapping[str, int]:
        """How many pods wait in each place, as `scheduler_pending_pods` names them, and `in_flight`."""
        gated = sum(1 for queued in self._gated())
        return {
            "active": len(self._active),
            "backoff": len(self._backoff) + len(self._error_backoff),
            "unschedulable": len(self._unschedulable),
            "gated": gated,
            "in_flight": len(self._in_flight),
        }

    @property
    def waiting_on(self) -> Mapping[str, int]:
        """How many unschedulable pods each plugin has rejected, by its name."""
        return Counter(plugin.name for queued in self._unschedulable for plugin in queued.rejectors)

    def _gated(self) -> Iterator[QueuedPod]:
        return (queued for queued in self._pods.values() if queued.place is Place.GATED)

    # ── what the cluster says ──

    def add(self, pod: PodView, profile: Profile) -> None:
        """Queue a pod; one that is queued already is updated."""
        queued = self._pods.get(pod.uid)
        if queued is not None:
            self._update(queued, pod)
            return
        now = self._clock.monotonic()
        queued = QueuedPod(pod=pod, profile=profile, sort_key=profile.sort_key(pod), first_seen=now, queued_at=now, place=Place.GONE)
        self._pods[pod.uid] = queued
        self._let_in(queued, ADDED)

    def _update(self, queued: QueuedPod, pod: PodView) -> None:
        """Take over a new version of a pod; one that asks for something else now is tried again, whatever rejected it."""
        changed = queued.pod.template != pod.template
        if queued.place in {Place.IN_FLIGHT, Place.UNSCHEDULABLE, Place.GATED} or not changed:
            queued.pod = pod
            queued.sort_key = queued.profile.sort_key(pod)
            if changed and queued.place is Place.UNSCHEDULABLE:
                self._take_out(queued)
                self._let_in(queued, UPDATED)
            elif changed and queued.place is Place.GATED:
                self._let_in(queued, UPDATED)
            return
        self._take_out(queued)
        queued.pod = pod
        queued.sort_key = queued.profile.sort_key(pod)
        self._let_in(queued, UPDATED)

    def delete(self, uid: str) -> QueuedPod | None:
        """The pod that was queued under the uid and no longer is; None if there was none. An attempt under way ends by itself."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._take_out(queued)
            queued.place = Place.GONE
        return queued

    def notify(self, change: Change) -> int:
        """How many pods a change has woken."""
        self._in_flight.happened(change)
        helped = self._unschedulable.helped_by(change, self._snapshot)
        self._wake(helped, change.label)
        return len(helped)

    def policies_changed(self, concerned: Callable[[QueuedPod], bool]) -> int:
        """How many unschedulable pods are tried again because other policies decide about them now; pods in flight are if they fail."""
        self._in_flight.happened(Change(events=ClusterEvent.POLICY, label=POLICY))
        woken = [queued for queued in self._unschedulable if concerned(queued)]
        self._wake(woken, POLICY)
        return len(woken)

    def _wake(self, waiting: Sequence[QueuedPod], label: str) -> None:
        for queued in waiting:
            self._take_out(queued)
            self._let_in(queued, label)

    # ── attempts ──

    def pop(self) -> QueuedPod | None:
        """The pod to be tried now, in flight until `done`, `reject` or `fail`; None if no pod is ready."""
        queued = self._active.pop() or self._backoff.pop()
        if queued is None:
            return None
        queued.place = Place.IN_FLIGHT
        queued.tried = queued.pod.template
        queued.attempts += 1
        now = self._clock.monotonic()
        queued.stages = {"queue": now - queued.queued_at}
        queued.queued_at = queued.started = now
        self._in_flight.begin(queued.uid)
        return queued

    def done(self, queued: QueuedPod) -> None:
        """The pod needs no further attempt."""
        if self._pods.get(queued.uid) is queued:
            self.delete(queued.uid)

    def reject(self, queued: QueuedPod, rejectors: frozenset[Plugin]) -> None:
        """The pod fits nowhere: it waits until something may help it. Plugins that depend on time are asked again after a backoff."""
        if queued.place is not Place.IN_FLIGHT:
            return
        missed = [change for change in self._in_flight.missed(queued.uid) if change.pod is None or change.pod.uid != queued.uid]
        self._in_flight.end(queued.uid)
        queued.rejectors = rejectors
        queued.rejections += 1
        queued.errors = 0
        queued.flushed = False
        queued.queued_at = self._clock.monotonic()
        if queued.pod.template != queued.tried or any(hints.may_help(queued, change, self._snapshot) for change in missed):
            self._let_in(queued, REJECTED)
        elif hints.timed(rejectors):
            self._wait(queued, Place.ERROR_BACKOFF, self._settings.backoff.ready_at(queued.queued_at, queued.rejections), REJECTED)
        else:
            self._shelve(queued)

    def shelve(self, queued: QueuedPod) -> None:
        """Undo `pop` until an event may help or `activate` is called: it is not the time to try the pod."""
        if queued.place is Place.IN_FLIGHT:
            self._in_flight.end(queued.uid)
            queued.attempts -= 1
            self._shelve(queued)

    def fail(self, queued: QueuedPod) -> None:
        """Something went wrong that has nothing to do with the pod: it is tried again after the error backoff."""
        if queued.place is not Place.IN_FLIGHT:
            return
        self._in_flight.end(queued.uid)
        queued.rejectors = frozenset()
        queued.errors += 1
        queued.flushed = False
        queued.queued_at = self._clock.monotonic()
        self._wait(queued, Place.ERROR_BACKOFF, self._settings.error_backoff.ready_at(queued.queued_at, queued.errors), REJECTED)

    def put_back(self, queued: QueuedPod) -> None:
        """Undo `pop`: the attempt was not made."""
        if queued.place is not Place.IN_FLIGHT:
            return
        self._in_flight.end(queued.uid)
        queued.attempts -= 1
        self._activate(queued, ACTIVATED)

    def activate(self, uid: str) -> bool:
        """Whether the pod was waiting; it is ready now, without backoff. Gated pods stay."""
        queued = self._pods.get(uid)
        if queued is None or queued.place in {Place.IN_FLIGHT, Place.GATED, Place.ACTIVE}:
            return False
        self._take_out(queued)
        self._activate(queued, ACTIVATED)
        return True

    # ── time ──

    def flush(self) -> None:
        """Let in what has waited long enough: ended backoffs, and pods that nothing has woken for minutes (counted in `flushes`)."""
        now = self._clock.monotonic()
        for heap in (self._backoff, self._error_backoff):
            while (queued := heap.first()) is not None and queued.ready_at <= now:
                heap.remove(queued)
                self._activate(queued, READY)
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP
            self._sweep(now)

    def _sweep(self, now: float) -> None:
        overdue = [queued for queued in self._unschedulable if now - queued.queued_at >= self._settings.longest_wait]
        for queued in overdue:
            self._take_out(queued)
            queued.flushed = True
            self._let_in(queued, FLUSHED)
        if overdue:
            self.flushes += len(overdue)
            self._observer.flushed(len(overdue))

    def next_ready_at(self) -> float | None:
        """The monotonic time at which the next backoff ends; None if none runs."""
        firsts = (heap.first() for heap in (self._backoff, self._error_backoff))
        return min((queued.ready_at for queued in firsts if queued is not None), default=None)

    # ── places ──

    def _let_in(self, queued: QueuedPod, event: str) -> None:
        """Put a pod that is nowhere where it belongs: behind its gate, into backoff if that still runs, or among the ready."""
        queued.gate = queued.profile.gate(queued.pod)
        if queued.gate is not None:
            queued.place = Place.GATED
            return
        if queued.place is Place.GATED and not queued.attempts:
            queued.first_seen = self._clock.monotonic()
        ready_at = self._settings.backoff.ready_at(queued.queued_at, queued.rejections)
        if queued.rejections and ready_at > self._clock.monotonic():
            self._wait(queued, Place.BACKOFF, ready_at, event)
        else:
            self._activate(queued, event)

    def _shelve(self, queued: QueuedPod) -> None:
        queued.place = Place.UNSCHEDULABLE
        self._unschedulable.add(queued)
        self._observer.queued(Place.UNSCHEDULABLE.value, REJECTED)

    def _activate(self, queued: QueuedPod, event: str) -> None:
        queued.place = Place.ACTIVE
        queued.queued_at = self._clock.monotonic()
        self._active.push(queued, self._key(queued))
        self._observer.queued("active", event)
        self._stirred()

    def _wait(self, queued: QueuedPod, place: Place, ready_at: float, event: str) -> None:
        queued.place = place
        queued.ready_at = ready_at
        heap = self._backoff if place is Place.BACKOFF else self._error_backoff
        heap.push(queued, (ready_at, *self._key(queued)))
        self._observer.queued("backoff", event)
        self._stirred()

    def _key(self, queued: QueuedPod) -> tuple[object, ...]:
        self._entered += 1
        return queued.sort_key, queued.queued_at, self._entered

    def _take_out(self, queued: QueuedPod) -> None:
        match queued.place:
            case Place.ACTIVE:
                self._active.remove(queued)
            case Place.BACKOFF:
                self._backoff.remove(queued)
            case Place.ERROR_BACKOFF:
                self._error_backoff.remove(queued)
            case Place.UNSCHEDULABLE:
                self._unschedulable.remove(queued)
            case Place.IN_FLIGHT:
                self._in_flight.end(queued.uid)
            case Place.GATED | Place.GONE:
                pass
