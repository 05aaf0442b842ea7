"""The scheduling queue as a question supposes it: which pod is tried next, and which pods that found no node a change wakes.

Changes wake pods by the hints of the scheduler. The order is that of its queue: first the pods that were never tried, then those that were
woken; each by priority, and of equal priority by the time since they came or since their last attempt failed. A pod that was woken in
vain is thus behind the others, as in kube-scheduler. Times are only an order here: no backoff ends while pods are tried.

No change wakes a pod that a rule rejected which depends on time, such as a rule about a metric: the scheduler tries it after a backoff.
`end_backoffs` lets that time pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from wharfinger.emit import ignore
from wharfinger.scheduler.queue.hints import WaitingPods, timed
from wharfinger.scheduler.queued_pods import ReadyHeap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wharfinger.framework.cluster_event import Change
    from wharfinger.framework.extension import Plugin
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


def turn_uid(pod: PodView, group: str | None) -> str:
    """The uid of the turn of a pod, or of the group that it belongs to."""
    return pod.uid if group is None else f"group {group}"


class WaitingTurn:
    """A pod that waits, or the members of a group that wait, in the order in which they are tried; `group` is the key of the group.

    `pod` represents them in the order of the queue. `waits_since` grows with the time at which they came, or at which they were tried last.
    `rejectors` are those of the last attempt, if not `outdated`. `changes_seen` is the number of changes before that attempt, None if
    members came since then.
    """

    def __init__(self, pod: PodView, group: str | None, since: int) -> None:
        self.group = group
        self.uid = turn_uid(pod, group)
        self.pod = pod
        self.members: dict[str, PodView] = {}
        self.rejectors: frozenset[Plugin] = frozenset()
        self.waits_since = since
        self.was_tried = self.outdated = False
        self.changes_seen: int | None = None

    @property
    def is_group(self) -> bool:
        """True for a group."""
        return self.group is not None

    @property
    def kinds(self) -> Iterable[PodView]:
        """One pod for each template that is to be placed."""
        return {pod.template: pod for pod in self.members.values()}.values()


class SupposedQueue:
    """The pods that wait. `snapshot` is the cluster as it is; `sort_key` returns the place of a pod, or of a group by the pod for it."""

    def __init__(self, snapshot: Callable[[], Snapshot], sort_key: Callable[[PodView, str | None], Any]) -> None:
        self._snapshot = snapshot
        self._sort_key = sort_key
        self._turns: dict[str, WaitingTurn] = {}
        self._ready = ReadyHeap[WaitingTurn]()
        self._sleeping = WaitingPods[WaitingTurn]()
        self._in_backoff: dict[str, WaitingTurn] = {}  # those that no change wakes
        self._clock = 0
        self._n_changes = 0
        self.in_vain = False
        """True while attempts are known to find no node: pods that changes wake are not tried, and go behind the others."""

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __len__(self) -> int:
        """The number of pods that wait."""
        return sum(len(turn.members) for turn in self._turns.values())

    def __iter__(self) -> Iterator[PodView]:
        """The pods that wait."""
        return (pod for turn in self._turns.values() for pod in turn.members.values())

    def _next_time(self) -> int:
        self._clock += 1
        return self._clock

    # ── into the queue ──

    def add(self, pod: PodView, group: str | None) -> None:
        """Add a pod that was not tried yet. Its group is tried again with it, after a backoff if the group waits for that."""
        uid = turn_uid(pod, group)
        turn = self._turns.get(uid)
        waits = turn is not None and turn not in self._ready
        if turn is None:
            turn = self._turns[uid] = WaitingTurn(pod, group, self._next_time())
        turn.members[pod.uid] = pod
        turn.pod = max(turn.members.values(), key=lambda member: member.priority)
        if uid in self._in_backoff:
            turn.changes_seen = None
            return
        if waits:
            self._sleeping.remove(turn)
        self.wake(turn)

    def failed(self, turn: WaitingTurn, rejectors: frozenset[Plugin]) -> None:
        """Let the pods of a turn that was tried wait until a change may help those that have no node."""
        if not turn.outdated:  # one that was woken in vain has its place already
            turn.waits_since = self._next_time()
        turn.was_tried, turn.outdated = True, False
        turn.rejectors, turn.changes_seen = rejectors, self._n_changes
        self.put_back(turn)

    def put_back(self, turn: WaitingTurn) -> None:
        """Let the pods of a turn wait as before."""
        if not turn.members:
            del self._turns[turn.uid]
        elif timed(turn.rejectors):
            self._in_backoff[turn.uid] = turn
        else:
            self._sleeping.add(turn)

    # ── out of the queue ──

    def pop(self) -> WaitingTurn | None:
        """The turn that is tried now, taken out until `failed`; None if no pod is ready."""
        return self._ready.pop()

    def sleeping(self) -> list[WaitingTurn]:
        """The turns that no change has woken, in the order in which they would be tried."""
        return sorted((*self._sleeping, *self._in_backoff.values()), key=self._key)

    def take(self, turn: WaitingTurn) -> None:
        """Take out one of the turns that no change has woken, until `put_back`."""
        if self._in_backoff.pop(turn.uid, None) is None:
            self._sleeping.remove(turn)

    def activate(self, uid: str) -> None:
        """Let the turn of that uid be tried again, if it waits and no change has woken it."""
        turn = self._turns.get(uid)
        if turn is not None and turn not in self._ready:
            self.take(turn)
            self.wake(turn)

    # ── changes ──

    def notify(self, change: Change) -> None:
        """Wake the pods that a change may help. While `in_vain`, they stay where they are, behind the others."""
        self._n_changes += 1
        if not len(self._sleeping):
            return
        woken = self._sleeping.pods_to_wake(change, self._snapshot, ignore)
        if self.in_vain:
            for turn in sorted(woken, key=lambda turn: turn.waits_since):
                turn.waits_since, turn.outdated = self._next_time(), True
            return
        for turn in woken:
            self._sleeping.remove(turn)
            self.wake(turn)

    def end_vain(self, may_preempt: Callable[[WaitingTurn], bool]) -> None:
        """Let woken pods be tried from now on, and wake those that were woken in vain and may preempt others."""
        self.in_vain = False
        for turn in [turn for turn in self._sleeping if turn.outdated and may_preempt(turn)]:
            self._sleeping.remove(turn)
            self.wake(turn)

    def end_backoffs(self) -> bool:
        """Wake the pods that no change wakes, if anything has changed since they were tried; True if there are any."""
        woken = [turn for turn in self._in_backoff.values() if turn.changes_seen != self._n_changes]
        for turn in woken:
            self.take(turn)
            self.wake(turn)
        return bool(woken)

    def wake(self, turn: WaitingTurn) -> None:
        """Let a turn that was taken out be tried again."""
        self._ready.push(turn, self._key(turn))

    def _key(self, turn: WaitingTurn) -> tuple[Any, ...]:
        return turn.was_tried, self._sort_key(turn.pod, turn.group), turn.waits_since
