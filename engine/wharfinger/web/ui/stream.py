"""Server-sent events to one watcher, until one of both has enough."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wharfinger.web.ui.feed import Feed, Watcher

RETRY = 2000
"""Milliseconds after which a browser whose connection has ended comes back."""


class EventStream(Response):
    """The answer to a watcher of a feed; it ends with the connection, or when the watcher is let go."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, watcher: Watcher, headers: Mapping[str, str]) -> None:
        self._feed = feed
        self._watcher = watcher
        self.status_code = 200
        self.background = None
        self.init_headers({**headers, "Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 — as every ASGI application
        """None, when the stream has ended. For who is let go and reads nothing, that is when the server ends the connection."""
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_left(receive))
        letting_go = asyncio.ensure_future(self._watcher.ended())
        work = {sending, leaving, letting_go}
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
        await send({"type": "http.response.body", "body": f"retry: {RETRY}\n\n".encode(), "more_body": True})
        while content := await self._watcher.next():
            await send({"type": "http.response.body", "body": content, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    """None, when whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
