"""Processes that check policies for the webhook, and that can be ended."""

import asyncio
import contextlib
import sys

import msgspec
import pytest

from wharfinger.daemon.admission import CheckerPool, TooLong, checker_command
from wharfinger.errors import WharfingerError
from wharfinger.event_loop import SystemClock
from wharfinger.language.semantics.authority import TenantRights
from wharfinger.signals.fair_queue import Requester

GOOD = {"metadata": {"name": "p"}, "spec": {"source": 'policy "p"\nscore s = 1\n'}}
BAD = {"metadata": {"name": "p"}, "spec": {"source": 'policy "p"\nscore s = nodes\n'}}
SLOW = """
import sys, time, json, signal
print("ready", flush=True)
for line in sys.stdin:
    question = json.loads(line)
    signal.setitimer(signal.ITIMER_REAL, question["seconds"])
    if question["object"].get("slow"):
        while True: pass
    if "exit" in question["object"]:
        sys.exit(question["object"]["exit"])
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps({"refusal": question["object"].get("say", "")}), flush=True)
"""


async def with_pool(story, **options):
    pool = CheckerPool(SystemClock().monotonic, **options)
    try:
        return await story(pool)
    finally:
        await pool.close()


def slow_ones(seconds=1.0):
    return {"command": (sys.executable, "-c", SLOW), "seconds": seconds}


def test_a_process_checks_one_text_after_the_other():
    async def story(pool):
        found = [await pool(obj, Requester("jo")) for obj in (GOOD, BAD, {"spec": 3}, GOOD)]
        assert len(pool._all) == 1
        return found

    good, bad, odd, again = asyncio.run(with_pool(story, command=checker_command(TenantRights()), seconds=30.0))
    assert (good.refusal, odd.refusal, again.refusal) == ("", "", "")
    assert "schedulingpolicies/p:2:11" in bad.refusal


def test_an_object_may_have_several_lines_and_one_that_cannot_be_read_ends_no_process():
    written = msgspec.Raw(msgspec.json.format(msgspec.json.encode(BAD)))

    async def story(pool):
        with pytest.raises(WharfingerError, match="the object cannot be read: Expected `object`, got `array`"):
            await pool(msgspec.Raw(b"[]"), Requester("jo"))
        found = await pool(written, Requester("jo"))
        assert len(pool._all) == 1
        return found

    assert b"\n" in bytes(written)
    found = asyncio.run(with_pool(story, command=checker_command(TenantRights()), seconds=30.0))
    assert "schedulingpolicies/p:2:11" in found.refusal


def test_a_text_that_takes_too_long_ends_its_process_and_no_other():
    async def story(pool):
        slow = [asyncio.create_task(pool({"slow": True}, Requester("slow", group=str(number)))) for number in range(2)]
        assert (await pool({"say": "quick"}, Requester("quick", group="quick"))).refusal == "quick"
        for outcome in await asyncio.gather(*slow, return_exceptions=True):
            assert isinstance(outcome, TooLong)
        assert (await pool({"say": "again"}, Requester("quick", group="quick"))).refusal == "again"

    asyncio.run(with_pool(story, **slow_ones()))


def test_many_slow_texts_of_one_source_do_not_delay_the_others_until_all_are_built():
    order = []

    async def story(pool):
        async def ask(name, obj):
            with contextlib.suppress(TooLong):
                await pool(obj, Requester(name, group=name))
            order.append(name)

        slow = [asyncio.create_task(ask(name, {"slow": True})) for name in ("a", "b", "c") for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.gather(asyncio.create_task(ask("other", {"say": "x"})))
        await asyncio.gather(*slow)

    asyncio.run(with_pool(story, **slow_ones()))
    assert order.index("other") <= 3, order
    assert len(order) == 10


def test_a_process_that_ends_is_reported_and_followed_by_another():
    async def story(pool):
        with pytest.raises(WharfingerError, match="ended with status 3"):
            await pool({"exit": 3}, Requester("jo"))
        return await pool({"say": "here"}, Requester("jo"))

    assert asyncio.run(with_pool(story, **slow_ones())).refusal == "here"


def test_a_process_that_ended_while_it_waited_is_followed_by_another_unseen():
    async def story(pool):
        await pool({"say": "x"}, Requester("jo"))
        (process,) = pool._idle
        process.kill()
        await process.wait()
        return await pool({"say": "here"}, Requester("jo"))

    assert asyncio.run(with_pool(story, **slow_ones())).refusal == "here"


def test_a_process_that_cannot_be_started_is_reported():
    async def story(pool):
        with pytest.raises(WharfingerError, match="cannot be started"):
            await pool(GOOD, Requester("jo"))

    asyncio.run(with_pool(story, command=(sys.executable, "-c", "")))


def test_no_process_keeps_working_for_a_client_that_has_gone():
    async def story(pool):
        assert (await pool({"say": "first"}, Requester("jo"))).refusal == "first"
        (process,) = pool._all
        asking = asyncio.create_task(pool({"slow": True}, Requester("jo")))
        for _ in range(10):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert await process.wait() == -9
        assert (await pool({"say": "next"}, Requester("jo"))).refusal == "next"

    asyncio.run(with_pool(story, **slow_ones(seconds=30.0)))


def test_a_process_whose_caller_has_gone_starts_all_the_same():
    async def story(pool):
        asking = asyncio.create_task(pool({"say": "x"}, Requester("jo")))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert (await pool({"say": "next"}, Requester("jo"))).refusal == "next"
        return len(pool._all)

    assert asyncio.run(with_pool(story, **slow_ones(seconds=30.0))) == 1
