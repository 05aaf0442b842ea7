"""Tests of policies with devices: what nodes have, what pods get, and the messages if they get others."""

import pytest

from tests.unit.compiler.texts import compiled
from wharfinger.policies import policy_tests

RULES = """policy "p"
filter free {
  require count(devices where not (it.taken ?? true), on: node) >= 1 else "all devices are taken"
}
prefer device large = it.capacity["memory"]
test "t" {
  node a {
    devices: [
      { capacity: { memory: 16Gi } },
      { count: 2, name: "big", capacity: { memory: 80Gi }, attributes: { fast: true, index: 1 } },
      { driver: "nic.example.com", name: "nic" },
    ]
  }
  node g { resources: { "nvidia.com/gpu": 2, "alibabacloud.com/gpu-milli": 2000 } }
  pod p { devices: { "gpu.example.com": 1 } }
  pod two { devices: { "gpu.example.com": 1, "nic.example.com": 1 } }
  pod share { requests: { "alibabacloud.com/gpu-milli": 300 } }
  pod plain { node_selector: { "kubernetes.io/hostname": "a" } }
  LINES
}
"""
HOLDS = [
    'place p expect p on a expect p on device "big-0"',
    'place p pod q like p place q expect q on device "big-1"',
    'running x on a { devices: { "gpu.example.com": 2 }, holds: ["big-0", "big-1"] } place p expect p on device "gpu-0"',
    'running x on a { devices: { "gpu.example.com": 1 } } place p expect p on device "big-0"',
    'place two expect two on device "nic", "big-0"',
    'place share expect share on g expect share on device "0"',
    'running x on a { devices: { "gpu.example.com": 3 } } place p expect p pending',
    """running x on g { requests: { "alibabacloud.com/gpu-milli": 800 } } running y on g { requests: { "alibabacloud.com/gpu-milli": 800 } }
    place share expect g rejected by GpuShares""",
]
FAILS = [
    ('place p expect p on device "gpu-0"', "and has big-0, not gpu-0"),
    ('place p expect p on device "big-0", "big-1"', "and has big-0, not big-0 and big-1"),
    ('place plain expect plain on device "gpu-0"', "and has no device, not gpu-0"),
    ('running x on a { devices: { "gpu.example.com": 3 } } place p expect p on device "gpu-0"', "preemption: 0/2 nodes are available"),
]


def failures(lines):
    policy = compiled(RULES.replace("LINES", lines)).policy
    return [failure.sentence for result in policy_tests.run([policy]).results for failure in result.failures]


@pytest.mark.parametrize("lines", HOLDS)
def test_a_pod_gets_the_devices_that_the_policy_prefers(lines):
    assert failures(lines) == []


@pytest.mark.parametrize(("lines", "said"), FAILS)
def test_other_devices_than_expected_are_named(lines, said):
    (sentence,) = failures(lines)
    assert said in sentence


@pytest.mark.parametrize(
    ("when", "lines", "seen"),
    [
        ("", "place p expect p on a", {"large": "true missing"}),  # the network card has no memory
        ("", "place share expect share on g", {"large": "missing"}),
        ("", "place plain expect plain on a", {"large": ""}),  # gets no device, so nothing is evaluated
        ("when pod.priority > 3", "place p expect p on a", {"large when": "false", "large": ""}),
        (
            "when pod.priority > 3",
            "pod q like p { priority: 4 } place p place q expect q on a",
            {"large when": "true false", "large": "true missing"},
        ),
    ],
)
def test_a_preference_is_covered_by_what_it_says_of_devices(when, lines, seen):
    text = RULES.replace("LINES", lines).replace("prefer device large", f"prefer device large {when}")
    points = [point for point in policy_tests.run([compiled(text).policy]).coverage if point.rule.startswith("large")]
    assert {point.rule: {truth.name.lower() for truth in point.seen} for point in points} == {
        rule: set(found.split()) for rule, found in seen.items()
    }
    assert {truth.name for point in points if point.rule == "large" for truth in point.possible} == {"TRUE", "MISSING"}
