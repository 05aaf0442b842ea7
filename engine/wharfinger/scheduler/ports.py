"""The ports of the scheduler: what its parts share, and ports of a run that writes nothing (`wharf run --dry-run`).

In a dry run everything is decided and reported, and nothing is sent to the API server. Decisions build on each other, so what would have
been written counts as done. A pod that would be bound stays assumed on its node, where later decisions count it, until it is deleted or
another scheduler binds it. A victim that would be evicted counts as deleted, and a claim that would get a volume counts as bound. The watch
does not show this, so `DryRunSink` is between the watch and the scheduler. A volume that would still have to be provisioned counts as
usable from every node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from wharfinger.emit import Emit, ignore
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.ports import (
    AlwaysLeader,
    Binder,
    Clock,
    ClusterSink,
    Condition,
    DeviceClaimWriter,
    Event,
    EventSink,
    Leadership,
    PodGroupWriter,
    PodWriter,
    Reference,
    VolumeWriter,
    stepped,
)
from wharfinger.model import objects
from wharfinger.model.devices.allocated import with_allocation, with_reservation
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

if TYPE_CHECKING:
    from wharfinger.framework.plugin_calls import Stopwatch
    from wharfinger.model.state.snapshot import Snapshot


StopwatchOf = Callable[[str], "Stopwatch | None"]
"""The stopwatch of the decisions of a profile; None if they are not measured."""


def not_measured(_profile: str) -> None:
    """Return no stopwatch: decisions are not measured."""


class Ports(Struct, frozen=True, kw_only=True):
    """The interfaces that the scheduler calls.

    Without `volumes`, pods whose claims are bound with them are not placed, and without `claims` those that need devices.
    Without `groups`, PodGroups get no conditions.
    """

    binder: Binder
    writer: PodWriter
    events: EventSink
    clock: Clock
    leadership: Leadership = field(default_factory=AlwaysLeader)
    emit: Emit = ignore
    stopwatch: StopwatchOf = not_measured
    volumes: VolumeWriter | None = None
    claims: DeviceClaimWriter | None = None
    groups: PodGroupWriter | None = None


class LiveCluster(Struct, kw_only=True):
    """The state of the cluster, and the ports. `held_time` is the time of snapshots while it stands still: present and monotonic."""

    state: ClusterState
    ports: Ports
    held_time: tuple[float, float] | None = None

    def snapshot(self) -> Snapshot:
        """The cluster at the present second: a finer time would make every decision a new one for rules that read the time."""
        return self.state.snapshot(*(self._time if self.held_time is None else self.held_time))

    def hold_time(self) -> None:
        """Let snapshots be of this moment until `release_time`."""
        self.held_time = self._time

    def release_time(self) -> None:
        """Let snapshots be of the time at which they are taken again."""
        self.held_time = None

    @property
    def _time(self) -> tuple[float, float]:
        clock = self.ports.clock
        return float(int(clock.now())), clock.monotonic()


_CLAIM, _VOLUME, _DEVICES = "PersistentVolumeClaim", "PersistentVolume", "ResourceClaim"


class DryRunSink:
    """A `ClusterSink` that passes events on to the scheduler's sink, with the writes of the dry run applied to them."""

    def __init__(self) -> None:
        self._sink: ClusterSink | None = None
        self._deleted: set[str] = set()  # uids of pods
        self._changed_to: dict[tuple[str, str], Any] = {}

    def upsert(self, kind: str, obj: Any) -> None:
        """Pass an object on, as the dry run has changed it; an evicted pod is left out."""
        if (shown := self._as_assumed(kind, obj)) is not None:
            self._scheduler.upsert(kind, shown)

    def delete(self, kind: str, obj: Any) -> None:
        """Pass a deletion on, and forget what the dry run has changed of the object."""
        self._deleted.discard(obj.metadata.uid)
        self._changed_to.pop((kind, objects.key_of(obj)), None)
        self._scheduler.delete(kind, obj)

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Pass a list on, with the volumes that the dry run has created."""
        self._scheduler.replace(kind, self._all_as_assumed(kind, objs))

    def replacing(self, kind: str, objs: Sequence[Any]) -> Iterator[None]:
        """The steps of `replace`."""
        yield from stepped(self._scheduler, kind, self._all_as_assumed(kind, objs))

    def _all_as_assumed(self, kind: str, objs: Sequence[Any]) -> list[Any]:
        listed = {objects.key_of(obj) for obj in objs}
        shown = [own for obj in objs if (own := self._as_assumed(kind, obj)) is not None]
        made = [obj for (own, key), obj in self._changed_to.items() if own == kind and kind in {_VOLUME, _DEVICES} and key not in listed]
        return [*shown, *made]

    def synced(self, kind: str) -> None:
        """Pass it on."""
        self._scheduler.synced(kind)

    def assume_deleted(self, pod: PodView) -> None:
        """Treat a pod as deleted from now on."""
        self._deleted.add(pod.uid)
        self._scheduler.delete("Pod", pod.object)

    def assume_changed(self, kind: str, obj: Any) -> None:
        """Treat an object as changed to this one from now on."""
        self._changed_to[kind, objects.key_of(obj)] = obj
        self._scheduler.upsert(kind, obj)

    def _as_assumed(self, kind: str, obj: Any) -> Any:
        if kind == "Pod" and obj.metadata.uid in self._deleted:
            return None
        changed = self._changed_to.get((kind, objects.key_of(obj)))
        return changed if changed is not None and changed.metadata.uid == obj.metadata.uid else obj

    def connect(self, sink: ClusterSink) -> None:
        """Pass events on to the scheduler's sink; called once, before the first event."""
        self._sink = sink

    @property
    def _scheduler(self) -> ClusterSink:
        if self._sink is None:
            raise RuntimeError("no scheduler is connected")
        return self._sink


