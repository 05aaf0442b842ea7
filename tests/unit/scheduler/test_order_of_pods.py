"""Pods are decided in the order of the queue, as in a dry run, also if one of them first reads many placed pods in steps."""

import asyncio

import pytest

from tests.unit.scheduler.running import node, pod, running, ticking
from wharfinger.policies.budget import BudgetSettings
from wharfinger.scheduler.cycle import ALWAYS_IN_ORDER
from wharfinger.scheduler.scheduler import SchedulerSettings

FEW, MANY = ALWAYS_IN_ORDER - 64, ALWAYS_IN_ORDER + 64
NODES = 16


MAX_KEYS = 10
LABELS = {f"zone-{number}": "z" for number in range(MAX_KEYS)}


def spread_over(n_keys):
    """Constraints of which each counts other pods."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": f"zone-{number}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": f"none-{number}"}},
        }
        for number in range(n_keys)
    ]


@pytest.mark.parametrize(
    ("n_placed", "n_keys", "placed"),
    [(MANY, 1, "default/first"), (MANY, MAX_KEYS, "default/second"), (FEW, MAX_KEYS, "default/first")],
    ids=["few steps", "many steps", "as many on a small cluster"],
)
@pytest.mark.parametrize("seconds", [0.0, 1.0], ids=["quick machine", "slow machine"])
def test_a_pod_waits_for_the_pod_before_it_unless_that_takes_many_steps(n_placed, n_keys, seconds, placed):
    """Each placed pod has a template of its own. The first pod reads all of them; the second has a template that is known."""

    async def story():
        there = [node(f"n{i}", cpu="1", labels=LABELS) for i in range(NODES)]
        there += [pod(f"there-{i}", cpu="1m", nodeName=f"n{i % NODES}", labels={"app": f"a{i}"}) for i in range(n_placed)]
        settings = SchedulerSettings(slice_seconds=0.0, budget=BudgetSettings(timer=ticking(seconds)))
        async with running(node("a", cpu="3", labels=LABELS), *there, settings=settings) as world:
            world.cluster.put(pod("known", cpu="2"))
            for _ in range(20):
                await world.calm()
            world.cluster.remove("Pod", "default/known")
            world.cluster.put(pod("first", cpu="2", priority=10, topologySpreadConstraints=spread_over(n_keys), preemptionPolicy="Never"))
            world.cluster.put(pod("second", cpu="2"))
            for _ in range(20):  # a step in each turn of the event loop
                await world.calm()
            assert {key for key in world.cluster.nodes_of_pods() if "there" not in key} == {placed}

    asyncio.run(story())
