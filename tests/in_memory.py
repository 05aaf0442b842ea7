"""A cluster in memory: every port of the scheduler, without an API server.

It behaves like an API server for the scheduler: bindings are refused for pods that are deleted, replaced or already bound; deletions under
a precondition of the uid; every change is sent to all watchers.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from wharfinger.framework.ports import BindFailed, ClusterSink, Condition, Event, Reference, WriteFailed
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView


class ManualClock:
    """A `Clock` that is stopped until it is moved."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._naps = 0

    def now(self) -> float:
        """Seconds since 1970."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has been moved so far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._naps += 1
        heapq.heappush(self._sleepers, (self._elapsed + seconds, self._naps, waker))
        await waker

    def jump(self, seconds: float) -> None:
        """Move the time of day alone, as when the clock is set."""
        self._now += seconds

    def move(self, seconds: float) -> None:
        """Let time pass; tasks that sleep that long wake up when next the event loop runs."""
        self._now += seconds
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            _, _, waker = heapq.heappop(self._sleepers)
            if not waker.done():
                waker.set_result(None)


class InMemoryCluster:
    """`Binder`, `PodWriter`, `EventSink` and source of a cluster that exists only here.

    `before_bind` is called with the pod and the node of each bind and may raise `BindFailed`, before or (`after_bind`) after it is written.
    `before_disrupt` is called with the pod of each eviction, and with True for one without effect, and may raise `WriteFailed`.
    While `lagging`, changes are not sent until `catch_up`. `graceful` pods stay, marked as deleted, until they are removed.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []
        self.bindings: list[tuple[str, str]] = []
        self.n_patches = 0
        self.lagging = False
        self.graceful = False
        self.before_bind: Callable[[PodView, str], None] = _all_is_well
        self.after_bind: Callable[[PodView, str], None] = _all_is_well
        self.before_disrupt: Callable[[PodView, bool], None] = _nothing_is_refused
        self._objects: dict[str, dict[str, Any]] = {"Pod": {}, "Node": {}}
        self._sinks: list[ClusterSink] = []
        self._held_back: deque[Callable[[ClusterSink], None]] = deque()
        self._version = 0

    # ── objects ──

    def connect(self, sink: ClusterSink) -> None:
        """Send a sink all objects, and from now on all changes."""
        for kind, members in self._objects.items():
            sink.replace(kind, list(members.values()))
            sink.synced(kind)
        self._sinks.append(sink)

    def put(self, obj: Any) -> None:
        """Add an object, or change it."""
        self._version += 1
        kind, key = objects.kind_of(obj), objects.key_of(obj)
        kept = replace(obj, metadata=replace(obj.metadata, resource_version=str(self._version)))
        self._objects.setdefault(kind, {})[key] = kept
        self._tell(lambda sink: sink.upsert(kind, kept))

    def remove(self, kind: str, key: str) -> None:
        """Delete an object by kind and `namespace/name` or name."""
        gone = self._objects[kind].pop(key)
        self._tell(lambda sink: sink.delete(kind, gone))

    def pod(self, key: str) -> objects.Pod:
        """The pod of that `namespace/name`."""
        found: objects.Pod = self._objects["Pod"][key]
        return found

    def pods(self) -> list[objects.Pod]:
        """All pods, sorted by key."""
        return [pod for _, pod in sorted(self._objects["Pod"].items())]

    def nodes_of_pods(self) -> dict[str, str]:
        """Pod → node for every pod that is bound."""
        return {objects.key_of(pod): pod.spec.node_name for pod in self.pods() if pod.spec.node_name}

    def catch_up(self) -> None:
        """Send the held events."""
        while self._held_back:
            change = self._held_back.popleft()
            for sink in self._sinks:
                change(sink)

    def _tell(self, change: Callable[[ClusterSink], None]) -> None:
        self._held_back.append(change)
        if not self.lagging:
            self.catch_up()

    # ── ports ──

    async def bind(self, pod: PodView, node: str) -> None:
        """Bind the pod."""
        await asyncio.sleep(0)
        self.before_bind(pod, node)
        there = self._objects["Pod"].get(pod.key)
        if there is None or PodView(there).uid != pod.uid:
            raise BindFailed(f'pods "{pod.name}" not found', retriable=False, gone=True)
        if there.spec.node_name:
            raise BindFailed(f'pod {pod.name} is already assigned to node "{there.spec.node_name}"', retriable=False, bound=True)
        self.bindings.append((pod.key, node))
        scheduled = objects.PodCondition(type="PodScheduled", status="True")
        status = replace(there.status, conditions=(scheduled,), nominated_node_name="")
        self.put(replace(there, spec=replace(there.spec, node_name=node), status=status))
        self.after_bind(pod, node)

    async def patch_status(self, pod: PodView, *, condition: Condition | None = None, nominated_node: str | None = None) -> None:
        """Change the status."""
        await asyncio.sleep(0)
        there = self._objects["Pod"].get(pod.key)
        if there is None or PodView(there).uid != pod.uid:
            raise WriteFailed(f'pods "{pod.name}" not found', retriable=False, gone=True)
        self.n_patches += 1
        status = there.status
        if condition is not None:
            status = _with_condition(status, condition)
        if nominated_node is not None:
            status = replace(status, nominated_node_name=nominated_node)
        self.put(replace(there, status=status))

    async def try_disrupt(self, victim: PodView, condition: Condition) -> None:
        """Change nothing."""
        await asyncio.sleep(0)
        self.before_disrupt(victim, True)

    async def disrupt(self, victim: PodView, condition: Condition) -> None:
        """Mark the victim as disrupted, and delete it."""
        self.before_disrupt(victim, False)
        await self.patch_status(victim, condition=condition)
        if not self.graceful:
            self.remove("Pod", victim.key)
            return
        there = self.pod(victim.key)
        self.put(replace(there, metadata=replace(there.metadata, deletion_timestamp=datetime.fromtimestamp(0, UTC))))

    async def annotate_claim(self, claim: objects.PersistentVolumeClaim, annotations: Mapping[str, str]) -> None:
        """Annotate the claim."""
        there: objects.PersistentVolumeClaim = self._objects["PersistentVolumeClaim"][objects.key_of(claim)]
        metadata = replace(there.metadata, annotations={**there.metadata.annotations, **annotations})
        self.put(replace(there, metadata=metadata))

    async def reserve_volume(self, volume: objects.PersistentVolume, claim: objects.PersistentVolumeClaim) -> None:
        """Reserve the volume for the claim; refused if the volume is not what it was."""
        there: objects.PersistentVolume = self._objects["PersistentVolume"][volume.metadata.name]
        if there.metadata.resource_version != volume.metadata.resource_version:
            raise WriteFailed(f"the object of volume {volume.metadata.name} has been modified")
        metadata = claim.metadata
        reference = objects.ObjectReference(
            kind="PersistentVolumeClaim", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
        )
        self.put(replace(there, spec=replace(there.spec, claim_ref=reference)))

    def record(self, regarding: PodView, event: Event) -> None:
        """Keep an event."""
        self.events.append((regarding.key, event))

    def record_about(self, about: Reference, event: Event) -> None:
        """Keep an event about any object, under `Kind namespace/name`."""
        self.events.append((f"{about.kind} {about.namespace}/{about.name}", event))

    api_version = "scheduling.k8s.io/v1alpha2"

    async def patch_condition(self, group: objects.PodGroup, condition: Condition) -> None:
        """Give the PodGroup the condition."""
        await asyncio.sleep(0)
        there: objects.PodGroup | None = self._objects.get("PodGroup", {}).get(objects.key_of(group))
        if there is None or there.metadata.uid != group.metadata.uid:
            raise WriteFailed(f'podgroups "{group.metadata.name}" not found', retriable=False, gone=True)
        self.n_patches += 1
        written = objects.ObjectCondition(type=condition.type, status=condition.status, reason=condition.reason, message=condition.message)
        others = tuple(old for old in there.status.conditions if old.type != condition.type)
        self.put(replace(there, status=replace(there.status, conditions=(*others, written))))

    async def drain(self) -> None:
        """Return at once: events are kept as they come."""


def _all_is_well(pod: PodView, node: str) -> None:
    """Every bind succeeds."""


def _nothing_is_refused(pod: PodView, dry_run: bool) -> None:
    """Every eviction succeeds."""


def _with_condition(status: objects.PodStatus, condition: Condition) -> objects.PodStatus:
    written = objects.PodCondition(type=condition.type, status=condition.status, reason=condition.reason, message=condition.message)
    others = tuple(old for old in status.conditions if old.type != condition.type)
    return replace(status, conditions=(*others, written))
