"""Tests of the faults: a scenario that injects no fault would always pass."""

import contextlib
import http.client
import json
import ssl
import time

import pytest

from tests.cluster import objects
from tests.cluster.api import Api, Refused
from tests.cluster.control_plane import TOKEN
from tests.cluster.misbehaviour import Answer, Delay, Lose
from tests.cluster.proxy import Proxy
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import PATIENCE, eventually

BROKEN = (ConnectionError, ssl.SSLError, http.client.HTTPException)


@pytest.fixture
def proxy(control_plane):
    with Proxy(control_plane) as running:
        yield running


@pytest.fixture
def through(control_plane, proxy):
    """A client that goes through the proxy."""
    api = Api(proxy.port, TOKEN, control_plane.certificate)
    yield api
    api.close()


@pytest.fixture
def watch(control_plane, proxy):
    """Opens a watch of pods through the proxy: (connection, answer)."""
    opened = []

    def start(timeout=PATIENCE):
        context = ssl.create_default_context(cafile=str(control_plane.certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", proxy.port, context=context, timeout=timeout)
        opened.append(connection)
        connection.request("GET", "/api/v1/pods?watch=true", headers={"Authorization": f"Bearer {TOKEN}"})
        opened.append(answer := connection.getresponse())
        return answer

    yield start
    for each in opened:
        each.close()


def test_nothing_happens_unless_asked_for(through, kubectl, proxy, control_plane):
    through.create(objects.pod("one"))

    assert [pod["metadata"]["name"] for pod in through.list("Pod")] == ["one"]
    assert "one" in control_plane.kubectl(f"--kubeconfig={proxy.kubeconfig}", "get", "pods")


def test_the_requests_that_match_are_refused_as_often_as_asked(through, proxy):
    fault = proxy.add(Answer(status=429, retry_after=1), method="POST", path="/pods$", times=2)

    for _ in range(2):
        with pytest.raises(Refused, match="TooManyRequests"):
            through.create(objects.pod("one"))
    through.create(objects.pod("one"))

    assert fault.done == 2
    assert proxy.count(lambda exchange: exchange.status == 429) == 2


def test_every_third_of_them(through, proxy):
    proxy.add(Answer(status=500), method="GET", every=3)

    def refused():
        try:
            through.list("Node")
        except Refused:
            return True
        return False

    assert [refused() for _ in range(6)] == [False, False, True, False, False, True]


def test_an_answer_comes_late(through, proxy):
    proxy.add(Delay(seconds=0.4), path="/nodes")
    began = time.monotonic()

    through.list("Node")

    assert time.monotonic() - began >= 0.4


def test_a_lost_answer_is_of_a_request_that_was_done(through, proxy, control_plane):
    proxy.add(Lose(), method="POST", times=1)

    with pytest.raises((OSError, http.client.HTTPException)):
        through.create(objects.pod("one"))

    assert control_plane.api.get("Pod", "one")["metadata"]["name"] == "one"


def test_a_watch_delivers_and_is_cut(watch, proxy, control_plane):
    answer = watch()
    control_plane.api.create(objects.pod("one"))
    assert json.loads(answer.readline())["object"]["metadata"]["name"] == "one"

    proxy.cut(watches=True)

    assert _ends(answer)


def test_watches_are_cut_again_and_again(watch, proxy):
    proxy.cut(watches=True, every=0.2)

    for _ in range(3):
        with contextlib.suppress(*BROKEN):  # it was cut before it was answered
            assert _ends(watch())


def test_an_expired_watch_says_so_in_its_stream(watch, proxy):
    proxy.add(Answer(status=410, in_stream=True), watch=True)

    event = json.loads(watch().readline())

    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_a_frozen_watch_sends_nothing_until_it_continues(watch, proxy, control_plane):
    answer = watch()
    control_plane.api.create(objects.pod("one"))
    answer.readline()

    proxy.freeze()
    control_plane.api.create(objects.pod("two"))
    time.sleep(0.3)
    with pytest.raises(TimeoutError):
        watch(timeout=0.5).readline()
    proxy.thaw()

    assert json.loads(answer.readline())["object"]["metadata"]["name"] == "two"


def test_clients_get_over_an_api_server_that_went_away(through, proxy, control_plane):
    control_plane.api_server.kill()
    with pytest.raises((OSError, http.client.HTTPException)):
        through.list("Node")

    control_plane.start_api_server()

    def answers():
        with contextlib.suppress(*BROKEN):  # a connection that the proxy had before
            return through.list("Node") == []

    eventually(answers)
    assert_sound(control_plane)


def _ends(answer):
    """Returns when the stream ends or breaks; raises TimeoutError for one that is silent."""
    try:
        while answer.readline():
            pass
    except BROKEN:
        pass
    return True
