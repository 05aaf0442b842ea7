"""Until the watch shows a claim as it was written its devices stay taken, and a pod waits no longer than that."""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec import structs

from tests.bench import devices
from tests.unit.scheduler.running import node, running
from tests.unit.scheduler.test_groups_live import gang as group
from wharfinger.framework.ports import WriteFailed
from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations, with_allocation
from wharfinger.scheduler import status
from wharfinger.scheduler.binding.claims import WATCH_TIMEOUT
from wharfinger.scheduler.scheduler import SchedulerSettings

pytestmark = pytest.mark.anyio


class LateClaims:
    """A DeviceClaimWriter of a cluster in memory; its watch shows the writes when the test lets it."""

    def __init__(self, cluster):
        self._cluster = cluster
        self.unseen = []
        self.unreserved = []

    async def reserve(self, claim, pod, allocation):
        self.unseen.append(with_allocation(claim, allocation))
        return self.unseen[-1]

    async def unreserve(self, claim, _pod):
        self.unreserved.append(claim.metadata.name)

    def show(self):
        while self.unseen:
            self._cluster.put(self.unseen.pop())


def pod(name):
    plain = devices.pending(name, claims=True).object
    return structs.replace(plain, spec=structs.replace(plain.spec, scheduler_name="wharfinger"))


def held(world):
    return len(world.scheduler.state.objects.following(Allocations).of_pool(("gpu.example.com", "n00000")))


def things(*names):
    store = devices.cluster(1).objects
    slices_and_classes = [*store.all(objects.ResourceSlice), *store.all(objects.DeviceClass)]
    return [node("n00000", cpu="64"), *slices_and_classes, *(devices.claim(name, 1) for name in names)]


async def test_a_pod_is_bound_as_soon_as_its_claim_is_shown():
    async with running(*things("p"), claims=LateClaims) as world:
        world.cluster.put(pod("p"))
        await world.calm()
        assert (held(world), world.cluster.nodes_of_pods()) == (1, {})
        world.claims.show()
        await world.calm()  # and no time passes
        assert (held(world), world.cluster.nodes_of_pods()) == (1, {"default/p": "n00000"})
        assert not world.scheduler._binding.claims._awaited


@pytest.mark.parametrize(("served", "made"), [({"example.com/gpu": "4"}, []), ({}, ["<extended-resources>"])])
async def test_no_claim_is_made_for_extended_resources_that_the_node_serves_itself(served, made):
    class Making(LateClaims):
        async def create(self, claim):
            created.append(claim.metadata.name)
            return structs.replace(claim, metadata=structs.replace(claim.metadata, name="made", uid="made"))

        async def note_extended(self, *_):
            pass

    created = []
    *others, gpu_class, claim = things("p")
    backing = structs.replace(gpu_class, spec=structs.replace(gpu_class.spec, extended_resource_name="example.com/gpu"))
    status = objects.NodeStatus(allocatable={"cpu": "64", "memory": "64Gi", "pods": "110", **served})
    asking = pod("p")
    container = structs.replace(asking.spec.containers[0], resources=objects.ContainerResources(requests={"example.com/gpu": "1"}))
    async with running(*others, backing, claim, structs.replace(node("n00000"), status=status), claims=Making) as world:
        world.cluster.put(structs.replace(asking, spec=structs.replace(asking.spec, containers=(container,))))
        for _ in range(2):
            await world.calm()
            world.claims.show()
        await world.calm()
        assert (created, world.cluster.nodes_of_pods()) == (made, {"default/p": "n00000"})


async def test_claims_are_written_within_the_limit_of_bindings():
    under_way, most, release = [], [], asyncio.Event()

    class SlowClaims(LateClaims):
        async def reserve(self, claim, pod, allocation):
            under_way.append(claim.metadata.name)
            most.append(len(under_way))
            await release.wait()
            under_way.remove(claim.metadata.name)
            return await super().reserve(claim, pod, allocation)

    names = [f"p{number}" for number in range(6)]
    big = structs.replace(node("n00000"), status=objects.NodeStatus(allocatable={"cpu": "64", "memory": "64Gi", "pods": "110"}))
    async with running(*things(*names), big, claims=SlowClaims, settings=SchedulerSettings(max_binds=2)) as world:
        for name in names:
            world.cluster.put(pod(name))
        await world.pass_time(3)
        assert (len(under_way), held(world)) == (2, 6)  # all are decided, and their devices taken
        release.set()
        for _ in names:
            await world.calm()
            world.claims.show()
        assert sorted(world.cluster.nodes_of_pods()) == [f"default/{name}" for name in names]
    assert max(most) == 2


