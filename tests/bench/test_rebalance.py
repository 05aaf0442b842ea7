"""Plans on small cuts of OpenB, compared with the optimum of any placement."""

from functools import partial

import pytest

from tests.bench.rebalance import compared, small
from wharfinger.what_if.rebalance.plan import Goal

CUTS = {Goal.FREE_NODES: ((6, 1), (6, 2), (6, 3)), Goal.FREE_GPUS: ((4, 4), (5, 3), (6, 4))}
"""The number of nodes and the seed of each cut, by goal; one of those for GPUs needs a chain of moves of which none gains alone."""

LEAVING = 0.4
"""The part of the pods that leave each cut before the plan."""


@pytest.mark.parametrize("goal", CUTS)
def test_plans_gain_nearly_as_much_on_small_clusters_as_can_be(goal):
    found = [compared("default", goal, partial(small, "default", seed, n_nodes, LEAVING)) for n_nodes, seed in CUTS[goal]]
    possible = sum(best - before for before, _, best, _ in found)
    assert sum(after - before for before, after, _, _ in found) >= 0.95 * possible > 0
