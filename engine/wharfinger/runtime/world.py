"""What the parts of the running scheduler share: its picture of the cluster, and the ports to the real one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wharfinger.framework.ports import (
    AlwaysLeader,
    Attempt,
    Binder,
    Clock,
    EventSink,
    Leadership,
    Observer,
    PodWriter,
    SilentObserver,
    VolumeWriter,
)
from wharfinger.model.cluster_state import ClusterState

if TYPE_CHECKING:
    from wharfinger.framework.decision import Decision
    from wharfinger.model.snapshot import Snapshot
    from wharfinger.runtime.queued_pod import QueuedPod


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
class World:
    """The state of the cluster and the ports."""

    state: ClusterState
    ports: Ports

    def snapshot(self) -> Snapshot:
        """The cluster as it is, at the present second: a finer time would make every decision a new one for rules that read it."""
        return self.state.snapshot(float(int(self.ports.clock.now())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What is told of a decision after the details have gone."""

    node: str | None
    message: str
    feasible: int
    n_nodes: int
    snapshot_revision: int
    policy_revision: str
    plugins: tuple[str, ...] = ()

    @classmethod
    def of(cls, decision: Decision, plugins: tuple[str, ...] = ()) -> Decided:
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


NOT_DECIDED = Decided(node=None, message="", feasible=0, n_nodes=0, snapshot_revision=0, policy_revision="")


def attempt(queued: QueuedPod, result: str, ended: float, decided: Decided = NOT_DECIDED, message: str = "") -> Attempt:
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