async def test_a_device_that_is_written_and_not_shown_stays_taken_when_the_pod_is_not_bound():
    async with running(*things("p"), claims=LateClaims) as world:
        world.cluster.put(pod("p"))
        await world.calm()
        unseen = list(world.claims.unseen)
        world.cluster.remove("Pod", "default/p")
        await world.pass_time(WATCH_TIMEOUT + 1)
        assert world.claims.unreserved == ["p-gpu"]
        assert held(world) == 1
        world.cluster.put(unseen[0])
        await world.calm()
        assert held(world) == 1
        assert list(world.scheduler.state.objects.following(Allocations).all_in_flight()) == []


async def test_a_claim_that_cannot_be_given_back_does_not_keep_the_others():
    class Stubborn(LateClaims):
        async def unreserve(self, claim, pod):
            if claim.metadata.name == "p-gpu":
                raise WriteFailed("busy")
            await super().unreserve(claim, pod)

    asking = pod("p")
    two = tuple(objects.PodResourceClaim(name=name, resource_claim_name=f"{name}-gpu") for name in ("p", "q"))
    async with running(*things("p", "q"), claims=Stubborn) as world:
        world.cluster.put(structs.replace(asking, spec=structs.replace(asking.spec, resource_claims=two)))
        await world.calm()
        world.claims.show()  # then the second is written
        await world.calm()
        world.cluster.remove("Pod", "default/p")
        await world.pass_time(WATCH_TIMEOUT + 1)
        assert world.claims.unreserved == ["q-gpu"]
        assert "giving devices back" in dict(world.seen.failures)


@pytest.mark.parametrize("names", ["p", "pq"], ids=["the only claim", "the second of two"])
async def test_a_pod_whose_devices_cannot_be_taken_is_tried_again_and_not_lost(monkeypatch, names):
    def choke(claim, allocation):
        if claim.metadata.name == f"{names[-1]}-gpu":
            raise KeyError("a pool that is gone")
        take(claim, allocation)

    asking = pod("p")
    claimed = tuple(objects.PodResourceClaim(name=name, resource_claim_name=f"{name}-gpu") for name in names)
    async with running(*things(*names), claims=LateClaims) as world:
        take = world.scheduler.state.reserve_devices
        monkeypatch.setattr(world.scheduler.state, "reserve_devices", choke)
        world.cluster.put(structs.replace(asking, spec=structs.replace(asking.spec, resource_claims=claimed)))
        await world.calm()
        assert not world.scheduler.state.is_placed("p")
        assert held(world) == 0
        monkeypatch.undo()
        await world.pass_time(4)
        for _ in names:
            world.claims.show()
            await world.calm()
        assert world.cluster.nodes_of_pods() == {"default/p": "n00000"}


async def test_a_pod_gets_the_devices_of_one_that_was_deleted_before_its_claim_was_written():
    release = asyncio.Event()

    class LateRefusal(LateClaims):
        async def reserve(self, claim, pod, allocation):
            if pod.name == "p":
                await release.wait()
                raise WriteFailed("the claim is gone", gone=True)
            return await super().reserve(claim, pod, allocation)

    whole_node = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 8}}]}
    *others, _ = things("p")
    async with running(*others, *(devices.claim_of(name, whole_node) for name in "pq"), claims=LateRefusal) as world:
        for name in "pq":
            world.cluster.put(pod(name))
            await world.calm()
        world.cluster.remove("Pod", "default/p")
        await world.calm()
        assert held(world) == 8
        release.set()
        await world.pass_time(15)
        world.claims.show()
        await world.calm()
        assert world.cluster.nodes_of_pods() == {"default/q": "n00000"}


async def test_members_of_a_group_share_a_claim_that_is_not_written_yet():
    shared = (objects.PodResourceClaim(name="gpu", resource_claim_name="p-gpu"),)
    gang = objects.PodSchedulingGroup(pod_group_name="g")
    views = [pod(f"g-{number}") for number in range(2)]
    members = [structs.replace(each, spec=structs.replace(each.spec, resource_claims=shared, scheduling_group=gang)) for each in views]
    async with running(*things("p"), group("g", 2), claims=LateClaims) as world:
        for each in members:
            world.cluster.put(each)
        await world.calm()
        assert held(world) == 1
        for _ in members:
            world.claims.show()
            await world.calm()
        assert set(world.cluster.nodes_of_pods()) == {"default/g-0", "default/g-1"}
        assert list(world.scheduler.state.objects.following(Allocations).all_in_flight()) == []
        assert held(world) == 1


