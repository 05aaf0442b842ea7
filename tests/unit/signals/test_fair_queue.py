"""The order of queries: no query waits forever, however many others there are."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.in_memory import ManualClock
from wharfinger.signals import fair_queue
from wharfinger.signals.fair_queue import FairQueue, FairTurns, QueueLimits, Requester, TooMany

CLUSTER = {"group": "cluster", "rank": 0}
TENANTS = {"group": "tenants", "rank": 1}


def places(number=2, *, of_group=None, of_requester=1, waiting=100, each=100):
    return QueueLimits(number=number, of_group=of_group or number, of_requester=of_requester, waiting=waiting, waiting_of_requester=each)


def served(queue, costs, rounds):
    """The names in the order of their turns, one place at a time; `costs` are what a turn of each uses."""
    order = []
    for _ in range(rounds):
        requester, _ = queue.take()
        order.append(requester.name)
        queue.release(requester, costs.get(requester.name, 1.0))
        queue.put(requester, object())
    return order


def test_turns_go_round_where_all_use_the_same():
    queue = FairQueue(places(1))
    for name in "abcabc":
        queue.put(Requester(name), object())

    assert "".join(served(queue, {}, 9)) == "abcabcabc"


def test_requesters_that_use_more_are_served_less_often():
    queue = FairQueue(places(1))
    for name in "ab":
        queue.put(Requester(name), object())

    turns = Counter(served(queue, {"a": 10.0, "b": 1.0}, 110))
    assert turns == {"a": 10, "b": 100}


def test_an_asker_and_a_group_never_hold_every_place():
    queue = FairQueue(places(3, of_group=2, of_requester=1))
    for name in ("slow", "slow", "slower"):
        queue.put(Requester(name, **TENANTS), name)
    assert [queue.take()[1], queue.take()[1], queue.take()] == ["slow", "slower", None]

    queue.put(Requester("platform", **CLUSTER), "platform")
    assert queue.take()[1] == "platform"


def test_the_first_rank_comes_before_all_others():
    queue = FairQueue(places(1))
    for name in "ab":
        queue.put(Requester(name, **TENANTS), name)
    queue.put(Requester("p", **CLUSTER), "p")

    assert queue.take()[1] == "p"


def test_a_requester_gains_no_credit_while_absent():
    queue = FairQueue(places(1))
    queue.put(Requester("a"), object())
    served(queue, {}, 50)
    queue.put(Requester("new"), object())

    assert Counter(served(queue, {}, 20)) == {"a": 10, "new": 10}


def test_the_number_of_waiting_queries_is_limited():
    queue = FairQueue(places(1, waiting=3, each=2))
    for _ in range(2):
        queue.put(Requester("a"), object())
    with pytest.raises(TooMany):
        queue.put(Requester("a"), object())
    queue.put(Requester("b"), object())
    with pytest.raises(TooMany):
        queue.put(Requester("c"), object())


def test_remembered_requesters_are_bounded():
    queue = FairQueue(places(1))
    for number in range(3 * fair_queue.MAX_REMEMBERED):
        queue.put(Requester(str(number), group=str(number)), None)
        queue.release(queue.take()[0], 1.0)
    assert len(queue._used) <= fair_queue.MAX_REMEMBERED


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy"), st.floats(0, 9)), max_size=60), st.integers(1, 4))
def test_every_place_is_used_within_the_limits_and_all_get_their_turn(asked, number):
    limits = places(number, of_group=max(1, number - 1))
    queue = FairQueue(limits)
    for name, group, cost in asked:
        queue.put(Requester(name, group), cost)
    seen, holding = [], []
    while len(queue) or holding:
        while (found := queue.take()) is not None:
            holding.append(found)
            groups, requesters = Counter(requester.group for requester, _ in holding), Counter(requester for requester, _ in holding)
            assert len(holding) <= number
            assert max(groups.values()) <= limits.of_group
            assert max(requesters.values()) <= limits.of_requester
        assert holding, "a query waits although all places are free"
        requester, cost = holding.pop(0)
        queue.release(requester, cost)
        seen.append((*requester[:2], cost))
    assert Counter(seen) == Counter(asked)


def test_cancelled_requesters_release_their_turns():
    async def main():
        clock = ManualClock()
        turns = FairTurns(places(1), clock.monotonic)
        order = []

        async def take(name, seconds):
            async with turns.of(Requester(name)):
                order.append(name)
                await clock.sleep(seconds)

        first, second, third = (asyncio.create_task(take(name, 5.0)) for name in "abc")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        first.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert order == ["a", "c"]
        clock.move(6.0)
        await third
        assert len(turns) == 0

    asyncio.run(main())


def test_a_turn_granted_to_a_cancelled_requester_is_not_lost():
    async def main():
        turns = FairTurns(places(1), ManualClock().monotonic)
        begun = asyncio.Event()

        async def take():
            async with turns.of(Requester("b")):
                begun.set()

        async with turns.of(Requester("a")):
            waiting = asyncio.create_task(take())
            await asyncio.sleep(0)
        waiting.cancel()  # its turn has come, and it has not run since
        await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(10), turns.of(Requester("c")):
            pass

    asyncio.run(main())
