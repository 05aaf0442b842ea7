"""Plans on small cuts of OpenB, beside the best that any placement could reach."""

from functools import partial

from tests.bench.rebalance import compared, small
from wharfinger.what_if.rebalance.plan import Goal


def test_plans_free_nearly_as_many_nodes_of_small_clusters_as_can_be():
    found = [compared("default", Goal.FREE_NODES, partial(small, "default", seed, 6)) for seed in (1, 2, 3)]
    assert sum(after for _, after, _, _ in found) >= 0.95 * sum(best for _, _, best, _ in found)
    assert any(after > before for before, after, _, _ in found)
