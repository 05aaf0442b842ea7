"""Nodes that are kept free for the largest waiting group, if its policy has `reserve`."""

import asyncio

import msgspec
import pytest

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import node, pod, running
from wharfinger.framework.chain import assemble
from wharfinger.model import objects

LABEL = "job"
RESERVING = 'policy "gang"\ngroup by pod.labels["job"] { min_count 3\n timeout 1min\n reserve }\n'
PLAIN = RESERVING.replace("\n reserve", "")
STARTED = "2023-11-14T22:13:20Z"  # the time at which the clock of the tests begins


def chains(text):
    return {"wharfinger": assemble([compiled(text)])}


def member(group, number, cpu="2"):
    return pod(f"{group}-{number}", cpu, labels={LABEL: group})


def ending(name, on, seconds, cpu="2"):
    found = pod(name, cpu, nodeName=on, activeDeadlineSeconds=seconds)
    status = msgspec.convert({"phase": "Running", "startTime": STARTED}, objects.PodStatus)
    return msgspec.structs.replace(found, status=status)


async def stream(world, seconds):
    """Small pods that run for a second each come faster than there is room for them; the number of those that ran."""
    ran = 0
    for second in range(seconds):
        for number in range(6):
            world.cluster.put(pod(f"small-{world.clock.monotonic():g}-{second}-{number}", "1"))
        await world.pass_time(1)
        for key, _ in list(world.cluster.nodes_of_pods().items()):
            if key.startswith("default/small-"):
                world.cluster.remove("Pod", key)
                ran += 1
    return ran


def placed(world, group):
    return sum(key.startswith(f"default/{group}-") for key in world.cluster.nodes_of_pods())


@pytest.mark.parametrize("policy", [RESERVING, PLAIN], ids=["reserved", "not reserved"])
def test_a_stream_of_small_pods_does_not_starve_a_group_for_which_room_is_kept(policy):
    async def story():
        async with running(node("a", "6"), ending("long", "a", 20), chains=chains(policy)) as world:
            for number in range(3):
                world.cluster.put(member("g", number))
            await world.calm()
            ran = await stream(world, 10)
            if policy == PLAIN:
                assert ran > 20  # an unschedulable group stops no other
                return
            assert placed(world, "g") == 0
            text = {one.message for number in range(3) for one in world.cluster.pod(f"default/g-{number}").status.conditions}.pop()
            assert "expected to fit at 2023-11-14T22:13:40Z at the latest, by the deadlines of running pods" in text
            assert "room on 1 node is kept free for it until 2023-11-14T22:14:40Z" in text
            world.cluster.remove("Pod", "default/long")
            await stream(world, 4)
            assert placed(world, "g") == 3
            assert world.scheduler._group_cycle.reservations.held is None

    asyncio.run(story())


def test_a_reservation_ends_and_others_get_its_room():
    async def story():
        async with running(node("a", "6"), pod("long", "2", nodeName="a"), chains=chains(RESERVING)) as world:
            for number in range(3):
                world.cluster.put(member("g", number))
            await world.calm()
            assert await stream(world, 20) == 0
            held = world.scheduler._group_cycle.reservations.held
            assert held.until - held.since == 60
            assert "no deadlines of running pods tell when it fits" in held.text
            await world.pass_time(45)
            assert world.scheduler._group_cycle.reservations.held is None
            assert await stream(world, 10) > 20

    asyncio.run(story())


def test_the_largest_group_gets_the_reservation_and_pods_of_higher_priority_its_room():
    async def story():
        async with running(node("a", "6"), pod("long", "2", nodeName="a"), chains=chains(RESERVING)) as world:
            for number in range(3):
                world.cluster.put(member("g", number))
            await world.calm()
            reservations = world.scheduler._group_cycle.reservations
            assert reservations.held.key == "default/g"
            world.cluster.put(pod("urgent", "1", priority=10))
            world.cluster.put(pod("equal", "1"))
            await world.pass_time(2)
            assert "default/urgent" in world.cluster.nodes_of_pods()
            assert "default/equal" not in world.cluster.nodes_of_pods()
            for number in range(3):
                world.cluster.remove("Pod", f"default/g-{number}")
            await world.pass_time(3)
            assert reservations.held is None
            assert "default/equal" in world.cluster.nodes_of_pods()

    asyncio.run(story())


def test_nothing_is_kept_for_a_group_that_would_never_fit():
    async def story():
        async with running(node("a", "4"), pod("long", "2", nodeName="a"), chains=chains(RESERVING)) as world:
            for number in range(3):
                world.cluster.put(member("g", number))
            await world.calm()
            assert world.scheduler._group_cycle.reservations.held is None
            world.cluster.put(pod("single", "1"))
            await world.calm()
            assert "default/single" in world.cluster.nodes_of_pods()

    asyncio.run(story())


def test_no_room_is_reserved_for_a_member_deleted_during_the_search():
    async def story():
        async with running(node("a", "6"), pod("long", "2", nodeName="a"), chains=chains(RESERVING)) as world:
            search = world.scheduler._group_cycle.reservations._search
            expecting = search.expected_placement

            def interrupted(profile, group):
                found = yield from expecting(profile, group)
                world.cluster.remove("Pod", "default/g-0")
                return found

            search.expected_placement = interrupted
            for number in range(3):
                world.cluster.put(member("g", number))
            await world.calm()
            nominated = [world.scheduler.state.snapshot().nominated_to(f"uid-g-{number}") for number in range(3)]
            assert nominated == [None, "a", "a"]

    asyncio.run(story())
