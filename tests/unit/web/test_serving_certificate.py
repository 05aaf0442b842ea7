"""A TLS server whose certificate is replaced while it serves."""

import asyncio
import ssl
import subprocess

import pytest
from starlette.applications import Starlette

from tests.unit.web.certificates import signed_by_itself
from wharfinger.web.server import Server
from wharfinger.web.serving_certificate import ServingCertificate


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


def test_an_encrypted_key_is_an_error_and_no_question(files, tmp_path):
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "ec", "-in", files[1], "-aes256", "-passout", "pass:word", "-out", locked], check=True, capture_output=True)

    with pytest.raises(OSError):  # noqa: PT011 — which error OpenSSL has for it depends on its version
        ServingCertificate(str(files[0]), str(locked)).reload()
