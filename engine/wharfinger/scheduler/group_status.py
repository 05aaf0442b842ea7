"""What is written about groups: conditions of PodGroups of Kubernetes, and events about every PodGroup.

A decision does not wait for its condition to be written. Of each group one condition is under way and the newest waits. Bindings go first,
as the API server is at most as fast as both: while some are in flight, one condition is written at a time, and more when they are late. A
group without a PodGroup (of a policy, or of labels alone) has no status; its members have theirs.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from wharfinger.emit import Failed
from wharfinger.event_loop import writers_behind_bindings
from wharfinger.framework.ports import NORMAL, WARNING, Condition, Event, Reference, WriteFailed
from wharfinger.groups import conditions
from wharfinger.language.report.wording import count
from wharfinger.model import objects

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from wharfinger.groups.terms import Group
    from wharfinger.scheduler.ports import LiveCluster

WRITE_DELAY = 2.0
"""Seconds after which conditions are written with all writers although pods are being bound."""
_REMEMBERED = 4096
"""Groups whose last written condition is remembered until the watch shows it."""


class GroupStatus:
    """Writes conditions and events of groups, for at most `most` groups at a time. `binding`: pods are being bound."""

    def __init__(self, cluster: LiveCluster, most: int = 16, *, binding: Callable[[], bool] = lambda: False) -> None:
        self._cluster = cluster
        self._ports = cluster.ports
        self._most = most
        self._binding = binding
        self._waiting: dict[str, dict[str, tuple[objects.PodGroup, Condition]]] = {}  # by group, then by type of condition
        self._since: dict[str, float] = {}  # when the first of them was decided, monotonic
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._written: dict[tuple[str, str], Condition] = {}  # by uid of the PodGroup and type of condition

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def scheduled(self, group: Group, nodes: Collection[str], domains: Mapping[str, str] | None = None) -> None:
        """Write that members are placed on these nodes, one entry for each member."""
        within = "".join(f", {key} {value}" for key, value in (domains or {}).items())
        note = f"Placed {count(len(nodes), 'pod')} on {count(len(set(nodes)), 'node')}{within}"
        self._write_and_record(group.key, conditions.scheduled(), Event(type=NORMAL, reason="Scheduled", action="Binding", note=note))

    def unschedulable(self, group: Group, why: str) -> str:
        """Write that the group is not placed now, and `why`; returns the whole message."""
        message = conditions.rejection(group, self._cluster.snapshot(), why)
        self._write_and_record(group.key, conditions.unschedulable(message), _failed(message))
        return message

    def waits_for_preemption(self, group: Group) -> str:
        """Write that victims are evicted for the group; returns the message."""
        message = f"{conditions.UNSCHEDULABLE}, {conditions.WAITS_FOR_PREEMPTION}"
        self._write_and_record(group.key, conditions.unschedulable(message), _failed(message))
        return message

    def failed(self, group: Group, error: BaseException) -> None:
        """Write that deciding about the group failed."""
        message = str(error) or type(error).__name__
        self._write_and_record(group.key, conditions.scheduler_error(message), _failed(message))

    def disrupted(self, group: Group, scheduler_name: str, preemptor: Reference) -> None:
        """Write that the group is evicted as a whole for a pod or another group."""
        kind = preemptor.kind.lower()
        note = f"Preempted by {kind} {preemptor.uid or preemptor.name}"
        event = Event(type=NORMAL, reason="Preempted", action="Preempting", note=note, related=preemptor, reporter=scheduler_name)
        self._write_and_record(group.key, conditions.disrupted(scheduler_name, kind), event)

    def reference(self, key: str) -> Reference | None:
        """The reference to the PodGroup of a group; None if it has none."""
        namespace, _, name = key.partition("/")
        writer, store = self._ports.groups, self._cluster.state.objects
        group = store.get(objects.PodGroup, name, namespace)
        if group is not None:
            version = writer.api_version if writer is not None else "scheduling.k8s.io/v1alpha2"
            return Reference(kind="PodGroup", name=name, namespace=namespace, uid=group.metadata.uid, api_version=version)
        older = store.get(objects.CoschedulingPodGroup, name, namespace)
        if older is not None:
            version = "scheduling.x-k8s.io/v1alpha1"
            return Reference(kind="PodGroup", name=name, namespace=namespace, uid=older.metadata.uid, api_version=version)
        return None

    async def drain(self) -> None:
        """Wait until everything is written."""
        while self._under_way:
            await asyncio.wait(set(self._under_way.values()))

    def cancel(self) -> None:
        """Stop writing at once."""
        self._waiting.clear()
        self._since.clear()
        self._written.clear()
        for task in self._under_way.values():
            task.cancel()

    def _write_and_record(self, key: str, condition: Condition, event: Event) -> None:
        about = self.reference(key)
        if about is None or not self._ports.leadership.is_leader:
            return
        self._ports.events.record_about(about, event)
        group = self._podgroup(key)
        if group is None or self._ports.groups is None:
            return
        last = self._written.get((group.metadata.uid, condition.type))
        if last == condition or (last is not None and last.status == "True" and condition.status != "True"):
            return
        if conditions.keeps(group, condition):
            return
        if len(self._written) >= _REMEMBERED:
            self._written.clear()
        self._written[group.metadata.uid, condition.type] = condition
        self._waiting.setdefault(key, {})[condition.type] = group, condition
        self._since.setdefault(key, self._ports.clock.monotonic())
        self._start()

    def _podgroup(self, key: str) -> objects.PodGroup | None:
        namespace, _, name = key.partition("/")
        return self._cluster.state.objects.get(objects.PodGroup, name, namespace)

    def _start(self) -> None:
        while len(self._under_way) < self._wanted():
            key = next((key for key in self._waiting if key not in self._under_way), None)
            if key is None:
                return
            del self._since[key]
            task = self._under_way[key] = asyncio.ensure_future(self._write(key, list(self._waiting.pop(key).values())))
            task.add_done_callback(partial(self._ended, key))  # a task that is cancelled before it begins runs no `finally`

    def _wanted(self) -> int:
        """For how many groups to write at a time: one while pods are bound, more in proportion to the wait of the oldest condition."""
        if not self._binding() or not self._since:
            return self._most
        waited = self._ports.clock.monotonic() - next(iter(self._since.values()))
        return writers_behind_bindings(waited, WRITE_DELAY, self._most, self._most)

    async def _write(self, key: str, wanted: Sequence[tuple[objects.PodGroup, Condition]]) -> None:
        for decided_for, condition in wanted:
            group, writer, uid = self._podgroup(key), self._ports.groups, decided_for.metadata.uid
            if group is None or writer is None or group.metadata.uid != uid:
                continue  # it was deleted, and maybe made again
            try:
                if self._ports.leadership.is_leader:
                    await writer.patch_condition(group, condition)
                    continue
            except WriteFailed as error:
                if not error.gone:
                    self._ports.emit(Failed(f"status of PodGroup {key}", error))
            self._written.pop((uid, condition.type), None)  # so that it is written again

    def _ended(self, key: str, _task: asyncio.Task[None]) -> None:
        del self._under_way[key]
        self._start()


def _failed(message: str) -> Event:
    return Event(type=WARNING, reason="FailedScheduling", action="Scheduling", note=message)
