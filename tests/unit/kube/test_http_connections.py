"""Requests over connections that stay open: each gets its own answer, also if the one before fails."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import AsyncExitStack

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.unit.kube.conftest import RealClock, kubeconfig, until
from tests.unit.kube.scripted_server import Answer, ScriptedServer, refused
from tests.unit.web.certificates import signed_by_itself
from wharfinger.framework.ports import BindFailed, WriteFailed
from wharfinger.kube import api_errors
from wharfinger.kube import credentials as credentials_of
from wharfinger.kube.connection import Connection, Limits
from wharfinger.kube.credentials import Credentials
from wharfinger.kube.custom_resources import ObjectWriter
from wharfinger.kube.http_connections import HttpConnections
from wharfinger.kube.writes import ApiBinder, ApiWriter
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.web.server import Server, ServingCertificate

PATH = "/api/v1/namespaces/shop/pods/web/binding"


POD = PodView(decode.convert({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}}, objects.Pod))


async def post(connection, body=b"{}", **more):
    return await connection.request("POST", PATH, body=body, **more)


def test_a_request_arrives_as_it_was_sent(run):
    async def scenario(server, connection):
        server.on("POST", PATH, Answer(status=201, body={"status": "Success"}))
        assert await post(connection, b'{"kind":"Binding"}') == b'{"status": "Success"}'
        (seen,) = server.seen
        assert seen.body == {"kind": "Binding"}
        wanted = {"Authorization": "Bearer secret", "Content-Type": "application/json", "Accept": "application/json"}
        assert {name: seen.headers[name] for name in wanted} == wanted

    run(scenario)


@pytest.mark.parametrize(("status", "error"), [(404, api_errors.NotFound), (409, api_errors.Conflict), (500, api_errors.ServerError)])
def test_a_refusal_leaves_the_connection_usable(run, status, error):
    async def scenario(server, connection):
        server.on("POST", PATH, refused(status, "No"), Answer(status=201))
        with pytest.raises(error):
            await post(connection)
        await post(connection)

    run(scenario)


def test_a_write_that_became_forbidden_while_waiting_for_a_connection_is_not_sent(run):
    async def scenario(server, connection):
        server.on("POST", PATH, Answer(status=201))
        asked = []

        def still_leading():
            asked.append("again")
            if len(asked) > 1:
                raise RuntimeError("the lease was lost while the connection was made")

        with pytest.raises(RuntimeError, match="was lost"):
            await post(connection, before=still_leading)
        assert server.seen == []
        await post(connection)
        assert len(server.seen) == 1

    run(scenario)


def test_behind_a_proxy_the_permission_is_checked_again_with_the_connection_too(tmp_path):
    """A server that takes a request for another one is a proxy."""
    asked = []

    def may_write():
        asked.append("again")
        return len(asked) < 2

    async def scenario():
        async with ScriptedServer().serving() as server:
            server.on("POST", PATH, Answer(status=201))
            path = kubeconfig(tmp_path, "http://192.0.2.1", cluster={"proxy-url": server.address})
            async with Connection(Credentials(path, None, time.monotonic), Limits()) as connection:
                with pytest.raises(BindFailed, match="not the leader any more"):
                    await ApiBinder(connection, RealClock(), may_write).bind(POD, "a")
                assert server.seen == []
                await ApiBinder(connection, RealClock()).bind(POD, "a")
                assert len(server.seen) == 1

    asyncio.run(scenario())


WRITES = {
    "bind": lambda connection, may_write: ApiBinder(connection, RealClock(), may_write).bind(POD, "a"),
    "delete": lambda connection, may_write: ApiWriter(connection, RealClock(), may_write).delete(POD),
    "apply": lambda connection, may_write: ObjectWriter(connection, may_write).apply(
        {"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    ),
    "evict": lambda connection, may_write: ObjectWriter(connection, may_write).evict("shop", "web", "u"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_after_the_loss_of_the_lease_a_waiting_write_is_not_sent(run, write):
    async def scenario(server, connection):
        leads = [True]
        async with AsyncExitStack() as taken:
            for _ in range(connection.limits.connections):
                await taken.enter_async_context(connection._slots)
            writing = asyncio.create_task(write(connection, lambda: leads[0]))
            for _ in range(10):
                await asyncio.sleep(0)
            leads[0] = False
        with pytest.raises((BindFailed, WriteFailed), match="not the leader any more"):
            await writing
        assert server.seen == []

    run(scenario)


def test_permission_to_apply_is_checked_again_with_the_connection(run):
    async def scenario(server, connection):
        asked = []

        def may_write():
            asked.append(server.seen.copy())
            return len(asked) < 2

        with pytest.raises(WriteFailed, match="not the leader any more"):
            await ObjectWriter(connection, may_write).apply({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}})
        assert asked == [[], []]
        assert server.seen == []

    run(scenario)


def test_the_wait_that_a_busy_server_asks_for_is_reported(run):
    async def scenario(server, connection):
        server.on("POST", PATH, refused(429, "TooManyRequests", Retry_After="7"))
        with pytest.raises(api_errors.TooManyRequests) as refusal:
            await post(connection)
        assert refusal.value.retry_after == 7

    run(scenario)


def test_many_at_a_time_get_their_own_answers(run):
    async def scenario(server, connection):
        server.on("POST", PATH, lambda seen: Answer(body=seen.body, delay=(seen.body["n"] % 7) / 1000))
        bodies = [b'{"n": %d}' % n for n in range(200)]
        assert await asyncio.gather(*(post(connection, body) for body in bodies)) == bodies

    run(scenario)


@pytest.mark.parametrize("answer", [Answer(dropped=True), Answer(delay=5)])
def test_no_answer_is_unreachable_and_the_next_request_is_answered(run, answer):
    async def scenario(server, connection):
        server.on("POST", PATH, answer, Answer(body={"n": 2}))
        with pytest.raises(api_errors.Unreachable):
            await post(connection, timeout=0.2)
        assert await post(connection) == b'{"n": 2}'

    run(scenario)


def test_the_answer_to_a_cancelled_request_reaches_no_other_request(run):
    async def scenario(server, connection):
        server.on("POST", PATH, Answer(body={"n": 1}, delay=0.1), Answer(body={"n": 2}, delay=0.2))
        first = asyncio.ensure_future(post(connection))
        await until(lambda: bool(server.seen))
        first.cancel()
        assert await post(connection) == b'{"n": 2}'

    run(scenario)


def test_a_connection_that_the_server_closes_after_its_answer_is_not_used_again(run):
    async def scenario(server, connection):
        server.on("POST", PATH, Answer(status=201, headers={"Connection": "close"}))
        for _ in range(3):
            await post(connection)

    run(scenario)


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/ü"])
def test_a_path_cannot_inject_headers_or_requests(run, path):
    async def scenario(server, connection):
        with pytest.raises(ValueError, match="not a path"):
            await connection.request("POST", path, body=b"")
        assert not server.seen

    run(scenario)


def test_a_server_that_does_not_speak_tls_is_unreachable(run, tmp_path):
    async def scenario(server, _):
        path = kubeconfig(tmp_path, server.address.replace("http:", "https:"))
        async with Connection(Credentials(path, None, time.monotonic)) as connection:
            with pytest.raises(api_errors.Unreachable):
                await post(connection)

    run(scenario)


def test_idle_connections_are_closed_after_a_connection_without_an_answer():
    class Server:
        """Answers when three have asked; those three fall silent when `silent` is set, and do not close their connections."""

        def __init__(self):
            self.silent, self.connections, self.three = False, 0, asyncio.Barrier(3)

        async def serve(self, reader, writer):
            self.connections += 1
            of_the_first = self.connections <= 3
            while await reader.read(1000):
                if of_the_first and not self.silent:
                    await self.three.wait()
                if not of_the_first or not self.silent:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            writer.close()

    async def main():
        server = Server()
        async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
            host, port = listening.sockets[0].getsockname()
            exchanges = HttpConnections(f"http://{host}:{port}", lambda: None, None, 1.0, "")

            async def ask(seconds):
                return (await exchanges.ask("POST", "/", None, b"{}", "application/json", seconds)).status

            assert await asyncio.gather(ask(5), ask(5), ask(5)) == [200] * 3
            server.silent = True
            with pytest.raises(TimeoutError):
                await ask(0.1)
            assert await ask(0.1) == 200
            assert server.connections == 4
            await exchanges.close()

    asyncio.run(main())


def test_a_burst_opens_its_connections_in_many_turns_of_the_event_loop(monkeypatch):
    """64 connections begun in one turn would block it for 50 ms, however fast the server is."""
    begun_in_turn = [0]
    all_open = asyncio.Barrier(64)

    async def serve(reader, writer):
        while await reader.read(1000):
            await all_open.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def count_turns():
        while True:
            await asyncio.sleep(0)
            begun_in_turn.append(0)

    async def main():
        loop = asyncio.get_running_loop()
        connect = loop.create_connection

        def counted(*args, **more):
            begun_in_turn[-1] += 1
            return connect(*args, **more)

        monkeypatch.setattr(loop, "create_connection", counted)
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
            host, port = listening.sockets[0].getsockname()
            exchanges = HttpConnections(f"http://{host}:{port}", lambda: None, None, 1.0, "")
            counting = asyncio.ensure_future(count_turns())
            asked = (exchanges.ask("POST", "/", None, b"{}", "application/json", 5) for _ in range(64))
            assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
            counting.cancel()
            await exchanges.close()

    asyncio.run(main())
    assert sum(begun_in_turn) == 64
    assert max(begun_in_turn) <= 4


def test_an_authority_that_is_another_one_now_is_trusted_soon_and_the_former_no_more(tmp_path):
    """A server whose certificate changes with its authority, and files that follow; readers and writers alike see it."""

    async def answer(_request):
        return PlainTextResponse("{}")

    async def main():
        now = [0.0]
        folders = [tmp_path / name for name in ("former", "latter")]
        for folder in folders:
            folder.mkdir()
        (former, former_key), (latter, latter_key) = (signed_by_itself(folder) for folder in folders)
        trusted = tmp_path / "ca.crt"
        trusted.write_bytes(former.read_bytes())
        pair = tmp_path / "tls.crt", tmp_path / "tls.key"
        serving = ServingCertificate(*map(str, pair))

        def serve(certificate, key):
            pair[0].write_bytes(certificate.read_bytes())
            pair[1].write_bytes(key.read_bytes())
            serving.reload()

        async def outcome(connection, body):
            try:
                return await connection.request("POST" if body else "GET", "/x", body=body)
            except api_errors.Unreachable as error:
                return "certificate" if "CERTIFICATE_VERIFY_FAILED" in str(error).upper() or "certificate" in str(error) else str(error)

        app = Starlette(routes=[Route("/x", answer, methods=["GET", "POST"])])
        serve(former, former_key)
        async with Server(app, tls=serving.context) as server:
            path = kubeconfig(tmp_path, server.url, cluster={"certificate-authority": str(trusted)})
            known = Credentials(path, None, lambda: now[0])
            for body in (None, b"{}"):
                serve(former, former_key)
                trusted.write_bytes(former.read_bytes())
                now[0] += credentials_of._REREAD_SECONDS
                async with Connection(known) as connection:
                    assert await outcome(connection, body) == b"{}"
                serve(latter, latter_key)
                async with Connection(known) as connection:
                    assert await outcome(connection, body) == "certificate"
                    trusted.write_bytes(latter.read_bytes())
                    assert await outcome(connection, body) == b"{}", "a certificate that is not trusted makes it read the file again"
                serve(former, former_key)
                async with Connection(known) as connection:
                    assert await outcome(connection, body) == "certificate", "the former authority is not trusted any more"

    asyncio.run(main())


def test_files_that_did_not_change_leave_the_context_as_it_is(tmp_path):
    async def main():
        now = [0.0]
        certificate, _ = signed_by_itself(tmp_path)
        path = kubeconfig(tmp_path, "https://127.0.0.1:1", cluster={"certificate-authority": str(certificate)})
        known = Credentials(path, None, lambda: now[0])
        await known.load()
        first = known.tls
        assert isinstance(first, ssl.SSLContext)
        now[0] += 10 * credentials_of._REREAD_SECONDS
        await known.authorization()
        assert known.tls is first
        certificate.write_text("just being written")
        now[0] += 10 * credentials_of._REREAD_SECONDS
        await known.authorization()
        assert known.tls is first

    asyncio.run(main())
