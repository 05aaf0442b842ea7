"""The scheduler places groups as a dry run predicts: random clusters, with members and running pods of several priorities.

While victims leave, a scheduler goes on with other pods, and a dry run does not. So pods may be evicted either for one group, or for none.
"""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.unit.scheduler.running import Running, node, pod, scheduling, ticking
from tests.unit.scheduler.test_groups_live import RACK, gang, member
from wharfinger.framework.chain import assemble
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.policies.budget import BudgetSettings
from wharfinger.scheduler.scheduler import SchedulerSettings
from wharfinger.simulate.dry_run import dry_run

PRIORITIES = (0, 2, 4, 9)


def scene(draw, *, may_evict):
    """(nodes, running pods, groups, new pods)"""
    nodes = [node(f"n{number}", str(draw.randint(2, 5)), labels=[(RACK, draw.choice("xy"))]) for number in range(draw.randint(2, 5))]
    there, new, groups = [], [], []
    for each in nodes:
        free = int(each.status.allocatable["cpu"])
        while free > 0 and draw.random() < 0.8:
            cpu = draw.randint(1, min(2, free))
            there.append(pod(f"run-{len(there)}", str(cpu), priority=draw.choice((0, 0, 1, 5)), nodeName=each.metadata.name))
            free -= cpu
    more = {} if may_evict else {"preemptionPolicy": "Never"}
    for group in ("g",) if may_evict else ("g", "h", "i")[: draw.randint(1, 3)]:
        size = draw.randint(2, 4)
        groups.append(gang(group, size - draw.randint(0, 1), *([RACK] if draw.random() < 0.3 else [])))
        new += [member(group, number, str(draw.randint(1, 2)), priority=draw.choice(PRIORITIES), **more) for number in range(size)]
    if not may_evict:
        new += [pod(f"alone-{number}", str(draw.randint(1, 2)), priority=draw.choice(PRIORITIES), **more) for number in range(2)]
    return nodes, _in_order(there, 0), groups, _in_order(new, 1)


def _in_order(pods, hour):
    """The pods, each created a second after the one before."""
    first = datetime(2023, 1, 1, hour, tzinfo=UTC)
    moments = [first + timedelta(seconds=number) for number in range(len(pods))]
    return [replace(one, metadata=replace(one.metadata, creation_timestamp=at)) for one, at in zip(pods, moments, strict=True)]


def predicted(nodes, there, groups, new):
    state = ClusterState()
    for each in nodes:
        state.add_node(each)
    for each in groups:
        state.put(each)
    for each in there:
        state.add_pod(PodView(each))
    run = dry_run(assemble(), state, [PodView(each) for each in new])
    end = state.snapshot()
    placed = {PodView(each).key: end.placed(PodView(each).uid) for each in (*there, *new)}
    return {key: end.names[found[0]] for key, found in placed.items() if found is not None}, run.evicted


QUICK = SchedulerSettings()
SLOW = SchedulerSettings(slice_seconds=0.0, budget=BudgetSettings(seconds=0, timer=ticking(1.0)))


async def done(nodes, there, groups, new, settings):
    world = Running(settings=settings)
    for each in (*nodes, *there, *groups):
        world.cluster.put(each)
    async with scheduling(world):
        world.cluster.lagging = True  # all new pods are in the queue before the first of them is tried
        for each in new:
            world.cluster.put(each)
        world.cluster.catch_up()
        world.cluster.lagging = False
        await world.pass_time(60)
        return world.cluster.nodes_of_pods()


@pytest.mark.parametrize("settings", [QUICK, SLOW], ids=["quick machine", "slow machine"])
@pytest.mark.parametrize("may_evict", [True, False])
def test_groups_of_several_priorities_are_placed_and_evict_as_predicted(may_evict, settings):
    evictions = 0
    for seed in range(40):
        drawn = scene(random.Random(seed), may_evict=may_evict)
        expected, evicted = predicted(*drawn)
        assert asyncio.run(done(*drawn, settings)) == expected, seed
        evictions += evicted
    assert (evictions > 0) == may_evict