async def test_a_pod_of_no_group_waits_until_a_claim_that_it_shares_is_written():
    async with running(*things("p"), claims=LateClaims) as world:
        world.cluster.put(pod("p"))
        await world.calm()
        other = pod("q")
        shared = (objects.PodResourceClaim(name="gpu", resource_claim_name="p-gpu"),)
        world.cluster.put(structs.replace(other, spec=structs.replace(other.spec, resource_claims=shared)))
        await world.calm()
        assert not world.scheduler.state.is_placed("q")
        for _ in range(2):
            world.claims.show()
            await world.pass_time(2)
        assert set(world.cluster.nodes_of_pods()) == {"default/p", "default/q"}


class PreparedDevices(LateClaims):
    """Claims whose devices a driver has to prepare; the watch shows at once what is written."""

    async def reserve(self, claim, pod, allocation):
        self._cluster.put(claim if allocation is None else with_allocation(claim, allocation))
        return self._now()

    def _now(self):
        return self._cluster._objects["ResourceClaim"]["default/p-gpu"]

    async def deallocate(self, claim):
        self._cluster.put(structs.replace(claim, status=objects.ResourceClaimStatus()))

    def report(self, kind, **more):
        claim = self._now()
        (result,) = claim.status.allocation.devices.results
        condition = objects.DeviceCondition(type=kind, status="True", **more)
        device = objects.AllocatedDeviceStatus(driver=result.driver, pool=result.pool, device=result.device, conditions=(condition,))
        self._cluster.put(structs.replace(claim, status=structs.replace(claim.status, devices=(device,))))


def to_be_prepared():
    nodes, slices, *others = things("p")
    named = [structs.replace(each, binding_conditions=("ready",), binding_failure_conditions=("failed",)) for each in slices.spec.devices]
    return [nodes, structs.replace(slices, spec=structs.replace(slices.spec, devices=tuple(named))), *others]


async def test_a_pod_is_bound_when_the_driver_has_prepared_its_device():
    async with running(*to_be_prepared(), claims=PreparedDevices) as world:
        world.cluster.put(pod("p"))
        await world.pass_time(5)
        assert world.cluster.nodes_of_pods() == {}
        assert [each for each in world.cluster.events if each[1].reason == "BindingConditionsPending"] == [
            ("default/p", status.waiting_for_devices("n00000"))
        ]
        world.claims.report("ready")
        await world.calm()
        assert world.cluster.nodes_of_pods() == {"default/p": "n00000"}


@pytest.mark.parametrize("seconds", [0.0, -86_400.0, 86_400.0], ids=["the time of day goes on", "it is put back", "it is put forward"])
async def test_a_pod_waits_for_its_device_until_the_timeout(seconds):
    class Timed(PreparedDevices):
        async def reserve(self, claim, pod, allocation):
            at = datetime.fromtimestamp(1_700_000_000.0, UTC)  # as the API server has it: whole seconds of the time of day
            return await super().reserve(claim, pod, allocation and structs.replace(allocation, allocation_timestamp=at))

    async with running(*to_be_prepared(), claims=Timed) as world:
        world.cluster.put(pod("p"))
        await world.calm()
        world.clock.jump(seconds)
        await world.pass_time(590, step=10.0)
        assert not [event for _, event in world.cluster.events if event.reason == "FailedScheduling"]
        await world.pass_time(30, step=10.0)
        failures = [event.note for _, event in world.cluster.events if event.reason == "FailedScheduling"]
        assert failures[:1] == ["DynamicResources: device binding timeout: claim=p-gpu"]


async def test_a_device_that_cannot_be_prepared_is_named_and_given_back():
    async with running(*to_be_prepared(), claims=PreparedDevices) as world:
        world.cluster.put(pod("p"))
        await world.calm()
        world.claims.report("failed", reason="Broken", message="link is down")
        await world.calm()
        failures = [event.note for _, event in world.cluster.events if event.reason == "FailedScheduling"]
        assert failures == ['DynamicResources: device binding failed: claim=p-gpu, reason=Broken, message="link is down"']
        await world.pass_time(15)
        world.claims.report("ready")
        await world.calm()
        assert world.cluster.nodes_of_pods() == {"default/p": "n00000"}
