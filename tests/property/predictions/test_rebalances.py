"""Each move of a plan ends as it says: a scheduler in memory places the pod that is created again, and no pod is left pending."""

from __future__ import annotations

import asyncio

import pytest

from tests.property.predictions.drawn_cluster import drawn, load
from tests.property.predictions.rebalances import rebalance_problems
from tests.property.predictions.world import BACKOFF

EARLY = (1063, 1100)
"""Clusters in which it matters that a replacement is there before the pod is gone."""
GROUPS = (1237,)
"""A cluster in which a member of a group would move while others of the group wait."""


@pytest.mark.parametrize("seeds", [EARLY, GROUPS, range(1000, 1030)], ids=["replaced early", "groups", "drawn"])
def test_every_move_ends_as_planned(tmp_path, seeds):
    moves = 0
    for seed in seeds:
        one = drawn(seed, always=("counting", "preferred"))
        pause = 2 * BACKOFF if seed % 2 else 0.0
        plan, problems = asyncio.run(rebalance_problems(one, load(tmp_path, one), pause))
        assert not problems, (seed, problems)
        moves += len(plan.moves)
    assert moves or seeds == GROUPS
