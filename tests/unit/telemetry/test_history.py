"""The last hour of a scheduler."""

import asyncio

import pytest

from tests.in_memory import ManualClock
from tests.unit.scheduler.running import view
from tests.unit.telemetry.test_recent_decisions import attempt
from wharfinger.telemetry.recent_decisions import INTERVAL, MAX_POINTS, Reading, RecentDecisions, SchedulingHistory


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def recent(clock):
    return RecentDecisions(clock.now, clock.monotonic)


def decided(recent, seconds):
    event = attempt(view("a"))
    recent.handlers[type(event)](type(event)(**{**{name: getattr(event, name) for name in event.__struct_fields__}, "stages": seconds}))


def test_a_point_is_about_the_interval_that_has_just_ended(clock, recent):
    history = SchedulingHistory(recent, clock)
    decided(recent, {"decide": 9.0})
    clock.move(INTERVAL)
    history.add(Reading(pending=1, used={}))
    clock.move(1)
    for milliseconds in range(1, 102):
        decided(recent, {"decide": milliseconds / 1000})
    decided(recent, {"queue": 1.0})  # refused before anything was decided
    clock.move(INTERVAL - 1)

    history.add(Reading(pending=3, used={"cpu": 0.5}))

    first, second = history.points
    assert (first.rate, first.p50, first.pending) == (1 / INTERVAL, 9.0, 1)
    assert second[:2] == (clock.now(), 102 / INTERVAL)
    assert (second.p50, second.p99, second.pending, second.used) == (pytest.approx(0.051), pytest.approx(0.1), 3, {"cpu": 0.5})


def test_an_interval_without_decisions_has_no_percentiles(clock, recent):
    history = SchedulingHistory(recent, clock)
    clock.move(INTERVAL)
    history.add(Reading(pending=0, used={}))
    assert (history.points[0].rate, history.points[0].p50, history.points[0].p99) == (0, None, None)


def test_a_point_is_added_every_ten_seconds_and_an_hour_is_kept(clock, recent):
    history = SchedulingHistory(recent, clock)

    async def live():
        task = asyncio.ensure_future(history.run(lambda: Reading(pending=0, used={})))
        for _ in range(MAX_POINTS + 5):
            await asyncio.sleep(0)
            clock.move(INTERVAL)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(live())
    assert len(history.points) == MAX_POINTS
    assert history.points[-1].at - history.points[0].at == (MAX_POINTS - 1) * INTERVAL
