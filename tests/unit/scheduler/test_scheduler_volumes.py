"""Volumes of pods in a running scheduler: reservation, provisioning and the wait for it."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.scheduler.running import MOUNT, claim, node, pod, running, storage_class, volume
from wharfinger.framework.chain import assemble
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.ports import WriteFailed
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
            assert not world.scheduler._binding._volumes._reservations

    asyncio.run(story())