class DryRunBinder:
    """A `Binder` that sends nothing; the scheduler continues as if the pod were bound, and emits the attempt."""

    async def bind(self, pod: PodView, node: str) -> None:
        """Send nothing."""


class DryRunWriter:
    """A `PodWriter` and `VolumeWriter` that sends nothing, and treats each write as done."""

    def __init__(self, sink: DryRunSink) -> None:
        self._sink = sink

    async def patch_status(self, pod: PodView, *, condition: Condition | None = None, nominated_node: str | None = None) -> None:
        """Send nothing."""

    async def disrupt(self, victim: PodView, condition: Condition) -> None:  # noqa: ARG002 — the condition is not written
        """Treat the victim as deleted."""
        self._sink.assume_deleted(victim)

    async def try_disrupt(self, victim: PodView, condition: Condition) -> None:
        """Send nothing."""

    async def annotate_claim(self, claim: objects.PersistentVolumeClaim, annotations: Mapping[str, str]) -> None:  # noqa: ARG002 — as above
        """Treat the claim as bound to a new volume."""
        metadata = objects.ObjectMeta(name=f"pvc-{claim.metadata.uid}")
        spec = objects.PersistentVolumeSpec(
            capacity=claim.spec.resources.requests,
            access_modes=claim.spec.access_modes,
            storage_class_name=claim.spec.storage_class_name or "",
        )
        await self.reserve_volume(objects.PersistentVolume(metadata=metadata, spec=spec), claim)

    async def reserve_volume(self, volume: objects.PersistentVolume, claim: objects.PersistentVolumeClaim) -> None:
        """Treat the two as bound to each other."""
        self._sink.assume_changed(_VOLUME, volume_claims.reserved(volume, claim))
        self._sink.assume_changed(_CLAIM, volume_claims.bound_to(claim, volume))


class DryRunClaimWriter:
    """A `DeviceClaimWriter` that sends nothing, and treats each write as done."""

    def __init__(self, sink: DryRunSink) -> None:
        self._sink = sink

    async def create(self, claim: objects.ResourceClaim) -> objects.ResourceClaim:
        """The claim with a new name and uid."""
        name = f"{claim.metadata.generate_name}{claim.metadata.owner_references[0].uid}"
        made = replace(claim, metadata=replace(claim.metadata, name=name, uid=name))
        self._sink.assume_changed(_DEVICES, made)
        return made

    async def reserve(self, claim: objects.ResourceClaim, pod: PodView, allocation: objects.Allocation | None) -> objects.ResourceClaim:
        """Treat the claim as allocated, and as reserved for the pod."""
        written = with_reservation(claim if allocation is None else with_allocation(claim, allocation), pod)
        self._sink.assume_changed(_DEVICES, written)
        return written

    async def unreserve(self, claim: objects.ResourceClaim, pod: PodView) -> None:
        """Treat the claim as not reserved for the pod."""
        left = tuple(each for each in claim.status.reserved_for if each.uid != pod.object.metadata.uid)
        self._sink.assume_changed(_DEVICES, replace(claim, status=replace(claim.status, reserved_for=left)))

    async def deallocate(self, claim: objects.ResourceClaim) -> None:
        """Treat the claim as not allocated."""
        self._sink.assume_changed(_DEVICES, replace(claim, status=objects.ResourceClaimStatus()))

    async def delete(self, claim: objects.ResourceClaim) -> None:
        """Treat the claim as deleted."""
        self._sink.delete(_DEVICES, claim)

    async def note_extended(
        self, pod: PodView, claim: objects.ResourceClaim, mappings: Sequence[objects.ContainerExtendedResourceRequest]
    ) -> None:
        """Send nothing."""


class NoEvents:
    """An `EventSink` that records nothing."""

    def record(self, regarding: PodView, event: Event) -> None:
        """Record nothing."""

    def record_about(self, about: Reference, event: Event) -> None:
        """Record nothing."""

    async def drain(self) -> None:
        """Return at once."""
