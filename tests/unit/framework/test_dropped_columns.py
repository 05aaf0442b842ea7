"""The intermediate columns of policy rules are dropped after a decision: they are many times as large as the results."""

import tracemalloc

import pytest

from tests.unit.framework import fleet
from tests.unit.framework.test_costly_rules_in_steps import TERMS
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide

NODES = 400
TEMPLATES = 10
COLUMN = NODES * 8
RULES = {
    "a key of the tie break": f"tie_break ({TERMS}) * 0 asc",
    "two keys with common parts": f"tie_break ({TERMS}) * 0 asc, ({TERMS}) * 0 + node.pod_count asc",
    "a filter": f'filter f {{ require {TERMS} < 9000 else "no" }}',
    "a score": f"score s = log({TERMS}) normalize minmax",
}


def kept_columns(text, change):
    """The memory that the rules of each template keep after two decisions with changes between them, in columns."""
    there = fleet.state(*(fleet.node(f"n{number}") for number in range(NODES)))
    decider = Decider(assemble([fleet.policy(text)]))
    pods = [fleet.pod(f"p{number}", labels={"own": str(number)}) for number in range(TEMPLATES + 1)]
    decider.decide(there.snapshot(1.0), pods.pop())  # whose columns are kept for all
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for pod in pods:
            decider.decide(there.snapshot(1.0), pod)
        change(there)
        for pod in pods:
            decision = decider.decide(there.snapshot(1.0), pod)
            assert decision.node == decide(decider.chain, there.snapshot(1.0), pod).node
        del decision
        return (tracemalloc.get_traced_memory()[0] - before) / COLUMN / TEMPLATES
    finally:
        tracemalloc.stop()


def no_change(_there):
    pass


def many_pods(there):
    for number in range(NODES // 3):
        there.assume(fleet.pod(f"other{number}"), f"n{number}")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("change", [no_change, many_pods])
def test_columns_are_dropped_after_a_decision(rule, change):
    assert kept_columns(f'policy "p"\n{RULES[rule]}\n', change) < 80
