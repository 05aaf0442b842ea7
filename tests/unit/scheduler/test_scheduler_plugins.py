"""The extension points in a running scheduler, from permit to bind."""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.unit.scheduler.running import node, pod, running
from tests.unit.simulate.clusters import policy
from wharfinger.framework.chain import Chain, ChainEntry, assemble
from wharfinger.framework.extension import BindPlugin, Permission, PermitPlugin, PostBindPlugin, PreBindPlugin, ReservePlugin
from wharfinger.framework.prepared import Reason

LABELLED = """
policy "zones"
filter zoned { require (node.labels["zone"] ?? "-") == "east" else "is elsewhere" }
"""
SPARSE = """
policy "sparse"
filter few { require count(pods where (it.labels["app"] ?? "-") == "web", on: node) < 1 else "has one" }
"""


class Ledger(ReservePlugin, PreBindPlugin, PostBindPlugin):
    name = "Ledger"

    def __init__(self, refuse_at=""):
        super().__init__()
        self.refuse_at = refuse_at
        self.entries = []

    def reserve(self, placement):
        self.entries.append("reserve")
        if self.refuse_at == "raise":
            raise RuntimeError("broken")
        return Reason("ledger is full") if self.refuse_at == "reserve" else None

    def unreserve(self, placement):
        self.entries.append("unreserve")

    async def pre_bind(self, placement):
        self.entries.append("pre_bind")
        return Reason("not now") if self.refuse_at == "pre_bind" else None

    async def post_bind(self, placement):
        self.entries.append("post_bind")


class Elsewhere(BindPlugin, PreBindPlugin):
    """Binds by itself; the lease is lost while it prepares."""

    name = "Elsewhere"

    def __init__(self):
        super().__init__()
        self.office, self.bound = None, []

    async def pre_bind(self, placement):
        self.office.is_leader = False

    async def bind(self, placement):
        self.bound.append(placement.pod.key)
        return True


class Pairs(PermitPlugin):
    name = "Pairs"

    def permit(self, placement, waiting):
        return Permission(approved=bool(waiting), wait_seconds=20)


def chain_with(plugin):
    built_in = assemble()
    return {"wharfinger": Chain(entries=(*built_in.entries, ChainEntry(plugin=plugin, weight=None)))}


def test_the_points_run_in_order():
    async def story():
        ledger = Ledger()
        async with running(node("a"), pod("x"), chains=chain_with(ledger)) as world:
            assert world.cluster.nodes_of_pods() == {"default/x": "a"}
            assert ledger.entries == ["reserve", "pre_bind", "post_bind"]

    asyncio.run(story())


def test_bind_plugins_are_not_called_after_the_loss_of_the_lease():
    async def story():
        plugin = Elsewhere()
        async with running(node("a"), chains=chain_with(plugin)) as world:
            plugin.office = world.office
            world.cluster.put(pod("x"))
            await world.calm()
            assert not plugin.office.is_leader
            assert plugin.bound == []

    asyncio.run(story())


def test_a_plugin_that_refuses_gives_everything_back():
    async def story(refuse_at, reason, text):
        ledger = Ledger(refuse_at)
        async with running(node("a"), pod("x"), chains=chain_with(ledger)) as world:
            assert world.cluster.nodes_of_pods() == {}
            assert ledger.entries[-1] == "unreserve"
            assert not world.scheduler.state.is_placed("uid-x")
            condition = world.cluster.pod("default/x").status.conditions[0]
            assert (condition.reason, condition.message) == (reason, text)
            ledger.refuse_at = ""
            world.cluster.put(node("b"))
            await world.pass_time(5)
            assert set(world.cluster.nodes_of_pods()) == {"default/x"}

    asyncio.run(story("reserve", "Unschedulable", "ledger is full"))
    asyncio.run(story("pre_bind", "SchedulerError", "Ledger: not now"))
    asyncio.run(story("raise", "SchedulerError", "plugin Ledger failed in reserve: RuntimeError: broken"))


def test_a_pair_is_bound_together():
    async def story():
        async with running(node("a"), pod("one"), chains=chain_with(Pairs())) as world:
            await world.pass_time(5)
            assert world.cluster.nodes_of_pods() == {}
            world.cluster.put(pod("two"))
            await world.calm()
            assert len(world.cluster.nodes_of_pods()) == 2

    asyncio.run(story())


