"""Groups in a running scheduler, on a cluster in memory."""

import asyncio
import itertools

import msgspec
import pytest

from tests.in_memory import ManualClock
from tests.unit.scheduler.running import node, pod, running, ticking
from tests.unit.simulate.clusters import policy
from wharfinger.framework.chain import Chain, ChainEntry, assemble
from wharfinger.framework.extension import Permission, PermitPlugin, ReservePlugin
from wharfinger.framework.ports import BindFailed
from wharfinger.framework.prepared import Reason
from wharfinger.groups import placing
from wharfinger.model import objects
from wharfinger.policies.budget import BudgetSettings
from wharfinger.scheduler import group_cycle, group_search
from wharfinger.scheduler.binding.group_binding import DELETED
from wharfinger.scheduler.cycle import STEPS_IN_ORDER
from wharfinger.scheduler.incomplete_groups import ROUND_SECONDS
from wharfinger.scheduler.scheduler import SchedulerSettings

RACK = "rack"


def gang(name, least, *levels, priority=None):
    manifest = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-group-{name}"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": least}} if least else {"basic": {}},
            "schedulingConstraints": {"topology": [{"key": key} for key in levels]},
            "priority": priority,
        },
    }
    return msgspec.convert(manifest, objects.PodGroup)


def member(group, number, cpu="1", **more):
    return pod(f"{group}-{number}", cpu, schedulingGroup={"podGroupName": group}, **more)


def members(group, count, cpu="1", **more):
    return [member(group, number, cpu, **more) for number in range(count)]


def racks(n_racks, n_nodes, cpu="4"):
    return [node(f"r{rack}n{number}", cpu, labels=[(RACK, f"r{rack}")]) for rack in range(n_racks) for number in range(n_nodes)]


def bound(world, group):
    return {key for key in world.cluster.nodes_of_pods() if key.startswith(f"default/{group}-")}


def racks_of(world, group):
    return {node[:2] for key, node in world.cluster.nodes_of_pods().items() if key.startswith(f"default/{group}-")}


def scheduled(world, group):
    found = world.cluster._objects["PodGroup"][f"default/{group}"].status.conditions
    return any(each.type == "PodGroupScheduled" and each.status == "True" for each in found)


async def searching_begins(world):
    for _ in range(1000):
        if world.scheduler._group_cycle.busy:
            return
        await asyncio.sleep(0)
    raise AssertionError("no search began")


def test_members_wait_outside_until_enough_are_there_and_are_bound_at_once():
    async def story():
        async with running(node("a", "8"), gang("g", 3), *members("g", 2)) as world:
            queue = world.scheduler.queue
            assert bound(world, "g") == set()
            assert queue.depths["gated"] == 2
            assert queue.depths["active"] == queue.depths["unschedulable"] == 0
            assert world.seen.attempts == []
            assert {queued.gate.text for queued in queue} == {"waiting for minCount pods from a gang to appear in scheduling queue"}
            world.cluster.put(member("g", 2))
            await world.calm()
            assert len(bound(world, "g")) == 3
            assert len(queue) == 0
            assert {attempt.group for attempt in world.seen.attempts} == {"default/g"}

    asyncio.run(story())


def test_a_group_waits_for_its_podgroup():
    async def story():
        async with running(node("a", "8"), *members("g", 2)) as world:
            assert bound(world, "g") == set()
            assert world.scheduler.queue.depths["gated"] == 2
            world.cluster.put(gang("g", 2))
            await world.calm()
            assert len(bound(world, "g")) == 2

    asyncio.run(story())


