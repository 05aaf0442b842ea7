"""Background tasks: failures are reported, and `drain` waits for all tasks."""

import asyncio

from wharfinger.event_loop import Background


def test_a_failed_task_is_reported_and_a_cancelled_one_is_not():
    reported = []

    async def failing():
        raise ValueError("broken")

    async def story():
        background = Background(lambda error: reported.append(str(error)))
        background.start(failing())
        await background.drain()
        background.start(asyncio.sleep(60))
        assert len(background) == 1
        background.cancel()
        await background.drain()
        assert len(background) == 0

    asyncio.run(story())
    assert reported == ["broken"]


def test_draining_waits_for_what_is_started_meanwhile():
    done = []

    async def story():
        background = Background(done.append)

        async def second():
            done.append("second")

        async def first():
            background.start(second())

        background.start(first())
        await background.drain()

    asyncio.run(story())
    assert done == ["second"]
