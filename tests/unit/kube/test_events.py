"""Events are written behind everything else, once, and in series when they repeat."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kube.conftest import RealClock, Recorder, running, until
from tests.unit.kube.scripted_server import Answer, refused
from wharfinger.framework.ports import NORMAL, WARNING, Event, Reference
from wharfinger.kube.events import EventRecorder, EventSettings
from wharfinger.model.objects import ObjectMeta, Pod, PodSpec
from wharfinger.model.pod import PodView

PATH = "/apis/events.k8s.io/v1/namespaces/shop/events"


def pod(name="web"):
    spec = PodSpec(scheduler_name="dense")
    return PodView(Pod(metadata=ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}"), spec=spec))


def failed(events, name="web", note="0/1 nodes are available"):
    events.record(pod(name), Event(type=WARNING, reason="FailedScheduling", action="Scheduling", note=note))


@pytest.fixture
def recording(run):
    """Runs `scenario(events, server, recorder)` with a recorder that writes."""

    def start(scenario, *answers, busy=lambda: False, **settings):
        async def main(server, connection):
            server.on("POST", PATH, *(answers or [Answer(status=201)]))
            recorder = Recorder()
            chosen = EventSettings(controller="wharfinger", instance="me", **settings)
            events = EventRecorder(connection, chosen, RealClock(), recorder.report, busy)
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


def test_what_repeats_before_it_is_written_is_written_once_with_its_count(recording):
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


def test_an_event_that_has_expired_is_written_anew(recording):
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
def test_what_cannot_be_written_is_dropped_and_reported(recording, refusal, attempts):
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

    recording(scenario, most_waiting=3)


def scheduled(events, name="web"):
    events.record(pod(name), Event(type=NORMAL, reason="Scheduled", action="Binding", note="assigned"))


def test_while_bindings_are_under_way_other_events_wait(recording):
    binding = True

    async def scenario(events, server, recorder):
        nonlocal binding
        scheduled(events, "first")
        failed(events, "second")
        scheduled(events, "third")
        await until(lambda: server.seen)
        await asyncio.sleep(0.1)
        assert [request.body["regarding"]["name"] for request in server.seen] == ["second"]
        binding = False
        await until(lambda: len(server.seen) == 3)

    recording(scenario, busy=lambda: binding)


def test_bindings_without_an_end_do_not_keep_events_back_for_ever(recording):
    async def scenario(events, server, recorder):
        for name in ("first", "second"):
            scheduled(events, name)
        await asyncio.sleep(0.05)
        assert not server.seen
        await until(lambda: len(server.seen) == 2)

    recording(scenario, busy=lambda: True, patience=0.6)


def test_while_bindings_are_under_way_one_warning_at_a_time_is_written(recording):
    binding = True

    async def scenario(events, server, recorder):
        nonlocal binding
        for index in range(12):
            failed(events, f"p{index}")
        await until(lambda: len(server.seen) == 2)
        await asyncio.sleep(0.02)
        assert len(server.seen) == 2  # the second is still being answered
        binding = False
        await until(lambda: len(server.seen) >= 6)

    recording(scenario, Answer(status=201), Answer(status=201, delay=1.0), busy=lambda: binding)


def test_draining_does_not_wait_for_bindings(recording):
    async def scenario(events, server, recorder):
        for index in range(20):
            failed(events, f"p{index}")
        async with asyncio.timeout(10):
            await events.drain()
        assert len(server.seen) == 20

    recording(scenario, busy=lambda: True)
