"""Volumes of pods in a running scheduler: reservation, provisioning and the wait for it."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest
from msgspec.structs import replace

from tests.in_memory import InMemoryCluster
from tests.unit.scheduler.running import MOUNT, Running, claim, node, pod, running, scheduling, storage_class, volume
from wharfinger.framework.chain import assemble
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.cluster_event import ClusterEvent
from wharfinger.framework.extension import ReservePlugin
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.ports import WriteFailed
from wharfinger.framework.prepared import Reason
from wharfinger.framework.registry import default_registry
from wharfinger.model import objects
from wharfinger.scheduler.queued_pods import MAX_CHANGES


def the_claim(world):
    return world.cluster._objects["PersistentVolumeClaim"]["default/claim"]


def finish(world, volume_name):
    """Does the work of the volume controllers of the cluster."""
    there = the_claim(world)
    world.cluster.put(msgspec.convert({"metadata": {"name": volume_name}}, objects.PersistentVolume))
    annotations = {**there.metadata.annotations, "pv.kubernetes.io/bind-completed": "yes"}
    bound = replace(there, metadata=replace(there.metadata, annotations=annotations), spec=replace(there.spec, volume_name=volume_name))
    world.cluster.put(bound)


def test_the_node_is_written_for_the_provisioner_and_the_volume_awaited():
    async def story():
        async with running(node("a"), storage_class("csi"), claim(), pod("x", **MOUNT)) as world:
            assert the_claim(world).metadata.annotations["volume.kubernetes.io/selected-node"] == "a"
            await world.pass_time(30)
            assert world.cluster.nodes_of_pods() == {}
            assert world.scheduler.state.is_assumed("uid-x")
            finish(world, "made")
            await world.pass_time(1)
            assert world.cluster.nodes_of_pods() == {"default/x": "a"}

    asyncio.run(story())


def test_a_volume_that_is_there_is_reserved():
    async def story():
        async with running(node("a"), storage_class("kubernetes.io/no-provisioner"), claim(), volume(), pod("x", **MOUNT)) as world:
            reserved = world.cluster._objects["PersistentVolume"]["disk"].spec.claim_ref
            assert (reserved.namespace, reserved.name, reserved.uid) == ("default", "claim", "c")
            finish(world, "disk")
            await world.pass_time(1)
            assert world.cluster.nodes_of_pods() == {"default/x": "a"}

    asyncio.run(story())


def test_a_scheduler_without_volume_writes_reports_claims():
    async def story():
        async with running(node("a"), storage_class("csi"), claim(), pod("x", **MOUNT), volumes=False) as world:
            assert "not supported here (claims claim)" in world.cluster.pod("default/x").status.conditions[0].message
            assert world.scheduler.state.snapshot().pod_count[0] == 0

    asyncio.run(story())


def test_volumes_on_a_node_that_is_removed_are_not_waited_for():
    async def story():
        async with running(node("a"), storage_class("csi"), claim(), pod("x", **MOUNT)) as world:
            await world.pass_time(1, step=0.25)
            world.cluster.remove("Node", "a")
            await world.pass_time(1, step=0.25)
            assert "node a was removed before the pod's volumes were bound" in str(world.seen.failures)
            assert list(world.scheduler.state.placements()) == []

    asyncio.run(story())


def test_a_provisioner_that_takes_the_node_away_is_not_waited_for():
    async def story():
        async with running(node("a"), storage_class("csi"), claim(), pod("x", **MOUNT)) as world:
            await world.pass_time(1, step=0.25)
            there = the_claim(world)
            world.cluster.put(replace(there, metadata=replace(there.metadata, annotations={})))
            await world.pass_time(1, step=0.25)
            assert 'provisioning failed for PVC "claim"' in world.cluster.pod("default/x").status.conditions[0].message

    asyncio.run(story())


@pytest.mark.parametrize(("arguments", "seconds"), [({}, 600), ({"bindTimeoutSeconds": 20}, 20)])
def test_volumes_that_never_come_do_not_hold_the_place_for_ever(arguments, seconds):
    chains = {"wharfinger": assemble(config=ChainConfig(arguments={"VolumeBinding": arguments}))}

    async def story():
        async with running(node("a"), storage_class("csi"), claim(), pod("x", **MOUNT), chains=chains) as world:
            await world.pass_time(seconds - 1, step=0.25)
            assert world.scheduler.state.is_assumed("uid-x")
            await world.pass_time(2, step=0.25)
            assert "timed out" in world.cluster.pod("default/x").status.conditions[0].message

    asyncio.run(story())


@pytest.mark.parametrize("waiting", [3])
def test_pods_that_wait_for_volumes_leave_the_room_to_others(waiting):
    async def story():
        async with running(node("a", cpu="100"), storage_class("csi"), claim()) as world:
            world.scheduler._binding._limit = 1
            for index in range(waiting):
                world.cluster.put(pod(f"slow-{index}", **MOUNT))
            world.cluster.put(pod("quick"))
            await world.calm()
            assert set(world.cluster.nodes_of_pods()) == {"default/quick"}

    asyncio.run(story())


def test_changes_that_happen_while_a_volume_is_awaited_are_kept_within_bounds():
    """A provisioner may take ten minutes, in which a large cluster changes a hundred thousand times."""

    async def story():
        async with running(node("a"), storage_class("csi"), claim(), pod("x", **MOUNT)) as world:
            for number in range(2 * MAX_CHANGES):
                world.cluster.put(node("b", labels={"n": str(number)}))
            await world.calm()
            assert world.scheduler.state.is_assumed("uid-x")
            assert 0 < world.scheduler.queue._in_flight.n_changes <= MAX_CHANGES
            finish(world, "made")
            await world.pass_time(1)
            assert world.cluster.nodes_of_pods() == {"default/x": "a"}
            assert world.scheduler.queue._in_flight.n_changes == 0

    asyncio.run(story())


@pytest.mark.parametrize("refused", [False, True])
def test_pods_that_share_a_claim_reserve_its_volume_once(refused):
    """A second write would be refused, because the volume is not what it was; what is refused is tried again."""

    async def story():
        disk = (storage_class("kubernetes.io/no-provisioner"), claim(), volume())
        async with running(node("a"), *disk) as world:
            answered, reserve, writes = asyncio.Event(), world.cluster.reserve_volume, []

            async def slow(*written):
                writes.append(written)
                await answered.wait()
                if refused and len(writes) == 1:
                    raise WriteFailed("the server is busy")
                await reserve(*written)

            world.cluster.reserve_volume = slow
            for name in "xyz":
                world.cluster.put(pod(name, **MOUNT))
                await world.calm()
            assert len(writes) == 1
            world.cluster.remove("Pod", "default/x")
            await world.calm()
            answered.set()
            await world.calm()
            await world.pass_time(3)
            finish(world, "disk")
            await world.pass_time(3)
            assert world.cluster.nodes_of_pods() == {"default/y": "a", "default/z": "a"}
            assert len(writes) == 1 + refused
            assert [where[-1] for where, _ in world.seen.failures] == ["x", *("yz" if refused else "")]
            assert not world.scheduler._binding.volumes._assumed

    asyncio.run(story())


# ── volumes of pods that are being bound ──


def own(name, size="1Gi"):
    spec = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    metadata = {"name": name, "namespace": "default", "uid": f"c-{name}"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, objects.PersistentVolumeClaim)


def disk(name, on=None, size="2Gi"):
    made = replace(volume(), metadata=objects.ObjectMeta(name=name))
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}]
    reached = None if on is None else msgspec.convert({"required": {"nodeSelectorTerms": terms}}, objects.VolumeNodeAffinity)
    return replace(made, spec=replace(made.spec, node_affinity=reached, capacity={"storage": size}))


def mounting(name, *claims, **more):
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims or (name,)]
    return pod(name, volumes=volumes, **more)


def bind_all(world):
    """Does the work of the volume controllers for every reserved volume."""
    for each in list(world.cluster._objects["PersistentVolume"].values()):
        if each.spec.claim_ref is not None and each.status.phase == "Available":
            there = world.cluster._objects["PersistentVolumeClaim"][f"default/{each.spec.claim_ref.name}"]
            world.cluster.put(volume_claims.bound_to(there, each))
            world.cluster.put(replace(each, status=replace(each.status, phase="Bound")))


def holders(world):
    found = world.cluster._objects["PersistentVolume"].values()
    return {each.metadata.name: each.spec.claim_ref and each.spec.claim_ref.name for each in found}


@asynccontextmanager
async def decided_in_one_go(*things, **more):
    """A world in which every pod is decided before any write ends; `answered` lets the writes end."""
    world = Running(**more)
    answered, reserve, annotate = asyncio.Event(), world.cluster.reserve_volume, world.cluster.annotate_claim

    def slowly(write):
        async def written(*what):
            await answered.wait()
            await write(*what)

        return written

    world.cluster.reserve_volume, world.cluster.annotate_claim = slowly(reserve), slowly(annotate)
    for thing in things:
        world.cluster.put(thing)
    async with scheduling(world):
        yield world, answered


PLACES = {
    "anywhere": lambda number: None,
    "two disks on each node": lambda number: f"n{number // 2}",
}


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("grouped", [False, True])
def test_pods_that_are_decided_in_one_go_get_different_volumes(where, grouped):
    names = [f"p{number}" for number in range(6)]
    scheduling_group = {"schedulingGroup": {"podGroupName": "g"}} if grouped else {}
    group = msgspec.convert(
        {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 6}}}}, objects.PodGroup
    )

    async def story():
        things = [
            *(node(f"n{number}", cpu="100") for number in range(3)),
            storage_class("kubernetes.io/no-provisioner"),
            *map(own, names),
            *(disk(f"d{number}", where(number)) for number in range(6)),
            *([group] if grouped else []),
            *(mounting(name, **scheduling_group) for name in names),
        ]
        async with decided_in_one_go(*things) as (world, answered):
            await world.pass_time(1)
            assert all(world.scheduler.state.is_assumed(f"uid-{name}") for name in names)
            answered.set()
            await world.calm()
            assert sorted(map(str, holders(world).values())) == names
            bind_all(world)
            await world.pass_time(2)
            assert set(world.cluster.nodes_of_pods()) == {f"default/{name}" for name in names}
            assert world.seen.failures == []
            assert [event.reason for _, event in world.cluster.events if event.reason == "FailedScheduling"] == []
            assert not world.scheduler._binding.volumes._assumed
            assert not world.scheduler._binding.volumes._of_pod

    asyncio.run(story())


def test_a_group_is_not_placed_with_a_volume_too_few():
    group = msgspec.convert(
        {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}, objects.PodGroup
    )

    async def story():
        things = [node("a", cpu="100"), storage_class("kubernetes.io/no-provisioner"), *map(own, "xyz"), disk("d"), disk("e"), group]
        pods = [mounting(name, schedulingGroup={"podGroupName": "g"}) for name in "xyz"]
        async with running(*things, *pods) as world:
            await world.pass_time(1)
            assert holders(world) == {"d": None, "e": None}
            assert list(world.scheduler.state.placements()) == []
            assert not world.scheduler._binding.volumes._assumed
            world.cluster.put(disk("f"))
            await world.pass_time(30)
            assert sorted(map(str, holders(world).values())) == ["x", "y", "z"]

    asyncio.run(story())


def test_a_volume_is_free_again_when_its_pod_is_deleted_before_the_write():
    async def story():
        things = [node("a"), storage_class("kubernetes.io/no-provisioner"), own("x"), own("y"), disk("d")]
        async with decided_in_one_go(*things, mounting("x")) as (world, answered):
            world.cluster.put(mounting("y"))
            await world.calm()
            assert "didn't find available persistent volumes" in world.cluster.pod("default/y").status.conditions[0].message
            world.cluster.reserve_volume = InMemoryCluster.reserve_volume.__get__(world.cluster)
            world.cluster.remove("Pod", "default/x")
            await world.pass_time(1)
            assert not world.scheduler.state.is_assumed("uid-y")  # the write for x is under way, and may still arrive
            world.cluster.put(replace(world.cluster._objects["PersistentVolume"]["d"]))  # the write will be refused
            answered.set()
            await world.pass_time(15)
            assert holders(world) == {"d": "y"}
            assert world.scheduler.state.is_assumed("uid-y")

    asyncio.run(story())


def test_what_is_assumed_is_taken_back_with_the_placement():
    class Refusing(ReservePlugin):
        name = "Refusing"
        wakes_on = ClusterEvent.POD_REMOVED

        def reserve(self, placement):
            return Reason("no") if placement.pod.name == "x" else None

        def unreserve(self, placement):
            """Nothing was reserved."""

    chains = {"wharfinger": assemble(registry={**default_registry(), "Refusing": Refusing})}

    async def story():
        things = [node("a"), storage_class("kubernetes.io/no-provisioner"), own("x"), own("y"), disk("d")]
        async with running(*things, mounting("x", priority=1), mounting("y"), chains=chains) as world:
            assert holders(world) == {"d": "y"}
            assert world.scheduler.state.is_assumed("uid-y")

    asyncio.run(story())


def test_an_event_replaces_what_is_assumed():
    async def story():
        things = [node("a"), storage_class("kubernetes.io/no-provisioner"), own("x"), disk("d"), disk("e", size="3Gi")]
        async with decided_in_one_go(*things, mounting("x")) as (world, answered):
            store = world.scheduler.state.objects
            assert store.get(objects.PersistentVolume, "d").spec.claim_ref.name == "x"
            taken = world.cluster._objects["PersistentVolume"]["d"]
            other = objects.ObjectReference(kind="PersistentVolumeClaim", namespace="default", name="other", uid="o")
            world.cluster.put(replace(taken, spec=replace(taken.spec, claim_ref=other)))
            await world.calm()
            assert store.get(objects.PersistentVolume, "d").spec.claim_ref.name == "other"
            answered.set()
            await world.pass_time(5)  # the write is refused, and the pod is tried again
            assert holders(world) == {"d": "other", "e": "x"}
            assert world.scheduler.state.is_assumed("uid-x")

    asyncio.run(story())


def test_pods_that_share_a_claim_to_be_provisioned_go_to_one_node_at_once():
    async def story():
        things = [node("a", cpu="1"), node("b", cpu="4"), storage_class("csi"), own("shared")]
        pods = [mounting(name, "shared", cpu="100m") for name in "xyz"]
        async with decided_in_one_go(*things, *pods) as (world, answered):
            chosen = {placed.node_name for placed, _ in world.scheduler.state.placements()}
            assert len(chosen) == 1
            world.cluster.remove("Pod", "default/x")
            answered.set()
            await world.pass_time(1)
            (written,) = world.cluster._objects["PersistentVolumeClaim"].values()
            assert {written.metadata.annotations["volume.kubernetes.io/selected-node"]} == chosen
            assert [where for where, _ in world.seen.failures] == ["pod default/x"]  # which was deleted

    asyncio.run(story())


def test_a_claim_is_not_annotated_where_its_volume_is_gone():
    async def story():
        things = [node("a"), storage_class("kubernetes.io/no-provisioner"), own("x"), own("w", size="1Mi"), disk("d"), disk("e")]
        async with decided_in_one_go(*things, mounting("x", "w", "x")) as (world, answered):
            world.cluster.remove("PersistentVolume", "e")
            answered.set()
            await world.pass_time(1)
            assert 'no volume is free any more for claim "x" on node a' in str(world.seen.failures)

    asyncio.run(story())
