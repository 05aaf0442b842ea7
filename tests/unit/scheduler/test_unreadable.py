"""Objects that cannot be read are reported, and their former state still counts."""

import asyncio

from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_groups_live import gang, member
from wharfinger.errors import InvalidObject

ERROR = InvalidObject("spec.containers: expected a list, got text")


def test_a_pod_of_ours_that_cannot_be_read_is_reported():
    async def story():
        async with running(node("a")) as world:
            for name, scheduler in (("ours", "wharfinger"), ("theirs", "another")):
                unread = pod(name, scheduler=scheduler)
                world.scheduler.sink.unreadable("Pod", unread, ERROR, listed=False)
            await world.pass_time(1)
            assert world.reasons() == [("default/ours", "FailedScheduling")]
            assert "expected a list" in world.cluster.events[0][1].note
            assert len(world.scheduler.queue) == 0

    asyncio.run(story())


def test_a_listed_object_that_cannot_be_read_keeps_its_former_state():
    async def story():
        async with running(node("a"), pod("x")) as world:
            sink, state = world.scheduler.sink, world.scheduler.state
            sink.unreadable("Node", node("a"), ERROR, listed=True)
            sink.unreadable("Pod", pod("x", nodeName="a"), ERROR, listed=True)
            sink.replace("Node", [])
            sink.replace("Pod", [])
            assert state.snapshot().pod_count.tolist() == [1]
            sink.replace("Pod", [])
            sink.replace("Node", [])
            assert state.snapshot().n_nodes == 0
            assert not state.is_placed("uid-x")

    asyncio.run(story())


def test_a_queued_pod_that_is_bound_and_cannot_be_read_any_more_counts_on_its_node():
    async def story():
        async with running(node("a", cpu="1"), pod("x", cpu="2")) as world:
            assert "uid-x" in world.scheduler.queue
            world.scheduler.sink.unreadable("Pod", pod("x", nodeName="a"), ERROR, listed=False)
            assert "uid-x" not in world.scheduler.queue
            assert world.scheduler.state.snapshot().requested[0].tolist() == [2000]

    asyncio.run(story())


def test_a_member_that_is_bound_and_cannot_be_read_any_more_counts_for_its_group():
    async def story():
        async with running(node("a"), gang("g", 2), member("g", 0)) as world:
            assert world.scheduler.queue.depths["gated"] == 1
            world.scheduler.sink.unreadable("Pod", pod("g-0", nodeName="a"), ERROR, listed=False)
            world.cluster.put(member("g", 1))
            await world.pass_time(1)
            assert world.cluster.nodes_of_pods() == {"default/g-1": "a"}

    asyncio.run(story())
