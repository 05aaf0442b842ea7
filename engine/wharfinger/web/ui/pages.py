"""The live page: its routes, its files, and the streams of server-sent events.

/ui                    the page
/ui/static/<file>      its files
/ui/events?coloring=…     its data in a colouring of the nodes, as server-sent events; ?namespace=…&result=…&policy=… choose pods
/ui/nodes/<name>       one node, as JSON
/ui/objects            POST: the objects of a YAML or JSON text, as JSON
/ui/pods?find=…        the pods that have a text in their names, as JSON

Unless `remoteUi` is set, the page answers this machine only, and only for an address or `localhost` as host name: a page of another site
cannot read it through a name that points here. What a browser may run is in `page_files`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.model.reading import decode, yaml_text
from wharfinger.web import page_files
from wharfinger.web.decisions import RESULTS
from wharfinger.web.page_files import HEADERS
from wharfinger.web.requests import Answer, disconnected, with_body
from wharfinger.web.ui.feed import Feed, TooMany, Watcher
from wharfinger.web.ui.page_content import PageContent, PodQuery

MAX_FOUND = 30
"""Most pods that a search lists."""
MAX_TEXT_BYTES = 2**18
"""Bytes of a text with objects."""
RETRY_MILLISECONDS = 2000
"""Milliseconds after which a browser whose connection has ended comes back."""

FIRST_COLORING = "cpu"
"""The colouring of the nodes at first."""

_MAX_QUERY_LENGTH = 600  # characters of a prefix, a namespace and a name


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
        while piece := await self._watcher.next():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            del piece
            await asyncio.sleep(0)  # other work comes between: a connection whose buffer is empty takes the next piece at once
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
    except decode.NotReadable as error:
        return PlainTextResponse(f"{error}\n", 400)
    except TypeError:  # of the encoder of JSON
        return PlainTextResponse("a key is neither text nor a number; write it in quotes\n", 400)
