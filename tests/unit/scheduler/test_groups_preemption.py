"""Preemption for a whole group, in a running scheduler."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_groups_live import RACK, bound, gang, members, racks, racks_of
from wharfinger.framework.ports import WriteFailed


def low(name, on, cpu="2", **more):
    return pod(name, cpu, priority=-1, nodeName=on, **more)


def there(world):
    return {one.metadata.name for one in world.cluster.pods()}


def conditions(world, group):
    return {one.message for of in world.cluster.pods() if of.metadata.name.startswith(f"{group}-") for one in of.status.conditions}


@pytest.mark.parametrize("graceful", [False, True])
def test_the_least_important_pods_of_one_rack_leave_for_the_group(graceful):
    async def story():
        things = [low("a", "r0n0"), low("b", "r0n1"), low("c", "r1n0"), pod("d", "2", priority=5, nodeName="r1n1")]
        async with running(*racks(2, 2, "2"), *things, gang("g", 4, RACK)) as world:
            world.cluster.graceful = graceful
            for one in members("g", 4):
                world.cluster.put(one)
            await world.calm()
            if graceful:
                leaving = {one.metadata.name for one in world.cluster.pods() if one.metadata.deletion_timestamp is not None}
                assert leaving == {"a", "b"}
                assert bound(world, "g") == set()
                world.cluster.put(pod("thief", "1"))
                await world.pass_time(3)
                assert {text.partition(". ")[2] for text in conditions(world, "g")} == {
                    "preemption: not eligible due to a terminating pod on the nominated node."
                }
                for name in leaving:
                    world.cluster.remove("Pod", f"default/{name}")
                    await world.pass_time(2)
            await world.pass_time(3)
            assert {"c", "d"} <= there(world)
            assert "a" not in there(world)
            assert len(bound(world, "g")) == 4
            assert racks_of(world, "g") == {"r0"}
            assert world.seen.groups[0].result == "waiting_on_preemption"
            assert {world.cluster.pod(f"default/g-{number}").status.nominated_node_name for number in range(4)} == {""}
            notes = [event.note for of, event in world.cluster.events if event.reason == "Preempted" and of == "default/a"]
            assert notes == ["Preempted by podgroup uid-group-g on node r0n0"]

    asyncio.run(story())


def test_a_group_waits_for_its_victims_on_other_nodes_than_those_of_its_members():
    """A member must not be in one rack with the victim, whose node has no room for members."""
    selector = {"labelSelector": {"matchLabels": {"app": "old"}}, "topologyKey": RACK}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector]}}

    async def story():
        things = [low("a", "r0n2", "1", labels={"app": "old"}), pod("d", "1", priority=5, nodeName="r0n2")]
        async with running(*racks(1, 3, "2"), *things, gang("g", 2)) as world:
            world.cluster.graceful = True
            for one in members("g", 2, "2", affinity=apart):
                world.cluster.put(one)
            await world.calm()
            world.cluster.put(pod("thief", "1"))
            await world.pass_time(15)
            assert {world.cluster.pod(f"default/g-{number}").status.nominated_node_name for number in range(2)} == {"r0n0", "r0n1"}
            assert {text.partition(". ")[2] for text in conditions(world, "g")} == {
                "preemption: not eligible due to a terminating pod on the nominated node."
            }
            world.cluster.remove("Pod", "default/a")
            await world.pass_time(15)
            assert len(bound(world, "g")) == 2

    asyncio.run(story())


def test_no_pod_is_evicted_for_a_group_that_would_not_fit_even_then():
    async def story():
        async with running(node("n", "2"), low("a", "n"), gang("g", 3), *members("g", 3)) as world:
            await world.pass_time(3)
            assert "a" in there(world)
            assert list(world.scheduler.state.snapshot().nominated_rows) == []
            (text,) = conditions(world, "g")
            assert text.endswith("preemption: Preemption is not helpful for scheduling")

    asyncio.run(story())


def whole(group, priority):
    """The same PodGroup, disrupted as a whole, with its own priority."""
    return replace(group, spec=replace(group.spec, disruption_mode="PodGroup", priority=priority))


@pytest.mark.parametrize("of_pods", [-5, 7])
@pytest.mark.parametrize("graceful", [False, True])
def test_a_group_that_is_disrupted_as_a_whole_leaves_as_a_whole_by_its_own_priority(of_pods, graceful):
    async def story():
        async with running(*racks(2, 1, "2"), whole(gang("old", 2), -5), *members("old", 2, "2", priority=of_pods)) as world:
            assert len(bound(world, "old")) == 2
            world.cluster.graceful = graceful
            for one in (gang("g", 2), *members("g", 2)):
                world.cluster.put(one)
            await world.pass_time(4)
            if graceful:
                world.cluster.put(pod("other", "1", priority=-9))  # while the victims are leaving, nobody else is evicted
                await world.pass_time(4)
                assert {text.partition(". ")[2] for text in conditions(world, "g")} == {
                    "preemption: not eligible due to a terminating pod on the nominated node."
                }
                for number in range(2):
                    world.cluster.remove("Pod", f"default/old-{number}")
                await world.pass_time(4)
            assert bound(world, "old") == set()
            assert len(bound(world, "g")) == 2

    asyncio.run(story())


def test_a_group_that_is_disrupted_as_a_whole_stays_if_its_own_priority_is_not_lower():
    async def story():
        async with running(*racks(2, 1, "2"), whole(gang("old", 2), 0), *members("old", 2, "2", priority=-5)) as world:
            for one in (gang("g", 2), *members("g", 2)):
                world.cluster.put(one)
            await world.pass_time(4)
            assert len(bound(world, "old")) == 2
            assert bound(world, "g") == set()
            assert {text.partition(". ")[2] for text in conditions(world, "g")} == {
                "preemption: No preemption victims found for incoming preemptor"
            }

    asyncio.run(story())


@pytest.mark.parametrize("denied", ["old-0", "old-1"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_group_that_is_disrupted_as_a_whole_stays_as_a_whole_if_one_eviction_is_refused(denied, gone):
    async def story():
        async with running(*racks(2, 1, "2"), whole(gang("old", 2), -5), *members("old", 2, "2", priority=-5)) as world:
            tried = []

            def refuse(pod, dry_run):
                tried.append((pod.name, dry_run))
                if pod.name == denied:
                    raise WriteFailed("denied by a webhook", retriable=False, gone=gone)

            world.cluster.before_disrupt = refuse
            for one in (gang("g", 2), *members("g", 2)):
                world.cluster.put(one)
            await world.calm()
            if gone:  # the watch will show it
                assert {dry_run for _, dry_run in tried} == {False, True}
                return
            assert {dry_run for _, dry_run in tried} == {True}
            assert len(bound(world, "old")) == 2
            assert world.cluster._objects["PodGroup"]["default/old"].status.conditions[-1].type != "DisruptionTarget"
            world.cluster.before_disrupt = lambda pod, dry_run: None
            await world.pass_time(12)
            assert bound(world, "old") == set()
            assert len(bound(world, "g")) == 2

    asyncio.run(story())


def test_refused_evictions_are_tried_again_after_backoffs():
    async def story():
        async with running(*racks(2, 1, "2"), whole(gang("old", 2), -5), *members("old", 2, "2", priority=-5)) as world:
            tried = []

            def refuse(pod, dry_run):
                tried.append(world.clock.monotonic())
                raise WriteFailed("denied by a webhook", retriable=False)

            world.cluster.before_disrupt = refuse
            for one in (gang("g", 2), *members("g", 2)):
                world.cluster.put(one)
            await world.pass_time(60)
            assert 2 * 4 <= len(tried) <= 2 * 10

    asyncio.run(story())


def test_the_nominated_nodes_of_a_group_are_taken_back_from_its_pods_when_they_do_not_help():
    async def story():
        async with running(node("n", "4"), gang("g", 2)) as world:
            for one in members("g", 2, "3", priority=3):
                world.cluster.put(replace(one, status=replace(one.status, nominated_node_name="n")))
            await world.pass_time(1)
            assert list(world.scheduler.state.snapshot().nominated_rows) == []
            assert {world.cluster.pod(f"default/g-{number}").status.nominated_node_name for number in range(2)} == {""}

    asyncio.run(story())


def test_room_that_is_kept_for_a_group_is_taken_by_no_pod_of_lower_priority():
    async def story():
        async with running(node("n", "4"), low("a", "n", "4"), gang("g", 2)) as world:
            world.cluster.graceful = True
            for one in members("g", 2, "2", priority=3):
                world.cluster.put(one)
            await world.pass_time(1)
            world.cluster.put(pod("thief", "1", priority=1))
            world.cluster.remove("Pod", "default/a")
            await world.pass_time(4)
            assert len(bound(world, "g")) == 2
            assert "default/thief" not in world.cluster.nodes_of_pods()

    asyncio.run(story())
