"""A run that writes nothing decides as if it had, about each pod once, while the cluster stays as it is."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from tests.in_memory import InMemoryCluster, ManualClock
from tests.unit.scheduler.running import MOUNT, Watching, claim, node, pod, storage_class, volume
from wharfinger.daemon.compose import read_only_ports
from wharfinger.framework.chain import assemble
from wharfinger.scheduler.scheduler import Scheduler


class DryRun:
    def __init__(self):
        self.cluster, self.clock, self.seen = InMemoryCluster(), ManualClock(), Watching()
        scheduler_ports = read_only_ports(self.clock, self.seen.emit)
        self.scheduler = Scheduler({"wharfinger": assemble()}, scheduler_ports.ports)
        self.sink = scheduler_ports.sink(self.scheduler.sink)

    async def calm(self):
        for _ in range(60):
            await asyncio.sleep(0)

    async def pass_time(self, seconds):
        for _ in range(round(seconds)):
            self.clock.move(1)
            await self.calm()

    def tried(self, result):
        return [attempt.pod.name for attempt in self.seen.attempts if attempt.result == result]

    def pods_on(self, name):
        snapshot = self.scheduler.state.snapshot()
        return {placed.name for placed in snapshot.pods_on(snapshot.row(name))}


@asynccontextmanager
async def dry_run(*things):
    run = DryRun()
    for thing in things:
        run.cluster.put(thing)
    run.cluster.connect(run.sink)
    task = asyncio.create_task(run.scheduler.run())
    try:
        await run.calm()
        yield run
        assert not run.cluster.bindings
        assert not run.cluster.events
        assert run.cluster.n_patches == 0
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def story(test):
    return lambda: asyncio.run(test())


@story
async def test_each_pod_is_decided_once_and_counts_from_then_on():
    async with dry_run(node("a", cpu="2"), *(pod(f"p{i}") for i in range(3))) as run:
        await run.pass_time(700)

        assert sorted(run.tried("scheduled")) == ["p0", "p1"]
        assert set(run.tried("unschedulable")) == {"p2"}


@story
async def test_a_place_is_free_again_when_the_pod_is_deleted():
    async with dry_run(node("a", cpu="1"), pod("first")) as run:
        run.cluster.put(pod("second"))
        await run.calm()
        run.cluster.remove("Pod", "default/first")
        await run.pass_time(15)

        assert run.tried("scheduled") == ["first", "second"]


@story
async def test_a_list_from_scratch_changes_nothing():
    async with dry_run(node("a"), pod("x"), pod("y", priority=5)) as run:
        run.cluster.connect(run.sink)
        await run.pass_time(30)

        assert sorted(run.tried("scheduled")) == ["x", "y"]


@story
async def test_a_pod_that_another_scheduler_binds_meanwhile_is_where_it_is():
    async with dry_run(node("a", labels={"best": "yes"}.items()), node("b"), pod("x", nodeSelector={"best": "yes"})) as run:
        assert run.pods_on("a") == {"x"}
        run.cluster.put(pod("x", nodeName="b"))
        await run.calm()

        assert (run.pods_on("a"), run.pods_on("b")) == (set(), {"x"})


@story
async def test_victims_are_taken_to_be_gone_whatever_the_watch_says_of_them():
    victim = pod("low", cpu="2", nodeName="a")
    async with dry_run(node("a", cpu="2"), victim, pod("high", cpu="2", priority=100)) as run:
        await run.pass_time(20)
        run.cluster.put(replace(victim, metadata=replace(victim.metadata, labels={"changed": "yes"})))
        run.cluster.connect(run.sink)
        await run.pass_time(60)

        assert run.tried("scheduled") == ["high"]
        assert run.seen.preemptions == [("default/high", "a", 1)]
        assert run.pods_on("a") == {"high"}
        assert run.cluster.pod("default/low").spec.node_name == "a"


@story
async def test_a_victim_that_is_deleted_and_made_anew_is_a_pod_like_any_other():
    async with dry_run(node("a", cpu="2"), pod("low", cpu="2", nodeName="a"), pod("high", cpu="2", priority=100)) as run:
        await run.pass_time(5)
        run.cluster.remove("Pod", "default/low")
        run.cluster.put(pod("low", uid="another"))
        await run.pass_time(5)

        assert "low" in run.tried("unschedulable")


STORAGE = {
    "a volume to be made": (storage_class("csi"),),
    "a volume that is there": (storage_class("kubernetes.io/no-provisioner"), volume()),
}


@pytest.mark.parametrize("storage", STORAGE.values(), ids=STORAGE)
def test_a_claim_is_taken_to_have_its_volume_by_all_who_use_it(storage):
    async def run_it():
        async with dry_run(node("a"), *storage, claim(), pod("x", **MOUNT)) as run:
            await run.pass_time(2)
            run.cluster.put(replace(claim(), metadata=replace(claim().metadata, labels={"changed": "yes"})))
            run.cluster.connect(run.sink)
            run.cluster.put(pod("y", **MOUNT))
            await run.pass_time(2)

            assert run.tried("scheduled") == ["x", "y"]
            assert run.cluster._objects["PersistentVolumeClaim"]["default/claim"].spec.volume_name == ""

    asyncio.run(run_it())
