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
