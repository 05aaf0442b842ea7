"""The memory of decisions is in proportion to the rules of a policy, however much a rule computes."""

from __future__ import annotations

import tracemalloc

from tests.hostile.writing import each, joined, score
from tests.unit.framework import fleet
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider

NODES, TEMPLATES = 2_000, 10
COLUMN = 8 * NODES  # bytes
OPERATIONS = 400  # of each policy, as many columns


def memory(text):
    """(the bytes that stay for each template, the most bytes at a time), of decisions about pods of other templates by a policy."""
    state, decider = fleet.state(*each("n{0}", NODES)), Decider(assemble([fleet.policy(text)]))
    decider.decide(state.snapshot(), fleet.pod("first"))
    tracemalloc.start()
    try:
        for number in range(TEMPLATES):
            decider.decide(state.snapshot(), fleet.pod(labels={"job": f"{number}"}))
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return kept / TEMPLATES, peak


SUM = score(joined(each("(node.pod_count / {0}.5)", OPERATIONS // 2), " + "))
SHARED = score("a + 1") + f"let a = {joined(each('(node.pod_count / {0}.5)', OPERATIONS // 2), ' + ')}\nscore t = a + 2 normalize minmax\n"
SMALL = score("node.pod_count / 1.5")


def test_columns_on_the_way_to_a_result_are_not_kept():
    usual, _ = memory(SMALL)
    for text in (SUM, SHARED):
        kept, _ = memory(text)
        assert kept < usual + 10 * COLUMN


def test_columns_that_nothing_needs_any_more_are_dropped_on_the_way():
    _, usual = memory(SMALL)
    _, most = memory(SUM)
    assert most < usual + OPERATIONS // 4 * COLUMN
