"""What all routes ask of a request: who sends it, of which media type its body is, and how long that is; and how failures are answered.

Routes that tell of all namespaces are for clients on this machine, until a setting opens them. A browser here could be led to them by a
page of another site, under a host name of that site; so the host name has to be an address or `localhost`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from wharfinger.errors import InvalidObject, UnknownObject, UsageError, WharfingerError

Answer = Callable[[Request], Awaitable[Response]]
TRY_LATER = 503
"""The status that asks for the same request later."""

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[0-9a-z.]+)(:[0-9]{0,5})?")


def with_body(media_type: str, most: int, answer: Callable[[Request, bytes], Awaitable[Response]], called: str = "body") -> Answer:
    """The answer to a request with its body, of this media type and of at most `most` bytes; `called` names the body in a refusal."""

    async def asked(request: Request) -> Response:
        if not _has_type(request, media_type):
            return refusal(f"the body has to be {media_type}", 415)
        body = await _body_of(request, most)
        if body is None:
            return refusal(f"the {called} is longer than {most:,} bytes", 413)
        return await answer(request, body)

    return asked


def refusal(sentence: str, status: int) -> Response:
    """A sentence as the answer of this status."""
    return PlainTextResponse(f"{sentence}\n", status, headers={"X-Content-Type-Options": "nosniff"})


def readable_json(found: object) -> Response:
    """Values as JSON that people can read, with a line end for terminals."""
    return Response(msgspec.json.format(msgspec.json.encode(found)) + b"\n", media_type="application/json")


def status_of(error: WharfingerError) -> int:
    """The status of the answer to what could not be done: 404 for what is not there, 400 for what makes no sense, else 503, for later."""
    if isinstance(error, UnknownObject):
        return 404
    return 400 if isinstance(error, UsageError | InvalidObject) else TRY_LATER


def _has_type(request: Request, media_type: str) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == media_type


async def _body_of(request: Request, most: int) -> bytes | None:
    """The body of a request; None if it has more than `most` bytes, of which no more are read."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return bytes(body)


def guarded(answer: Answer, setting: str) -> Answer:
    """The same answer for clients on this machine, for others a refusal that names the setting."""

    async def asked(request: Request) -> Response:
        return await answer(request) if is_ours(request) else not_ours(request, setting)

    return asked


def not_ours(request: Request, setting: str | None) -> Response:
    """The refusal of a request from another machine or for another host name; `setting` allows it, None if nothing does."""
    client = request.client.host if request.client else "an unknown address"
    host = request.headers.get("host", "")
    allowing = " (kubectl port-forward does)" + f", or set `{setting}: true`" if setting else ""
    sentence = (
        f"only for the machine itself, and this was asked from {client} for {host!r}; "
        f"ask there for http://127.0.0.1 or http://localhost{allowing}"
    )
    return refusal(sentence, 403)


def is_ours(request: Request) -> bool:
    """True if the client is on this machine and used an address or `localhost` as the host name, which no other site can point here."""
    return _is_own_name(request.headers.get("host")) and is_near(request.scope.get("client"))


def _is_own_name(host: str | None) -> bool:
    """True if a Host header is an IP address or localhost, or absent; browsers always send one."""
    if host is None:
        return True
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return False
    try:
        ipaddress.ip_address(found["name"].strip("[]"))
    except ValueError:
        return found["name"] == "localhost"
    return True


def is_near(client: tuple[str, int] | None) -> bool:
    """True if a client's address is a loopback address; an unknown address is not."""
    try:
        address = ipaddress.ip_address(client[0] if client else "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
