"""Tests of policies that place groups and hold pods: failures and their messages."""

import pytest

from tests.unit.compiler.texts import compiled
from wharfinger.policies import policy_tests

RULES = """policy "p"
group by pod.labels["job"] { min_count 2 within preferred "rack" }
permit late timeout 1min when pod.group.name == "late" {
  require count(group) >= 3 else "only {count(group)} of 3"
}
test "t" {
  node a { cpu: 1cpu, labels: { rack: "r1" } }
  node b { cpu: 1cpu, labels: { rack: "r2" } }
  node c { cpu: 1cpu }
  pod w1 { labels: { job: "llm" }, requests: { cpu: 1cpu } }
  pod w2 like w1
  pod x1 { namespace: "other", labels: { job: "llm" } }
  pod l1 { labels: { job: "late" } }
  pod l2 like l1
  pod l3 like l1
  LINES
}
"""
HOLDS = [
    "place group late expect group late placed expect l1 not held",
    "place l1 expect l1 held message \"only 1 of 3\" place l2 expect l1 held message '2 of 3' place l3 expect l1 not held",
    'place w1 place w2 pod w3 like w1 pod w4 like w1 place group "default/llm" expect group "default/llm" placed expect w3 on a, b, c',
]
FAILS = [
    ('place group "default/llm" expect group "default/llm" together in "rack"', "default/llm is not together in rack"),
    ('place group "default/llm" expect group "default/llm" pending', "is placed (w1 on"),
    ("place group late expect l1 held", "l1 is not held"),
    ("place l1 expect l1 not held", "l1 is held by late: only 1 of 3"),
    ("place group none expect group none placed", "no pod of the test is in a group none"),
    ("place group llm expect group llm placed", "are different groups"),
    ('place group "other/llm" expect group "other/llm" placed', "other/llm is pending: 1 member of at least 2 exist"),
    ('place group "other/llm" expect group "other/llm" pending message "nonsense"', "no message contains 'nonsense'"),
]


def failures(lines):
    policy = compiled(RULES.replace("LINES", lines)).policy
    return [failure.sentence for result in policy_tests.run([policy]).results for failure in result.failures]


@pytest.mark.parametrize("lines", HOLDS)
def test_true_expectations(lines):
    assert failures(lines) == []


@pytest.mark.parametrize(("lines", "said"), FAILS)
def test_failed_expectations(lines, said):
    assert any(said in sentence for sentence in failures(lines)), failures(lines)
