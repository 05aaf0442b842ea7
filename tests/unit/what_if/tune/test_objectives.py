"""Objectives: measures by name, and expressions over them."""

import pytest

from tests.unit.simulate.clusters import pods_of, state_of
from wharfinger.errors import UsageError
from wharfinger.what_if.tune.objectives import measured, objective


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("unplaced", {"unplaced": 3}, 3),
        ("unplaced * 100 + nodes_touched", {"unplaced": 2, "nodes_touched": 7}, 207),
        ("-(moves - 2) / 4", {"moves": 10}, -2),
        ("max(imbalance:zone, imbalance:example.com/rack) + 1e1", {"imbalance:zone": 0.25, "imbalance:example.com/rack": 0.5}, 10.5),
        ("unallocated:nvidia.com/gpu / 2", {"unallocated:nvidia.com/gpu": 1}, 0.5),
        ("1 / unplaced", {"unplaced": 0}, float("inf")),
        ("1e308 * unplaced - 1e308 * moves", {"unplaced": 10, "moves": 10}, float("inf")),
    ],
)
def test_an_expression_over_measures_is_evaluated_and_infinite_where_it_has_no_value(text, values, expected):
    found = objective(text)
    assert set(found.measures) == set(values)
    assert found.of(values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not an expression"),
        ("1 + 2", "names no measure"),
        ("unplacd", "did you mean unplaced"),
        ("zzz", "there are unplaced, "),
        ("imbalance", "write it as imbalance:zone"),
        ("unallocated + 1", "write it as unallocated:cpu"),
        ("unplaced:zone", "there is no measure unplaced"),
        ("unplaced +", "not an expression"),
        ("unplaced ** 2", "not an expression"),
        ("min(unplaced)", "not an expression"),
        ("unplaced if 1 else 2", "there is no measure"),
        ("'a' + unplaced", "there is no measure a"),
        ("unplaced[0]", "not an expression"),
        ("1e999 * unplaced", "not an expression"),
        (f"unplaced * 1{'0' * 400}", "not an expression"),
        ("(" * 5000 + "unplaced", "not an expression"),
    ],
)
def test_malformed_objectives_give_the_reason(text, says):
    with pytest.raises(UsageError, match=says):
        objective(text)


def test_measures_are_those_of_the_nodes():
    state = state_of(12)
    for number, pod in enumerate(pods_of(20)):
        state.assume(pod, f"{state.snapshot().names[number % 5]}")
    snapshot = state.snapshot()
    nodes = [snapshot.node(row) for row in range(snapshot.n_nodes)]

    def part(resource, members):
        return sum(node.requested.get(resource, 0) for node in members) / sum(node.allocatable[resource] for node in members)

    zones = {node.labels["topology.kubernetes.io/zone"] for node in nodes}
    spread = {}
    for resource in ("cpu", "memory"):
        parts = [part(resource, [node for node in nodes if node.labels["topology.kubernetes.io/zone"] == zone]) for zone in zones]
        spread[resource] = max(parts) - min(parts)
    found = measured(
        ["nodes_touched", "unallocated:cpu", "imbalance:zone", "imbalance:nowhere", "gpu_unallocated", "moves"], snapshot, {"moves": 4}
    )
    assert found == {
        "nodes_touched": 5,
        "unallocated:cpu": pytest.approx(1 - part("cpu", nodes)),
        "imbalance:zone": pytest.approx(max(spread.values())),
        "imbalance:nowhere": 0,
        "gpu_unallocated": 0,
        "moves": 4,
    }
