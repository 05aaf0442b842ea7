"""An API server as the ports of `framework.ports`, put together.

    async with connection:
        server = ports_of(connection, clock, emit, events=EventSettings(…), lease=LeaseSettings(…))
        tasks: server.source.run(sink), server.recorder.run(), server.leadership.run(start, stop)

Every writer asks the leadership first; events wait while bindings are in flight.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from wharfinger.emit import Emit
from wharfinger.framework.ports import (
    AlwaysLeader,
    Binder,
    Clock,
    ClusterSource,
    DeviceClaimWriter,
    EventSink,
    Leadership,
    PodGroupWriter,
    PodWriter,
    VolumeWriter,
)
from wharfinger.kube.api_errors import ApiError
from wharfinger.kube.claim_writes import ApiClaimWriter
from wharfinger.kube.connection import Connection
from wharfinger.kube.events import EventRecorder, EventSettings
from wharfinger.kube.lease import LeaseElection, LeaseSettings
from wharfinger.kube.reflector import Informers, ReflectorSettings
from wharfinger.kube.wire import PODGROUPS
from wharfinger.kube.writes import ApiBinder, ApiPodGroupWriter, ApiVolumeWriter, ApiWriter

_STREAMED_LISTS_SINCE = (1, 34)  # the feature WatchList is on by default from here on


class _Version(msgspec.Struct):
    major: str = ""
    minor: str = ""
    git_version: str = msgspec.field(name="gitVersion", default="")


class ServerVersion(Struct, frozen=True, kw_only=True):
    """Version of an API server; (0, 0) if unknown."""

    release: tuple[int, int]
    text: str

    @property
    def streams_lists(self) -> bool:
        """True if lists can be read as streams."""
        return self.release >= _STREAMED_LISTS_SINCE


async def server_version(connection: Connection) -> ServerVersion:
    """The version of the API server; ApiError if it does not answer, or not with a version."""
    try:
        served = msgspec.json.decode(await connection.request("GET", "/version"), type=_Version)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(f"GET /version: an answer that is no version: {error}") from None
    return ServerVersion(release=(_number(served.major), _number(served.minor)), text=served.git_version)


def _number(text: str) -> int:
    """`36+`, as some providers have it, is 36."""
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 0


class ApiServer(Struct, frozen=True, kw_only=True):
    """The ports; `informers` is also the source and `recorder` the event sink."""

    informers: Informers
    binder: Binder
    writer: PodWriter
    volumes: VolumeWriter
    claims: DeviceClaimWriter
    groups: PodGroupWriter
    recorder: EventRecorder
    leadership: Leadership

    @property
    def source(self) -> ClusterSource:
        """The source of the cluster's objects."""
        return self.informers

    @property
    def events(self) -> EventSink:
        """The sink of events."""
        return self.recorder


def ports_of(  # noqa: PLR0913 — the connection, and the settings of each port
    connection: Connection,
    clock: Clock,
    emit: Emit,
    *,
    events: EventSettings,
    lease: LeaseSettings | None = None,
    version: ServerVersion | None = None,
) -> ApiServer:
    """The ports to the API server of a connection; without a lease this process always leads.

    `version` is that of `server_version`: lists are read as streams if the server supports it.
    """
    leadership = AlwaysLeader() if lease is None else LeaseElection(connection, lease, clock, emit)

    def may_write() -> bool:
        return leadership.is_leader

    binder = ApiBinder(connection, clock, may_write)
    claims = ApiClaimWriter(connection, clock, may_write)
    streaming = version is not None and version.streams_lists
    informers = Informers(connection, clock, emit, settings=ReflectorSettings(streaming=streaming))
    return ApiServer(
        informers=informers,
        binder=binder,
        writer=ApiWriter(connection, clock, may_write),
        volumes=ApiVolumeWriter(connection, clock, may_write),
        claims=claims,
        groups=ApiPodGroupWriter(connection, clock, lambda: informers.path_of(PODGROUPS), may_write),
        recorder=EventRecorder(connection, events, clock, emit, busy=lambda: binder.in_flight + claims.in_flight > 0),
        leadership=leadership,
    )
