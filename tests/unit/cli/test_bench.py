"""`wharf bench` measures the decisions of a chain on a generated cluster or a snapshot."""

import json

from tests.golden import FOLDER


def test_bench_measures_the_built_in_chain(wharf):
    code, out, err = wharf("bench", "--nodes", "50", "--pods", "200", "--templates", "4", "--format", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["nodes"], found["pods"], found["templates"], found["placed"]) == (50, 200, 4, 200)
    assert found["decisionsPerSecond"] > 0
    assert found["microsecondsPerDecision"] > 0
    assert {"rule": "NodeName", "point": "filter", "microseconds": None} in found["rules"]
    timed = {(rule["rule"], rule["point"]): rule["microseconds"] for rule in found["rules"]}
    assert timed["NodeResourcesFit", "filter"] > 0
    assert timed["NodeResourcesFit", "score"] > 0


def test_bench_measures_the_rules_of_a_policy(wharf):
    policy = FOLDER / "dry_run" / "web-spread.policy"
    code, out, _ = wharf("bench", "--policy", policy, "--nodes", "50", "--pods", "30", "--param", "max_per_node=5", "--format", "json")
    assert code == 0
    rules = {rule["rule"] for rule in json.loads(out)["rules"]}
    assert {"web-spread/not_crowded", "web-spread/no_spot", "web-spread/zone_spread"} <= rules


def test_bench_takes_a_snapshot(wharf):
    code, out, _ = wharf("bench", "--snapshot", FOLDER / "dry_run" / "cluster.yaml", "--format", "json")
    assert code == 0
    assert json.loads(out)["pods"] == 4


def test_bench_prints_a_table(wharf):
    code, out, _ = wharf("bench", "--nodes", "20", "--pods", "20")
    assert code == 0
    assert out.startswith("decisions/s")
    assert "µs over all nodes" in out