def test_a_permit_that_takes_too_long_rejects_the_pod():
    async def story():
        async with running(node("a"), pod("one"), chains=chain_with(Pairs())) as world:
            await world.pass_time(21)
            message = world.cluster.pod("default/one").status.conditions[0].message
            assert message == 'pod "one" rejected due to timeout after waiting at plugin "Pairs"'
            assert not world.scheduler.state.is_placed("uid-one")

    asyncio.run(story())


def test_a_victim_that_waited_for_permission_is_placed_again_and_does_not_count_as_leaving():
    async def story():
        async with running(node("a", cpu="1"), pod("one"), chains=chain_with(Pairs())) as world:
            await world.pass_time(5)
            world.cluster.put(pod("high", priority=100))
            await world.pass_time(5)
            assert world.scheduler.state.is_placed("uid-high")
            world.cluster.put(node("b", cpu="1"))
            await world.pass_time(5)
            assert world.cluster.nodes_of_pods() == {"default/high": "a", "default/one": "b"}
            assert not world.scheduler.state.snapshot().evicted

    asyncio.run(story())


def test_a_pod_rejected_by_a_policy_is_woken_by_the_label_it_reads_and_by_no_other():
    async def story():
        chains = {"wharfinger": assemble([policy(LABELLED)])}
        async with running(node("a"), pod("x"), chains=chains) as world:
            assert "is elsewhere" in world.cluster.pod("default/x").status.conditions[0].message
            await world.pass_time(5)
            world.cluster.put(node("a", labels={"rack": "7"}))
            world.cluster.put(pod("stranger", scheduler="else", nodeName="a"))
            await world.pass_time(5)
            assert [attempt.result for attempt in world.seen.attempts] == ["unschedulable"]
            world.cluster.put(node("a", labels={"zone": "east"}))
            await world.calm()
            assert world.cluster.nodes_of_pods()["default/x"] == "a"
            assert ("active", "NodeUpdate") in world.seen.queues

    asyncio.run(story())


def test_a_pod_rejected_for_other_pods_is_woken_when_they_leave():
    async def story():
        chains = {"wharfinger": assemble([policy(SPARSE)])}
        there = pod("there", scheduler="else", nodeName="a", labels={"app": "web"})
        async with running(node("a"), there, pod("x"), chains=chains) as world:
            await world.pass_time(5)
            world.cluster.put(node("a", labels={"rack": "7"}))
            await world.pass_time(3)
            assert len(world.seen.attempts) == 1
            world.cluster.remove("Pod", "default/there")
            await world.pass_time(2)
            assert world.cluster.nodes_of_pods() == {"default/x": "a"}

    asyncio.run(story())


def test_each_profile_decides_with_its_own_chain():
    async def story():
        chains = {"wharfinger": assemble(), "zoned": assemble([policy(LABELLED)])}
        things = [node("a"), node("b", labels={"zone": "east"}), *(pod(f"p{index}", scheduler="zoned") for index in range(3))]
        async with running(*things, pod("free"), chains=chains) as world:
            placed = world.cluster.nodes_of_pods()
            assert {placed[f"default/p{index}"] for index in range(3)} == {"b"}
            assert {attempt.profile for attempt in world.seen.attempts} == {"wharfinger", "zoned"}

    asyncio.run(story())


@pytest.mark.parametrize("graceful", [False, True])
def test_a_pod_that_is_deleted_while_it_waits_for_permission_waits_no_more_and_does_not_count(graceful):
    async def story():
        async with running(node("a"), pod("one"), chains=chain_with(Pairs())) as world:
            assert world.scheduler.n_binding == 1
            if graceful:
                one = world.cluster.pod("default/one")
                deleted = replace(one.metadata, deletion_timestamp=datetime.fromtimestamp(0, UTC))
                world.cluster.put(replace(one, metadata=deleted))
            else:
                world.cluster.remove("Pod", "default/one")
            await world.calm()
            assert (world.scheduler.n_binding, len(world.scheduler.queue)) == (0, 0)
            assert not world.scheduler.state.is_placed("uid-one")
            world.cluster.put(pod("two"))
            await world.calm()
            assert world.cluster.nodes_of_pods() == {}  # it waits for another

    asyncio.run(story())
