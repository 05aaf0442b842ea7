"""Tests of the measurement of reloads; its figures are in docs/performance.md."""

import asyncio

from tests.bench.reload_gap import measure


def test_a_reload_under_load_replaces_every_policy_and_pods_are_decided_all_the_while():
    figures = asyncio.run(measure(nodes=20, policies=5, tests=True, seconds=0.2))
    assert figures.replaced == 5
    assert figures.decisions > 20
    assert 0 < figures.longest_gap < 60
    assert figures.reload > 0
