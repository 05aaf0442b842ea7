"""`wharf diff`: the same comparison as a table, as Markdown and as values, and what it refuses."""

import json
import re

import pytest
import yaml

import wharfinger
from tests.golden import FOLDER, assert_golden
from tests.unit.scheduler.decision_log.recording import FIRST, SECOND, recorded

CLUSTER = ["--snapshot", "cluster.yaml"]
POLICY = ["--policy", "web-spread.policy"]


@pytest.fixture(autouse=True)
def in_golden_folder(monkeypatch):
    monkeypatch.chdir(FOLDER / "dry_run")


def unrevised(text):
    """The output without revisions, which differ with any change of the chain; these goldens are about other things."""
    return re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{8}\b", "<sha256>", text)


@pytest.mark.parametrize(
    ("golden", "flags"),
    [
        ("diff.txt", []),
        ("diff.md", ["--format", "markdown"]),
        ("diff.json", ["--format", "json"]),
        ("diff_param.txt", ["--against-param", "max_per_node=1", "--replace", "all"]),
        ("diff_short.txt", ["--most", "1", "--by", "lifecycle"]),
    ],
)
def test_each_format_of_the_report_is_as_recorded(wharf, golden, flags):
    code, out, err = wharf("diff", *CLUSTER, *POLICY, *flags)
    assert (code, err) == (0, "")
    assert_golden(f"dry_run/{golden}", unrevised(out))


@pytest.mark.parametrize("flags", [[], ["--against-param", "max_per_node=1", "--replace", "all"]])
def test_two_processes_give_the_same_report(wharf, flags, monkeypatch):
    """The report of a fork is the same, byte for byte."""
    command = ["diff", *CLUSTER, *POLICY, *flags, "--format", "json"]
    alone = wharf(*command)
    forks = []
    monkeypatch.setattr("wharfinger.cli.commands.what_if.diff.MIN_PODS_FOR_TWO_PROCESSES", 0)
    monkeypatch.setattr("wharfinger.what_if.diff.can_fork", lambda: not forks.append(None))
    assert wharf(*command) == alone
    assert forks


def test_yaml_means_the_same_as_json(wharf):
    _, as_json, _ = wharf("diff", *CLUSTER, *POLICY, "--format", "json")
    _, as_yaml, _ = wharf("diff", *CLUSTER, *POLICY, "--format", "yaml")
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_names_cannot_break_out_of_a_markdown_table(wharf, tmp_path):
    policy = tmp_path / "odd.policy"
    policy.write_text('policy "odd"\nfilter no { reject true else "a | <b> `c` [d](e)" }\n')
    _, out, _ = wharf("diff", *CLUSTER, "--policy", policy, "--format", "markdown")
    assert r"a \| &lt;b&gt; \`c\` \[d\](e)" in out


def test_the_exit_code_says_that_something_differs(wharf):
    assert wharf("diff", *CLUSTER, *POLICY, "--exit-code")[0] == 1
    code, out, err = wharf("diff", *CLUSTER, *POLICY, "--against", "web-spread.policy", "--exit-code")
    assert code == 0
    assert "nothing differs for 4 pods\n" in out
    assert err == "wharf: warning: both sides have the same policies and settings; name the other side with --against\n"


def test_settings_alone_are_compared_with_those_of_kubernetes(wharf):
    _, out, _ = wharf("diff", *CLUSTER, "--config", "kube-scheduler.yaml", "--scheduler-name", "packing")
    assert "before: no policies, the settings of Kubernetes\nafter:  no policies, settings of kube-scheduler.yaml\n" in out


