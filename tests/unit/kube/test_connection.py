"""Connections find their server, renew their credentials, and report clear errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time

import pytest

from tests.unit.kube.conftest import kubeconfig
from tests.unit.kube.scripted_server import Answer, ScriptedServer, refused
from wharfinger.errors import UsageError
from wharfinger.kube import api_errors
from wharfinger.kube.api_server import server_version
from wharfinger.kube.connection import Connection, Limits
from wharfinger.kube.credentials import Credentials

TEST_CA = """-----BEGIN CERTIFICATE-----
MIIBejCCASGgAwIBAgIUHunBXGkT+VGrsgQfY/n9WygJ3wcwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMjExMTM5MTFaGA8yMTI2MTAyODEx
MzkxMVowEjEQMA4GA1UEAwwHdGVzdC1jYTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABB+hZxpPiq812jdwRdZ7lqpRYSH5Li4XyP3HOPEooq/ep83vcnotvsCAM/Jj
uLkMdI8EBLb0LufXCflo+DXQhbCjUzBRMB0GA1UdDgQWBBRWNqBzj1ERjQCnWqh5
Nc8dgJdeYTAfBgNVHSMEGDAWgBRWNqBzj1ERjQCnWqh5Nc8dgJdeYTAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIFWqcTfG9tOkcAExNO5kvPp4yU6m
Yo1BMiuB3R5dYrviAiB6yFXa65i0foeXYkvyyyNTE+M1dEiUZ7ZE6qiE29sDNA==
-----END CERTIFICATE-----
"""


class HandClock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def with_user(tmp_path):
    """Runs a scenario with a connection whose kubeconfig has the user; gives the Authorization headers that were seen."""

    def start(scenario, *answers, **user):
        clock = HandClock()

        async def main():
            async with ScriptedServer().serving() as server:
                server.on("GET", "/x", *(answers or [Answer()]))
                path = kubeconfig(tmp_path, server.address, **user)
                async with Connection(Credentials(path, None, clock)) as connection:
                    await scenario(connection, clock)
                return [seen.headers.get("Authorization") for seen in server.seen]

        return asyncio.run(main())

    return start


def test_a_token_file_is_read_again_every_minute(with_user, tmp_path):
    token = tmp_path / "token"
    token.write_text("one")

    async def scenario(connection, clock):
        await connection.request("GET", "/x")
        token.write_text("two")
        await connection.request("GET", "/x")
        clock.time = 61.0
        await connection.request("GET", "/x")

    assert with_user(scenario, tokenFile=str(token)) == ["Bearer one", "Bearer one", "Bearer two"]


def test_the_end_of_line_of_a_token_file_is_no_part_of_the_token(with_user, tmp_path):
    (tmp_path / "token").write_text("one\n")

    async def scenario(connection, clock):
        await connection.request("GET", "/x")

    assert with_user(scenario, tokenFile=str(tmp_path / "token")) == ["Bearer one"]


def test_a_pod_uses_the_account_that_is_mounted(monkeypatch, tmp_path):
    token, certificate = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("mounted\n")
    certificate.write_text(TEST_CA)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("wharfinger.kube.credentials._IN_HOME", str(tmp_path / "none"))
    monkeypatch.setattr("kubernetes.aio.config.incluster_config.SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr("kubernetes.aio.config.incluster_config.SERVICE_CERT_FILENAME", str(certificate))

    async def main():
        credentials = Credentials(None, None, time.monotonic)
        await credentials.load()
        assert credentials.server == "https://10.0.0.1:443"
        assert await credentials.authorization() == "bearer mounted"
        assert credentials.tls.verify_mode.name == "CERT_REQUIRED"
        assert not await credentials.renew("bearer mounted")
        token.write_text("rotated")
        assert await credentials.renew("bearer mounted")
        assert await credentials.authorization() == "bearer rotated"

    asyncio.run(main())


def test_a_refused_token_is_read_again_at_once(with_user, tmp_path):
    token = tmp_path / "token"
    token.write_text("one")

    async def scenario(connection, clock):
        token.write_text("two")
        await connection.request("GET", "/x")

    assert with_user(scenario, refused(401), Answer(), tokenFile=str(token)) == ["Bearer one", "Bearer two"]


def test_a_token_that_stays_refused_is_unauthorized(with_user):
    async def scenario(connection, clock):
        with pytest.raises(api_errors.Unauthorized):
            await connection.request("GET", "/x")

    assert with_user(scenario, refused(401), token="t") == ["Bearer t"]


def test_a_kubeconfig_that_is_just_being_written_does_not_end_anything(with_user, tmp_path):
    async def scenario(connection, clock):
        (tmp_path / "config").write_text("{")
        with pytest.raises(api_errors.Unauthorized):
            await connection.request("GET", "/x")
        await connection.request("GET", "/x")

    assert with_user(scenario, refused(401), Answer(), token="t") == ["Bearer t", "Bearer t"]


def plugin(tmp_path, text):
    script = tmp_path / "plugin.py"
    script.write_text(text)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)], "interactiveMode": "Never"}


def test_an_exec_plugin_gives_the_token(with_user, tmp_path):
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "made"}}

    async def scenario(connection, clock):
        await connection.request("GET", "/x")

    assert with_user(scenario, exec=plugin(tmp_path, f"print('''{json.dumps(credential)}''')")) == ["Bearer made"]


def test_an_exec_plugin_that_fails_is_reported(with_user, tmp_path):
    async def scenario(connection, clock):
        raise AssertionError

    with pytest.raises(UsageError, match="exec plugin"):
        with_user(scenario, exec=plugin(tmp_path, "raise SystemExit(1)"))


@pytest.mark.parametrize(
    ("content", "context", "words"),
    [("{", None, "cannot read"), (None, None, "does not exist"), ("{}", None, "cannot read"), ("", None, "cannot read")],
)
def test_a_kubeconfig_that_cannot_be_used_is_reported(tmp_path, content, context, words):
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=words):
        asyncio.run(Credentials(str(path), context, time.monotonic).load())


def test_an_unknown_context_is_reported(tmp_path):
    with pytest.raises(UsageError, match="elsewhere"):
        asyncio.run(Credentials(kubeconfig(tmp_path, "https://127.0.0.1:1"), "elsewhere", time.monotonic).load())


def test_without_kubeconfig_and_pod_it_is_reported_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("wharfinger.kube.credentials._IN_HOME", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="--kubeconfig"):
        asyncio.run(Credentials(None, None, time.monotonic).load())


def test_https_is_verified_unless_the_kubeconfig_says_otherwise(tmp_path):
    credentials = Credentials(kubeconfig(tmp_path, "https://127.0.0.1:1"), None, time.monotonic)
    asyncio.run(credentials.load())
    assert credentials.tls.check_hostname
    assert credentials.tls.verify_mode.name == "CERT_REQUIRED"


REFUSALS = {
    400: api_errors.BadRequest,
    401: api_errors.Unauthorized,
    403: api_errors.Forbidden,
    404: api_errors.NotFound,
    409: api_errors.Conflict,
    410: api_errors.Gone,
    418: api_errors.ApiError,
    422: api_errors.Invalid,
    429: api_errors.TooManyRequests,
    500: api_errors.ServerError,
    504: api_errors.ServerError,
}


@pytest.mark.parametrize("status", REFUSALS)
def test_each_status_has_its_exception(run, status):
    async def scenario(server, connection):
        server.on("GET", "/x", refused(status, "Why", "because"))
        with pytest.raises(api_errors.ApiError, match="because") as caught:
            await connection.request("GET", "/x")
        assert type(caught.value) is REFUSALS[status]
        assert (caught.value.status, caught.value.reason) == (status, "Why")

    run(scenario)


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (refused(429, Retry_After="7"), 7.0),
        (refused(429, Retry_After="86400"), 60.0),
        (refused(429, Retry_After="-1"), 0.0),
        (refused(429, Retry_After="inf"), 60.0),
        (refused(429, Retry_After="nan"), None),
        (refused(429, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"), None),
        (Answer(status=429, body={"kind": "Status", "details": {"retryAfterSeconds": 4}}), 4.0),
        (Answer(status=429, raw=b"<html>busy"), None),
    ],
)
def test_the_wait_that_a_server_asks_for_is_kept_and_bounded(run, answer, seconds):
    async def scenario(server, connection):
        server.on("GET", "/x", answer)
        with pytest.raises(api_errors.TooManyRequests) as caught:
            await connection.request("GET", "/x")
        assert caught.value.retry_after == seconds

    run(scenario)


@pytest.mark.parametrize("answer", [Answer(delay=20), Answer(dropped=True)])
def test_no_answer_is_unreachable(run, answer):
    async def scenario(server, connection):
        server.on("POST", "/x", answer)
        with pytest.raises(api_errors.Unreachable, match="POST /x"):
            await connection.request("POST", "/x", body=b"{}")
        assert len(server.seen) == 1  # what may have been carried out is not repeated behind anybody's back

    run(scenario, request_timeout=0.3)


@pytest.mark.parametrize("body", [None, b"{}"])
@pytest.mark.parametrize(("answer", "status"), [(Answer(), 200), (refused(409), 409), (Answer(dropped=True), 0)])
def test_every_request_is_reported_to_its_observer(run, answer, status, body):
    reported = []

    async def scenario(server, connection):
        server.on("POST", "/x", answer)
        with contextlib.suppress(api_errors.ApiError):
            await connection.request("POST", "/x", body=body)

    run(scenario, emit=reported.append)
    [answered] = reported
    assert (answered.method, answered.status) == ("POST", status)
    assert 0 < answered.seconds < 5


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_is_not_there_is_unreachable(tmp_path, scheme):
    async def main():
        credentials = Credentials(kubeconfig(tmp_path, f"{scheme}://127.0.0.1:1"), None, time.monotonic)
        async with Connection(credentials, Limits()) as connection:
            with pytest.raises(api_errors.Unreachable, match=r"GET /x: cannot connect to 127\.0\.0\.1:1: Connect call failed [^<>]*$"):
                await connection.request("GET", "/x")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("reported", "release", "streams"),
    [
        ({"major": "1", "minor": "36", "gitVersion": "v1.36.3"}, (1, 36), True),
        ({"major": "1", "minor": "33+"}, (1, 33), False),
        ({}, (0, 0), False),
    ],
)
def test_the_version_of_the_server(run, reported, release, streams):
    async def scenario(server, connection):
        server.on("GET", "/version", Answer(body=reported))
        version = await server_version(connection)
        assert (version.release, version.streams_lists) == (release, streams)

    run(scenario)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_is_named(run, status):
    async def scenario(server, connection):
        server.on("GET", "/x", Answer(status=status, headers={"Location": f"{server.address}/other"}))
        server.on("GET", "/other", Answer(body={"a": 1}))
        with pytest.raises(api_errors.ApiError, match=f"GET /x: a redirect .HTTP status {status}.; the kubeconfig has to name"):
            await connection.request("GET", "/x")
        with pytest.raises(api_errors.ApiError, match=f"GET /x: a redirect .HTTP status {status}."):
            async with connection.lines("/x", {}):
                pass
        assert server.requests("GET", "/other") == []

    run(scenario)


@pytest.mark.parametrize("content", [b"<html>log in", b"", b"[]", b'{"major": 1}', b"\xff"])
def test_an_answer_that_is_no_version_is_an_error_of_the_server(run, content):
    async def scenario(server, connection):
        server.on("GET", "/version", Answer(raw=content))
        with pytest.raises(api_errors.ApiError, match="GET /version: an answer that is no version"):
            await server_version(connection)

    run(scenario)
