"""Ports: the interfaces between the running scheduler and the world around it.

The scheduler's loop uses no HTTP, no threads and no system clock. The adapters to an API server implement these interfaces, and so does the
in-memory cluster of the tests. Everything runs on one event loop, so no locks are needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

if TYPE_CHECKING:
    from wharfinger.errors import InvalidObject
    from wharfinger.model.objects import (
        Allocation,
        ContainerExtendedResourceRequest,
        PersistentVolume,
        PersistentVolumeClaim,
        Pod,
        PodGroup,
        ResourceClaim,
    )
    from wharfinger.model.objects.pod_view import PodView

NORMAL = "Normal"
WARNING = "Warning"


class ClusterSink(Protocol):
    """Receiver of changes in the cluster. `kind` is the Kubernetes kind (`Pod`, `Node`, …), objects are the structs of `model.objects`."""

    def upsert(self, kind: str, obj: Any) -> None:
        """Apply an object that was added or changed. Idempotent."""

    def delete(self, kind: str, obj: Any) -> None:
        """Apply the deletion of an object. `obj` is its last known state; an unknown object is ignored."""

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Apply a list: these are all objects of the kind, and known ones that are not among them are deleted."""

    def synced(self, kind: str) -> None:
        """The first list of the kind has been applied."""


@runtime_checkable
class UnreadableSink(Protocol):
    """A sink that also receives objects that cannot be read; other sinks do not see them."""

    def unreadable(self, kind: str, obj: Any, error: InvalidObject, *, listed: bool) -> None:
        """Called for an object that cannot be read; its last readable state stays.

        `obj` has only its identity, and for a pod schedulerName and nodeName. With `listed` it belongs to the list of the next `replace`.
        """


@runtime_checkable
class SteppedSink(Protocol):
    """A sink that applies a long list in steps of some milliseconds, so that other tasks can run between the steps."""

    def replacing(self, kind: str, objs: Sequence[Any]) -> Iterator[None]:
        """Steps that together do the same as `replace`; no other change of the kind may be applied before the last step."""


@runtime_checkable
class ListingSink(Protocol):
    """A sink that applies a part of the first list of a kind while the rest is being read."""

    def listing(self, kind: str, objs: Sequence[Any]) -> None:
        """Apply those of the objects whose order does not matter. After the end of the list, `replace` gets all its objects."""


class ClusterSource(Protocol):
    """Watches the cluster."""

    async def run(self, sink: ClusterSink) -> None:
        """Give the sink all objects and then every change, across failures, until cancelled."""


def stepped(sink: ClusterSink, kind: str, objs: Sequence[Any]) -> Iterator[None]:
    """The steps in which a sink applies a list; one step for a sink without `replacing`."""
    if isinstance(sink, SteppedSink):
        yield from sink.replacing(kind, objs)
    else:
        sink.replace(kind, objs)
        yield


