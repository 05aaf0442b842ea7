"""Values of params: given ones, defaults, and those that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.compiler.program import resolve
from wharfinger.errors import UsageError

from .texts import typed_policy

TEXT = """
policy "p"
param share: percent = 10% range 0%..50%
param room: memory = 2Gi
param copies: count = 2 range 1..10
param factor: number = 1.5
param models: set<string> = ["A100"]
param strict: bool = true
param team: string = "a"
filter f {
  require (node.labels["team"] ?? team) in models and strict else "no"
  require node.free.memory >= room else "no"
  require node.pod_count <= copies * factor else "no"
  require (ratio(node.free.cpu, node.allocatable.cpu) ?? 0%) >= share else "no"
}
"""


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("share", "25%", 0.25),
        ("share", 0.25, 0.25),
        ("share", "0.25", 0.25),
        ("room", "1Gi", 2.0**30),
        ("room", 1024, 1024.0),
        ("copies", "3", 3.0),
        ("factor", "-2.5", -2.5),
        ("models", "A100, H100", frozenset({"A100", "H100"})),
        ("models", ["H100"], frozenset({"H100"})),
        ("models", "", frozenset()),
        ("strict", "false", False),
        ("strict", False, False),
        ("team", "b", "b"),
    ],
)
def test_given_values_are_converted_to_base_units(name: str, given: Any, value: Any) -> None:
    assert resolve(typed_policy(TEXT), {name: given})[name] == value


def test_params_without_a_value_have_their_defaults() -> None:
    found = resolve(typed_policy(TEXT), {})
    assert found == {
        "share": 0.1,
        "room": 2.0**31,
        "copies": 2.0,
        "factor": 1.5,
        "models": frozenset({"A100"}),
        "strict": True,
        "team": "a",
    }


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("shar", "1%", "no param shar; did you mean share?"),
        ("share", "60%", "is 60%, outside of its range 0%..50%"),
        ("share", "1Gi", "is percent; '1Gi' is not"),
        ("share", "lots", "is percent; 'lots' is not"),
        ("room", "12", "is memory; '12' is not"),
        ("copies", "2.5", "is count; '2.5' is not"),
        ("copies", 2.5, "is count; 2.5 is not"),
        ("copies", True, "is count; True is not"),
        ("copies", float("nan"), "is count; nan is not"),
        pytest.param("copies", 10**400, "is count; 1000", id="an integer beyond float64"),
        ("strict", "yes", "is bool; 'yes' is not"),
        ("team", 3, "is string; 3 is not"),
        ("models", 3, "is set<string>; 3 is not"),
    ],
)
def test_values_that_do_not_fit_are_refused(name: str, given: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(typed_policy(TEXT), {name: given})
    assert message in str(caught.value)


def test_params_without_a_default_are_required() -> None:
    policy = typed_policy('policy "p"\nparam n: count range 0..9\nfilter f { require node.pod_count < n else "no" }')
    with pytest.raises(UsageError, match="param n of policy p needs a value"):
        resolve(policy, {})
    assert resolve(policy, {"n": "4"}) == {"n": 4.0}
