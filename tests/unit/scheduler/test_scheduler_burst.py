"""Many pods at once, while nodes come and go and the clock jumps."""

import asyncio

from tests.unit.scheduler.running import node, pod, running
from wharfinger.model.objects.pod_view import PodView


def test_nodes_that_come_and_go_during_a_burst_lose_no_pod():
    async def story():
        async with running(*(node(f"n{index}", cpu="8") for index in range(10))) as world:
            for index in range(60):
                world.cluster.put(pod(f"p{index}"))
                if index % 20 == 10:
                    world.cluster.remove("Node", f"n{index % 7}")
            await world.calm()
            for index in (3, 1, 2):
                world.cluster.put(node(f"n{index}", cpu="8"))
            await world.pass_time(15)
            placed = world.cluster.nodes_of_pods()
            assert len(placed) == 60
            assert sorted(world.cluster.bindings) == sorted(placed.items())
            counts = [list(placed.values()).count(f"n{index}") for index in range(10)]
            assert max(counts) <= 8
            state = world.scheduler.state
            assert not [each for each in world.cluster.pods() if state.is_assumed(PodView(each).uid)]
            assert (len(world.scheduler.queue), world.scheduler.n_binding, world.scheduler.n_writing) == (0, 0, 0)

    asyncio.run(story())


def test_the_clock_of_the_machine_may_jump():
    async def story():
        async with running(node("a", cpu="1"), pod("x"), pod("y")) as world:
            world.clock.jump(-86_400)
            await world.pass_time(2)
            world.clock.jump(10 * 86_400)
            (placed,) = world.cluster.nodes_of_pods()
            world.cluster.remove("Pod", placed)
            await world.pass_time(3)
            assert len(world.cluster.nodes_of_pods()) == 1
            assert world.seen.flushes == 0

    asyncio.run(story())


def test_pods_waiting_for_room_are_not_all_tried_for_an_event_that_cannot_help_them():
    async def story():
        async with running(node("a", cpu="1"), node("b", cpu="100m"), pod("first")) as world:
            for index in range(50):
                world.cluster.put(pod(f"big-{index}", cpu="1"))
            await world.calm()
            tried = len(world.seen.attempts)
            world.cluster.put(pod("small", cpu="100m", scheduler="else", nodeName="b"))
            world.cluster.remove("Pod", "default/small")
            await world.pass_time(20)
            assert len(world.seen.attempts) == tried

    asyncio.run(story())
