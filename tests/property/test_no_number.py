"""Results that are not a number are missing: no policy sees NaN, also after arithmetic with infinities."""

from __future__ import annotations

import pytest

from tests.unit.framework import fleet
from wharfinger.framework import chain
from wharfinger.framework.evaluation.cycle import decide

INFINITE = "exp(700 + node.pod_count) * exp(700)"
NO_NUMBERS = [
    f"{INFINITE} - {INFINITE}",
    f"0 * ({INFINITE})",
    f"(node.pod_count - 2) * ({INFINITE})",
    f"({INFINITE}) / ({INFINITE})",
    "sum(pods, it.priority * exp(700) * exp(700))",
    f"min(3, {INFINITE} - {INFINITE})",
    f"ratio({INFINITE}, {INFINITE}) / 1%",
]


@pytest.mark.parametrize("text", NO_NUMBERS)
@pytest.mark.parametrize(
    ("requirement", "passes"), [("{} <= 5 on missing pass", True), ("{} <= 5 on missing reject", False), ("{} <= 5", False)]
)
def test_a_clause_defines_the_missing_case(text: str, requirement: str, passes: bool):
    condition, _, then = requirement.format(f"({text})").partition(" on ")
    policy = f'policy "p"\nfilter f {{ require {condition} else "too much"{" on " + then if then else ""} }}'
    placed = [fleet.pod(f"p{sign}", node_name="a", priority=sign) for sign in (-1, 1)]
    decision = decide(chain.assemble([fleet.policy(policy)]), fleet.state("a", pods=placed).snapshot(), fleet.pod())
    assert (decision.node is not None) == passes, decision.message
