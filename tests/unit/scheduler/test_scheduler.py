"""A running scheduler places every pod of its profiles and reports it, also after a change of the leader."""

import asyncio
from datetime import UTC, datetime

from msgspec.structs import replace

from tests.unit.scheduler.running import Running, node, pod, running, scheduling
from wharfinger.model.objects.pod_view import PodView
from wharfinger.scheduler import scheduler as schedulers


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


BOUND = [  # name, scheduler, node, created and started so many seconds ago (None: not at all)
    ("lately", "wharfinger", "a", 400, 100),
    ("before the kubelet saw it", "wharfinger", "a", 20, None),
    ("long ago", "wharfinger", "a", 900, 800),
    ("never started", "wharfinger", "a", 900, None),
    ("by another scheduler", "else", "a", 20, 10),
    ("waiting", "wharfinger", "", 20, None),
]


def test_a_new_leader_records_the_bindings_of_the_last_minutes_again():
    world = Running()

    def ago(seconds):
        return None if seconds is None else datetime.fromtimestamp(world.clock.now() - seconds, UTC)

    def bound(name, scheduler, on, created, started):
        made = pod(name.replace(" ", "-"), scheduler=scheduler, nodeName=on, cpu="1m" if on else "9")
        metadata = replace(made.metadata, creation_timestamp=ago(created))
        return replace(made, metadata=metadata, status=replace(made.status, start_time=ago(started)))

    async def story():
        world.office.is_leader = False
        for thing in (node("a"), *(bound(*case) for case in BOUND)):
            world.cluster.put(thing)
        async with scheduling(world):
            assert world.cluster.events == []
            world.office.is_leader = True
            await world.pass_time(2)
            again = [(of, event.note, event.once) for of, event in world.cluster.events if event.reason == "Scheduled"]
            names = "default/lately", "default/before-the-kubelet-saw-it"
            assert again == [(name, f"Successfully assigned {name} to a", True) for name in names]

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


def test_a_new_leader_looks_for_missing_events_of_some_pods_in_each_turn(monkeypatch):
    monkeypatch.setattr(schedulers, "PODS_PER_STEP", 10)
    in_turn = [0]

    def counted(_pod, _now):
        in_turn[-1] += 1
        return False

    monkeypatch.setattr(schedulers, "bound_recently", counted)

    async def story():
        placed = [pod(f"p{number}", cpu="1m", nodeName="a") for number in range(45)]
        world = Running()
        for each in (node("a"), *placed):
            world.cluster.put(each)
        world.cluster.connect(world.scheduler.sink)
        task = asyncio.create_task(world.scheduler.run())
        for _ in range(30):
            await asyncio.sleep(0)
            in_turn.append(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())
    assert (sum(in_turn), max(in_turn)) == (45, 10)
