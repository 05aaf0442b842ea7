"""The connection to an API server: bytes in, bytes out, and whether the server answers.

Requests share a bounded pool of connections. Watches, which hold theirs for minutes, have connections of their own, so they never delay a
binding. Writes use light connections of their own (`http_connections`), reads use aiohttp. Answers are raw bytes: the caller
decodes them straight into the structs of the model.

Every response counts as contact, also an error, unless it is a failure of the server (5xx), which proxies return for absent servers.
Watches may be silent for minutes, so a process without a response for a while requests the version.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode
from weakref import WeakSet

import aiohttp
from msgspec import Struct
from yarl import URL

from wharfinger.emit import Emit, ignore
from wharfinger.kube import api_errors
from wharfinger.kube.credentials import Credentials
from wharfinger.kube.http_connections import Condition, HttpConnections, enable_keepalive, no_condition

if TYPE_CHECKING:
    from wharfinger.framework.ports import Clock

UNREACHABLE_AFTER = 15.0
"""Seconds without an answer after which the server counts as unreachable."""
CHECK_AFTER_SECONDS = 5.0
"""Seconds without an answer after which the version is requested; also the timeout of that request."""


class ServerContact:
    """The time of the last answer of the API server, and the failure of the requests since."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._answered_at = monotonic()
        self._failure = ""

    def record(self, status: int, failure: str = "") -> None:
        """Record the end of a request: its HTTP status, or 0 and the failure."""
        if 0 < status < 500:
            self._answered_at, self._failure = self._monotonic(), ""
        else:
            self._failure = failure or f"HTTP status {status}"

    @property
    def seconds_since_answer(self) -> float:
        """Seconds since the last answer."""
        return self._monotonic() - self._answered_at

    @property
    def unreachable_reason(self) -> str | None:
        """The reason why the server counts as unreachable; None while it is reachable."""
        if self.seconds_since_answer < UNREACHABLE_AFTER:
            return None
        return f"no answer for {self.seconds_since_answer:.0f} s{self._failure and ': '}{self._failure}"


async def keep_checking_server(connection: Connection, clock: Clock) -> None:
    """Request the version whenever no other request was answered recently; never returns."""
    while True:
        await clock.sleep(max(CHECK_AFTER_SECONDS - connection.contact.seconds_since_answer, 1.0))
        if connection.contact.seconds_since_answer >= CHECK_AFTER_SECONDS:
            try:
                await connection.request("GET", "/version", timeout=CHECK_AFTER_SECONDS, urgent=True)
            except api_errors.ApiError:
                continue  # the contact has recorded it


_MAX_LINE_BYTES = 64 * 2**20  # bytes; objects in etcd are far smaller


async def whole_lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines of any length; Unreachable if the stream ends in the middle of a line."""
    rest: list[bytes] = []
    length = 0
    async for chunk in content.iter_any():
        head, *more = chunk.split(b"\n")
        rest.append(head)
        length += len(head)
        if length > _MAX_LINE_BYTES:
            raise api_errors.Unreachable("a watch that sends no end of line")
        if not more:
            continue
        yield b"".join(rest)
        for line in more[:-1]:
            yield line
        rest, length = [more[-1]], len(more[-1])
    if length:
        raise api_errors.Unreachable("a watch that ended in the middle of an event")


JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_CLOSE_TIMEOUT = 1.0  # seconds that open connections have to end when everything is closed
_POLL_SECONDS = 0.01
_BROKEN = (aiohttp.ClientError, TimeoutError, ConnectionError, OSError)


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of a connection; times in seconds.

    `watch_silence` is how long a watch may say nothing before a new one takes its place: the API server sends a bookmark every minute.
    """

    connections: int = 64
    connect_timeout: float = 5.0
    request_timeout: float = 30.0
    watch_silence: float = 90.0


class _Request(Struct, frozen=True, kw_only=True):
    """A request; `seconds` is the timeout of the whole exchange."""

    method: str
    path: str
    params: Mapping[str, str] | None
    body: bytes | None
    content_type: str
    seconds: float
    before: Condition


