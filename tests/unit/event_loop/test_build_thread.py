"""Policies are built in a thread: the scheduler rests during the build, for a limited time, and the switch interval is restored."""

import asyncio
import sys
import threading

import pytest

from tests.in_memory import ManualClock
from wharfinger.event_loop import BUILD_PAUSE, MAX_PAUSED_BUILD, SWITCH_INTERVAL, BuildThread


def test_the_scheduler_is_asked_to_pause_while_something_is_built():
    async def story():
        clock = ManualClock()
        thread, go = BuildThread(clock), threading.Event()
        usual = sys.getswitchinterval()
        assert thread.rest() == 0
        building = asyncio.create_task(thread.run(go.wait, 10))
        await asyncio.sleep(0)
        seen = [(thread.rest(), sys.getswitchinterval())]
        clock.move(MAX_PAUSED_BUILD + 1)
        seen.append((thread.rest(), sys.getswitchinterval()))
        go.set()
        assert await building is True
        assert seen == [(BUILD_PAUSE, pytest.approx(SWITCH_INTERVAL)), (0, pytest.approx(SWITCH_INTERVAL))]
        assert (thread.rest(), sys.getswitchinterval()) == (0, usual)

    asyncio.run(story())


def test_an_exception_in_the_thread_is_raised_here_and_ends_the_pause():
    async def story():
        thread = BuildThread(ManualClock())
        with pytest.raises(ZeroDivisionError):
            await thread.run(lambda: 1 / 0)
        assert thread.rest() == 0

    asyncio.run(story())


def test_the_scheduler_does_not_pause_for_work_that_pods_do_not_wait_for():
    async def story():
        thread, go = BuildThread(ManualClock()), threading.Event()
        running = asyncio.create_task(thread.run_without_rest(go.wait, 10))
        await asyncio.sleep(0)
        seen = thread.rest(), sys.getswitchinterval()
        go.set()
        await running
        assert seen == (0, pytest.approx(SWITCH_INTERVAL))

    asyncio.run(story())


@pytest.mark.parametrize("first", [0, 1])
def test_threads_that_overlap_leave_the_switch_interval_as_it_was(first):
    async def story():
        usual, gates = sys.getswitchinterval(), (threading.Event(), threading.Event())
        clock = ManualClock()
        tasks = [asyncio.create_task(BuildThread(clock).run_without_rest(gate.wait, 10)) for gate in gates]
        await asyncio.sleep(0.01)
        seen = []
        for index in (first, 1 - first):
            seen.append(sys.getswitchinterval())
            gates[index].set()
            await tasks[index]
        assert seen == [pytest.approx(SWITCH_INTERVAL)] * 2
        assert sys.getswitchinterval() == usual

    asyncio.run(story())


@pytest.mark.parametrize("function", [lambda go: go.wait(10), lambda go: go.wait(10) and 1 / 0], ids=["answers", "fails"])
def test_a_caller_that_gives_up_ends_when_the_thread_does_so_that_there_is_never_a_second_one(function):
    async def story():
        thread, go = BuildThread(ManualClock()), threading.Event()
        building = asyncio.create_task(thread.run(function, go))
        await asyncio.sleep(0)
        building.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert (building.done(), thread.rest()) == (False, BUILD_PAUSE)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await building
        assert thread.rest() == 0

    asyncio.run(story())
