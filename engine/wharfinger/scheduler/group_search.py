"""The search for the nodes of a group, in steps between which other pods are placed; and the nodes reserved for a group without a place.

A search assumes members on the state in sequence, which other code must not see. So a search on the state itself has to end before anything
else happens: that is how a small group is placed, within `DIRECT_SEARCH_SECONDS` seconds of CPU time. A search that takes longer, or is
about many members, is done in slices on a copy of the state that follows it. Meanwhile other pods are placed and objects change; so what
was found on the copy is checked on the state itself, member by member, where something has changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.attempt import without_nominations
from wharfinger.groups.domains import Work, allocations
from wharfinger.groups.expected_room import ExpectedPlacement, expected_placement
from wharfinger.groups.placing import placing
from wharfinger.groups.preempting import PreemptionAnswer, preempting
from wharfinger.language.report.wording import count
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.devices.allocated import Allocations
from wharfinger.model.objects.metadata import time_text
from wharfinger.model.state.copies import FollowedCopy
from wharfinger.steps import followed_by

if TYPE_CHECKING:
    from wharfinger.framework.plugin_calls import Stopwatch
    from wharfinger.groups.terms import Group, GroupAnswer
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.binding.cycle import BindingCycle
    from wharfinger.scheduler.ports import LiveCluster
    from wharfinger.scheduler.profiles import Profile
    from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue

Found = TypeVar("Found")

DIRECT_SEARCH_SECONDS = 0.02
"""Seconds of CPU time that a search may take on the state itself after its first step."""
DIRECT_SEARCH_MEMBERS = 64
"""Members of a group that is searched for on the state itself first."""
COPIED_IN_ORDER = 5_000
"""Nodes and placed pods up to which the steps of a copy do not count. Their number depends on what has changed since the last copy."""
PAUSES_PER_STEP = 16
"""Pauses of a search that count as a step, as a decision about a member does."""
MEMBERS_PER_STEP = 20
"""Members that are checked and assumed, or reported, in one step."""
RESERVATION_GRACE_SECONDS = 60.0
"""Seconds after the expected time for which nodes are still kept."""
MAX_RESERVATION_SECONDS = 3600.0
"""Seconds for which nodes are kept at most."""


def in_one_step(n_members: int) -> bool:
    """True if this number of members is assumed in one step, so that no other code sees a part of them assumed."""
    return n_members < MEMBERS_PER_STEP


def is_small(group: Group) -> bool:
    """True if the group is searched for on the state itself first."""
    return len(group.waiting) <= DIRECT_SEARCH_MEMBERS


class GroupSearch:
    """Searches for one group at a time; a `stopwatch` measures the decisions on the copy, and `timer` the CPU time of the thread.

    `work` has the steps on the copy since a caller renewed it, with those of the copy itself if the cluster is large. A pause of a search
    counts as a part of a step: most come after much less work than a decision.

    A search on the state itself is given up by CPU time: on a machine with other work, time passes in which the search is not carried out,
    and to copy the state for another search takes longer than what is left of the first.
    """

    def __init__(self, cluster: LiveCluster, stopwatch: Stopwatch | None, timer: Callable[[], float]) -> None:
        self._cluster = cluster
        self._stopwatch = stopwatch
        self._timer = timer
        self.work = Work()
        self._copy = FollowedCopy()
        self._deciders: dict[str, Decider] = {}  # of the copy, by profile
        self._decided_on: ClusterState | None = None

    def at_once(self, profile: Profile, group: Group, *, keep: bool = False) -> GroupAnswer | None:
        """The answer found on the state itself, which is as before; None if that would take too long.

        With `keep`, the members of a placement stay assumed. Their devices and volumes are not noted as taken for a binding, so this is for
        members without claims.
        """
        ends_at = math.inf
        self._cluster.state.set_time(self._cluster.snapshot().now)
        with without_nominations(self._cluster.state, group.waiting):
            steps = placing(profile.decider, self._cluster.state, group, keep=keep)
            while True:
                try:
                    next(steps)
                except StopIteration as finished:
                    answer: GroupAnswer = finished.value
                    return answer
                if ends_at == math.inf:  # the first decision about a template looks at all nodes, on a copy too
                    ends_at = self._timer() + DIRECT_SEARCH_SECONDS
                elif self._timer() >= ends_at:
                    steps.close()
                    return None

    def in_steps(self, profile: Profile, group: Group) -> Generator[None, None, tuple[GroupAnswer, int]]:
        """A generator of steps that returns the answer, and the revision of the state that it is about."""
        snapshot = self._cluster.snapshot()
        revision = snapshot.revision
        copy = yield from self._followed(snapshot)
        decider = yield from self._decider(profile, copy, group)
        with without_nominations(copy, group.waiting):
            return (yield from self._counted(placing(decider, copy, group, work=self.work), PAUSES_PER_STEP)), revision

    def preempting(self, profile: Profile, group: Group, others: Sequence[Group]) -> Generator[None, None, PreemptionAnswer]:
        """A generator of steps that returns which pods must leave so that the group can be placed, or why that does not help."""
        copy = yield from self._followed(self._cluster.snapshot())
        decider = yield from self._decider(profile, copy, group)
        with without_nominations(copy, group.waiting):
            return (yield from self._counted(preempting(decider, copy, group, others, work=self.work), PAUSES_PER_STEP))

    def expected_placement(self, profile: Profile, group: Group) -> Generator[None, None, ExpectedPlacement | None]:
        """A generator of steps that returns where and when the group is expected to fit."""
        copy = yield from self._followed(self._cluster.snapshot())
        decider = yield from self._decider(profile, copy, group)
        with without_nominations(copy, group.waiting):
            return (yield from self._counted(expected_placement(decider, copy, group, work=self.work), PAUSES_PER_STEP))

    def _followed(self, snapshot: Snapshot) -> Generator[None, None, ClusterState]:
        """A generator of steps that returns the copy as of `snapshot`."""
        steps = self._copy.follow(snapshot)
        is_large = snapshot.n_nodes + int(snapshot.pod_count.sum()) > COPIED_IN_ORDER
        return (yield from self._counted(steps) if is_large else steps)

    def _counted(self, steps: Generator[None, None, Found], pauses_per_step: int = 1) -> Generator[None, None, Found]:
        """The same steps; some pauses between them count as a step."""
        pauses = 0

        def count_pause() -> None:
            nonlocal pauses
            pauses += 1
            self.work.steps += pauses % pauses_per_step == 0

        return followed_by(steps, count_pause)

    def _decider(self, profile: Profile, copy: ClusterState, group: Group) -> Generator[None, None, Decider]:
        """A generator of steps that returns the decider of a profile for the copy, which has looked for the devices of the group."""
        if copy is not self._decided_on:
            self._deciders, self._decided_on = {}, copy
        decider = self._deciders.get(profile.name)
        if decider is None or decider.chain is not profile.chain:
            decider = self._deciders[profile.name] = Decider(profile.chain, stopwatch=self._stopwatch)
        ahead = (None for pod in group.kinds for _ in decider.precompute(copy.snapshot, pod))
        yield from self._counted(ahead, PAUSES_PER_STEP)
        return decider

    def drop(self) -> None:
        """Free the copy."""
        self._copy.drop()
        self._deciders, self._decided_on = {}, None

    def assuming(
        self, profile: Profile, nodes: Mapping[str, str], members: Mapping[str, PodView], since: int, binding: BindingCycle
    ) -> Generator[None, None, bool]:
        """A generator of steps that assumes members on their nodes, and returns whether all of them still fit there.

        Their devices and volumes are taken too. `since` is the revision of the state that the nodes were found for. A member is checked if
        its node has changed since, or a filter reads other nodes. If one does not fit, none is assumed.
        """
        state, checks = self._cluster.state, _Checks(profile.decider, self._cluster.snapshot(), since)
        assumed: list[PodView] = []
        complete = False
        try:
            for number, (uid, node) in enumerate(nodes.items()):
                pod, snapshot = members[uid], self._cluster.snapshot()
                if not checks.passes(pod, node, snapshot):
                    return False
                chosen = allocations(profile.decider, snapshot, pod, node)
                state.assume(profile.chain.assigned_on(pod, snapshot, node), node)
                assumed.append(pod)
                binding.claims.reserve(pod, chosen)
                binding.volumes.reserve(pod, node)
                for each in chosen:
                    state.objects.following(Allocations).share(each.claim)
                if number % MEMBERS_PER_STEP == MEMBERS_PER_STEP - 1:
                    yield
            complete = True
            return True
        finally:
            if not complete:
                for pod in reversed(assumed):
                    binding.claims.release(pod)
                    binding.volumes.release(pod)
                    state.forget(pod)
            if (taken := state.objects.existing_follower(Allocations)) is not None:
                taken.end_sharing()


class _Checks:
    """The members that must be checked on the present state, and the checks."""

    def __init__(self, decider: Decider, snapshot: Snapshot, since: int) -> None:
        self._decider = decider
        nodes, pods = snapshot.node_changes(since), snapshot.usage_changes(since)
        self._unchanged_since = snapshot.revision == since
        self._changed: frozenset[str] | None = None  # nodes; None for any
        if nodes is not None and pods is not None:
            names = snapshot.names
            self._changed = frozenset(names[row] for row in np.union1d(nodes, pods).tolist())
        self._readers: dict[bytes, bool] = {}  # by template: the results of `_reads_other_nodes`

    def passes(self, pod: PodView, node: str, snapshot: Snapshot) -> bool:
        """True if the member fits on the node, if that may have changed."""
        row = snapshot.row(node)
        if row is None:
            return False
        node_unchanged = self._changed is not None and node not in self._changed
        if self._unchanged_since or (node_unchanged and not self._reads_other_nodes(pod, snapshot)):
            return True
        return bool(self._decider.filtering(snapshot, pod).feasible[row])

    def _reads_other_nodes(self, pod: PodView, snapshot: Snapshot) -> bool:
        """True if a filter for the pod reads more than the node that it is about."""
        found = self._readers.get(pod.template)
        if found is None:
            slots = self._decider.filtering(snapshot, pod).slots
            found = self._readers[pod.template] = any(slot.volatility > Volatility.ROW and not slot.skipped for slot in slots)
        return found


class Reservation(Struct, frozen=True, kw_only=True):
    """The reservation for a group: its members' nodes, its start and end (monotonic), and the text about it."""

    key: str
    size: int
    members: tuple[tuple[PodView, str], ...]
    since: float
    until: float
    text: str


