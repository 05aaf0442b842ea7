"""Threads that wait for answers: slow queries of one requester delay no other."""

import asyncio
import threading

import pytest

from tests.in_memory import ManualClock
from wharfinger.signals.fair_queue import Requester, Workers

PATIENCE = 60


def tenant(name):
    return Requester(name, group="namespaces", rank=1)


def platform(name):
    return Requester(name, group="cluster", rank=0)


class Slow:
    """Questions that wait until they may end; `most` is how many of them were under way at a time."""

    def __init__(self):
        self.may_end = threading.Event()
        self._lock = threading.Lock()
        self._present = self.most = 0

    def __call__(self):
        with self._lock:
            self._present += 1
            self.most = max(self.most, self._present)
        assert self.may_end.wait(PATIENCE)
        with self._lock:
            self._present -= 1
        return "late"


def with_slow(requesters, story):
    """The story, while each requester has ten questions under way or waiting that do not end; what they were in the end."""
    slow = Slow()

    async def main():
        workers = Workers("tests", 4, ManualClock().monotonic)
        waiting = [asyncio.create_task(workers.run(slow, requester)) for requester in requesters for _ in range(10)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(PATIENCE):
                await story(workers)
        finally:
            slow.may_end.set()
        assert await asyncio.gather(*waiting) == ["late"] * len(waiting)

    asyncio.run(main())
    return slow


def test_one_policy_has_half_of_the_threads():
    async def story(workers):
        assert await workers.run(lambda: "quick", platform("other")) == "quick"

    assert with_slow([platform("slow")], story).most == 2


@pytest.mark.parametrize(
    "slow", [[tenant(name) for name in "abcdef"], [platform(name) for name in "abcdef"]], ids=["namespaces", "cluster"]
)
def test_neither_namespaces_nor_the_cluster_have_all_threads(slow):
    async def story(workers):
        other = platform("p") if slow[0].rank else tenant("t")
        for _ in range(20):
            assert await workers.run(lambda: "quick", other) == "quick"

    assert with_slow(slow, story).most == 3


def test_a_query_whose_caller_was_cancelled_keeps_its_thread_and_turn():
    slow = Slow()

    async def main():
        workers = Workers("tests", 2, ManualClock().monotonic)
        asking = asyncio.create_task(workers.run(slow, tenant("a")))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        more = asyncio.create_task(workers.run(slow, tenant("b")))
        assert await workers.run(lambda: "quick", platform("p")) == "quick"
        assert slow.most == 1, "namespaces have one of two threads, which is still taken"
        slow.may_end.set()
        assert await more == "late"

    asyncio.run(main())


def test_errors_in_a_worker_are_raised_in_the_caller():
    async def main():
        with pytest.raises(ZeroDivisionError):
            await Workers("tests", 1, ManualClock().monotonic).run(lambda: 1 / 0, platform("p"))

    asyncio.run(main())
