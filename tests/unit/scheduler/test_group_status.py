"""Conditions and events of groups: written once, the newest last, and only by the leader."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.in_memory import InMemoryCluster, ManualClock
from tests.unit.groups.test_membership import LABEL, gang, pod, podgroup
from tests.unit.model import clusters
from wharfinger.framework.ports import AlwaysLeader, Reference, WriteFailed
from wharfinger.groups.membership import GroupIndex
from wharfinger.model import objects
from wharfinger.scheduler.ports import LiveCluster, Ports
from wharfinger.scheduler.status import GroupStatus

KEY = "default/train"
WHY = "4 members must be placed at once; the cluster takes 3"
FULL = f"0/1 placements are available, first placement status: pod group is unschedulable; {WHY}"


class World:
    """A cluster with one PodGroup and two members."""

    def __init__(self, group=None, member=None, leads=True, binding=False):
        self.cluster = InMemoryCluster()
        self.state = clusters.state(["n1", "n2"])
        self.put(group or podgroup(spec=gang(2)))
        self.failures = []
        office = AlwaysLeader()
        office.is_leader = leads
        ports = Ports(
            binder=self.cluster,
            writer=self.cluster,
            events=self.cluster,
            clock=ManualClock(),
            leadership=office,
            groups=self.cluster,
            emit=self.failures.append,
        )
        self.clock = ports.clock
        self.binding = binding
        self.status = GroupStatus(LiveCluster(state=self.state, ports=ports), limit=3, binding=lambda: self.binding)
        self.index = GroupIndex(self.state.objects)
        for name in ("a", "b"):
            self.index.put(member(name) if member else pod(name, "train"))

    def put(self, obj):
        self.cluster.put(obj)
        self.state.put(self.cluster._objects[objects.kind_of(obj)][objects.key_of(obj)])

    @property
    def group(self):
        return self.index.group(KEY)

    @property
    def written(self):
        found = self.cluster._objects["PodGroup"].get(KEY)
        return [(each.type, each.status, each.reason, each.message) for each in found.status.conditions]

    @property
    def reported(self):
        return [(about, event.type, event.reason, event.note) for about, event in self.cluster.events]


def test_a_group_without_a_feasible_node_says_so_once_and_is_placed_later():
    async def scenario():
        world = World()
        assert world.status.unschedulable(world.group, WHY) == FULL
        world.status.unschedulable(world.group, WHY)
        await world.status.drain()
        assert world.written == [("PodGroupScheduled", "False", "Unschedulable", FULL)]
        assert world.cluster.n_patches == 1
        world.status.scheduled(world.group, ["n1", "n1", "n2"], {"rack": "r7"})
        world.status.unschedulable(world.group, WHY)
        await world.status.drain()
        assert world.written == [("PodGroupScheduled", "True", "Scheduled", "")]
        assert ("PodGroup default/train", "Normal", "Scheduled", "Placed 3 pods on 2 nodes, rack r7") in world.reported
        assert ("PodGroup default/train", "Warning", "FailedScheduling", FULL) in world.reported

    asyncio.run(scenario())


def test_conditions_wait_behind_bindings_but_not_for_long():
    async def scenario():
        world = World(binding=True)
        names = [f"g{number}" for number in range(9)]
        for name in names:
            group = podgroup(name, spec=gang(1))
            world.put(replace(group, metadata=replace(group.metadata, uid=name)))
            world.index.put(pod(f"{name}-a", name))
        open_ = asyncio.Event()
        at_a_time = []
        patch = world.cluster.patch_condition

        async def slow(group, condition):
            at_a_time.append(len(world.status._writes._under_way))
            await open_.wait()
            open_.clear()
            await patch(group, condition)

        world.cluster.patch_condition = slow
        for name in names:
            world.status.scheduled(world.index.group(f"default/{name}"), ["n1"])
        for _ in range(3):
            open_.set()
            await asyncio.sleep(0.01)
        assert set(at_a_time) == {1}
        world.clock.move(5.0)
        open_.set()
        await asyncio.sleep(0.01)
        assert max(at_a_time) == 3
        world.binding = False
        while len(world.status):
            open_.set()
            await asyncio.sleep(0)
        assert world.cluster.n_patches == 9

    asyncio.run(scenario())


def test_preemption_and_errors_have_words_of_their_own():
    async def scenario():
        world = World()
        world.status.waits_for_preemption(world.group)
        await world.status.drain()
        message = "pod group is unschedulable, pod group is waiting for preemption to complete"
        assert world.written == [("PodGroupScheduled", "False", "Unschedulable", message)]
        world.status.failed(world.group, RuntimeError("broken"))
        await world.status.drain()
        assert world.written == [("PodGroupScheduled", "False", "SchedulerError", "broken")]
        world.status.disrupted(world.group, "wharfinger", Reference(kind="Pod", name="big", namespace="default", uid="u"))
        await world.status.drain()
        message = "wharfinger: preempting to accommodate a higher priority pod"
        assert world.written[-1] == ("DisruptionTarget", "True", "PreemptionByScheduler", message)
        assert world.reported[-1][1:] == ("Normal", "Preempted", "Preempted by pod u")

    asyncio.run(scenario())


@pytest.mark.parametrize("leads", [True, False])
def test_only_the_leader_writes(leads):
    async def scenario():
        world = World(leads=leads)
        world.status.unschedulable(world.group, WHY)
        await world.status.drain()
        assert bool(world.written) == bool(world.reported) == leads

    asyncio.run(scenario())


def test_a_podgroup_of_the_coscheduling_plugin_gets_events_alone():
    async def scenario():
        group = podgroup(spec={"minMember": 2}, kind=objects.CoschedulingPodGroup)
        world = World(group, lambda name: pod(name, **{LABEL: "train"}))
        world.status.unschedulable(world.group, WHY)
        await world.status.drain()
        assert world.cluster.n_patches == 0
        assert world.status.reference(KEY).api_version == "scheduling.x-k8s.io/v1alpha1"
        assert world.reported == [("PodGroup default/train", "Warning", "FailedScheduling", FULL)]

    asyncio.run(scenario())


def test_a_podgroup_that_is_made_again_gets_no_condition_of_the_former_one():
    async def scenario():
        world = World()
        world.status.unschedulable(world.group, WHY)
        world.status.scheduled(world.group, ["n1", "n2"])  # waits for the other
        group = podgroup(spec=gang(2))
        world.cluster.remove("PodGroup", KEY)
        world.put(replace(group, metadata=replace(group.metadata, uid="another")))
        await world.status.drain()
        assert world.written == []
        world.status.scheduled(world.group, ["n1", "n2"])
        await world.status.drain()
        assert world.written == [("PodGroupScheduled", "True", "Scheduled", "")]

    asyncio.run(scenario())


@pytest.mark.parametrize("cancelled", [False, True])
def test_conditions_not_written_for_lack_of_the_lease_are_written_later(cancelled):
    async def scenario():
        world = World()
        world.status.scheduled(world.group, ["n1", "n2"])
        office = world.status._ports.leadership
        office.is_leader = False
        if cancelled:
            world.status.cancel()
        await world.status.drain()
        assert (world.written, len(world.status)) == ([], 0)
        office.is_leader = True
        world.status.scheduled(world.group, ["n1", "n2"])
        await world.status.drain()
        assert world.written == [("PodGroupScheduled", "True", "Scheduled", "")]

    asyncio.run(scenario())


def test_failed_writes_are_reported_and_repeated():
    async def scenario():
        world = World()
        patch = world.cluster.patch_condition

        async def fails(_group, _condition):
            raise WriteFailed("the server is busy")

        world.cluster.patch_condition = fails
        world.status.unschedulable(world.group, WHY)
        await world.status.drain()
        assert [failure.where for failure in world.failures] == ["status of PodGroup default/train"]
        world.cluster.patch_condition = patch
        world.status.unschedulable(world.group, WHY)
        await world.status.drain()
        assert world.written

    asyncio.run(scenario())
