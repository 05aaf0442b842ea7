"""The search for devices runs in steps before the decision about a pod with claims, so that other pods are decided meanwhile."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from tests.bench import devices
from tests.unit.scheduler.running import node, running, ticking
from tests.unit.scheduler.running import pod as plain_pod
from tests.unit.scheduler.test_claims_being_written import LateClaims, pod
from tests.unit.scheduler.test_groups_live import gang, member
from wharfinger.framework.plugins.devices import device_rule
from wharfinger.model import objects
from wharfinger.policies.budget import BudgetSettings
from wharfinger.scheduler import cycle
from wharfinger.scheduler.scheduler import SchedulerSettings

pytestmark = pytest.mark.anyio

NODES = 12
ONE_STEP_EACH = SchedulerSettings(slice_seconds=-1)
SLOW_MACHINE = SchedulerSettings(slice_seconds=-1, budget=BudgetSettings(timer=ticking(1.0)))


@pytest.fixture
def searches(monkeypatch):
    """The number of searches for devices in each turn of the event loop."""
    made, in_turn = device_rule.search_in_steps, [0]

    def search(*of):
        in_turn[-1] += 1
        return made(*of)

    monkeypatch.setattr(device_rule, "search_in_steps", search)
    return in_turn


@asynccontextmanager
async def world_of(in_turn, *more, settings=ONE_STEP_EACH):
    """A world in which each node has another number of devices, so that each needs its own search."""
    store = devices.cluster(NODES).objects
    slices = sorted(store.all(objects.ResourceSlice), key=lambda each: each.metadata.name)
    others = [structs.replace(each, spec=structs.replace(each.spec, devices=_named(each, place + 1))) for place, each in enumerate(slices)]
    nodes = [node(f"n{number:05}", cpu="64") for number in range(NODES)]
    async with running(*nodes, *others, *store.all(objects.DeviceClass), *more, claims=LateClaims, settings=settings) as world:
        turns = asyncio.ensure_future(_each_turn(in_turn))
        yield world
        turns.cancel()


def _named(of, count):
    (first, *_) = of.spec.devices
    return tuple(structs.replace(first, name=f"d{place}") for place in range(count))


async def _each_turn(in_turn):
    while True:
        in_turn.append(0)
        await asyncio.sleep(0)


async def turns_until(happened):
    for _ in range(300):
        if happened():
            break
        await asyncio.sleep(0)


async def bound(world):
    for _ in range(3):
        world.claims.show()
        await world.pass_time(2)
    return world.cluster.nodes_of_pods()


async def test_each_search_for_a_claim_is_a_step_of_its_own(searches):
    async with world_of(searches) as world:
        world.cluster.put(devices.claim("p", 2))
        world.cluster.put(pod("p"))
        assert (await bound(world)).keys() == {"default/p"}
        assert sum(searches) == NODES
        assert max(searches) == 1


async def test_pods_of_one_template_share_the_work_and_other_pods_are_placed_meanwhile_if_it_takes_many_steps(searches, monkeypatch):
    monkeypatch.setattr(cycle, "STEPS_IN_ORDER", NODES // 2)
    async with world_of(searches) as world:
        for name in ("p", "q"):
            world.cluster.put(devices.claim(name, 2))
            world.cluster.put(pod(name))
        world.cluster.put(plain_pod("plain"))
        await turns_until(world.cluster.nodes_of_pods)
        assert (world.cluster.nodes_of_pods().keys(), 0 < sum(searches) < NODES) == ({"default/plain"}, True)
        assert (await bound(world)).keys() == {"default/plain", "default/p", "default/q"}
        assert max(searches) == 1


async def test_other_pods_wait_while_it_takes_few_steps_however_slow_the_machine_is(searches):
    async with world_of(searches, settings=SLOW_MACHINE) as world:
        world.cluster.put(devices.claim("p", 2))
        world.cluster.put(pod("p"))
        world.cluster.put(plain_pod("plain"))
        await turns_until(world.cluster.nodes_of_pods)
        assert (world.cluster.nodes_of_pods().keys(), sum(searches)) == (
            {"default/plain"},
            NODES,
        )  # the claim of the other is being written


async def test_a_pod_that_is_deleted_meanwhile_is_not_decided_about(searches):
    async with world_of(searches) as world:
        world.cluster.put(devices.claim("p", 2))
        world.cluster.put(pod("p"))
        await turns_until(lambda: sum(searches))
        world.cluster.remove("Pod", "default/p")
        assert await bound(world) == {}
        assert (len(world.claims.unseen), len(world.scheduler.queue), sum(searches) < NODES) == (0, 0, True)


async def test_a_loss_of_the_lease_cancels_the_work_which_starts_again_later(searches):
    async with world_of(searches) as world:
        world.cluster.put(devices.claim("p", 2))
        world.cluster.put(pod("p"))
        await turns_until(lambda: sum(searches))
        world.office.is_leader = False
        await world.pass_time(2)
        assert (world.scheduler.queue.get("p").attempts, sum(searches) < NODES) == (0, True)
        world.office.is_leader = True
        assert (await bound(world)).keys() == {"default/p"}
        assert (sum(searches), max(searches)) == (NODES, 1)


async def test_members_of_a_group_with_claims_wait_for_the_work_too(searches):
    async with world_of(searches) as world:
        world.cluster.put(gang("g", 2))
        for name in ("p", "q"):
            world.cluster.put(devices.claim(name, 2))
            one = pod(name)
            world.cluster.put(structs.replace(one, spec=structs.replace(one.spec, scheduling_group=member("g", 1).spec.scheduling_group)))
        assert (await bound(world)).keys() == {"default/p", "default/q"}
        assert sum(searches) >= NODES
        assert max(searches) <= 2  # the second member finds other devices taken on one node
