"""`/debug/profile?seconds=N`: what the thread of the event loop does for so many seconds, as the text of cProfile.

Everything that decides, watches and binds runs in that one thread. Being watched makes it slower, by a half or so while it lasts; hence the
limit, and one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import io
import pstats

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from wharfinger.web.connections import STOPPING

LONGEST = 60.0
"""Seconds."""
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
    """The functions that took most time, those they called included; of less time if whoever asked has gone, or the server stops."""
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
    """None, when whoever asked has gone, or the server stops."""
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
    """None, when whoever asked has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
