"""`wharf capacity`: the report, its forms for programs, and bad input. docs/trying/what-if.md shows the table."""

import json

import pytest
import yaml

from wharfinger import api, load_snapshot
from wharfinger.errors import UsageError

NODE = {
    "kind": "Node",
    "metadata": {"name": "node-a", "labels": {"zone": "z1"}},
    "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
}


def pod(name, cpu="1", **spec):
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "x"}, "spec": {"containers": containers, **spec}}


def replicated(kind, replicas):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web")["spec"]}
    return {"kind": kind, "metadata": {"name": "web", "namespace": "x"}, "spec": {"replicas": replicas, "template": template}}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes the objects of a cluster and those of the request."""
    monkeypatch.chdir(tmp_path)

    def write(asked, *others):
        for name, found in (("cluster.yaml", [NODE, *others]), ("asked.yaml", asked)):
            versioned = [{"apiVersion": "apps/v1" if "Set" in each["kind"] else "v1", **each} for each in found]
            (tmp_path / name).write_text(yaml.safe_dump_all(versioned))
        return "capacity", "--snapshot", "cluster.yaml", "-f", "asked.yaml"

    return write


def test_a_pod_that_names_its_node_is_a_warning(wharf, files):
    code, _, err = wharf(*files([pod("train", nodeName="node-a")]))
    warning = "pod x/train: spec.nodeName is node-a, so no other node is tried; remove the field to try every node"
    assert (code, err) == (0, f"wharf: warning: {warning}\n")


def test_programs_get_everything(wharf, files):
    asked = files([pod("train", priority=5)], pod("low", nodeName="node-a", priority=1))
    code, out, err = wharf(*asked, "--by", "zone", "--format", "json")
    assert (code, err) == (0, "")
    (room,) = json.loads(out)["workloads"]
    stop = room.pop("stop")
    assert (stop["pod"], stop["reasons"], stop["nominated"], stop["victims"]) == (
        "x/train-3",
        {"Insufficient cpu": 1},
        "node-a",
        ["x/low"],
    )
    assert room == {
        "workload": "x/train",
        "pods": 1,
        "placed": 1,
        "more": 2,
        "atLeast": False,
        "added": None,
        "nodes": [{"node": "node-a", "placed": 1, "more": 2}],
        "by": {"zone": [{"value": "z1", "placed": 1, "more": 2}]},
        "changes": [
            {"change": "nodes", "like": "node-a", "count": 1, "more": 4, "atLeast": False},
            {"change": "less", "resource": "cpu", "amount": 500, "more": 3, "atLeast": False},
        ],
        "untried": [],
    }
    assert yaml.safe_load(wharf(*asked, "--by", "zone", "--format", "yaml")[1])["workloads"] == [room | {"stop": stop}]


def test_people_read_what_preemption_would_do(wharf, files):
    _, out, _ = wharf(*files([pod("train", priority=5)], pod("low", nodeName="node-a", priority=1)))
    assert "    it would fit on node-a if x/low were evicted\n" in out


@pytest.mark.parametrize(("cpu", "code"), [("1", 0), ("5", 1)])
def test_the_exit_code_shows_whether_all_fit(wharf, files, cpu, code):
    asked = files([pod("one", cpu)])
    assert wharf(*asked, "--exit-code")[0] == code
    assert wharf(*asked)[0] == 0


def test_a_pod_without_a_feasible_node_has_no_room(wharf, files):
    _, out, _ = wharf(*files([pod("one", "5")]))
    assert out.startswith("x/one: 0 of 1 pod fit, and 0 more\n")
    gated = files([pod("one", schedulingGates=[{"name": "wait"}])])
    assert "waiting for scheduling gates: [wait]" in wharf(*gated)[1]


def test_the_limit_is_reported(wharf, files):
    _, out, _ = wharf(*files([pod("one", "1m")]), "--most", "7")
    assert out.startswith("x/one: 1 of 1 pod fits, and at least 7 more\n")
    assert "finds no node" not in out


@pytest.mark.parametrize(
    ("asked", "flags", "sentence"),
    [
        ([pod("one")], ["--like", "node-b", "--nodes", "2"], "there is no node node-b; did you mean node-a?"),
        ([pod("one")], ["--nodes", "2"], "--nodes needs --like NODE, the node to copy"),
        ([pod("one")], ["--like", "node-a", "--nodes", "100001"], "'--nodes'"),
        ([pod("one")], ["--most", f"1{'0' * 30}"], "'--most'"),
        ([pod("one")], ["--by", "zne"], "no node has the label zne; did you mean zone?"),
        ([replicated("ReplicaSet", 0)], [], "there are no pods to place; give a pod, or a workload with at least one pod"),
        ([replicated("DaemonSet", 1)], [], "DaemonSet x/web has one pod for each node"),
    ],
)
def test_bad_input_is_refused(wharf, files, asked, flags, sentence):
    code, out, err = wharf(*files(asked), *flags)
    assert (code, out) == (2, "")
    assert sentence in err


def test_without_a_file_and_pending_pods_the_flag_is_named(wharf, files):
    code, out, err = wharf(*files([])[:3])
    assert (code, out) == (2, "")
    assert err == "wharf: the cluster has no pending pods to count room for; give a pod or a workload with --pods\n"


def test_the_same_from_python(files, tmp_path):
    files([pod("train")])
    cluster = load_snapshot(tmp_path / "cluster.yaml", pods=[tmp_path / "asked.yaml"])
    found = api.capacity([], cluster, nodes=2, like="node-a", changes=False)
    assert [(room.workload, room.total, room.added.more) for room in found.rooms] == [("x/train", 12, 8)]
    with pytest.raises(UsageError, match="like= is the node"):
        api.capacity([], cluster, nodes=2)
