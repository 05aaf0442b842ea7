"""Functions of `import wharfinger` refuse wrong arguments by name, agree with the commands, and give the same answers in every process."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import wharfinger
from tests.unit.framework.kube import node, pod
from tests.unit.what_if.test_drain import owned
from wharfinger.errors import UnknownObject, UsageError

POLICY = 'policy "pack"\nscore full weight 2 = node.requested.cpu normalize minmax\n'
OBJECTS = [node("a"), node("b"), node("c"), owned("one", on="a"), owned("two", on="b"), owned("three", on="c"), pod("new")]


WHARF = Path(sys.executable).with_name("wharf")


@pytest.fixture
def folder(tmp_path):
    """A folder with a snapshot and a policy."""
    kinds = [{**each, "apiVersion": "v1", "kind": "Node" if each in OBJECTS[:3] else "Pod"} for each in OBJECTS]
    (tmp_path / "now.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": kinds}))
    (tmp_path / "pack.policy").write_text(POLICY)
    return tmp_path


@pytest.fixture
def asked(folder):
    """The policies and the cluster that a question is about."""
    return wharfinger.load_policies(folder / "pack.policy"), wharfinger.load_snapshot(folder / "now.json")


@pytest.mark.parametrize(
    ("function", "arguments", "why"),
    [
        ("drain", {"nodes": "a"}, r"nodes: expected a list, such as \['a'\], not str 'a'"),
        ("drain", {"nodes": []}, "nodes= names no node"),
        ("drain", {"nodes": ["a"], "pods": {"metadata": {}}}, "pods: expected a list of pods, not dict"),
        ("drain", {"nodes": ["a"], "pods": [{"kind": "Deployment"}]}, "expected a pod, not Deployment"),
        ("rebalance", {"goals": "points"}, "goals: expected a list"),
        ("rebalance", {"goals": ["points"], "namespaces": "default"}, "namespaces: expected a list"),
        ("rebalance", {"goals": ["points"], "namespaces": ["shop"]}, "namespaces=shop: the cluster has no pod there"),
        ("rebalance", {"goals": ["points"], "most_moves": 0}, "most_moves=0: expected a whole number of at least 1"),
        ("rebalance", {"goals": ["points"], "most_moves": 1.5}, "most_moves=1.5: expected a whole number"),
        ("rebalance", {"goals": ["points"], "most_priority": "high"}, "most_priority='high': expected a whole number$"),
        ("rebalance", {"goals": None}, "goals: expected a list of texts, not None"),
        ("rebalance", {"goals": ["free-gpus"], "whole": "cpu=1"}, "whole: expected amounts by resource"),
        ("rebalance", {"goals": ["points"], "config": "profile"}, "config: expected what load_config returns, not str 'profile'"),
        ("rebalance", {"goals": ["points"], "most_cordons": 0}, "most_cordons=0"),
        ("rebalance", {"goals": ["points"], "cost": math.nan}, "cost=nan"),
        ("rebalance", {"goals": ["points"], "min_age": "5m"}, "min_age='5m': expected a number"),
        ("rebalance", {"goals": ["free-gpus"], "whole": {"cpu": "0"}}, "whole cpu=0: expected a number of at least 1"),
        ("capacity", {"by": "zone"}, "by: expected a list"),
        ("capacity", {"nodes": -1, "like": "a"}, "nodes=-1"),
        ("capacity", {"nodes": 100_001, "like": "a"}, "nodes=100001: expected a whole number of at least 0 and at most 100000"),
        ("capacity", {"most": 0}, "most=0"),
        ("capacity", {"most": 1.5}, "most=1.5"),
        ("capacity", {"by": [3]}, r"by: expected a list of texts, not \[3\]"),
        ("capacity", {"pods": 3}, "pods: expected a list of pods, not int"),
        ("capacity", {"pods": "pods.yaml"}, "pods: expected a list of pods, not str 'pods.yaml'"),
        ("diff", {"against": (), "replace": "all"}, "replace: expected a list"),
        ("diff", {"against": "policies/"}, "policies: expected what load_policies returns, not str 'policies/'"),
        ("tune", {"objectives": "unplaced"}, "objectives: expected a list"),
        ("tune", {"objectives": []}, "objectives= names nothing"),
        ("tune", {"objectives": ["unplaced"], "trials": 0}, "trials=0"),
        ("tune", {"objectives": ["unplaced"], "jobs": 0}, "jobs=0"),
        ("tune", {"objectives": ["unplaced"], "jobs": 2, "dask": "tcp://here:1"}, "jobs= is for this machine"),
        ("tune", {"objectives": ["unplaced"], "held_out": 1}, "held_out=1: expected less than 1"),
        ("tune", {"objectives": ["unplaced"], "load": math.nan}, "load=nan"),
        ("tune", {"objectives": ["unplaced"], "load": 1e9}, "expected at most 100"),
        ("tune", {"objectives": ["unplaced"], "trials": 1.5}, "trials=1.5: expected a whole number"),
        ("optimal", {"seconds": -1}, "seconds=-1"),
    ],
)
def test_a_wrong_argument_is_named(asked, function, arguments, why):
    policies, cluster = asked
    with pytest.raises(UsageError, match=why):
        getattr(wharfinger, function)(policies=policies, cluster=cluster, **arguments)


@pytest.mark.parametrize(
    ("function", "more"), [("drain", {"nodes": ["a"]}), ("rebalance", {"goals": ["points"]}), ("capacity", {}), ("place", {})]
)
def test_policies_and_clusters_that_are_not_loaded_are_named(asked, folder, function, more):
    policies, cluster = asked
    with pytest.raises(UsageError, match="policies: expected what load_policies returns, not CompiledPolicy"):
        getattr(wharfinger, function)(policies[0], cluster, **more)
    with pytest.raises(UsageError, match="cluster: expected what load_snapshot returns, not str"):
        getattr(wharfinger, function)(policies, str(folder / "now.json"), **more)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [("place", {}), ("capacity", {}), ("drain", {"nodes": ["a"]}), ("rebalance", {"goals": ["points"]}), ("diff", {"against": ()})],
)
def test_a_pod_that_is_there_twice_or_has_a_node_is_named(asked, function, arguments):
    policies, cluster = asked
    pod = {"metadata": {"name": "once"}, "spec": {"containers": [{"name": "main"}]}}
    with pytest.raises(UsageError, match="pods: default/once is there twice"):
        getattr(wharfinger, function)(policies=policies, cluster=cluster, pods=[pod, pod], **arguments)
    wharfinger.place(policies, cluster, [pod])
    with pytest.raises(UsageError, match="pods: default/once has a node in this cluster, perhaps by an earlier call"):
        getattr(wharfinger, function)(policies=policies, cluster=cluster, pods=[pod], **arguments)


def test_files_of_pods_are_a_list(folder):
    with pytest.raises(UsageError, match=r"pods: expected a list, such as \['web.yaml'\]"):
        wharfinger.load_snapshot(folder / "now.json", pods="web.yaml")


def test_labels_to_count_by_are_refused_for_a_log(asked, folder):
    with pytest.raises(UsageError, match="log= has its own cluster"):
        wharfinger.diff(asked[0], log=folder / "log.jsonl", by=["zone"])


def test_an_unknown_node_is_named(asked):
    with pytest.raises(UnknownObject, match="there is no node z"):
        wharfinger.drain(*asked, ["z"])


def printed(folder, seed, *words):
    """The output of a command, in a process with that hash seed."""
    command = [WHARF, *words, "--snapshot", "now.json", "--policy", "pack.policy", "--format", "json"]
    env = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=True).stdout


COMMANDS = {
    "drain": ("drain", "a", "--force"),
    "capacity": ("capacity", "--by", "kubernetes.io/hostname"),
    "rebalance": ("rebalance", "--goal", "free-nodes", "--goal", "points", "--min-age", "0s"),
    "diff": ("diff", "--replace", "all"),
    "tune": ("tune", "--replace", "all", "--objective", "nodes_touched", "--objective", "unplaced", "--trials", "12", "--kubernetes"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_hashes_of_a_process_change_no_byte(folder, command):
    assert printed(folder, "1", *COMMANDS[command]) == printed(folder, "2", *COMMANDS[command])


def test_a_command_and_its_function_give_the_same_answer(folder, asked):
    policies, cluster = asked
    moves = json.loads(printed(folder, "0", *COMMANDS["rebalance"]))["moves"]
    plan = wharfinger.rebalance(policies, cluster, ["free-nodes", "points"], min_age=0)
    assert [(move["pod"], move["source"], move["target"], move["gain"]) for move in moves] == [
        (move.pod, move.source, move.target, move.gain) for move in plan.moves
    ]
    assert moves
    fresh = wharfinger.load_snapshot(folder / "now.json")
    [workload] = json.loads(printed(folder, "0", *COMMANDS["capacity"]))["workloads"]
    [room] = wharfinger.capacity(policies, fresh, by=["kubernetes.io/hostname"]).rooms
    assert workload["more"] == room.more


def test_the_search_of_the_verb_and_of_the_function_are_one(folder, asked):
    found = json.loads(printed(folder, "3", *COMMANDS["tune"]))
    tuned = wharfinger.tune(*asked, ["nodes_touched", "unplaced"], replace=["all"], trials=12, kubernetes=True)
    called = ["nodes_touched", "unplaced"]
    for side, trial in (("current", tuned.current), ("best", tuned.best)):
        assert found[side]["objectives"] == dict(zip(called, trial.objectives, strict=True))
        assert found[side]["numbers"] == {
            number.name: number.text(value) for number, value in zip(tuned.tunables, trial.values, strict=True)
        }
    assert [one["objectives"] for one in found["front"]] == [dict(zip(called, one.objectives, strict=True)) for one in tuned.front]
    assert tuned.held_out is not None
    assert found["heldOut"]["best"] == dict(zip(called, tuned.held_out[1], strict=True))
    assert found["change"] == tuned.change
