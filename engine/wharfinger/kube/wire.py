"""Lists and watch events as the API server sends them: the paths of the watched kinds, decoding, and all kinds read at one version.

Decoding takes two steps: the envelope keeps objects as raw bytes, then each object becomes its struct. An object that cannot be read
breaks neither the list nor the watch; its name and version are found with a struct that needs nothing else.

All pages of a list have the version of its first page. The server forgets old versions after some minutes; a client that reads more
slowly is refused with `Gone` and lists again.

For a snapshot the first kind is listed as it is now, the others at the version of that list: all kinds share one numbering of changes. If
the server stores a kind separately or has compacted that version, the current objects are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct, field, structs
from msgspec.structs import replace

from wharfinger.errors import InvalidObject, UsageError, WharfingerError
from wharfinger.framework.ports import Clock
from wharfinger.kube import api_errors
from wharfinger.kube.api_errors import RequestBackoff
from wharfinger.model import objects
from wharfinger.model.objects import AnyObject
from wharfinger.model.reading import decode, snapshot_file

if TYPE_CHECKING:
    from wharfinger.kube.credentials import Credentials

_END_OF_LIST = "k8s.io/initial-events-end"

WHOLE_LIST = 120.0
"""Seconds that a list without pages may take."""
PAGE_SIZE = 500
_ATTEMPTS = 4
_NOT_AT_THAT_VERSION = (api_errors.Gone, api_errors.BadRequest, api_errors.Invalid, api_errors.ServerError)


class Resource(Struct, frozen=True, kw_only=True):
    """A kind, its path, and which of its objects matter (`params`). Without a `required` kind nothing can be scheduled.

    `older` are the paths of other versions of the API, tried in this order where the server does not have `path`. That a server does not
    have an `optional` kind is no failure.
    """

    kind: type[objects.AnyObject]
    path: str
    required: bool = False
    params: Mapping[str, str] = field(default_factory=dict)
    older: tuple[str, ...] = ()
    optional: bool = False

    @property
    def name(self) -> str:
        """The Kubernetes kind: `Pod`."""
        return self.kind.__name__

    @property
    def plural(self) -> str:
        """The name in paths and roles: `pods`."""
        return self.path.rpartition("/")[2]

    @property
    def api_version(self) -> str:
        """`v1`, or `apps/v1`."""
        return self.path.rpartition("/")[0].removeprefix("/apis/").removeprefix("/api/")

    @property
    def versions(self) -> tuple[Resource, ...]:
        """The same kind at each of its paths, this one first."""
        return (self, *(replace(self, path=path) for path in self.older))

    @property
    def group(self) -> str:
        """The API group, empty for that of pods and nodes."""
        return self.api_version.rpartition("/")[0]


# As kube-scheduler's own informer for pods (scheduler.go, NewInformerFactory, Kubernetes 1.36): finished pods hold nothing. A pod that
# finishes leaves the selection, which the watch reports as its deletion.
_UNFINISHED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}

PODS = Resource(kind=objects.Pod, path="/api/v1/pods", required=True, params=_UNFINISHED)
NODES = Resource(kind=objects.Node, path="/api/v1/nodes", required=True)

PODGROUPS = Resource(
    kind=objects.PodGroup,
    path="/apis/scheduling.k8s.io/v1beta1/podgroups",
    older=("/apis/scheduling.k8s.io/v1alpha3/podgroups", "/apis/scheduling.k8s.io/v1alpha2/podgroups"),
    optional=True,
)
COSCHEDULING_PODGROUPS = Resource(kind=objects.CoschedulingPodGroup, path="/apis/scheduling.x-k8s.io/v1alpha1/podgroups", optional=True)

SCHEDULING = (
    NODES,
    PODS,
    Resource(kind=objects.Namespace, path="/api/v1/namespaces"),
    Resource(kind=objects.Service, path="/api/v1/services"),
    Resource(kind=objects.ReplicationController, path="/api/v1/replicationcontrollers"),
    Resource(kind=objects.ReplicaSet, path="/apis/apps/v1/replicasets"),
    Resource(kind=objects.StatefulSet, path="/apis/apps/v1/statefulsets"),
    Resource(kind=objects.PersistentVolumeClaim, path="/api/v1/persistentvolumeclaims"),
    Resource(kind=objects.PersistentVolume, path="/api/v1/persistentvolumes"),
    Resource(kind=objects.StorageClass, path="/apis/storage.k8s.io/v1/storageclasses"),
    Resource(kind=objects.CSINode, path="/apis/storage.k8s.io/v1/csinodes"),
    Resource(kind=objects.CSIDriver, path="/apis/storage.k8s.io/v1/csidrivers"),
    Resource(kind=objects.CSIStorageCapacity, path="/apis/storage.k8s.io/v1/csistoragecapacities"),
    Resource(kind=objects.VolumeAttachment, path="/apis/storage.k8s.io/v1/volumeattachments"),
    Resource(kind=objects.PodDisruptionBudget, path="/apis/policy/v1/poddisruptionbudgets"),
    Resource(kind=objects.PriorityClass, path="/apis/scheduling.k8s.io/v1/priorityclasses"),
    Resource(kind=objects.RuntimeClass, path="/apis/node.k8s.io/v1/runtimeclasses"),
    Resource(kind=objects.LimitRange, path="/api/v1/limitranges"),
    Resource(kind=objects.DeviceClass, path="/apis/resource.k8s.io/v1/deviceclasses", optional=True),
    Resource(kind=objects.ResourceSlice, path="/apis/resource.k8s.io/v1/resourceslices", optional=True),
    Resource(kind=objects.ResourceClaim, path="/apis/resource.k8s.io/v1/resourceclaims", optional=True),
    Resource(kind=objects.ResourceClaimTemplate, path="/apis/resource.k8s.io/v1/resourceclaimtemplates", optional=True),
    PODGROUPS,
    COSCHEDULING_PODGROUPS,
)


class BrokenLine(WharfingerError):
    """A line of a watch that is not an event; its content is lost."""


_ACTIONS = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next_page: str | None = msgspec.field(name="continue", default=None)


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str] | None = None


class _PodSpec(msgspec.Struct):
    scheduler_name: str = msgspec.field(name="schedulerName", default="")
    node_name: str = msgspec.field(name="nodeName", default="")


class _PodHead(msgspec.Struct):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class Head(msgspec.Struct):
    """The metadata of an object."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)

    @property
    def version(self) -> str:
        """The resource version."""
        return self.metadata.resource_version

    @property
    def ends_list(self) -> bool:
        """True for the bookmark after the last object of a streamed list."""
        return (self.metadata.annotations or {}).get(_END_OF_LIST) == "true"

    def __str__(self) -> str:
        return "/".join(part for part in (self.metadata.namespace, self.metadata.name) if part)


