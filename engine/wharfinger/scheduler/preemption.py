"""Preemption: the node that was found is nominated, and its victims are evicted while everything else goes on.

The pod that room is made for is not tried again until its victims are seen to be leaving: before that, the same question would be answered
with more victims.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from wharfinger.event_loop import Background, until
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.ports import WriteFailed
from wharfinger.framework.verdict import Reason
from wharfinger.scheduler import pod_status
from wharfinger.scheduler.ports import LiveCluster

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.scheduler.binding import Permits
    from wharfinger.scheduler.pod_status import StatusWrites
    from wharfinger.scheduler.queue import SchedulingQueue
    from wharfinger.scheduler.queued_pods import QueuedPod

LONGEST = 10.0
"""Seconds to wait for the watch to show that evicted pods are leaving."""


class Preemptor:
    """Evicts victims; knows for which pods it is doing so."""

    def __init__(self, world: LiveCluster, queue: SchedulingQueue, writes: StatusWrites, permits: Permits) -> None:
        self._world = world
        self._ports = world.ports
        self._queue = queue
        self._writes = writes
        self._permits = permits
        self._staying: dict[str, set[str]] = {}  # preemptor → victims that are not seen to be leaving yet
        self._seen = asyncio.Event()
        self._evictions: dict[str, asyncio.Task[bool]] = {}  # victim → its one eviction, whoever wanted it first
        self._background = Background(lambda error: self._ports.observer.failed("preemption", error))

    def evicting_for(self, uid: str) -> bool:
        """Whether room is being made for the pod right now."""
        return uid in self._staying

    def leaving(self, uid: str) -> None:
        """A pod is gone, or is being deleted."""
        self._evictions.pop(uid, None)
        for victims in self._staying.values():
            victims.discard(uid)
        if self._staying:
            self._seen.set()
            self._seen = asyncio.Event()

    def preempt(self, queued: QueuedPod, node: str, victims: tuple[PodView, ...]) -> None:
        """Nominate a node for a pod, and evict the victims there in the background."""
        pod = queued.pod
        self._displace(pod, node)
        self._world.state.nominate(pod, node)
        self._ports.observer.preempted(pod, node, len(victims))
        self._staying[pod.uid] = {victim.uid for victim in victims if not victim.terminating}
        self._background.start(self._evict(queued, node, victims))

    async def drain(self) -> None:
        """None, when nobody is being evicted any more."""
        await self._background.drain()

    def cancel(self) -> None:
        """Stop evicting."""
        self._background.cancel()
        for eviction in self._evictions.values():
            eviction.cancel()

    def _displace(self, pod: PodView, node: str) -> None:
        """Take the nomination from pods of lower priority that are nominated to the node: they may fit elsewhere now."""
        snapshot = self._world.snapshot()
        row = snapshot.row(node)
        lower = () if row is None else tuple(other for other in snapshot.nominated(row) if other.priority < pod.priority)
        for other in lower:
            self._world.state.denominate(other)
            self._writes.say(other, None, "")
            self._queue.activate(other.uid)

    async def _evict(self, queued: QueuedPod, node: str, victims: tuple[PodView, ...]) -> None:
        uid = queued.uid
        try:
            evicted = await asyncio.gather(*(self._evict_once(queued, node, victim) for victim in victims))
            if not all(evicted):
                self._give_up(queued.pod)
            else:
                await self._see_them_leave(uid)
        finally:
            for staying in self._staying.pop(uid, ()):
                self._evictions.pop(staying, None)  # who is not seen to leave has to be told again
            self._queue.activate(uid)

    async def _evict_once(self, queued: QueuedPod, node: str, victim: PodView) -> bool:
        """Whether the victim is leaving. One that another pod's preemption evicts already is not evicted again."""
        if victim.uid not in self._staying[queued.uid]:
            return True  # it is seen to be leaving
        eviction = self._evictions.get(victim.uid)
        if eviction is None:
            eviction = self._evictions[victim.uid] = asyncio.ensure_future(self._evict_one(queued, node, victim))
        leaves = await asyncio.shield(eviction)
        if not leaves:
            self._evictions.pop(victim.uid, None)
        return leaves

    async def _see_them_leave(self, uid: str) -> None:
        clock = self._ports.clock
        ends_at = clock.monotonic() + LONGEST
        while self._staying.get(uid) and clock.monotonic() < ends_at:
            await until(self._seen, clock, ends_at - clock.monotonic())

    async def _evict_one(self, queued: QueuedPod, node: str, victim: PodView) -> bool:
        """Whether the victim is leaving."""
        preemptor = queued.pod
        if self._permits.reject(victim.uid, Reason("preempted")):
            self.leaving(victim.uid)
            return True
        if not self._ports.leadership.is_leader:
            return False
        try:
            await self._ports.writer.disrupt(victim, pod_status.disrupted(queued.profile.name))
        except WriteFailed as error:
            self._ports.observer.failed(f"preemption of pod {victim.key}", error)
            return error.gone
        except Exception as error:  # noqa: BLE001 — the pod that room is made for must not be lost by it
            self._ports.observer.failed(f"preemption of pod {victim.key}", error)
            return False
        self._ports.events.record(victim, pod_status.preempted(preemptor, node, queued.profile.name))
        return True

    def _give_up(self, pod: PodView) -> None:
        """The node is not free after all: the pod takes its chances like any other."""
        node = self._world.snapshot().nominated_to(pod.uid)
        if self._world.state.denominate(pod):
            self._writes.say(pod, None, "")
            self._queue.notify(Change(events=ClusterEvent.NOMINATION, label="PodUpdate", node=node))
