"""The first connection to an API server: errors that are waited out, and errors that end the start."""

import asyncio

import pytest

from tests.unit.kube.conftest import RealClock, kubeconfig
from tests.unit.kube.scripted_server import Answer, ScriptedServer, refused
from wharfinger.daemon.serve import wait_for_server
from wharfinger.errors import UsageError
from wharfinger.kube.connection import Connection
from wharfinger.kube.credentials import Credentials

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.2"}


def contact(folder, *answers):
    """(version, seconds waited for, complaints) of a first contact with a server that answers this."""
    clock, complaints = RealClock(), []

    async def story():
        server = ScriptedServer()
        server.on("GET", "/version", *answers)
        async with server.serving(), Connection(Credentials(kubeconfig(folder, server.address), None, clock.monotonic)) as connection:
            return await wait_for_server(connection, clock, complaints.append)

    return asyncio.run(story()), clock.waits, complaints


def test_a_server_that_answers_says_its_version(tmp_path):
    version, waits, complaints = contact(tmp_path, Answer(body=VERSION))

    assert (version.text, version.streams_lists, waits, complaints) == ("v1.36.2", True, [], [])


@pytest.mark.parametrize("trouble", [refused(503), refused(500), refused(429)], ids=["503", "500", "429"])
def test_temporary_failures_are_retried_with_growing_waits(tmp_path, trouble):
    version, waits, complaints = contact(tmp_path, trouble, trouble, trouble, Answer(body=VERSION))

    assert version.text == "v1.36.2"
    assert waits[0] < waits[1] < waits[2]
    assert all("does not answer yet, asking again: " in complaint for complaint in complaints)
    assert len(complaints) == 3


def test_credentials_that_are_refused_are_not_tried_for_ever(tmp_path):
    with pytest.raises(UsageError, match=r"the API server http://127\.0\.0\.1:\d+ refuses the credentials: Unauthorized"):
        contact(tmp_path, refused(401, "Unauthorized"))


def test_without_permission_to_read_the_version_the_start_continues(tmp_path):
    version, _, _ = contact(tmp_path, refused(403, "Forbidden"))

    assert not version.streams_lists


def test_a_server_that_is_none_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:\d+ does not answer as an API server does: to an HTTPS server"):
        contact(tmp_path, refused(400, "to an HTTPS server"))
