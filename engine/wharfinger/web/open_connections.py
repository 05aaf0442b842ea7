"""The limit for the connections of a server, which counts a connection from the moment it is accepted.

asyncio tells a protocol of a connection only after the handshake of TLS. A client that never sends the handshake would hold a file
descriptor that nobody counts; so the listening socket counts.

At the limit, a connection of the client address with the most connections is closed: the one whose client is waited for longest. So an
address that holds many connections takes them from itself, and a client at another address still gets its answer.
"""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any


class OpenConnection:
    """An accepted connection, and how it is closed."""

    def __init__(self, accepted: socket.socket, address: str) -> None:
        self._socket = accepted
        self.address = address
        self.close: Callable[[], None] = self._shut_down

    @property
    def is_open(self) -> bool:
        """False as soon as the socket is closed."""
        return self._socket.fileno() >= 0

    def _shut_down(self) -> None:
        """End the connection for the code that reads from it: during the handshake, asyncio owns the socket."""
        with contextlib.suppress(OSError):  # the client has ended it already
            self._socket.shutdown(socket.SHUT_RDWR)


class OpenConnections:
    """The open connections of a server: `limit` at a time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[OpenConnection, None] = {}  # the client has to do something; the longest waiting one is first
        self._answering: dict[OpenConnection, None] = {}
        self._by_number: dict[int, OpenConnection] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._answering)

    def add(self, accepted: socket.socket, address: str) -> None:
        """Count an accepted connection; close one, which may be this one, if there are too many."""
        connection = OpenConnection(accepted, address)
        self._waiting[connection] = None
        self._by_number[accepted.fileno()] = connection
        if len(self) > self._limit:
            self._forget_closed()
        if len(self) > self._limit:
            closed = self._surplus()
            self._remove(closed)
            closed.close()

    def numbered(self, number: int) -> OpenConnection | None:
        """The open connection with this file descriptor; None if it has just been closed."""
        return self._by_number.get(number)

    def wait_for(self, connection: OpenConnection) -> None:
        """Note that the client has to do something."""
        if connection in self._answering:
            del self._answering[connection]
            self._waiting[connection] = None

    def answer(self, connection: OpenConnection) -> None:
        """Note that the server has to do something."""
        if connection in self._waiting:
            del self._waiting[connection]
            self._answering[connection] = None

    def _surplus(self) -> OpenConnection:
        """The connection to close: of the address with the most connections, preferably one whose client is waited for."""
        counts = Counter(connection.address for connection in self._all())
        address = max(counts, key=counts.__getitem__)
        return next(connection for connection in self._all() if connection.address == address)

    def _all(self) -> Iterator[OpenConnection]:
        yield from self._waiting
        yield from self._answering

    def _forget_closed(self) -> None:
        for connection in [each for each in self._all() if not each.is_open]:
            self._remove(connection)
        self._by_number = {number: each for number, each in self._by_number.items() if each.is_open}

    def _remove(self, connection: OpenConnection) -> None:
        self._waiting.pop(connection, None)
        self._answering.pop(connection, None)


class LimitedListener(socket.socket):
    """A listening socket that reports each accepted connection to `accepted`."""

    accepted: OpenConnections | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection and its address."""
        connection, address = super().accept()
        if self.accepted is not None:
            self.accepted.add(connection, str(address[0]))
        return connection, address
