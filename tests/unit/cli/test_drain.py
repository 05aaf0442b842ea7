"""`wharf drain`: reports, selectors, exit codes and bad input."""

import json

import pytest
import yaml

import wharfinger

CLUSTER = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: node-a, labels: {pool: old}}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: node-b, labels: {pool: new}}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: node-c, labels: {pool: old}}, status: {allocatable: {cpu: "4", pods: "9"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, labels: {app: web}, ownerReferences: [{kind: ReplicaSet, name: web-5d, controller: true}]}
  spec: {nodeName: node-a, containers: [{name: c, resources: {requests: {cpu: "2"}}}], volumes: [{name: v, emptyDir: {}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: alone}
  spec: {nodeName: node-c, containers: [{name: c}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: waiting}
  spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
"""
BUDGET = """
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: web, namespace: default}
  spec: {selector: {matchLabels: {app: web}}}
  status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1}
"""
KUBECTL_DRAINS_ALL = ("--force", "--delete-emptydir-data")


@pytest.fixture
def snapshot(tmp_path):
    def write(text=CLUSTER):
        (tmp_path / "cluster.yaml").write_text(text)
        return tmp_path / "cluster.yaml"

    return write


def rows(printed):
    """The first three cells of each line about a pod, and the first word of the fourth."""
    lines = printed.split("\n\n")[0].splitlines()[1:]
    return [tuple(line.split()[:4]) for line in lines]


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        (("node-a",), [("-", "default/web", "node-a", "refused:")]),
        (("node-a", *KUBECTL_DRAINS_ALL), [("1", "default/web", "node-a", "node-b")]),
        (("node-a", *KUBECTL_DRAINS_ALL, "--ignore-daemonsets"), [("1", "default/web", "node-a", "node-b")]),
        (("node/node-a", *KUBECTL_DRAINS_ALL), [("1", "default/web", "node-a", "node-b")]),
        (("-l", "pool=old", *KUBECTL_DRAINS_ALL), [("1", "default/web", "node-a", "node-b"), ("2", "default/alone", "node-c", "gone:")]),
        (
            ("node-c", "node-a", *KUBECTL_DRAINS_ALL),
            [("1", "default/alone", "node-c", "gone:"), ("2", "default/web", "node-a", "node-b")],
        ),
        (
            ("-l", "pool in (old)", *KUBECTL_DRAINS_ALL, "--pending"),
            [
                ("1", "default/web", "node-a", "waits:"),
                ("2", "default/alone", "node-c", "gone:"),
                ("-", "default/waiting", "-", "node-b"),
            ],
        ),
    ],
)
def test_a_line_says_where_each_pod_goes(wharf, snapshot, flags, shown):
    code, out, _ = wharf("drain", *flags, "--snapshot", snapshot())
    assert code == 0
    assert rows(out) == shown


def test_pods_that_leave_alone_are_counted(wharf, snapshot):
    more = """
- apiVersion: v1
  kind: Pod
  metadata: {name: api, ownerReferences: [{kind: ReplicaSet, name: api-5d, controller: true}]}
  spec: {nodeName: node-a, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: patient}
  spec: {nodeSelector: {kubernetes.io/hostname: node-a}, tolerations: [{operator: Exists}], containers: [{name: c}]}
"""
    text = (CLUSTER + more).replace("{pool: old}", "{pool: old, kubernetes.io/hostname: node-a}", 1).replace('pods: "9"', 'pods: "2"', 1)
    _, out, _ = wharf("drain", "node-a", *KUBECTL_DRAINS_ALL, "--pending", "--snapshot", snapshot(text))
    assert [line for line in rows(out) if line[0] != "-"] == [
        ("1", "default/api", "node-a", "node-c"),
        ("2", "default/web", "node-a", "node-c"),
    ]
    assert "  1 alone in a step: a pod that waits may take the place of each as soon as it has left\n" in out
    _, out, _ = wharf("drain", "node-a", *KUBECTL_DRAINS_ALL, "--pending", "--format=json", "--snapshot", snapshot(text))
    assert [pod.get("alone") for pod in json.loads(out)["pods"]][:2] == [True, None]


def test_a_snapshot_without_budgets_is_reported_and_one_with_budgets_is_not(wharf, snapshot):
    _, out, err = wharf("drain", "node-a", "--snapshot", snapshot())
    assert "no PodDisruptionBudget is known" in out
    assert "has no PodDisruptionBudget, so every eviction counts as allowed" in err
    _, out, err = wharf("drain", "node-a", "--delete-emptydir-data", "--snapshot", snapshot(CLUSTER + BUDGET))
    assert err == ""
    assert "forbids more after 0 evictions" in out
    assert rows(out) == [("-", "default/web", "node-a", "forbidden:")]


def test_the_exit_code_distinguishes_a_clean_drain(wharf, snapshot):
    assert wharf("drain", "node-a", "--exit-code", "--snapshot", snapshot())[0] == 1
    assert wharf("drain", "node-a", "--exit-code", *KUBECTL_DRAINS_ALL, "--snapshot", snapshot())[0] == 0
    assert wharf("drain", "node-a", "--exit-code", *KUBECTL_DRAINS_ALL, "--snapshot", snapshot(CLUSTER + BUDGET))[0] == 1


def test_json_and_yaml_are_equal_and_everything(wharf, snapshot):
    _, out, _ = wharf("drain", "-l", "pool=old", *KUBECTL_DRAINS_ALL, "--remove", "--format", "json", "--snapshot", snapshot())
    _, other, _ = wharf("drain", "-l", "pool=old", *KUBECTL_DRAINS_ALL, "--remove", "--format", "yaml", "--snapshot", snapshot())
    value = json.loads(out)
    assert yaml.safe_load(other) == value
    web, alone = value["pods"]
    assert (web["outcome"], web["source"], web["replacement"]["node"], web["controller"]) == (
        "placed",
        "node-a",
        "node-b",
        "ReplicaSet/web-5d",
    )
    assert (alone["outcome"], alone["step"], "replacement" in alone) == ("gone", 2, False)
    assert value["summary"]["placed"] == value["summary"]["gone"] == 1
    assert (value["summary"]["before"]["nodes"], value["summary"]["after"]["nodes"]) == (3, 1)
    assert (value["removed"], value["hasBudgets"], value["steps"]) == (True, False, 2)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("nod-a",), "there is no node nod-a; did you mean node-a?"),
        ((), "no nodes to drain: name them"),
        (("-l", " "), "no nodes to drain: name them"),
        (("-l", "pool=older"), "--selector pool=older: no node has these labels"),
        (("-l", "pool=old,"), "selector 'pool=old,': a requirement is missing after `,`"),
        (("node-a", "-l", "pool=old"), "nodes and --selector exclude each other"),
        (("node-a", "--pending", "-f", "web.yaml"), "--pods and --pending exclude each other"),
    ],
)
def test_wrong_input_is_named(wharf, snapshot, flags, message):
    code, out, err = wharf("drain", *flags, "--snapshot", snapshot())
    assert (code, out) == (2, "")
    assert message in err


def test_a_node_without_pods_is_said_to_have_none(wharf, snapshot):
    code, out, _ = wharf("drain", "node-b", "--snapshot", snapshot())
    assert (code, out.splitlines()[0]) == (0, "no pods to evict from 1 node")


def test_the_function_gives_what_the_command_prints(snapshot):
    cluster = wharfinger.load_snapshot(snapshot())
    found = wharfinger.drain((), cluster, ["node-a", "node-c"], force=True, delete_empty_dir_data=True, pods=cluster.pending)
    assert [(pod.pod, pod.outcome.value, pod.node) for pod in found.pods] == [
        ("default/web", "waits", None),
        ("default/alone", "gone", None),
        ("default/waiting", "placed", "node-b"),
    ]
