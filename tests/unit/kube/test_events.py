"""Events are written after the writes that they report, and delay them little; each is written once, repeated ones as a series."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kube.conftest import RealClock, Recorder, running, until
from tests.unit.kube.scripted_server import Answer, refused
from wharfinger.framework.ports import NORMAL, WARNING, Event, Reference
from wharfinger.kube.events import EventRecorder, EventSettings
from wharfinger.model.objects import ObjectMeta, Pod, PodSpec
from wharfinger.model.objects.pod_view import PodView

PATH = "/apis/events.k8s.io/v1/namespaces/shop/events"


def pod(name="web"):
    spec = PodSpec(scheduler_name="dense")
    return PodView(Pod(metadata=ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}"), spec=spec))


def failed(events, name="web", note="0/1 nodes are available"):
    events.record(pod(name), Event(type=WARNING, reason="FailedScheduling", action="Scheduling", note=note))


@pytest.fixture
def recording(run):
    """Runs `scenario(events, server, recorder)` with a recorder that writes."""

    def start(scenario, *answers, busy=lambda: False, clock=None, **settings):
        async def main(server, connection):
            server.on("POST", PATH, *(answers or [Answer(status=201)]))
            recorder = Recorder()
            chosen = EventSettings(controller="wharfinger", instance="me", **settings)
            events = EventRecorder(connection, chosen, clock or RealClock(), recorder.emit, busy)
            async with running(events.run()):
                await scenario(events, server, recorder)

        run(main)

    return start


def allow_patches(server, answer=None):
    name = server.requests("POST")[0].body["metadata"]["name"]
    server.on("PATCH", f"{PATH}/{name}", answer or Answer())


def test_the_profile_that_decided_reports(recording):
    async def scenario(events, server, recorder):
        events.record(pod(), Event(type=NORMAL, reason="Preempted", action="Preempting", note="", reporter="urgent"))
        await events.drain()
        assert server.seen[0].body["reportingController"] == "urgent"

    recording(scenario)


def test_an_event_recorded_by_several_reporters_is_written_once(recording):
    once = Event(type=NORMAL, reason="Scheduled", action="Binding", note="assigned", once=True)

    async def scenario(events, server, recorder):
        events.record(pod(), once)
        await events.drain()
        events.record(pod(), once)
        await events.drain()
        assert [seen.body["metadata"]["name"] for seen in server.seen] == ["web.uid-web.scheduled"]
        assert events.dropped == 0

    recording(scenario, refused(409, "AlreadyExists"))


def test_an_event_has_the_fields_of_the_api(recording):
    async def scenario(events, server, recorder):
        note, related = "Successfully assigned shop/web to n1", Reference(kind="Node", name="n1")
        events.record(pod(), Event(type=NORMAL, reason="Scheduled", action="Binding", note=note, related=related))
        await events.drain()
        (seen,) = server.seen
        body = seen.body
        assert body["metadata"].pop("name").startswith("web.")
        assert body.pop("eventTime").endswith("Z")
        assert body == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": "shop"},
            "reportingController": "dense",
            "reportingInstance": "me",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "shop", "uid": "uid-web"},
            "related": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
            "type": "Normal",
            "reason": "Scheduled",
            "action": "Binding",
            "note": "Successfully assigned shop/web to n1",
        }

    recording(scenario)


def test_a_long_note_is_cut_as_kube_scheduler_cuts_it(recording):
    async def scenario(events, server, recorder):
        failed(events, note="x" * 2000)
        await events.drain()
        assert server.seen[0].body["note"] == "x" * 1020 + " ..."
        failed(events, "other", note="ü" * 1000)
        await events.drain()
        assert server.seen[1].body["note"] == "ü" * 510 + " ...", "the API server counts bytes"

    recording(scenario)


def test_the_second_time_makes_a_series_and_the_next_ones_wait(recording):
    async def scenario(events, server, recorder):
        failed(events)
        await events.drain()
        allow_patches(server)
        for _ in range(5):
            failed(events, note="another reason")
            await events.drain()
        assert [seen.method for seen in server.seen] == ["POST", "PATCH"]
        assert server.seen[1].body["series"]["count"] == 2

    recording(scenario)


def test_a_series_is_written_again_after_its_interval(recording):
    async def scenario(events, server, recorder):
        failed(events)
        await events.drain()
        allow_patches(server)
        for _ in range(3):
            failed(events)
            await events.drain()
        assert [seen.body["series"]["count"] for seen in server.requests("PATCH")] == [2, 3, 4]

    recording(scenario, series_interval=0.0)


def test_repeated_events_that_wait_are_written_once_with_a_count(recording):
    async def scenario(events, server, recorder):
        for _ in range(4):
            failed(events)
        await events.drain()
        (seen,) = server.seen
        assert seen.body["series"]["count"] == 4

    recording(scenario)


def test_other_pods_have_other_events(recording):
    async def scenario(events, server, recorder):
        failed(events, "a")
        failed(events, "b")
        await events.drain()
        assert len({seen.body["metadata"]["name"] for seen in server.requests("POST")}) == 2

    recording(scenario)


def test_an_event_that_has_expired_is_written_again(recording):
    async def scenario(events, server, recorder):
        failed(events)
        await events.drain()
        failed(events)
        await events.drain()
        assert [seen.method for seen in server.seen] == ["POST", "PATCH", "POST"]
        assert server.seen[2].body["series"]["count"] == 2
        assert events.dropped == 0

    recording(scenario)


@pytest.mark.parametrize("refusal", [refused(429, Retry_After="1"), refused(500), Answer(dropped=True)])
def test_a_busy_server_is_asked_again(recording, refusal):
    async def scenario(events, server, recorder):
        failed(events)
        await events.drain()
        assert len(server.seen) == 2
        assert (events.dropped, recorder.reports) == (0, [])

    recording(scenario, refusal, Answer(status=201))


@pytest.mark.parametrize(("refusal", "attempts"), [(refused(403), 1), (refused(404), 1), (refused(422), 1), (refused(500), 3)])
def test_refused_events_are_dropped_and_reported(recording, refusal, attempts):
    async def scenario(events, server, recorder):
        failed(events)
        await events.drain()
        assert len(server.seen) == attempts
        assert events.dropped == 1
        assert len(recorder.reports) == 1

    recording(scenario, refusal)


def test_a_name_that_exists_was_written_by_the_attempt_before(recording):
    async def scenario(events, server, recorder):
        failed(events)
        await events.drain()
        assert (events.dropped, recorder.reports) == (0, [])

    recording(scenario, refused(500), refused(409, "AlreadyExists"))


def test_a_full_queue_drops_and_counts(recording):
    async def scenario(events, server, recorder):
        for index in range(5):
            failed(events, f"p{index}")
        assert events.dropped == 2
        await events.drain()
        assert len(server.seen) == 3

    recording(scenario, max_waiting=3)


def scheduled(events, name="web"):
    events.record(pod(name), Event(type=NORMAL, reason="Scheduled", action="Binding", note="assigned"))


class HeldClock(RealClock):
    """The test moves the clock."""

    def __init__(self):
        super().__init__()
        self.passed = 0.0

    def monotonic(self):
        return self.passed


UNANSWERED = Answer(status=201, delay=60.0)


def names(requests):
    return [request.body["regarding"]["name"] for request in requests]


@pytest.mark.parametrize(("waited", "written"), [(0.0, 1), (2.5, 2), (4.0, 6), (4.75, 10), (5.0, 12), (10.0, 23), (50.0, 48)])
def test_during_bindings_more_are_written_at_a_time_the_longer_the_oldest_has_waited(recording, waited, written):
    clock = HeldClock()

    async def scenario(events, server, recorder):
        for index in range(100):
            scheduled(events, f"p{index}")
        clock.passed = waited
        assert events.oldest == waited
        await until(lambda: len(server.seen) >= written)
        await asyncio.sleep(0.05)
        assert names(server.seen) == [f"p{index}" for index in range(written)]

    recording(scenario, UNANSWERED, busy=lambda: True, clock=clock)


def test_when_the_bindings_are_done_as_many_as_may_be_are_written(recording):
    binding = True

    async def scenario(events, server, recorder):
        nonlocal binding
        for index in range(40):
            scheduled(events, f"p{index}")
        await until(lambda: server.seen)
        await asyncio.sleep(0.05)
        assert len(server.seen) == 1
        binding = False
        await until(lambda: len(server.seen) == 5)

    recording(scenario, UNANSWERED, busy=lambda: binding, clock=HeldClock(), writers=5)


def test_warnings_come_first_unless_others_have_waited_for_too_long(recording):
    clock = HeldClock()

    async def scenario(events, server, recorder):
        scheduled(events, "early")
        failed(events, "warning")
        clock.passed = 2.5
        failed(events, "later")
        await until(lambda: len(server.seen) == 1)
        clock.passed = 5.0
        await until(lambda: len(server.seen) == 3)
        assert names(server.seen) == ["warning", "early", "later"]
        await events.drain()
        assert events.oldest == 0.0

    recording(scenario, Answer(status=201, delay=0.3), Answer(status=201), busy=lambda: True, clock=clock, writers=1)


def test_events_do_not_wait_for_connections_behind_bindings(run):
    async def main(server, connection):
        server.on("POST", "/binding", Answer(status=201, delay=60.0))
        server.on("POST", PATH, Answer(status=201))
        events = EventRecorder(
            connection, EventSettings(controller="wharfinger", instance="me"), RealClock(), Recorder().emit, lambda: True
        )
        waiting = [
            asyncio.ensure_future(connection.request("POST", "/binding", body=b"{}")) for _ in range(connection.limits.connections + 5)
        ]
        async with running(events.run()):
            await until(lambda: len(server.seen) == connection.limits.connections)
            scheduled(events)
            await until(lambda: server.requests("POST", PATH))
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    run(main)


def test_draining_does_not_wait_for_bindings(recording):
    async def scenario(events, server, recorder):
        for index in range(20):
            failed(events, f"p{index}")
        async with asyncio.timeout(10):
            await events.drain()
        assert len(server.seen) == 20

    recording(scenario, busy=lambda: True)