def test_params_of_policies_are_compared(wharf):
    _, out, _ = wharf("diff", *CLUSTER, *POLICY, "--param", "keep_free=50%", "--against-param", "keep_free=0%", "--format", "json")
    found = json.loads(out)
    assert [found[side]["policies"][0]["name"] for side in ("before", "after")] == ["web-spread", "web-spread"]
    assert found["before"]["revisions"] != found["after"]["revisions"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([*CLUSTER, "--replace", "everyone"], "everyone: expected all, namespace=NAME or selector=LABELS"),
        ([*CLUSTER, "--replace", "namespace=defualt"], "did you mean namespace=default?"),
        ([*CLUSTER, *POLICY, "--against", "nowhere.policy"], "nowhere.policy: no such file or folder"),
        ([*CLUSTER, *POLICY, "--against-param", "max_per_nod=1"], "did you mean"),
        (
            [*CLUSTER, "--log", "log.jsonl", *POLICY],
            "--log and --snapshot exclude each other: a log has its own cluster, pods and settings",
        ),
        (["--log", "log.jsonl", *POLICY, "--replace", "all"], "--log and --replace exclude each other"),
        (["--log", "log.jsonl"], "there are no policies to compare with"),
        (["--log", "log.jsonl", *POLICY], "log.jsonl: no such decision log"),
        ([*POLICY], "no cluster:"),
        ([*CLUSTER, *POLICY, "--by", "zoen"], "no node has the label zoen"),
        ([*CLUSTER, *POLICY, "--most", "5", "--format", "yaml"], "--most is about tables, and --format yaml has every change"),
    ],
)
def test_contradicting_flags_are_refused(wharf, flags, said):
    code, out, err = wharf("diff", *flags)
    assert (code, out) == (2, "")
    assert said in err


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "decisions.jsonl"
    return path, recorded(path, rounds=25)


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_over_a_log_the_changes_are_those_of_replay(wharf, log, tmp_path):
    path, running = log
    second = written(tmp_path, "second.policy", SECOND)
    code, out, _ = wharf("diff", "--log", path, "--policy", second, "--format", "json")
    found = json.loads(out)
    replayed = json.loads(wharf("replay", path, "--policy", second, "--format", "json")[1])["changes"]
    assert code == 0
    assert found["decisions"] == len(running.decisions)
    assert [(each["pod"], each["before"]["node"], each["after"]["node"]) for each in found["changes"]] == [
        (each["pod"], each["node"], each["other"]) for each in replayed
    ]
    assert found["changes"]
    assert all(each["causes"] for each in found["changes"])


def test_the_function_compares_over_a_log_as_the_command_does(wharf, log, tmp_path):
    path, _ = log
    files = [written(tmp_path, name, text) for name, text in (("first.policy", FIRST), ("second.policy", SECOND))]
    first, second = map(wharfinger.load_policies, files)
    for against, flags in ((None, []), (first, ["--against", files[0]])):
        said = json.loads(wharf("diff", "--log", path, "--policy", files[1], *flags, "--format", "json")[1])
        found = wharfinger.diff(second, against, log=path)
        assert [(each.pod, each.before, each.after) for each in found.changes] == [
            (each["pod"], each["before"]["node"], each["after"]["node"]) for each in said["changes"]
        ]
    assert not wharfinger.diff(second, log=path, scheduler_name="another").changes


def test_the_function_requires_a_cluster_or_a_log(log):
    cluster = wharfinger.load_snapshot("cluster.yaml")
    on_cluster = {"cluster": cluster, "against": ()}
    for given in ({}, {"cluster": cluster}, {"cluster": cluster, "log": log[0]}, {**on_cluster, "scheduler_name": "x"}):
        with pytest.raises(wharfinger.UsageError, match="log="):
            wharfinger.diff((), **given)


def test_over_a_log_two_sets_of_policies_are_compared(wharf, log, tmp_path):
    path, running = log
    first, second = (written(tmp_path, name, text) for name, text in (("first.policy", FIRST), ("second.policy", SECOND)))
    code, out, _ = wharf("diff", "--log", path, "--policy", first, "--against", first)
    assert (code, f"nothing differs for {len(running.decisions)} decisions\n" in out) == (0, True)
    code, out, _ = wharf("diff", "--log", path, "--policy", first, "--against", second, "--exit-code")
    assert code == 1
    assert out.startswith("POD ")
    assert f"before: {second}\nafter:  {first}\n" in out
