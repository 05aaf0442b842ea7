"""A drain ends as it says: a scheduler in memory carries out its steps, and every pod is where the plan says."""

from __future__ import annotations

import asyncio

import pytest

from tests.property.predictions.drains import drain_problems
from tests.property.predictions.drawn_cluster import drawn, load
from tests.property.predictions.world import BACKOFF

EARLY = (28, 48, 89, 127, 131, 143, 144, 153, 193)
"""Clusters in which it matters that a replacement is there before the pod is gone."""
PREEMPTING = (31, 78, 110, 244, 337)
"""Clusters in which it matters, if all have priorities, that victims of preemption count on their nodes while other pods are tried."""
TIMED = (1034, 5034, 7027)
"""Clusters in which it matters that no change wakes a pod which a rule about a metric has rejected."""
GUARDED = (4083, 6091)
"""Clusters in which it matters, if all have priorities and budgets, which pods leave for a group, and which are unhealthy."""
GANGS = (8032, 8212, 8269, 8285, 22005, 42114)
"""Clusters in which it matters, if all have gangs, metrics and priorities, when a group is tried again, and which pods are marked."""
PRIORITIES = ("priorities", "preemption")


def test_a_drain_ends_also_if_victims_of_preemption_come_back_again_and_again(tmp_path):
    one = drawn(2222, always=("priorities", "preemption", "budgets"))
    plan, _ = asyncio.run(drain_problems(one, load(tmp_path, one), 0.0, order=2222 % 7))
    assert plan.pods


@pytest.mark.parametrize("pause", [0.0, 2 * BACKOFF], ids=["in backoff", "after the backoffs"])
@pytest.mark.parametrize(
    ("seeds", "always"),
    [
        pytest.param(EARLY, (), id="replaced early"),
        pytest.param(PREEMPTING, PRIORITIES, id="preempting"),
        pytest.param(TIMED, (), id="timed"),
        pytest.param(GUARDED, (*PRIORITIES, "budgets"), id="guarded"),
        pytest.param(GANGS, (*PRIORITIES, "gangs", "metrics"), id="gangs"),
        pytest.param(range(40, 80), (), id="drawn"),
    ],
)
def test_every_pod_is_where_the_plan_says(tmp_path, seeds, always, pause):
    placed = 0
    for seed in seeds:
        one = drawn(seed, always=always)
        plan, problems = asyncio.run(drain_problems(one, load(tmp_path, one), pause, order=seed % 7))
        assert not problems, (seed, problems)
        placed += sum(pod.node is not None for pod in plan.pods)
    assert placed
