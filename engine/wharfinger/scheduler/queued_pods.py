"""A pod or a group in the scheduling queue, the heap of ready ones, and the events that arrived while pods were being placed.

No event can wake a pod that is being placed. Changes are kept until the attempt ends; if it ends with a rejection, the pod is checked
against the changes it has missed. Binding a volume takes minutes, in which a busy cluster changes a million times: only the latest changes
are kept, and a pod that has missed more than these is tried again.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from wharfinger.framework.cluster_event import Change
from wharfinger.framework.extension import Plugin
from wharfinger.framework.prepared import Reason
from wharfinger.model.objects.pod_view import PodView

if TYPE_CHECKING:
    from wharfinger.scheduler.profiles import Profile


class Place(Enum):
    """The part of the queue that a pod is in; it is always in exactly one.

                    ┌──────────── event that may help ─────────────┐
    new ──▶ gated   ▼                                              │
     │        │   backoff ◀── error ──┐                            │
     │        ▼     │                 │                            │
     └───▶ active ◀─┘ ──pop──▶ in flight ── no node fits ──▶ unschedulable
                                 │
                                 └── placed: no longer queued

    A member of a group that waits is in its group, whose entry is in one of these places.
    """

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"
    MEMBER = "in its group"
    GONE = "gone"


def differ(old: PodView, new: PodView) -> bool:
    """True if a pod has to be tried again because it has changed: its template, or the claims that were made for it."""
    if old.template != new.template:
        return True
    return old.object.status.resource_claim_statuses != new.object.status.resource_claim_statuses


class QueuedPod(Struct, eq=False, kw_only=True):
    """A pod that waits to be placed or is being placed; times are monotonic seconds.

    `attempts` counts how often it was popped, `rejections` and `errors` the failures of each kind in a row. `first_seen` is when it could
    first have been tried, `waits_since` when it was added or its last attempt failed, `queued_at` when it entered its present place,
    `ready_at` when its backoff ends, 0 once it is active, and `started` when it was last popped. `rejectors` are the plugins that rejected
    nodes for it last time; empty means unknown, so that any event may help. `gate` is the reason why it must not be tried, `gate_faults`
    the number of failures of the plugin. `tried` is the pod of its last attempt. `flushed`: it is tried again only because it has waited
    for too long. `message` and `policies` are those of its last failed attempt: why it failed, and the policies that govern the pod.
    `group` is the key of the pod's group, None for a pod without one.
    """

    pod: PodView
    profile: Profile
    sort_key: Any
    first_seen: float
    waits_since: float
    queued_at: float
    place: Place = Place.ACTIVE
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    ready_at: float = 0.0
    rejectors: frozenset[Plugin] = frozenset()
    gate: Reason | None = None
    gate_faults: int = 0
    tried: PodView | None = None
    flushed: bool = False
    started: float = 0.0
    message: str = ""
    policies: tuple[str, ...] = ()
    stages: dict[str, float] = field(default_factory=dict)
    group: str | None = None

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.uid

    @property
    def kinds(self) -> Iterable[PodView]:
        """One pod for each template that is to be placed."""
        return (self.pod,)

    @property
    def is_group(self) -> bool:
        """True for a group."""
        return False


class QueuedGroup(QueuedPod, eq=False, kw_only=True):
    """A group in the queue: one entry for all its members that wait.

    `key` is that of the group. `pod` represents the group in the order of the queue: it has the group's priority. `members` wait, by uid,
    and may be tried; `trying` are those of the attempt under way that have no node yet. `stale`: the attempt under way is about a group
    that is not like that any more. `evicted` are the uids of the pods that were last evicted for the group.
    """

    key: str
    members: dict[str, QueuedPod] = field(default_factory=dict)
    trying: dict[str, QueuedPod] = field(default_factory=dict)
    stale: bool = False
    evicted: frozenset[str] = frozenset()
    known_templates: dict[bytes, dict[str, QueuedPod]] | None = None
    known_leader: QueuedPod | None = None

    def add(self, member: QueuedPod) -> None:
        """Add a waiting member. The results for other members are kept, so a large group is not read again for each member."""
        uid = member.uid
        self.take_out(uid)
        self.members[uid] = member
        if self.known_templates is not None:
            self.known_templates.setdefault(member.pod.template, {})[uid] = member
        if len(self.members) == 1 or (self.known_leader is not None and member.pod.priority > self.known_leader.pod.priority):
            self.known_leader = member

    def take_out(self, uid: str) -> bool:
        """True if a member was waiting; it does not wait any more."""
        member = self.members.pop(uid, None)
        if member is None:
            return False
        if self.known_templates is not None:
            alike = self.known_templates[member.pod.template]
            del alike[uid]
            if not alike:
                del self.known_templates[member.pod.template]
        if member is self.known_leader:  # no member has a higher priority; mostly the next one has the same
            self.known_leader = next((each for each in self.members.values() if each.pod.priority == member.pod.priority), None)
        return True

    def replace(self, members: dict[str, QueuedPod]) -> None:
        """Set the waiting members to exactly these."""
        self.members = members
        self.known_templates = self.known_leader = None

    @property
    def leader(self) -> QueuedPod:
        """The first waiting member of the highest priority; there must be one."""
        if self.known_leader is None:
            self.known_leader = max(self.members.values(), key=lambda member: member.pod.priority)
        return self.known_leader

    @property
    def uid(self) -> str:
        """A name that no pod has."""
        return f"group {self.key}"

    @property
    def kinds(self) -> Iterable[PodView]:
        """One member for each template. Members are kept by template, as every change of the cluster may ask for it."""
        if self.known_templates is None:
            self.known_templates = {}
            for uid, member in self.members.items():
                self.known_templates.setdefault(member.pod.template, {})[uid] = member
        return (next(iter(alike.values())).pod for alike in self.known_templates.values())

    @property
    def is_group(self) -> bool:
        """True for a group."""
        return True


_MIN_ENTRIES = 64


class Identified(Protocol):
    """Something with a uid."""

    @property
    def uid(self) -> str:
        """The uid."""


U = TypeVar("U", bound=Identified)


class ReadyHeap(Generic[U]):
    """Queued pods by key, the smallest first; any of them can be removed.

    A pod that is removed, or pushed again under another key, leaves a dead entry behind that is skipped. Once most entries are dead the
    heap is rebuilt, so that it never holds more than twice its pods.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[Any, int, U]] = []
        self._live: dict[str, int] = {}  # uid → ticket of the entry that counts
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, queued: U) -> bool:
        return queued.uid in self._live

    def push(self, queued: U, key: Any) -> None:
        """Add a pod; one that is in already gets this key."""
        self._tickets += 1
        self._live[queued.uid] = self._tickets
        heapq.heappush(self._entries, (key, self._tickets, queued))
        if len(self._entries) > 2 * len(self._live) + _MIN_ENTRIES:
            self._entries = [entry for entry in self._entries if self._live.get(entry[2].uid) == entry[1]]
            heapq.heapify(self._entries)

    def remove(self, queued: U) -> None:
        """Remove a pod that is in."""
        del self._live[queued.uid]

    def first(self) -> U | None:
        """The pod with the smallest key, which stays in; None if the heap is empty."""
        entries = self._entries
        while entries:
            _, ticket, queued = entries[0]
            if self._live.get(queued.uid) == ticket:
                return queued
            heapq.heappop(entries)
        return None

    def first_key(self) -> Any:
        """The smallest key; None if the heap is empty."""
        return None if self.first() is None else self._entries[0][0]

    def pop(self) -> U | None:
        """The pod with the smallest key, removed; None if the heap is empty."""
        queued = self.first()
        if queued is not None:
            heapq.heappop(self._entries)
            del self._live[queued.uid]
        return queued


