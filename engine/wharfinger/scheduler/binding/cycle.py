"""The binding cycle: the steps from a decision to a bound pod, for many pods at a time.

    Permit ──▶ PreBind (with the pod's volumes and devices) ──▶ Bind ──▶ PostBind

Members of a group wait for each other before Bind (`group_binding.GroupBinding`).

The pod is assumed on its node all the while. If anything fails, what was reserved is given back, the pod is forgotten and queued again. A
bind without a response may have been written. The pod stays assumed while the watch has time to show it. The same bind is sent again; it
names the pod's uid and the node, so repeating it is safe. A refusal of the repetition says nothing about the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from wharfinger.emit import Failed
from wharfinger.event_loop import Background
from wharfinger.framework.cluster_event import Change, ClusterEvent, pod_removed
from wharfinger.framework.extension import Placement, Plugin, PreBindPlugin
from wharfinger.framework.ports import BindFailed
from wharfinger.framework.prepared import Reason
from wharfinger.groups.domains import of_rows as domains_of_rows
from wharfinger.scheduler import status
from wharfinger.scheduler.binding.claims import DeviceClaims
from wharfinger.scheduler.binding.group_binding import DELETED, GroupBinding, PlacementReleased
from wharfinger.scheduler.binding.permits import Permits, Released
from wharfinger.scheduler.binding.volumes import VolumeBinds
from wharfinger.scheduler.events import DecisionSummary, attempt_ended
from wharfinger.scheduler.ports import LiveCluster

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.scheduler.profiles import Profile
    from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
    from wharfinger.scheduler.queued_pods import QueuedPod
    from wharfinger.scheduler.status import FailureHandler, StatusWrites


RECHECK_DELAYS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 4.0)
"""Seconds between two checks whether a bind of unknown outcome was written."""


class NotLeader(Exception):
    """The lease is not held, so nothing may be bound."""


class Refused(Exception):
    """A plugin refuses the placement."""

    def __init__(self, plugin: Plugin, reason: Reason) -> None:
        super().__init__(reason.text)
        self.plugin = plugin
        self.reason = reason


def _no_group() -> None:
    """Do nothing: no other pods are bound together with this one."""


class _Member(Struct, frozen=True):
    """A member of a group that is being bound."""

    together: GroupBinding
    profile: Profile
    placement: Placement


class BindingCycle:
    """Binds at most `limit` pods at a time, and writes at most as many claims for devices before."""

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        cluster: LiveCluster,
        *,
        queue: SchedulingQueue,
        writes: StatusWrites,
        failures: FailureHandler,
        permits: Permits,
        limit: int,
    ) -> None:
        self._cluster = cluster
        self._ports = cluster.ports
        self._queue = queue
        self._writes = writes
        self._failures = failures
        self._permits = permits
        self._limit = limit
        self.volumes = VolumeBinds(cluster, self.volumes_freed)
        self.claims = DeviceClaims(cluster, limit)
        self._background = Background(lambda error: self._ports.emit(Failed("binding cycle", error)), ended=self._free_slot)
        self._slots_taken = 0
        self._members: dict[str, _Member] = {}  # of groups, by uid
        self.slot_free = asyncio.Event()  # set while fewer than `limit` slots are taken
        self.slot_free.set()

    def __len__(self) -> int:
        return len(self._background)

    def start(self, queued: QueuedPod, placement: Placement, decided: DecisionSummary, together: GroupBinding | None = None) -> None:
        """Bind an assumed and reserved pod in the background, `together` with other members of its group."""
        if together is not None:
            self._members[queued.uid] = _Member(together, queued.profile, placement)
            if not self._needs_preparation(queued, placement):
                together.arrived(queued.uid)
        self._background.start(self._run(queued, placement, decided))
        self._take_slot()

    def leaving(self, uid: str) -> None:
        """Handle a pod that is deleted or terminating.

        It waits for no permit any more, and members that wait for it are given back if they are too few without it.
        """
        self.refuse(uid, "the pod is being deleted")
        member = self._members.get(uid)
        if member is not None:
            member.together.lost(uid, DELETED)

    def node_removed(self, name: str) -> None:
        """Handle a deleted node: members of groups that were to be bound to it are lost for the others."""
        for uid, member in [(uid, member) for uid, member in self._members.items() if member.placement.node == name]:
            why = f"node {name} was removed while the group was being bound"
            member.together.lost(uid, why)
            self.release(uid, why)

    def waiting(self, uids: Iterable[str]) -> GroupBinding | None:
        """Those that are bound together with one of these pods, if they still wait for each other."""
        found = (self._members.get(uid) for uid in uids)
        return next((member.together for member in found if member is not None and member.together.is_open), None)

    def misfit_reason(self, uids: Collection[str], since: int, domains: Mapping[str, str]) -> str:
        """The reason why one of these assumed members does not fit on its node any more; "" if all fit.

        Only nodes that have changed after the revision `since` are looked at. `domains` are the values of their required topology keys.
        """
        snapshot = self._cluster.snapshot()
        rows = snapshot.changed_nodes(since)
        if not len(rows):
            return ""
        changed = {snapshot.names[row]: row for row in rows.tolist()}
        for uid in uids:
            member = self._members[uid]
            pod, node = member.placement.pod, member.placement.node
            if node in changed and not self._fits(member, changed[node], domains):
                return f"node {node} has changed while the group was being bound, and does not take {pod.name} any more"
        return ""

    def _fits(self, member: _Member, row: int, domains: Mapping[str, str]) -> bool:
        """True if all filters agree to an assumed pod on the node where it is, and the node is in these domains."""
        state, pod = self._cluster.state, member.placement.pod
        if domains_of_rows(tuple(domains), (row,), self._cluster.snapshot()) != domains:
            return False
        if not state.forget(pod):
            return True  # it is bound already, which shows when its own binding is sent
        try:
            return bool(member.profile.decider.filtering(self._cluster.snapshot(), pod).feasible[row])
        finally:
            state.assume(pod, member.placement.node)

    def will_be_released(self, uid: str) -> bool:
        """True if a pod is a member, not ready yet, of a group that cannot be bound as decided: its placement will be released."""
        member = self._members.get(uid)
        return member is not None and bool(member.together.failure)

    def refuse(self, uid: str, why: str) -> bool:
        """True if a pod was waiting for a Permit plugin; it is refused now."""
        return self._permits.reject(uid, Reason(why))

    def release(self, uid: str, why: str) -> bool:
        """True if a member of a group was waiting for a Permit plugin; it is released now, and is tried again with the others."""
        return self._permits.fail(uid, PlacementReleased(why))

    async def drain(self) -> None:
        """Wait until no binding is under way."""
        await self._background.drain()
        await self.claims.drain()

    def cancel(self) -> None:
        """Stop binding at once; requests that were sent may have arrived."""
        self._background.cancel()

    def undo(self, queued: QueuedPod, placement: Placement, *, known: bool = True) -> None:
        """Unreserve and forget the pod; if the placement is known to the queue (`known`), notify it that its resources are free.

        A plugin that raises in Unreserve is reported, and the pod is forgotten anyway.
        """
        for plugin in reversed(queued.profile.reserves):
            try:
                plugin.unreserve(placement)
            except Exception as error:  # noqa: BLE001 — plugins may raise anything, and no pod may be lost by it
                self._ports.emit(Failed(f"pod {placement.pod.key}", error))
        if self.claims.release(placement.pod) and known:  # the pod itself may be gone already, and its devices are free only now
            self.devices_freed()
        if self.volumes.release(placement.pod) and known:
            self.volumes_freed()
        forgotten = self._cluster.state.forget(placement.pod)
        if forgotten and queued.group is not None:
            self._queue.groups.unplaced(placement.pod)
        if forgotten and known:
            self.freed(placement.pod, placement.node)

    def devices_freed(self) -> None:
        """Notify the queue that devices are free that were reserved for a pod."""
        self._queue.notify(Change(events=ClusterEvent.RESOURCE_CLAIM, label="ResourceClaimUpdate"))

    def volumes_freed(self) -> None:
        """Notify the queue that volumes or claims are free that were assumed for a pod."""
        self._queue.notify(Change(events=ClusterEvent.VOLUME | ClusterEvent.CLAIM, label="PersistentVolumeUpdate"))

    def freed(self, pod: PodView, node: str) -> None:
        """Notify the queue that the place of an assumed pod is free."""
        self._queue.notify(pod_removed(pod, node))

    async def _run(self, queued: QueuedPod, placement: Placement, decided: DecisionSummary) -> None:
        try:
            await self._bind(queued, placement)
        except (NotLeader, Released) as lost:
            self.undo(queued, placement)
            self._queue.put_back(queued)
            self._lost(queued, str(lost))
        except Refused as refused:
            self.undo(queued, placement)
            self._failures.unschedulable(queued, frozenset({refused.plugin}), decided, message=refused.reason.text)
            self._lost(queued, refused.reason.text)
        except PlacementReleased as released:
            self.undo(queued, placement)
            self._failures.released(queued, str(released), decided)
        except asyncio.CancelledError:
            self.undo(queued, placement)
            raise
        except BindFailed as failed:
            self._failed(queued, placement, decided, failed)
        except Exception as error:  # noqa: BLE001 — plugins may raise anything, and no pod may be lost by it
            self.undo(queued, placement)
            self._failures.error(queued, error, decided)
            self._lost(queued, str(error))
        else:
            await self._bound(queued, placement, decided)
        finally:
            uid = queued.uid
            self._permits.end(uid)
            if queued.group is not None:
                self._members.pop(uid, None)

    def _lost(self, queued: QueuedPod, why: str) -> None:
        """Notify the members that are bound together with a pod that it is not bound."""
        together = self._together(queued)
        if together is not None:
            together.lost(queued.uid, f"member {queued.pod.name} could not be bound: {why}")

    def _together(self, queued: QueuedPod) -> GroupBinding | None:
        """The members that are bound together with a pod; None without a group."""
        member = None if queued.group is None else self._members.get(queued.uid)
        return None if member is None else member.together

    async def _bind(self, queued: QueuedPod, placement: Placement) -> None:
        clock = self._ports.clock
        if self._needs_preparation(queued, placement):
            with self._outside_limit():
                await self._prepare(queued, placement)
        together = self._together(queued)
        if together is not None:
            await self._wait_for_others(together, queued)
        await self._writes.finish(queued.uid)
        if together is not None:
            together.check(queued.uid)
        sent = clock.monotonic()
        try:
            await self._send(queued, placement)
        finally:
            queued.stages["bind"] = clock.monotonic() - sent

    async def _wait_for_others(self, together: GroupBinding, queued: QueuedPod) -> None:
        """Return once the group may be bound, and a slot is free for its request: a group may have more members than there are slots."""
        if together.arrived(queued.uid) and self._slots_taken <= self._limit:
            together.check(queued.uid)
            return
        self._free_slot()
        try:
            await together.ready(queued.uid)
            while not self.slot_free.is_set():
                await self.slot_free.wait()
            together.check(queued.uid)
        finally:
            self._take_slot()

    def _needs_preparation(self, queued: QueuedPod, placement: Placement) -> bool:
        """True if a plugin or a policy may have something to do before the binding, or volumes or devices are available."""
        profile, spec = queued.profile, placement.pod.object.spec
        return bool(
            profile.permits or profile.chain.has_permits or profile.pre_binds or spec.volumes or self.claims.has_claims(placement.pod)
        )

    async def _prepare(self, queued: QueuedPod, placement: Placement) -> None:
        """Permit and PreBind, which may take minutes."""
        clock, profile = self._ports.clock, queued.profile
        started = clock.monotonic()
        if profile.permits or profile.chain.permits(placement.pod, self._cluster.snapshot()):
            refusal = await self._permits.wait(placement, profile)
            queued.stages["permit"] = clock.monotonic() - started
            if refusal is not None:
                raise Refused(*refusal)
        together = self._together(queued)
        check = _no_group if together is None else partial(together.check, queued.uid)
        started = clock.monotonic()
        try:
            for plugin in profile.pre_binds:
                check()
                if (reason := await self._pre_bind(plugin, placement, together)) is not None:
                    raise BindFailed(f"{plugin.name}: {reason.text}")
            await self.volumes.bind(placement, profile.chain, check)
            await self.claims.bind(placement, profile.chain, check)
        finally:
            queued.stages["pre_bind"] = clock.monotonic() - started

    async def _pre_bind(self, plugin: PreBindPlugin, placement: Placement, together: GroupBinding | None) -> Reason | None:
        """The answer of a plugin, which has as long as it wants, but for a member of a group only the time of the group."""
        if together is None:
            return await plugin.pre_bind(placement)

        def stuck(why: str) -> None:
            self._ports.events.record(placement.pod, status.failed_scheduling(why))

        return await together.in_time(placement.pod.uid, f'PreBind of plugin "{plugin.name}"', plugin.pre_bind(placement), stuck)

    @contextmanager
    def _outside_limit(self) -> Iterator[None]:
        """A context in which other pods may be bound, while this placement waits for Permit and PreBind."""
        self._free_slot()
        try:
            yield
        finally:
            self._take_slot()

    def _take_slot(self) -> None:
        self._slots_taken += 1
        if self._slots_taken >= self._limit:
            self.slot_free.clear()

    def _free_slot(self) -> None:
        self._slots_taken -= 1
        if self._slots_taken < self._limit:
            self.slot_free.set()

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
            await self._confirm(placement, failed)

    def _check(self, placement: Placement) -> None:
        """Raise if the placement must not be bound any more."""
        if not self._ports.leadership.is_leader:
            raise NotLeader("this process does not have the lease")
        if not self._cluster.state.is_placed(placement.pod.uid):
            raise BindFailed("the pod was deleted while it was being bound", gone=True)
        if not self._cluster.state.is_assumed(placement.pod.uid):
            raise BindFailed("the pod was bound by another scheduler", bound=True)
        if self._cluster.state.snapshot().row(placement.node) is None:
            raise BindFailed(f"node {placement.node} was removed before the pod was bound to it")

    async def _confirm(self, placement: Placement, failed: BindFailed) -> None:
        """Return if a bind of unknown outcome turns out to have been written; `BindFailed` if that is not known in the end, or not so."""
        state, uid = self._cluster.state, placement.pod.uid
        for seconds in RECHECK_DELAYS:
            await self._ports.clock.sleep(seconds)
            if state.is_placed(uid) and not state.is_assumed(uid):
                there = state.snapshot().placed(uid)
                if there is not None and there[1].node_name == placement.node:
                    return
                raise BindFailed("the pod was bound to another node", bound=True)
            try:
                self._check(placement)
                await self._ports.binder.bind(placement.pod, placement.node)
            except BindFailed as again:
                if again.gone:
                    raise
                failed = again if again.bound else BindFailed(again.reason, unknown=True)
            else:
                return
        raise failed

    def _failed(self, queued: QueuedPod, placement: Placement, decided: DecisionSummary, failed: BindFailed) -> None:
        self.undo(queued, placement)
        if failed.gone:
            self._failures.deleted(queued, failed, decided)
        else:
            self._failures.error(queued, failed, decided)
        self._lost(queued, failed.reason)

    async def _bound(self, queued: QueuedPod, placement: Placement, decided: DecisionSummary) -> None:
        pod = placement.pod
        self.claims.bound(pod)
        self.volumes.release(pod)
        self._queue.done(queued)
        self._writes.forget(pod.uid)
        self._ports.events.record(pod, status.assigned(pod, placement.node))
        self._ports.emit(attempt_ended(queued, "scheduled", self._ports.clock.monotonic(), decided))
        for plugin in queued.profile.post_binds:
            try:
                await plugin.post_bind(placement)
            except Exception as error:  # noqa: BLE001 — the pod is bound, whatever a plugin raises
                self._ports.emit(Failed(f"{plugin.name} after binding {pod.key}", error))
