"""Background tasks end with their context, and do not fail unseen."""

import asyncio

import pytest

from wharfinger.event_loop import Tasks


async def forever():
    await asyncio.Event().wait()


async def failing(error=ValueError):
    await asyncio.sleep(0)
    raise error("broken")


async def failing_inside_a_group():
    async with asyncio.TaskGroup() as group:
        group.create_task(forever())
        group.create_task(failing())


def test_an_event_ends_the_wait_and_the_context_ends_the_tasks():
    async def story():
        event = asyncio.Event()
        async with Tasks() as tasks:
            first = tasks.start(forever(), "first")
            asyncio.get_running_loop().call_soon(event.set)
            await tasks.until(event)
        assert first.cancelled()

    asyncio.run(story())


def test_the_latest_task_is_ended_first():
    ended = []

    async def noting(name):
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async def story():
        async with Tasks() as tasks:
            for name in ("events", "watches", "election"):
                tasks.start(noting(name), name)
            await asyncio.sleep(0)

    asyncio.run(story())
    assert ended == ["election", "watches", "events"]


@pytest.mark.parametrize("work", [failing, failing_inside_a_group])
def test_a_task_that_fails_ends_the_wait_with_its_error_alone(work):
    async def story():
        async with Tasks() as tasks:
            tasks.start(forever(), "other")
            tasks.start(work(), "failing")
            await tasks.until(asyncio.Event())

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(story())


def test_a_task_that_fails_while_it_is_cancelled_raises():
    async def failing_at_the_end():
        try:
            await forever()
        finally:
            raise ValueError("broken")

    async def story():
        async with Tasks() as tasks:
            tasks.start(failing_at_the_end(), "failing")
            await asyncio.sleep(0)

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(story())


def test_a_task_that_is_waited_for_may_end():
    async def story():
        async with Tasks() as tasks:
            tasks.start(forever(), "other")
            await tasks.until(tasks.start(asyncio.sleep(0), "short"))

    asyncio.run(story())
