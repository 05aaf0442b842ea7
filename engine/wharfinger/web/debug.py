"""`/debug/…`: a CPU profile and the cache comparison, by default only for requests from this machine.

Profiles cost time and the cache names every pod of the cluster. `/debug/profile?seconds=N` profiles the thread of the event loop, where
everything decides, watches and binds. Profiling slows it by about a half, so there is a limit and only one profile at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import io
import ipaddress
import pstats
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wharfinger.errors import WharfingerError
from wharfinger.web.server import STOPPING

LONGEST = 60.0
"""Longest profile, in seconds."""
USUAL = 5.0
LINES = 100


class Profiling:
    """One profile at a time."""

    def __init__(self) -> None:
        self._busy = False

    @property
    def route(self) -> Route:
        """The route of `/debug/profile`."""
        return Route("/debug/profile", self._answer)

    async def _answer(self, request: Request) -> Response:
        seconds = _seconds(request.query_params.get("seconds"))
        if seconds is None:
            return PlainTextResponse(f"seconds: expected a number above 0 and up to {LONGEST:g}\n", 400)
        if self._busy:
            return PlainTextResponse("another profile is being taken; only one can be\n", 409)
        self._busy = True
        try:
            return PlainTextResponse(await _profiled(seconds, request))
        finally:
            self._busy = False


def _seconds(text: str | None) -> float | None:
    try:
        seconds = USUAL if text is None else float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds <= LONGEST else None


async def _profiled(seconds: float, request: Request) -> str:
    """The functions by cumulative time. Profiling ends early if the client has gone or the server stops."""
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _left_or_stopping(request)
    finally:
        profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats(pstats.SortKey.CUMULATIVE).print_stats(LINES)
    return text.getvalue()


async def _left_or_stopping(request: Request) -> None:
    """Waits until the client has gone or the server stops."""
    stopping: asyncio.Event | None = request.scope.get("state", {}).get(STOPPING)
    waits = [asyncio.ensure_future(_left(request))]
    if stopping is not None:
        waits.append(asyncio.ensure_future(stopping.wait()))  # type: ignore[arg-type]  # what it returns does not matter
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _left(request: Request) -> None:
    """Waits until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


CacheReport = Callable[[], Awaitable[Mapping[str, Any]]]
"""The differences between the cache and the API server as plain values; WharfingerError if it cannot be asked."""

Answer = Callable[[Request], Awaitable[Response]]

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[0-9a-z.]+)(:[0-9]{0,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Debug:
    """What is served under `/debug`: only to this machine, unless `from_anywhere`."""

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
        """Answers 403, or passes the request on."""
        answer = self._refusal(Request(scope)) if scope["type"] == "http" and scope["path"].startswith("/debug/") else None
        await (self._app if answer is None else answer)(scope, receive, send)

    @staticmethod
    def _refusal(request: Request) -> Response | None:
        if not is_ours(request):
            return not_ours(request, "remoteDebugging")
        if request.headers.get("sec-fetch-site") == "cross-site":  # it could not read the answer, but let the process profile itself
            return PlainTextResponse("not for pages of other sites; open it by its own address\n", 403)
        return None


def has_type(request: Request, media_type: str) -> bool:
    """True if the body of a request says that it is of this media type."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == media_type


async def body_of(request: Request, most: int) -> bytes | None:
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


def not_ours(request: Request, setting: str) -> Response:
    """The refusal of a request from another machine or for another host name; `setting` allows it."""
    client = request.client.host if request.client else "an unknown address"
    host = request.headers.get("host", "")
    sentence = (
        f"only for the machine itself, and this was asked from {client} for {host!r}; "
        f"ask there for http://127.0.0.1 or http://localhost (kubectl port-forward does), or set `{setting}: true`\n"
    )
    return PlainTextResponse(sentence, 403, headers={"X-Content-Type-Options": "nosniff"})


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
