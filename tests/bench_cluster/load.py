"""Many small requests to the API server at the least cost to this machine.

What is measured shares two cores with who creates its pods, so requests are bytes made beforehand and answers are hardly looked at. The
bare bind rate, the yardstick of what the API server can do, is taken with this client too.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from tests.cluster.control_plane import TOKEN, ControlPlane

CONNECTIONS = 32


class Refused(Exception):
    """An answer that is not one of success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request and the name under which it is spoken of."""

    name: str
    content: bytes


class Load:
    """Sends requests to the API server of a control plane."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._port = cluster.port
        self._tls = ssl.create_default_context(cafile=str(cluster.certificate))

    @staticmethod
    def request(method: str, path: str, name: str, body: object = None, content_type: str = "application/json") -> Request:
        """The bytes of a request."""
        content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        # Of what was created only the metadata is sent back.
        accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {content_type}\r\n"
            f"Accept: {accept}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        return Request(name=name, content=head.encode() + content)

    def send(self, requests: Iterable[Request], *, per_second: float | None = None) -> dict[str, float]:
        """The time at which each was sent (seconds, monotonic), by name, after all were answered. Without a pace, the server sets it."""
        return asyncio.run(self._send(iter(requests), per_second))

    async def _send(self, requests: Iterator[Request], per_second: float | None) -> dict[str, float]:
        streams = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls) for _ in range(CONNECTIONS)))
        sent: dict[str, float] = {}
        turns = _turns(per_second)

        async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for request in requests:
                await asyncio.sleep(next(turns))
                sent[request.name] = time.monotonic()
                writer.write(request.content)
                await _answer(reader, request)

        try:
            async with asyncio.TaskGroup() as workers:
                for stream in streams:
                    workers.create_task(work(*stream))
        finally:
            for _, writer in streams:
                writer.close()
            await asyncio.sleep(0.1)  # TLS closes in some rounds of the loop
        return sent


def _turns(per_second: float | None) -> Iterator[float]:
    """The seconds until the next request is due."""
    began = time.monotonic()
    for turn in count():
        yield 0.0 if per_second is None else began + turn / per_second - time.monotonic()


async def _answer(reader: asyncio.StreamReader, request: Request) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    _, _, length = head.partition(b"Content-Length: ")
    body = await (reader.readexactly(int(length.partition(b"\r\n")[0])) if length else reader.readuntil(b"\r\n0\r\n\r\n"))
    if not head.startswith(b"HTTP/1.1 2"):
        raise Refused(f"{request.name}: {body[:500].decode()}")
