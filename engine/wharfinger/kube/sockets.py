"""Sockets to an API server."""

from __future__ import annotations

import socket


def notice_silence(made: socket.socket) -> None:
    """None; the socket notices within a minute when the other side has vanished without a word."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # not everywhere under these names
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
