"""The routes of the live page.

/ui                    the page
/ui/static/<file>      what it consists of
/ui/events?shade=…     what happens, as server-sent events
/ui/nodes/<name>       one node, as JSON

Labels, names and messages on the page come from anyone who may write to the cluster. So the page puts text into text nodes only, and its
Content-Security-Policy allows our own files alone. Unless `remoteUi` is set, the page answers this machine only, and only for an address or
`localhost` as host name: a page of another site cannot read it through a name that points here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from wharfinger.errors import UnknownObject
from wharfinger.web.debug import is_ours, not_ours
from wharfinger.web.ui.board import Board
from wharfinger.web.ui.feed import EventStream, Feed, TooMany

SOURCES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
}
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "; ".join(f"{directive} {allowed}" for directive, allowed in SOURCES.items()),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SHADE = "cpu"
"""The colouring of the nodes at first."""

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_LONGEST_SHADE = 600  # a prefix, a namespace and a name

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePage:
    """The data of the page, shown to this machine only, unless `to_anybody`."""

    board: Board
    feed: Feed
    to_anybody: bool = False


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page, with a tag that changes with its content."""

    content: bytes
    media_type: str
    tag: str


def routes(page: LivePage) -> list[Route]:
    """The routes."""
    files = _files()

    async def index(request: Request) -> Response:
        return _file(files["index.html"], request)

    async def static(request: Request) -> Response:
        found = files.get(request.path_params["name"])
        return PlainTextResponse("there is no such file\n", 404) if found is None else _file(found, request)

    async def events(request: Request) -> Response:
        coloring = request.query_params.get("shade", SHADE)
        if len(coloring) > _LONGEST_SHADE:
            return PlainTextResponse(f"shade: expected at most {_LONGEST_SHADE} characters\n", 400)
        if request.method == "HEAD":
            return Response(headers={"Content-Type": f"{EventStream.media_type}; charset=utf-8", "Cache-Control": "no-store"})
        try:
            return EventStream(page.feed, page.feed.join(coloring), HEADERS)
        except TooMany as error:
            return PlainTextResponse(f"{error}\n", 503, headers={"Retry-After": "10"})

    async def node(request: Request) -> Response:
        try:
            found = page.board.node(request.path_params["name"])
        except UnknownObject as error:
            return PlainTextResponse(f"{error}\n", 404)
        return Response(msgspec.json.encode(found), media_type="application/json", headers={"Cache-Control": "no-store"})

    async def slash(_request: Request) -> Response:
        return RedirectResponse("../ui", 308)

    found = {"/ui": index, "/ui/": slash, "/ui/static/{name}": static, "/ui/events": events, "/ui/nodes/{name:path}": node}
    return [Route(path, _guarded(answer, page)) for path, answer in found.items()]


def _guarded(answer: Answer, page: LivePage) -> Answer:
    async def guarded(request: Request) -> Response:
        if page.to_anybody or is_ours(request):
            found = await answer(request)
        else:
            found = not_ours(request, "remoteUi")
        for name, value in HEADERS.items():
            found.headers.setdefault(name, value)
        return found

    return guarded


def _file(file: File, request: Request) -> Response:
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _files() -> Mapping[str, File]:
    """The files of the page by name."""
    found = {}
    for file in (resources.files(__package__) / "static").iterdir():
        media_type = _TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None:
            content = file.read_bytes()
            found[file.name] = File(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found
