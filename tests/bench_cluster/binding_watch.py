"""A process that notes when it sees pods being bound.

It watches the bound pods of one scheduler from a resourceVersion on, so each binding is one event, of metadata alone; and it is a process
of its own, so that reading them disturbs neither who schedules nor who creates. Ends with the last of COUNT bindings, or at SIGTERM, and
writes {pod name: seconds, monotonic} into FILE. Arguments: PORT CERTIFICATE VERSION SCHEDULER COUNT FILE.
"""

from __future__ import annotations

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

NAME = re.compile(rb'"type":"ADDED".*?"name":"([^"]+)"')
READY = "watching"


class Stop(Exception):
    """Asked to end."""


def _stop(*_: object) -> None:
    raise Stop


def watch(port: int, certificate: str, version: str, scheduler: str, count: int) -> dict[str, float]:
    """When each pod was seen bound."""
    seen: dict[str, float] = {}
    selector = f"spec.schedulerName={scheduler},spec.nodeName!="
    query = urlencode({"watch": "true", "resourceVersion": version, "fieldSelector": selector})
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        ssl.create_default_context(cafile=certificate).wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(
            # To HTTP/1.0 the server answers without chunks, so lines are lines.
            f"GET /api/v1/pods?{query} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1\r\n\r\n".encode()
        )
        rest = b""
        try:
            while len(seen) < count:
                chunk = connection.recv(1 << 20)
                now = time.monotonic()
                if not chunk:
                    raise ConnectionError("the watch ended")
                if not rest and chunk.startswith(b"HTTP/1."):
                    if b" 200 " not in chunk[:16]:
                        raise ConnectionError(chunk.decode())
                    print(READY, flush=True)
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if found := NAME.search(line):
                        seen.setdefault(found[1].decode(), now)
        except Stop:
            pass
    return seen


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    port, certificate, version, scheduler, count, file = sys.argv[1:]
    part = Path(f"{file}.part")
    part.write_text(json.dumps(watch(int(port), certificate, version, scheduler, int(count))))
    part.rename(file)
