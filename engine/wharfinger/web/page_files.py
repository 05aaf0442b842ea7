"""The files of a page as a browser gets them: with tags, and with headers that let it run nothing but these files.

Labels, names, messages and policies on our pages come from others. So a page puts text into text nodes only, and its
Content-Security-Policy allows our own files alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from wharfinger.web.requests import Answer, is_local_request, remote_refusal

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

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}


class File(Struct, frozen=True):
    """A file of a page, with a tag that changes with its content."""

    content: bytes
    media_type: str
    tag: str


def files_of(package: str) -> Mapping[str, File]:
    """The files in the folder `static` of a package by name."""
    found = {}
    for file in (resources.files(package) / "static").iterdir():
        media_type = _TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None:
            content = file.read_bytes()
            found[file.name] = File(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found


def page(files: Mapping[str, File], name: str) -> Answer:
    """The answer that is always the same file."""

    async def answer(request: Request) -> Response:
        return _file(files[name], request)

    return answer


def static(files: Mapping[str, File]) -> Answer:
    """The answer to requests for the file that the path calls `name`."""

    async def answer(request: Request) -> Response:
        found = files.get(request.path_params["name"])
        return PlainTextResponse("there is no such file\n", 404) if found is None else _file(found, request)

    return answer


def _file(file: File, request: Request) -> Response:
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def guarded(answer: Answer, *, public: bool, setting: str | None = "remoteUi") -> Answer:
    """The same answer with the headers of a page; only this machine gets it, unless `public`, which `setting` decides."""

    async def wrapped(request: Request) -> Response:
        found = await answer(request) if public or is_local_request(request) else remote_refusal(request, setting)
        for name, value in HEADERS.items():
            found.headers.setdefault(name, value)
        return found

    return wrapped


def fresh_json(found: Any) -> Response:
    """Values for a page, as JSON that must not be cached."""
    return Response(msgspec.json.encode(found), media_type="application/json", headers={"Cache-Control": "no-store"})
