"""Lists and watches kinds of objects, and passes objects and changes to every subscriber in the process.

    list ──▶ watch from its version ──▶ (server closes, connection breaks, silence) ──▶ watch again from the last version seen
     ▲                                │
     └──────── 410 Gone ◀─────────────┘     the server has forgotten the version: list again and compare

Nothing is lost: a watch continues from the version of the last event (bookmarks keep that recent), and a new list gives the sink all
objects, so deletions that were missed are found too. A watch that is silent for long is dead if the server has sent bookmarks, which come
every minute. If it sends none, perhaps nothing has happened: a new watch replaces it without a report. A line that is not an event makes
the watch start again from the last version; an object that cannot be read is reported and skipped.

The scheduler and the reconcilers see the same events in the same order (`Informers`). No decision should be made before every kind that
decides has been listed once: that is the sync gate. Kinds that may not be read count as kinds without objects and are named in `refused`;
nodes and pods are required. Optional kinds are looked for at each version of their API, once a minute where the server has none.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from wharfinger.emit import Emit, Failed
from wharfinger.errors import InvalidObject
from wharfinger.framework.ports import Clock, ClusterSink, ListingSink, UnreadableSink, stepped
from wharfinger.kube import api_errors, wire
from wharfinger.kube.api_errors import RequestBackoff
from wharfinger.kube.connection import Connection
from wharfinger.kube.wire import SCHEDULING, Resource
from wharfinger.model import objects

_SHORT_WATCH = 0.5  # seconds; a watch that ends sooner counts as a failure, or a broken proxy would cause a busy loop
_LISTED_PER_STEP = 100
"""Objects of a list that are applied in one step while the rest is being read."""
_UNAVAILABLE = (api_errors.Forbidden, api_errors.NotFound)


class ReflectorSettings(Struct, frozen=True, kw_only=True):
    """`page_size` objects per page of a list; a watch is ended by the server after `watch_seconds` to twice that, to spread load.

    `streaming`: request lists as streams of events, which cost the server less memory; given up at the first refusal. A kind that may not
    be listed is requested again after `unavailable_wait` seconds.
    """

    page_size: int = 1000
    watch_seconds: int = 300
    streaming: bool = False
    unavailable_wait: float = 60.0
    backoff: Callable[[], RequestBackoff] = field(default=RequestBackoff)


class Reflector:
    """Lists and watches one resource for a sink."""

    def __init__(  # noqa: PLR0913, PLR0917 — its collaborators and settings
        self,
        connection: Connection,
        resource: Resource,
        sink: ClusterSink,
        clock: Clock,
        emit: Emit,
        settings: ReflectorSettings | None = None,
    ) -> None:
        self._connection = connection
        self._versions = resource.versions
        self._resource = resource
        self._sink = sink
        self._clock = clock
        self._emit = emit
        self._settings = settings or ReflectorSettings()
        self._backoff = self._settings.backoff()
        self._streaming = self._settings.streaming
        self._broke_off = False
        self._bookmarked = False
        self._version: str | None = None
        self._broken_at: str | None = None
        self._unread: list[tuple[objects.AnyObject, InvalidObject]] = []  # of the list that is being read
        self._moved = False  # a watch has passed the version of the last list
        self.synced = False
        self.refused: str | None = None
        self.absent = False
        self.lists = 0
        self.watches = 0

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._step()
            except api_errors.Gone as error:
                if self._version is None:  # a list has no version that the server could have forgotten
                    await self._failed(error)
                    continue
                self._version = None  # list at once, but not in a busy loop: that list, or the next watch, may be refused as well
                await self._clock.sleep(0 if self._moved else self._backoff.after())
                self._moved = False
            except _UNAVAILABLE as error:
                if not self._has_next_version(error):
                    await self._unavailable(error)
                    await self._clock.sleep(self._settings.unavailable_wait)
            except api_errors.SilentWatch as error:
                if self._bookmarked or self._version is None:
                    await self._failed(error)
            except (api_errors.ApiError, InvalidObject, wire.BrokenLine) as error:
                await self._failed(error)

    async def _failed(self, error: Exception) -> None:
        """Reports, and waits."""
        self._emit(Failed(f"watch of {self._resource.name}", error))
        await self._clock.sleep(self._backoff.after(error))

    async def _step(self) -> None:
        if self._version is None:
            await self._read_all()
            return
        began = self._clock.monotonic()
        try:
            await self._watch()
        finally:
            short = self._clock.monotonic() - began < _SHORT_WATCH
            if not short:
                self._backoff.reset()  # it worked for a while: its end is a new failure
        if short:
            await self._clock.sleep(self._backoff.after())

    def _has_next_version(self, error: api_errors.ApiError) -> bool:
        """True if the server does not have this version of the API and there is a next one, which is tried from now on.

        After the last version, the first one is next.
        """
        if not isinstance(error, api_errors.NotFound):
            return False
        self._version = None
        following = self._versions.index(self._resource) + 1
        self._resource = self._versions[following % len(self._versions)]
        return following < len(self._versions)

    async def _unavailable(self, error: api_errors.ApiError) -> None:
        """Treat a refused kind as one without objects, unless it is required.

        An optional kind that was removed has no objects any more.
        """
        self._version = None
        absent = isinstance(error, api_errors.NotFound)
        expected = absent and self._resource.optional
        if self.refused is None and not expected:
            self._emit(Failed(f"watch of {self._resource.name}", error))
        removed = expected and not self.absent and self.synced
        self.refused, self.absent = None if expected else str(error), absent
        if removed or not (self._resource.required or self.synced):
            await self._deliver([], None)

    @property
    def path(self) -> str:
        """The path of the version that is watched."""
        return self._resource.path

    async def _read_all(self) -> None:
        """One list. After a stream that broke off, one list is read in pages: a failed page loses less."""
        streams = self._streaming and not self._broke_off
        self._broke_off = streams  # until the bookmark at the end of the list
        await (self._stream_list() if streams else self._list())

    async def _list(self) -> None:
        """One list in pages; if a page comes too late for its token, all objects in one request."""
        self.lists += 1
        try:
            found, version = await self._pages(self._settings.page_size)
        except api_errors.Gone:
            found, version = await self._pages(0)
        await self._deliver(found, version)

    async def _pages(self, size: int) -> tuple[list[objects.AnyObject], str]:
        found, self._unread = list[objects.AnyObject](), []
        version = ""
        async for items, version in wire.pages(self._connection, self._resource.path, self._resource.params, size):  # noqa: B007 — the last
            first = len(found)
            found.extend(obj for obj in map(self._listed, items) if obj is not None)
            for start in range(first, len(found), _LISTED_PER_STEP):
                await self._apply_early(found[start : start + _LISTED_PER_STEP])
        return found, version

    async def _apply_early(self, part: Sequence[objects.AnyObject]) -> None:
        """Let the sink apply a part of the first list while the server sends the rest, and others have their turn."""
        if not self.synced and isinstance(self._sink, ListingSink):
            self._sink.listing(self._resource.name, part)
        await self._clock.sleep(0)

    async def _stream_list(self) -> None:
        """One list as a stream: every object as an addition, then a bookmark that marks the end."""
        self.lists += 1
        params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        found, self._unread = list[objects.AnyObject](), []
        applied = 0
        try:
            async with self._connection.lines(self._resource.path, self._watch_params(params)) as lines:
                async for line in lines:
                    action, raw = wire.event(line)
                    if action == "ERROR":
                        raise api_errors.of_event(raw)
                    if action != "BOOKMARK":
                        found.extend(obj for obj in (self._streamed(raw),) if obj is not None)
                        if len(found) >= applied + _LISTED_PER_STEP:
                            await self._apply_early(found[applied:])
                            applied = len(found)
                    elif (head := wire.head(raw)).ends_list:
                        self._broke_off = False
                        await self._deliver(found, head.version)
                        await self._follow(lines)
                        return
        except wire.BrokenLine:
            self._streaming = False  # the same line would break every further stream; pages can skip the object
            raise
        except (api_errors.Invalid, api_errors.BadRequest):
            pass
        self._streaming = False  # refused, or closed without the bookmark: the server does not support it

    async def _watch(self) -> None:
        """One watch from the last version, until it ends."""
        params = self._watch_params({"resourceVersion": self._version or ""})
        async with self._connection.lines(self._resource.path, params) as lines:
            await self._follow(lines)

    def _watch_params(self, more: dict[str, str]) -> dict[str, str]:
        seconds = int(self._settings.watch_seconds * (1.0 + random.random()))
        return {**self._resource.params, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **more}

    async def _follow(self, lines: AsyncIterator[bytes]) -> None:
        self.watches += 1
        async for line in lines:
            self._apply(line)

    def _apply(self, line: bytes) -> None:
        try:
            action, raw = wire.event(line)
            version = "" if action == "ERROR" else self._apply_event(action, raw)
        except wire.BrokenLine:
            if self._broken_at == self._version:
                self._version = None  # the same version twice: only a new list has the objects
            self._broken_at = self._version
            raise
        if action == "ERROR":
            raise api_errors.of_event(raw)
        if version:
            self._version, self._moved = version, True
            self._backoff.reset()

    def _apply_event(self, action: str, raw: msgspec.Raw) -> str:
        """Apply one event to the sink; return the version it leads to."""
        if action == "BOOKMARK":
            self._bookmarked = True
            return wire.head(raw).version
        name = self._resource.name
        obj: objects.AnyObject | None = None
        try:
            obj = wire.struct_of(raw, self._resource.kind)
            if action == "DELETED":
                self._sink.delete(name, obj)
            else:
                self._sink.upsert(name, obj)
        except InvalidObject as error:
            if obj is not None:
                self._emit(Failed(f"object of kind {name}", error))
            elif not wire.head(raw).metadata.name:
                raise wire.BrokenLine(f"an event without an object: {error}") from error
            elif action == "DELETED":
                self._sink.delete(name, wire.named(raw, self._resource.kind))
            else:
                self._unreadable(wire.named(raw, self._resource.kind), error, listed=False)
        return wire.head(raw).version if obj is None else obj.metadata.resource_version

    def _listed(self, raw: msgspec.Raw) -> objects.AnyObject | None:
        try:
            return wire.struct_of(raw, self._resource.kind)
        except InvalidObject as error:
            self._unread.append((wire.named(raw, self._resource.kind), error))
            return None

    def _streamed(self, raw: msgspec.Raw) -> objects.AnyObject | None:
        """The object of one line; BrokenLine if it has no name: skipped, it would be missing until the next list."""
        obj = self._listed(raw)
        if not (wire.head(raw) if obj is None else obj).metadata.name:
            raise wire.BrokenLine("an event of a list without an object")
        return obj

    def _unreadable(self, identity: objects.AnyObject, error: InvalidObject, *, listed: bool) -> None:
        self._emit(Failed(f"object of kind {self._resource.name}", error))
        if isinstance(self._sink, UnreadableSink) and identity.metadata.name:
            self._sink.unreadable(self._resource.name, identity, error, listed=listed)

    async def _deliver(self, found: Sequence[objects.AnyObject], version: str | None) -> None:
        unread, self._unread = self._unread, []
        for identity, error in unread:  # only now: an incomplete list does not show which objects exist
            self._unreadable(identity, error, listed=True)
        for _ in stepped(self._sink, self._resource.name, found):
            await self._clock.sleep(0)
        self._version = version
        if version is not None:
            self.refused, self.absent = None, False
        if not self.synced:
            self.synced = True
            self._sink.synced(self._resource.name)


class Informers:
    """A ClusterSource over all kinds that scheduling needs."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        emit: Emit,
        *,
        resources: Sequence[Resource] = SCHEDULING,
        settings: ReflectorSettings | None = None,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._emit = emit
        self._settings = settings
        self._resources = resources
        self._sinks: list[ClusterSink] = []
        self._waiting = {resource.name for resource in resources}
        self._gate = asyncio.Event()
        self.reflectors: dict[str, Reflector] = {}

    def subscribe(self, sink: ClusterSink) -> None:
        """Add a sink, which gets everything from the first list on; RuntimeError once the watches have started."""
        if self.reflectors:
            raise RuntimeError("sinks subscribe before the watches start")
        self._sinks.append(sink)

    async def run(self, sink: ClusterSink | None = None) -> None:
        """Send every object and change to all subscribers, and to this sink, until cancelled."""
        if sink is not None:
            self.subscribe(sink)
        self.reflectors = {
            resource.name: Reflector(self._connection, resource, self, self._clock, self._emit, self._settings)
            for resource in self._resources
        }
        async with asyncio.TaskGroup() as watches:
            for name, reflector in self.reflectors.items():
                watches.create_task(reflector.run(), name=f"watch {name}")

    async def wait_synced(self) -> None:
        """Wait until every kind has been listed."""
        await self._gate.wait()

    def path_of(self, resource: Resource) -> str:
        """The path at which a kind is watched, or would be."""
        reflector = self.reflectors.get(resource.name)
        return resource.path if reflector is None else reflector.path

    def serves(self, resource: Resource) -> bool:
        """True if the API server has this kind and lets it be read."""
        reflector = self.reflectors.get(resource.name)
        return reflector is not None and reflector.synced and not reflector.absent and reflector.refused is None

    @property
    def unsynced(self) -> frozenset[str]:
        """The kinds not listed yet."""
        return frozenset(self._waiting)

    @property
    def refused(self) -> Mapping[str, str]:
        """Kinds that the API server refuses to serve, with its message."""
        return {name: reflector.refused for name, reflector in self.reflectors.items() if reflector.refused is not None}

    @property
    def absent(self) -> frozenset[str]:
        """The kinds that the API server does not have: their definitions are not installed."""
        return frozenset(name for name, reflector in self.reflectors.items() if reflector.absent)

    def upsert(self, kind: str, obj: Any) -> None:
        """Forward it to every subscriber."""
        for sink in self._sinks:
            sink.upsert(kind, obj)

    def delete(self, kind: str, obj: Any) -> None:
        """Forward it to every subscriber."""
        for sink in self._sinks:
            sink.delete(kind, obj)

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Forward it to every subscriber."""
        for sink in self._sinks:
            sink.replace(kind, objs)

    def replacing(self, kind: str, objs: Sequence[Any]) -> Iterator[None]:
        """The steps of `replace` for one subscriber after the other."""
        for sink in self._sinks:
            yield from stepped(sink, kind, objs)

    def listing(self, kind: str, objs: Sequence[Any]) -> None:
        """Forward it to the subscribers that apply parts of lists."""
        for sink in self._sinks:
            if isinstance(sink, ListingSink):
                sink.listing(kind, objs)

    def unreadable(self, kind: str, obj: Any, error: InvalidObject, *, listed: bool) -> None:
        """Forward it to the subscribers that take unreadable objects."""
        for sink in self._sinks:
            if isinstance(sink, UnreadableSink):
                sink.unreadable(kind, obj, error, listed=listed)

    def synced(self, kind: str) -> None:
        """Forward it to every subscriber; after the last kind the gate opens."""
        for sink in self._sinks:
            sink.synced(kind)
        self._waiting.discard(kind)
        if not self._waiting:
            self._gate.set()
