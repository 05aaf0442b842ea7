"""A thousand reloads leak no memory."""

import asyncio
import gc
import time

from tests.unit.policies.stores import Scheduling, World, policy, story
from tests.unit.scheduler.running import node, pod, running
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.policies.shadow import Shadows
from wharfinger.scheduler.events import Decided

KINDS = (CompiledPolicy, Chain, Decider)
RELOADS = 1000


def alive():
    gc.collect()
    found = gc.get_objects()
    return {kind.__name__: sum(type(obj) is kind for obj in found) for kind in KINDS}, len(found)


@story
async def test_a_thousand_reloads_leave_nothing_behind():
    things = [node("a", labels={"pool": "a"}), pod("stuck", nodeSelector={"pool": "none"})]
    async with running(*things) as cluster:
        shadows = Shadows(cluster.clock)
        cluster.subscribers.subscribe({Decided: lambda event: shadows.compare(event.profile, event.decision)})
        scheduling = Scheduling()

        def adopt(active):
            cluster.scheduler.adopt(active.chains)
            shadows.adopt(active)

        scheduling.adopt = adopt
        world = World(scheduling=scheduling)
        counted = []
        for reload in range(RELOADS):
            broken = reload % 5 == 4
            await world.offer({"a.policy": policy("a", "" if broken else str(reload), test="x" if broken else None)})
            await cluster.pass_time(1)
            world.seen.tried.clear()
            world.seen.held.clear()
            cluster.seen.queues.clear()
            cluster.seen.attempts.clear()
            cluster.cluster.events.clear()
            if reload in {200, RELOADS - 1}:
                await asyncio.to_thread(time.sleep, 0.05)  # the build thread forgets its last function after it has returned the result
                counted.append(alive())
        (kinds_early, all_early), (kinds_late, all_late) = counted
        assert kinds_early == kinds_late
        assert all_late - all_early < (RELOADS - 200) / 2, "not one object in two reloads"


CAPTURES = """policy "a" version "{}.0.0"
let here = count(pods where it.labels["team"] == pod.labels["team"], within: "zone")
filter few {{ require here < 50 and count(devices where it.driver == "gpu.example.com", on: node) == 0 on missing reject }}
score emptier = node.free.cpu normalize max
test "goes there" {{
  node big {{ memory: 8Gi, labels: {{"zone": "a"}} }}
  pod web {{ requests: {{ memory: 1Gi }} }}
  place web
  expect web on big
}}
"""


@story
async def test_a_policy_is_freed_when_it_is_replaced_and_not_at_the_next_collection():
    """What has no cycles needs no collection, and a full one stops the scheduler for as long as it has objects."""
    async with running(node("a", cpu="64", labels={"zone": "a"}), pod("stuck", nodeSelector={"zone": "none"})) as cluster:
        scheduling = Scheduling()
        scheduling.adopt = lambda active: cluster.scheduler.adopt(active.chains)
        world = World(scheduling=scheduling)

        async def reload(edition):
            await world.offer({"a.policy": CAPTURES.format(edition)})
            assert [policy.version for chain in world.store.active.chains.values() for policy in chain.policies] == [f"{edition}.0.0"]
            cluster.cluster.put(pod(f"p{edition}"))
            await cluster.pass_time(1)
            assert f"default/p{edition}" in dict(cluster.cluster.bindings)

        for edition in range(3):
            await reload(edition)
        gc.collect()
        gc.disable()
        try:
            for edition in range(3, 8):
                await reload(edition)
            await asyncio.to_thread(time.sleep, 0.05)  # the build thread forgets its last function after it has returned the result
            assert gc.collect() == 0
        finally:
            gc.enable()
