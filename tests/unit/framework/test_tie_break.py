"""Equals are told apart by a hash: always the same way, and evenly."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.unit.framework import fleet
from wharfinger.framework import cycle, tie_break

MASK = 2**64 - 1


def multiplied(value: int) -> int:
    """Multiplicative hashing in plain integers."""
    return value * 0x9E3779B97F4A7C15 & MASK


def test_the_hash_of_a_name_is_fixed_for_ever():
    assert tie_break.stable_hash("node-1") == 0x29EBA4BC55B7578F  # printf node-1 | b2sum -l 64, bytes reversed


def test_mixing_is_multiplicative_hashing():
    names = np.array([0, 1, 2**63, MASK, 123456789], np.uint64)
    assert tie_break.mixed(42, names).tolist() == [multiplied(int(name) ^ 42) for name in names]
    assert names.tolist() == [0, 1, 2**63, MASK, 123456789]


def test_the_winner_is_fixed_for_ever():
    names = np.array([tie_break.stable_hash(f"node-{number}") for number in range(100)], np.uint64)
    assert [tie_break.winner(f"uid-{number}", names) for number in range(8)] == [26, 66, 29, 38, 42, 97, 79, 64]


def test_the_hash_of_a_node_is_the_one_kept_with_its_column():
    snapshot = fleet.state("a", "b").snapshot()
    assert snapshot.name_hashes.tolist() == [tie_break.stable_hash("a"), tie_break.stable_hash("b")]


@pytest.mark.parametrize("prefix", ["node-", "ip-10-0-0-", "gke-pool-1-abc"])
def test_pods_spread_evenly_over_equals(prefix):
    names = np.array([tie_break.stable_hash(f"{prefix}{number}") for number in range(20)], np.uint64)
    counts = Counter(tie_break.winner(f"uid-{number}", names) for number in range(4000))
    chi_squared = sum((counts[node] - 200) ** 2 / 200 for node in range(20))
    assert chi_squared < 43.8  # the 99.9 % quantile for 19 degrees of freedom


def test_the_order_of_the_rows_does_not_matter():
    names = [f"node-{number}" for number in range(30)]
    chain = fleet.chain_of(fleet.Stub)
    forwards, backwards = fleet.state(*names), fleet.state(*reversed(names))
    for number in range(20):
        pod = fleet.pod(f"pod-{number}")
        assert cycle.decide(chain, forwards.snapshot(), pod).node == cycle.decide(chain, backwards.snapshot(), pod).node
