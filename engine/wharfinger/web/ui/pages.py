"""The live page: its routes, its files, and the feed of server-sent events.

/ui                    the page
/ui/static/<file>      its files
/ui/events?coloring=…     its data in a colouring of the nodes, as server-sent events; ?namespace=…&result=…&policy=… choose pods
/ui/nodes/<name>       one node, as JSON
/ui/objects            POST: the objects of a YAML or JSON text, as JSON
/ui/pods?find=…        the pods that have a text in their names, as JSON

Unless `remoteUi` is set, the page answers this machine only, and only for an address or `localhost` as host name: a page of another site
cannot read it through a name that points here. What a browser may run is in `page_files`.

Nothing is read while no page is open. Otherwise the data is read about once a second, in slices, and once for all pages. A page that
cannot keep up is disconnected: the browser reconnects by itself and gets everything again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from wharfinger.emit import Emit, Failed
from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.framework.ports import Clock
from wharfinger.model.reading import decode, yaml_text
from wharfinger.web import page_files
from wharfinger.web.decisions import RESULTS
from wharfinger.web.page_files import HEADERS
from wharfinger.web.requests import Answer, disconnected, with_body
from wharfinger.web.ui.page_content import Channel, PageContent, PodQuery, message

INTERVAL = 1.0
"""Fewest seconds between two updates."""
MAX_TIME_SHARE = 0.02
"""Largest share of the time that updates may take; a huge cluster is updated less often."""
MAX_WATCHERS = 16
MAX_CHANNELS = 6
MAX_FOUND = 30
"""Most pods that a search lists."""
MAX_TEXT_BYTES = 2**18
"""Bytes of a text with objects."""
MAX_QUERIES = 6
MAX_BACKLOG_BYTES = 4 * 2**20
"""Bytes that may wait for one watcher."""

ALIVE_INTERVAL = 4.0
"""Most seconds without a message: after ten, a page says that the scheduler does not answer."""
ALIVE = message("alive", {})
"""The message of a sign of life."""

RETRY_MILLISECONDS = 2000
"""Milliseconds after which a browser whose connection has ended comes back."""

FIRST_COLORING = "cpu"
"""The colouring of the nodes at first."""

ALL = PodQuery()

_MAX_QUERY_LENGTH = 600  # characters of a prefix, a namespace and a name


class TooMany(WharfingerError):
    """Too many pages are open."""


class Watcher:
    """One open page: what it shows, and what waits to be sent to it."""

    def __init__(self, channel: Channel, query: PodQuery) -> None:
        self.channel = channel
        self.query = query
        self.gone = False
        self._waiting: deque[bytes] = deque()
        self._n_bytes = 0
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()

    def put(self, messages: Iterable[bytes]) -> None:
        """Queue messages in order; if too much waits, the watcher is disconnected."""
        for one in messages:
            self._waiting.append(one)
            self._n_bytes += len(one)
        if self._n_bytes > MAX_BACKLOG_BYTES:
            self.disconnect()
        self._changed.set()

    def disconnect(self) -> None:
        """Send nothing more."""
        self.gone = True
        self._waiting.clear()
        self._n_bytes = 0
        self._changed.set()
        self._ended.set()

    async def ended(self) -> None:
        """Wait until the watcher was disconnected, also while a send to it blocks."""
        await self._ended.wait()

    async def next(self) -> bytes:
        """The next bytes to send, b"" at the end."""
        while not self._waiting and not self.gone:
            self._changed.clear()
            await self._changed.wait()
        if self.gone:
            return b""
        found = b"".join(self._waiting)
        self._waiting.clear()
        self._n_bytes = 0
        return found


class Feed:
    """Sends the content of the page to all watchers."""

    def __init__(self, page_content: PageContent, clock: Clock, emit: Emit) -> None:
        self._page_content = page_content
        self._clock = clock
        self._emit = emit
        self._watchers: list[Watcher] = []
        self._channels: dict[str, Channel] = {}
        self._parts: dict[tuple[PodQuery | None, str], bytes] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._watchers)

    def join(self, coloring: str, query: PodQuery = ALL) -> Watcher:
        """A new watcher of the nodes in a colouring and of some pods; TooMany if too many pages are open or show too many values."""
        if self._closed or len(self._watchers) >= MAX_WATCHERS:
            raise TooMany(f"{len(self._watchers)} pages are open already, and no more can be")
        queries = self._queries | {query}
        if len(queries) > MAX_QUERIES:
            raise TooMany(f"open pages show the pods of {len(self._queries)} different questions already, and no more can be")
        watcher = Watcher(self._channel(coloring), query)
        self._watchers.append(watcher)
        parts = [part for (asked, _), part in self._parts.items() if asked in {None, query}]
        watcher.put([*parts, *watcher.channel.whole()])
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="live page")
        return watcher

    @property
    def _queries(self) -> set[PodQuery]:
        return {watcher.query for watcher in self._watchers}

    def _channel(self, coloring: str) -> Channel:
        """The channel of a colouring. It is updated at least once, unless that takes several steps: then the next update is the first."""
        channel = self._channels.get(coloring)
        if channel is None:
            if len(self._channels) >= MAX_CHANNELS:
                raise TooMany(f"open pages look at {len(self._channels)} different things already, and no more can be")
            channel = Channel(coloring)
            if not any(True for _ in self._page_content.precompute(coloring)):
                channel.update(self._page_content)
            self._channels[coloring] = channel
        return channel

    def leave(self, watcher: Watcher) -> None:
        """Remove a watcher."""
        watcher.disconnect()
        if watcher in self._watchers:
            self._watchers.remove(watcher)
        if all(other.channel is not watcher.channel for other in self._watchers):
            self._channels.pop(watcher.channel.key, None)
        queries = self._queries
        self._parts = {key: part for key, part in self._parts.items() if queries and key[0] in {None, *queries}}
        if not self._watchers and self._task is not None:
            self._task.cancel()
            self._task = None

    def close(self) -> None:
        """Disconnect every watcher and take no new one."""
        self._closed = True
        for watcher in list(self._watchers):
            self.leave(watcher)

    async def _run(self) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                spent = await self._update_watchers()
            except Exception as error:  # noqa: BLE001 — the next update may succeed
                self._emit(Failed("live page", error))
                spent = self._clock.monotonic() - began
            await self._pause(max(INTERVAL, spent / MAX_TIME_SHARE))

    async def _pause(self, seconds: float) -> None:
        """Wait; the pages get signs of life meanwhile."""
        while seconds > ALIVE_INTERVAL:
            await self._clock.sleep(ALIVE_INTERVAL)
            self._send([ALIVE])
            seconds -= ALIVE_INTERVAL
        await self._clock.sleep(seconds)

    async def _update_watchers(self) -> float:
        """Send what has changed to all watchers; the seconds that it took, without those of other tasks."""
        began, spent = self._clock.monotonic(), 0.0
        for channel in list(self._channels.values()):
            for _ in self._page_content.precompute(channel.key):
                spent += self._clock.monotonic() - began
                await self._clock.sleep(0)
                began = self._clock.monotonic()
            found = channel.update(self._page_content)
            self._send(found, channel)
            spent += self._clock.monotonic() - began
            await self._clock.sleep(0)
            began = self._clock.monotonic()
        for query, part in self._all_parts():
            if part is not None:
                self._part(query, *part)
            spent += self._clock.monotonic() - began
            await self._clock.sleep(0)
            began = self._clock.monotonic()
        return spent

    def _all_parts(self) -> Iterator[tuple[PodQuery | None, tuple[str, Any] | None]]:
        for part in self._page_content.parts():
            yield None, part
        for query in self._queries:
            for part in self._page_content.pods(query):
                yield query, part

    def _part(self, query: PodQuery | None, name: str, value: Any) -> None:
        encoded = message(name, value)
        if encoded != self._parts.get((query, name)):
            self._parts[query, name] = encoded
            self._send([encoded], query=query)

    def _send(self, messages: list[bytes], channel: Channel | None = None, query: PodQuery | None = None) -> None:
        for watcher in self._watchers:
            if messages and channel in (None, watcher.channel) and query in (None, watcher.query):
                watcher.put(messages)


class EventStream(Response):
    """The answer to a watcher of a feed; it ends with the connection, or when the watcher is disconnected."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, watcher: Watcher, headers: Mapping[str, str]) -> None:
        self._feed = feed
        self._watcher = watcher
        self.status_code = 200
        self.background = None
        self.init_headers({**headers, "Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 — as every ASGI application
        """Send until the stream has ended. For a watcher that reads nothing, that is when the server closes the connection."""
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(disconnected(receive))
        disconnecting = asyncio.ensure_future(self._watcher.ended())
        work = {sending, leaving, disconnecting}
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            self._feed.leave(self._watcher)
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._feed.leave(self._watcher)
            for one in work:
                one.cancel()
            await asyncio.wait(work)
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": f"retry: {RETRY_MILLISECONDS}\n\n".encode(), "more_body": True})
        while content := await self._watcher.next():
            await send({"type": "http.response.body", "body": content, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class LivePage(Struct, frozen=True, kw_only=True):
    """The data of the page, shown to this machine only, unless `public`."""

    page_content: PageContent
    feed: Feed
    public: bool = False


def routes(page: LivePage) -> list[Route]:
    """The routes."""
    files = page_files.files_of(__package__)

    async def slash(_request: Request) -> Response:
        return RedirectResponse("../ui", 308)

    found: dict[str, Answer] = {
        "/ui": page_files.page(files, "index.html"),
        "/ui/": slash,
        "/ui/events": partial(_events, page.feed),
        "/ui/nodes/{name:path}": partial(_node, page.page_content),
        "/ui/pods": partial(_pods, page.page_content),
    }
    guarded = partial(page_files.guarded, public=page.public)
    written = Route("/ui/objects", guarded(with_body("application/yaml", MAX_TEXT_BYTES, _objects, called="text")), methods=["POST"])
    return [static_route(public=page.public), written, *(Route(path, guarded(answer)) for path, answer in found.items())]


def static_route(*, public: bool) -> Route:
    """The route of the files of the page, which the playground uses too."""
    answer = page_files.static(page_files.files_of(__package__))
    return Route("/ui/static/{name}", page_files.guarded(answer, public=public))


async def _events(feed: Feed, request: Request) -> Response:
    coloring = request.query_params.get("coloring", FIRST_COLORING)
    query = PodQuery(**{name: request.query_params.get(name, "") for name in ("namespace", "result", "policy")})
    for name, text in (("coloring", coloring), ("namespace", query.namespace), ("policy", query.policy)):
        if len(text) > _MAX_QUERY_LENGTH:
            return PlainTextResponse(f"{name}: expected at most {_MAX_QUERY_LENGTH} characters\n", 400)
    if query.result not in {"", *RESULTS}:
        return PlainTextResponse(f"result={query.result}: expected one of {', '.join(RESULTS)}\n", 400)
    if request.method == "HEAD":
        return Response(headers={"Content-Type": f"{EventStream.media_type}; charset=utf-8", "Cache-Control": "no-store"})
    try:
        return EventStream(feed, feed.join(coloring, query), HEADERS)
    except TooMany as error:
        return PlainTextResponse(f"{error}\n", 503, headers={"Retry-After": "10"})


async def _node(page_content: PageContent, request: Request) -> Response:
    try:
        return page_files.fresh_json(page_content.node(request.path_params["name"]))
    except UnknownObject as error:
        return PlainTextResponse(f"{error}\n", 404)


async def _pods(page_content: PageContent, request: Request) -> Response:
    text = request.query_params.get("find", "").strip()
    if not 0 < len(text) <= _MAX_QUERY_LENGTH:
        return PlainTextResponse(f"find: expected 1 to {_MAX_QUERY_LENGTH} characters\n", 400)
    found: list[str] = []
    try:
        for some in page_content.find(text):
            found += some
            if len(found) > MAX_FOUND:
                break
            await asyncio.sleep(0)
    except WharfingerError as error:
        return PlainTextResponse(f"{error}\n", 503)
    return page_files.fresh_json({"pods": found[:MAX_FOUND], "more": len(found) > MAX_FOUND})


async def _objects(_request: Request, body: bytes) -> Response:
    """The objects of a text, for a question about them. A page of another site cannot send this content type unasked."""
    try:
        found = await asyncio.to_thread(lambda: list(yaml_text.parse_yaml(body, unique_keys=True)))
        return page_files.fresh_json({"objects": found})
    except (decode.NotReadable, TypeError) as error:  # TypeError: a key that JSON does not have
        return PlainTextResponse(f"{error}\n", 400)
