"""HTTP connections for small requests with small answers over TLS, at a fraction of what general clients cost.

A scheduler's requests are all alike: a few hundred bytes over a connection that stays open, answered by a few hundred bytes, thousands of
times in a row. A general client spends most of its time on cases that do not occur (docs/decisions/0007). Watches, the lists of a process
that watches, and everything that goes through a proxy use aiohttp. Answers are read as RFC 9112 has them.

TLS is bytes in and bytes out here. asyncio's TLS is a transport for any protocol: it limits what is buffered, negotiates the end, and
supports servers. For two small records it takes more time than OpenSSL does.

A burst of requests opens dozens of connections. A handshake with certificates costs as much as two requests, most of it on the server, so
later connections resume the TLS session of an earlier one (RFC 8446, 2.2). The first connection is opened alone for that. The others are
opened a few per turn of the event loop.
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import cast

from msgspec import Struct
from yarl import URL

_MAX_HEAD_BYTES = 64 * 1024
_MAX_BODY_BYTES = 64 * 2**20
_BODILESS = (204, 304)
_HEADERS = re.compile(rb"\r\n(content-length|transfer-encoding|connection|retry-after):([^\r]*)", re.IGNORECASE)
"""The headers that are read, with their values; an answer has ten others."""
_BUFFER = 2**16
_IDLE_SECONDS = 60.0  # seconds after which the server may be closing an unused connection
_CLOSE_TIMEOUT = 1.0
_FIRST_ALONE = 0.5  # seconds that other requests wait at most for the answer on the first connection
_OPENED_PER_TURN = 4
"""Connections that are begun in one turn of the event loop. Each takes about half a millisecond, and a burst of bindings needs dozens."""
_RECORD = 2**14
"""The most bytes that a record has (RFC 8446, 5.1); one `read` returns at most one record."""


def enable_keepalive(made: socket.socket) -> None:
    """Turn on keep-alive probes, so the socket detects within a minute that the peer is gone."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # not everywhere under these names
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class NotHttp(ConnectionError):
    """The bytes are not an HTTP answer."""


class Answer(Struct, frozen=True):
    """Status, body and the relevant headers. With `ends_connection` the connection cannot be used again."""

    status: int
    content: bytes
    retry_after: str | None
    ends_connection: bool


