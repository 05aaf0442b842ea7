import asyncio

from tests.unit.scheduler.running import node, pod, running
from wharfinger.model.objects.pod_view import PodView


def test_places_every_pod_and_reports_it():
    async def story():
        async with running(node("a"), node("b"), *(pod(f"p{i}") for i in range(8))) as world:
            assert len(world.cluster.nodes_of_pods()) == 8
            assert sorted(world.cluster.nodes_of_pods().values()) == ["a"] * 4 + ["b"] * 4
            assert len(world.scheduler.queue) == 0
            scheduled = [event for of, event in world.cluster.events if of == "default/p0"]
            note = f"Successfully assigned default/p0 to {world.cluster.nodes_of_pods()['default/p0']}"
            assert [(e.type, e.reason, e.action, e.note) for e in scheduled] == [("Normal", "Scheduled", "Binding", note)]
            assert [attempt.result for attempt in world.seen.attempts] == ["scheduled"] * 8

    asyncio.run(story())


def test_pods_of_other_schedulers_are_left_alone_and_counted():
    async def story():
        async with running(node("a", cpu="2"), pod("other", scheduler="else"), pod("ours")) as world:
            assert set(world.cluster.nodes_of_pods()) == {"default/ours"}
            await world.cluster.bind(PodView(world.cluster.pod("default/other")), "a")
            world.cluster.put(pod("late"))
            await world.calm()
            assert "default/late" not in world.cluster.nodes_of_pods()

    asyncio.run(story())
