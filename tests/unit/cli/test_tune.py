"""`wharf tune`: the report, the files it writes, and bad input."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.scheduler.decision_log.recording import FIRST, recorded
from tests.unit.what_if.tune.test_search import TEXT
from wharfinger.simulate import workloads

FIXED = """policy "fixed"
param spare: percent = 10%
param free: percent = 10% range 0%..50%
score room = clamp(100 * spare + 100 * free, 0, 100)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pack.policy").write_text(TEXT)
    (tmp_path / "fixed.policy").write_text(FIXED)
    nodes = [{"apiVersion": "v1", "kind": "Node", **node} for node in workloads.node_manifests(6)]
    for name, pods in (("busy.json", workloads.running_manifests(6, 6)), ("six.json", workloads.pod_manifests(9))):
        items = [*nodes, *({"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods)]
        (tmp_path / name).write_text(json.dumps({"kind": "List", "items": items}))
    return tmp_path


TUNE = ("tune", "--policy", "pack.policy", "--snapshot", "six.json", "--trials", "8", "--jobs", "1", "--objective", "nodes_touched")


def test_the_patch_applies_and_is_what_the_report_shows(wharf, folder):
    code, out, err = wharf(*TUNE, "--patch", "best.patch", "--picture", "front.svg")
    assert (code, err) == (0, "")
    patch = (folder / "best.patch").read_text()
    assert patch
    assert out.endswith(patch)
    assert "nodes_touched, held out" in out
    assert (folder / "front.svg").read_text().startswith("<svg")
    before = (folder / "pack.policy").read_text()
    subprocess.run(["git", "apply", "-p0", "best.patch"], check=True, cwd=folder)
    assert (folder / "pack.policy").read_text() != before
    assert wharf("check", "pack.policy")[0] == 0


def test_json_has_all_of_it(wharf, folder):
    code, out, _ = wharf(*TUNE, "--format", "json", "--held-out", "busy.json", "--replace", "all", "--kubernetes", "--load", "150%")
    found = json.loads(out)
    assert code == 0
    assert found["searched"] == ["six.json: 6 nodes, 13 pods to place"]
    assert found["heldOutData"] == ["busy.json: 6 nodes, 9 pods to place"]
    assert found["trials"] == 8
    assert found["best"]["objectives"]["nodes_touched"] <= found["current"]["objectives"]["nodes_touched"]
    assert set(found["heldOut"]) == {"current", "best", "worse"}
    assert "pack.TaintToleration" in found["current"]["numbers"]


def test_a_division_by_zero_is_shown_as_a_dash(wharf, folder):
    code, out, _ = wharf(*TUNE, "--objective", "moves / evicted", "--picture", "front.svg")
    assert code == 0
    current = next(line for line in out.splitlines() if line.startswith("current"))
    assert "-" in current.split()
    assert (folder / "front.svg").read_text().startswith("<svg")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_file_that_cannot_be_written_costs_no_result(wharf, folder):
    code, out, err = wharf(*TUNE, "--patch", "/dev/full")
    assert (code, "No space left" in err) == (2, True)
    assert out.startswith("8 trials")


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_division_by_zero_is_null(wharf, folder, output):
    code, out, _ = wharf(*TUNE, "--objective", "moves / evicted", "--format", output)
    assert code == 0
    assert yaml.safe_load(out)["current"]["objectives"]["moves / evicted"] is None  # JSON is YAML


@pytest.mark.parametrize("flag", ["--on", "--held-out"])
def test_invalid_objects_of_further_files_are_left_out_as_asked(wharf, folder, flag):
    found = json.loads((folder / "six.json").read_text())
    found["items"].append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": {"nodeName": 3}})
    (folder / "bad.json").write_text(json.dumps(found))
    code, _, err = wharf(*TUNE, flag, "bad.json")
    assert (code, "bad.json: item 15 (Pod bad): " in err) == (2, True), err
    code, _, err = wharf(*TUNE, flag, "bad.json", "--skip-invalid")
    assert (code, "Pod bad" in err) == (0, True), err


def test_a_decision_log_alone_is_enough(wharf, folder):
    recorded(folder / "decisions.jsonl", rounds=6)
    (folder / "mix.policy").write_text(FIRST.replace("count = 6", "count = 6 range 1..9"))
    flags = [
        "--policy",
        "mix.policy",
        "--on",
        "decisions.jsonl",
        "--objective",
        "moves",
        "--trials",
        "3",
        "--jobs",
        "1",
        "--search",
        "most",
    ]
    code, out, _ = wharf("tune", *flags)
    assert code == 0
    assert "decisions.jsonl: " in out


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--snapshot", "six.json", "--objective", "unplaced"], "give them with --policy"),
        (["-p", "pack.policy", "--snapshot", "six.json"], "--objective is missing"),
        (["-p", "pack.policy", "--objective", "unplaced"], "there is nothing to search on"),
        (["-p", "pack.policy", "--on", "six.json", "--objective", "unplaced", "--strict"], "--strict is about the cluster"),
        (["-p", "pack.policy", "--on", "six.json", "--objective", "unplaced", "--context", "x"], "--context is about the cluster"),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "unplacd"], "did you mean unplaced?"),
        (
            ["-p", "pack.policy", "-s", "busy.json", "--objective", "moves"],
            "busy.json: there are no pods to place; --replace all places its running pods again",
        ),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--held-out", "100%"], "expected a percentage below 100%"),
        (
            ["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--held-out", "5%", "--held-out", "six.json"],
            "one share of all data",
        ),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--held-out", "none.json"], "none.json"),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--held-out", "1%"], "too little to hold out 1% of it"),
        (
            ["-p", "pack.policy", "-s", "six.json", "--objective", "moves / 0", "--trials", "2", "--jobs", "1"],
            "--objective moves / 0: it has no value in any trial",
        ),
        (["-p", "fixed.policy", "-s", "six.json", "--objective", "moves", "--search", "spare"], "write the range of this param"),
        (
            ["-p", "fixed.policy", "-s", "six.json", "--objective", "moves", "--search", "fixed.free", "--param", "free=20%"],
            "--search fixed.free: the value of this param is given",
        ),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--load", "much"], "--load much: expected a percentage"),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--search", "pak"], "did you mean pack?"),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--patch", "no/where"], "there is no such folder"),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--picture", "."], ".: this is a folder"),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--load", "50%"], "a load of 50%: expected 100% or more"),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--seed", "4294967296"], "'--seed'"),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "unallocated:cpus"], "did you mean unallocated:cpu?"),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "imbalance:example.com/rack"], "no node has example.com/rack"),
        (["-p", "pack.policy", "-s", "six.json", "--objective", "moves", "--jobs", "2", "--dask", "x"], "--jobs is for this machine"),
    ],
)
def test_bad_input_says_what_and_where(wharf, folder, flags, says):
    code, out, err = wharf("tune", *flags)
    assert (code, out) == (2, "")
    assert says in err
