"""The ports put together: a replica that does not lead writes nothing, and events wait for bindings."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kube.conftest import RealClock, Recorder, running, until
from tests.unit.kube.scripted_server import Answer
from wharfinger.framework.ports import NORMAL, BindFailed, Condition, Event, WriteFailed
from wharfinger.kube.api_server import ServerVersion, ports_of
from wharfinger.kube.events import EventSettings
from wharfinger.kube.lease import LeaseSettings
from wharfinger.model.objects import ObjectMeta, PersistentVolumeClaim, Pod
from wharfinger.model.objects.pod_view import PodView

EVENTS = EventSettings(controller="wharfinger", instance="me")
PATH = "/api/v1/namespaces/shop/pods/web"
POD = PodView(Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u1")))


def test_a_process_that_does_not_lead_writes_nothing(run):
    async def scenario(server, connection):
        ports = ports_of(connection, RealClock(), Recorder().emit, events=EVENTS, lease=LeaseSettings(identity="me"))
        with pytest.raises(BindFailed):
            await ports.binder.bind(POD, "n1")
        with pytest.raises(WriteFailed):
            await ports.writer.patch_status(POD, condition=Condition(type="PodScheduled", status="False", reason="r", message="m"))
        with pytest.raises(WriteFailed):
            await ports.volumes.annotate_claim(PersistentVolumeClaim(metadata=ObjectMeta(name="data")), {"k": "v"})
        assert server.seen == []

    run(scenario)


def test_without_a_lease_this_process_leads(run):
    async def scenario(server, connection):
        server.on("POST", f"{PATH}/binding", Answer(status=201))
        await ports_of(connection, RealClock(), Recorder().emit, events=EVENTS).binder.bind(POD, "n1")
        assert len(server.seen) == 1

    run(scenario)


def test_while_a_binding_is_under_way_events_are_written_one_at_a_time(run):
    async def scenario(server, connection):
        server.on("POST", f"{PATH}/binding", Answer(status=201, delay=60.0))
        server.on("POST", "/apis/events.k8s.io/v1/namespaces/shop/events", Answer(status=201, delay=60.0))
        ports = ports_of(connection, RealClock(), Recorder().emit, events=EVENTS)
        async with running(ports.recorder.run()):
            binding = asyncio.ensure_future(ports.binder.bind(POD, "n1"))
            await until(lambda: len(server.seen) == 1)
            for reason in ("A", "B", "C"):
                ports.events.record(POD, Event(type=NORMAL, reason=reason, action="Binding", note=""))
            await until(lambda: len(server.seen) == 2)
            await asyncio.sleep(0.05)
            assert len(server.seen) == 2
            binding.cancel()
            await until(lambda: len(server.seen) == 4)

    run(scenario)


@pytest.mark.parametrize(("release", "streams"), [((1, 36), True), ((1, 30), False), (None, False)])
def test_lists_are_streamed_where_the_server_can(run, release, streams):
    async def scenario(server, connection):
        version = None if release is None else ServerVersion(release=release, text="")
        recorder = Recorder()
        ports = ports_of(connection, RealClock(), recorder.emit, events=EVENTS, version=version)
        async with running(ports.source.run(recorder)):
            await until(lambda: len(server.requests("GET", "/api/v1/nodes")) >= 1)
        assert ("sendInitialEvents" in server.requests("GET", "/api/v1/nodes")[0].query) == streams

    run(scenario)
