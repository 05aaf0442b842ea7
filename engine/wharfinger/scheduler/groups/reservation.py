"""Nodes that are kept free for one waiting group, where a policy asks for that (`reserve`).

A stream of small pods can take every place that becomes free, so that a large group never finds enough of them at once. So members of the
largest waiting group are nominated to nodes that others are expected to leave first: pods of no higher priority then count them there. It
is one group at a time, its members take no more than they request, and it ends: a minute after the time at which the group is expected to
fit, if that is known, otherwise after the timeout of the group; never later than an hour. Then other groups have their turn, and the group
gets no reservation for as long as it had one.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.groups.expecting import Expected
from wharfinger.language.report.wording import count
from wharfinger.model.objects.metadata import time_text

if TYPE_CHECKING:
    from wharfinger.groups.terms import Group
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.scheduler.groups.searching import GroupSearch
    from wharfinger.scheduler.ports import LiveCluster
    from wharfinger.scheduler.profiles import Profile
    from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue

GRACE_SECONDS = 60.0
"""Seconds after the expected time for which nodes are still kept."""
MAX_SECONDS = 3600.0
"""Seconds for which nodes are kept at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What is kept for a group: its members' nodes, since and until when (monotonic), and the text about it."""

    key: str
    size: int
    members: tuple[tuple[PodView, str], ...]
    since: float
    until: float
    text: str


class Reservations:
    """Keeps nodes for at most one group."""

    def __init__(self, cluster: LiveCluster, queue: SchedulingQueue, search: GroupSearch) -> None:
        self._cluster = cluster
        self._clock = cluster.ports.clock
        self._queue = queue
        self._search = search
        self._resting: dict[str, float] = {}  # groups that had a reservation → when they may have one again
        self.held: Reservation | None = None

    def holds(self, key: str) -> bool:
        """True if nodes are kept for a group."""
        return self.held is not None and self.held.key == key

    def consider(self, profile: Profile, group: Group) -> Generator[None, None, str]:
        """A generator of steps that keeps nodes for a group that was just rejected, if it is its turn, and returns what to say of it."""
        self.review()
        held = self.held
        if held is not None and held.key == group.key and self._is_there(held):
            return held.text
        if not group.terms.reserve or self._clock.monotonic() < self._resting.get(group.key, 0.0):
            return ""
        size = max(1, group.needed)
        if held is not None and held.key != group.key and held.size >= size:
            return ""
        expected = yield from self._search.expecting(profile, group)
        text = "" if expected is None else self._expected_text(expected)
        if expected is None or (self._wait(expected) or 0.0) > MAX_SECONDS:
            return text
        self.release()
        self._hold(group, size, expected, text)
        return self.held.text if self.held is not None else text

    def review(self) -> None:
        """End a reservation whose time is over, or whose group does not wait any more."""
        held = self.held
        if held is None:
            return
        entry = self._queue.groups.get(held.key)
        now = self._clock.monotonic()
        if now >= held.until:
            self._resting = {key: until for key, until in self._resting.items() if until > now}
            self._resting[held.key] = now + (held.until - held.since)
            self.release()
        elif entry is None or not (entry.members or entry.trying):
            self.release()

    def release(self) -> None:
        """End the reservation, and try pods again that wait for the nodes."""
        held, self.held = self.held, None
        for pod, node in () if held is None else held.members:
            if self._cluster.snapshot().nominated_to(pod.uid) == node and self._cluster.state.denominate(pod):
                self._queue.notify(Change(events=ClusterEvent.NOMINATION, label="PodUpdate", node=node))

    def _hold(self, group: Group, size: int, expected: Expected, text: str) -> None:
        by_uid = {pod.uid: pod for pod in group.waiting}
        members = tuple((by_uid[uid], node) for uid, node in expected.placement.nodes.items())
        now, wait = self._clock.monotonic(), self._wait(expected)
        until = now + min(MAX_SECONDS, group.terms.timeout if wait is None else wait + GRACE_SECONDS)
        kept = count(len({node for _, node in members}), "node")
        ends = time_text(self._clock.now() + until - now)
        where = "".join(f", {key} {value}" for key, value in expected.placement.domains.items())
        text = f"{text}; room on {kept}{where} is kept free for it until {ends}"
        self.held = Reservation(key=group.key, size=size, members=members, since=now, until=until, text=text)
        for pod, node in members:
            self._cluster.state.nominate(pod, node)

    def _is_there(self, held: Reservation) -> bool:
        snapshot = self._cluster.snapshot()
        return all(snapshot.row(node) is not None for _, node in held.members)

    def _wait(self, expected: Expected) -> float | None:
        return None if expected.at is None else max(0.0, expected.at - self._clock.now())

    @staticmethod
    def _expected_text(expected: Expected) -> str:
        if expected.at is None:
            return "no deadlines of running pods say when it fits"
        return f"it is expected to fit at {time_text(expected.at)} at the latest, by the deadlines of running pods"
