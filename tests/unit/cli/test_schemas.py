"""The JSON Schemas hold for what the commands print: every field is declared, and every declared field that must be there is."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests import json_schemas
from tests.unit.scheduler.decision_log.recording import recorded
from wharfinger import cli

ROOT = Path(__file__).parents[3]
PACK = str(ROOT / "policies" / "bin-pack.policy")
POLICY = """policy "size"

param most: count = 3 range 1..10

filter size { require node.allocatable.cpu > 8cpu else "small" }
score pack weight 2 = most_allocated(cpu: 1)

test "sizes" {
  node a { cpu: 16cpu, memory: 1Gi }
  node b { cpu: 4cpu, memory: 1Gi }
  pod web { requests: { cpu: 1cpu } }
  place web
  expect web on a
  expect b accepted
}
"""


def pod(name, cpu, node="", priority=0, group=""):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], "priority": priority}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}, "ownerReferences": [owner]}
    spec |= ({"nodeName": node} if node else {}) | ({"schedulingGroup": {"podGroupName": group}} if group else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name, cpu, zone):
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": zone}},
        "status": {"allocatable": allocatable},
    }


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}},
    "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2},
}
GANG = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "gang", "namespace": "shop"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": {"topology": [{"key": "zone"}]}},
}
ITEMS = [
    node("small", "4", "a"),
    node("large", "16", "b"),
    pod("first", "1", "small"),
    pod("second", "1", "large"),
    pod("waiting", "2", priority=5),
    pod("huge", "100"),
    *(pod(f"gang-{number}", "9", group="gang") for number in range(2)),
    GANG,
    BUDGET,
]
CLUSTER = {
    "apiVersion": "v1",
    "kind": "List",
    "items": ITEMS,
    "capture": {"takenAt": "2026-01-05T10:00:00Z", "notRead": ["CSINode: forbidden"]},
    "metrics": {"cpu2m": {"small": 0.4, "large": {"value": 0.9, "time": "2026-01-05T10:00:00Z"}}},
}

RUNS = {
    "check": ["check", "broken.policy", "size.policy", "--cost"],
    "test": ["test", "size.policy"],
    "prove": ["prove", "size.policy"],
    "prove refuted": ["prove", "size.policy", "--spares", "node.allocatable.cpu > 4cpu"],
    "prove unknown": ["prove", PACK, "--keeps", "pod.priority > 5"],
    "dry-run": ["dry-run", "-s", "cluster.json", "-p", "size.policy", "--explain"],
    "dry-run independent": ["dry-run", "-s", "cluster.json", "-p", PACK, "--mode", "independent"],
    "dry-run optimal": ["dry-run", "-s", "cluster.json", "-p", "size.policy", "--optimal", "1"],
    "diff": ["diff", "-s", "cluster.json", "-p", "size.policy", "--replace", "all", "--by", "zone"],
    "diff log": ["diff", "--log", "LOG", "-p", "size.policy"],
    "capacity": ["capacity", "-s", "cluster.json", "-p", "size.policy", "--by", "zone", "--like", "large"],
    "drain": ["drain", "small", "large", "-s", "cluster.json", "-p", PACK],
    "rebalance": ["rebalance", "-s", "cluster.json", "-p", "size.policy", "--goal", "violations", "--goal", "points", "--min-age", "0s"],
    "tune": [
        "tune",
        "-s",
        "cluster.json",
        "-p",
        "size.policy",
        "--objective",
        "unplaced",
        "--replace",
        "all",
        "--trials",
        "2",
        "--jobs",
        "1",
    ],
    "explain-pod": ["explain", "pod", "shop/waiting", "-s", "cluster.json", "-p", "size.policy"],
    "explain-pod huge": ["explain", "pod", "shop/huge", "-s", "cluster.json", "-p", "size.policy", "--node", "small"],
    "explain-group": ["explain", "group", "shop/gang", "-s", "cluster.json", "-p", "size.policy"],
    "explain-policy": ["explain", "policy", "size", "-s", "cluster.json", "-p", "size.policy"],
    "replay": ["replay", "LOG"],
    "replay broken": ["replay", "BROKEN"],
    "replay others": ["replay", "LOG", "-p", "size.policy"],
    "bench": ["bench", "--nodes", "10", "--pods", "5", "--running", "10", "-p", "size.policy"],
}
"""Commands whose output has the schema of their first word."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "size.policy").write_text(POLICY)
    (tmp_path / "broken.policy").write_text('policy "broken"\nfilter f { require nod.free.cpu > 1cpu and node.labels["x"] == "y" }\n')
    (tmp_path / "cluster.json").write_text(json.dumps(CLUSTER))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A decision log, and the same log with one decision that does not come out as recorded."""
    path = tmp_path_factory.mktemp("log") / "decisions.jsonl"
    recorded(path, rounds=10)
    lines = path.read_text().splitlines(keepends=True)
    number = [number for number, line in enumerate(lines) if '"t":"decision"' in line][-1]
    lines[number] = lines[number].replace('"feasible":', '"feasible":9')
    (path.parent / "broken.jsonl").write_text("".join(lines))
    return path


@pytest.mark.parametrize("run", RUNS)
def test_an_output_has_its_schema(wharf, here, log, run):
    named = {"LOG": log, "BROKEN": log.parent / "broken.jsonl"}
    code, out, err = wharf(*(named.get(word, word) for word in RUNS[run]), "--format", "json")
    assert code in {0, 1, 3}, err
    json_schemas.assert_holds(run.partition(" ")[0], json.loads(out))


def keys_of(part):
    if isinstance(part, list):
        return [key for each in part for key in keys_of(each)]
    if not isinstance(part, dict):
        return []
    return [*part.get("properties", ()), *(key for each in part.values() for key in keys_of(each))]


@pytest.mark.parametrize("name", json_schemas.TYPES)
def test_every_key_is_in_camel_case(name):
    assert [key for key in keys_of(json_schemas.schema(name)) if not re.fullmatch(r"[a-z][A-Za-z0-9]*", key)] == []


def test_every_command_with_json_has_a_schema_that_is_tried():
    tried = {run.partition(" ")[0] for run in RUNS} | {
        "signals",
        "status",
        "snapshot",
    }  # those of running clusters, below and in their tests
    assert tried == set(json_schemas.TYPES)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_a_command_that_prints_json_has_a_schema(wharf, command):
    _, out, _ = wharf(command, "--help")
    prints = re.search(r"[\[|]json[\]|]", "".join(out.split()))
    assert bool(prints) <= any(name == command or name.startswith(f"{command}-") for name in json_schemas.TYPES)


def test_a_snapshot_and_the_settings_have_theirs(wharf, here):
    json_schemas.assert_holds("snapshot", CLUSTER)
    code, out, _ = wharf("config", "print")
    assert code == 0
    settings = yaml.safe_load(out)
    json_schemas.assert_holds("configuration", settings)
    with pytest.raises(jsonschema.ValidationError):
        json_schemas.assert_holds("configuration", settings | {"polices": []})


@pytest.mark.parametrize("wrong", [{"kind": "Lost"}, {"items": {}}, {"items": [{"kind": "Node"}]}, {"metrics": {"m": {"n": "high"}}}])
def test_the_schema_of_snapshots_refuses_other_content(wrong):
    with pytest.raises(jsonschema.ValidationError):
        json_schemas.assert_holds("snapshot", CLUSTER | wrong)


def test_schemas_are_listed_and_printed(wharf):
    code, out, _ = wharf("schema")
    assert (code, set(out.split())) == (0, {*json_schemas.TYPES, "configuration"})
    code, out, _ = wharf("schema", "diff")
    assert (code, out) == (0, json_schemas.text("diff"))
    assert json.loads(out)["$id"].endswith("/v1/diff.json")


def test_an_unknown_one_names_the_nearest(wharf):
    code, out, err = wharf("schema", "dif")
    assert (code, out) == (2, "")
    assert "did you mean diff?" in err