def test_a_group_that_does_not_fit_as_a_whole_takes_nothing_with_a_reason():
    async def story():
        async with running(node("a", "3"), gang("g", 4), *members("g", 4)) as world:
            assert world.cluster.bindings == []
            assert list(world.scheduler.state.placements()) == []
            assert world.scheduler.queue.depths["unschedulable"] == 4
            texts = {one.message for of in world.cluster.pods() for one in of.status.conditions if one.type == "PodScheduled"}
            (text,) = texts
            assert text.startswith("group default/g: 4 members must be placed at once; the cluster takes 3")
            world.cluster.put(pod("single", "3"))
            await world.calm()
            assert set(world.cluster.nodes_of_pods()) == {"default/single"}  # nothing is held for the group
            world.cluster.put(node("b", "4"))
            await world.pass_time(3)
            assert len(bound(world, "g")) == 4

    asyncio.run(story())


def test_a_group_is_placed_in_one_rack():
    async def story():
        async with running(*racks(3, 2, "2"), gang("g", 4, RACK), *members("g", 4)) as world:
            assert len(bound(world, "g")) == 4
            assert len(racks_of(world, "g")) == 1

    asyncio.run(story())


def test_late_members_beyond_the_minimum_are_placed_when_they_fit_and_in_the_rack_of_the_others():
    async def story():
        async with running(*racks(2, 2, "2"), gang("g", 3, RACK), *members("g", 3)) as world:
            (rack,) = racks_of(world, "g")
            world.cluster.put(member("g", 3))
            world.cluster.put(member("g", 4))
            await world.pass_time(3)
            assert len(bound(world, "g")) == 4
            assert racks_of(world, "g") == {rack}
            assert world.scheduler.queue.depths["unschedulable"] == 1
            world.cluster.put(node(f"{rack}n9", "2", labels=[(RACK, rack)]))
            await world.pass_time(3)
            assert len(bound(world, "g")) == 5

    asyncio.run(story())


def test_a_basic_group_places_what_fits():
    async def story():
        async with running(node("a", "2"), gang("g", 0), *members("g", 3)) as world:
            assert len(bound(world, "g")) == 2
            world.cluster.put(node("b", "1"))
            await world.pass_time(3)
            assert len(bound(world, "g")) == 3

    asyncio.run(story())


def test_a_deleted_member_gates_the_rest_again():
    async def story():
        async with running(node("a", "1"), gang("g", 2), *members("g", 2)) as world:
            assert world.scheduler.queue.depths["unschedulable"] == 2
            world.cluster.remove("Pod", "default/g-0")
            await world.calm()
            assert world.scheduler.queue.depths["gated"] == 1
            world.cluster.put(node("b", "4"))
            await world.pass_time(3)
            assert bound(world, "g") == set()
            world.cluster.put(member("g", 7))
            await world.pass_time(3)
            assert bound(world, "g") == {"default/g-1", "default/g-7"}

    asyncio.run(story())


def test_a_group_of_which_too_many_members_have_scheduling_gates_says_so_and_is_placed_without_them():
    async def story():
        gated = member("g", 2, schedulingGates=[{"name": "quota"}])
        async with running(node("a", "8"), gang("g", 3), *members("g", 2), gated) as world:
            await world.calm()
            (condition,) = world.cluster._objects["PodGroup"]["default/g"].status.conditions
            assert (condition.type, condition.status, condition.reason) == ("PodGroupScheduled", "False", "Unschedulable")
            assert condition.message.startswith(
                "0/1 placements are available, first placement status: pod group is unschedulable; 3 members"
            )
            written = {name: world.cluster.pod(f"default/{name}").status.conditions for name in ("g-0", "g-1", "g-2")}
            assert {name: [one.reason for one in found] for name, found in written.items()} == {
                "g-0": ["Unschedulable"],
                "g-1": ["Unschedulable"],
                "g-2": [],
            }
            attempts = len(world.seen.groups)
            world.cluster.put(node("b", "8"))
            await world.pass_time(20)
            assert len(world.seen.groups) == attempts  # nothing but a member helps
            world.cluster.put(member("g", 2))
            await world.pass_time(1)
            assert len(bound(world, "g")) == 3

    asyncio.run(story())


