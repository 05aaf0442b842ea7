"""Connections of those who ask nothing, or do not read what they asked for: how many there may be, and for how long.

Every connection is an open file, and whoever can reach the port can open thousands and say nothing. A process without a file to open reads
no watch and binds no pod, so the web server, which can do without, is the one to be frugal.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 256
"""Connections at a time; further ones are closed at once."""
AT_ONCE = 32
"""Connections that are taken from the system before any of them is looked at."""
REQUEST_SECONDS = 10.0
"""How long a request may take to arrive, from its first byte (the first one: from the connection) to the end of its headers."""
READING_SECONDS = 60.0
"""How long what has been written may wait until the other side has room for it."""

PEER_NAME = "peer_name"
"""Where the `state` of a request has the common name of the certificate that the other side has proved to have, if it has one."""

STOPPING = "stopping"
"""Where the `state` of a request has an `asyncio.Event` that is set when the server stops: for answers that would take long."""

_NO_LINGER = struct.pack("ii", 1, 0)  # struct linger: no second


class FrugalProtocol(H11Protocol):
    """uvicorn's protocol, which waits for a request and for those who read only so long, and has only so many connections."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _stopping: asyncio.Event

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """None; the connection is closed at once when there are too many."""
        super().connection_made(transport)
        self._stopping = asyncio.Event()
        self.app_state = {**self.app_state, PEER_NAME: _common_name(transport), STOPPING: self._stopping}
        if len(self.connections) > MOST:
            transport.abort()
        else:
            transport.set_write_buffer_limits(high=1)  # writing pauses as soon as anything waits; with 0, TLS would pause without that
            self._await_request()

    def data_received(self, data: bytes) -> None:
        """None; once there is a whole request, it may be answered for as long as that takes."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._await_request()
        else:
            self._forget_deadline()

    def shutdown(self) -> None:
        """None; what is being answered is told that the server stops, and may end early."""
        self._stopping.set()
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """None; nothing is waited for any more."""
        self._forget_deadline()
        self._forget_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """None; the connection ends if nobody makes room in time."""
        super().pause_writing()
        self._forget_unread()
        self._unread = self.loop.call_later(READING_SECONDS, self._leave_unread)

    def resume_writing(self) -> None:
        """None; everything is on its way."""
        self._forget_unread()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """None; who breaks a request that is being answered already gets no second answer, and no further part of the first one."""
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

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _leave_unread(self) -> None:
        """None; what the system has taken already is thrown away as well, as it would keep that for whoever may read it yet."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._give_up()

    def _give_up(self) -> None:
        transport: Any = self.transport
        transport.abort()


def _common_name(transport: asyncio.Transport) -> str | None:
    """The common name of the subject of the other side's certificate, which TLS has verified; "" if it has none, None without one."""
    subject = (transport.get_extra_info("peercert") or {}).get("subject")
    if subject is None:
        return None
    return next((value for part in subject for name, value in part if name == "commonName"), "")
