"""`wharf dry-run`: its input, reports, exit codes and error messages."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.golden import FOLDER, assert_golden

CLUSTER = "cluster.yaml"
POLICY = "web-spread.policy"
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def in_golden_folder(monkeypatch):
    monkeypatch.chdir(FOLDER / "dry_run")


@pytest.fixture
def cluster():
    return yaml.safe_load((FOLDER / "dry_run" / CLUSTER).read_text())


def unrevised(text):
    """The output without revisions, which differ with any change of the chain; these goldens are about other things."""
    return re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text)


@pytest.mark.parametrize(
    ("golden", "flags"),
    [
        ("table.txt", []),
        ("explain.txt", ["--explain"]),
        ("node.txt", ["--node", "c", "--pod", "web-critical"]),
        ("independent.txt", ["--mode", "independent"]),
        ("param.txt", ["--param", "max_per_node=1", "--param", "web-spread.keep_free=0%"]),
        ("report.json", ["--format", "json"]),
        ("report.yaml", ["--format", "yaml", "--explain", "--pod", "web-critical"]),
    ],
)
def test_each_format_of_the_report_is_as_recorded(wharf, golden, flags):
    code, out, err = wharf("dry-run", "--snapshot", CLUSTER, "--policy", POLICY, *flags)
    assert (code, err) == (0, "")
    assert_golden(f"dry_run/{golden}", unrevised(out))


def test_without_a_policy_the_built_in_chain_decides(wharf):
    code, out, _ = wharf("dry-run", "--snapshot", CLUSTER, "--pending")
    assert code == 0
    assert_golden("dry_run/no_policy.txt", out)


@pytest.mark.parametrize(
    ("golden", "flags"),
    [
        ("preemption.txt", []),
        ("preemption_protected.txt", ["--policy", "protect.policy"]),
        ("preemption_independent.txt", ["--policy", "protect.policy", "--mode", "independent"]),
        ("preemption.json", ["--policy", "protect.policy", "--format", "json"]),
    ],
)
def test_victims_of_preemption_are_reported(wharf, golden, flags):
    code, out, err = wharf("dry-run", "--snapshot", "preemption.yaml", *flags)
    assert (code, err) == (0, "")
    assert_golden(f"dry_run/{golden}", unrevised(out))


NOTE = "wharf: note: kube-scheduler.yaml: leaderElection: concerns a running scheduler, and changes nothing about where pods go\n"


def test_the_settings_of_kube_scheduler_apply(wharf):
    code, out, err = wharf("dry-run", "--snapshot", CLUSTER, "--config", "kube-scheduler.yaml", "--scheduler-name", "packing")
    assert (code, err) == (0, NOTE)
    assert_golden("dry_run/packing.txt", out)
    code, out, err = wharf("dry-run", "--snapshot", CLUSTER, "--config", "kube-scheduler.yaml")
    assert (code, err) == (0, NOTE)
    assert_golden("dry_run/no_policy.txt", out)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--scheduler-name", "a"], "--scheduler-name chooses a profile of --config; give the file too"),
        (["--config", "kube-scheduler.yaml", "--scheduler-name", "a"], "there are default-scheduler, packing"),
        (["--config", "nothing.yaml"], "nothing.yaml: No such file or directory"),
        (["--config", "cluster.yaml"], "cluster.yaml: apiVersion: expected kubescheduler.config.k8s.io/v1, not 'v1'"),
        (["--config", "param.txt"], "param.txt: "),
    ],
)
def test_settings_that_cannot_be_read_are_refused(wharf, flags, sentence):
    code, out, err = wharf("dry-run", "--snapshot", CLUSTER, *flags)
    assert (code, out) == (2, "")
    assert sentence in err


def test_json_and_yaml_are_equal(wharf):
    flags = ["dry-run", "--snapshot", CLUSTER, "--policy", POLICY, "--explain", "--node", "a"]
    _, as_json, _ = wharf(*flags, "--format", "json")
    _, as_yaml, _ = wharf(*flags, "--format", "yaml")
    assert json.loads(as_json) == yaml.safe_load(as_yaml)


def test_the_order_of_objects_in_the_file_does_not_matter(wharf, cluster, tmp_path):
    _, expected, _ = wharf("dry-run", "--snapshot", CLUSTER, "--policy", POLICY, "--explain", "--node", "b")
    for seed in range(3):
        random.Random(seed).shuffle(cluster["items"])
        (tmp_path / "shuffled.json").write_text(json.dumps(cluster))
        _, out, _ = wharf("dry-run", "--snapshot", tmp_path / "shuffled.json", "--policy", POLICY, "--explain", "--node", "b")
        assert out == expected


def test_the_terminal_and_the_locale_do_not_matter():
    """Two processes with nothing in common but the input."""
    printed = []
    for number, more in enumerate(({"COLUMNS": "40", "LC_ALL": "C.UTF-8"}, {"COLUMNS": "200", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"})):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "engine"), "PYTHONHASHSEED": str(number), **more}
        command = [
            sys.executable,
            "-c",
            "import sys; from wharfinger.cli import main; sys.exit(main())",
            "dry-run",
            "-s",
            CLUSTER,
            "--explain",
        ]
        printed.append(subprocess.run([*command, "-p", POLICY], env=environment, capture_output=True, check=True).stdout)
    assert printed[0] == printed[1]


def test_exit_code_shows_unplaced_pods_when_asked(wharf):
    assert wharf("dry-run", "--snapshot", CLUSTER)[0] == 0
    assert wharf("dry-run", "--snapshot", CLUSTER, "--exit-code")[0] == 1


def test_pods_of_a_workload_are_placed_instead_of_the_pending_ones(wharf, tmp_path):
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "shop", "namespace": "shop"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "shop"}},
            "template": {"metadata": {"labels": {"app": "shop", "tier": "web"}}, "spec": {"containers": [{"name": "main"}]}},
        },
    }
    (tmp_path / "shop.json").write_text(json.dumps(deployment))
    code, out, err = wharf("dry-run", "--snapshot", CLUSTER, "--pods", tmp_path / "shop.json", "--policy", POLICY, "--format", "json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert [pod["pod"].rpartition("-")[0].split("-")[0] for pod in report["pods"]] == ["shop/shop", "shop/shop"]
    assert sorted(pod["node"] for pod in report["pods"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--pods", "cluster.yaml", "--pending"], "--pods and --pending exclude each other"),
        (["--node", "d"], "there is no node d"),
        (["--pod", "web-9"], "--pod web-9: no pod to place has this name"),
        (["--param", "keep_free"], "--param keep_free: expected NAME=VALUE"),
        (["--param", "keep_free=1%", "--param", "keep_free=2%"], "--param keep_free is given twice"),
        (["--param", "keep_fre=20%"], "no policy has a param keep_fre; did you mean keep_free?"),
        (["--param", "keep_free=80%"], "outside of its range"),
        (["--param", "keep_free=2Gi"], "keep_free"),
    ],
)
def test_contradicting_flags_are_refused_in_one_sentence(wharf, flags, sentence):
    code, out, err = wharf("dry-run", "--snapshot", CLUSTER, "--policy", POLICY, *flags)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_label_that_no_node_has_is_a_warning_with_a_suggestion(wharf, tmp_path):
    policy = tmp_path / "typo.policy"
    policy.write_text('policy "typo"\n\nprefer one_zone weight 1 = (node.labels["zone"] ?? "") == "z1"\n')
    code, out, err = wharf("dry-run", "--snapshot", CLUSTER, "--policy", policy)
    assert (code, bool(out)) == (0, True)
    assert err == "wharf: warning: typo: label `zone` is on 0 of 3 nodes; did you mean `topology.kubernetes.io/zone` (3)?\n"


def test_a_broken_object_stops_the_run_unless_continuing_is_allowed(wharf, cluster, tmp_path):
    cluster["items"][0]["status"]["allocatable"]["cpu"] = "four"
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(cluster))
    code, out, err = wharf("dry-run", "--snapshot", broken)
    assert (code, out) == (2, "")
    assert "item 0" in err
    assert "cpu" in err
    code, out, err = wharf("dry-run", "--snapshot", broken, "--skip-invalid", "--format", "json")
    assert code == 0
    assert "item 0" in err
    assert json.loads(out)["summary"]["before"]["nodes"] == 2
    assert len(json.loads(out)["skipped"]) == 1


NO_PODS = [
    ("", ""),
    ("{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web}}", "1 Rollout left out: no pods are created from this kind"),
    (
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 0, template: {spec: {containers: [{name: a}]}}}}",
        "Deployment default/web has no pods: its replicas or its parallelism is 0",
    ),
]


@pytest.mark.parametrize(("text", "warning"), NO_PODS)
@pytest.mark.parametrize(
    "words", ["dry-run", "diff", "diff --replace all", "capacity", "drain node-a", "tune -p x.policy --objective moves"]
)
def test_files_without_pods_are_an_error(wharf, tmp_path, words, text, warning):
    (tmp_path / "asked.yaml").write_text(text)
    (tmp_path / "x.policy").write_text('policy "x"\nparam free: number = 1 range 0..2\nprefer any weight 1 = free > 1\n')
    code, out, err = wharf(*words.replace("x.policy", str(tmp_path / "x.policy")).split(), "-s", CLUSTER, "-f", tmp_path / "asked.yaml")
    assert (code, out) == (2, "")
    *warnings, error = err.splitlines()
    assert error == f"wharf: --pods {tmp_path / 'asked.yaml'}: there are no pods to place; give a pod, or a workload with at least one pod"
    assert warnings == [f"wharf: warning: {warning}"] * bool(warning)


def test_a_snapshot_without_nodes_is_an_error(wharf, tmp_path):
    empty = tmp_path / "empty.yaml"
    empty.write_text("apiVersion: v1\nkind: List\nitems: []\n")
    code, printed, complaint = wharf("dry-run", "--snapshot", empty)
    assert (code, printed) == (2, "")
    assert f"{empty}: the snapshot has no node, so no pod can be placed" in complaint


def test_an_amount_of_a_node_beyond_the_limit_is_reported(wharf, tmp_path):
    snapshot = tmp_path / "snapshot.yaml"
    snapshot.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 200m, memory: 83Pi, pods: '9'}}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}\n"
    )
    code, _, complaint = wharf("dry-run", "--snapshot", snapshot)
    assert code == 0
    assert "node a: status.allocatable['memory'] is 83Pi and counts as 8Pi" in complaint


MISSPELT = """
apiVersion: v1
kind: Pod
metadata: {name: one, lables: {app: web}}
spec: {nodeSelectr: {disk: ssd}, containers: [{name: main}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: two}
spec: {template: {spec: {schedulerNam: x, containers: [{name: main, resources: {request: {cpu: 1}}}]}}}
"""
UNKNOWN = [
    "(Pod one): metadata.lables: unknown field; did you mean labels?",
    "(Pod one): spec.nodeSelectr: unknown field; did you mean nodeSelector?",
    "(Deployment two): spec.template.spec.schedulerNam: unknown field; did you mean schedulerName?",
    "(Deployment two): spec.template.spec.containers[0].resources.request: unknown field; did you mean requests?",
]


def test_fields_that_kubernetes_does_not_know_are_warned_of_and_stop_a_strict_run(wharf, tmp_path):
    file = tmp_path / "pods.yaml"
    file.write_text(MISSPELT)
    code, out, err = wharf("dry-run", "--snapshot", CLUSTER, "-f", file)
    assert (code, err.splitlines()) == (0, [f"wharf: warning: {file} {sentence}" for sentence in UNKNOWN])
    assert "default/two-0" in out
    code, out, err = wharf("dry-run", "--snapshot", CLUSTER, "-f", file, "--strict")
    assert (code, out) == (2, "")
    assert err == "wharf: " + "".join(f"{file} {sentence}\n" for sentence in UNKNOWN)


def test_all_errors_of_all_manifests_are_reported_at_once_as_json_too(wharf, tmp_path):
    pods = [{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"nodeNam": "n", "priority": "x", "hostname": 1}}]
    pods += [{"kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": {"priority": "y"}}]
    file = tmp_path / "pods.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": pods}))
    code, out, err = wharf("dry-run", "--snapshot", CLUSTER, "-f", file)
    assert (code, out) == (2, "")
    assert [line.partition("item ")[2] for line in err.splitlines()] == [
        "0 (Pod a): spec.priority: expected a whole number, got text",
        "1 (Pod): spec.priority: expected a whole number, got text",
        "0 (Pod a): spec.nodeNam: unknown field; did you mean nodeName?",
    ]


def test_a_snapshot_may_have_fields_of_a_newer_kubernetes(wharf, tmp_path):
    file = tmp_path / "pods.yaml"
    file.write_text(MISSPELT)
    code, _, err = wharf("dry-run", "--snapshot", CLUSTER, "--snapshot", file)
    assert (code, err) == (0, "")
    assert wharf("dry-run", "--snapshot", CLUSTER, "--strict")[0] == 2


FULL = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}
"""


FRAGMENTED = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: "4", pods: "9"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, ownerReferences: [{kind: ReplicaSet, name: web, controller: true}]}
  spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
