"""The proof that scores stay within 0..100, and the findings about weights."""

from __future__ import annotations

import pytest

from tests.unit.language.policies import checked, errors

PARAMS = """
param target: percent = 60% range 20%..90%
param share: number = 5 range 0..10
param any: number = 5
metric load: percent = prometheus('q', node: "instance")
"""
PROVED = [
    "100",
    "share * 10",
    "100 - share",
    "least_allocated()",
    "if node.unschedulable then 0 else share",
    "clamp(node.pod_count, 0, 100)",
    "100 - clamp(node.pod_count * 10, 0, 100)",
    "min(100, node.pod_count)",
    "100 / (1 + node.pod_count)",
    "100 * sigmoid(any)",
    "curve(load, 0% -> 40, target -> 100, 95% -> 0)",
    "curve(load, target -> share, target + 5% -> 2 * share)",
    "curve(load, 0% -> 0, target / 2 -> 50, target -> 100)",
    "(node.free.cpu / node.free.cpu) * 0 ?? 5",
    "abs(share - 10) * 10",
    "floor(share) + ceil(share)",
    "if node.pod_count < 10 then 100 - node.pod_count * 10 else 0",
    "if node.pod_count >= 50 then 100 else node.pod_count * 2",
    "if not (node.pod_count > 100 or node.unschedulable) then node.pod_count else 0",
    "if share < node.pod_count and node.pod_count <= 10 then node.pod_count * 10 else 0",
]
UNPROVED = [
    "101",
    "-1",
    "share * 11",
    "any",
    "node.pod_count",
    "100 - node.pod_count",
    "node.pod_count / 10",
    "if node.unschedulable then 0 else any",
    "clamp(node.pod_count, 0, any)",
    "curve(load, 0% -> 40, 95% -> 110)",
    "100 * ratio(node.requested.cpu, node.capacity.cpu)",
    "share / (share - 5)",
    "if node.pod_count < 10 or node.unschedulable then 100 - node.pod_count * 10 else 0",
    "if node.pod_count > 10 then 100 - node.pod_count * 10 else 0",
]


@pytest.mark.parametrize("points", PROVED)
def test_a_score_that_is_proved_to_be_within_0_and_100_is_accepted(points):
    assert errors(f"{PARAMS}score s = {points} on missing 0") == []


@pytest.mark.parametrize("points", UNPROVED)
def test_a_score_that_may_leave_0_to_100_is_refused_until_it_is_clamped_or_normalized(points):
    assert errors(f"{PARAMS}score s = {points} on missing 0") == ["P501"]
    assert errors(f"{PARAMS}score s = clamp({points}, 0, 100) on missing 0") == []
    assert errors(f"{PARAMS}score s = {points} normalize minmax on missing 0") == []


@pytest.mark.parametrize("amount", ["node.free.memory", "ratio(node.free.cpu, node.capacity.cpu)", "age(node.created)"])
def test_other_units_are_points_only_when_normalized(amount):
    assert errors(f"score s = {amount} on missing 0") == ["P502"]
    assert errors(f"score s = {amount} normalize max on missing 0") == []


@pytest.mark.parametrize(
    "curve", ["target -> 0, 80% -> 100", "target -> 0, target -> 1", "target -> 0, target - 1% -> 1", "target + target -> 0, 100% -> 1"]
)
def test_a_curve_must_rise_for_every_value_of_the_params(curve):
    assert errors(f"{PARAMS}score s = curve(load, {curve}) on missing 0") == ["P504"]


@pytest.mark.parametrize(
    ("weight", "code"),
    [("-1", "P503"), ("any", "P503"), ("5 - share", "P503"), ("1cpu", "P502"), ("pod.priority", "P215"), ("1 / share", "P403")],
)
def test_a_weight_is_a_plain_number_that_is_never_negative_or_missing(weight, code):
    assert errors(f"{PARAMS}prefer s weight {weight} = node.unschedulable") == [code]


def test_the_message_says_which_values_are_possible():
    found = checked("param any: number = 5 range -20..130\nscore s = any")[1].found
    assert "−20 to 130" in found[0].message
    assert found[0].suggestion == "clamp(any, 0, 100)"


def test_guards_count_in_the_proof():
    assert errors("score s when node.pod_count <= 10 = 100 - node.pod_count * 10") == []
    assert errors("for pods where pod.priority >= 0 and pod.priority <= 50\nscore s = if node.unschedulable then 0 else pod.priority") == []
