"""Groups of pods in the scheduling queue: members wait in their group, and the group is one entry.

Members of a gang wait outside of the queue, gated, until enough of them exist (PreEnqueue of the GangScheduling plugin, Kubernetes 1.36).
Then the group is an entry like a pod: it has a priority and an age, waits in backoff, and is woken by changes that may help one of its
members. Nothing is held for it meanwhile. A member that comes back from a failed binding waits in its group again, and the group is tried
again with it; members that are bound or being bound count as placed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from wharfinger.framework.ports import Clock
from wharfinger.framework.prepared import Reason
from wharfinger.scheduler.queue import hints
from wharfinger.scheduler.queue.sub_queues import REJECTED, QueueSettings, SubQueues
from wharfinger.scheduler.queued_pods import Place, QueuedGroup, QueuedPod

if TYPE_CHECKING:
    from wharfinger.emit import Emit
    from wharfinger.framework.extension import Plugin
    from wharfinger.groups.membership import GroupIndex
    from wharfinger.groups.terms import GroupTerms
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

CHANGED = "PodGroupUpdate"


class QueuedGroups:
    """The groups in the queue. `index` has all members of groups, waiting or placed; `snapshot` is the cluster as it is."""

    def __init__(  # noqa: PLR0913, PLR0917 — its collaborators and settings
        self,
        clock: Clock,
        settings: QueueSettings,
        sub_queues: SubQueues,
        index: GroupIndex,
        snapshot: Callable[[], Snapshot],
        emit: Emit,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._sub_queues = sub_queues
        self._snapshot = snapshot
        self._emit = emit
        self._entries: dict[str, QueuedGroup] = {}
        self.index = index
        sub_queues.groups = self

    def __iter__(self) -> Iterator[QueuedGroup]:
        """The groups with members that wait or are being tried."""
        return (entry for entry in self._entries.values() if entry.place is not Place.GONE)

    def all_keys(self) -> tuple[str, ...]:
        """The keys of all entries, also of groups whose members are all placed."""
        return tuple(self._entries)

    def get(self, key: str) -> QueuedGroup | None:
        """The entry of a group; None if none of its members was ever queued."""
        return self._entries.get(key)

    def by_uid(self, uid: str) -> QueuedGroup | None:
        """The entry of that uid."""
        return self._entries.get(uid.removeprefix("group "))

    def depths(self, found: dict[str, int]) -> dict[str, int]:
        """The numbers of entries by place, with each group counted by its members; gated ones are added."""
        for entry in self._entries.values():
            match entry.place:
                case Place.GATED:
                    found["gated"] += len(entry.members)
                case Place.GONE:
                    pass
                case Place.IN_FLIGHT:
                    found["in_flight"] -= 1
                case _:
                    name = "backoff" if entry.place is Place.ERROR_BACKOFF else entry.place.value
                    found[name] += len(entry.members) - 1
        return found

    # ── changes of the cluster ──

    def update_pod(self, pod: PodView) -> str | None:
        """The key of the group that a pod of the cluster belongs to, in its present state; None for a pod without a group."""
        index = self.index
        was_placed = index.is_placed(pod.uid)
        before, key = index.key_of(pod.uid), index.put(pod)
        if before is not None and before != key:
            self._admit_if_complete(before)
        if key is None:
            return None
        if not pod.node_name and (placed := self._snapshot().placed(pod.uid)) is not None:
            index.put(placed[1])  # it is assumed on a node
        self._admit_if_complete(key, placed=bool(pod.node_name) and not was_placed)
        return key

    def delete_pod(self, uid: str) -> None:
        """Handle a pod that is deleted or finished: the others may be too few, or go to another domain."""
        placed = self.index.is_placed(uid)
        key = self.index.remove(uid)
        if key is None:
            return
        self._admit_if_complete(key)
        entry = self._entries.get(key)
        if entry is None or entry.place in {Place.GATED, Place.GONE}:
            return
        terms = self.index.terms(key)
        elsewhere = placed and entry.place is Place.UNSCHEDULABLE and terms is not None and bool(terms.levels)
        if elsewhere or self.index.waiting_reason(key) is not None:
            self._changed(entry, CHANGED)

    def terms_changed(self, key: str) -> None:
        """Try a group again after its PodGroup was added, changed or deleted."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.stale = True
            self._changed(entry, CHANGED)

    def _admit_if_complete(self, key: str, *, placed: bool = False) -> None:
        """Admit a gated group that has enough members now, and forget one without members.

        `placed`: a member has a node that it did not get here. The others need fewer nodes then, and maybe in its domain.
        """
        entry = self._entries.get(key)
        if entry is None:
            return
        if entry.place is Place.GATED or placed:
            self._changed(entry, CHANGED)
        elif entry.place is Place.GONE:
            self._forget(entry)

    def _forget(self, entry: QueuedGroup) -> None:
        """Forget an entry without waiting members, if the group has no members."""
        if entry.key not in self.index and self._entries.get(entry.key) is entry:
            del self._entries[entry.key]

    # ── members ──

    def join(self, member: QueuedPod, event: str) -> None:
        """Add a member without a gate of its own to its group; the group is tried again."""
        key = member.group or ""
        entry = self._entries.get(key)
        if entry is None:
            now = self._clock.monotonic()
            entry = self._entries[key] = QueuedGroup(
                key=key,
                pod=member.pod,
                profile=member.profile,
                sort_key=member.sort_key,
                first_seen=now,
                waits_since=now,
                queued_at=now,
                place=Place.GONE,
            )
        elif entry.place is Place.GONE:  # all members so far are placed
            entry.waits_since = self._clock.monotonic()
        self._wait(entry, member)
        self._changed(entry, event)

    def leave(self, member: QueuedPod) -> None:
        """Remove a member from its group, or from the attempt to place it: it is deleted, gated, or moved to another group."""
        entry = self._entries.get(member.group or "")
        if entry is None:
            return
        if not entry.members and not entry.trying:  # it is bound
            return
        uid = member.uid
        if entry.take_out(uid):
            self._changed(entry, CHANGED, joined=False)
        elif entry.trying.pop(uid, None) is not None:
            entry.stale = True

    def placed(self, entry: QueuedGroup, member: QueuedPod, placed: PodView) -> None:
        """Record that a member of the attempt is assumed on a node; it is bound apart from the attempt."""
        entry.trying.pop(member.uid, None)
        self.index.put(placed)

    def unplaced(self, pod: PodView) -> None:
        """Record that a member is not assumed any more."""
        if self.index.key_of(pod.uid) is not None:
            self.index.put(pod)

    def rejoin(self, member: QueuedPod, rejectors: frozenset[Plugin] | None) -> None:
        """Return a member whose binding failed to its group, which is tried again after a backoff.

        With `rejectors`, the plugins that refused the placement, it waits for an event that may help.
        """
        entry = self._entries.get(member.group or "")
        if entry is None:
            self._sub_queues.in_flight.end(member.uid)
            self.join(member, REJECTED)
            return
        self._sub_queues.in_flight.end(member.uid)
        alone = entry.place is Place.GONE
        self._wait(entry, member)
        if not alone:
            return
        if rejectors is None:
            self._after_error(entry)
        else:
            self._after_rejection(entry, rejectors, missed=False)

    def bound(self, member: QueuedPod) -> None:
        """Record that a member is bound."""
        entry = self._entries.get(member.group or "")
        if entry is not None:
            entry.errors = 0

    # ── attempts ──

    def begin(self, entry: QueuedGroup) -> None:
        """Begin an attempt with all members that wait; the entry is in flight."""
        entry.trying, entry.stale = entry.members, False
        entry.replace({})
        now = entry.started
        for uid, member in entry.trying.items():
            member.place = Place.IN_FLIGHT
            member.attempts += 1
            member.tried = member.pod
            member.stages = {"queue": max(0.0, now - member.queued_at)}
            member.queued_at = member.started = now
            self._sub_queues.in_flight.begin(uid)

    def decided(self, entry: QueuedGroup, rejectors: frozenset[Plugin]) -> None:
        """End an attempt in which the members were placed that the group needs.

        Members without a place wait for an event that may help: `rejectors` are the plugins that rejected nodes for them.
        """
        entry.rejections = 0
        if entry.trying:
            self.reject(entry, rejectors)
        else:
            self._sub_queues.in_flight.end(entry.uid)
            self._make_ready(entry)

    def reject(self, entry: QueuedGroup, rejectors: frozenset[Plugin]) -> None:
        """Queue an unschedulable group until an event may help.

        If a rejecting plugin depends on time, it is tried again after a backoff.
        """
        own = self.index.key_of
        missed = [
            change
            for change in self._sub_queues.in_flight.changes_since_begin(entry.uid)
            if change.pod is None or own(change.pod.uid) != entry.key
        ]
        unknown = self._sub_queues.in_flight.has_overflowed(entry.uid) or bool(entry.members) or entry.stale
        entry.rejectors = rejectors
        self._end_attempt(entry)
        woken = unknown or any(hints.may_help(entry, change, self._snapshot, self._emit) for change in missed)
        self._after_rejection(entry, rejectors, missed=woken)

    def fail(self, entry: QueuedGroup) -> None:
        """Try a group again after the error backoff: its attempt ended with an error."""
        if entry.place is Place.IN_FLIGHT:
            self._end_attempt(entry)
            self._after_error(entry)

    def wait_for_event(self, entry: QueuedGroup) -> None:
        """Undo the beginning of an attempt, and let the group wait until an event may help or `activate` is called."""
        self._undo(entry)
        if entry.members:
            self._sub_queues.wait_for_event(entry)

    def put_back(self, entry: QueuedGroup) -> None:
        """Undo the beginning of an attempt: it was not made, or the group has changed meanwhile."""
        self._undo(entry)
        self._make_ready(entry)

    def activate(self, entry: QueuedGroup, event: str) -> bool:
        """True if the group was waiting; it is ready now, without backoff. Gated groups stay."""
        if entry.place not in {Place.UNSCHEDULABLE, Place.BACKOFF, Place.ERROR_BACKOFF}:
            return False
        self._sub_queues.take_out(entry)
        self._sub_queues.activate(entry, event)
        return True

    # ── the entry ──

    def _wait(self, entry: QueuedGroup, member: QueuedPod) -> None:
        member.place = Place.MEMBER
        member.gate = entry.gate
        entry.add(member)

    def _undo(self, entry: QueuedGroup) -> None:
        entry.attempts -= 1
        for member in entry.trying.values():
            member.attempts -= 1
        self._end_attempt(entry)

    def _end_attempt(self, entry: QueuedGroup) -> None:
        """End the attempt under way: its members wait in the group again, before those that came meanwhile."""
        in_flight = self._sub_queues.in_flight
        in_flight.end(entry.uid)
        for member in entry.trying.values():
            in_flight.end(member.uid)
            if self.index.is_placed(member.uid):  # an event was seen while it was assumed
                self.index.put(member.pod)
            self._wait(entry, member)
        came = {uid: member for uid, member in entry.members.items() if uid not in entry.trying}
        entry.replace({**entry.trying, **came})
        entry.trying = {}
        entry.place = Place.GONE

    def _after_rejection(self, entry: QueuedGroup, rejectors: frozenset[Plugin], *, missed: bool) -> None:
        entry.rejectors = rejectors
        entry.rejections += 1
        entry.errors = 0
        entry.flushed = False
        entry.waits_since = entry.queued_at = self._clock.monotonic()
        if self._gated(entry):
            return
        if missed:
            self._sub_queues.enqueue(entry, REJECTED)
        elif hints.timed(rejectors):
            self._sub_queues.back_off(entry, self._settings.backoff.ready_at(entry.waits_since, entry.rejections))
        else:
            self._sub_queues.wait_for_event(entry)

    def _after_error(self, entry: QueuedGroup) -> None:
        entry.rejectors = frozenset()
        entry.errors += 1
        entry.flushed = False
        entry.waits_since = entry.queued_at = self._clock.monotonic()
        if not self._gated(entry):
            self._sub_queues.back_off(entry, self._settings.backoff.ready_at(entry.waits_since, entry.errors))

    def _make_ready(self, entry: QueuedGroup) -> None:
        """Queue an entry without a place as ready if it has members."""
        entry.place = Place.GONE
        if not self._gated(entry):
            self._sub_queues.activate(entry, CHANGED)

    def _changed(self, entry: QueuedGroup, event: str, *, joined: bool = True) -> None:
        """Put an entry into the right place after a change of its members or terms; one in flight is looked at when its attempt ends."""
        if entry.place is Place.IN_FLIGHT:
            return
        place, key = entry.place, entry.sort_key
        reason = self._waiting_reason(entry)
        if place is Place.GATED and reason is not None and entry.members and reason == entry.gate:
            return
        if reason is not None or not entry.members:
            self._sub_queues.take_out(entry)
            self._gate(entry, reason)
            return
        self._order(entry)
        if place in {Place.GATED, Place.GONE} or (place is Place.UNSCHEDULABLE and joined):
            self._sub_queues.take_out(entry)
            entry.place = Place.GONE
            self._open(entry)
            self._sub_queues.enqueue(entry, event)
        elif place is Place.ACTIVE and entry.sort_key != key:
            self._sub_queues.take_out(entry)
            self._sub_queues.activate(entry, event)

    def _gated(self, entry: QueuedGroup) -> bool:
        """True if an entry without a place may not be tried now: it has no members, or must wait for something."""
        return self._gate(entry, self._waiting_reason(entry))

    def _gate(self, entry: QueuedGroup, reason: Reason | None) -> bool:
        """True if an entry without a place may not be tried now; `reason` is that of `_waiting_reason`. Puts it where it belongs."""
        if not entry.members:
            entry.place = Place.GONE
            self._forget(entry)
            return True
        if reason is None:
            self._open(entry)
            self._order(entry)
            return False
        entry.place = Place.GATED
        if entry.gate != reason:
            entry.gate = reason
            for member in entry.members.values():
                member.gate = reason
        return True

    @staticmethod
    def _open(entry: QueuedGroup) -> None:
        if entry.gate is not None:
            entry.gate = None
            for member in entry.members.values():
                member.gate = None

    def _waiting_reason(self, entry: QueuedGroup) -> Reason | None:
        """The reason not to try the group yet, in the words of kube-scheduler; None if it may be tried."""
        text = self.index.waiting_reason(entry.key)
        return None if text is None else Reason(text, resolvable=False)

    def _order(self, entry: QueuedGroup) -> None:
        """Give the entry the position of the group's priority in the queue."""
        leader = entry.leader
        entry.profile = leader.profile
        entry.pod = leader.pod
        priority = _priority(self.index.terms(entry.key))
        if priority is not None and priority != leader.pod.priority:
            entry.pod = leader.pod.placed_on(leader.pod.node_name)
            entry.pod.priority = priority
        entry.sort_key = entry.profile.sort_key(entry.pod)


def _priority(terms: GroupTerms | None) -> int | None:
    return None if terms is None else terms.priority
