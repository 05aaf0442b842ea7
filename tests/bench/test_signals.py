"""What signals may cost, in CPU time, which other work on the machine changes little."""

import asyncio

from tests.bench import signals
from wharfinger.runtime import families


def state():
    return families.workload("basic", families.Size(nodes=signals.NODES, pods=1, running=0)).state


def test_three_metric_rules_cost_decisions_little():
    without, measured = signals.compared(rounds=4)
    assert measured / without < 1.8  # asked with arrays of one node they would cost more than twice


def test_ten_answers_of_5000_series_take_little_and_never_long_at_a_stretch():
    cluster = state()
    assert min(asyncio.run(signals.refresh(cluster)).cpu for _ in range(3)) <= 0.3
    assert min(max(signals.stretches(cluster)) for _ in range(5)) <= 0.01
