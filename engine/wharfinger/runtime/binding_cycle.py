"""The binding cycle: what lies between a decision and a bound pod, for many pods at a time.

    Permit ──▶ PreBind ──▶ Bind ──▶ PostBind

The pod is assumed on its node all the while. If anything fails, what was reserved is given back, the pod is forgotten and queued again.
Where no answer to a bind came, it may have been written all the same: the pod stays assumed while the watch is given time to tell, and the
same bind is sent again, which does no harm as it names the pod's uid and the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import Placement, Plugin
from wharfinger.framework.ports import BindFailed
from wharfinger.framework.verdict import Reason
from wharfinger.runtime import wording
from wharfinger.runtime.background import Background
from wharfinger.runtime.permits import Permits
from wharfinger.runtime.volume_binds import VolumeBinds
from wharfinger.runtime.world import Decided, World, attempt

if TYPE_CHECKING:
    from wharfinger.runtime.failures import Failures
    from wharfinger.runtime.queue import SchedulingQueue
    from wharfinger.runtime.queued_pod import QueuedPod
    from wharfinger.runtime.status_writes import StatusWrites

PATIENCE = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 4.0)
"""Seconds between looks at whether a bind whose outcome is unknown has come true."""


class NotLeader(Exception):
    """The lease is not held, so nothing may be bound any more."""


class Refused(Exception):
    """A plugin does not let the placement be bound."""

    def __init__(self, plugin: Plugin, reason: Reason) -> None:
        super().__init__(reason.text)
        self.plugin = plugin
        self.reason = reason


class BindingCycle:
    """Binds at most `most` pods at a time."""

    def __init__(  # noqa: PLR0913 — the parts that a binding touches
        self,
        world: World,
        *,
        queue: SchedulingQueue,
        writes: StatusWrites,
        failures: Failures,
        permits: Permits,
        most: int,
    ) -> None:
        self._world = world
        self._ports = world.ports
        self._queue = queue
        self._writes = writes
        self._failures = failures
        self._permits = permits
        self._most = most
        self._volumes = VolumeBinds(world)
        self._background = Background(lambda error: self._ports.observer.failed("binding cycle", error))
        self._occupied = 0
        self.room = asyncio.Event()
        self.room.set()

    def __len__(self) -> int:
        return len(self._background)

    def start(self, queued: QueuedPod, placement: Placement, decided: Decided) -> None:
        """Bind an assumed and reserved pod in the background."""
        self._background.start(self._run(queued, placement, decided)).add_done_callback(self._ended)
        self._occupy()

    async def drain(self) -> None:
        """None, when nothing is being bound any more."""
        await self._background.drain()

    def cancel(self) -> None:
        """Stop binding at once; what was being sent may have arrived."""
        self._background.cancel()

    def undo(self, queued: QueuedPod, placement: Placement, *, known: bool = True) -> None:
        """Give back what was reserved and forget the pod; if its place was `known` to be taken, say that it is free.

        A plugin that fails to give something back is reported, and the pod is forgotten all the same.
        """
        for plugin in reversed(queued.profile.reserves):
            try:
                plugin.unreserve(placement)
            except Exception as error:  # noqa: BLE001 — plugins may raise anything, and no pod may be lost by it
                self._ports.observer.failed(f"pod {placement.pod.key}", error)
        if self._world.state.forget(placement.pod) and known:
            freed = Change(events=ClusterEvent.POD_REMOVED, label="AssignedPodDelete", node=placement.node, pod=placement.pod)
            self._queue.notify(freed)

    def _ended(self, _task: asyncio.Task[None]) -> None:
        self._occupied -= 1
        if self._occupied < self._most:
            self.room.set()

    async def _run(self, queued: QueuedPod, placement: Placement, decided: Decided) -> None:
        try:
            await self._bind(queued, placement)
        except NotLeader:
            self.undo(queued, placement)
            self._queue.put_back(queued)
        except Refused as refused:
            self.undo(queued, placement)
            self._failures.unschedulable(queued, frozenset({refused.plugin}), decided, message=refused.reason.text)
        except asyncio.CancelledError:
            self.undo(queued, placement)
            raise
        except BindFailed as failed:
            self._failed(queued, placement, decided, failed)
        except Exception as error:  # noqa: BLE001 — plugins may raise anything, and no pod may be lost by it
            self.undo(queued, placement)
            self._failures.error(queued, error, decided)
        else:
            await self._bound(queued, placement, decided)
        finally:
            self._permits.end(queued.uid)

    async def _bind(self, queued: QueuedPod, placement: Placement) -> None:
        clock = self._ports.clock
        if queued.profile.permits or queued.profile.pre_binds or placement.pod.object.spec.volumes:
            with self._aside():
                await self._prepare(queued, placement)
        await self._writes.settled(queued.uid)
        sent = clock.monotonic()
        try:
            await self._send(queued, placement)
        finally:
            queued.stages["bind"] = clock.monotonic() - sent

    async def _prepare(self, queued: QueuedPod, placement: Placement) -> None:
        """Permit and PreBind, which may take minutes."""
        clock, profile = self._ports.clock, queued.profile
        started = clock.monotonic()
        if profile.permits:
            refusal = await self._permits.ask(placement, profile.permits)
            queued.stages["permit"] = clock.monotonic() - started
            if refusal is not None:
                raise Refused(*refusal)
        started = clock.monotonic()
        try:
            for plugin in profile.pre_binds:
                if (reason := await plugin.pre_bind(placement)) is not None:
                    raise BindFailed(f"{plugin.name}: {reason.text}")
            await self._volumes.bind(placement)
        finally:
            queued.stages["pre_bind"] = clock.monotonic() - started

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Leave the room for a binding to others while the placement waits for something else."""
        self._occupied -= 1
        self.room.set()
        try:
            yield
        finally:
            self._occupy()

    def _occupy(self) -> None:
        self._occupied += 1
        if self._occupied >= self._most:
            self.room.clear()

    async def _send(self, queued: QueuedPod, placement: Placement) -> None:
        """Write the binding, through the chain's Bind plugins if one takes the pod."""
        for plugin in queued.profile.binds:
            self._check(placement)
            answer = await plugin.bind(placement)
            if isinstance(answer, Reason):
                raise BindFailed(f"{plugin.name}: {answer.text}")
            if answer:
                return
        self._check(placement)
        try:
            await self._ports.binder.bind(placement.pod, placement.node)
        except BindFailed as failed:
            if not (failed.unknown or failed.bound):
                raise
            await self._find_out(placement, failed)

    def _check(self, placement: Placement) -> None:
        """Raise if the placement must not be sent any more."""
        if not self._ports.leadership.is_leader:
            raise NotLeader
        if not self._world.state.is_placed(placement.pod.uid):
            raise BindFailed("the pod was deleted while it was being bound", gone=True)
        if not self._world.state.is_assumed(placement.pod.uid):
            raise BindFailed("the pod was bound by somebody else", bound=True)
        if self._world.state.snapshot().row(placement.node) is None:
            raise BindFailed(f"node {placement.node} was removed before the pod was bound to it")

    async def _find_out(self, placement: Placement, failed: BindFailed) -> None:
        """None if a bind without a known outcome turns out to have been written; `BindFailed` if not."""
        state, uid = self._world.state, placement.pod.uid
        for seconds in PATIENCE:
            await self._ports.clock.sleep(seconds)
            if state.is_placed(uid) and not state.is_assumed(uid):
                there = state.snapshot().placed(uid)
                if there is not None and there[1].node_name == placement.node:
                    return
                raise BindFailed("the pod was bound to another node", bound=True)
            self._check(placement)
            try:
                await self._ports.binder.bind(placement.pod, placement.node)
            except BindFailed as again:
                if not (again.unknown or again.bound):
                    raise
                failed = again
            else:
                return
        raise failed

    def _failed(self, queued: QueuedPod, placement: Placement, decided: Decided, failed: BindFailed) -> None:
        self.undo(queued, placement)
        if failed.gone:
            self._failures.vanished(queued, failed, decided)
        else:
            self._failures.error(queued, failed, decided)

    async def _bound(self, queued: QueuedPod, placement: Placement, decided: Decided) -> None:
        pod = placement.pod
        self._queue.done(queued)
        self._writes.forget(pod.uid)
        self._ports.events.record(pod, wording.assigned(pod, placement.node))
        self._ports.observer.attempted(attempt(queued, "scheduled", self._ports.clock.monotonic(), decided))
        for plugin in queued.profile.post_binds:
            try:
                await plugin.post_bind(placement)
            except Exception as error:  # noqa: BLE001 — the pod is bound, whatever a plugin makes of it
                self._ports.observer.failed(f"{plugin.name} after binding {pod.key}", error)
