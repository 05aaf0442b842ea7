"""Tests of policies with rules about victims: who was evicted, who was not, and what was covered."""

from __future__ import annotations

import pytest

from tests.unit.language.policies import policy
from wharfinger.policies import policy_tests

WORLD = """
preemption {
  never_evict when it.labels["evict"] == "never" on missing evict
}

test "t" {
  node a { cpu: 2cpu }
  node b { cpu: 2cpu }
  pod critical { priority: 1000, requests: { cpu: 2cpu } }
  running kept on a { labels: { evict: "never" }, requests: { cpu: 1cpu } }
  running low on b { priority: 5, requests: { cpu: 1cpu } }
  place critical
  EXPECT
}
"""


def failures(expect):
    (result,) = policy_tests.run([policy(WORLD.replace("EXPECT", expect))]).results
    return [failure.sentence for failure in result.failures]


@pytest.mark.parametrize(
    "expect", ["expect low evicted", "expect kept not evicted", "expect critical: low evicted", "expect critical on b"]
)
def test_true_expectations_pass(expect):
    assert failures(expect) == []


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [
        ("expect kept evicted", "kept was not evicted, but low; critical is on b"),
        ("expect low not evicted", "low was evicted, expected it to stay; critical is on b"),
        ("expect critical evicted", "critical was not evicted, but low; critical is on b"),
    ],
)
def test_false_expectations_fail(expect, sentence):
    assert failures(expect) == [sentence]


def test_the_room_of_victims_is_taken_and_a_protected_pod_is_in_the_way():
    late = "pod late { priority: 2000, requests: { cpu: 2cpu } }\n  place late"
    then = f"expect low evicted\n  {late}\n  expect critical: low evicted\n  expect late on b"
    assert failures(then) == []  # `critical` is of lower priority than `late` and not protected


def test_rules_about_victims_are_covered():
    report = policy_tests.run([policy(WORLD.replace("EXPECT", "expect low evicted"))])
    (point,) = report.coverage
    assert (point.rule, {truth.value for truth in point.possible}) == ("preemption", {"true", "false", "missing"})
    assert {truth.value for truth in point.seen} == {"false", "missing"}


def test_a_pod_that_fits_at_once_covers_no_rule_about_victims():
    report = policy_tests.run([policy(WORLD.replace("EXPECT", "expect critical on c").replace("node b", "node c\n  node b"))])
    assert not report.coverage[0].seen
