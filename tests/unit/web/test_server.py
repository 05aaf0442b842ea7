"""The server on a real port, in an event loop that it does not own."""

import asyncio
import signal
import socket

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from wharfinger.errors import UsageError
from wharfinger.web.app import Checks, Debug, application
from wharfinger.web.server import Server


def app(**more):
    return application(Checks(), CollectorRegistry(), Debug(), **more)


async def get(url):
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_port_0_is_a_free_one_and_known(host):
    async def main():
        async with Server(app(), host, 0) as server:
            assert server.port > 1024
            assert server.url == f"http://{host}:{server.port}"
            assert await get(f"http://127.0.0.1:{server.port}/healthz") == (200, "ok")
            return server.port

    port = asyncio.run(main())
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


def test_signals_stay_with_the_thread_that_runs_the_loop():
    async def main():
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        async with Server(app()) as server:
            await get(f"{server.url}/healthz")
            assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before

    asyncio.run(main())


def test_a_port_in_use_is_reported_in_a_sentence():
    async def main():
        async with Server(app()) as first:
            with pytest.raises(UsageError, match=rf"^cannot serve on 127.0.0.1 port {first.port}: another process uses the port already$"):
                async with Server(app(), "127.0.0.1", first.port):
                    pass
            assert await get(f"{first.url}/healthz") == (200, "ok")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("host", "port", "sentence"),
    [
        ("192.0.2.1", 0, "cannot serve on 192.0.2.1 port 0: this machine has no such address"),
        ("no-such-host.invalid", 0, "cannot serve on no-such-host.invalid: "),
        ("127.0.0.1", 65536, "cannot serve on port 65536: ports are 0 to 65535"),
        ("127.0.0.1", -1, "cannot serve on port -1: ports are 0 to 65535"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_named(host, port, sentence):
    async def main():
        async with Server(app(), host, port):
            pass

    with pytest.raises(UsageError) as refused:
        asyncio.run(main())
    assert str(refused.value).startswith(sentence)


def test_the_server_stops_during_an_open_connection_and_a_slow_answer(caplog):
    waited = []

    async def slow(_request):
        await asyncio.sleep(30)
        waited.append("to the end")
        return PlainTextResponse("late")

    async def main():
        async with Server(app(extra_routes=[Route("/slow", slow)])) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /slow HTTP/1.1\r\nHost: here\r\n\r\n")
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{server.url}/healthz") as answer:
                    assert answer.status == 200
                await server.__aexit__(None, None, None)
                assert waited == []
            assert b"503 Service Unavailable" in (answer := await reader.read())
            assert answer.endswith(b"the process stops\n")
            writer.close()

    asyncio.run(main())
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_profile_under_way_does_not_delay_the_stop(monkeypatch):
    monkeypatch.setattr("wharfinger.web.server._STOP_SECONDS", 60)

    async def main():
        async with Server(app()) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /debug/profile?seconds=60 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            async with asyncio.timeout(20):
                while (await get(f"{server.url}/debug/profile?seconds=0.05"))[0] != 409:
                    pass
                await server.__aexit__(None, None, None)
                answer = await reader.read()
            writer.close()
        assert b"200 OK" in answer
        assert b"Ordered by: cumulative time" in answer, "what there was until then"

    asyncio.run(main())


def test_a_profile_ends_when_its_client_has_gone():
    async def main():
        async with Server(app()) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /debug/profile?seconds=60 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            profile = f"{server.url}/debug/profile?seconds=0.05"
            async with asyncio.timeout(20):
                while (await get(profile))[0] != 409:
                    pass
                writer.close()
                while (await get(profile))[0] != 200:
                    pass

    asyncio.run(main())


def test_a_profile_shows_the_functions_of_the_loop_and_there_is_one_at_a_time():
    async def work_of_the_loop():
        while True:
            sum(range(2000))
            await asyncio.sleep(0.001)

    async def main():
        async with Server(app()) as server:
            worker = asyncio.create_task(work_of_the_loop())
            first = asyncio.create_task(get(f"{server.url}/debug/profile?seconds=1.5"))
            await asyncio.sleep(0.5)
            second = await get(f"{server.url}/debug/profile?seconds=0.1")
            status, text = await first
            third = await get(f"{server.url}/debug/profile?seconds=0.05")
            worker.cancel()
        assert second == (409, "another profile is being taken; only one can be\n")
        assert status == 200
        assert "Ordered by: cumulative time" in text
        assert "work_of_the_loop" in text
        assert third[0] == 200

    asyncio.run(main())
