"""Rules that are computed in steps before a decision count for the budget of their policy, as those that are computed in it."""

import asyncio

from tests.unit.framework.test_costly_rules_in_steps import NODES, TERMS, USUAL
from tests.unit.policies.test_budget import BUDGET, bound, settings
from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_groups_live import gang, member
from tests.unit.simulate.clusters import policy
from wharfinger.compiler import bound as bound_policies
from wharfinger.compiler import schedule
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation import cycle, kept_result
from wharfinger.policies.budget import SUSPEND_AFTER, SUSPEND_AT

COSTLY = f'policy "costly"\nscore quiet = log({TERMS}) normalize minmax'


class SlowSteps:
    """Costly plans that take a while for each part of them, by the clock of the test; `on_part` is called in addition."""

    def __init__(self, monkeypatch, seconds):
        self.clock = None
        self.seconds = seconds
        self.parts = 0
        self.on_part = lambda: None
        usual = schedule.run_for_all_rows

        def slower(plan, registers, part=slice(None)):
            if len(plan.rest) > 100:
                self.parts += 1
                self.clock.move(self.seconds)
                self.on_part()
            usual(plan, registers, part)

        monkeypatch.setattr(schedule, "run_for_all_rows", slower)
        monkeypatch.setattr(cycle, "OPERATIONS_AT_ONCE", 30_000)
        monkeypatch.setattr(kept_result, "OPERATIONS_AT_ONCE", 30_000)
        monkeypatch.setattr(bound_policies, "OPERATIONS_PER_STEP", NODES * 2_000)


def story(slow, scenario, nodes=NODES):
    async def run():
        clocks = []
        chain = assemble([policy(COSTLY), policy(USUAL)])
        nodes_ = [node(f"n{number}") for number in range(nodes)]
        async with running(*nodes_, chains={"wharfinger": chain}, settings=settings(clocks)) as world:
            clocks.append(world.clock)
            slow.clock = world.clock
            await scenario(world)

    asyncio.run(run())


async def place(world, number, cpu="10m"):
    """Place a pod of a template of its own."""
    world.cluster.put(pod(f"p{number}", cpu=cpu, labels={"own": str(number)}))
    await world.pass_time(0.0)
    await world.calm()


def names(world):
    return [name for name, _ in world.scheduler.budget.suspended]


def test_a_policy_whose_rules_take_too_long_in_steps_is_suspended(monkeypatch):
    slow = SlowSteps(monkeypatch, BUDGET / 2)

    async def scenario(world):
        for number in range(SUSPEND_AFTER):
            assert not names(world)
            await place(world, number)
        assert names(world) == ["costly"]
        assert await bound(world) == {f"p{number}" for number in range(SUSPEND_AFTER - 1)}

    story(slow, scenario)
    assert slow.parts >= 2 * SUSPEND_AFTER, "no part alone exceeds the budget"


def test_one_decision_far_above_the_budget_suspends_at_once(monkeypatch):
    slow = SlowSteps(monkeypatch, SUSPEND_AT * BUDGET / 2)

    async def scenario(world):
        await place(world, 0)
        assert names(world) == ["costly"]

    story(slow, scenario)


def test_steps_within_the_budget_suspend_nothing(monkeypatch):
    slow = SlowSteps(monkeypatch, BUDGET / 20)

    async def scenario(world):
        for number in range(2 * SUSPEND_AFTER):
            await place(world, number)
        assert not names(world)
        assert len(await bound(world)) == 2 * SUSPEND_AFTER

    story(slow, scenario)
    assert slow.parts


def test_pods_of_the_same_template_need_no_steps_and_suspend_nothing(monkeypatch):
    slow = SlowSteps(monkeypatch, BUDGET / 2)

    async def scenario(world):
        for number in range(3 * SUSPEND_AFTER):
            world.cluster.put(pod(f"p{number}", cpu="10m"))
            await world.calm()
        assert not names(world)

    story(slow, scenario)


def test_work_that_is_begun_again_because_the_cluster_changes_counts_once(monkeypatch):
    slow = SlowSteps(monkeypatch, BUDGET / 12)
    added = []

    async def scenario(world):
        def come():
            if len(added) % 3:
                world.scheduler.sink.upsert("Node", node(f"new{len(added)}"))
            added.append(None)

        slow.on_part = come
        for number in range(2 * SUSPEND_AFTER):
            await place(world, number)
        assert not names(world)

    story(slow, scenario)
    assert len(added) > 2 * SUSPEND_AFTER


def test_members_of_a_group_count_too(monkeypatch):
    slow = SlowSteps(monkeypatch, BUDGET / 2)

    async def scenario(world):
        for number in range(SUSPEND_AFTER + 1):
            band = f"band{number}"
            for each in (gang(band, 2), *(member(band, index, labels={"own": str(number)}) for index in range(2))):
                world.cluster.put(each)
            await world.calm()
        assert names(world) == ["costly"]

    story(slow, scenario)
