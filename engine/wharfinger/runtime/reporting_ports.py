"""Ports of a run that writes nothing: everything is decided and reported as ever, and the API server hears of none of it.

Decisions build on each other, so what would have been written is supposed to have happened. A pod that would be bound stays assumed on its
node, where later decisions count it, until it is deleted or somebody else binds it. A victim that would be evicted is gone, and a claim
that would get a volume has it: the watch says otherwise, so `Supposed` stands between it and the scheduler and puts this right. A volume
that would still have to be provisioned is taken to be usable from every node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from wharfinger.framework.ports import ClusterSink, Condition, Event, stepped
from wharfinger.model import objects
from wharfinger.model.pod import PodView

_CLAIM, _VOLUME = "PersistentVolumeClaim", "PersistentVolume"


class Supposed:
    """A `ClusterSink` that hands on what it is told, except where it is supposed to have changed. `sink` is the scheduler's."""

    def __init__(self) -> None:
        self.sink: ClusterSink | None = None
        self._gone: set[str] = set()  # uids of pods
        self._instead: dict[tuple[str, str], Any] = {}

    def upsert(self, kind: str, obj: Any) -> None:
        """None; told to the scheduler, unless the object is supposed to be gone."""
        if (shown := self._as_supposed(kind, obj)) is not None:
            self._scheduler.upsert(kind, shown)

    def delete(self, kind: str, obj: Any) -> None:
        """None; nothing more is supposed of the object."""
        self._gone.discard(obj.metadata.uid)
        self._instead.pop((kind, objects.key_of(obj)), None)
        self._scheduler.delete(kind, obj)

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """None; told to the scheduler, with what is supposed to be there and not told to anybody."""
        self._scheduler.replace(kind, self._all_as_supposed(kind, objs))

    def replacing(self, kind: str, objs: Sequence[Any]) -> Iterator[None]:
        """The steps of `replace`."""
        yield from stepped(self._scheduler, kind, self._all_as_supposed(kind, objs))

    def _all_as_supposed(self, kind: str, objs: Sequence[Any]) -> list[Any]:
        told = {objects.key_of(obj) for obj in objs}
        shown = [own for obj in objs if (own := self._as_supposed(kind, obj)) is not None]
        made = [obj for (own, key), obj in self._instead.items() if own == kind == _VOLUME and key not in told]
        return [*shown, *made]

    def synced(self, kind: str) -> None:
        """None; handed on."""
        self._scheduler.synced(kind)

    def suppose_gone(self, pod: PodView) -> None:
        """None; from now on there is no such pod."""
        self._gone.add(pod.uid)
        self._scheduler.delete("Pod", pod.object)

    def suppose(self, kind: str, obj: Any) -> None:
        """None; from now on the object is like this."""
        self._instead[kind, objects.key_of(obj)] = obj
        self._scheduler.upsert(kind, obj)

    def _as_supposed(self, kind: str, obj: Any) -> Any:
        if kind == "Pod" and obj.metadata.uid in self._gone:
            return None
        instead = self._instead.get((kind, objects.key_of(obj)))
        return instead if instead is not None and instead.metadata.uid == obj.metadata.uid else obj

    @property
    def _scheduler(self) -> ClusterSink:
        if self.sink is None:
            raise RuntimeError("nobody is to be told")
        return self.sink


class ReportingBinder:
    """A `Binder` that binds nothing: the scheduler goes on as if it had, and its observer tells of the attempt."""

    async def bind(self, pod: PodView, node: str) -> None:
        """None."""


class ReportingWriter:
    """A `PodWriter` and `VolumeWriter` that writes nothing, and supposes that it had."""

    def __init__(self, supposed: Supposed) -> None:
        self._supposed = supposed

    async def patch_status(self, pod: PodView, *, condition: Condition | None = None, nominated_node: str | None = None) -> None:
        """None."""

    async def disrupt(self, victim: PodView, condition: Condition) -> None:  # noqa: ARG002 — nobody will see the condition
        """None; the victim is supposed to be gone."""
        self._supposed.suppose_gone(victim)

    async def annotate_claim(self, claim: objects.PersistentVolumeClaim, annotations: Mapping[str, str]) -> None:  # noqa: ARG002 — likewise
        """None; the claim is supposed to have been given a new volume."""
        metadata = objects.ObjectMeta(name=f"pvc-{claim.metadata.uid}")
        spec = objects.PersistentVolumeSpec(
            capacity=claim.spec.resources.requests,
            access_modes=claim.spec.access_modes,
            storage_class_name=claim.spec.storage_class_name or "",
        )
        await self.reserve_volume(objects.PersistentVolume(metadata=metadata, spec=spec), claim)

    async def reserve_volume(self, volume: objects.PersistentVolume, claim: objects.PersistentVolumeClaim) -> None:
        """None; the two are supposed to be bound to each other."""
        owner = objects.ObjectReference(kind=_CLAIM, namespace=claim.metadata.namespace, name=claim.metadata.name, uid=claim.metadata.uid)
        self._supposed.suppose(_VOLUME, replace(volume, spec=replace(volume.spec, claim_ref=owner)))
        done = {**claim.metadata.annotations, "pv.kubernetes.io/bind-completed": "yes"}
        bound = replace(claim, metadata=replace(claim.metadata, annotations=done))
        self._supposed.suppose(_CLAIM, replace(bound, spec=replace(claim.spec, volume_name=volume.metadata.name)))


class NoEvents:
    """An `EventSink` that keeps nothing."""

    def record(self, regarding: PodView, event: Event) -> None:
        """None."""

    async def drain(self) -> None:
        """None."""