class AnswerReader:
    """Reads one answer after the other; at most one may be in flight."""

    __slots__ = ("_chunks", "_headers", "_next", "_rest", "_status")

    def __init__(self) -> None:
        self._rest: bytes | bytearray = b""
        self._chunks: list[bytes] = []  # of the answer whose head has been read
        self._next = 0  # where in the rest the next chunk begins
        self._status = 0  # of the answer whose head has been read
        self._headers: dict[bytes, bytes] = {}

    def feed(self, chunk: bytes) -> Answer | None:
        """The answer once it is complete, None before; raises NotHttp."""
        if not self._rest:
            self._rest = chunk
        else:
            if isinstance(self._rest, bytes):  # most answers come whole; a page of a list comes in hundreds of pieces
                self._rest = bytearray(self._rest)
            self._rest += chunk
        while not self._status:
            if not self._read_head():
                return None
        return self._read_body()

    def end(self) -> Answer:
        """The answer that ends with the connection; ConnectionError when it is not complete."""
        if not self._status or b"content-length" in self._headers or b"transfer-encoding" in self._headers:
            raise ConnectionError("the connection was closed")
        return self._answer(bytes(self._rest), b"")

    def _read_head(self) -> bool:
        """True if a head was read; the head of an interim answer (1xx) leaves the status at 0."""
        head, end, rest = bytes(self._rest).partition(b"\r\n\r\n")
        if not end:
            if len(head) > _MAX_HEAD_BYTES:
                raise NotHttp("an answer whose headers do not end")
            return False
        first = head.partition(b"\r\n")[0]
        if not first.startswith(b"HTTP/1.") or not first[9:12].isdigit():
            raise NotHttp(f"an answer that is no HTTP/1.1: {first[:80].decode('latin-1')}")
        status = int(first[9:12])
        self._rest = rest
        if status >= 200:
            self._status = status
            found = [(name.lower(), value.strip()) for name, value in _HEADERS.findall(head)]
            self._headers = dict(found)
            if len(found) > len(self._headers) and len({value for name, value in found if name == b"content-length"}) > 1:
                raise NotHttp("an answer with two different lengths")
            if first.startswith(b"HTTP/1.0"):
                self._headers.setdefault(b"connection", b"close")
        return True

    def _read_body(self) -> Answer | None:
        if self._status in _BODILESS:
            return self._answer(b"", bytes(self._rest))
        if self._headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            return self._read_chunks()
        stated = self._headers.get(b"content-length")
        if stated is None:
            return None  # it ends with the connection
        if not stated.isdigit() or int(stated) > _MAX_BODY_BYTES:
            raise NotHttp(f"an answer of {stated[:80].decode('latin-1')} bytes")
        length = int(stated)
        if len(self._rest) < length:
            return None
        return self._answer(bytes(self._rest[:length]), bytes(self._rest[length:]))

    def _read_chunks(self) -> Answer | None:
        """The answer if all chunks have arrived."""
        while True:
            end = self._rest.find(b"\r\n", self._next)
            if end < 0:
                return None
            try:
                length = int(bytes(self._rest[self._next : end]).partition(b";")[0], 16)
            except ValueError:
                raise NotHttp("an answer in chunks without a size") from None
            if length < 0:
                raise NotHttp(f"a chunk of {length} bytes")
            if length == 0:
                last = self._rest.find(b"\r\n\r\n", end)
                return None if last < 0 else self._answer(b"".join(self._chunks), bytes(self._rest[last + 4 :]))
            begin = end + 2
            if len(self._rest) < begin + length + 2:
                return None
            self._chunks.append(bytes(self._rest[begin : begin + length]))
            self._next = begin + length + 2

    def _answer(self, content: bytes, rest: bytes) -> Answer:
        headers, status = self._headers, self._status
        self._rest, self._status, self._headers = b"", 0, {}
        self._chunks, self._next = [], 0
        delimited = status in _BODILESS or b"content-length" in headers or b"transfer-encoding" in headers
        closing = headers.get(b"connection", b"").lower() == b"close"
        after = headers.get(b"retry-after")
        return Answer(
            status=status,
            content=content,
            retry_after=None if after is None else after.decode("latin-1"),
            ends_connection=bool(rest) or closing or not delimited,
        )


Condition = Callable[[], None]
"""Raises an exception if a request must not be sent any more."""


def no_condition() -> None:
    """Always allows sending."""


