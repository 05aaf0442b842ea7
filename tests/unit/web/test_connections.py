"""A connection without a request costs little, and not for long."""

import asyncio
import gc
import select
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.unit.web.certificates import signed_by_itself
from tests.unit.web.test_server import app, get
from wharfinger.web import server as connections
from wharfinger.web.requests import with_body
from wharfinger.web.server import Server, ServingCertificate

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
    """The bytes that a connection receives until the other side ends it."""
    try:
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionError:
        return b""


def test_a_further_connection_ends_the_one_that_is_waited_for_longest(monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)

    async def main():
        async with Server(app(), "127.0.0.1", 0) as server, AsyncExitStack() as opened:
            held = [await opened.enter_async_context(connected(server)) for _ in range(5)]
            await asyncio.sleep(0.05)
            held[0][1].write(PARTS[2])
            assert b"200 OK" in await held[0][0].readuntil(b"ok")  # from here on, the second one is waited for longest
            assert await get(f"{server.url}/healthz") == (200, "ok")
            assert await asyncio.wait_for(held[1][0].read(), 5) == b""
            assert not any(reader.at_eof() for reader, _ in [held[0], *held[2:]])

    asyncio.run(main())


@pytest.mark.parametrize("part", PARTS, ids=["nothing", "half a request", "requests one after the other"])
def test_many_connections_of_one_address_do_not_take_those_of_another(monkeypatch, part):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)

    async def main():
        async with Server(app(), "127.0.0.1", 0) as server, AsyncExitStack() as opened:
            kept, writer = await opened.enter_async_context(connected(server))
            for _ in range(50):
                _, other = await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.2", 0))
                opened.callback(other.close)
                other.write(part * 3)
            await asyncio.sleep(0.05)
            writer.write(PARTS[2])
            assert b"200 OK" in await asyncio.wait_for(kept.readuntil(b"ok"), 5)
            assert await get(f"{server.url}/healthz") == (200, "ok")

    asyncio.run(main())


@pytest.mark.parametrize("part", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half a hello"])
def test_handshakes_that_do_not_end_are_limited_too(monkeypatch, tmp_path, part):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    certificate, key = signed_by_itself(tmp_path)
    serving = ServingCertificate(str(certificate), str(key))
    serving.reload()

    async def main():
        async with Server(app(), "127.0.0.1", 0, serving.context) as server, AsyncExitStack() as opened:
            held = []
            for _ in range(20):
                reader, writer = await opened.enter_async_context(connected(server))
                writer.write(part)
                held.append(reader)
            await asyncio.wait_for(asyncio.gather(*(ends(reader) for reader in held[:15])), 5)
            assert not any(reader.at_eof() for reader in held[15:])
            trust = ssl.create_default_context(cafile=certificate)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trust)
            writer.write(PARTS[2])
            assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"ok"), 5)
            writer.close()

    asyncio.run(main())


@pytest.mark.parametrize("part", [b"", b"\x16\x03\x01\x02\x00\x01", b"no handshake at all"], ids=["nothing", "half a hello", "other bytes"])
def test_handshakes_that_fail_leave_nothing_for_the_garbage_collection(tmp_path, part):
    """Full collections are rare in a running scheduler, and each of these has a buffer of 256 KiB."""
    certificate, key = signed_by_itself(tmp_path)
    serving = ServingCertificate(str(certificate), str(key))
    serving.reload()

    def left():
        return sum(isinstance(each, SSLProtocol) for each in gc.get_objects())

    async def main():
        async with Server(app(), "127.0.0.1", 0, serving.context) as server:
            gc.collect()
            before = left()
            gc.disable()
            try:
                for _ in range(20):
                    async with connected(server) as (_reader, writer):
                        writer.write(part)
                        await asyncio.sleep(0)
                async with asyncio.timeout(10):
                    while left() > before:  # noqa: ASYNC110 — it is the number that is awaited
                        await asyncio.sleep(0.05)
            finally:
                gc.enable()

    asyncio.run(main())


def test_the_body_of_a_second_request_is_not_waited_for_either(monkeypatch):
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)

    async def main():
        async with Server(with_body_route(), "127.0.0.1", 0) as server, connected(server) as (reader, writer):
            writer.write(POST + b"2\r\nab\r\n0\r\n\r\n" + POST)
            assert b"2 bytes" in await asyncio.wait_for(ends(reader), 5)

    asyncio.run(main())


@pytest.mark.parametrize("part", PARTS[:2], ids=["nothing", "half a request"])
def test_a_request_that_does_not_come_is_not_waited_for(monkeypatch, part):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.1)

    async def main():
        async with Server(app(), "127.0.0.1", 0) as server, connected(server) as (reader, writer):
            writer.write(part)
            assert await ends(reader) == b""

    asyncio.run(main())


POST = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


async def length(_request, body):
    return Response(f"{len(body)} bytes")


def with_body_route():
    return app(extra_routes=[Route("/body", with_body("application/json", 2**20, length), methods=["POST"])])


def test_a_body_that_arrives_too_slowly_ends_the_connection(monkeypatch):
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)

    async def main():
        async with Server(with_body_route(), "127.0.0.1", 0) as server, connected(server) as (reader, writer):
            writer.write(POST)
            ended = asyncio.create_task(ends(reader))
            while not ended.done():
                writer.write(b"1\r\na\r\n")
                await asyncio.sleep(0.02)
            assert ended.result() == b""

    asyncio.run(main())


