"""`/debug/…`: a look inside. Not for everybody: profiles cost time and the cache names every pod of the cluster."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wharfinger.errors import WharfingerError
from wharfinger.web.profile import Profiling

CacheReport = Callable[[], Awaitable[Mapping[str, Any]]]
"""How what is known of the cluster differs from what the API server says now, as plain values; WharfingerError when it cannot be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Debug:
    """What can be looked at. Only from this machine, unless `from_anywhere`."""

    cache: CacheReport | None = None
    from_anywhere: bool = False


def routes(debug: Debug) -> list[Route]:
    """The routes of `/debug/profile` and, where there is a cache, `/debug/cache`."""
    found = [Profiling().route]
    if debug.cache is not None:
        found.append(Route("/debug/cache", _cache_answer(debug.cache)))
    return found


def _cache_answer(report: CacheReport) -> Callable[[Request], Awaitable[Response]]:
    async def cache(_request: Request) -> Response:
        try:
            found = await report()
        except WharfingerError as error:
            return PlainTextResponse(f"cannot compare: {error}\n", 503)
        return Response(msgspec.json.format(msgspec.json.encode(found)) + b"\n", media_type="application/json")

    return cache


class Nearby:
    """An ASGI middleware that lets `/debug/…` be asked from this machine only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """None; answers 403 itself, or hands on."""
        if scope["type"] == "http" and scope["path"].startswith("/debug/") and not is_ours(Request(scope)):
            await PlainTextResponse("only from the machine itself, unless the configuration says otherwise\n", 403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def is_ours(request: Request) -> bool:
    """Whether who asks is on this machine, and by a name for it that nobody else can give away."""
    host = request.url.hostname or ""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        if host != "localhost":
            return False
    return is_near(request.scope.get("client"))


def is_near(client: tuple[str, int] | None) -> bool:
    """Whether a client's address is a loopback one; not knowing it counts as far away."""
    try:
        address = ipaddress.ip_address(client[0] if client else "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