MAX_CHANGES = 4096
"""Changes that are kept: those of some seconds in which a thousand pods are placed."""


class InFlight:
    """The pods being placed, by uid in the order of their attempts, and the changes since the first of these attempts began."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._changes: deque[Change] = deque()
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._since)

    @property
    def n_changes(self) -> int:
        """The number of kept changes."""
        return len(self._changes)

    def begin(self, uid: str) -> None:
        """Record that an attempt to place the pod begins."""
        self._since[uid] = self._dropped + len(self._changes)

    def record_change(self, change: Change) -> None:
        """Keep a change if a pod is in flight."""
        if self._since:
            self._changes.append(change)
            if len(self._changes) > MAX_CHANGES:
                self._changes.popleft()
                self._dropped += 1

    def has_overflowed(self, uid: str) -> bool:
        """True if there were more changes since the attempt began than are kept."""
        return self._since[uid] < self._dropped

    def changes_since_begin(self, uid: str) -> Iterator[Change]:
        """The changes since the attempt began, as far as they are kept; read them before the next change."""
        return islice(self._changes, max(0, self._since[uid] - self._dropped), None)

    def end(self, uid: str) -> None:
        """Record that the attempt has ended; changes that no other pod in flight needs are dropped."""
        del self._since[uid]
        if not self._since:
            self._dropped += len(self._changes)
            self._changes.clear()
            return
        oldest = next(iter(self._since.values()))
        while self._dropped < oldest:
            self._changes.popleft()
            self._dropped += 1