def test_a_member_that_another_scheduler_binds_counts_and_pins_the_rack():
    async def story():
        async with running(*racks(2, 2), gang("g", 3, RACK), *members("g", 2), member("g", 2, scheduler="theirs")) as world:
            assert "another schedulerName" in world.seen.groups[-1].message
            assert bound(world, "g") == set()
            world.cluster.put(member("g", 2, scheduler="theirs", nodeName="r1n1"))
            await world.pass_time(3)
            assert len(bound(world, "g")) == 3
            assert racks_of(world, "g") == {"r1"}

    asyncio.run(story())


def incomplete(world):
    return [(about, event.note) for about, event in world.cluster.events if event.action == "PreEnqueue"]


def test_members_that_wait_for_others_get_one_event_that_says_what_is_missing():
    async def story():
        async with running(node("a", "8"), gang("g", 3), member("g", 0), member("lost", 0)) as world:
            await world.pass_time(ROUND_SECONDS - 1)
            assert incomplete(world) == []
            await world.pass_time(2 * ROUND_SECONDS)
            found = [
                ("default/g-0", "group default/g: 1 of 3 members is there"),
                ("PodGroup default/g", "group default/g: 1 of 3 members is there"),
                ("default/lost-0", "group default/lost: there is no PodGroup of that name"),
            ]
            assert incomplete(world) == found
            world.cluster.put(member("g", 1))
            world.cluster.put(gang("lost", 2))
            await world.pass_time(4 * ROUND_SECONDS)
            assert sorted(incomplete(world)[3:]) == [
                ("PodGroup default/lost", "group default/lost: 1 of 2 members is there"),
                ("default/g-1", "group default/g: 2 of 3 members are there"),
                ("default/lost-0", "group default/lost: 1 of 2 members is there"),
            ]
            assert not any(of.status.conditions for of in world.cluster.pods())
            world.cluster.put(member("g", 2))
            await world.pass_time(3 * ROUND_SECONDS)
            assert len(bound(world, "g")) == 3
            assert len(incomplete(world)) == 6

    asyncio.run(story())


def test_a_large_group_is_told_in_few_steps():
    async def story():
        async with running(node("a"), gang("g", 2000), *members("g", 1200)) as world:
            await world.pass_time(2 * ROUND_SECONDS + 5)
            assert len(incomplete(world)) == 1201

    asyncio.run(story())


def test_only_the_leader_says_what_groups_wait_for():
    async def story():
        async with running(node("a", "8"), gang("g", 3), member("g", 0)) as world:
            world.office.is_leader = False
            await world.pass_time(3 * ROUND_SECONDS)
            assert incomplete(world) == []
            world.office.is_leader = True
            await world.pass_time(3 * ROUND_SECONDS)
            assert len(incomplete(world)) == 2

    asyncio.run(story())


def test_members_with_different_schedulers_are_not_placed_and_their_conditions_name_both():
    async def story():
        chains = {"wharfinger": assemble(), "other": assemble()}
        async with running(node("a", "8"), gang("g", 2), member("g", 0), member("g", 1, scheduler="other"), chains=chains) as world:
            await world.pass_time(3)
            text = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "other" and "wharfinger"'
            found = {(one.reason, one.message) for of in world.cluster.pods() for one in of.status.conditions}
            assert found == {("SchedulerError", text)}
            assert bound(world, "g") == set()

    asyncio.run(story())


def test_a_podgroup_that_is_deleted_gates_its_members_and_a_smaller_minimum_lets_them_in():
    async def story():
        async with running(node("a", "2"), gang("g", 3), *members("g", 2)) as world:
            world.cluster.remove("PodGroup", "default/g")
            await world.calm()
            assert {queued.gate.text for queued in world.scheduler.queue} == {
                'waiting for pods\'s pod group "g" to appear in scheduling queue'
            }
            world.cluster.put(gang("g", 2))
            await world.pass_time(1)
            assert len(bound(world, "g")) == 2

    asyncio.run(story())


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_a_member_that_fails_to_bind_is_tried_again_with_the_others(failing):
    """Members wait for each other, so a bind that fails leaves at most those that were sent at the same time."""
    failures = []

    def refuse(view, _node):
        if view.name == f"g-{failing}" and len(failures) < 2:
            failures.append(view.name)
            raise BindFailed("the API server does not answer")

    async def story():
        async with running(*racks(2, 2, "2"), gang("g", 4, RACK)) as world:
            world.cluster.before_bind = refuse
            for one in members("g", 4):
                world.cluster.put(one)
            await world.calm()
            assert failures
            await world.pass_time(6)
            assert len(failures) == 2
            assert len(bound(world, "g")) == 4
            assert len(racks_of(world, "g")) == 1
            keys = [key for key, _ in world.cluster.bindings]
            assert sorted(keys) == sorted(set(keys))

    asyncio.run(story())


