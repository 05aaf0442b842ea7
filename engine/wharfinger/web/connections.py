"""Connections of those who ask nothing: how many there may be, and for how long.

Every connection is an open file, and whoever can reach the port can open thousands and say nothing. A process without a file to open reads
no watch and binds no pod, so the web server, which can do without, is the one to be frugal.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 256
"""Connections at a time; further ones are closed at once."""
AT_ONCE = 32
"""Connections that are taken from the system before any of them is looked at."""
REQUEST_SECONDS = 10.0
"""How long a request may take to arrive, from its first byte (the first one: from the connection) to the end of its headers."""


class FrugalProtocol(H11Protocol):
    """uvicorn's protocol, which waits for a request only so long and has only so many connections."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """None; the connection is closed at once when there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
        else:
            self._await_request()

    def data_received(self, data: bytes) -> None:
        """None; once there is a whole request, it may be answered for as long as that takes."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._await_request()
        else:
            self._forget_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """None; nothing is waited for any more."""
        self._forget_deadline()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        transport: Any = self.transport
        transport.abort()