_pages = msgspec.json.Decoder(_Page)
_events = msgspec.json.Decoder(_Event)
_heads = msgspec.json.Decoder(Head)
_pod_heads = msgspec.json.Decoder(_PodHead)


def page(content: bytes) -> tuple[list[msgspec.Raw], str, str]:
    """(items, resource version, continue token or "") of one page of a list; InvalidObject if it is not a list."""
    try:
        found = decode.decoded(_pages, content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidObject(f"an answer that is no list: {error}") from None
    return found.items or [], found.metadata.resource_version, found.metadata.next_page or ""


def event(line: bytes) -> tuple[str, msgspec.Raw]:
    """(type, object) of one line of a watch; BrokenLine if it is not an event."""
    try:
        found = decode.decoded(_events, line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BrokenLine(f"a line of a watch that cannot be read: {error}") from None
    if found.type not in _ACTIONS:
        raise BrokenLine(f"an event of a watch of the unknown type {found.type[:50]!r}")
    return found.type, found.object


def head(raw: msgspec.Raw) -> Head:
    """The metadata of an object; empty if it cannot be read."""
    try:
        return _heads.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Head()


def struct_of(raw: msgspec.Raw, kind: type[objects.AnyObject]) -> objects.AnyObject:
    """The object as its struct; InvalidObject names it and the field that cannot be read."""
    try:
        return decode.decode_json(raw, kind)
    except InvalidObject as error:
        raise InvalidObject(f"{kind.__name__} {head(raw)}: {error}") from error


def named(raw: msgspec.Raw, kind: type[objects.AnyObject]) -> objects.AnyObject:
    """The identity of an object that cannot be read; for a pod with its scheduler and its node."""
    meta = head(raw).metadata
    made: Any = kind
    identity: objects.AnyObject = made(metadata=objects.ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid))
    if isinstance(identity, objects.Pod):
        return structs.replace(identity, spec=objects.PodSpec(**structs.asdict(_pod_spec(raw))))
    return identity


def _pod_spec(raw: msgspec.Raw) -> _PodSpec:
    try:
        return _pod_heads.decode(raw).spec
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _PodSpec()


class Server(Protocol):
    """An API server that is read."""

    credentials: Credentials

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 — of the exchange with the server
    ) -> bytes:
        """The body of the answer; ApiError unless it is a success."""


async def pages(connection: Server, path: str, params: Mapping[str, str], size: int) -> AsyncIterator[tuple[list[msgspec.Raw], str]]:
    """(items, version of the list) for each page of up to `size` objects, 0 for all in one; ApiError, InvalidObject."""
    query = {**params, **({"limit": str(size)} if size else {})}
    while True:
        content = await connection.request("GET", path, params=query, timeout=None if size else WHOLE_LIST)
        items, version, token = page(content)
        yield items, version
        if not token:
            return
        if token == query.get("continue"):
            raise InvalidObject("a list whose continue token does not change")
        # The token contains the version; servers refuse requests with both.
        query = {key: value for key, value in query.items() if key not in {"resourceVersion", "resourceVersionMatch"}}
        query["continue"] = token


