"""The lengths of the steps of the event loop."""

import asyncio

import pytest

from wharfinger.telemetry.timing import TICK_SECONDS, WINDOW_SECONDS, EventLoopLag

STEPS = "wharfinger_event_loop_step_seconds"
LONGEST = "wharfinger_event_loop_longest_step_seconds"


class Moment:
    """A clock that moves by hand."""

    now = 100.0

    def timer(self):
        return self.now


def measured(scene, *steps):
    moment = Moment()
    found = EventLoopLag(scene.metrics, moment.timer)
    for step in steps:
        found.record_delay(step)
    return moment, found


def test_the_timer_is_late_by_the_step_that_delays_it(scene):
    measured(scene, 0.0, 0.03, 0.5, 0.0)
    found = scene.samples(f"{STEPS}_bucket")
    below = {float(dict(labels)["le"]): count for labels, count in found.items()}
    assert [below[edge] for edge in (0.02, 0.05, 0.2, 1.0)] == [2, 3, 3, 4]
    assert scene.samples(LONGEST)[()] == pytest.approx(0.5)


def test_the_longest_step_is_forgotten_after_two_minutes_at_most(scene):
    moment, found = measured(scene, 0.3)
    moment.now += WINDOW_SECONDS
    found.record_delay(0.1)
    assert found.longest == pytest.approx(0.3)
    moment.now += WINDOW_SECONDS
    assert found.longest == pytest.approx(0.1)
    moment.now += 2 * WINDOW_SECONDS
    assert found.longest == 0.0


def test_a_step_that_a_real_loop_runs_is_seen(scene):
    async def story():
        found = EventLoopLag(scene.metrics)
        task = asyncio.create_task(found.run())
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        until = loop.time() + 5 * TICK_SECONDS
        while loop.time() < until:  # a step of five ticks
            pass
        await asyncio.sleep(2 * TICK_SECONDS)
        task.cancel()
        return found.longest

    assert asyncio.run(story()) >= 4 * TICK_SECONDS - 0.001


def test_the_timer_ends_with_the_task(scene):
    async def story():
        found = EventLoopLag(scene.metrics)
        task = asyncio.create_task(found.run())
        await asyncio.sleep(3 * TICK_SECONDS)
        task.cancel()
        await asyncio.wait([task])
        seen = scene.samples(f"{STEPS}_count")[()]
        await asyncio.sleep(3 * TICK_SECONDS)
        return seen, scene.samples(f"{STEPS}_count")[()]

    seen, later = asyncio.run(story())
    assert 0 < seen == later