class Reservations:
    """Keeps nodes free for at most one waiting group, if its policy has `reserve`.

    A stream of small pods can take every place that becomes free, so that a large group never finds enough of them at once. So members of
    the largest waiting group are nominated to nodes that others are expected to leave first: pods of no higher priority then count them
    there. Members take at most what they request. A reservation ends a minute after the time at which the group is expected to fit, if
    that is known, otherwise after the timeout of the group; never later than an hour. Then other groups have their turn, and the group gets
    no reservation for as long as it had one.
    """

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
        """A generator of steps that reserves nodes for a rejected group, if it is its turn; it returns a sentence about the reservation."""
        self.review()
        held = self.held
        if held is not None and held.key == group.key and self._is_there(held):
            return held.text
        if not group.terms.reserve or self._clock.monotonic() < self._resting.get(group.key, 0.0):
            return ""
        size = max(1, group.needed)
        if held is not None and held.key != group.key and held.size >= size:
            return ""
        expected = yield from self._search.expected_placement(profile, group)
        text = "" if expected is None else self._expected_text(expected)
        if expected is None or (self._wait(expected) or 0.0) > MAX_RESERVATION_SECONDS:
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
            if self._cluster.snapshot().nominated_to(pod.uid) == node and self._cluster.state.remove_nomination(pod):
                self._queue.notify(Change(events=ClusterEvent.NOMINATION, label="PodUpdate", node=node))

    def _hold(self, group: Group, size: int, expected: ExpectedPlacement, text: str) -> None:
        by_uid = {pod.uid: pod for pod in group.waiting if pod.uid in self._queue}  # without those that went during the search
        members = tuple((by_uid[uid], node) for uid, node in expected.placement.nodes.items() if uid in by_uid)
        now, wait = self._clock.monotonic(), self._wait(expected)
        until = now + min(MAX_RESERVATION_SECONDS, group.terms.timeout if wait is None else wait + RESERVATION_GRACE_SECONDS)
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

    def _wait(self, expected: ExpectedPlacement) -> float | None:
        return None if expected.at is None else max(0.0, expected.at - self._clock.now())

    @staticmethod
    def _expected_text(expected: ExpectedPlacement) -> str:
        if expected.at is None:
            return "no deadlines of running pods tell when it fits"
        return f"it is expected to fit at {time_text(expected.at)} at the latest, by the deadlines of running pods"
