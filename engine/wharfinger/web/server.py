"""An HTTP server as a part of the process: on its event loop, without a say in signals, bound before anything else begins.

async with Server(app, "127.0.0.1", 10259) as server:
    print(server.url)
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wharfinger.errors import UsageError
from wharfinger.web.connections import AT_ONCE, FrugalProtocol
from wharfinger.web.pace import Paced

_STOP_SECONDS = 2  # for answers under way; whoever watches health or metrics asks again
_LARGEST_PORT = 65535
_MISSING = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


class _Uvicorn(uvicorn.Server):
    """uvicorn, which leaves signals to whoever runs the loop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Ending:
    """An ASGI middleware that answers whoever waits when the server stops; uvicorn would log where each of them was."""

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
    """Serves an ASGI application while the context lasts, with TLS where `tls` is given. Port 0 is any that is free; `port` says which."""

    def __init__(self, app: Any, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._app = app
        self._tls = tls
        self._host = host
        self._port = port
        self._sockets: list[socket.socket] = []
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
        config = uvicorn.Config(
            Paced(_Ending(self._app)),
            log_config=None,
            log_level="error",  # strangers can send thousands of broken requests in a second; each gets its 400, and the log no line
            access_log=False,
            http=FrugalProtocol,
            backlog=AT_ONCE,
            lifespan="off",
            ws="none",
            proxy_headers=False,  # who asks is who is connected: a header must not make anyone a neighbour
            server_header=False,
            timeout_graceful_shutdown=_STOP_SECONDS,
            timeout_keep_alive=30,
        )
        config.load()
        config.ssl = self._tls
        self._server = _Uvicorn(config)
        self._task = asyncio.create_task(self._server.serve(self._sockets), name="web server")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task


async def bound(host: str, port: int) -> list[socket.socket]:
    """A listening socket for every address of a host, all on one port; UsageError says why there can be none."""
    if not 0 <= port <= _LARGEST_PORT:
        raise UsageError(f"cannot serve on port {port}: ports are 0 to {_LARGEST_PORT}")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(f"cannot serve on {host}: {getattr(error, 'strerror', None) or error}") from error
    sockets: list[socket.socket] = []
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


def _listening(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
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
