"""A scripted API server: every request is answered by the next step of a script, and remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(kw_only=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass(kw_only=True)
class Answer:
    """One answer: a status and a body, after `delay` seconds. `dropped` closes the connection instead."""

    status: int = 200
    body: Any = None
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    dropped: bool = False

    async def send(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self.delay)
        if self.dropped:
            request.transport.close()
            return web.Response()
        content = self.raw if self.raw is not None else json.dumps(self.body if self.body is not None else {}).encode()
        return web.Response(status=self.status, body=content, headers=self.headers, content_type="application/json")


@dataclass(kw_only=True)
class Stream:
    """A watch: lines one by one, then the end; `hang` sends nothing for that time, `cut` breaks the connection."""

    events: Sequence[Any] = ()
    hang: float = 0.0
    cut: bool = False

    async def send(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for event in self.events:
            line = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
            for start in range(0, len(line), 1000):  # lines come in pieces
                await answer.write(line[start : start + 1000])
        if self.hang:
            await asyncio.sleep(self.hang)
        if self.cut:
            request.transport.close()
        return answer


Step = Answer | Stream
QUIET = Stream(hang=30)


def refused(status: int, reason: str = "", message: str = "", **headers: str) -> Answer:
    """A Status with an HTTP status."""
    body = {"kind": "Status", "code": status, "reason": reason, "message": message or reason}
    return Answer(status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


class ScriptedServer:
    """Steps by (method, path); the last step of a script is repeated. A request without a script is a 404."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.address = ""
        self._scripts: dict[tuple[str, str], list[Step | Callable[[Seen], Step]]] = {}
        self._open: set[asyncio.Task[Any]] = set()

    def on(self, method: str, path: str, *steps: Step | Callable[[Seen], Step]) -> None:
        self._scripts[method, path] = list(steps)

    def requests(self, method: str = "", path: str = "") -> list[Seen]:
        return [seen for seen in self.seen if method in {"", seen.method} and path in {"", seen.path}]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ScriptedServer]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            for task in self._open:
                task.cancel()
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        self._open.add(task)
        try:
            return await self._next(await self._remember(request)).send(request)
        except ConnectionError:
            return web.Response()
        finally:
            self._open.discard(task)

    async def _remember(self, request: web.Request) -> Seen:
        content = await request.read()
        seen = Seen(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            body=json.loads(content) if content else None,
            headers=dict(request.headers),
        )
        self.seen.append(seen)
        return seen

    def _next(self, seen: Seen) -> Step:
        script = self._scripts.get((seen.method, seen.path))
        if not script:
            return refused(404, "NotFound", f"no script for {seen.method} {seen.path}")
        step = script.pop(0) if len(script) > 1 else script[0]
        return step(seen) if callable(step) else step
