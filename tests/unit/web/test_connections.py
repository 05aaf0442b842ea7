"""Whoever connects and asks nothing costs little, and not for long."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from tests.unit.web.test_server import app, get
from wharfinger.web import connections
from wharfinger.web.server import Server

PARTS = [b"", b"GET /healthz HTTP/1.1\r\nX-Half: a", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"]


@asynccontextmanager
async def connected(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ends(reader):
    """What comes on a connection until the other side ends it."""
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        return b""


def test_there_are_only_so_many_connections_and_they_are_free_again(monkeypatch):
    monkeypatch.setattr(connections, "MOST", 5)

    async def main():
        async with Server(app(), "127.0.0.1", 0) as server:
            async with AsyncExitStack() as opened:
                for _ in range(5):
                    await opened.enter_async_context(connected(server))
                reader, _ = await opened.enter_async_context(connected(server))
                assert await ends(reader) == b""
            await asyncio.sleep(0.05)
            assert await get(f"{server.url}/healthz") == (200, "ok")

    asyncio.run(main())


@pytest.mark.parametrize("part", PARTS[:2], ids=["nothing", "half a request"])
def test_a_request_that_does_not_come_is_not_waited_for(monkeypatch, part):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.1)

    async def main():
        async with Server(app(), "127.0.0.1", 0) as server, connected(server) as (reader, writer):
            writer.write(part)
            assert await ends(reader) == b""

    asyncio.run(main())


def test_half_a_second_request_is_not_waited_for_and_an_answer_is(monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)

    async def main():
        async with Server(app(), "127.0.0.1", 0) as server, connected(server) as (reader, writer):
            writer.write(PARTS[2])
            assert b"200 OK" in await reader.readuntil(b"ok")
            await asyncio.sleep(0.3)  # idle between two requests, which is another limit
            writer.write(PARTS[2])
            assert b"200 OK" in await reader.readuntil(b"ok")
            writer.write(PARTS[1])
            assert await ends(reader) == b""
            assert (await get(f"{server.url}/debug/profile?seconds=0.5"))[0] == 200

    asyncio.run(main())
