"""Values that a rule computes for a selection of pods are kept until the selection has read them, also if another step reads them."""

from __future__ import annotations

import pytest

from tests.unit.compiler.texts import compiled
from wharfinger.policies import policy_tests

RULES = """policy "p"
filter f { require CONDITION else "no" on missing reject }
test "t" {
  node a
  pod p { namespace_labels: { tier: "gold" }, age: 1h }
  running r like p on a
  place p
  expect p on a
}
"""
CONDITIONS = [
    'count(pods where it.namespace_labels["tier"] == pod.namespace_labels["tier"]) == 1',
    'time_of_day(tz: "UTC") == 0h and count(pods where age(it.created) == 1h and age(it.created) > time_of_day(tz: "UTC")) == 1',
    'time_of_day(tz: "UTC") == 0h and sum(pods where age(it.created) > time_of_day(tz: "UTC"), age(it.created), on: node) == 1h',
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_captured_values_are_kept_until_they_are_read(condition):
    policy = compiled(RULES.replace("CONDITION", condition)).policy
    assert [failure.sentence for result in policy_tests.run([policy]).results for failure in result.failures] == []
