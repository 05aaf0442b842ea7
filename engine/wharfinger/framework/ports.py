"""Ports: what the running scheduler asks of the world, and what the world tells it.

The scheduler's loop knows neither HTTP nor threads nor the clock of the machine; whoever connects it to an API server implements these,
and so does the in-memory cluster that tests run on. Everything happens on one event loop, so none of it needs a lock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from wharfinger.errors import InvalidObject
    from wharfinger.framework.stopwatch import Stopwatch
    from wharfinger.model.objects import PersistentVolume, PersistentVolumeClaim, Pod
    from wharfinger.model.objects.pod_view import PodView

NORMAL = "Normal"
WARNING = "Warning"


class ClusterSink(Protocol):
    """Told what changes in the cluster. `kind` is the Kubernetes kind (`Pod`, `Node`, …), objects are the structs of `model.objects`."""

    def upsert(self, kind: str, obj: Any) -> None:
        """None; the object was added or has changed. Repeats are harmless."""

    def delete(self, kind: str, obj: Any) -> None:
        """None; the object is gone. `obj` is its last known state; of one that was never known, nothing happens."""

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """None; these are all the objects of the kind that there are: after a list, whatever is known and not among them is gone."""

    def synced(self, kind: str) -> None:
        """None; everything that existed when watching of the kind began has been told."""


@runtime_checkable
class UnreadableSink(Protocol):
    """A sink that is told of objects that cannot be read, too; for others they are not there."""

    def unreadable(self, kind: str, obj: Any, error: InvalidObject, *, listed: bool) -> None:
        """None; there is such an object, and what is known of it stands.

        `obj` has nothing but its identity, of a pod also schedulerName and nodeName. With `listed` it is part of the list that `replace`
        tells next.
        """


@runtime_checkable
class SteppedSink(Protocol):
    """A sink that takes over a long list in steps of some milliseconds, so that others have their turn between them."""

    def replacing(self, kind: str, objs: Sequence[Any]) -> Iterator[None]:
        """The steps that do together what `replace` does; nothing else is told of the kind before the last one."""


class ClusterSource(Protocol):
    """Watches the cluster."""

    async def run(self, sink: ClusterSink) -> None:
        """None, when cancelled: tells the sink everything there is and then everything that changes, whatever breaks in between."""


def stepped(sink: ClusterSink, kind: str, objs: Sequence[Any]) -> Iterator[None]:
    """The steps in which a sink takes over a list; one where it has no steps of its own."""
    if isinstance(sink, SteppedSink):
        yield from sink.replacing(kind, objs)
    else:
        sink.replace(kind, objs)
        yield


class BindFailed(Exception):
    """A binding that was not written.

    `retriable`: trying again later may succeed. `gone`: the pod is no longer there, or no longer the same one. `bound`: somebody else has
    bound it. `unknown`: no answer came, so it may have been written; what the watch says next is the truth.
    """

    def __init__(self, reason: str, *, retriable: bool = True, gone: bool = False, bound: bool = False, unknown: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retriable = retriable
        self.gone = gone
        self.bound = bound
        self.unknown = unknown


class WriteFailed(Exception):
    """A status, object or deletion that was not written; `gone`: what it was about is no longer there."""

    def __init__(self, reason: str, *, retriable: bool = True, gone: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retriable = retriable
        self.gone = gone


class Binder(Protocol):
    """Writes bindings."""

    async def bind(self, pod: PodView, node: str) -> None:
        """None, once the pod with this very uid is bound to the node; `BindFailed` otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of a pod's status; the writer adds the times of probe and transition."""

    type: str
    status: str
    reason: str
    message: str


class PodWriter(Protocol):
    """Writes what the scheduler says about pods. Everything may raise `WriteFailed`."""

    async def patch_status(self, pod: PodView, *, condition: Condition | None = None, nominated_node: str | None = None) -> None:
        """None, once the condition is set and the nominated node is written ("" takes it away, None leaves it as it is)."""

    async def disrupt(self, victim: PodView, condition: Condition) -> None:
        """None, once the victim has the condition and is deleted under the precondition of its uid; one that is gone already is fine."""


