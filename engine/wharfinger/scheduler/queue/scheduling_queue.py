"""The scheduling queue: which pod is tried next, and when a pod that could not be placed is tried again.

As in kube-scheduler 1.36 (pkg/scheduler/backend/queue): pods that are ready, by priority and then by how long they have waited, since they
were added or since their last attempt failed; pods whose backoff runs, which are taken early when nothing is ready (not those that failed
with an error); unschedulable pods, which wait until an event may help or, in case one was missed, for five minutes; pods that are being
tried; and gated pods. A pod is in exactly one of these places. A group of pods is one entry, in which its members wait.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING

from wharfinger.emit import Emit, Failed, ignore
from wharfinger.errors import PluginFault
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.ports import Clock
from wharfinger.groups.membership import GroupIndex
from wharfinger.model.state.object_store import ObjectStore
from wharfinger.policies.budget import SUSPENDED
from wharfinger.scheduler.events import PodsFlushed
from wharfinger.scheduler.queue import hints
from wharfinger.scheduler.queue.queued_groups import QueuedGroups
from wharfinger.scheduler.queue.sub_queues import (
    PODS_PER_STEP,
    REJECTED,
    SCOPES_PER_STEP,
    Condition,
    GateFailed,
    QueueSettings,
    SubQueues,
    WokenPods,
    check,
)
from wharfinger.scheduler.queue.time_shares import TimeShares
from wharfinger.scheduler.queued_pods import Place, QueuedGroup, QueuedPod, differ

if TYPE_CHECKING:
    from wharfinger.framework.extension import Plugin
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.profiles import Profile

ADDED = "PodAdd"
UPDATED = "PodUpdate"
FLUSHED = "UnschedulableTimeout"
ACTIVATED = "ForceActivate"
POLICY = "PolicyUpdate"

POSTPONED_PER_STEP = 50
"""Pods that are postponed at a time, which takes some milliseconds."""
FLUSH_INTERVAL = 30.0
"""Seconds between two checks for pods that have waited too long."""


class SchedulingQueue:
    """Pods waiting to be placed.

    `snapshot` gives the cluster as it is, for hints that check the change itself. `wake` is called when a pod becomes ready or its backoff
    begins. `gate_failed` is called with each pod that waits because a plugin failed to say whether it may be tried. `shares` says which
    ready pods let others go first.
    """

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        clock: Clock,
        snapshot: Callable[[], Snapshot],
        *,
        settings: QueueSettings | None = None,
        emit: Emit = ignore,
        wake: Callable[[], None] = lambda: None,
        gate_failed: GateFailed | None = None,
        index: GroupIndex | None = None,
        shares: TimeShares | None = None,
    ) -> None:
        self._clock = clock
        self._snapshot = snapshot
        self._settings = settings or QueueSettings()
        self._shares = shares or TimeShares(clock.monotonic, snapshot)
        self._emit = emit
        self._pods: dict[str, QueuedPod] = {}
        self._sub_queues = SubQueues(clock, self._settings, emit, wake, gate_failed or self._report_gate)
        self._unschedulable = self._sub_queues.unschedulable
        self._in_flight = self._sub_queues.in_flight
        known = GroupIndex(ObjectStore()) if index is None else index
        self._regrouping: set[str] = set()
        self.groups = QueuedGroups(clock, self._settings, self._sub_queues, known, snapshot, emit)
        self._wake_scheduler = wake
        self._woken = WokenPods()
        self._next_flush = 0.0

    def _report_gate(self, queued: QueuedPod, fault: PluginFault) -> None:
        self._emit(Failed(f"pod {queued.pod.key}", fault))

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def get(self, uid: str) -> QueuedPod | None:
        """The queued pod of that uid, in any place; None if it is not queued."""
        return self._pods.get(uid)

    @property
    def depths(self) -> Mapping[str, int]:
        """The number of pods that wait in each place, as `scheduler_pending_pods` names them, and `in_flight`."""
        gated = sum(1 for queued in self._pods.values() if queued.place is Place.GATED)
        return self.groups.depths({**self._sub_queues.depths, "gated": gated})

    # ── changes of the cluster ──

    def add(self, pod: PodView, profile: Profile, group: str | None = None) -> None:
        """Queue a pod, in the group of that key if it has one; a pod that is queued already is updated."""
        queued = self._pods.get(pod.uid)
        if queued is not None:
            self._update(queued, pod, group)
            return
        now = self._clock.monotonic()
        key = profile.sort_key(pod)
        queued = QueuedPod(
            pod=pod, profile=profile, sort_key=key, first_seen=now, waits_since=now, queued_at=now, place=Place.GONE, group=group
        )
        self._pods[pod.uid] = queued
        self._sub_queues.admit(queued, ADDED)

    def _update(self, queued: QueuedPod, pod: PodView, group: str | None) -> None:
        """Update a queued pod; if it differs, it is tried again, whichever plugin rejected it."""
        changed = differ(queued.pod, pod)
        if group != queued.group and queued.place is Place.IN_FLIGHT:
            self._regrouping.add(queued.uid)
            if queued.group is not None:
                self.groups.terms_changed(queued.group)  # an attempt under way is about a group that is not like that any more
        elif group != queued.group:
            self.move(queued, group)
        if queued.place in {Place.IN_FLIGHT, Place.UNSCHEDULABLE, Place.GATED} or not changed:
            queued.pod = pod
            queued.sort_key = queued.profile.sort_key(pod)
            if changed and queued.place is Place.UNSCHEDULABLE:
                self._sub_queues.take_out(queued)
                self._sub_queues.admit(queued, UPDATED)
            elif changed and queued.place is Place.GATED:
                self._sub_queues.admit(queued, UPDATED)
            return
        self._sub_queues.take_out(queued)
        queued.pod = pod
        queued.sort_key = queued.profile.sort_key(pod)
        self._sub_queues.admit(queued, UPDATED)

    def move(self, queued: QueuedPod, group: str | None) -> None:
        """Move a waiting pod to another group, or to none."""
        self._sub_queues.take_out(queued)
        queued.group = group
        queued.place = Place.GONE
        self._sub_queues.admit(queued, UPDATED)

    def regroup(self) -> Generator[None, None, None]:
        """Move waiting pods into their current groups of the index, in steps of one, and try the groups again.

        Pods in flight follow once they wait. No pod may be popped before it ends.
        """
        self._regrouping.clear()
        for queued in list(self._pods.values()):
            if self._pods.get(queued.uid) is queued:
                self._follow_group(queued)
            yield
        for key in self.groups.all_keys():
            self.groups.terms_changed(key)
            yield

    def _follow_group(self, queued: QueuedPod) -> None:
        group = self.groups.index.key_of(queued.uid)
        if group == queued.group:
            return
        if queued.place is Place.IN_FLIGHT:
            self._regrouping.add(queued.uid)
        else:
            self.move(queued, group)

    def delete(self, uid: str) -> QueuedPod | None:
        """The pod that was queued under the uid, removed; None if there was none. An attempt under way is not stopped."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._sub_queues.take_out(queued)
            queued.place = Place.GONE
        return queued

    def notify(self, change: Change) -> int:
        """The number of pods that a change has woken."""
        self._in_flight.record_change(change)
        helped = self._unschedulable.pods_to_wake(change, self._snapshot, self._emit)
        return self._wake(helped, change.label) if helped else 0

    def policies_changed(self, concerned: Callable[[QueuedPod], bool], evaluated: Callable[[], int] = lambda: 0) -> int:
        """The number of unschedulable pods that are tried again because other policies decide about them; pods in flight are if they fail.

        `evaluated` returns how many scopes `concerned` has evaluated so far. Of very many pods or scopes some are checked later, and
        counted now.
        """
        self._in_flight.record_change(Change(events=ClusterEvent.POLICY, label=POLICY))
        return self._wake(list(self._unschedulable), POLICY, Condition(concerned, evaluated))

    def resumed(self) -> int:
        """The number of pods that waited for suspended policies and are tried again."""
        return self._wake([queued for queued in self._unschedulable if SUSPENDED in queued.rejectors], POLICY)

    def _wake(self, waiting: list[QueuedPod], label: str, condition: Condition | None = None) -> int:
        """The number of pods that are tried again, if the condition holds.

        If there are more than `PODS_PER_STEP`, or more than `SCOPES_PER_STEP` scopes to evaluate for them, they are tried again in
        portions, now and at the next flushes, in queue order; all are counted now.
        """
        conditions = () if condition is None else (condition,)
        found, n_checked, scopes = [], 0, 0
        for queued in waiting if len(waiting) <= PODS_PER_STEP else ():
            if scopes >= SCOPES_PER_STEP:
                break
            holds, n_evaluated = check(conditions, queued)
            found += [queued] if holds else []
            n_checked, scopes = n_checked + 1, scopes + n_evaluated
        for queued in found:
            self._admit(queued, label)
        later = waiting[n_checked:]
        if later:
            self._woken.add(later, label, condition)
            if not n_checked:  # else this step is long enough
                self._wake_more()
            self._wake_scheduler()
        return len(found) + len(later)

    def _admit(self, queued: QueuedPod, label: str) -> None:
        self._sub_queues.take_out(queued)
        queued.flushed = label == FLUSHED
        self._sub_queues.admit(queued, label)

    def _wake_more(self) -> None:
        """Admit the next portion of the pods that are to be tried again."""
        for queued, label in self._woken.step():
            self._admit(queued, label)

    # ── attempts ──

    def pop(self, *, groups: bool = True) -> QueuedPod | None:
        """The pod to be tried now, in flight until `done`, `reject` or `fail`; None if no pod is ready.

        With `groups`, it may be a group.
        """
        for uid in list(self._regrouping):
            queued_then = self._pods.get(uid)
            if queued_then is None or queued_then.place is not Place.IN_FLIGHT:
                self._regrouping.discard(uid)
                if queued_then is not None:
                    self._follow_group(queued_then)
        queued = self._next(groups=groups)
        if queued is None:
            return None
        queued.place = Place.IN_FLIGHT
        queued.tried = queued.pod
        queued.attempts += 1
        now = self._clock.monotonic()
        queued.stages = {"queue": now - queued.queued_at}
        queued.queued_at = queued.started = now
        self._in_flight.begin(queued.uid)
        if isinstance(queued, QueuedGroup):
            self.groups.begin(queued)
        return queued

    def _next(self, *, groups: bool) -> QueuedPod | None:
        """The first pod or group whose turn it is, taken out of its place. Those before it are postponed.

        None if there is none, or it is not found in this step: the scheduler is woken for the next one.
        """
        for _ in range(POSTPONED_PER_STEP):
            queued = self._sub_queues.next(groups=groups)
            turn = None if queued is None else self._shares.turn(queued)
            if queued is None or turn is None:
                return queued
            self._sub_queues.postpone(queued, turn)
        return None

    def done(self, queued: QueuedPod) -> None:
        """Remove a pod that needs no further attempt."""
        if self._pods.get(queued.uid) is queued:
            self.delete(queued.uid)
        if queued.group is not None:
            self.groups.bound(queued)

    def reject(self, queued: QueuedPod, rejectors: frozenset[Plugin]) -> None:
        """Queue an unschedulable pod until an event may help.

        If a rejecting plugin depends on time, it is tried again after a backoff.
        """
        if queued.place is not Place.IN_FLIGHT:
            return
        if queued.group is not None:
            self.groups.rejoin(queued, rejectors)
            return
        missed = [
            change for change in self._in_flight.changes_since_begin(queued.uid) if change.pod is None or change.pod.uid != queued.uid
        ]
        unknown = self._in_flight.has_overflowed(queued.uid)
        self._in_flight.end(queued.uid)
        queued.rejectors = rejectors
        queued.rejections += 1
        queued.errors = 0
        queued.flushed = False
        queued.waits_since = queued.queued_at = self._clock.monotonic()
        if (
            (queued.tried is not None and differ(queued.tried, queued.pod))
            or unknown
            or any(hints.may_help(queued, change, self._snapshot, self._emit) for change in missed)
        ):
            self._sub_queues.admit(queued, REJECTED)
        elif hints.timed(rejectors):
            self._sub_queues.back_off(queued, self._settings.backoff.ready_at(queued.waits_since, queued.rejections))
        else:
            self._sub_queues.wait_for_event(queued)

    def wait_for_event(self, queued: QueuedPod) -> None:
        """Undo `pop`, and let the pod wait until an event may help or `activate` is called."""
        if queued.place is Place.IN_FLIGHT:
            self._in_flight.end(queued.uid)
            queued.attempts -= 1
            self._sub_queues.wait_for_event(queued)

    def fail(self, queued: QueuedPod) -> None:
        """Try a pod again after the error backoff: its attempt ended with an error."""
        if not self._end_attempt(queued):
            return
        queued.rejectors = frozenset()
        queued.errors += 1
        queued.flushed = False
        queued.waits_since = queued.queued_at = self._clock.monotonic()
        self._sub_queues.back_off(queued, self._settings.backoff.ready_at(queued.waits_since, queued.errors))

    def put_back(self, queued: QueuedPod) -> None:
        """Undo `pop`: the attempt was not made."""
        if self._end_attempt(queued):
            queued.attempts -= 1
            self._sub_queues.activate(queued, ACTIVATED)

    def _end_attempt(self, queued: QueuedPod) -> bool:
        """End the attempt of a pod, or give a member back to its group; True if the pod is to get a place here."""
        if queued.place is not Place.IN_FLIGHT:
            return False
        if queued.group is not None:
            self.groups.rejoin(queued, None)
            return False
        self._in_flight.end(queued.uid)
        return True

    def activate(self, uid: str) -> bool:
        """True if the pod was waiting; it is ready now, without backoff. Gated pods stay."""
        queued = self._pods.get(uid) or self.groups.by_uid(uid)
        if isinstance(queued, QueuedGroup):
            return self.groups.activate(queued, ACTIVATED)
        if queued is not None and queued.place is Place.MEMBER:
            entry = self.groups.get(queued.group or "")
            return entry is not None and self.groups.activate(entry, ACTIVATED)
        if queued is None or queued.gate is not None or queued.place in {Place.IN_FLIGHT, Place.ACTIVE}:
            return False
        self._sub_queues.take_out(queued)
        self._sub_queues.activate(queued, ACTIVATED)
        return True

    def delay(self, uid: str) -> None:
        """Try a waiting pod or group again after the error backoff, and not earlier. Gated pods stay."""
        queued = self._pods.get(uid) or self.groups.by_uid(uid)
        if queued is not None and queued.gate is None and queued.place in {Place.UNSCHEDULABLE, Place.BACKOFF, Place.ACTIVE}:
            self._sub_queues.take_out(queued)
            self._sub_queues.back_off(queued, self._settings.backoff.ready_at(self._clock.monotonic(), queued.rejections))

    # ── time ──

    def flush(self) -> None:
        """Admit the pods whose backoff has ended, and those that no event has woken for `longest_wait` seconds."""
        now = self._clock.monotonic()
        self._sub_queues.end_backoffs(now)
        self._wake_more()
        if now >= self._next_flush:
            self._next_flush = now + FLUSH_INTERVAL
            self._flush_overdue(now)

    def _flush_overdue(self, now: float) -> None:
        longest = self._settings.longest_wait
        overdue = [queued for queued in self._unschedulable if now - queued.queued_at >= longest and SUSPENDED not in queued.rejectors]
        self._wake(overdue, FLUSHED)
        if overdue:
            self._emit(PodsFlushed(len(overdue)))

    def next_ready_at(self) -> float | None:
        """The monotonic time at which the next backoff ends, or now if woken pods remain; None if there are neither."""
        return self._clock.monotonic() if self._woken else self._sub_queues.next_ready_at()
