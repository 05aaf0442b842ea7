"""An HTTP server as a part of the process: on its event loop, without signal handlers, bound before anything else begins.

    async with Server(app, "127.0.0.1", 10259) as server:
        print(server.url)

Connections are limited in number and time: a process without free file descriptors can read no watch and bind no pod.
`ServingCertificate` follows the files of a TLS certificate, which the kubelet replaces: new connections get the new certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import socket
import ssl
import struct
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import h11
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from wharfinger.errors import UsageError
from wharfinger.web.open_connections import LimitedListener, OpenConnection, OpenConnections
from wharfinger.web.requests import LEFT, RateLimited


class ServingCertificate:
    """A certificate and its key. `context` is for the server; before the first certificate, connections fail.

    With `client_ca`, a file of authorities, a connection needs a client certificate that one of these has signed. No session is resumed, so
    every connection is verified.
    """

    def __init__(self, certificate: str, key: str, client_ca: str | None = None) -> None:
        self._certificate = Path(certificate)
        self._key = Path(key)
        self._client_ca = None if client_ca is None else Path(client_ca)
        self._served = b""
        self._current = self.context = self._empty()
        self.context.sni_callback = self._choose  # called for every connection: a context that serves could be added to, never emptied

    @property
    def is_served(self) -> bool:
        """True once there has been a certificate; a broken one does not replace it."""
        return bool(self._served)

    def reload(self) -> bool:
        """True if another certificate is served from now on. OSError (ssl.SSLError is one) for files that are missing or do not fit."""
        authorities = None if self._client_ca is None else self._client_ca.read_bytes()
        parts = (self._certificate.read_bytes(), self._key.read_bytes(), authorities or b"")
        found = hashlib.sha256(b"\0".join(parts)).digest()
        if found == self._served:
            return False
        context = self._empty()
        with _named(f"{self._certificate} with the key {self._key}"):
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        if self._client_ca is not None:
            with _named(str(self._client_ca)):
                context.load_verify_locations(self._client_ca)
        self._current, self._served = context, found
        return True

    def _empty(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


@contextlib.contextmanager
def _named(files: str) -> Iterator[None]:
    """Name the files in an error of OpenSSL, which says `PEM lib` for a file that is none."""
    try:
        yield
    except ssl.SSLError as error:
        expected = "expected PEM, with the key of that certificate and without a password"
        raise ssl.SSLError(error.errno, f"{files}: {error.reason or 'no such content'}; {expected}") from error


def _no_password() -> str:
    """Empty: an encrypted key is an error, not a question at the terminal."""
    return ""


MAX_CONNECTIONS = 256
"""Connections at a time; a further one closes another, see `open_connections`."""
ACCEPT_BATCH = 32
"""Connections that are taken from the system before any of them is looked at."""
REQUEST_SECONDS = 10.0
"""Seconds that a request may take to arrive, from its first byte (the first one: from the connection) to the end of its headers."""
BODY_SECONDS = 60.0
"""Seconds that the body of a request may take to arrive."""
READ_BYTES = 2**14
"""Bytes that are read of a connection before other work: up to 2,700 chunks of one byte, or a hundred requests."""
READ_TIMEOUT = 60.0
"""Seconds that an answer may wait for the client to read it."""

PEER_NAME = "peer_name"
"""The key in the `state` of a request of the common name of the client's verified certificate, if it has one."""

STOPPING = "stopping"
"""The key in the `state` of a request of an `asyncio.Event` that is set when the server stops: for answers that would take long."""

_NO_LINGER = struct.pack("ii", 1, 0)  # struct linger: no second


