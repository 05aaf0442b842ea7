"""Changes of the cluster wait while a decision that policies make long is concluded in steps."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.unit.framework import fleet
from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_measurements import QUERY, mapped
from wharfinger.compiler import cost
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.kept_result import Evaluation
from wharfinger.policies.budget import BudgetSettings
from wharfinger.scheduler.scheduler import SchedulerSettings

pytestmark = pytest.mark.anyio

ONE_STEP_EACH = SchedulerSettings(slice_seconds=-1, budget=BudgetSettings(seconds=0))
LONG = """
policy "{0}"
let spread = topology_spread_points()
score packed weight 10 = spread * 0 + node.pod_count normalize minmax
score small weight 2 = spread * 0 - node.allocatable.cpu / 1cpu normalize minmax
tie_break node.name {1}
"""


def chain(order="asc", name="long"):
    return {"wharfinger": assemble([cost.affordable(fleet.policy(LONG.format(name, order)))])}


@pytest.fixture(autouse=True)
def concluded(monkeypatch):
    """How often a conclusion began, with the limits of one step so low that each is made in steps."""
    monkeypatch.setattr(cycle, "OPERATIONS_AT_ONCE", 0)
    for module in ("rules.work", "evaluation.kept_result"):
        monkeypatch.setattr(f"wharfinger.framework.{module}.MAX_AT_ONCE", 0)
    monkeypatch.setattr("wharfinger.framework.rules.work.IN_PORTION", 1)
    begun, usual = [], Evaluation._conclude

    def conclude(self, *of, **more):
        begun.append(self)
        return usual(self, *of, **more)

    monkeypatch.setattr(Evaluation, "_conclude", conclude)
    return begun


@asynccontextmanager
async def holding(*things, settings=ONE_STEP_EACH, **more):
    """A world in which the decision about the pod "p" has begun and holds changes back."""
    async with running(node("a"), node("b"), *things, chains=chain(), settings=settings, **more) as world:
        world.cluster.put(pod("p"))
        await until(lambda: world.scheduler.cluster_is_held)
        assert world.scheduler.cluster_is_held
        yield world


async def until(happened):
    for _ in range(500):
        if happened():
            return
        await asyncio.sleep(0)


def names(world):
    return tuple(world.scheduler.state.snapshot().names)


async def test_watch_events_wait_for_the_decision_and_are_applied_in_their_order(concluded):
    async with holding() as world:
        n_begun = len(concluded)
        world.cluster.put(node("c"))
        world.cluster.put(pod("late"))
        world.cluster.remove("Node", "c")
        world.cluster.put(node("d"))
        assert (names(world), "default/late" in {each.key for each in world.scheduler.known_pods}) == (("a", "b"), False)
        await until(world.cluster.nodes_of_pods)
        await world.calm()
        assert len(concluded) == n_begun + 1  # nothing was lost, and the second pod had its own
        assert world.cluster.nodes_of_pods() == {"default/p": "a", "default/late": "a"}
        assert set(names(world)) == {"a", "b", "d"}


async def test_the_time_stands_still_meanwhile():
    async with holding() as world:
        before = world.scheduler.snapshot().now
        world.clock.move(2)
        assert world.scheduler.snapshot().now == before
        await until(world.cluster.nodes_of_pods)
        assert world.scheduler.snapshot().now == before + 2


async def test_a_list_waits_too():
    async with holding() as world:
        steps = world.scheduler.sink.replacing("Node", [node("a"), node("e")])
        for _ in range(3):
            next(steps)
        assert names(world) == ("a", "b")
        await until(lambda: not world.scheduler.cluster_is_held)
        assert [None for _ in steps]
        assert set(names(world)) == {"a", "e"}


async def test_metric_samples_wait_too():
    async with holding() as world:
        before = world.scheduler.state.snapshot().moment
        world.scheduler.measurements.publish(QUERY.key, mapped([], QUERY, world.scheduler.measurements.nodes()))
        assert world.scheduler.state.snapshot().moment == before
        await until(lambda: not world.scheduler.cluster_is_held)
        await world.calm()
        assert world.scheduler.state.snapshot().moment != before


async def test_a_pod_that_is_deleted_meanwhile_is_bound_once_and_forgotten():
    async with holding() as world:
        world.cluster.remove("Pod", "default/p")
        await world.pass_time(3)
        assert (len(world.scheduler.queue), world.scheduler.n_binding, world.scheduler.cluster_is_held) == (0, 0, False)
        assert not world.scheduler.state.is_placed("uid-p")


@pytest.mark.parametrize("ends", ["leadership", "stop"])
async def test_changes_are_applied_if_the_decision_is_given_up(ends):
    async with holding() as world:
        world.cluster.put(node("c"))
        if ends == "stop":
            world.scheduler.stop()
        else:
            world.office.is_leader = False
        await world.calm()
        assert (set(names(world)), world.scheduler.cluster_is_held) == ({"a", "b", "c"}, False)
        assert world.cluster.nodes_of_pods() == {}


async def test_policies_that_are_adopted_meanwhile_decide_in_steps_too(monkeypatch):
    async with holding() as world:
        at_once, usual = [], Decider.decide_unless_long

        def decide(self, snapshot, asked):
            evaluation = self._kept.get(self.chain.key(asked, snapshot))
            at_once.append(evaluation is None or evaluation.revision != snapshot.revision)
            return usual(self, snapshot, asked)

        monkeypatch.setattr(Decider, "decide_unless_long", decide)
        world.scheduler.adopt(chain("desc", "other"))
        await world.calm()
        await until(world.cluster.nodes_of_pods)
        assert world.cluster.nodes_of_pods() == {"default/p": "b"}
        assert at_once == [False]


async def test_bindings_that_wait_for_changes_get_them():
    async with holding() as world:
        world.cluster.put(node("c"))
        world.scheduler._binding.slot_free.clear()  # by a group, of which the members wait for volumes
        await world.calm()
        assert (set(names(world)), world.cluster.nodes_of_pods()) == ({"a", "b", "c"}, {})
        world.scheduler._binding.slot_free.set()
        await until(world.cluster.nodes_of_pods)
        assert world.cluster.nodes_of_pods() == {"default/p": "a"}


async def test_a_change_by_the_scheduler_itself_begins_the_conclusion_again(concluded):
    async with holding() as world:
        await asyncio.sleep(0)
        before = len(concluded)
        world.scheduler.state.assume(fleet.pod("own", cpu="1"), "a")  # such as a binding that failed
        await until(world.cluster.nodes_of_pods)
        assert len(concluded) > before