class VolumeWriter(Protocol):
    """Writes what binding volumes needs before the pod that uses them is bound. Everything may raise `WriteFailed`."""

    async def annotate_claim(self, claim: PersistentVolumeClaim, annotations: Mapping[str, str]) -> None:
        """None, once the claim has the annotations; only if it is still the one of that uid."""

    async def reserve_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """None, once `spec.claimRef` of the volume names the claim and its uid; only if the volume's resourceVersion is still the same.

        The volume is annotated with `pv.kubernetes.io/bound-by-controller: yes` too, so that it is released when the claim goes away.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The object that an event is about, or related to."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What an event says, in full: whoever writes it cuts the note. `reporter`: the profile; "" for the pod's own."""

    type: str
    reason: str
    action: str
    note: str
    related: Reference | None = None
    reporter: str = ""


class EventSink(Protocol):
    """Writes events of `events.k8s.io/v1`, behind everything else."""

    def record(self, regarding: PodView, event: Event) -> None:
        """None, at once: written when there is time, dropped when there is too much."""

    async def drain(self) -> None:
        """None, when everything recorded has been written or dropped."""


class Clock(Protocol):
    """The time."""

    def now(self) -> float:
        """Seconds since 1970; may jump."""

    def monotonic(self) -> float:
        """Seconds since any fixed moment; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """None, after so many seconds; 0 lets everything else run that can."""


class Leadership(Protocol):
    """Whether this process may act. One that is never contested is always leader."""

    @property
    def is_leader(self) -> bool:
        """Whether the lease is held and has not run out; asked right before every write."""

    async def run(self, on_started: Callable[[], Awaitable[None] | None], on_stopped: Callable[[], Awaitable[None] | None]) -> None:
        """None, when leadership was lost or the caller cancels; each callback is called at the moment of the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One pod tried once: what came of it and how long it took, in seconds.

    `result` is `scheduled`, `unschedulable` or `error`, as in `scheduler_schedule_attempts_total`. `stages` has the seconds of the stages
    that ran: `queue` (waiting, since the pod became ready), `decide`, `reserve`, `permit`, `pre_bind`, `bind`. Monotonic times:
    `first_seen` when the pod first entered the queue (a gated one when its gates were gone), `started` when it left it for this attempt,
    `ended` at the end. `flushed`: the pod was tried without a reason, only because it had waited for so long.
    """

    pod: PodView
    profile: str
    result: str
    attempts: int
    first_seen: float
    started: float
    ended: float
    flushed: bool = False
    node: str | None = None
    message: str = ""
    snapshot_revision: int = 0
    policy_revision: str = ""
    feasible: int = 0
    n_nodes: int = 0
    plugins: tuple[str, ...] = ()
    stages: Mapping[str, float] = field(default_factory=dict)


class Observer(Protocol):
    """Told what the scheduler does, for metrics and logs. Must be quick and must not fail."""

    def attempted(self, attempt: Attempt) -> None:
        """None; an attempt has ended."""

    def queued(self, queue: str, event: str) -> None:
        """None; a pod entered `active`, `backoff` or `unschedulable` because of an event (`PodAdd`, `NodeUpdate`, …)."""

    def preempted(self, preemptor: PodView, node: str, victims: int) -> None:
        """None; a node was nominated, and so many pods have to leave it."""

    def flushed(self, pods: int) -> None:
        """None; so many pods were tried again only because they had waited too long: an event that could help them was missed."""

    def failed(self, where: str, error: BaseException) -> None:
        """None; something went wrong that the scheduler goes on without: a write, a plugin, an object that cannot be read."""

    def stopwatch(self, profile: str) -> Stopwatch | None:
        """What measures the decisions of a profile; None if nobody does."""


class SilentObserver:
    """An observer that makes nothing of it."""

    def attempted(self, attempt: Attempt) -> None:
        """None."""

    def queued(self, queue: str, event: str) -> None:
        """None."""

    def preempted(self, preemptor: PodView, node: str, victims: int) -> None:
        """None."""

    def flushed(self, pods: int) -> None:
        """None."""

    def failed(self, where: str, error: BaseException) -> None:
        """None."""

    def stopwatch(self, profile: str) -> Stopwatch | None:  # noqa: ARG002 — of no profile
        """None."""
        return None


class AlwaysLeader:
    """The leadership of a process that has no rivals."""

    is_leader = True

    async def run(self, on_started: Callable[[], Awaitable[None] | None], on_stopped: Callable[[], Awaitable[None] | None]) -> None:  # noqa: ARG002 — it is never lost
        """None, after `on_started` has been called and awaited."""
        started = on_started()
        if started is not None:
            await started


def pod_reference(pod: PodView) -> Reference:
    """The reference to a pod."""
    obj: Pod = pod.object
    return Reference(kind="Pod", name=pod.name, namespace=pod.namespace, uid=obj.metadata.uid)