def test_after_a_body_the_next_request_is_awaited_for_longer(monkeypatch):
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)

    async def main():
        async with Server(with_body_route(), "127.0.0.1", 0) as server, connected(server) as (reader, writer):
            writer.write(POST + b"2\r\nab\r\n")
            await asyncio.sleep(0.05)
            writer.write(b"0\r\n\r\n")
            assert b"2 bytes" in await reader.readuntil(b"bytes")
            await asyncio.sleep(0.4)
            writer.write(PARTS[2])
            assert b"200 OK" in await reader.readuntil(b"ok")

    asyncio.run(main())


@pytest.mark.parametrize("count", [1, 3000, 100_000])
def test_many_small_parts_of_a_body_are_read_in_portions(monkeypatch, count):
    parsed = []
    read = H11Protocol.data_received
    monkeypatch.setattr(H11Protocol, "data_received", lambda self, data: parsed.append(len(data)) or read(self, data))

    async def main():
        async with Server(with_body_route(), "127.0.0.1", 0) as server, connected(server) as (reader, writer):
            for _ in range(2):
                writer.write(POST + b"1\r\na\r\n" * count + b"0\r\n\r\n")
                assert f"{count} bytes".encode() in await reader.readuntil(b"bytes")

    asyncio.run(main())
    assert sum(parsed) > 12 * count
    assert max(parsed) <= connections.READ_BYTES


def test_half_a_second_request_is_not_waited_for_and_an_answer_is(monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.5)

    async def main():
        async with Server(app(), "127.0.0.1", 0) as server, connected(server) as (reader, writer):
            writer.write(PARTS[2])
            assert b"200 OK" in await reader.readuntil(b"ok")
            await asyncio.sleep(0.7)  # idle between two requests, which is another limit
            writer.write(PARTS[2])
            assert b"200 OK" in await reader.readuntil(b"ok")
            writer.write(PARTS[1])
            assert await ends(reader) == b""
            assert (await get(f"{server.url}/debug/profile?seconds=0.8"))[0] == 200

    asyncio.run(main())


@pytest.mark.parametrize(("path", "requests"), [("/large", 1), ("/large", 3)], ids=["one answer", "further requests"])
def test_a_client_that_does_not_read_is_disconnected(monkeypatch, path, requests):
    monkeypatch.setattr(connections, "READ_TIMEOUT", 0.3)

    async def large(_request):
        return Response(b"x" * (32 << 20))

    async def main():
        loop = asyncio.get_running_loop()
        async with Server(app(extra_routes=[Route("/large", large)]), "127.0.0.1", 0) as server:
            with socket.socket() as reader:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.setblocking(False)
                await loop.sock_connect(reader, ("127.0.0.1", server.port))
                asking = asyncio.create_task(loop.sock_sendall(reader, f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * requests))
                ended = select.poll()
                ended.register(reader, 0)
                assert await loop.run_in_executor(None, ended.poll, 20_000), "the connection stands"
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(main())


NONSENSE = b"zz\r\nnonsense\r\n\r\n"
CHUNKED = b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "pause"),
    [
        (b"nonsense\r\n\r\n", 0.0),
        (b"POST /healthz" + CHUNKED, 0.0),
        (b"POST /healthz" + CHUNKED, 0.2),
        (b"GET /endless" + CHUNKED, 0.0),
        (b"GET /endless" + CHUNKED, 0.2),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 0.2),
    ],
    ids=["no request", "at once", "after the answer", "before the answer", "amid the answer", "upgrade"],
)
def test_broken_requests_end_their_connection_and_no_line_of_the_log(caplog, first, pause):
    failures = []

    async def endless(_request):
        async def parts():
            while True:
                yield b"x"
                await asyncio.sleep(0.01)

        return StreamingResponse(parts())

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
        async with Server(app(extra_routes=[Route("/endless", endless)]), "127.0.0.1", 0) as server, connected(server) as (reader, writer):
            writer.write(first)
            await asyncio.sleep(pause)
            writer.write(NONSENSE)
            await ends(reader)

    asyncio.run(main())
    assert failures == []
    assert caplog.messages == []


@pytest.mark.parametrize("body", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\nno length\r\n"])
def test_a_client_that_leaves_before_the_end_of_a_body_adds_no_line_to_the_log(caplog, body):
    ended = []

    async def answer(_request, content):
        ended.append(content)
        return Response(content)

    read = with_body("application/json", 1000, answer)

    async def reading(request):
        response = await read(request)
        ended.append(response.status_code)
        return response

    async def main():
        async with Server(app(extra_routes=[Route("/read", reading, methods=["POST"])]), "127.0.0.1", 0) as server:
            async with connected(server) as (_reader, writer):
                writer.write(b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + body)
                await writer.drain()
                await asyncio.sleep(0.1)
            async with asyncio.timeout(30):
                while not ended:  # noqa: ASYNC110 — it is set by the server
                    await asyncio.sleep(0.01)

    asyncio.run(main())
    assert ended == [408]
    assert caplog.messages == []


@pytest.mark.parametrize(
    "lengths", [b"Content-Length: 2\r\nContent-Length: 3\r\n", b"Content-Length: 2, 3\r\n"], ids=["two headers", "one header"]
)
def test_a_request_of_two_lengths_is_refused(lengths):
    async def main():
        async with Server(app(), "127.0.0.1", 0) as server, connected(server) as (reader, writer):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + lengths + b"\r\nokay")
            assert (await ends(reader)).startswith(b"HTTP/1.1 400 ")

    asyncio.run(main())
