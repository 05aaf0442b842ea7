"""Small requests with small answers, at a fraction of what a general client costs.

A scheduler's requests are all alike: a few hundred bytes over a connection that stays open, answered by a few hundred bytes, thousands of
times in a row. There a client for everything spends most of its time on what does not occur (docs/decisions/0007). Lists, watches and
whatever goes through a proxy are aiohttp's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import cast

from yarl import URL

from wharfinger.kube.http_answer import Answer, AnswerReader
from wharfinger.kube.sockets import notice_silence

_IDLE = 60.0  # seconds after which an unused connection may be one that the server is just closing
_FAREWELL = 1.0


Condition = Callable[[], None]
"""Raises when a request must not be sent any more."""


def no_condition() -> None:
    """Is no condition."""


class Exchanges:
    """Connections to one server. How many there are is up to the caller: there is one for each request that is under way.

    `tls` is asked for each connection: what is trusted may change.
    """

    def __init__(
        self, server: str, tls: Callable[[], ssl.SSLContext | None], server_name: str | None, connect_timeout: float, head: str
    ) -> None:
        url = URL(server)
        self._host, self._port = url.host or "", url.port or 443
        self._prefix = url.raw_path.rstrip("/")
        self._is_secure = url.scheme == "https"
        self._tls = tls
        self._server_name = server_name if self._is_secure else None
        self._connect_timeout = connect_timeout
        self._head = f" HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n{head}"
        self._idle: deque[_Channel] = deque()
        self._open: set[_Channel] = set()

    async def ask(  # noqa: PLR0913, PLR0917 — the parts of a request
        self,
        method: str,
        path: str,
        authorization: str | None,
        body: bytes,
        content_type: str,
        seconds: float,
        before: Condition = no_condition,
    ) -> Answer:
        """The answer. Raises OSError (TimeoutError, ConnectionError, ssl.SSLError) when none comes: what became of it is not known.

        Where a connection has to be made first, `before` is called once there is one: when that raises, nothing is sent.
        """
        if not path.isascii() or not path.isprintable() or " " in path:
            raise ValueError(f"not a path: {path!r}")
        credentials = "" if authorization is None else f"Authorization: {authorization}\r\n"
        head = f"{method} {self._prefix}{path}{self._head}{credentials}Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        async with asyncio.timeout(seconds):
            channel = self._idle_one() or await self._connect(before)
            asked_at = asyncio.get_running_loop().time()
            try:
                answer = await channel.ask(head.encode("latin-1") + body)
            except BaseException:
                channel.abort()  # whatever comes now would be taken for the answer to the next request
                self._distrust(asked_at)
                raise
        if answer.ends_connection:
            channel.abort()
        else:
            self._idle.append(channel)
        return answer

    async def close(self) -> None:
        """None, once all connections are closed."""
        self._idle.clear()
        gone = [channel.gone for channel in self._open]
        for channel in tuple(self._open):
            channel.abort()
        if gone:
            await asyncio.wait(gone, timeout=_FAREWELL)

    def _idle_one(self) -> _Channel | None:
        """The connection that was used last; those that were idle for long are not trusted."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            channel = self._idle.pop()
            if channel.is_open and now - channel.used_at < _IDLE:
                return channel
            channel.abort()
        return None

    def _distrust(self, asked_at: float) -> None:
        """None; where one connection gives no answer, those that have given none since may be dead as well."""
        for channel in [each for each in self._idle if each.used_at < asked_at]:
            self._idle.remove(channel)
            channel.abort()

    async def _connect(self, before: Condition) -> _Channel:
        loop = asyncio.get_running_loop()
        tls = (self._tls() or ssl.create_default_context()) if self._is_secure else None
        async with asyncio.timeout(self._connect_timeout):
            _, made = await loop.create_connection(
                lambda: _Channel(loop), self._host, self._port, ssl=tls, server_hostname=self._server_name
            )
        self._open.add(made)
        made.gone.add_done_callback(lambda _: self._open.discard(made))
        try:
            before()
        except BaseException:
            self._idle.append(made)
            raise
        return made


class _Channel(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reader = AnswerReader()
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self.gone: asyncio.Future[None] = loop.create_future()
        self.used_at = loop.time()

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Answer:
        """The answer to a request."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._waiting = self._loop.create_future()
        self._transport.write(request)
        return await self._waiting

    def abort(self) -> None:
        """None; the connection is closed at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        notice_silence(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if self._waiting is None:
            self.abort()  # an answer that nobody asked for
            return
        try:
            answer = self._reader.feed(data)
        except ConnectionError as error:
            self._fail(error)
            self.abort()
        else:
            if answer is not None:
                self._succeed(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None:
            try:
                self._succeed(self._reader.end())
            except ConnectionError as error:
                self._fail(exc if isinstance(exc, OSError) else error)
        if not self.gone.done():
            self.gone.set_result(None)

    def _succeed(self, answer: Answer) -> None:
        waiting, self._waiting = self._waiting, None
        self.used_at = self._loop.time()
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _fail(self, error: OSError) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)
