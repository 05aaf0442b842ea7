"""`/debug/…`: a CPU profile and the cache comparison, by default only for requests from this machine.

Profiles cost time and the cache names every pod of the cluster. `/debug/profile?seconds=N` profiles the thread of the event loop, where
everything decides, watches and binds. Profiling slows it by about a half, so there is a limit and only one profile at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import io
import pstats
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wharfinger.errors import WharfingerError
from wharfinger.web.requests import is_ours, not_ours
from wharfinger.web.server import STOPPING

MAX_PROFILE_SECONDS = 60.0
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
            return PlainTextResponse(f"seconds: expected a number above 0 and up to {MAX_PROFILE_SECONDS:g}\n", 400)
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
    return seconds if 0 < seconds <= MAX_PROFILE_SECONDS else None


async def _profiled(seconds: float, request: Request) -> str:
    """The functions by cumulative time. Profiling ends early if the client disconnects or the server stops."""
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
    """Waits until the client disconnects or the server stops."""
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
    """Waits until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


CacheReport = Callable[[], Awaitable[Mapping[str, Any]]]
"""The differences between the cache and the API server as plain values; WharfingerError if it cannot be read."""


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
    """An ASGI middleware that allows `/debug/…` from this machine only."""

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
