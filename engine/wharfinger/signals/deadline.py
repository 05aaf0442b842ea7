"""HTTP whose answers have one deadline, from the first byte of their head to the last of their body.

A socket's timeout bounds the silence between two bytes, so a server that sends a byte now and then would be listened to for ever. Here the
timeout of a connection when its answer begins is that of the whole answer.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection


class _Heard(io.RawIOBase):
    """What arrives on a socket until its timeout is over."""

    def __init__(self, arriving: io.RawIOBase, connection: socket.socket) -> None:
        self._arriving = arriving
        self._connection = connection
        patience = connection.gettimeout()
        self._deadline = None if patience is None else time.monotonic() + patience

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._connection.settimeout(left)
        return self._arriving.readinto(buffer)

    def close(self) -> None:
        self._arriving.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp: io.BufferedReader = io.BufferedReader(_Heard(self.fp.detach(), sock))


class _HTTPConnection(HTTPConnection):
    response_class = _Response


class _HTTPSConnection(HTTPSConnection):
    response_class = _Response


class _Pool(HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


class PunctualAdapter(HTTPAdapter):
    """Sends requests on connections whose answers have a deadline, each once."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """None; as its parent, with other connections."""
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
