"""Preemption: nominates the node that was found, and evicts its victims in the background.

The preempting pod is not tried again until its victims are seen to be terminating. Until they are deleted, the state has them as leaving: a
pod that is tried meanwhile waits for those on its nominated node, also for the victims of others there, and does not choose more. A group
is nominated to the nodes of its whole placement, which are kept for it until all of its victims have left.

If the API server refuses an eviction, the nomination is taken back, and the pod is tried again after a backoff. Before a group is evicted
as a whole, all of its evictions are tried without effect: if one is refused, none is carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from wharfinger.emit import Failed
from wharfinger.event_loop import Background, until
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.ports import Reference, WriteFailed, pod_reference
from wharfinger.framework.prepared import Reason
from wharfinger.scheduler import status
from wharfinger.scheduler.events import Preempted
from wharfinger.scheduler.ports import LiveCluster
from wharfinger.scheduler.queued_pods import QueuedGroup

if TYPE_CHECKING:
    from wharfinger.groups.terms import Group
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.scheduler.binding.permits import Permits
    from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
    from wharfinger.scheduler.queued_pods import QueuedPod
    from wharfinger.scheduler.status import GroupStatus, StatusWrites

EVICTION_TIMEOUT = 10.0
"""Seconds to wait for the watch to show that evicted pods are terminating."""


class Preemptor:
    """Evicts victims, and stores for which pods."""

    def __init__(self, cluster: LiveCluster, queue: SchedulingQueue, writes: StatusWrites, permits: Permits, status: GroupStatus) -> None:
        self._cluster = cluster
        self._ports = cluster.ports
        self._queue = queue
        self._writes = writes
        self._permits = permits
        self._status = status
        self._staying: dict[str, set[str]] = {}  # preemptor → victims that are not seen to be terminating yet
        self._seen = asyncio.Event()
        self._evictions: dict[str, asyncio.Task[bool]] = {}  # victim → its one eviction, for all preemptors
        self._background = Background(lambda error: self._ports.emit(Failed("preemption", error)))

    def evicting_for(self, uid: str) -> bool:
        """True if victims are being evicted for the pod right now."""
        return uid in self._staying

    def leaving(self, uid: str) -> None:
        """Handle a pod that is deleted or terminating."""
        self._evictions.pop(uid, None)
        for victims in self._staying.values():
            victims.discard(uid)
        if self._staying:
            self._seen.set()
            self._seen = asyncio.Event()

    def preempt(self, queued: QueuedPod, node: str, victims: tuple[PodView, ...]) -> None:
        """Nominate a node for a pod, and evict the victims there in the background."""
        self._ports.emit(Preempted(queued.pod, node, len(victims)))
        self._preempt(queued, ((queued.pod, node),), victims, ())

    def preempt_for_group(
        self, entry: QueuedGroup, nodes: Sequence[tuple[PodView, str]], victims: tuple[PodView, ...], disrupted: Sequence[Group]
    ) -> None:
        """Nominate members of a group to their nodes, and evict the victims there in the background.

        `disrupted` are the groups among the victims that leave as a whole or not at all.
        """
        self._ports.emit(Preempted(entry.pod, nodes[0][1], len(victims)))
        self._preempt(entry, nodes, victims, disrupted)

    def _preempt(
        self, queued: QueuedPod, nodes: Sequence[tuple[PodView, str]], victims: tuple[PodView, ...], disrupted: Sequence[Group]
    ) -> None:
        own = {pod.uid for pod, _ in nodes}
        for pod, node in nodes:
            self._displace(pod, node, own)
        for pod, node in nodes:
            self._cluster.state.nominate(pod, node)
        self._staying[queued.uid] = {victim.uid for victim in victims if not victim.terminating}
        for victim in victims:
            self._cluster.state.expect_leaving(victim.uid)
        self._background.start(self._evict(queued, [pod for pod, _ in nodes], victims, disrupted))

    async def drain(self) -> None:
        """Wait until no eviction is under way."""
        await self._background.drain()

    def cancel(self) -> None:
        """Stop evicting."""
        self._background.cancel()
        for eviction in self._evictions.values():
            eviction.cancel()

    def _displace(self, pod: PodView, node: str, own: Container[str]) -> None:
        """Take the nomination from pods of lower priority that are nominated to the node: they may fit on other nodes now."""
        snapshot = self._cluster.snapshot()
        row = snapshot.row(node)
        lower = () if row is None else tuple(other for other in snapshot.nominated(row) if other.priority < pod.priority)
        for other in lower:
            if other.uid in own:
                continue
            self._cluster.state.remove_nomination(other)
            self._writes.write(other, None, "")
            self._queue.activate(other.uid)

    async def _evict(
        self, queued: QueuedPod, nominated: Sequence[PodView], victims: tuple[PodView, ...], disrupted: Sequence[Group]
    ) -> None:
        uid, evicted = queued.uid, list[bool]()
        try:
            evicted = await asyncio.gather(*(self._may_leave(queued, pod) for group in disrupted for pod in group.placed))
            if all(evicted):
                for group in disrupted:
                    self._status.disrupted(group, queued.profile.name, self._reference(queued))
                evicted = await asyncio.gather(*(self._evict_once(queued, victim) for victim in victims))
            if all(evicted):
                await self._wait_for_victims(uid)
        finally:
            for staying in self._staying.pop(uid, ()):
                self._stays(staying)
            if all(evicted):
                self._queue.activate(uid)
            else:
                for pod in nominated:
                    self._give_up(pod)
                self._queue.delay(uid)

    def _stays(self, victim: str) -> None:
        """Forget a victim that does not terminate: it must be evicted again, and pods that wait for it are tried again."""
        if any(victim in others for others in self._staying.values()):
            return
        self._evictions.pop(victim, None)
        if not self._cluster.state.expect_staying(victim):
            return
        snapshot = self._cluster.snapshot()
        placed = snapshot.placed(victim)
        for waiting in () if placed is None else snapshot.nominated(placed[0]):
            self._queue.activate(waiting.uid)

    async def _evict_once(self, queued: QueuedPod, victim: PodView) -> bool:
        """True if the victim is terminating. A victim that another preemption evicts already is not evicted again."""
        if victim.uid not in self._staying[queued.uid]:
            return True  # it is seen to be terminating
        eviction = self._evictions.get(victim.uid)
        if eviction is None:
            eviction = self._evictions[victim.uid] = asyncio.ensure_future(self._evict_one(queued, victim))
        leaves = await asyncio.shield(eviction)
        if not leaves:
            self._evictions.pop(victim.uid, None)
        return leaves

    async def _wait_for_victims(self, uid: str) -> None:
        clock = self._ports.clock
        ends_at = clock.monotonic() + EVICTION_TIMEOUT
        while self._staying.get(uid) and clock.monotonic() < ends_at:
            await until(self._seen, clock, ends_at - clock.monotonic())

    async def _may_leave(self, queued: QueuedPod, victim: PodView) -> bool:
        """True if the victim is terminating, or the API server would accept its eviction."""
        return victim.uid not in self._staying[queued.uid] or await self._write(queued, victim, dry_run=True)

    async def _evict_one(self, queued: QueuedPod, victim: PodView) -> bool:
        """True if the victim is terminating."""
        if self._permits.reject(victim.uid, Reason("preempted")):
            self.leaving(victim.uid)
            return True
        if not await self._write(queued, victim):
            return False
        self._ports.events.record(victim, status.preempted(self._reference(queued), victim.node_name, queued.profile.name))
        return True

    async def _write(self, queued: QueuedPod, victim: PodView, *, dry_run: bool = False) -> bool:
        """True if the API server accepts the eviction of a victim, which with `dry_run` is not carried out."""
        if not self._ports.leadership.is_leader:
            return False
        try:
            writer = self._ports.writer
            await (writer.try_disrupt if dry_run else writer.disrupt)(victim, status.disrupted(queued.profile.name))
        except WriteFailed as error:
            self._ports.emit(Failed(f"preemption of pod {victim.key}", error))
            return error.gone
        except Exception as error:  # noqa: BLE001 — the preempting pod must not be lost by it
            self._ports.emit(Failed(f"preemption of pod {victim.key}", error))
            return False
        return True

    def _reference(self, queued: QueuedPod) -> Reference:
        """The reference to the pod or group for which pods are evicted."""
        return self._status.preemptor(queued.key) if isinstance(queued, QueuedGroup) else pod_reference(queued.pod)

    def _give_up(self, pod: PodView) -> None:
        """Take the nomination back: not all victims could be evicted."""
        node = self._cluster.snapshot().nominated_to(pod.uid)
        if self._cluster.state.remove_nomination(pod):
            self._writes.write(pod, None, "")
            self._queue.notify(Change(events=ClusterEvent.NOMINATION, label="PodUpdate", node=node))