class LimitedProtocol(H11Protocol):
    """uvicorn's protocol with limits for the number of connections, for a request to arrive and for an answer to be read.

    What arrives is read in portions, because parsing it takes much longer than receiving it.
    """

    _deadline: asyncio.TimerHandle | None = None
    _body_deadline: asyncio.TimerHandle | None = None
    _next: asyncio.Handle | None = None
    _unparsed: bytearray
    _unread: asyncio.TimerHandle | None = None
    _stopping: asyncio.Event
    _left: asyncio.Event
    _own: OpenConnection | None = None

    def __init__(self, open_connections: OpenConnections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open = open_connections
        _free_after_accept()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for the first request."""
        super().connection_made(transport)
        self._stopping = asyncio.Event()
        self._left = asyncio.Event()
        self._unparsed = bytearray()
        self.app_state = {**self.app_state, PEER_NAME: _common_name(transport), STOPPING: self._stopping, LEFT: self._left}
        self._own = self._open.numbered(transport.get_extra_info("socket").fileno())
        if self._own is not None:
            self._own.close = transport.abort
        transport.set_write_buffer_limits(high=1)  # writing pauses as soon as anything waits; with 0, TLS would pause without that
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Parse the first portion, and the others after other work."""
        self._unparsed += data
        if self._next is None:
            self._parse()

    def _parse(self) -> None:
        """Parse a portion; the deadline ends once the request is complete: answering may take longer."""
        self._next = None
        portion = bytes(self._unparsed[:READ_BYTES])
        del self._unparsed[:READ_BYTES]
        super().data_received(portion)
        if self.cycle is None or self.cycle.response_complete:
            self._await_request()
        self._follow_cycle()
        if self.transport.is_closing():
            self._unparsed.clear()
        elif self._unparsed:
            self.transport.pause_reading()
            self._next = self.loop.call_soon(self._parse)
        elif not self.flow.read_paused:
            self.transport.resume_reading()

    def on_response_complete(self) -> None:
        """Begin with the next request, if it has arrived already."""
        super().on_response_complete()
        self._follow_cycle()

    def _follow_cycle(self) -> None:
        """Limit how long the client is waited for, and tell the limit of connections who is waited for."""
        if self.cycle is None or self.cycle.response_complete:
            self._forget_body_deadline()
        else:
            self._forget_deadline()
            self._await_body(more=self.cycle.more_body)
        if self._own is not None:
            answering = self.cycle is not None and not (self.cycle.response_complete or self.cycle.more_body)
            (self._open.answer if answering and self._unread is None else self._open.wait_for)(self._own)

    def shutdown(self) -> None:
        """Signal to running answers that the server stops, so that they may end early."""
        self._stopping.set()
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadlines, and the turn of a request that waits."""
        self._left.set()
        self._forget_deadline()
        self._forget_body_deadline()
        self._forget_unread()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Close the connection if the client does not read in time."""
        super().pause_writing()
        self._forget_unread()
        self._unread = self.loop.call_later(READ_TIMEOUT, self._discard_unread)
        self._follow_cycle()

    def resume_writing(self) -> None:
        """Cancel the deadline of the reader."""
        self._forget_unread()
        super().resume_writing()
        self._follow_cycle()

    def send_400_response(self, msg: str) -> None:
        """Answer 400, or end the connection if the request is being answered already."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self._give_up()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _await_request(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _await_body(self, *, more: bool) -> None:
        if not more:
            self._forget_body_deadline()
        elif self._body_deadline is None:
            self._body_deadline = self.loop.call_later(BODY_SECONDS, self._give_up)

    def _forget_body_deadline(self) -> None:
        if self._body_deadline is not None:
            self._body_deadline.cancel()
            self._body_deadline = None

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _discard_unread(self) -> None:
        """Close the connection and discards what the kernel still buffers for it."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._give_up()

    def _give_up(self) -> None:
        transport: Any = self.transport
        transport.abort()


def _free_after_accept() -> None:
    """Clear the variables of the coroutine that accepts a connection and makes its protocol, once that coroutine has ended.

    After a handshake that failed, asyncio's exception, its frames and the connection refer to each other. Then 300 kB for each connection
    would stay until a full garbage collection.
    """
    task = asyncio.current_task()
    frame = None if task is None else getattr(task.get_coro(), "cr_frame", None)
    if task is not None and frame is not None:
        task.add_done_callback(lambda _done: _clear(frame))


def _clear(frame: FrameType) -> None:
    variables = dict(frame.f_locals)
    if isinstance(frame.f_locals, dict):  # a copy of them, which Python keeps with the frame before 3.13
        frame.f_locals.clear()
    for value in variables.values():
        if isinstance(value, asyncio.Future) and value.done() and not value.cancelled() and (error := value.exception()) is not None:
            traceback.clear_frames(error.__traceback__)
            error.__traceback__ = None
    frame.clear()


def _common_name(transport: asyncio.Transport) -> str | None:
    """The common name of the subject of the other side's certificate, which TLS has verified; "" if it has none, None without one."""
    subject = (transport.get_extra_info("peercert") or {}).get("subject")
    if subject is None:
        return None
    return next((value for part in subject for name, value in part if name == "commonName"), "")


_STOP_SECONDS = 2  # for answers under way; clients of health and metrics ask again
_MAX_PORT = 65535
_MISSING = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


class _Uvicorn(uvicorn.Server):
    """uvicorn without signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Ending:
    """An ASGI middleware that answers waiting requests when the server stops; uvicorn would log a traceback for each."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if not started:
                await PlainTextResponse("the process stops\n", 503)(scope, receive, send)


class Server:
    """Serves an ASGI application while the context lasts, with TLS where `tls` is given.

    Port 0 is any that is free; `port` is its number.
    """

    def __init__(self, app: Any, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._app = app
        self._tls = tls
        self._host = host
        self._port = port
        self._sockets: list[LimitedListener] = []
        self._server: _Uvicorn | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that is bound."""
        return int(self._sockets[0].getsockname()[1]) if self._sockets else self._port

    @property
    def url(self) -> str:
        """The address of the server, without a slash at its end."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{f'[{self._host}]' if ':' in self._host else self._host}:{self.port}"

    async def __aenter__(self) -> Self:
        self._sockets = await bound(self._host, self._port)
        open_connections = OpenConnections(MAX_CONNECTIONS)
        for listener in self._sockets:
            listener.accepted = open_connections
        config = uvicorn.Config(
            RateLimited(_Ending(self._app)),
            log_config=None,
            log_level="error",  # strangers can send thousands of broken requests in a second; each gets its 400, and the log no line
            access_log=False,
            backlog=ACCEPT_BATCH,
            lifespan="off",
            ws="none",
            proxy_headers=False,  # the client is the connected one: no header may make a remote client look local
            server_header=False,
            timeout_graceful_shutdown=_STOP_SECONDS,
            timeout_keep_alive=30,
        )
        config.load()
        config.ssl = self._tls
        config.http_protocol_class = partial(LimitedProtocol, open_connections)  # type: ignore[assignment]  # uvicorn only calls it
        self._server = _Uvicorn(config)
        self._task = asyncio.create_task(self._server.serve([*self._sockets]), name="web server")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task


async def bound(host: str, port: int) -> list[LimitedListener]:
    """A listening socket for every address of a host, all on one port; Raises UsageError if there can be none."""
    if not 0 <= port <= _MAX_PORT:
        raise UsageError(f"cannot serve on port {port}: ports are 0 to {_MAX_PORT}")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(f"cannot serve on {host}: {getattr(error, 'strerror', None) or error}") from error
    sockets: list[LimitedListener] = []
    for family, _, _, _, address in dict.fromkeys(found):
        same_port = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_listening(family, (address[0], same_port, *address[2:])))
        except OSError as error:
            if sockets and error.errno in _MISSING:
                continue  # `localhost` has an IPv6 address in the hosts file and the machine no IPv6
            for opened in sockets:
                opened.close()
            raise UsageError(f"cannot serve on {host or 'any address'} port {same_port}: {_reason(error)}") from error
    return sockets


def _listening(family: socket.AddressFamily, address: tuple[Any, ...]) -> LimitedListener:
    made = LimitedListener(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(128)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def _reason(error: OSError) -> str:
    known = {
        errno.EADDRINUSE: "another process uses the port already",
        errno.EACCES: "ports below 1024 need privileges",
        errno.EADDRNOTAVAIL: "this machine has no such address",
    }
    return known.get(error.errno or 0, error.strerror or str(error))
