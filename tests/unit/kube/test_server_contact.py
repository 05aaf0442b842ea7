"""The contact with the API server: seen in the answers to all requests, and probed where there are none."""

import asyncio
import contextlib

import pytest

from tests.unit.kube.conftest import RealClock, running, until
from tests.unit.kube.scripted_server import Answer, refused
from wharfinger.kube import api_errors
from wharfinger.kube.connection import UNREACHABLE_AFTER, ServerContact, keep_checking_server


class Moment:
    def __init__(self):
        self.at = 100.0

    def __call__(self):
        return self.at


@pytest.mark.parametrize("status", [200, 201, 401, 403, 404, 409, 410, 422, 429])
def test_a_refusal_is_an_answer(status):
    moment = Moment()
    contact = ServerContact(moment)
    moment.at += 3600
    contact.record(status)
    assert (contact.seconds_since_answer, contact.unreachable_reason) == (0.0, None)


@pytest.mark.parametrize(
    ("failures", "said"),
    [((0, "GET /version: connection refused"), "GET /version: connection refused"), ((503,), "HTTP status 503"), (None, "")],
)
def test_a_server_that_has_not_answered_for_long_is_away(failures, said):
    moment = Moment()
    contact = ServerContact(moment)
    moment.at += UNREACHABLE_AFTER - 1
    if failures is not None:
        contact.record(*failures)
    assert contact.unreachable_reason is None, "one failure is none of the server"
    moment.at += 1
    assert contact.unreachable_reason == f"no answer for 15 s{said and ': '}{said}"
    contact.record(200)
    assert contact.unreachable_reason is None


@pytest.mark.parametrize("answer", [Answer(), refused(404), refused(403)])
def test_requests_tell_of_their_answers(run, answer):
    async def scenario(server, connection):
        server.on("GET", "/x", answer)
        connection.contact = contact = ServerContact(moment := Moment())
        moment.at += 3600
        with contextlib.suppress(api_errors.ApiError):
            await connection.request("GET", "/x")
        assert contact.unreachable_reason is None

    run(scenario)


@pytest.mark.parametrize("answer", [Answer(dropped=True), refused(503)])
def test_requests_tell_of_their_failures(run, answer):
    async def scenario(server, connection):
        server.on("GET", "/x", answer)
        connection.contact = contact = ServerContact(moment := Moment())
        moment.at += 3600
        with pytest.raises(api_errors.ApiError):
            await connection.request("GET", "/x")
        with pytest.raises(api_errors.ApiError):
            async with connection.lines("/x", {}):
                pass
        assert contact.unreachable_reason.startswith("no answer for 3600 s: ")

    run(scenario)


def test_a_server_without_requests_is_probed(run):
    async def scenario(server, connection):
        server.on("GET", "/version", Answer(dropped=True), Answer())
        connection.contact = contact = ServerContact(moment := Moment())
        async with running(keep_checking_server(connection, RealClock())):
            await asyncio.sleep(0.1)
            assert server.seen == [], "it has just answered"
            moment.at += 3600
            assert contact.unreachable_reason
            await until(lambda: contact.unreachable_reason is None)
        assert [seen.path for seen in server.seen] == ["/version"] * 2

    run(scenario)
