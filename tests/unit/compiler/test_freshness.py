"""The suspended metrics are computed again for another cluster, also if its tables have the same address in memory."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tests.unit.compiler.texts import compiled
from wharfinger.compiler.metrics import Freshness
from wharfinger.model.columns.arrays import StringTable

POLICY = """policy "p"
metric load: percent = prometheus('q', node: "instance", refresh: 15s, max_age: 2min, min_coverage: 60%)
score calm weight 1 = if load < 50% then 100 else 0 on missing 0
"""


class Cluster:
    """A cluster of two nodes, all or none with a sample; its table of strings can be freed while the snapshot is held."""

    def __init__(self, *, covered: bool) -> None:
        samples = SimpleNamespace(present=np.full(2, covered), times=np.full(2, 1000.0))
        self.strings: StringTable | None = StringTable()
        self.metrics_revision, self.layout_revision, self.now, self.n_nodes = 1, 2, 1000.0, 2
        self.metric = lambda *_names: samples


def test_a_table_at_the_address_of_one_that_is_gone_is_not_taken_for_it():
    metrics = compiled(POLICY).policy.metrics
    for _ in range(50):  # most of the time the second table gets the address of the first
        freshness, before, after = Freshness(metrics), Cluster(covered=True), Cluster(covered=False)
        after.strings = None
        assert freshness.suspended(before) == frozenset()
        before.strings = None
        after.strings = StringTable()
        assert freshness.suspended(after) == {"load"}
