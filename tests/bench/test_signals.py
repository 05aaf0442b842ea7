"""The CPU time that signals may cost, which other work on the machine changes little."""

from tests.bench import signals
from wharfinger.simulate import workloads


def state():
    return workloads.workload("basic", workloads.Size(nodes=signals.NODES, pods=1, running=0)).state


def test_three_metric_rules_cost_decisions_little():
    without, measured = signals.compared(rounds=4)
    assert measured / without < 1.5  # evaluated with arrays of one node they would cost more than twice


def test_an_answer_of_5000_series_is_worked_on_in_portions():
    def largest_part():
        stretches = signals.stretches(state())
        return max(stretches) / sum(stretches)

    assert min(largest_part() for _ in range(3)) < 0.5
