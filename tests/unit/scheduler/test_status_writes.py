"""Statuses of pods: what could not be written is written by a later attempt, and a stop ends every write."""

import asyncio

import pytest

from tests.in_memory import InMemoryCluster
from tests.unit.scheduler.running import Office, view
from wharfinger.framework.ports import WriteFailed
from wharfinger.scheduler.status import UNSCHEDULABLE, StatusWrites, unscheduled

pytestmark = pytest.mark.anyio

FULL = unscheduled(UNSCHEDULABLE, "no room")


class World:
    """One pod in a cluster, and the writes of its status."""

    def __init__(self, limit=1):
        self.cluster, self.office, self.failures = InMemoryCluster(), Office(), []
        self.pods = [view(name) for name in ("x", "y")]
        for pod in self.pods:
            self.cluster.put(pod.object)
        self.writes = StatusWrites(self.cluster, self.office, self.failures.append, limit)

    @property
    def written(self):
        return [each.message for pod in self.pods for each in self.cluster.pod(pod.key).status.conditions]


async def test_a_condition_that_was_not_written_without_the_lease_is_written_with_it():
    world = World()
    (pod, _), world.office.is_leader = world.pods, False
    assert world.writes.write(pod, FULL)
    await world.writes.drain()
    assert world.written == []
    world.office.is_leader = True
    assert world.writes.write(pod, FULL)
    await world.writes.drain()
    assert world.written == ["no room"]


@pytest.mark.parametrize(
    ("error", "reported"), [(WriteFailed("busy"), 1), (WriteFailed("no such pod", gone=True), 0), (KeyError("a writer at fault"), 1)]
)
async def test_a_write_that_fails_is_reported_and_made_again_by_the_next_attempt(error, reported):
    async def fails(*_, **__):
        raise error

    world = World()
    world.cluster.patch_status, patch = fails, world.cluster.patch_status
    pod, other = world.pods
    world.writes.write(pod, FULL)
    world.writes.write(other, FULL)
    await world.writes.drain()
    assert (len(world.failures), len(world.writes)) == (2 * reported, 0)
    world.cluster.patch_status = patch
    assert world.writes.write(pod, FULL)
    await world.writes.drain()
    assert world.written == ["no room"]


async def test_writes_that_are_cancelled_before_they_begin_end_and_are_made_later():
    world = World()
    for pod in world.pods:
        world.writes.write(pod, FULL)
    world.writes.cancel()  # before the event loop has run
    async with asyncio.timeout(5):
        await world.writes.drain()
    assert (len(world.writes), world.written) == (0, [])
    for pod in world.pods:
        assert world.writes.write(pod, FULL)
    await world.writes.drain()
    assert world.written == ["no room", "no room"]


async def test_a_write_that_a_binding_dropped_is_made_if_the_binding_fails():
    world = World()
    pod, other = world.pods
    world.writes.write(other, FULL)  # takes the only place, so the next one waits
    world.writes.write(pod, FULL)
    await world.writes.finish(pod.uid)
    assert world.writes.write(pod, FULL)
    await world.writes.drain()
    assert world.written == ["no room", "no room"]


async def test_the_newest_of_several_waiting_writes_is_sent_with_the_nomination_of_another():
    world = World()
    pod, other = world.pods
    world.writes.write(other, FULL)
    world.writes.write(pod, FULL, "n1")
    world.writes.write(pod, unscheduled(UNSCHEDULABLE, "less room"))
    await world.writes.drain()
    status = world.cluster.pod(pod.key).status
    assert ([each.message for each in status.conditions], status.nominated_node_name) == (["less room"], "n1")
    assert world.cluster.n_patches == 2
