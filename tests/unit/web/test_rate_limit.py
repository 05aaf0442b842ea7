"""Requests of unknown clients are rate-limited, so that the event loop stays free for other work."""

import asyncio
from itertools import pairwise

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.unit.web.test_connections import connected
from tests.unit.web.test_server import app
from wharfinger.web import requests
from wharfinger.web.requests import BURST, INTERVAL, RequestRate, RequestTurns, SharedAnswers
from wharfinger.web.server import Server


def test_after_a_burst_requests_begin_in_sequence():
    paced = RequestRate()
    begins = [1000.0 + paced.wait(1000.0) for _ in range(BURST + 100)]

    assert begins[:BURST] == [1000.0] * BURST
    assert [later - earlier for earlier, later in pairwise(begins[BURST:])] == pytest.approx([INTERVAL] * 99)


def test_starts_per_time_are_limited_in_any_order():
    paced, now, begins = RequestRate(), 0.0, []
    for step in range(5000):
        now += 0.0001 * (step % 7)
        begins.append(now + paced.wait(now))
    assert begins == sorted(begins), "first come, first served"
    for first in range(0, len(begins), 50):
        within = sum(begins[first] <= begin < begins[first] + 1.0 for begin in begins)
        assert within <= BURST + 1 / INTERVAL + 1


def test_occasional_requests_never_wait():
    paced = RequestRate()
    assert not any(paced.wait(second / 10) for second in range(1000))


def test_all_who_wait_for_the_same_get_one_answer_that_is_not_older_than_their_question():
    async def main():
        shared, computed = SharedAnswers(), []

        async def compute():
            computed.append(len(computed))
            return computed[-1]

        assert await shared.answer("key", compute) == 0
        first = await asyncio.gather(*(shared.answer("key", compute) for _ in range(50)))
        other = await shared.answer("other", compute)
        assert first == [1] * 50
        assert other == 2
        assert await shared.answer("key", compute) == 3

    asyncio.run(main())


def test_an_error_reaches_all_waiters_and_a_cancelled_waiter_cancels_no_other():
    async def main():
        async def broken():
            return 1 / 0

        shared = SharedAnswers()
        waiting = [asyncio.create_task(shared.answer("key", broken)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError, ZeroDivisionError, ZeroDivisionError]
        assert shared._wanted == {}

    asyncio.run(main())


def test_the_loop_rests_after_what_was_computed(monkeypatch):
    rests = []
    real = asyncio.sleep

    async def sleep(seconds):
        rests.append(seconds)
        await real(0)

    async def main():
        monkeypatch.setattr(requests.asyncio, "sleep", sleep)
        loop, now = asyncio.get_running_loop(), [0.0]
        monkeypatch.setattr(loop, "time", lambda: now[0])
        shared = SharedAnswers()

        async def compute():
            now[0] += 0.02

        for key in range(3):
            await shared.answer(key, compute)

    asyncio.run(main())
    assert rests == pytest.approx([9 * 0.02] * 2)


def test_pipelined_requests_of_many_connections_leave_most_of_the_event_loop_to_others():
    """Counted, not timed: how many requests are answered between two turns of another task."""
    answered, turns = [0], []

    async def cheap(_request):
        answered[0] += 1
        return PlainTextResponse("END")

    async def others():
        while True:
            turns.append(answered[0])
            await asyncio.sleep(INTERVAL)

    async def asking(server):
        async with connected(server) as (reader, writer):
            writer.write(b"GET /cheap HTTP/1.1\r\nHost: a\r\n\r\n" * 10)
            for _ in range(10):
                await reader.readuntil(b"END")

    async def main():
        async with Server(app(extra_routes=[Route("/cheap", cheap)]), "127.0.0.1", 0) as server:
            other = asyncio.create_task(others())
            await asyncio.gather(*(asking(server) for _ in range(20)))
            other.cancel()

    asyncio.run(main())
    assert answered == [200]
    assert len(turns) >= (200 - BURST) / 4, "another task had a turn for every few requests"


def test_requests_of_clients_that_have_gone_take_no_turn(monkeypatch):
    monkeypatch.setattr(requests, "INTERVAL", 0.5)
    answered = []

    async def cheap(request):
        answered.append(request.query_params["of"])
        return PlainTextResponse("END")

    async def ask(server, of, count=1):
        async with connected(server) as (reader, writer):
            writer.write(f"GET /cheap?of={of} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * count)
            for _ in range(count):
                await reader.readuntil(b"END")

    async def main():
        async with Server(app(extra_routes=[Route("/cheap", cheap)]), "127.0.0.1", 0) as server:
            await ask(server, "burst", BURST)
            gone = [asyncio.create_task(ask(server, "gone")) for _ in range(100)]
            await asyncio.sleep(0.2)
            for task in gone:
                task.cancel()
            await asyncio.gather(*gone, return_exceptions=True)
            await ask(server, "waiting")

    asyncio.run(main())
    assert answered[-1] == "waiting"
    assert answered.count("gone") < 10


def test_addresses_have_turns():
    async def main():
        turns, order = RequestTurns(), []

        async def ask(address):
            assert await turns.turn(address, None)
            order.append(address)

        async with asyncio.TaskGroup() as tasks:
            for address in "a" * (BURST + 20) + "b" * 2 + "c":
                tasks.create_task(ask(address))
        return "".join(order)

    assert asyncio.run(main()) == "a" * BURST + "abcab" + "a" * 18


def test_a_client_that_has_gone_gets_no_answer():
    async def main():
        turns, left = RequestTurns(), asyncio.Event()
        for _ in range(BURST):
            assert await turns.turn("a", None)
        waiting = [asyncio.create_task(turns.turn("a", event)) for event in (left, None, left)]
        await asyncio.sleep(0)
        left.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(main()) == [False, True, False]
