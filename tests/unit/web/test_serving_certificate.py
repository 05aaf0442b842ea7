"""A TLS server whose certificate is replaced while it serves."""

import asyncio
import ssl
import subprocess

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.unit.web.certificates import Authority, signed_by_itself
from wharfinger.web.server import PEER_NAME, Server, ServingCertificate


@pytest.fixture
def files(tmp_path):
    return signed_by_itself(tmp_path, "first")


def other(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    return signed_by_itself(folder, "second")


async def served_name(port):
    """The subject of the certificate that a new connection gets, None where none comes about."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except (ssl.SSLError, ConnectionError):
        return None
    found = ssl.DER_cert_to_PEM_cert(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    writer.close()
    return await asyncio.to_thread(subject, found)


def subject(certificate):
    asked = ["openssl", "x509", "-noout", "-subject"]
    printed = subprocess.run(asked, input=certificate, capture_output=True, text=True, check=True).stdout
    return printed.strip().rpartition("=")[2].strip()


def test_new_connections_get_the_new_certificate(files, tmp_path):
    certificate = ServingCertificate(*map(str, files))

    async def main():
        async with Server(Starlette(), tls=certificate.context) as server:
            assert server.url.startswith("https://")
            assert await served_name(server.port) is None, "there is none yet"
            assert certificate.reload()
            assert await served_name(server.port) == "first"
            assert not certificate.reload(), "nothing has changed"
            for old, new in zip(files, other(tmp_path), strict=True):
                old.write_bytes(new.read_bytes())
            assert certificate.reload()
            assert await served_name(server.port) == "second"

    asyncio.run(main())


def test_files_that_do_not_fit_leave_what_there_was(files, tmp_path):
    certificate = ServingCertificate(*map(str, files))
    certificate.reload()
    key = files[1].read_bytes()

    async def main():
        async with Server(Starlette(), tls=certificate.context) as server:
            files[1].write_bytes(other(tmp_path)[1].read_bytes())
            with pytest.raises(ssl.SSLError, match=r"(?i:key)"):
                certificate.reload()
            assert await served_name(server.port) == "first"
            files[1].unlink()
            with pytest.raises(FileNotFoundError):
                certificate.reload()
            assert await served_name(server.port) == "first"
            files[1].write_bytes(key)
            assert not certificate.reload()

    asyncio.run(main())


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "ca.crt"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_files_with_other_content_are_named_and_leave_what_there_was(files, tmp_path, broken, content):
    authority = tmp_path / "ca.crt"
    authority.write_bytes(files[0].read_bytes())
    certificate = ServingCertificate(*map(str, (*files, authority)))
    assert not certificate.is_served
    certificate.reload()
    path = {"tls.crt": files[0], "tls.key": files[1], "ca.crt": authority}[broken]
    path.write_bytes(content)
    served = certificate._current
    with pytest.raises(ssl.SSLError) as raised:
        certificate.reload()
    assert str(path) in str(raised.value)
    assert str(raised.value).endswith("; expected PEM, with the key of that certificate and without a password")
    assert certificate._current is served
    assert certificate.is_served


def test_an_encrypted_key_is_an_error_and_no_question(files, tmp_path):
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "ec", "-in", files[1], "-aes256", "-passout", "pass:word", "-out", locked], check=True, capture_output=True)

    with pytest.raises(OSError):  # noqa: PT011 — which error OpenSSL has for it depends on its version
        ServingCertificate(str(files[0]), str(locked)).reload()


async def who(port, client=None):
    """The name of a client with a certificate, as the server has it; None where no answer comes."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if client is not None:
        context.load_cert_chain(*client)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
    except (ssl.SSLError, ConnectionError):
        return None
    writer.close()
    return answer.decode().rpartition("\n")[2] or None


def test_clients_are_known_by_an_authority_that_may_change(files, tmp_path):
    former, latter = Authority(tmp_path, "former"), Authority(tmp_path, "latter")
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes(former.certificate.read_bytes())
    certificate = ServingCertificate(*map(str, files), str(trusted))
    (tmp_path / "other").mkdir()
    of_server = signed_by_itself(tmp_path / "other")

    async def reported(request):
        return PlainTextResponse(request.scope["state"][PEER_NAME])

    async def main():
        async with Server(Starlette(routes=[Route("/", reported)]), tls=certificate.context) as server:
            assert await who(server.port, former.client("x")) is None, "there is no certificate yet"
            certificate.reload()
            answers = [await who(server.port, client) for client in (None, of_server, latter.client("x"), former.client("api"))]
            assert answers == [None, None, None, "api"]
            trusted.write_bytes(latter.certificate.read_bytes())
            assert certificate.reload()
            answers = [await who(server.port, client) for client in (None, former.client("api"), latter.client("x"))]
            assert answers == [None, None, "x"], "certificates of the former authority are refused"
            trusted.write_text("nonsense")
            with pytest.raises(ssl.SSLError):
                certificate.reload()
            assert await who(server.port, latter.client("x")) == "x"

    asyncio.run(main())