class RequestAnswered(Struct, frozen=True):
    """A request has ended: the status of the answer (0 without one), and the seconds it took (None for watches)."""

    method: str
    status: int
    seconds: float | None


class Connection:
    """Requests to one API server, with credentials that renew themselves."""

    def __init__(
        self, credentials: Credentials, limits: Limits | None = None, *, user_agent: str = "wharfinger", emit: Emit = ignore
    ) -> None:
        self.credentials = credentials
        self.limits = limits or Limits()
        self._emit = emit
        self.contact = ServerContact()
        self._user_agent = user_agent
        self._slots = asyncio.Semaphore(self.limits.connections)
        self._writes: HttpConnections | None = None
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()

    async def __aenter__(self) -> Self:
        await self.credentials.load()
        self._writes = self._exchanges()
        self._requests = self._session()
        self._watches = self._session()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for session in (self._writes, self._requests, self._watches):
            if session is not None:
                await session.close()
        await self._see_sockets_closed()

    async def request(  # noqa: PLR0913 — one parameter per part of the request
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 — of the exchange with the server
        urgent: bool = False,
        before: Condition = no_condition,
    ) -> bytes:
        """The body of the answer; ApiError unless it is a success.

        After a 401 the request is repeated once if the credentials have changed.

        Requests wait for a free connection, unless they are `urgent`. `before` is called right before sending: if it raises, nothing is
        sent.
        """
        seconds = timeout or self.limits.request_timeout
        request = _Request(method=method, path=path, params=params, body=body, content_type=content_type, seconds=seconds, before=before)

        refused = await self.credentials.authorization()
        try:
            return await self._request(request, refused, urgent)
        except api_errors.Unauthorized:
            if not await self.credentials.renew(refused):
                raise
        return await self._request(request, await self.credentials.authorization(), urgent)

    @asynccontextmanager
    async def lines(self, path: str, params: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of a watch as they arrive, until the server ends it; Unreachable if the connection breaks, SilentWatch in silence."""
        authorization = await self.credentials.authorization()
        timeout = aiohttp.ClientTimeout(
            total=None, connect=self.limits.request_timeout, sock_connect=self.limits.connect_timeout, sock_read=self.limits.watch_silence
        )
        status = 0
        try:
            headers = _headers(authorization)
            async with self._sent(self._watches, "GET", path, params=params, headers=headers, timeout=timeout) as answer:
                status = answer.status
                self._emit(RequestAnswered("GET", status, None))
                self.contact.record(status)
                if not api_errors.is_success(status):
                    raise api_errors.of_answer("GET", path, status, await answer.read(), answer.headers.get("Retry-After"))
                yield whole_lines(answer.content)
        except _BROKEN as error:
            if status and isinstance(error, TimeoutError):
                raise api_errors.SilentWatch(f"GET {path}: the watch has sent nothing for {self.limits.watch_silence:g} s") from error
            self._reload_if_untrusted(error)
            raise self._recorded_failure(_unreachable("GET", path, error)) from error
        except api_errors.Unauthorized:
            await self.credentials.renew(authorization)
            raise

    async def _request(self, request: _Request, authorization: str | None, urgent: bool) -> bytes:
        """The body of the answer, after waiting for a free connection unless the request is `urgent`."""
        if urgent:
            request.before()
            return await self._exchange(request, authorization)
        await self._slots.acquire()
        try:
            request.before()
            return await self._exchange(request, authorization)
        finally:
            self._slots.release()

    async def _exchange(self, request: _Request, authorization: str | None) -> bytes:
        status, began = 0, time.monotonic()
        try:
            if request.body is None or self._writes is None:
                status, content, retry_after = await self._read(request, authorization)
            else:
                path = f"{request.path}?{urlencode(request.params)}" if request.params else request.path
                parts = request.method, path, authorization, request.body, request.content_type, request.seconds, request.before
                answer = await self._writes.ask(*parts)
                status, content, retry_after = answer.status, answer.content, answer.retry_after
        except _BROKEN as error:
            self._reload_if_untrusted(error)
            raise self._recorded_failure(_unreachable(request.method, request.path, error)) from error
        finally:
            self._emit(RequestAnswered(request.method, status, time.monotonic() - began))
        self.contact.record(status)
        if not api_errors.is_success(status):
            raise api_errors.of_answer(request.method, request.path, status, content, retry_after)
        return content

    def _recorded_failure(self, error: api_errors.Unreachable) -> api_errors.Unreachable:
        """The error, recorded as a lost contact."""
        self.contact.record(0, str(error))
        return error

    async def _read(self, request: _Request, authorization: str | None) -> tuple[int, bytes, str | None]:
        """(status, body, Retry-After) of the answer to any request."""
        headers = _headers(authorization)
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        timeout = aiohttp.ClientTimeout(total=request.seconds, sock_connect=self.limits.connect_timeout)
        condition = _BEFORE_SENDING.set(request.before)
        try:
            own = {"params": request.params, "data": request.body, "headers": headers, "timeout": timeout}
            async with self._sent(self._requests, request.method, request.path, **own) as answer:
                return answer.status, await answer.read(), answer.headers.get("Retry-After")
        finally:
            _BEFORE_SENDING.reset(condition)

    def _sent(
        self, session: aiohttp.ClientSession | None, method: str, path: str, **own: Any
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """A context with the answer to a request to this server; `own` are further arguments of aiohttp."""
        return _opened(session).request(
            method,
            self._url(path),
            server_hostname=self.credentials.server_name,
            ssl=self.credentials.tls or True,
            proxy=self.credentials.proxy,
            allow_redirects=False,
            **own,
        )

    def _reload_if_untrusted(self, error: Exception) -> None:
        if isinstance(error, ssl.SSLCertVerificationError | aiohttp.ClientConnectorCertificateError):
            self.credentials.reload_soon()

    async def _see_sockets_closed(self) -> None:
        """Wait until aborted TLS connections have sent their close, for which the event loop has to run a little longer."""
        for _ in range(round(_CLOSE_TIMEOUT / _POLL_SECONDS)):
            if all(each.fileno() < 0 for each in self._sockets):
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = socket.socket(*address[:3])
        enable_keepalive(made)
        self._sockets.add(made)
        return made

    def _url(self, path: str) -> URL:
        return URL(self.credentials.server + path, encoded=True)  # names of Kubernetes need no quoting

    def _exchanges(self) -> HttpConnections | None:
        """The connections for writes; None behind a proxy, where aiohttp writes too."""
        given, head = self.credentials, f"Accept: {JSON}\r\nUser-Agent: {self._user_agent}\r\n"
        return (
            None if given.proxy else HttpConnections(given.server, lambda: given.tls, given.server_name, self.limits.connect_timeout, head)
        )

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=60, socket_factory=self._socket)
        # Compression would save bandwidth, but cost CPU on both sides; CPU is what limits the rate.
        headers = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": self._user_agent}
        return aiohttp.ClientSession(
            connector=connector, headers=headers, cookie_jar=aiohttp.DummyCookieJar(), request_class=_ConditionalRequest
        )


_BEFORE_SENDING: ContextVar[Condition] = ContextVar("before sending", default=no_condition)
"""The condition of the request that the current task sends."""


class _ConditionalRequest(aiohttp.ClientRequest):
    """A request whose condition is checked once its connection is open, which may take longer behind a proxy than a lease lasts."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        _BEFORE_SENDING.get()()
        return await super().send(conn)


def _opened(session: aiohttp.ClientSession | None) -> aiohttp.ClientSession:
    if session is None:
        raise RuntimeError("a Connection is used inside `async with`")
    return session


def _headers(authorization: str | None) -> dict[str, str]:
    return {} if authorization is None else {"Authorization": authorization}


def _unreachable(method: str, path: str, error: Exception) -> api_errors.Unreachable:
    what = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
    if isinstance(error, aiohttp.ClientPayloadError):
        what = "the connection was closed"
    elif isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientConnectorCertificateError):
        what = f"cannot connect to {error.host}:{error.port}: {error.strerror}"  # the text of aiohttp has an address in memory
    return api_errors.Unreachable(f"{method} {path}: {what}")
