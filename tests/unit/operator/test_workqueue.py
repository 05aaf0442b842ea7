"""The workqueue: each key at most once, never lost, with growing backoffs after failures."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.in_memory import ManualClock
from wharfinger.operator.controller import CHANGED_IN_A_ROW, KeyAdded, KeyRetried, KeyTaken, RetryLimits, WorkQueue


def run(test, **limits):
    async def main():
        clock, reported = ManualClock(), []
        await test(WorkQueue("things", clock, reported.append, RetryLimits(**limits) if limits else None), clock, reported)

    asyncio.run(main())


def test_a_key_that_waits_is_there_once():
    async def test(queue, _clock, reported):
        for key in "abab":
            queue.add(key)

        assert len(queue) == 2
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert reported.count(KeyAdded("things")) == 2

    run(test)


def test_a_key_that_changes_while_it_is_worked_on_comes_again_afterwards():
    async def test(queue, _clock, _told):
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("a")

        assert len(queue) == 0, "no other worker may have it meanwhile"
        queue.done("a")
        assert len(queue) == 1
        assert await queue.get() == "a"
        queue.done("a")
        assert queue.idle

    run(test)


def test_failures_come_back_after_twice_the_time_and_forgetting_begins_again():
    async def test(queue, clock, reported):
        waits = [queue.retry("a") for _ in range(6)]
        assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
        assert queue.retry("b") == 0.5
        queue.forget("a")
        assert queue.retry("a") == 0.5
        assert reported.count(KeyRetried("things")) == 8

        assert len(queue) == 0
        clock.move(0.5)
        assert [await queue.get(), await queue.get()] == ["a", "b"]

    run(test, first=0.5, longest=8.0)


def test_a_key_added_twice_is_due_once_at_the_earlier_time():
    async def test(queue, clock, _told):
        queue.add_after("a", 5.0)
        queue.add_after("a", 2.0)
        queue.add_after("a", 9.0)
        clock.move(2.0)
        assert await queue.get() == "a"
        queue.done("a")
        clock.move(10.0)
        queue.add("b")
        assert await queue.get() == "b"
        assert queue.idle is False
        queue.done("b")
        assert queue.idle

    run(test)


def test_a_stop_lets_busy_workers_finish_and_ends_idle_ones():
    async def test(queue, _clock, _told):
        queue.add("a")
        assert await queue.get() == "a"
        idle = asyncio.ensure_future(queue.get())
        drained = asyncio.ensure_future(queue.drained())
        await asyncio.sleep(0)
        queue.stop()
        queue.add("b")

        assert await asyncio.wait_for(idle, 10) is None
        assert not drained.done()
        queue.done("a")
        await asyncio.wait_for(drained, 10)
        assert await queue.get() is None

    run(test)


def test_waiting_is_measured():
    async def test(queue, clock, reported):
        queue.add("a")
        clock.move(3.0)
        await queue.get()
        assert reported == [KeyAdded("things"), KeyTaken("things", 3.0)]

    run(test)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from("add get done"), st.sampled_from("abc")), max_size=60))
def test_no_change_goes_unseen_and_no_key_is_worked_on_twice_at_once(steps):
    async def test(queue, _clock, _told):
        working, unseen = set(), set()
        for step, key in steps:
            if step == "add":
                queue.add(key)
                unseen.add(key)
            elif step == "get" and len(queue):
                taken = await queue.get()
                assert taken not in working
                working.add(taken)
                unseen.discard(taken)
            elif step == "done" and key in working:
                working.discard(key)
                queue.done(key)
        for key in working:
            queue.done(key)
        while len(queue):
            key = await queue.get()
            unseen.discard(key)
            queue.done(key)
        assert not unseen

    run(test)


def test_keys_that_only_come_back_go_after_changed_ones_but_are_never_left_out():
    async def test(queue, clock, _reported):
        for number in range(6):
            queue.add_after(f"again{number}", 1.0, requeued=True)
        clock.move(1.0)
        assert await queue.get() == "again0"
        for number in range(3 * CHANGED_IN_A_ROW):
            queue.add(f"changed{number}")
        queue.add("again1")  # which has changed meanwhile
        assert len(queue) == 5 + 3 * CHANGED_IN_A_ROW
        taken = [await queue.get() for _ in range(len(queue))]
        again = [place for place, key in enumerate(taken) if key in {"again2", "again3", "again4"}]
        assert again == [(CHANGED_IN_A_ROW + 1) * number + CHANGED_IN_A_ROW for number in range(3)]
        assert len(set(taken)) == len(taken)
        assert queue.idle is False

    run(test)


def test_a_failed_key_comes_back_as_a_changed_one():
    async def test(queue, clock, _reported):
        queue.add_after("again", 0.5, requeued=True)
        queue.retry("failed")
        clock.move(0.5)
        assert [await queue.get(), await queue.get()] == ["failed", "again"]

    run(test)