def test_the_rest_of_a_group_is_tried_elsewhere_when_the_member_that_held_it_in_a_rack_is_gone():
    """The member that goes is small, so the room that it leaves helps no other member where it was."""

    async def story():
        there = member("g", 0, "1", nodeName="r0n0")
        async with running(*racks(2, 1, "4"), pod("other", "3", nodeName="r0n0"), gang("g", 1, RACK), there, member("g", 1, "3")) as world:
            await world.pass_time(1)
            assert bound(world, "g") == {"default/g-0"}
            world.cluster.remove("Pod", "default/g-0")
            await world.pass_time(3)
            assert racks_of(world, "g") == {"r1"}

    asyncio.run(story())


def test_late_members_go_to_the_rack_of_the_others_where_that_is_preferred():
    async def story():
        chains = {"wharfinger": assemble([policy('policy "p"\ngroup by pod.labels["gang"] { within preferred "rack" }')])}
        labels = {"gang": "g"}
        there = pod("g-0", "2", labels=labels, nodeName="r1n0")
        async with running(*racks(3, 2, "4"), there, pod("g-1", "1", labels=labels), chains=chains) as world:
            await world.pass_time(1)
            assert racks_of(world, "g") == {"r1"}

    asyncio.run(story())


def test_two_groups_that_need_the_same_nodes_do_not_block_each_other():
    async def story():
        things = [node("a", "4"), gang("g", 3), gang("h", 3)]
        mixed = [one for pair in zip(members("g", 3), members("h", 3), strict=True) for one in pair]
        async with running(*things, *mixed) as world:
            done = {name: len(bound(world, name)) for name in "gh"}
            assert sorted(done.values()) == [0, 3]
            first = max(done, key=done.get)
            for number in range(3):
                world.cluster.remove("Pod", f"default/{first}-{number}")
            await world.pass_time(3)
            assert len(bound(world, "h" if first == "g" else "g")) == 3

    asyncio.run(story())


def test_the_group_of_higher_priority_goes_first():
    async def story():
        async with running(gang("g", 2), gang("h", 2), *members("g", 2), *members("h", 2, priority=10)) as world:
            world.cluster.put(node("a", "2"))
            await world.pass_time(3)
            assert bound(world, "g") == set()
            assert len(bound(world, "h")) == 2

    asyncio.run(story())


def test_the_priority_of_a_podgroup_counts_more_than_that_of_its_pods():
    async def story():
        patient = members("h", 2, priority=10, preemptionPolicy="Never")
        async with running(gang("g", 2, priority=50), gang("h", 2), *members("g", 2), *patient) as world:
            world.cluster.put(node("a", "2"))
            await world.pass_time(3)
            assert bound(world, "h") == set()
            assert len(bound(world, "g")) == 2

    asyncio.run(story())


def test_after_a_restart_bound_members_count_and_pin_the_rack():
    async def story():
        there = [member("g", number, nodeName=f"r1n{number % 2}") for number in range(2)]
        async with running(*racks(3, 2, "2"), gang("g", 4, RACK), *there, member("g", 2), member("g", 3)) as world:
            assert len(bound(world, "g")) == 4
            assert racks_of(world, "g") == {"r1"}
            assert sorted(key for key, _ in world.cluster.bindings) == ["default/g-2", "default/g-3"]

    asyncio.run(story())