class BindFailed(Exception):
    """A binding that was not written.

    `retriable`: another attempt may succeed. `gone`: the pod no longer exists, or has another uid. `bound`: another client has bound it.
    `unknown`: there was no answer, so the binding may have been written; the next watch event about the pod is authoritative.
    """

    def __init__(self, reason: str, *, retriable: bool = True, gone: bool = False, bound: bool = False, unknown: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retriable = retriable
        self.gone = gone
        self.bound = bound
        self.unknown = unknown


class WriteFailed(Exception):
    """A status, object or deletion that was not written; `gone`: the object no longer exists.

    `declined`: the server has answered that it has not written it. Otherwise it may have done so, and its answer is lost.
    """

    def __init__(self, reason: str, *, retriable: bool = True, gone: bool = False, declined: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retriable = retriable
        self.gone = gone
        self.declined = declined


class Binder(Protocol):
    """Writes bindings."""

    async def bind(self, pod: PodView, node: str) -> None:
        """Bind the pod with this uid to the node; raise `BindFailed`."""


class Condition(Struct, frozen=True, kw_only=True):
    """A condition of a pod's status; the writer adds the times of probe and transition."""

    type: str
    status: str
    reason: str
    message: str


MAX_CONDITION_MESSAGE = 32_768
"""Characters that the message of a `metav1.Condition` may have."""


def condition_message(text: str) -> str:
    """The text as the message of a condition, cut to `MAX_CONDITION_MESSAGE`: the API server stores no longer one."""
    return text if len(text) <= MAX_CONDITION_MESSAGE else text[: MAX_CONDITION_MESSAGE - 4] + " ..."


class PodWriter(Protocol):
    """Writes the status of pods. Every method may raise `WriteFailed`."""

    async def patch_status(self, pod: PodView, *, condition: Condition | None = None, nominated_node: str | None = None) -> None:
        """Set the condition and the nominated node ("" removes it, None leaves it unchanged)."""

    async def disrupt(self, victim: PodView, condition: Condition) -> None:
        """Set the condition of the victim and delete it, with its uid as precondition; a victim that no longer exists is no error."""

    async def try_disrupt(self, victim: PodView, condition: Condition) -> None:
        """Raise `WriteFailed` if `disrupt` would be refused; change nothing."""


class VolumeWriter(Protocol):
    """Writes the volume bindings of a pod before the pod is bound. Every method may raise `WriteFailed`."""

    async def annotate_claim(self, claim: PersistentVolumeClaim, annotations: Mapping[str, str]) -> None:
        """Write the annotations of the claim; only if it still has that uid."""

    async def reserve_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Write the claim and its uid to `spec.claimRef` of the volume; only if the volume's resourceVersion is still the same.

        The volume is annotated with `pv.kubernetes.io/bound-by-controller: yes` too, so that it is released when the claim is deleted.
        """


class DeviceClaimWriter(Protocol):
    """Writes the claims for devices of a pod before the pod is bound. Every method may raise `WriteFailed`."""

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim for extended resources, and return it as it was created."""

    async def reserve(self, claim: ResourceClaim, pod: PodView, allocation: Allocation | None) -> ResourceClaim:
        """Write the allocation, unless it is None, and reserve the claim of this uid for the pod; return it as it was written.

        Fails if the claim is being deleted, or if others have allocated it, or taken its allocation away, in the meantime.
        """

    async def unreserve(self, claim: ResourceClaim, pod: PodView) -> None:
        """Take the reservation for the pod away; a claim that does not exist is no error. The controller of Kubernetes does the rest."""

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take the allocation and all reservations away, if the claim has not changed."""

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim for extended resources; one that does not exist is no error."""

    async def note_extended(self, pod: PodView, claim: ResourceClaim, mappings: Sequence[ContainerExtendedResourceRequest]) -> None:
        """Write to the status of the pod which requests of the claim serve its extended resources."""


class PodGroupWriter(Protocol):
    """Writes the status of PodGroups of Kubernetes."""

    @property
    def api_version(self) -> str:
        """The version of the API at which the server has PodGroups."""

    async def patch_condition(self, group: PodGroup, condition: Condition) -> None:
        """Set the condition of the PodGroup with this uid; raise `WriteFailed`."""


class Reference(Struct, frozen=True, kw_only=True):
    """The object that an event is about, or related to."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class Event(Struct, frozen=True, kw_only=True):
    """The content of an event; the writer cuts the note to the allowed length. `reporter`: the profile, "" for the pod's own.

    `once`: it happens to an object at most once. It may be recorded again, by another process too, and is written once.
    """

    type: str
    reason: str
    action: str
    note: str
    related: Reference | None = None
    reporter: str = ""
    once: bool = False


class EventSink(Protocol):
    """Writes events of `events.k8s.io/v1` with low priority."""

    def record(self, regarding: PodView, event: Event) -> None:
        """Queue the event and return at once; events beyond the capacity are dropped."""

    def record_about(self, about: Reference, event: Event) -> None:
        """Queue an event about any object, like `record`."""

    async def drain(self) -> None:
        """Wait until every recorded event is written or dropped."""


class Clock(Protocol):
    """The time."""

    def now(self) -> float:
        """Seconds since 1970; may jump."""

    def monotonic(self) -> float:
        """Seconds since any fixed moment; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Wait this number of seconds; 0 lets other tasks run."""


class Leadership(Protocol):
    """Leadership of this process. Without other candidates it is always leader."""

    @property
    def is_leader(self) -> bool:
        """True if the lease is held and has not expired; read right before every write."""

    @property
    def holder(self) -> str:
        """The identity of the process that leads as last seen, "" if not known."""

    async def run(self, on_started: Callable[[], Awaitable[None] | None], on_stopped: Callable[[], Awaitable[None] | None]) -> None:
        """Run until leadership is lost or the caller cancels; each callback is called at the moment of the change."""


class AlwaysLeader:
    """The leadership of a process without other candidates."""

    is_leader = True
    holder = ""

    async def run(self, on_started: Callable[[], Awaitable[None] | None], on_stopped: Callable[[], Awaitable[None] | None]) -> None:  # noqa: ARG002 — it is never lost
        """Call and awaits `on_started`; without other candidates this process leads at once."""
        started = on_started()
        if started is not None:
            await started


def pod_reference(pod: PodView) -> Reference:
    """The reference to a pod."""
    obj: Pod = pod.object
    return Reference(kind="Pod", name=pod.name, namespace=pod.namespace, uid=obj.metadata.uid)