- {apiVersion: v1, kind: Pod, metadata: {name: db}, spec: {nodeName: n2, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: train}, spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]}}
"""


def test_a_plan_for_all_says_whether_its_moves_are_the_fewest(wharf, tmp_path):
    (tmp_path / "fragmented.yaml").write_text(FRAGMENTED)
    asked = ("dry-run", "--snapshot", str(tmp_path / "fragmented.yaml"), "--optimal", "30")
    assert "after 1 move, the fewest possible;" in wharf(*asked)[1]
    found = json.loads(wharf(*asked, "--format", "json")[1])["optimal"]
    assert (found["answer"], found["moves"], found["fewest"]) == ("found", 1, True)


def test_the_search_for_a_placement_of_all_is_part_of_the_report(wharf, tmp_path):
    (tmp_path / "full.yaml").write_text(FULL)
    code, out, _ = wharf("dry-run", "--snapshot", str(tmp_path / "full.yaml"), "--optimal", "30", "--exit-code")
    assert code == 1
    assert out.splitlines()[-1] == (
        "there is no placement of all of them, also if every pod moved that may, "
        "and pods left that must make room for pods of a higher priority"
    )
    _, out, _ = wharf("dry-run", "--snapshot", str(tmp_path / "full.yaml"), "--optimal", "30", "--format", "json")
    found = json.loads(out)["optimal"]
    assert (found["answer"], found["fewest"]) == ("none", False)
    _, out, _ = wharf("dry-run", "--snapshot", str(tmp_path / "full.yaml"), "--format", "json")
    assert "optimal" not in json.loads(out)
    code, _, err = wharf("dry-run", "--snapshot", str(tmp_path / "full.yaml"), "--optimal", "3", "--mode", "independent")
    assert (code, "about all pods together" in err) == (2, True)


def test_a_pod_with_the_uid_of_another_is_placed_under_a_new_one(wharf, tmp_path):
    """As `kubectl get pod -o yaml` prints it, with its uid; the API server gives each pod that is created a new one."""
    node = "{kind: Node, metadata: {name: n}, status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}}"
    pod = "{kind: Pod, metadata: {name: NAME, namespace: shop, uid: abc}, spec: {NODEcontainers: [{resources: {requests: {cpu: '1'}}}]}}"
    running, taken = pod.replace("NAME", "web"), pod.replace("NAME", "db").replace("abc", "Pod/shop/web")
    snapshot = "\n---\n".join([node, *(each.replace("NODE", "nodeName: n, ") for each in (running, taken))])
    (tmp_path / "cluster.yaml").write_text(snapshot)
    (tmp_path / "pods.yaml").write_text("\n---\n".join(pod.replace("NAME", name).replace("NODE", "") for name in ("web", "api", "job")))
    code, out, err = wharf("dry-run", "-s", tmp_path / "cluster.yaml", "-f", tmp_path / "pods.yaml", "--format", "json")
    found = json.loads(out)["summary"]
    assert (code, found["placed"], found["unschedulable"]) == (0, 2, 1)
    assert err == "wharf: warning: pod shop/web: the cluster has it on a node already; it is placed once more\n"


def test_a_scheduler_that_no_pending_pod_names_is_said_with_those_that_they_name(wharf):
    code, _, err = wharf("dry-run", "--snapshot", CLUSTER, "--pods-of", "nobody")
    sentence = "there are no pods to place; no pending pod has the spec.schedulerName nobody; they have default-scheduler"
    assert (code, err) == (0, f"wharf: warning: {sentence}\n")