def test_the_podgroup_says_what_became_of_it():
    async def story():
        async with running(node("a", "3"), gang("g", 4, RACK), *members("g", 4)) as world:
            await world.calm()
            (condition,) = world.cluster._objects["PodGroup"]["default/g"].status.conditions
            assert (condition.type, condition.status, condition.reason) == ("PodGroupScheduled", "False", "Unschedulable")
            world.cluster.put(node("b", "4", labels=[(RACK, "r0")]))
            await world.pass_time(3)
            (condition,) = world.cluster._objects["PodGroup"]["default/g"].status.conditions
            assert (condition.type, condition.status, condition.reason) == ("PodGroupScheduled", "True", "Scheduled")
            assert [one.result for one in world.seen.groups] == ["unschedulable", "scheduled"]
            assert world.seen.groups[-1].domains == {RACK: "r0"}

    asyncio.run(story())


@pytest.fixture
def in_slices(monkeypatch):
    """Every step of a search is its own slice, on a copy of the state."""
    monkeypatch.setattr(group_search, "DIRECT_SEARCH_MEMBERS", 0)
    return SchedulerSettings(slice_seconds=0.0)


@pytest.mark.parametrize(("first", "others", "copied"), [(0.0, 0.0, False), (1.0, 0.0, False), (0.0, 1.0, True)])
def test_a_search_is_moved_to_a_copy_by_the_cpu_time_that_it_takes(first, others, copied, monkeypatch):
    """Other processes may take the machine for seconds between two steps, which does not make the search any longer.

    The first decision about a template takes as long on a copy.
    """
    searches = []
    in_steps = group_search.GroupSearch.in_steps

    def noted(*given):
        searches.append(given)
        return in_steps(*given)

    monkeypatch.setattr(group_search.GroupSearch, "in_steps", noted)
    elapsed, used = itertools.count(0.0, 0.1), [0.0]
    monkeypatch.setattr(ManualClock, "monotonic", lambda _: next(elapsed))
    settings = SchedulerSettings(budget=BudgetSettings(seconds=0, timer=lambda: sum(used)))

    def taking_time(*given, **more):
        steps = placing.placing(*given, **more)
        used.append(first)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            yield
            used.append(others)

    monkeypatch.setattr(group_search, "placing", taking_time)

    async def story():
        async with running(*racks(2, 2, "2"), gang("g", 4, RACK), settings=settings) as world:
            for one in members("g", 4):
                world.cluster.put(one)
            for _ in range(5):
                await world.calm()
            assert len(bound(world, "g")) == 4
            assert bool(searches) == copied

    asyncio.run(story())


def test_others_are_placed_while_a_long_search_goes_on(in_slices):
    async def story():
        async with running(*racks(4, 4, "4"), gang("g", 12, RACK), settings=in_slices) as world:
            for one in members("g", 12):
                world.cluster.put(one)
            await searching_begins(world)
            for number in range(12):
                world.cluster.put(pod(f"single-{number}"))
            await world.calm()
            await world.calm()
            results = [attempt.pod.name for attempt in world.seen.attempts if attempt.result == "scheduled"]
            assert len(results) == 24
            assert results.index("single-11") < min(map(results.index, (f"g-{number}" for number in range(12))))
            assert len(racks_of(world, "g")) == 1

    asyncio.run(story())


def test_room_taken_during_the_search_is_not_given_to_the_group(in_slices):
    """The group finds the one rack with room, and a pod takes a part of it while the search continues."""

    async def story():
        async with running(*racks(2, 2, "2"), gang("g", 4, RACK), settings=in_slices) as world:
            for one in members("g", 4):
                world.cluster.put(one)
            await searching_begins(world)
            for _ in range(3):
                await asyncio.sleep(0)
            world.cluster.put(pod("bound", "1", uid="elsewhere", nodeName="r0n0"))
            for _ in range(10):
                await world.calm()
            (rack,) = racks_of(world, "g")
            assert rack == "r1"
            used = {}
            for name in world.cluster.nodes_of_pods().values():
                used[name] = used.get(name, 0) + 1
            assert max(used.values()) <= 2

    asyncio.run(story())