class HttpConnections:
    """Connections to one server, one for each request in flight; the caller limits their number.

    `tls` is called for each new connection: the trusted authorities may change. A session is resumed only with the context that it is of.
    """

    def __init__(
        self, server: str, tls: Callable[[], ssl.SSLContext | None], server_name: str | None, connect_timeout: float, head: str
    ) -> None:
        url = URL(server)
        self._host, self._port = url.host or "", url.port or 443
        self._prefix = url.raw_path.rstrip("/")
        self._is_secure = url.scheme == "https"
        self._tls = tls
        self._server_name = server_name or self._host
        self._connect_timeout = connect_timeout
        self._head = f" HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n{head}"
        self._loop = asyncio.get_running_loop
        self._timer: asyncio.TimerHandle | None = None
        self._expires_at = math.inf
        self._idle: deque[_Channel] = deque()
        self._open: set[_Channel] = set()
        self._first: asyncio.Future[None] | None = None  # done with the first answer, or failure
        self._turns = asyncio.Semaphore(_OPENED_PER_TURN)
        self._session: tuple[ssl.SSLContext, ssl.SSLSession] | None = None
        self._buffer = memoryview(bytearray(_BUFFER))  # for all connections: received bytes are parsed at once

    async def ask(  # noqa: PLR0913, PLR0917 — one parameter per part of the request
        self,
        method: str,
        path: str,
        authorization: str | None,
        body: bytes,
        content_type: str,
        seconds: float,
        before: Condition = no_condition,
    ) -> Answer:
        """The answer; OSError (TimeoutError, ConnectionError, ssl.SSLError) without one: the outcome is then unknown.

        If a connection has to be opened first, `before` is called after that: if it raises, nothing is sent.
        """
        if not path.isascii() or not path.isprintable() or " " in path:
            raise ValueError(f"not a path: {path!r}")
        credentials = "" if authorization is None else f"Authorization: {authorization}\r\n"
        head = f"{method} {self._prefix}{path}{self._head}{credentials}Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        request = head.encode("latin-1") + body
        now = self._loop().time()
        deadline = now + seconds
        channel = self._idle_one(now)
        if channel is not None:
            return await self._answer(channel, request, now, deadline)
        first = await self._first_alone(deadline)
        try:
            async with asyncio.timeout_at(deadline):
                async with self._turns:
                    await asyncio.sleep(0)
                channel = self._idle_one(self._loop().time()) or await self._connect()
            try:
                before()
            except BaseException:
                self._idle.append(channel)
                raise
            answer = await self._answer(channel, request, self._loop().time(), deadline)
            self._session = channel.new_session or self._session
            return answer
        finally:
            if first is not None:
                first.set_result(None)

    async def _answer(self, channel: _Channel, request: bytes, asked_at: float, deadline: float) -> Answer:
        """The answer to a request on a connection, which is idle or closed after that."""
        if deadline < self._expires_at:
            self._expire_at(deadline)
        try:
            answer = await channel.ask(request, deadline)
        except BaseException:
            channel.abort()  # a late answer would be taken for that of the next request
            self._close_unused_since(asked_at)
            raise
        if answer.ends_connection:
            channel.abort()
        else:
            self._idle.append(channel)
        return answer

    async def _first_alone(self, deadline: float) -> asyncio.Future[None] | None:
        """A future for the first request, which sets it when it has ended. Other requests wait until then and get None."""
        if self._first is None and self._is_secure:
            self._first = self._loop().create_future()
            return self._first
        if self._first is not None and not self._first.done():
            await asyncio.wait({self._first}, timeout=min(_FIRST_ALONE, deadline - self._loop().time()))
        return None

    async def close(self) -> None:
        """Close all connections."""
        self._idle.clear()
        if self._timer is not None:
            self._timer.cancel()
        gone = [channel.gone for channel in self._open]
        for channel in tuple(self._open):
            channel.abort()
        if gone:
            await asyncio.wait(gone, timeout=_CLOSE_TIMEOUT)

    def _expire_at(self, deadline: float) -> None:
        """End requests that have no answer at this time of the loop, before the time so far; one timer serves all connections."""
        if self._timer is not None:
            self._timer.cancel()
        self._expires_at = deadline
        self._timer = self._loop().call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer, self._expires_at = None, math.inf
        now = self._loop().time()
        for channel in tuple(self._open):
            channel.expire(now)
        following = min((channel.deadline for channel in self._open), default=math.inf)
        if following < math.inf:
            self._expire_at(following)

    def _idle_one(self, now: float) -> _Channel | None:
        """The connection used last; connections that were idle for long are closed."""
        while self._idle:
            channel = self._idle.pop()
            if channel.is_open and now - channel.used_at < _IDLE_SECONDS:
                return channel
            channel.abort()
        return None

    def _close_unused_since(self, asked_at: float) -> None:
        """Close idle connections unused since then: if one connection gets no answer, these may be dead as well."""
        for channel in [each for each in self._idle if each.used_at < asked_at]:
            self._idle.remove(channel)
            channel.abort()

    async def _connect(self) -> _Channel:
        loop = asyncio.get_running_loop()
        tls = None
        if self._is_secure:
            context = self._tls() or ssl.create_default_context()
            known = self._session
            tls = ClientTls(context, self._server_name, known[1] if known is not None and known[0] is context else None)
        async with asyncio.timeout(self._connect_timeout):
            _, made = await loop.create_connection(lambda: _Channel(loop, tls, self._buffer), self._host, self._port)
            self._open.add(made)
            made.gone.add_done_callback(lambda _: self._open.discard(made))
            await made.ready()
        return made


