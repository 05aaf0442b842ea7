"""The workbench works on one question at a time, rests after it, and lets only a few wait."""

import asyncio
import threading

import pytest

from tests.in_memory import ManualClock
from wharfinger.compiler.cost import NAMESPACE_BUDGET
from wharfinger.errors import UsageError
from wharfinger.web.playground.clusters import Examples, OwnClusters
from wharfinger.web.playground.workbench import Limits, PlaygroundBusy, PodQuestion, TextQuestion, Workbench

EXPENSIVE = 'policy "p"\nprefer a = count(pods where starts_with(it.name, pod.name), on: node) > 1\n'


class Held(Examples):
    """Clusters that take as long as the test sets, and count the requests at a time."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()
        self.at_once = self.most = 0

    async def opened(self, key, run):
        def wait():
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            assert self.go.wait(10)
            self.at_once -= 1

        await run(wait)
        return await super().opened(key, run)


def test_one_question_is_answered_at_a_time_and_few_may_wait():
    async def ask():
        clusters = Held()
        bench = Workbench(clusters, ManualClock(), Limits(waiting=2))
        asked = [asyncio.create_task(bench.cluster("example:small")) for _ in range(5)]
        await asyncio.sleep(0.05)
        clusters.go.set()
        found = await asyncio.gather(*asked, return_exceptions=True)
        return clusters.most, [isinstance(each, PlaygroundBusy) for each in found]

    most, busy = asyncio.run(ask())

    assert most == 1
    assert busy.count(True) == 2  # one is worked on, two wait


def test_a_question_that_is_given_up_holds_its_turn_until_its_thread_has_ended():
    async def ask():
        clusters = Held()
        bench = Workbench(clusters, ManualClock())
        first = asyncio.create_task(bench.cluster("example:small"))
        await asyncio.sleep(0.05)
        first.cancel()
        second = asyncio.create_task(bench.cluster("example:small"))
        await asyncio.sleep(0.05)
        seen = clusters.at_once
        clusters.go.set()
        await second
        return seen, clusters.most, first.cancelled()

    assert asyncio.run(ask()) == (1, 1, True)


class Counting(ManualClock):
    """A clock that each answer takes a second of, and that remembers the pauses."""

    def __init__(self):
        super().__init__()
        self.pauses = []

    async def sleep(self, seconds):
        self.pauses.append(seconds)
        self.move(seconds)


def test_after_an_answer_there_is_a_pause_in_proportion():
    clock = Counting()

    class Slow(Examples):
        async def opened(self, key, run):
            clock.move(1.5)
            return await super().opened(key, run)

    async def ask():
        bench = Workbench(Slow(), clock, Limits(rest=4.0))
        await bench.cluster("example:small")
        await bench.cluster("example:small")

    asyncio.run(ask())

    assert clock.pauses == [6.0]


def test_a_policy_above_the_budget_is_checked_but_not_tried():
    async def ask(bench):
        checked = await bench.check(TextQuestion(text=EXPENSIVE))
        try:
            return checked, await bench.decide(PodQuestion(text=EXPENSIVE, cluster="example:small", pod="shop/query"))
        except UsageError as error:
            return checked, str(error)

    checked, refused = asyncio.run(ask(Workbench(Examples(), ManualClock(), Limits(budget=NAMESPACE_BUDGET))))
    _, decided = asyncio.run(ask(Workbench(Examples(), ManualClock())))

    assert checked["policy"] == "p"
    assert refused.startswith("the policy is too expensive to be tried here: ")
    assert decided["policy"] == "p"


@pytest.mark.parametrize("n_uploads", [1, 6])
def test_few_uploads_are_kept(n_uploads):
    async def ask():
        bench = Workbench(OwnClusters(), ManualClock())
        node = b'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}'
        for index in range(n_uploads):
            await bench.upload(f"file-{index}", node)
        return [choice["key"] for choice in bench.start()["clusters"] if choice["key"].startswith("upload")]

    kept = asyncio.run(ask())
    assert kept == [f"upload:{number}" for number in range(max(1, n_uploads - 3), n_uploads + 1)]