def test_a_member_that_is_deleted_during_the_search_ends_it(in_slices):
    async def story():
        async with running(*racks(2, 2, "2"), gang("g", 3, RACK), settings=in_slices) as world:
            for one in members("g", 4):
                world.cluster.put(one)
            await searching_begins(world)
            world.cluster.remove("Pod", "default/g-0")
            for _ in range(5):
                await world.calm()
            assert bound(world, "g") == {"default/g-1", "default/g-2", "default/g-3"}
            assert world.seen.failures == []

    asyncio.run(story())


@pytest.mark.parametrize("turns", range(0, 48, 3))
@pytest.mark.parametrize("event", ["deleted", "lease"])
def test_changes_between_two_steps_of_an_attempt_leave_no_part_of_a_group(turns, event, in_slices, monkeypatch):
    """Each member is assumed, and its binding begun, in its own step; after some of them a member is deleted or the lease lost."""
    monkeypatch.setattr(group_search, "MEMBERS_PER_STEP", 1)
    monkeypatch.setattr(group_cycle, "MEMBERS_PER_STEP", 1)

    async def story():
        async with running(*racks(1, 2, "2"), gang("g", 4), settings=in_slices) as world:
            for one in members("g", 4):
                world.cluster.put(one)
            await searching_begins(world)
            for _ in range(turns):
                await asyncio.sleep(0)
            before = bound(world, "g")
            if event == "lease":
                world.office.is_leader = False
            else:
                world.cluster.remove("Pod", "default/g-3")
            await world.calm()
            after = bound(world, "g")
            assert before - {"default/g-3"} <= after
            assert event == "lease" or len(after) in {0, 3}
            assert {pod.key for pod, _ in world.scheduler.state.placements()} == after
            assert world.seen.failures == []
            assert after or not scheduled(world, "g")
            assert event == "deleted" or not any(DELETED in attempt.message for attempt in world.seen.attempts)
            world.office.is_leader = True
            if event == "deleted":
                world.cluster.put(member("g", 3))
            await world.pass_time(5)
            assert len(bound(world, "g")) == 4

    asyncio.run(story())


@pytest.mark.parametrize("turns", range(0, 30, 2))
@pytest.mark.parametrize("event", ["deleted", "refused"])
def test_a_pod_gets_the_place_that_a_group_gives_back_in_the_middle_of_an_attempt(turns, event, in_slices, monkeypatch):
    """The pod may have been rejected between two steps, while members were assumed on the only node."""
    monkeypatch.setattr(group_search, "MEMBERS_PER_STEP", 1)
    monkeypatch.setattr(group_cycle, "MEMBERS_PER_STEP", 1)
    refusing = Chain(entries=(*assemble().entries, ChainEntry(plugin=RefusesAll(), weight=None)))

    async def story():
        chains = {"wharfinger": refusing} if event == "refused" else None
        async with running(node("a", "4"), gang("g", 4), settings=in_slices, chains=chains) as world:
            for one in members("g", 4):
                world.cluster.put(one)
            await searching_begins(world)
            for _ in range(turns):
                await asyncio.sleep(0)
            world.cluster.put(pod("single"))
            if event == "deleted":
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                if bound(world, "g"):
                    return
                world.cluster.remove("Pod", "default/g-3")
            for _ in range(5):
                await world.calm()
            assert bound(world, "g") or "default/single" in world.cluster.nodes_of_pods()

    asyncio.run(story())


class RefusesAll(ReservePlugin):
    """Refuses to reserve places for members of groups."""

    name = "RefusesAll"

    def reserve(self, placement):
        return Reason("no licence") if placement.pod.name.startswith("g-") else None

    def unreserve(self, placement):
        pass


