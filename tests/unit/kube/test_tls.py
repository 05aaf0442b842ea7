"""TLS as bytes in and bytes out, against Python's own server side, with the bytes split anywhere."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import suppress

import pytest

from tests.unit.kube.conftest import kubeconfig
from tests.unit.web.certificates import signed_by_itself
from wharfinger.kube import api_errors
from wharfinger.kube.connection import Connection, Limits
from wharfinger.kube.credentials import Credentials
from wharfinger.kube.http_connections import ClientTls, HttpConnections


class ServerSide:
    """The other end of a connection."""

    def __init__(self, context):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def shake_hands(self, received):
        """The answer of the server to a handshake."""
        self.incoming.write(received)
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    def hear(self, received):
        self.incoming.write(received)
        return self.tls.read(100_000)

    def say(self, *records):
        for record in records:
            self.tls.write(record)
        return self.outgoing.read()

    def end(self):
        with suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self.outgoing.read()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return signed_by_itself(tmp_path_factory.mktemp("tls"))


def connected(pair, size=100_000, server_name="localhost", version=ssl.TLSVersion.TLSv1_3):
    """Both ends after the handshake; the client gets at most `size` bytes at a time."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*pair)
    serving.maximum_version = version
    server, client = ServerSide(serving), ClientTls(ssl.create_default_context(cafile=pair[0]), server_name)
    for _ in range(5):
        answer = server.shake_hands(client.take())
        assert b"".join(decrypted(client, answer, size)) == b""
    assert client.is_ready
    server.shake_hands(client.take())
    return client, server


def decrypted(client, content, size):
    return [client.decrypt(content[start : start + size]) for start in range(0, len(content), size)]


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_each_side_reads_what_the_other_says(pair, size, version):
    client, server = connected(pair, size, version=version)
    for number in range(3):
        request = b"question %d" % number
        client.encrypt(request)
        assert server.hear(client.take()) == request
        answer = b"answer %d" % number
        assert b"".join(decrypted(client, server.say(answer), size)) == answer
    assert not client.is_closed


def test_several_records_that_come_at_once_are_read_at_once(pair):
    client, server = connected(pair)
    assert client.decrypt(server.say(b"one ", b"two ", b"x" * 50_000)) == b"one two " + b"x" * 50_000


def test_data_before_the_close_is_read(pair):
    client, server = connected(pair)
    assert client.decrypt(server.say(b"the last words") + server.end()) == b"the last words"
    assert client.is_closed


def test_a_record_that_was_changed_on_its_way_is_an_error(pair):
    client, server = connected(pair)
    record = bytearray(server.say(b"to be or not to be"))
    record[-1] ^= 1
    with pytest.raises(ssl.SSLError):
        client.decrypt(bytes(record))
    assert client.take(), "an alert for the server"


def test_a_certificate_for_another_name_is_not_trusted(pair):
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        connected(pair, server_name="elsewhere")


@pytest.mark.parametrize("last_words", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_server_that_does_not_shake_hands_is_unreachable(tmp_path, last_words):
    """It sends nothing, disconnects, or has no TLS."""

    async def serve(reader, writer):
        await reader.read(1000)
        if last_words is None:
            await reader.read()  # until the client gives up
        else:
            writer.write(last_words)
        writer.close()

    async def main():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
            host, port = listening.sockets[0].getsockname()
            known = Credentials(kubeconfig(tmp_path, f"https://{host}:{port}"), None, time.monotonic)
            async with Connection(known, Limits(connect_timeout=0.5)) as connection:
                with pytest.raises(api_errors.Unreachable):
                    await connection.request("POST", "/x", body=b"{}")

    asyncio.run(main())


def test_a_context_that_allows_no_version_is_reported_at_once():
    async def main():
        context = ssl.create_default_context()
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as listening:
            host, port = listening.sockets[0].getsockname()
            exchanges = HttpConnections(f"https://{host}:{port}", lambda: context, None, 60.0, "")
            with pytest.raises(ssl.SSLError, match=r"(?i)no.protocols"):
                await exchanges.ask("POST", "/x", None, b"{}", "application/json", 60.0)
            await exchanges.close()

    asyncio.run(main())


class Resuming:
    """A server that answers the first request, and others once `together` have been open at a time; `resumed` is by connection."""

    def __init__(self, pair, tickets=2, together=1):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*pair)
        self.context.num_tickets = tickets
        self.resumed, self.most, self._open, self.silent = [], 0, 0, 0
        self._together, self._requests, self._all = together, 0, asyncio.Event()

    async def serve(self, reader, writer):
        self.resumed.append(writer.get_extra_info("ssl_object").session_reused)
        while await reader.read(1000):
            self._open += 1
            self._requests += 1
            self.most = max(self.most, self._open)
            await asyncio.sleep(0.02)
            if self.most >= self._together:
                self._all.set()
            if self._requests > 1:
                await self._all.wait()
            self._open -= 1
            if self.silent:
                self.silent -= 1
                break
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()


