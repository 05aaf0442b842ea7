"""A proxy in front of the API server that misbehaves on demand.

    with Proxy(cluster) as proxy:
        …a client with proxy.kubeconfig…
        proxy.add(Answer(status=429, retry_after=1), method="POST", path="/binding$", times=20)
        proxy.cut(watches=True, every=1.0)

It speaks TLS with the API server's own certificate, so that clients notice no difference. It runs in a thread with its own loop; a test
calls it from outside. Every request is written down in `seen`, with the status that the client was given (0: none).
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Self

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, TCPConnector, web

from tests.cluster.control_plane import ControlPlane
from tests.cluster.misbehaviour import Action, Answer, Delay, Fault, Hold, Lose, Rewrite

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "host"}
REASONS = {401: "Unauthorized", 409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
MAX_BODY = 16 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A request: its time (monotonic), its content and its result."""

    method: str
    path: str
    watch: bool
    status: int = 0
    at: float = field(default_factory=time.monotonic)
    body: bytes = b""


class Proxy:
    """The proxy as a context manager. `port` and `kubeconfig` lead to it."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._open: dict[asyncio.Task[Any], tuple[web.Request, bool]] = {}
        self._cutters: list[asyncio.Task[None]] = []
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.faults: tuple[Fault, ...] = ()
        self.revoked: tuple[str, ...] = ()
        self.seen: list[Exchange] = []
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._start())
        self.kubeconfig = self._cluster.write_kubeconfig(f"kubeconfig-{self.port}", self.port)
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ── what a test does ──

    def add(
        self,
        action: Action,
        *,
        method: str | None = None,
        path: str = "",
        watch: bool | None = None,
        every: int = 1,
        times: int | None = None,
    ) -> Fault:
        """The fault, in force from now on; its `done` counts. `path` is a regular expression searched in the path without the query."""
        fault = Fault(action=action, method=method, path=re.compile(path), watch=watch, every=every, times=times)
        self.faults = (*self.faults, fault)
        return fault

    def revoke(self, token: str) -> None:
        """Requests that bear the token are refused from now on. Watches that have begun continue."""
        self.revoked = (*self.revoked, token)

    def clear(self) -> None:
        """Ends all faults."""
        self.faults = ()
        self._call(self._mend())

    def cut(self, *, watches: bool = False, every: float | None = None, longer: float = 1.0) -> None:
        """Breaks all connections, or those of watches, that are in use: now, and again `every` that many seconds.

        Each pause is `longer` than the one before by that factor: where all connections are cut, a busy machine may need more than the
        first for any answer at all.
        """
        self._call(self._cut(watches, every, longer))

    def freeze(self) -> None:
        """Half-open: connections stay open and nothing more comes out of them, until `thaw` or `clear`."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def thaw(self) -> None:
        """Sends what `freeze` held back, and lets data through again."""
        self._loop.call_soon_threadsafe(self._flowing.set)

    def strand(self) -> None:
        """Leaves connections half-open: answers that have begun never continue, without an error. New requests are answered."""
        self._loop.call_soon_threadsafe(self._strand)

    def count(self, test: Callable[[Exchange], bool]) -> int:
        """The number of such requests that were seen."""
        return sum(map(test, tuple(self.seen)))

    # ── in the loop ──

    def _strand(self) -> None:
        self._flowing.clear()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        upstream = ssl.create_default_context(cafile=str(self._cluster.certificate))
        connector = TCPConnector(ssl=upstream, limit=0)
        self._session = ClientSession(connector=connector, auto_decompress=False, timeout=ClientTimeout(total=None, sock_connect=10))
        application = web.Application(client_max_size=MAX_BODY)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        listening = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        listening.load_cert_chain(self._cluster.certificate, self._cluster.key)
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=listening)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        await self._mend()
        await self._cut(watches=False, every=None)
        await self._runner.cleanup()
        await self._session.close()
        await asyncio.sleep(0.25)  # transports of TLS take some rounds of the loop to close

    async def _mend(self) -> None:
        for cutter in self._cutters:
            cutter.cancel()
        await asyncio.gather(*self._cutters, return_exceptions=True)
        self._cutters.clear()
        self._flowing.set()

    async def _cut(self, watches: bool, every: float | None, longer: float = 1.0) -> None:
        for task, (request, is_watch) in list(self._open.items()):
            if is_watch or not watches:
                _break(request)
                task.cancel()
        if every is not None:
            self._cutters.append(asyncio.create_task(self._keep_cutting(watches, every, longer)))

    async def _keep_cutting(self, watches: bool, every: float, longer: float) -> None:
        while True:
            await asyncio.sleep(every)
            await self._cut(watches, None)
            every *= longer

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        exchange = Exchange(method=request.method, path=request.path, watch=request.query.get("watch", "") in ("1", "true"))
        self.seen.append(exchange)
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = (request, exchange.watch)
        try:
            return await self._answer(request, exchange)
        except (ClientError, ConnectionError):  # the API server or the client has disconnected
            _break(request)
            return web.Response(status=502)
        finally:
            del self._open[task]

    async def _answer(self, request: web.Request, exchange: Exchange) -> web.StreamResponse:
        exchange.body = body = await request.read()
        revoked = request.headers.get("Authorization", "").removeprefix("Bearer ") in self.revoked
        struck: list[Action] = [Answer(status=401)] if revoked else []
        struck += [fault.action for fault in self.faults if fault.strikes(exchange.method, exchange.path, exchange.watch)]
        for action in struck:
            if isinstance(action, Answer):
                exchange.status = 200 if action.in_stream else action.status
                return _failure(action)
            if isinstance(action, Delay) and not action.after:
                await asyncio.sleep(action.seconds)
            if isinstance(action, Hold):
                await action.wait()
        return await self._forward(request, exchange, body, struck)

    async def _forward(self, request: web.Request, exchange: Exchange, body: bytes, struck: list[Action]) -> web.StreamResponse:
        url = f"https://127.0.0.1:{self._cluster.port}{request.raw_path}"
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        async with self._session.request(request.method, url, headers=headers, data=body or None) as upstream:
            for action in struck:
                if isinstance(action, Delay) and action.after:
                    await asyncio.sleep(action.seconds)
                if isinstance(action, Lose):
                    await upstream.read()
                    raise ConnectionResetError("the answer is lost")
            exchange.status = upstream.status
            dropped = HOP_BY_HOP | ({"content-length"} if any(isinstance(action, Rewrite) for action in struck) else set())
            kept = {name: value for name, value in upstream.headers.items() if name.lower() not in dropped}
            answer, flowing = web.StreamResponse(status=upstream.status, headers=kept), self._flowing
            await flowing.wait()
            await answer.prepare(request)
            async for chunk in _content(upstream, struck):
                await flowing.wait()
                await answer.write(chunk)
            await answer.write_eof()
            return answer


async def _content(upstream: ClientResponse, struck: list[Action]) -> AsyncIterator[bytes]:
    rewrites = [action.line for action in struck if isinstance(action, Rewrite)]
    if not rewrites:
        async for chunk in upstream.content.iter_any():
            yield chunk
        return
    rest = b""
    async for chunk in upstream.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield reduce(lambda text, rewrite: rewrite(text), rewrites, line) + b"\n"
    if rest:
        yield reduce(lambda text, rewrite: rewrite(text), rewrites, rest)


def _failure(action: Answer) -> web.Response:
    reason = action.reason or REASONS.get(action.status, "Unknown")
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "injected by a test", "reason": reason}
    status["code"] = action.status
    if action.in_stream:
        return web.Response(text=json.dumps({"type": "ERROR", "object": status}) + "\n", content_type="application/json")
    headers = {"Retry-After": str(action.retry_after)} if action.retry_after is not None else {}
    return web.Response(status=action.status, text=json.dumps(status), content_type="application/json", headers=headers)


def _break(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
