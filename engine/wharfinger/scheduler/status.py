"""Writes conditions, nominations and events of pods and groups, in kube-scheduler's words.

The next decision does not wait until the API server has stored that a pod is unschedulable. Each pod has at most one write under way and
one waiting, the newest; a write that would change nothing is not sent. A pod about to be bound first waits for the write under way, so that
an old "Unschedulable" never comes after the binding. The texts are those of pkg/scheduler/schedule_one.go and framework/preemption,
Kubernetes 1.36.

Of each group too one condition is under way and the newest waits. Bindings go first, as the API server is at most as fast as both: while
some are in flight, one condition of a group is written at a time, and more when they are late. A group without a PodGroup (of a policy, or
of labels alone) has no status; its members have theirs.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, field

from wharfinger.emit import Emit, Failed
from wharfinger.event_loop import writers_behind_bindings
from wharfinger.framework.ports import (
    NORMAL,
    WARNING,
    BindFailed,
    Condition,
    Event,
    Leadership,
    PodWriter,
    Reference,
    WriteFailed,
    condition_message,
)
from wharfinger.groups import results
from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.scheduler.events import NOT_DECIDED, DecisionSummary, attempt_ended
from wharfinger.scheduler.ports import LiveCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping

    from wharfinger.errors import PluginFault
    from wharfinger.framework.extension import Plugin
    from wharfinger.groups.terms import Group
    from wharfinger.scheduler.queue.scheduling_queue import SchedulingQueue
    from wharfinger.scheduler.queued_pods import QueuedPod

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
RECENT = 300.0
"""Seconds after a binding in which a new leader writes the event of the pod again."""
_MAX_REMEMBERED = 4096
"""Groups whose last written condition is remembered until the watch shows it."""


Item = TypeVar("Item")


class NewestWrites(Generic[Item]):
    """Writes what `waiting` has: one write for a key at a time, and for `most()` keys at a time; `write` reports its own failures."""

    def __init__(self, write: Callable[[str, Item], Coroutine[Any, Any, None]], limit: Callable[[], int]) -> None:
        self._write = write
        self._limit = limit
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self.waiting: dict[str, Item] = {}

    def __len__(self) -> int:
        return len(self.waiting) + len(self._under_way)

    def start(self) -> None:
        """Begin as many of the waiting writes as may be under way."""
        while len(self._under_way) < self._limit():
            key = next((key for key in self.waiting if key not in self._under_way), None)
            if key is None:
                return
            task = self._under_way[key] = asyncio.ensure_future(self._write(key, self.waiting.pop(key)))
            task.add_done_callback(partial(self._ended, key))  # a task that is cancelled before it begins runs no `finally`

    async def finish(self, key: str) -> bool:
        """True if a write was under way for the key, which has ended now."""
        task = self._under_way.get(key)
        if task is not None:
            await asyncio.wait({task})
        return task is not None

    async def drain(self) -> None:
        """Wait until everything is written."""
        while self._under_way:
            await asyncio.wait(set(self._under_way.values()))

    def cancel(self) -> None:
        """Stop writing at once."""
        self.waiting.clear()
        for task in self._under_way.values():
            task.cancel()

    def _ended(self, key: str, _task: asyncio.Task[None]) -> None:
        del self._under_way[key]
        self.start()


class Write(Struct, frozen=True):
    """A condition and a nominated node to write into the status of a pod; None: as it is."""

    pod: PodView
    condition: Condition | None
    nominated_node: str | None


class StatusWrites:
    """Writes the statuses of pods, at most `limit` at a time."""

    def __init__(self, writer: PodWriter, leadership: Leadership, emit: Emit, limit: int = 32) -> None:
        self._writer = writer
        self._leadership = leadership
        self._emit = emit
        self._writes: NewestWrites[Write] = NewestWrites(self._write, lambda: limit)
        self._written: dict[str, tuple[Condition | None, str]] = {}

    def __len__(self) -> int:
        return len(self._writes)

    def write(self, pod: PodView, condition: Condition | None, nominated_node: str | None = None) -> bool:
        """True if there was anything new to write: a condition (None: as it is) and a nominated node (None: as it is)."""
        written, nominated = self._written.get(pod.uid) or (_condition_of(pod), pod.nominated_node)
        wanted = condition or written, nominated if nominated_node is None else nominated_node
        if wanted == (written, nominated):
            return False
        self._written[pod.uid] = wanted
        before = self._writes.waiting.get(pod.uid)
        if before is not None:
            condition = condition or before.condition
            nominated_node = before.nominated_node if nominated_node is None else nominated_node
        self._writes.waiting[pod.uid] = Write(pod, condition, nominated_node)
        self._writes.start()
        return True

    def forget(self, uid: str) -> None:
        """Drop what waits for a pod that is bound or deleted; a write under way is not stopped."""
        self._writes.waiting.pop(uid, None)
        self._written.pop(uid, None)

    async def finish(self, uid: str) -> None:
        """Wait for the write under way for a pod; the write that waits is dropped."""
        dropped = self._writes.waiting.pop(uid, None) is not None
        if await self._writes.finish(uid) or dropped:
            self._written.pop(uid, None)

    async def drain(self) -> None:
        """Wait until everything is written."""
        await self._writes.drain()

    def cancel(self) -> None:
        """Stop writing at once."""
        self._writes.cancel()
        self._written.clear()

    async def _write(self, uid: str, write: Write) -> None:
        try:
            if self._leadership.is_leader:
                await self._writer.patch_status(write.pod, condition=write.condition, nominated_node=write.nominated_node)
                return
        except Exception as error:  # noqa: BLE001 — whatever a writer raises, the other statuses are written
            if not (isinstance(error, WriteFailed) and error.gone):
                self._emit(Failed(f"status of pod {write.pod.key}", error))
        self._written.pop(uid, None)  # so that the next attempt writes it again


def _condition_of(pod: PodView) -> Condition | None:
    """The `PodScheduled` condition that the pod has already; None if it has none."""
    for condition in pod.object.status.conditions:
        if condition.type == "PodScheduled":
            return Condition(type=condition.type, status=condition.status, reason=condition.reason, message=condition.message)
    return None


class FailureHandler:
    """Handles failed attempts: puts the pod back into the queue, writes its condition, records an event."""

    def __init__(self, cluster: LiveCluster, queue: SchedulingQueue, writes: StatusWrites) -> None:
        self._ports = cluster.ports
        self._queue = queue
        self._writes = writes

    def unschedulable(
        self, queued: QueuedPod, rejectors: frozenset[Plugin], decided: DecisionSummary, *, message: str = "", nominated: str | None = None
    ) -> None:
        """Queue the pod as unschedulable. `nominated`: the node to write into its status ("" for none, None as it is)."""
        self._queue.reject(queued, rejectors)
        message = message or decided.message
        self.report(queued, result="unschedulable", reason=UNSCHEDULABLE, decided=decided, message=message, nominated=nominated)

    def error(self, queued: QueuedPod, error: BaseException, decided: DecisionSummary = NOT_DECIDED) -> None:
        """Try the pod again after the error backoff."""
        self._ports.emit(Failed(f"pod {queued.pod.key}", error))
        self._queue.fail(queued)
        message = str(error) or type(error).__name__
        may_be_bound = isinstance(error, BindFailed) and (error.unknown or error.bound)
        self.report(queued, result="error", reason=SCHEDULER_ERROR, decided=decided, message=message, with_condition=not may_be_bound)

    def released(self, queued: QueuedPod, message: str, decided: DecisionSummary) -> None:
        """Try a pod again after the error backoff whose group could not be bound."""
        self._queue.fail(queued)
        self.report(queued, result="unschedulable", reason=UNSCHEDULABLE, decided=decided, message=message)

    def gate_failed(self, queued: QueuedPod, fault: PluginFault) -> None:
        """Report that a PreEnqueue plugin failed for the pod; the plugin is called again after the error backoff."""
        self._ports.emit(Failed(f"pod {queued.pod.key}", fault))
        if self._ports.leadership.is_leader:
            self._write(queued.pod, SCHEDULER_ERROR, str(fault), None)

    def deleted(self, queued: QueuedPod, error: BaseException, decided: DecisionSummary) -> None:
        """Report that the API server has no such pod. If the watch never shows its deletion, it is tried again after the error backoff."""
        self._ports.emit(Failed(f"pod {queued.pod.key}", error))
        self._queue.fail(queued)
        self._ports.emit(attempt_ended(queued, "error", self._ports.clock.monotonic(), decided, str(error)))

    def unreadable(self, pod: PodView, error: BaseException) -> None:
        """Write that a pod cannot be read. It is queued as soon as it can be read."""
        if self._ports.leadership.is_leader:
            self._write(pod, SCHEDULER_ERROR, f"the pod cannot be read: {error}", None)

    def _write(self, pod: PodView, reason: str, message: str, nominated: str | None) -> None:
        self._writes.write(pod, unscheduled(reason, message), nominated)
        self._ports.events.record(pod, failed_scheduling(message))

    def report(  # noqa: PLR0913 — the event, the condition and the log line have different parts
        self,
        queued: QueuedPod,
        *,
        result: str,
        reason: str,
        decided: DecisionSummary,
        message: str,
        nominated: str | None = None,
        with_condition: bool = True,
    ) -> None:
        """Write the condition of a pod that was not placed, record its event, and emit the attempt.

        A pod that may be bound gets no condition, which would contradict the binding and stay.
        """
        queued.message, queued.policies = message, decided.policies
        if queued.uid in self._queue:  # otherwise it was deleted meanwhile, or bound by another scheduler
            if with_condition:
                self._writes.write(queued.pod, unscheduled(reason, message), nominated)
            self._ports.events.record(queued.pod, failed_scheduling(message))
        self._ports.emit(attempt_ended(queued, result, self._ports.clock.monotonic(), decided, message))


class GroupWrite(Struct, frozen=True):
    """The conditions to write into the status of a PodGroup, by type; `since` is when the first of them was decided (monotonic)."""

    since: float
    conditions: dict[str, tuple[objects.PodGroup, Condition]] = field(default_factory=dict)


class GroupStatus:
    """Writes conditions and events of groups, for at most `limit` groups at a time. `binding`: pods are being bound."""

    def __init__(self, cluster: LiveCluster, limit: int = 16, *, binding: Callable[[], bool] = lambda: False) -> None:
        self._cluster = cluster
        self._ports = cluster.ports
        self._limit = limit
        self._binding = binding
        self._writes: NewestWrites[GroupWrite] = NewestWrites(self._write, self._parallel_writes)
        self._written: dict[tuple[str, str], Condition] = {}  # by uid of the PodGroup and type of condition

    def __len__(self) -> int:
        return len(self._writes)

    def scheduled(self, group: Group, nodes: Collection[str], domains: Mapping[str, str] | None = None) -> None:
        """Write that members are placed on these nodes, one entry for each member."""
        within = "".join(f", {key} {value}" for key, value in (domains or {}).items())
        note = f"Placed {count(len(nodes), 'pod')} on {count(len(set(nodes)), 'node')}{within}"
        self._write_and_record(group.key, results.scheduled(), Event(type=NORMAL, reason="Scheduled", action="Binding", note=note))

    def unschedulable(self, group: Group, why: str) -> str:
        """Write that the group is not placed now, and `why`; returns the whole message."""
        message = results.rejection(group, self._cluster.snapshot(), why)
        self._write_and_record(group.key, results.unschedulable(message), failed_scheduling(message))
        return message

    def waits_for_preemption(self, group: Group) -> str:
        """Write that victims are evicted for the group; returns the message."""
        message = f"{results.UNSCHEDULABLE}, {results.WAITS_FOR_PREEMPTION}"
        self._write_and_record(group.key, results.unschedulable(message), failed_scheduling(message))
        return message

    def incomplete(self, key: str, event: Event) -> None:
        """Record the event of a group that is not tried yet; it has no condition until then."""
        about = self.reference(key)
        if about is not None and self._ports.leadership.is_leader:
            self._ports.events.record_about(about, event)

    def failed(self, group: Group, error: BaseException) -> None:
        """Write that deciding about the group failed."""
        message = str(error) or type(error).__name__
        self._write_and_record(group.key, results.scheduler_error(message), failed_scheduling(message))

    def disrupted(self, group: Group, scheduler_name: str, preemptor: Reference) -> None:
        """Write that the group is evicted as a whole for a pod or another group."""
        kind = preemptor.kind.lower()
        note = f"Preempted by {kind} {preemptor.uid or preemptor.name}"
        event = Event(type=NORMAL, reason="Preempted", action="Preempting", note=note, related=preemptor, reporter=scheduler_name)
        self._write_and_record(group.key, results.disrupted(scheduler_name, kind), event)

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

    def preemptor(self, key: str) -> Reference:
        """The reference to a group for which pods are evicted: to its PodGroup, or by name alone if it has none."""
        namespace, _, name = key.partition("/")
        return self.reference(key) or Reference(kind="PodGroup", name=name, namespace=namespace)

    async def drain(self) -> None:
        """Wait until everything is written."""
        await self._writes.drain()

    def cancel(self) -> None:
        """Stop writing at once."""
        self._writes.cancel()
        self._written.clear()

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
        if results.keeps(group, condition):
            return
        if len(self._written) >= _MAX_REMEMBERED:
            self._written.clear()
        self._written[group.metadata.uid, condition.type] = condition
        waiting = self._writes.waiting
        if key not in waiting:
            waiting[key] = GroupWrite(self._ports.clock.monotonic())
        waiting[key].conditions[condition.type] = group, condition
        self._writes.start()

    def _podgroup(self, key: str) -> objects.PodGroup | None:
        namespace, _, name = key.partition("/")
        return self._cluster.state.objects.get(objects.PodGroup, name, namespace)

    def _parallel_writes(self) -> int:
        """The number of concurrent writes for groups: one while pods are bound, more the longer the oldest condition has waited."""
        oldest = next(iter(self._writes.waiting.values()), None)
        if oldest is None or not self._binding():
            return self._limit
        return writers_behind_bindings(self._ports.clock.monotonic() - oldest.since, self._limit, self._limit)

    async def _write(self, key: str, write: GroupWrite) -> None:
        for decided_for, condition in write.conditions.values():
            group, writer, uid = self._podgroup(key), self._ports.groups, decided_for.metadata.uid
            if group is None or writer is None or group.metadata.uid != uid:
                continue  # it was deleted, and maybe made again
            try:
                if self._ports.leadership.is_leader:
                    await writer.patch_condition(group, condition)
                    continue
            except Exception as error:  # noqa: BLE001 — whatever a writer raises, the other conditions are written
                if not (isinstance(error, WriteFailed) and error.gone):
                    self._ports.emit(Failed(f"status of PodGroup {key}", error))
            self._written.pop((uid, condition.type), None)  # so that it is written again


def unscheduled(reason: str, message: str) -> Condition:
    """The condition of a pod that was not placed."""
    return Condition(type="PodScheduled", status="False", reason=reason, message=condition_message(message))


def failed_scheduling(message: str) -> Event:
    """The event of a pod or group that was not placed."""
    return Event(type=WARNING, reason="FailedScheduling", action="Scheduling", note=message)


def assigned(pod: PodView, node: str) -> Event:
    """The event of a bound pod."""
    return Event(type=NORMAL, reason="Scheduled", action="Binding", note=f"Successfully assigned {pod.key} to {node}", once=True)


def bound_recently(pod: PodView, now: float) -> bool:
    """True if a pod was bound in the last `RECENT` seconds, as far as its status says.

    The kubelet writes the start of a pod soon after the binding. Before that, the creation of the pod counts.
    """
    created = pod.object.metadata.creation_timestamp
    since = pod.started if pod.started is not None or created is None else created.timestamp()
    return bool(pod.node_name) and since is not None and now - since <= RECENT


def waiting_for_devices(node: str) -> Event:
    """The event of a pod that is bound once drivers have prepared its devices."""
    note = f"waiting for binding conditions for device on node {node}"
    return Event(type=NORMAL, reason="BindingConditionsPending", action="Scheduling", note=note)


def disrupted(scheduler_name: str) -> Condition:
    """The condition of a pod that is evicted for another."""
    message = f"{scheduler_name}: preempting to accommodate a higher priority pod"
    return Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message=message)


def preempted(preemptor: Reference, node: str, scheduler_name: str) -> Event:
    """The event of a pod that is evicted for another, or for a group."""
    return Event(
        type=NORMAL,
        reason="Preempted",
        action="Preempting",
        note=f"Preempted by {preemptor.kind.lower()} {preemptor.uid or preemptor.name} on node {node}",
        related=preemptor,
        reporter=scheduler_name,
    )
