"""Limits the share of the event loop's time that HTTP requests may take.

Watching, deciding and binding share one thread with the web server. A few hundred connections with one request after the other could take
all of its time. So requests start at a limited rate after a burst, and computing answers takes at most a tenth of the time. Requests for
the same thing share one answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

INTERVAL = 0.005
"""Seconds between two requests when there are many: a request takes half a millisecond."""

BURST = 64
"""Requests that may start at once after a quiet time: a page with its files, probes, and several scrapes."""

PAUSE_RATIO = 9.0
"""The pause after an answer, as a multiple of the time that it took to compute."""

MAX_PAUSE = 2.0
"""Longest pause after computing an answer, in seconds."""

Answer = TypeVar("Answer")


class Pace:
    """The times at which requests may start: a burst, then at a fixed interval (generic cell rate algorithm)."""

    def __init__(self) -> None:
        self._next = 0.0

    def wait(self, now: float) -> float:
        """Seconds that a request which comes now has to wait."""
        self._next = max(self._next, now) + INTERVAL
        return max(0.0, self._next - now - BURST * INTERVAL)


class Paced:
    """An ASGI middleware that limits the rate at which requests start."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._pace = Pace()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers when it is the request's turn."""
        if scope["type"] == "http" and (seconds := self._pace.wait(asyncio.get_running_loop().time())):
            await asyncio.sleep(seconds)
        await self._app(scope, receive, send)


class Shared(Generic[Answer]):
    """Computes answers one at a time, with pauses; requests that wait for the same answer share it."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._free_at = 0.0
        self._wanted: dict[Hashable, asyncio.Task[Answer]] = {}

    async def answer(self, key: Hashable, compute: Callable[[], Answer]) -> Answer:
        """The result of a call of `compute` that begins after this call."""
        task = self._wanted.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._computed(key, compute))
            self._wanted[key] = task
            task.add_done_callback(_seen)
        return await asyncio.shield(task)

    async def _computed(self, key: Hashable, compute: Callable[[], Answer]) -> Answer:
        loop = asyncio.get_running_loop()
        try:
            async with self._turn:
                rest = self._free_at - loop.time()
                if rest > 0:
                    await asyncio.sleep(rest)
                self._wanted.pop(key, None)  # later requests want a newer answer
                began = loop.time()
                try:
                    return compute()
                finally:
                    took = loop.time() - began
                    self._free_at = loop.time() + min(MAX_PAUSE, PAUSE_RATIO * took)
        finally:
            if self._wanted.get(key) is asyncio.current_task():
                del self._wanted[key]


def _seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # raised in `answer`, if it still waits
