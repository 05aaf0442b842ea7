"""`wharf rebalance`: reports, goals, exit codes and bad input."""

import io
import json
from types import SimpleNamespace

import pytest
import yaml

import wharfinger
from wharfinger.cli import live_cluster
from wharfinger.cli.commands.what_if import rebalance
from wharfinger.emit import Failed
from wharfinger.kube.api_errors import Forbidden, ServerError, Unreachable

CLUSTER = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: node-a}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: node-b}, status: {allocatable: {cpu: "4", pods: "9"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, ownerReferences: [{kind: ReplicaSet, name: web-5d, controller: true}]}
  spec: {nodeName: node-a, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: alone}
  spec: {nodeName: node-b, containers: [{name: c}]}
"""


@pytest.fixture
def snapshot(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return path


def test_a_line_says_what_each_step_does_and_the_summary_what_is_reached(wharf, snapshot):
    code, out, err = wharf("rebalance", "--goal", "free-nodes", "--snapshot", snapshot)
    assert code == 0
    assert out.splitlines()[:2] == ["STEP  POD          FROM    TO      WHY", "   1  default/web  node-a  node-b  frees node-a"]
    assert "free nodes: 0 → 1 by 1 move\n" in out
    assert "1  may not: no controller would create it again" in out
    assert "has no PodDisruptionBudget" in err


def test_few_of_many_pending_pods_are_named(wharf, snapshot):
    pending = "- {{apiVersion: v1, kind: Pod, metadata: {{name: p{0}}}, spec: {{containers: [{{name: c}}]}}}}\n"
    snapshot.write_text(CLUSTER + "".join(map(pending.format, range(7))))
    _, out, _ = wharf("rebalance", "--goal", "free-nodes", "--snapshot", snapshot)
    names = ", ".join(f"default/p{number}" for number in range(5))
    assert f"7 pending pods placed before the first move: {names} and 2 more\n" in out
    _, out, _ = wharf("rebalance", "--goal", "free-nodes", "--snapshot", snapshot, "--format", "json")
    assert len(json.loads(out)["summary"]["placedFirst"]) == 7


def test_the_exit_code_shows_whether_pods_move(wharf, snapshot):
    assert wharf("rebalance", "--goal", "free-nodes", "--exit-code", "--snapshot", snapshot)[0] == 1
    assert wharf("rebalance", "--goal", "violations", "--exit-code", "--snapshot", snapshot)[0] == 0


def test_json_and_yaml_are_equal_and_everything(wharf, snapshot):
    _, out, _ = wharf("rebalance", "--goal", "free-nodes", "--goal", "points", "--cost", "0.5", "--format", "json", "--snapshot", snapshot)
    _, other, _ = wharf(
        "rebalance", "--goal", "free-nodes", "--goal", "points", "--cost", "0.5", "--format", "yaml", "--snapshot", snapshot
    )
    value = json.loads(out)
    assert yaml.safe_load(other) == value
    assert [goal["goal"] for goal in value["goals"]] == ["free-nodes", "points"]
    (move,) = value["moves"]
    assert (move["pod"], move["source"], move["target"], move["cordon"], value["uncordon"]) == (
        "default/web",
        "node-a",
        "node-b",
        ["node-a"],
        ["node-a"],
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "no goal: give one or several with --goal: violations, free-nodes"),
        (("--goal", "free-gpus"), "no node offers nvidia.com/gpu"),
        (("--goal", "free-gpus", "--whole", "cpu"), "--whole cpu: expected RESOURCE=AMOUNT"),
        (("--goal", "free-gpus", "--whole", "cpu=0"), "the amount must be above 0"),
        (("--goal", "free-gpus", "--whole", "cpu=x"), "cpu: "),
        (("--goal", "points", "--whole", "cpu=4"), "are for the goal free-gpus, which is not given"),
        (("--goal", "points", "--min-age", "soon"), "--min-age: expected a duration"),
        (("--goal", "points", "--namespace", "shop"), "--namespace shop: the cluster has no pod there"),
        (("--goal", "points", "--pods-of", "x"), "--pods-of x: no running pod has this spec.schedulerName; they have default-scheduler"),
        (("--goal", "points", "--cost", "nan"), "--cost"),
        (("--goal", "points", "--apply"), "--apply moves pods of the running cluster; give --live"),
        (("--goal", "points", "-f", "pod.yaml"), "--pods has no meaning here"),
        (("--goal", "points", "--timeout", "5m"), "--timeout is about carrying out a plan; give --apply"),
    ],
)
def test_wrong_input_is_named(wharf, snapshot, flags, message):
    code, out, err = wharf("rebalance", *flags, "--snapshot", snapshot)
    assert (code, out) == (2, "")
    assert message in err


def test_the_function_gives_what_the_command_prints(snapshot):
    found = wharfinger.rebalance((), wharfinger.load_snapshot(snapshot), ["free-nodes"])
    assert [(move.pod, move.target) for move in found.moves] == [("default/web", "node-b")]
    assert not wharfinger.rebalance((), wharfinger.load_snapshot(snapshot), ["free-nodes"], most_priority=-1).moves
    assert not wharfinger.rebalance((), wharfinger.load_snapshot(snapshot), ["free-nodes"], pods_of="other").moves
    with pytest.raises(wharfinger.UsageError, match="unknown or missing goal"):
        wharfinger.rebalance((), wharfinger.load_snapshot(snapshot), ["more"])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--plan", "p.json", "--apply"], "--live and --apply"),
        (["--plan", "p.json", "--live"], "--live and --apply"),
        (["--plan", "p.json", "--live", "--apply", "--goal", "points"], "no --goal"),
        (["--plan", "p.json", "--live", "--apply", "--namespace", "shop"], "no --namespace"),
        (["--plan", "p.json", "--live", "--apply", "--min-age", "1h"], "no --min-age"),
        (["--plan", "p.json", "--live", "--apply", "-f", "web.yaml"], "no --pods"),
        (["--plan", "no-such-file.json", "--live", "--apply"], "no-such-file.json: No such file"),
        (["--goal", "points", "--live", "--apply", "--exit-code"], "--apply has exit codes of its own"),
        (["--undo-cordons"], "give --live"),
        (["--undo-cordons", "--live", "--goal", "points"], "no --goal"),
        (["--undo-cordons", "--live", "--most-cordons", "1"], "no --most-cordons"),
        (["--undo-cordons", "--live", "--apply"], "no --apply"),
        (["--undo-cordons", "--live", "--policy", "a.policy"], "no --policy"),
        (["--undo-cordons", "--live", "--format", "json"], "no --format"),
        (["--plan", "p.json", "--live", "--apply", "--format", "json"], "no --format"),
        (["--plan", "p.json", "--live", "--apply", "--skip-invalid"], "no --skip-invalid"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(wharf, flags, words):
    code, out, err = wharf("rebalance", *flags)
    assert (code, out) == (2, "")
    assert words in err


def test_a_line_that_nobody_can_read_does_not_end_a_plan(monkeypatch):
    class Gone(io.StringIO):
        def write(self, _text):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Gone())
    rebalance._report("uncordoning 2 cordoned nodes")


def test_a_cordon_that_another_rebalance_has_left_is_reported(wharf, snapshot):
    closed = "metadata: {name: node-b, annotations: {wharfinger.dev/cordoned-by: me}}, spec: {unschedulable: true}"
    snapshot.write_text(CLUSTER.replace("metadata: {name: node-b}", closed))
    code, _, err = wharf("rebalance", "--goal", "free-nodes", "--snapshot", snapshot)
    assert code == 0
    assert "still cordoned by another rebalance (me): node-b" in err


def test_an_outage_of_the_api_server_is_one_line_and_other_failures_are_one_each(capsys):
    clock = SimpleNamespace(monotonic=lambda: now[0])
    report = live_cluster.FailureLines(clock)
    now = [0.0]
    for now[0] in (0.0, 1.0, live_cluster.OUTAGE_SECONDS - 1):
        for kind in ("Node", "Pod"):
            report(Failed(f"watch of {kind}", Unreachable("no answer")))
            report(Failed(f"watch of {kind}", Forbidden(f"may not watch {kind}")))
    now[0] = live_cluster.OUTAGE_SECONDS
    report(Failed("watch of Pod", ServerError("busy")))
    assert capsys.readouterr().err.splitlines() == [
        "wharf: watch of Node: no answer; all watches are tried again",
        "wharf: watch of Node: may not watch Node",
        "wharf: watch of Pod: may not watch Pod",
        "wharf: watch of Pod: busy; all watches are tried again",
    ]
