"""A process that notes when it sees pods being bound.

It watches the bound pods of one scheduler from a resourceVersion on, so each binding is one event, of metadata alone; and it is a separate
process, so that reading them disturbs neither the scheduler nor the creator of pods. The API server closes watches that fall behind by some
twenty events, which on a machine this busy is every other moment; the next one continues where that ended. Ends with the last of COUNT
bindings, or at SIGTERM, and writes {pod name: seconds, monotonic} into FILE. Arguments: PORT CERTIFICATE VERSION SCHEDULER COUNT FILE.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import ssl
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

from tests.cluster.control_plane import TOKEN

EVENT = re.compile(rb'^\{"type":"([A-Z]+)".*?"name":"([^"]+)".*?"resourceVersion":"([0-9]+)"')
READY = "watching"


class Stop(Exception):
    """Set when it should end."""


class BindingWatch:
    """The time at which each pod was `seen` bound."""

    def __init__(self, port: int, certificate: str, version: str, scheduler: str) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=certificate)
        self._version = version
        self._scheduler = scheduler
        self.seen: dict[str, float] = {}

    def run(self, count: int) -> None:
        """Returns when that many pods were seen."""
        while len(self.seen) < count:
            with (
                socket.create_connection(("127.0.0.1", self._port)) as plain,
                self._tls.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
            ):
                connection.sendall(self._request())
                self._read(connection, count)

    def _request(self) -> bytes:
        selector = f"spec.schedulerName={self._scheduler},spec.nodeName!="
        query = urlencode({"watch": "true", "resourceVersion": self._version, "fieldSelector": selector})
        # To HTTP/1.0 the server answers without chunks, so lines are lines.
        return (
            f"GET /api/v1/pods?{query} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1\r\n\r\n"
        ).encode()

    def _read(self, connection: ssl.SSLSocket, count: int) -> None:
        rest = b""
        while len(self.seen) < count and (chunk := connection.recv(1 << 20)):
            now = time.monotonic()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._line(line, now)

    def _line(self, line: bytes, now: float) -> None:
        if found := EVENT.match(line):
            kind, name, version = found[1], found[2].decode(), found[3].decode()
            if kind == b"ADDED":
                self.seen.setdefault(name, now)
            self._version = version
        elif line.startswith(b"HTTP/1."):
            if b" 200 " not in line:
                raise ConnectionError(line.decode())
            print(READY, flush=True)
        elif line.startswith(b'{"type":"ERROR"'):
            raise ConnectionError(line.decode())


def main() -> None:
    """Watches and writes what was seen."""

    def stop(*_: object) -> None:
        raise Stop

    port, certificate, version, scheduler, count, file = sys.argv[1:]
    watch = BindingWatch(int(port), certificate, version, scheduler)
    signal.signal(signal.SIGTERM, stop)
    with contextlib.suppress(Stop):
        watch.run(int(count))
    part = Path(f"{file}.part")
    part.write_text(json.dumps(watch.seen))
    part.rename(file)


if __name__ == "__main__":
    main()