class _Channel(asyncio.BufferedProtocol):
    """One connection, with one request at a time; `buffer` takes what is received, until it is read."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ClientTls | None, buffer: memoryview) -> None:
        self._loop = loop
        self._tls = tls
        self._buffer = buffer
        self._reader = AnswerReader()
        self._transport: asyncio.Transport | None = None
        self._ready: asyncio.Future[None] = loop.create_future()
        self._waiting: asyncio.Future[Answer] | None = None
        self.gone: asyncio.Future[None] = loop.create_future()
        self.used_at = loop.time()
        self.deadline = math.inf

    @property
    def is_open(self) -> bool:
        """True if a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def new_session(self) -> tuple[ssl.SSLContext, ssl.SSLSession] | None:
        """The TLS session of this connection with its context, if other connections can resume it; None if it resumes one itself."""
        return None if self._tls is None else self._tls.new_session

    async def ready(self) -> None:
        """Return after the handshake; OSError if it fails. A connection that is not waited for to the end is closed."""
        try:
            await self._ready
        except BaseException:
            self.abort()
            raise

    async def ask(self, request: bytes, deadline: float) -> Answer:
        """The answer to a request; `expire` ends it with TimeoutError at that time of the loop."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._waiting = self._loop.create_future()
        self.deadline = deadline
        if self._tls is None:
            self._transport.write(request)
        else:
            self._tls.encrypt(request)
            self._transport.write(self._tls.take())
        return await self._waiting

    def expire(self, now: float) -> None:
        """End the request if its deadline has come."""
        if self.deadline <= now:
            self._fail(TimeoutError())

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        enable_keepalive(transport.get_extra_info("socket"))
        if self._tls is None:
            self._ready.set_result(None)
        else:
            self._transport.write(self._tls.take())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 — part of the interface
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        received = self._buffer[:nbytes]
        if self._tls is None:
            self._read(bytes(received))
            return
        try:
            content = self._tls.decrypt(received)
        except ssl.SSLError as error:
            self._send(self._tls.take())  # the alert with the reason
            self._break_off(error)
            return
        if answered := self._tls.take():
            self._send(answered)
        if self._tls.is_ready and not self._ready.done():
            self._ready.set_result(None)
        if content:
            self._read(content)
        if self._tls.is_closed:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None:
            try:
                self._succeed(self._reader.end())
            except ConnectionError as error:
                self._fail(exc if isinstance(exc, OSError) else error)
        if not self._ready.done():
            self._ready.set_exception(exc if isinstance(exc, OSError) else ConnectionResetError("the connection was closed"))
        if not self.gone.done():
            self.gone.set_result(None)

    def _send(self, content: bytes) -> None:
        if content and self._transport is not None:
            self._transport.write(content)

    def _read(self, content: bytes) -> None:
        if self._waiting is None:
            self.abort()  # an answer without a request
            return
        try:
            answer = self._reader.feed(content)
        except ConnectionError as error:
            self._break_off(error)
        else:
            if answer is not None:
                self._succeed(answer)

    def _break_off(self, error: OSError) -> None:
        if self._ready.done():
            self._fail(error)
        else:
            self._ready.set_exception(error)
        self.abort()

    def _succeed(self, answer: Answer) -> None:
        waiting, self._waiting, self.deadline = self._waiting, None, math.inf
        self.used_at = self._loop.time()
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _fail(self, error: OSError) -> None:
        waiting, self._waiting, self.deadline = self._waiting, None, math.inf
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)


class ClientTls:
    """The TLS of one connection. `take` returns the bytes to send: at first those of the handshake, later those of the other calls.

    It resumes `session` if the server agrees. ssl.SSLError if the context allows no version or cipher.
    """

    __slots__ = ("_incoming", "_outgoing", "_tls", "is_closed", "is_ready")

    def __init__(self, context: ssl.SSLContext, server_name: str, session: ssl.SSLSession | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name, session=session)
        self.is_ready = False
        """True after the handshake: requests can be sent."""
        self.is_closed = False
        """True after the server has ended the connection."""
        self._handshake()

    @property
    def new_session(self) -> tuple[ssl.SSLContext, ssl.SSLSession] | None:
        """The context and the session if the server has sent a ticket for it; None if another session was resumed."""
        session = None if self._tls.session_reused else self._tls.session
        return None if session is None or not session.has_ticket else (self._tls.context, session)

    def decrypt(self, received: bytes | memoryview) -> bytes:
        """The decrypted bytes from the server, empty during the handshake or while a record is incomplete; raises ssl.SSLError."""
        self._incoming.write(received)
        if not self.is_ready:
            self._handshake()
        content = b""
        while self.is_ready and self._incoming.pending and not self.is_closed:
            try:
                part = self._tls.read(_RECORD)
            except ssl.SSLWantReadError:
                break
            self.is_closed = not part
            content = content + part if content else part
        return content

    def encrypt(self, content: bytes) -> None:
        """Encrypt bytes to send; call it after the handshake."""
        self._tls.write(content)

    def take(self) -> bytes:
        """The bytes to send now, often none."""
        return self._outgoing.read()

    def _handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        self.is_ready = True