class Captured(Struct, frozen=True, kw_only=True):
    """The objects of a snapshot, each with the version of its API; their number by kind, and how it was captured."""

    objects: Sequence[tuple[AnyObject, str]]
    counts: Mapping[str, int]
    word: snapshot_file.Capture

    @property
    def items(self) -> Iterator[bytes]:
        """The objects as items of a file."""
        return (snapshot_file.encoded(obj, api_version) for obj, api_version in self.objects)


async def captured(connection: Server, clock: Clock) -> Captured:
    """The objects of the kinds in `SCHEDULING`.

    UsageError if a required kind cannot be read; other kinds, and objects, that cannot be read are named in `word`.
    """
    reading = _SnapshotReading(connection, clock)
    taken_at = clock.now()
    for resource in SCHEDULING:
        await reading.read(resource)
    return Captured(objects=reading.objects, counts=reading.counts, word=snapshot_file.capture_at(taken_at, reading.not_read))


class _SnapshotReading(Struct):
    connection: Server
    clock: Clock
    version: str = ""
    objects: list[tuple[AnyObject, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    not_read: list[str] = field(default_factory=list)

    async def read(self, resource: Resource) -> None:
        """Add the objects of a kind to `objects`, or the reason to `not_read`."""
        try:
            resource, found = await self._at_a_version(resource)
        except (api_errors.Forbidden, api_errors.NotFound) as error:
            if resource.optional and isinstance(error, api_errors.NotFound):
                self.counts[resource.name] += 0
                return
            if resource.required:
                raise UsageError(f"cannot read {resource.plural}: {_remedy(resource, error)}") from error
            self.not_read.append(f"{resource.plural} are missing: {_remedy(resource, error)}")
        except api_errors.Unauthorized as error:
            raise UsageError(f"the API server {self.connection.credentials.server} refuses the credentials: {error}") from error
        except (api_errors.ApiError, InvalidObject) as error:
            raise UsageError(f"cannot read {resource.plural} from {self.connection.credentials.server}: {error}") from error
        else:
            readable = [obj for raw in found if (obj := self._object(resource, raw)) is not None]
            self.objects += [(obj, resource.api_version) for obj in readable]
            self.counts[resource.name] += len(readable)

    def _object(self, resource: Resource, raw: msgspec.Raw) -> AnyObject | None:
        try:
            return struct_of(raw, resource.kind)
        except InvalidObject as error:
            self.not_read.append(f"left out: {error}")
            return None

    async def _at_a_version(self, resource: Resource) -> tuple[Resource, list[msgspec.Raw]]:
        """The objects of a kind, with the first of its versions that the server has; NotFound if it has none."""
        for version in resource.versions[:-1]:
            try:
                return version, await self._list_with_retries(version)
            except api_errors.NotFound:
                continue
        last = resource.versions[-1]
        return last, await self._list_with_retries(last)

    async def _list_with_retries(self, resource: Resource) -> list[msgspec.Raw]:
        """The objects of a kind; repeated a few times while the server is busy."""
        waits = RequestBackoff()
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._at_that_moment(resource)
            except api_errors.TRANSIENT as error:
                await self.clock.sleep(waits.after(error))
        return await self._at_that_moment(resource)

    async def _at_that_moment(self, resource: Resource) -> list[msgspec.Raw]:
        """The objects of a kind at the version of the first list if possible, else the current ones."""
        if self.version:
            try:
                return await self._pages(resource, {"resourceVersion": self.version, "resourceVersionMatch": "Exact"}, PAGE_SIZE)
            except _NOT_AT_THAT_VERSION:
                pass
        try:
            return await self._pages(resource, {}, PAGE_SIZE)
        except api_errors.Gone:
            return await self._pages(resource, {}, 0)

    async def _pages(self, resource: Resource, params: Mapping[str, str], size: int) -> list[msgspec.Raw]:
        found: list[msgspec.Raw] = []
        version = ""
        async for items, version in pages(self.connection, resource.path, {**resource.params, **params}, size):  # noqa: B007 — the last
            found += items
        self.version = self.version or version
        return found


def _remedy(resource: Resource, error: api_errors.ApiError) -> str:
    """The message of the server, and the permission that is missing."""
    if isinstance(error, api_errors.NotFound):
        return f"the API server has no {resource.plural} of {resource.api_version}"
    rule = f'apiGroups: ["{resource.group}"], resources: [{resource.plural}], verbs: [list]'
    return f"{error}; grant a ClusterRole with the rule {{{rule}}}"