def against(server, story, contexts):
    """Run a story of requests with connections that take these contexts in sequence, the last one forever."""

    async def main():
        async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=server.context) as listening:
            _, port = listening.sockets[0].getsockname()
            left = list(contexts)
            exchanges = HttpConnections(
                f"https://127.0.0.1:{port}", lambda: left.pop(0) if len(left) > 1 else left[0], "localhost", 5.0, ""
            )

            async def ask(count):
                asked = (exchanges.ask("POST", "/", None, b"{}", "application/json", 5.0) for _ in range(count))
                found = await asyncio.gather(*asked, return_exceptions=True)
                return [each.status if not isinstance(each, BaseException) else type(each) for each in found]

            await story(ask)
            await exchanges.close()

    asyncio.run(main())


def trusting(pair):
    return ssl.create_default_context(cafile=pair[0])


def test_connections_after_the_first_resume_its_session(pair):
    server = Resuming(pair, together=5)

    async def story(ask):
        assert await ask(6) == [200] * 6
        assert server.resumed == [False, *[True] * 4]
        assert server.most == 5, "only the first request is alone"

    against(server, story, [trusting(pair)])


def test_a_session_is_not_resumed_with_another_context(pair):
    server = Resuming(pair)

    async def story(ask):
        assert await ask(3) == [200] * 3
        assert server.resumed == [False, False]
        assert await ask(3) == [200] * 3
        assert server.resumed == [False, False, True], "the third connection has the context of the second"

    former, latter = trusting(pair), trusting(pair)
    against(server, story, [former, latter, latter])


@pytest.mark.parametrize(("tickets", "silent"), [(0, 0), (2, 1)])
def test_a_server_that_gives_no_session_is_asked_all_the_same(pair, tickets, silent):
    server = Resuming(pair, tickets)
    server.silent = silent

    async def story(ask):
        answers = await ask(4)
        assert sorted(map(str, answers)) == sorted(map(str, [200] * (4 - silent) + [ConnectionError] * silent))
        assert not any(server.resumed[:4])

    against(server, story, [trusting(pair)])


class Serving:
    """A server whose certificate may be replaced, and a connection that trusts the certificate in a file."""

    def __init__(self, folder, pair):
        self.trusted, self.now = folder / "ca.crt", 0.0
        self.trusted.write_bytes(pair[0].read_bytes())
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*pair)
        self.context.num_tickets = 0  # a session that is resumed shows no certificate
        self._folder = folder

    def serve_with(self, pair):
        self.context.load_cert_chain(*pair)

    async def answer(self, reader, writer):
        with suppress(ConnectionError, ssl.SSLError):
            while await reader.read(1000):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
                break
        writer.close()

    async def run(self, story):
        async with await asyncio.start_server(self.answer, "127.0.0.1", 0, ssl=self.context) as listening:
            cluster = {"certificate-authority": str(self.trusted)}
            address = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            known = Credentials(kubeconfig(self._folder, address, cluster), None, lambda: self.now)
            async with Connection(known) as connection:
                await story(connection)


@pytest.mark.parametrize("body", [None, b"{}"])
@pytest.mark.parametrize("noticed", ["after a minute", "when the server is not trusted"])
def test_an_authority_that_rotates_is_read_again(pair, tmp_path, body, noticed):
    """The file has the new authority before the server has its certificate, or afterwards."""
    (tmp_path / "new").mkdir()
    rotated = signed_by_itself(tmp_path / "new")
    serving = Serving(tmp_path, pair)

    async def story(connection):
        method = "POST" if body else "GET"
        assert await connection.request(method, "/x", body=body) == b"{}"
        serving.serve_with(rotated)
        if noticed == "after a minute":
            serving.trusted.write_bytes(rotated[0].read_bytes())
            serving.now = 61.0
        else:
            with pytest.raises(api_errors.Unreachable, match=r"(?i)certificate"):
                await connection.request(method, "/x", body=body)
            serving.trusted.write_bytes(rotated[0].read_bytes())
        assert await connection.request(method, "/x", body=body) == b"{}"

    asyncio.run(serving.run(story))
