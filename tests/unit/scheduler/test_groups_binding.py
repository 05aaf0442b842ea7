"""Members of a group are bound together: the result if one of them fails before that."""

import asyncio
from contextlib import suppress

import pytest

from tests.unit.scheduler.running import MOUNT, claim, node, pod, running, storage_class
from tests.unit.scheduler.test_groups_live import RACK, bound, gang, member, members, racks, racks_of
from tests.unit.scheduler.test_scheduler_volumes import finish
from wharfinger.framework.chain import Chain, ChainEntry, assemble
from wharfinger.framework.extension import Permission, PermitPlugin, PreBindPlugin, ReservePlugin
from wharfinger.framework.prepared import Reason
from wharfinger.scheduler.group_search import MEMBERS_PER_STEP
from wharfinger.scheduler.scheduler import SchedulerSettings


class Hurdle(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Refuses or holds the pods of these names at one point, as long as it is up."""

    name = "Hurdle"

    def __init__(self, point, *names, wait=1000.0):
        super().__init__()
        self.point, self.names, self.wait = point, names, wait
        self.gone = asyncio.Event()

    def _stops(self, point, placement):
        return point == self.point and placement.pod.name in self.names and not self.gone.is_set()

    def reserve(self, placement):
        return Reason("no licence") if self._stops("reserve", placement) else None

    def unreserve(self, placement):
        pass

    def permit(self, placement, waiting):
        if self._stops("hold", placement):
            return Permission(approved=False, wait_seconds=self.wait)
        return Permission(approved=False, reason=Reason("not permitted")) if self._stops("permit", placement) else Permission()

    async def pre_bind(self, placement):
        if self._stops("pre_bind", placement):
            return Reason("volume is lost")
        if self._stops("pause", placement):
            await self.gone.wait()
        while self._stops("deaf", placement):
            with suppress(asyncio.CancelledError):
                await self.gone.wait()
        return None


def hurdled(hurdle):
    built_in = assemble()
    return {"wharfinger": Chain(entries=(*built_in.entries, ChainEntry(plugin=hurdle, weight=None)))}


def group_of(count):
    return (node("a", "4"), node("b", "4"), gang("g", count), *members("g", count))


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind"])
def test_a_member_that_is_refused_leaves_nothing_bound_or_assumed(point):
    async def story():
        hurdle = Hurdle(point, "g-2")
        async with running(*group_of(4), chains=hurdled(hurdle)) as world:
            assert world.cluster.bindings == []
            assert list(world.scheduler.state.placements()) == []
            assert world.scheduler.n_binding == 0
            assert len(world.scheduler.queue) == 4
            hurdle.gone.set()
            world.cluster.put(node("c", "4"))
            await world.pass_time(4)
            assert len(bound(world, "g")) == 4

    asyncio.run(story())


def test_members_beyond_the_minimum_may_fall_out():
    async def story():
        hurdle = Hurdle("permit", "g-3")
        async with running(node("a", "8"), gang("g", 3), *members("g", 4), chains=hurdled(hurdle)) as world:
            assert bound(world, "g") == {"default/g-0", "default/g-1", "default/g-2"}

    asyncio.run(story())


def test_none_is_bound_while_one_is_held_and_others_are_placed_meanwhile():
    async def story():
        hurdle = Hurdle("pause", "g-1")
        settings = SchedulerSettings(max_binds=2)
        async with running(*group_of(4), chains=hurdled(hurdle), settings=settings) as world:
            assert world.cluster.bindings == []
            assert world.scheduler.n_binding == 4
            world.cluster.put(pod("single"))
            await world.calm()
            assert set(world.cluster.nodes_of_pods()) == {"default/single"}
            hurdle.gone.set()
            await world.calm()
            assert len(bound(world, "g")) == 4

    asyncio.run(story())


@pytest.mark.parametrize("point", ["hold", "pause"])
def test_a_node_that_is_removed_while_members_wait_for_each_other_leaves_none_bound(point):
    """Members on the other node of the rack could be bound, and those on the removed one could not."""

    async def story():
        hurdle = Hurdle(point, "g-1")
        async with running(*racks(2, 2, "2"), gang("g", 4, RACK), *members("g", 4), chains=hurdled(hurdle)) as world:
            (rack,) = {pod.node_name[:2] for pod, _ in world.scheduler.state.placements()}
            world.cluster.remove("Node", f"{rack}n1")
            await world.calm()
            hurdle.gone.set()
            await world.calm()
            assert world.cluster.bindings == []
            await world.pass_time(5)
            assert len(bound(world, "g")) == 4
            assert racks_of(world, "g") != {rack}

    asyncio.run(story())


def test_a_group_that_is_larger_than_the_limit_is_bound_within_it():
    async def story():
        settings, under_way, most = SchedulerSettings(max_binds=2), [], []
        async with running(node("a", "20"), gang("g", 7), settings=settings) as world:
            write = world.cluster.bind

            async def bind(pod, node):
                under_way.append(pod.key)
                most.append(len(under_way))
                await asyncio.sleep(0)
                await write(pod, node)
                under_way.remove(pod.key)

            world.cluster.bind = bind
            for each in members("g", 7):
                world.cluster.put(each)
            await world.calm()
            await world.calm()
            assert len(bound(world, "g")) == 7
            assert max(most) == 2

    asyncio.run(story())


def test_a_member_that_is_deleted_meanwhile_gives_the_others_back_at_once():
    async def story():
        hurdle = Hurdle("pause", "g-1")
        async with running(*group_of(3), chains=hurdled(hurdle)) as world:
            world.cluster.remove("Pod", "default/g-0")
            await world.calm()
            hurdle.gone.set()
            await world.calm()
            assert world.cluster.bindings == []
            assert list(world.scheduler.state.placements()) == []
            assert world.scheduler.queue.depths["gated"] == 2
            world.cluster.put(member("g", 5))
            await world.pass_time(3)
            assert bound(world, "g") == {"default/g-1", "default/g-2", "default/g-5"}

    asyncio.run(story())


def test_members_do_not_wait_for_each_other_longer_than_the_timeout():
    async def story():
        hurdle = Hurdle("hold", "g-1")
        async with running(*group_of(3), chains=hurdled(hurdle)) as world:
            await world.pass_time(299, step=23)
            assert world.scheduler.n_binding == 3
            assert world.seen.attempts == []
            await world.pass_time(1)
            await world.calm()
            assert {one.result for one in world.seen.attempts} == {"unschedulable"}
            assert {one.message for one in world.seen.attempts} == {
                "group default/g: only 2 of the 3 members that are needed could be bound in time, without g-1"
            }
            assert len(world.seen.attempts) == 3
            assert world.scheduler.n_binding == 0
            assert world.cluster.bindings == []
            assert list(world.scheduler.state.placements()) == []

    asyncio.run(story())


def test_a_member_whose_volume_comes_too_late_does_not_count_as_placed_in_the_next_attempt():
    async def story():
        late = member("g", 2, **MOUNT)
        async with running(*group_of(3)[:3], storage_class("csi"), claim(), *members("g", 2), late) as world:
            assert world.scheduler.n_binding == 3
            for _ in range(3):
                await world.pass_time(300, step=20)
                assert world.cluster.bindings == []
            finish(world, "made")
            await world.pass_time(300, step=20)
            assert len(bound(world, "g")) == 3

    asyncio.run(story())


def test_a_member_that_prepares_for_too_long_does_not_count_as_placed_in_the_next_attempt():
    """A plugin that does not end when it is cancelled cannot be ended, so the others wait for it."""

    async def story():
        hurdle = Hurdle("deaf", "g-1")
        async with running(*group_of(3), chains=hurdled(hurdle)) as world:
            await world.pass_time(1000, step=20)
            assert world.cluster.bindings == []
            assert {pod.name for pod, _ in world.scheduler.state.placements()} == {"g-1"}
            assert [event.note for about, event in world.cluster.events if about == "default/g-1"] == [
                'PreBind of plugin "Hurdle" was cancelled and has not ended; the group is tried again after that'
            ]
            hurdle.gone.set()
            await world.pass_time(60, step=5)
            assert len(bound(world, "g")) == 3

    asyncio.run(story())


def test_a_plugin_that_does_not_return_is_cancelled_when_the_time_of_the_group_is_over():
    async def story():
        hurdle = Hurdle("pause", "g-1")
        async with running(*group_of(3), chains=hurdled(hurdle)) as world:
            await world.pass_time(299, step=23)
            assert world.scheduler.n_binding == 3
            await world.pass_time(1)
            assert {one.message for one in world.seen.attempts} == {
                'group default/g: only 2 of the 3 members that are needed could be bound in time, without g-1 (PreBind of plugin "Hurdle")'
            }
            assert {about for about, event in world.cluster.events if "without g-1" in event.note} >= {f"default/g-{n}" for n in range(3)}
            assert list(world.scheduler.state.placements()) == []
            hurdle.gone.set()
            await world.pass_time(10)
            assert len(bound(world, "g")) == 3

    asyncio.run(story())


def test_a_plugin_that_does_not_return_for_a_member_beyond_the_minimum_holds_only_this_one_and_not_for_long():
    async def story():
        hurdle = Hurdle("pause", "g-2")
        async with running(node("a", "8"), gang("g", 2), *members("g", 3), chains=hurdled(hurdle)) as world:
            assert bound(world, "g") == {"default/g-0", "default/g-1"}
            await world.pass_time(300, step=20)
            assert world.scheduler.n_binding == 0
            (text,) = {one.message for one in world.seen.attempts if one.pod.name == "g-2"}
            assert text == 'group default/g: PreBind of plugin "Hurdle" has not ended within 300 seconds'
            hurdle.gone.set()
            await world.pass_time(30)
            assert len(bound(world, "g")) == 3

    asyncio.run(story())


def test_a_plugin_is_cancelled_when_too_few_members_are_left():
    async def story():
        hurdle = Hurdle("pause", "g-1")
        async with running(*group_of(3), chains=hurdled(hurdle)) as world:
            world.cluster.remove("Pod", "default/g-0")
            await world.calm()
            assert world.scheduler.n_binding == 0
            assert list(world.scheduler.state.placements()) == []

    asyncio.run(story())


CHANGES = {
    "cordoned": {"unschedulable": True},
    "tainted": {"taints": [{"key": "broken", "effect": "NoSchedule"}]},
    "smaller": {"cpu": "1"},
    "in another rack": {"rack": "r9"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("least", [4, 3])
def test_a_node_that_changes_while_members_wait_for_each_other_gets_none_of_them(change, least):
    async def story():
        hurdle, change_to = Hurdle("pause", "g-1", "g-2"), {"cpu": "2", **change}
        async with running(*racks(2, 2, "2"), gang("g", least, RACK), *members("g", 4), chains=hurdled(hurdle)) as world:
            (rack,) = {pod.node_name[:2] for pod, _ in world.scheduler.state.placements()}
            changed = f"{rack}n1"
            world.cluster.put(node(changed, labels=[(RACK, change_to.pop("rack", rack))], **change_to))
            await world.calm()
            hurdle.gone.set()
            await world.calm()
            assert world.cluster.bindings == []
            assert f"node {changed} has changed while the group was being bound" in next(
                event.note for about, event in world.cluster.events if about == "default/g-0"
            )
            await world.pass_time(5)
            assert len(bound(world, "g")) == 4
            assert racks_of(world, "g") == {"r0", "r1"} - {rack}

    asyncio.run(story())


def test_a_node_that_changes_so_that_its_members_still_fit_gets_them():
    async def story():
        hurdle = Hurdle("pause", "g-1")
        async with running(*racks(1, 2, "2"), gang("g", 4, RACK), *members("g", 4), chains=hurdled(hurdle)) as world:
            for number in range(2):
                world.cluster.put(node(f"r0n{number}", "3", labels=[(RACK, "r0"), ("new", "label")]))
            world.cluster.put(node("r0n2", "2", labels=[(RACK, "r0")]))
            await world.calm()
            hurdle.gone.set()
            await world.calm()
            assert len(bound(world, "g")) == 4
            assert {one.result for one in world.seen.attempts} == {"scheduled"}

    asyncio.run(story())


def test_a_late_member_whose_node_has_changed_is_tried_again_alone():
    async def story():
        hurdle = Hurdle("pause", "g-2")
        async with running(node("a", "2"), node("b", "2"), gang("g", 2), *members("g", 3), chains=hurdled(hurdle)) as world:
            assert bound(world, "g") == {"default/g-0", "default/g-1"}
            (there,) = (pod.node_name for pod, assumed in world.scheduler.state.placements() if assumed)
            world.cluster.put(node(there, "2", unschedulable=True))
            world.cluster.put(node("c", "2"))
            await world.calm()
            hurdle.gone.set()
            await world.pass_time(5)
            assert dict(world.cluster.bindings)["default/g-2"] != there
            assert len(world.cluster.bindings) == 3

    asyncio.run(story())


def test_a_group_is_tried_again_after_the_timeout():
    async def story():
        hurdle = Hurdle("hold", "g-1")
        async with running(*group_of(3), chains=hurdled(hurdle)) as world:
            await world.pass_time(310, step=10)
            assert world.scheduler.n_binding == 3
            assert {one.result for one in world.seen.attempts} == {"unschedulable"}
            hurdle.gone.set()
            world.cluster.put(pod("single"))
            await world.pass_time(1)
            assert len(bound(world, "g")) == 3

    asyncio.run(story())


def test_a_member_that_comes_while_the_others_wait_for_each_other_waits_with_them():
    async def story():
        hurdle = Hurdle("pause", "g-1", "g-2")
        async with running(*group_of(3), chains=hurdled(hurdle)) as world:
            world.cluster.put(member("g", 3))
            await world.pass_time(5)
            assert world.scheduler.n_binding == 4
            assert world.cluster.bindings == []
            world.cluster.put(member("g", 4))
            await world.pass_time(5)
            assert bound(world, "g") == {"default/g-0", "default/g-3", "default/g-4"}  # as many as must be
            hurdle.gone.set()
            await world.calm()
            assert len(bound(world, "g")) == 5

    asyncio.run(story())


def test_a_member_that_came_later_is_given_back_with_the_others():
    async def story():
        hurdle = Hurdle("hold", "g-1", "g-2")
        async with running(*group_of(3), chains=hurdled(hurdle)) as world:
            world.cluster.put(member("g", 3))
            await world.calm()
            world.cluster.remove("Pod", "default/g-0")
            await world.pass_time(290, step=10)
            assert world.cluster.bindings == []
            await world.pass_time(20, step=1)
            assert world.cluster.bindings == []
            assert "could be bound in time, without g-1, g-2" in world.cluster.pod("default/g-3").status.conditions[0].message

    asyncio.run(story())


def test_no_member_is_lost_whose_summary_cannot_be_made(monkeypatch):
    async def story():
        async with running(node("a", "4"), gang("g", 3)) as world:
            summary = world.scheduler._group_cycle._summary

            def choke(profile, pod, node, plugins=()):
                if node is not None and pod.name == "g-1":
                    raise ZeroDivisionError("a policy at fault")
                return summary(profile, pod, node, plugins)

            monkeypatch.setattr(world.scheduler._group_cycle, "_summary", choke)
            for each in members("g", 3):
                world.cluster.put(each)
            await world.calm()
            assert (world.cluster.bindings, list(world.scheduler.state.placements())) == ([], [])
            monkeypatch.undo()
            await world.pass_time(6)
            assert len(bound(world, "g")) == 3

    asyncio.run(story())


def test_a_group_whose_first_member_finds_the_lease_lost_is_given_back_whole():
    async def story():
        async with running(node("a", "4"), gang("g", 3)) as world:
            check = world.scheduler._binding._check

            def check_without_lease(placement):
                world.scheduler._binding._check = check
                world.office.is_leader = False
                try:
                    check(placement)
                finally:
                    world.office.is_leader = True  # renewed before the others are looked at

            world.scheduler._binding._check = check_without_lease
            for each in members("g", 3):
                world.cluster.put(each)
            await world.calm()
            assert (world.cluster.bindings, list(world.scheduler.state.placements())) == ([], [])
            await world.pass_time(4)
            assert len(bound(world, "g")) == 3

    asyncio.run(story())


def test_a_stop_in_the_middle_of_a_group_ends_at_once_and_leaves_no_part_of_it():
    async def story():
        n_members = 3 * MEMBERS_PER_STEP
        async with running(node("a", "100"), gang("g", n_members)) as world:
            start = world.scheduler._binding.start

            def stopping(*arguments):
                start(*arguments)
                world.scheduler.stop()
                world.clock.move(1)  # the slice is over

            world.scheduler._binding.start = stopping
            for each in members("g", n_members):
                world.cluster.put(each)
            for _ in range(20):
                await world.calm()
            assert world.scheduler.n_binding == 0
            assert (world.cluster.bindings, list(world.scheduler.state.placements())) == ([], [])

    asyncio.run(story())
