"""The ports of the scheduler: what its parts share, and ports of a run that writes nothing (`wharf run --dry-run`).

In a dry run everything is decided and reported, and nothing is sent to the API server. Decisions build on each other, so what would have
been written counts as done. A pod that would be bound stays assumed on its node, where later decisions count it, until it is deleted or
another scheduler binds it. A victim that would be evicted counts as gone, and a claim that would get a volume counts as bound: the watch
says otherwise, so `DryRunSink` stands between it and the scheduler. A volume that would still have to be provisioned counts as usable from
every node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wharfinger.framework.ports import (
    AlwaysLeader,
    Attempt,
    Binder,
    Clock,
    ClusterSink,
    Condition,
    Event,
    EventSink,
    Leadership,
    Observer,
    PodWriter,
    SilentObserver,
    VolumeWriter,
    stepped,
)
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

if TYPE_CHECKING:
    from wharfinger.framework.decision import Decision
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.scheduler.queued_pods import QueuedPod


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ways out of the scheduler; without `volumes`, pods whose claims are bound with them are not placed."""

    binder: Binder
    writer: PodWriter
    events: EventSink
    clock: Clock
    leadership: Leadership = field(default_factory=AlwaysLeader)
    observer: Observer = field(default_factory=SilentObserver)
    volumes: VolumeWriter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """The state of the cluster and the ports."""

    state: ClusterState
    ports: Ports

    def snapshot(self) -> Snapshot:
        """The cluster as it is, at the present second: a finer time would make every decision a new one for rules that read it."""
        return self.state.snapshot(float(int(self.ports.clock.now())))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSummary:
    """What is told of a decision after the details have gone."""

    node: str | None
    message: str
    feasible: int
    n_nodes: int
    snapshot_revision: int
    policy_revision: str
    plugins: tuple[str, ...] = ()

    @classmethod
    def of(cls, decision: Decision, plugins: tuple[str, ...] = ()) -> DecisionSummary:
        """The gist of a decision; `plugins` are those that rejected nodes."""
        return cls(
            node=decision.node,
            message=decision.message,
            feasible=decision.feasible,
            n_nodes=decision.n_nodes,
            snapshot_revision=decision.snapshot_revision,
            policy_revision=decision.policy_revision,
            plugins=plugins,
        )


NOT_DECIDED = DecisionSummary(node=None, message="", feasible=0, n_nodes=0, snapshot_revision=0, policy_revision="")


def finished_attempt(queued: QueuedPod, result: str, ended: float, decided: DecisionSummary = NOT_DECIDED, message: str = "") -> Attempt:
    """The attempt that has just ended, for the observer."""
    return Attempt(
        pod=queued.pod,
        profile=queued.profile.name,
        result=result,
        attempts=queued.attempts,
        first_seen=queued.first_seen,
        started=queued.started,
        ended=ended,
        flushed=queued.flushed,
        node=decided.node,
        message=message or decided.message,
        snapshot_revision=decided.snapshot_revision,
        policy_revision=decided.policy_revision,
        feasible=decided.feasible,
        n_nodes=decided.n_nodes,
        plugins=decided.plugins,
        stages=dict(queued.stages),
    )


_CLAIM, _VOLUME = "PersistentVolumeClaim", "PersistentVolume"


class DryRunSink:
    """A `ClusterSink` that hands on what it is told, except where it is supposed to have changed. `sink` is the scheduler's."""

    def __init__(self) -> None:
        self._sink: ClusterSink | None = None
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

    def connect(self, sink: ClusterSink) -> None:
        """Pass events on to the scheduler's sink; called once, before the first event."""
        self._sink = sink

    @property
    def _scheduler(self) -> ClusterSink:
        if self._sink is None:
            raise RuntimeError("no scheduler is connected")
        return self._sink


class DryRunBinder:
    """A `Binder` that binds nothing: the scheduler goes on as if it had, and its observer tells of the attempt."""

    async def bind(self, pod: PodView, node: str) -> None:
        """None."""


class DryRunWriter:
    """A `PodWriter` and `VolumeWriter` that writes nothing, and supposes that it had."""

    def __init__(self, supposed: DryRunSink) -> None:
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
