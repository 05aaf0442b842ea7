"""Controllers: the leader's workers reconcile, and a failure of one object does not affect the others."""

import asyncio
from itertools import pairwise

from tests.in_memory import ManualClock
from tests.observed import subscribed
from wharfinger.emit import Failed
from wharfinger.framework.ports import WriteFailed
from wharfinger.kube import api_errors
from wharfinger.operator.controller import Controller, Postponed, Reconciled, run_all


class Lead:
    is_leader = True


class Scripted:
    """Answers of reconciles, in turn, by key; None when there are no more."""

    def __init__(self, **answers):
        self.answers = answers
        self.calls = []

    async def reconcile(self, key):
        self.calls.append(key)
        answer = self.answers[key].pop(0) if self.answers.get(key) else None
        if isinstance(answer, Exception):
            raise answer
        return answer


def run(script, test, known=()):
    async def main():
        clock, lead, results, failures = ManualClock(), Lead(), [], []
        handlers = {Reconciled: lambda event: results.append(event.result), Failed: lambda event: failures.append(event.where)}
        controller = Controller("things", script, lambda: known, clock=clock, leadership=lead, emit=subscribed(handlers).emit)
        running = asyncio.ensure_future(run_all([controller], clock, lead))
        await run_pending()
        await test(controller, clock, lead, results, failures)
        controller.stop()
        clock.move(1.0)
        await asyncio.wait_for(running, 30)

    asyncio.run(main())


async def run_pending():
    for _ in range(30):
        await asyncio.sleep(0)


def test_known_objects_are_reconciled_first_and_changed_ones_later():
    script = Scripted()

    async def test(controller, *_):
        assert script.calls == ["a", "b"]
        controller.queue.add("c")
        await run_pending()
        assert script.calls == ["a", "b", "c"]

    run(script, test, known=["a", "b"])


def test_failures_are_reported_and_tried_again_and_conflicts_only_tried_again():
    script = Scripted(a=[ValueError("?"), None], b=[api_errors.Conflict("!"), WriteFailed("!"), None])

    async def test(controller, clock, _lead, results, failures):
        for _ in range(4):
            clock.move(0.05)
            await run_pending()
        assert sorted(script.calls) == ["a", "a", "b", "b", "b"]
        assert sorted(results) == ["conflict", "conflict", "error", "success", "success"]
        assert failures == ["reconciling things a"]

    run(script, test, known=["a", "b"])


def test_an_object_comes_back_no_sooner_than_the_api_server_asks_for():
    script = Scripted(a=[api_errors.TooManyRequests("!", retry_after=3.0)], b=[api_errors.ServerError("!", retry_after=2.0)])

    async def test(_controller, clock, *_):
        for _ in range(25):
            clock.move(0.1)
            await run_pending()
        assert script.calls == ["a", "b", "b"]
        clock.move(0.6)
        await run_pending()
        assert script.calls == ["a", "b", "b", "a"]

    run(script, test, known=["a", "b"])


def test_failures_count_until_a_success_however_often_work_is_postponed_between_them():
    failing = [each for _ in range(20) for each in (api_errors.Conflict("!"), Postponed(0.001))]
    script = Scripted(a=[*failing])

    async def test(_controller, clock, *_):
        for _ in range(1000):
            clock.move(0.001)
            await run_pending()
        assert len(script.calls) == 8 + 7  # 5 ms, 10 ms, … 320 ms after the former failure

    run(script, test, known=["a"])


def test_a_requested_requeue_needs_no_change():
    script = Scripted(a=[5.0, None])

    async def test(controller, clock, _lead, results, _failures):
        clock.move(4.9)
        await run_pending()
        assert script.calls == ["a"]
        clock.move(0.2)
        await run_pending()
        assert script.calls == ["a", "a"]
        assert results == ["requeue", "success"]

    run(script, test, known=["a"])


def test_only_the_leader_reconciles_and_a_new_one_looks_at_everything():
    script = Scripted()

    async def test(controller, clock, lead, *_):
        lead.is_leader = False
        clock.move(0.5)
        await run_pending()
        controller.queue.add("b")
        await run_pending()
        assert script.calls == ["a"]
        lead.is_leader = True
        clock.move(0.5)
        await run_pending()
        assert script.calls == ["a", "a"]

    run(script, test, known=["a"])


def test_keys_skipped_during_a_loss_of_the_lease_are_reconciled_afterwards():
    script = Scripted()

    async def test(controller, clock, lead, *_):
        lead.is_leader = False
        controller.queue.add("a")
        await run_pending()
        lead.is_leader = True  # before anybody has looked who leads
        clock.move(0.5)
        await run_pending()
        assert script.calls == ["a", "a"]
        clock.move(0.5)
        await run_pending()
        assert script.calls == ["a", "a"]

    run(script, test, known=["a"])


def test_other_tasks_run_between_two_keys_that_have_nothing_to_wait_for():
    script = Scripted()

    async def test(controller, *_):
        seen = []
        for number in range(20):
            controller.queue.add(str(number))
        while len(script.calls) < 20:
            await asyncio.sleep(0)
            seen.append(len(script.calls))
        assert all(later - earlier <= 2 for earlier, later in pairwise([0, *seen])), "one key of each worker at a time"

    run(script, test)
