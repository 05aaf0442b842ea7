"""Checking a policy takes work in proportion to its lets, not to what they would be if they were written out."""

from __future__ import annotations

import pytest

from tests.unit.language.policies import checked
from tests.work import calls

DOUBLING = ["{0} and {0}", "{0} or {0}", "not ({0} or {0})", "({0} and pod.host_network) or {0}", "if {0} then {0} else {0}"]
PLACES = [
    "for pods where {0}",
    "filter f {{ require {0} }}",
    "filter f when {0} {{ require {0} }}",
    "for pods where {0}\nprefer p when {0} = {0}",
]


def chain(length, step, place):
    lets = [f"let a{n + 1} = {step.format(f'a{n}')}" for n in range(length)]
    use = place.format(f"a{length}")
    scope, _, rest = use.partition("\n")
    before, after = (scope, rest) if use.startswith("for") else ("", use)
    return "\n".join(['policy "p"', before, "let a0 = pod.priority > 3", *lets, after, "tie_break node.pod_count asc"])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("step", DOUBLING)
def test_a_chain_of_lets_twice_as_long_takes_twice_the_work(step, place):
    short, long = (calls(lambda n=n: checked(chain(n, step, place)), most=2_000_000) for n in (14, 28))
    assert long <= 2.2 * short
