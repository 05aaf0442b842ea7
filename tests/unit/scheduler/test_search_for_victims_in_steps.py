"""The search for pods to evict is done in steps, also for a pod whose template fitted many nodes a moment ago."""

import asyncio

import pytest
from msgspec import structs

from tests.unit.scheduler.running import node, pod, running, ticking
from wharfinger.errors import InvalidObject
from wharfinger.framework.plugins import default_preemption
from wharfinger.framework.plugins.default_preemption import TRIALS_PER_STEP
from wharfinger.policies.budget import BudgetSettings
from wharfinger.scheduler.scheduler import SchedulerSettings

pytestmark = pytest.mark.anyio

NODES_PER_STEP = TRIALS_PER_STEP // 2  # each node has a pod
NODES = 3 * NODES_PER_STEP + 5
ZONE = "topology.kubernetes.io/zone"
ALONE_IN_ITS_ZONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "alone"}}, "topologyKey": ZONE}]
    }
}
SLOW = SchedulerSettings(slice_seconds=-1, budget=BudgetSettings(timer=ticking(1.0)))


@pytest.fixture
def looked_at(monkeypatch):
    """The number of nodes that were searched for victims in each turn of the event loop."""
    select, in_turn = default_preemption.select_victims, [0]

    def select_victims(*of):
        in_turn[-1] += 1
        return select(*of)

    monkeypatch.setattr(default_preemption, "select_victims", select_victims)
    return in_turn


async def each_turn(in_turn):
    while True:
        in_turn.append(0)
        await asyncio.sleep(0)


def alone(name):
    return pod(name, priority=1000, labels={"app": "alone"}, affinity=ALONE_IN_ITS_ZONE)


def running_on(name):
    running_pod = pod(f"on-{name}")
    return structs.replace(running_pod, spec=structs.replace(running_pod.spec, node_name=name))


def cluster():
    """Nodes of one zone, each with a pod of low priority."""
    names = [f"n{number:03}" for number in range(NODES)]
    return [*(node(name, labels={ZONE: "z"}) for name in names), *map(running_on, names)]


async def test_a_zone_that_becomes_unavailable_at_once_is_searched_in_steps(looked_at):
    async with running(*cluster(), settings=SLOW) as world:
        world.cluster.put(alone("first"))
        await world.pass_time(1)
        assert "default/first" in world.cluster.nodes_of_pods()
        turns = asyncio.ensure_future(each_turn(looked_at))
        world.cluster.put(alone("second"))
        world.cluster.put(pod("third"))
        await world.pass_time(3)
        turns.cancel()
        assert "default/second" not in world.cluster.nodes_of_pods()
        assert "default/third" in world.cluster.nodes_of_pods()
        assert sum(looked_at) >= NODES
        assert max(looked_at) <= NODES_PER_STEP
        assert world.scheduler.queue.get("uid-second").attempts == 1


async def test_the_steps_go_on_in_the_slice_in_which_they_began(looked_at):
    settings = structs.replace(SLOW, slice_seconds=1.0)  # the clock stands still during a slice
    async with running(*cluster(), settings=settings) as world:
        world.cluster.put(alone("first"))
        await world.pass_time(1)
        turns = asyncio.ensure_future(each_turn(looked_at))
        world.cluster.put(alone("second"))
        await world.pass_time(3)
        turns.cancel()
        assert max(looked_at) >= NODES


async def test_a_fault_in_a_later_step_of_the_search_is_an_error_of_its_pod_alone(monkeypatch):
    select, seen = default_preemption.select_victims, []

    def select_victims(row, *of):
        seen.append(row)
        if len(seen) > NODES_PER_STEP:
            raise InvalidObject("pod default/second: no such thing")
        return select(row, *of)

    async with running(*cluster(), settings=SLOW) as world:
        world.cluster.put(alone("first"))
        await world.pass_time(1)
        monkeypatch.setattr(default_preemption, "select_victims", select_victims)
        world.cluster.put(alone("second"))
        world.cluster.put(pod("third"))
        await world.pass_time(3)
        condition = world.cluster.pod("default/second").status.conditions[0]
        assert (condition.reason, condition.message) == ("SchedulerError", "pod default/second: no such thing")
        assert "default/third" in world.cluster.nodes_of_pods()
