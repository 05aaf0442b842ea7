"""All kinds at once for several subscribers, with a gate that opens after the first lists."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kube.conftest import RealClock, Recorder, running, until
from tests.unit.kube.scripted_server import QUIET, Answer, Stream, refused
from wharfinger.kube.reflector import Informers
from wharfinger.kube.wire import COSCHEDULING_PODGROUPS, NODES, PODS, SCHEDULING, Resource
from wharfinger.model import objects

SERVICES = Resource(kind=objects.Service, path="/api/v1/services")


def serve(server, resource, *items, watch=QUIET, list_delay=0.0):
    body = {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": name}} for name in items]}

    def answer(seen):
        return watch if "watch" in seen.query else Answer(body=body, delay=list_delay)

    server.on("GET", resource.path, answer)


def test_every_subscriber_gets_every_event(run):
    async def scenario(server, connection):
        one, two, clock = Recorder(), Recorder(), RealClock()
        serve(
            server,
            NODES,
            "a",
            watch=Stream(events=[{"type": "ADDED", "object": {"metadata": {"name": "b", "resourceVersion": "6"}}}], hang=30),
        )
        serve(server, PODS, "p")
        informers = Informers(connection, clock, one.emit, resources=(NODES, PODS))
        informers.subscribe(one)
        async with running(informers.run(two)):
            await informers.wait_synced()
            await until(lambda: one.names("Node") == two.names("Node") == {"a", "b"})
            assert one.names("Pod") == {"default/p"}
            with pytest.raises(RuntimeError):
                informers.subscribe(Recorder())
        assert one.reported == two.reported

    run(scenario)


def test_the_gate_opens_with_the_last_kind(run):
    async def scenario(server, connection):
        recorder = Recorder()
        serve(server, NODES, "a")
        serve(server, PODS, "p", list_delay=0.5)
        informers = Informers(connection, RealClock(), recorder.emit, resources=(NODES, PODS))
        assert informers.unsynced == {"Node", "Pod"}
        async with running(informers.run(recorder)):
            await until(lambda: informers.unsynced == {"Pod"})
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(informers.wait_synced(), 0.01)
            await informers.wait_synced()
            assert recorder.kinds_synced == ["Node", "Pod"]

    run(scenario)


def test_a_refused_kind_is_named_and_does_not_keep_the_gate_shut(run):
    async def scenario(server, connection):
        recorder = Recorder()
        serve(server, NODES, "a")
        server.on("GET", SERVICES.path, refused(403, "Forbidden", "services is forbidden"))
        informers = Informers(connection, RealClock(), recorder.emit, resources=(NODES, SERVICES))
        async with running(informers.run(recorder)):
            await informers.wait_synced()
            assert informers.refused == {"Service": "services is forbidden"}

    run(scenario)


def test_pods_that_have_ended_are_not_asked_for(run):
    async def scenario(server, connection):
        recorder = Recorder()
        serve(server, PODS, "p")
        async with running(Informers(connection, RealClock(), recorder.emit, resources=(PODS,)).run(recorder)):
            await until(lambda: len(server.seen) == 2)
        assert {seen.query["fieldSelector"] for seen in server.seen} == {"status.phase!=Succeeded,status.phase!=Failed"}

    run(scenario)


@pytest.mark.parametrize(
    ("answer", "served"),
    [(Answer(body={"metadata": {}, "items": []}), True), (refused(404, "NotFound"), False), (refused(403, "Forbidden"), False)],
)
def test_a_kind_is_served_if_it_can_be_read(run, answer, served):
    async def scenario(server, connection):
        recorder = Recorder()
        server.on("GET", COSCHEDULING_PODGROUPS.path, answer, QUIET)
        informers = Informers(connection, RealClock(), recorder.emit, resources=(COSCHEDULING_PODGROUPS,))
        assert not informers.serves(COSCHEDULING_PODGROUPS)
        async with running(informers.run(recorder)):
            await informers.wait_synced()
            assert informers.serves(COSCHEDULING_PODGROUPS) == served

    run(scenario)


def test_every_kind_that_is_watched_is_one_that_can_be_read():
    assert {resource.kind for resource in SCHEDULING} <= set(objects.KINDS.values())
    assert len({resource.path for resource in SCHEDULING}) == len(SCHEDULING)
    for resource in SCHEDULING:
        group = resource.path.split("/")[2] if resource.path.startswith("/apis/") else ""
        assert objects.KINDS[group, objects.written_kind(resource.kind())] is resource.kind