def test_a_group_that_is_given_back_while_its_bindings_begin_waits_for_a_backoff_and_is_not_called_scheduled(in_slices, monkeypatch):
    monkeypatch.setattr(group_cycle, "MEMBERS_PER_STEP", 2)
    refusing = Chain(entries=(*assemble().entries, ChainEntry(plugin=PermitsNone(), weight=None)))

    async def story():
        async with running(node("a", "8"), gang("g", 8), *members("g", 8), settings=in_slices, chains={"wharfinger": refusing}) as world:
            for _ in range(20):
                await world.calm()
            assert not scheduled(world, "g")
            (tried,) = world.seen.groups
            assert (tried.result, tried.message.endswith("could not be bound: not permitted")) == ("unschedulable", True)
            assert world.scheduler.queue.depths["backoff"] == 8
            assert list(world.scheduler.state.placements()) == []

    asyncio.run(story())


class PermitsNone(PermitPlugin):
    """Permits no member of a group."""

    name = "PermitsNone"

    def permit(self, placement, waiting):
        return Permission(approved=False, reason=Reason("not permitted"))


def test_groups_and_pods_without_a_group_take_turns_by_age():
    """Neither waits for all of the others: the first is tried first, and an unschedulable group stops no other."""

    async def story():
        async with running() as world:
            world.office.is_leader = False
            world.cluster.put(gang("big", 2))
            for one in members("big", 2, "100"):
                world.cluster.put(one)
            for turn in range(3):
                world.cluster.put(pod(f"early-{turn}"))
                world.clock.move(0.01)
                world.cluster.put(gang(f"g{turn}", 2))
                for one in members(f"g{turn}", 2):
                    world.cluster.put(one)
                world.clock.move(0.01)
            world.cluster.put(node("a", "16"))
            world.office.is_leader = True
            await world.pass_time(2)
            done = [attempt.group or attempt.pod.name for attempt in world.seen.attempts if attempt.result == "scheduled"]
            assert list(dict.fromkeys(done)) == [name for turn in range(3) for name in (f"early-{turn}", f"default/g{turn}")]
            assert len(done) == 9
            assert bound(world, "big") == set()

    asyncio.run(story())


def test_a_change_wakes_a_group_if_it_may_help_one_of_its_members_and_no_other_change_does():
    async def story():
        async with running(node("a", "4"), gang("g", 2), member("g", 0), member("g", 1, nodeSelector={"disk": "ssd"})) as world:
            tried = len(world.seen.groups)
            world.cluster.put(pod("single"))
            await world.pass_time(3)
            assert len(world.seen.groups) == tried
            world.cluster.put(node("c", "1", labels=[("disk", "ssd")]))
            await world.pass_time(3)
            assert len(bound(world, "g")) == 2

    asyncio.run(story())


def test_a_group_as_large_as_the_cluster_is_counted_by_its_members_everywhere():
    async def story():
        async with running(node("a", "4"), gang("g", 6), *members("g", 6), gang("h", 9), *members("h", 3)) as world:
            depths = world.scheduler.queue.depths
            assert (depths["unschedulable"], depths["gated"], depths["in_flight"]) == (6, 3, 0)
            assert len(world.scheduler.queue) == 9
            for number in range(6):
                world.cluster.remove("Pod", f"default/g-{number}")
            await world.calm()
            assert {entry.key for entry in world.scheduler.queue.groups} == {"default/h"}
            assert world.scheduler.queue.groups.get("default/g") is None

    asyncio.run(story())


def test_a_group_is_as_old_as_its_first_member():
    async def story():
        async with running() as world:
            world.office.is_leader = False
            world.cluster.put(gang("g", 2))
            world.cluster.put(member("g", 0))
            world.clock.move(1)
            world.cluster.put(pod("single"))
            world.clock.move(1)
            world.cluster.put(member("g", 1))
            world.cluster.put(node("a", "2"))
            world.office.is_leader = True
            await world.pass_time(1)
            assert set(world.cluster.nodes_of_pods()) == {"default/g-0", "default/g-1"}

    asyncio.run(story())


def test_a_lost_lease_gives_everything_back(in_slices):
    async def story():
        async with running(*racks(2, 2, "2"), gang("g", 4, RACK), settings=in_slices) as world:
            for one in members("g", 4):
                world.cluster.put(one)
            await searching_begins(world)
            world.office.is_leader = False
            await world.calm()
            assert not world.scheduler._group_cycle.busy
            assert list(world.scheduler.state.placements()) == []
            world.office.is_leader = True
            await world.pass_time(3)
            assert len(bound(world, "g")) == 4

    asyncio.run(story())


def test_a_pod_that_gets_another_label_leaves_its_group():
    async def story():
        label = {"scheduling.x-k8s.io/pod-group": "g"}
        crd = msgspec.convert({"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}}, objects.CoschedulingPodGroup)
        async with running(node("a", "4"), crd, pod("x", labels=label)) as world:
            assert world.scheduler.queue.depths["gated"] == 1
            world.cluster.put(pod("x"))
            await world.calm()
            assert set(world.cluster.nodes_of_pods()) == {"default/x"}

    asyncio.run(story())


APART = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}


@pytest.mark.parametrize("n_placed", [0, 3 * STEPS_IN_ORDER], ids=["many nodes", "many templates"])
def test_pods_wait_in_the_order_of_the_queue_while_a_search_pauses_after_little_work(n_placed):
    """The search for the first group pauses at each node, and at each few templates of placed pods that it counts.

    That there is no place is found by its model.
    """

    async def story():
        keys = [f"zone-{number}" for number in range(20)]
        labels = [(key, "z") for key in keys]
        spread = [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": key}}}
            for key in keys
        ]
        never = {"priority": 10, "preemptionPolicy": "Never", "topologySpreadConstraints": spread}
        first = members("first", 2, "1", affinity={"podAntiAffinity": APART}, **never)
        second = members("second", 2, "1", priority=5)
        full = [node(f"full-{number}", "0", labels=labels) for number in range(STEPS_IN_ORDER)]
        there = [
            pod(f"there-{number}", "0", nodeName=f"full-{number % STEPS_IN_ORDER}", priority=20 + number) for number in range(n_placed)
        ]
        things = [node("a", "2", labels=labels), *full, *there, gang("first", 2), gang("second", 2)]
        things += [*first, *second, pod("last", "1", priority=1)]
        settings = SchedulerSettings(slice_seconds=0.0, budget=BudgetSettings(seconds=0, timer=ticking(1.0)))
        async with running(*things, settings=settings) as world:
            for _ in range(100):
                await world.calm()
            assert [group.result for group in world.seen.groups] == ["unschedulable", "scheduled"]
            assert {key for key in world.cluster.nodes_of_pods() if "there" not in key} == {"default/second-0", "default/second-1"}

    asyncio.run(story())


@pytest.mark.parametrize("seconds", [0.0, 1.0], ids=["quick machine", "slow machine"])
def test_pods_wait_in_the_order_of_the_queue_while_a_group_is_found_to_have_no_place(seconds):
    async def story():
        low = pod("low", "1", priority=-1, nodeName="a")
        never = {"priority": 10, "preemptionPolicy": "Never"}
        first, second = members("first", 2, "4", **never), members("second", 2, "1", priority=5)
        things = [
            node("a", "3"),
            low,
            gang("first", 2),
            gang("second", 2),
            *first,
            *second,
            pod("last", "1", priority=1, preemptionPolicy="Never"),
        ]
        settings = SchedulerSettings(slice_seconds=0.0, budget=BudgetSettings(seconds=0, timer=ticking(seconds)))
        async with running(*things, settings=settings) as world:
            for _ in range(5):
                await world.calm()
            assert [group.result for group in world.seen.groups] == ["unschedulable", "scheduled"]
            assert world.cluster.nodes_of_pods().keys() == {"default/low", "default/second-0", "default/second-1"}

    asyncio.run(story())
