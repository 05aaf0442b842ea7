"""Names and annotations in a file are texts of others: in a report they stay on their line, and move no cursor of a terminal."""

import json

import pytest

ODD = "\x1b[2J\nFORGED"
POLICY = """
policy "site"
let note = pod.annotations["note"] ?? ""
filter f {
  require node.name == "far" else "{node.name}: {note}"
}
"""


def node(name):
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"zone": f"z{ODD}"}}, "status": status}


def pod(name, cpu, **spec):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    metadata = {"name": name, "namespace": "shop", "annotations": {"note": f"a{ODD}"}, "ownerReferences": [owner]}
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "containers": containers}}


@pytest.fixture
def question(tmp_path):
    """The flags that name a cluster with odd names, and a policy that repeats them in its messages."""
    near = f"near{ODD}"
    items = [node(near), node("far"), pod(f"runs{ODD}", "1", nodeName=near), pod(f"waits{ODD}", "5"), pod(f"fits{ODD}", "1")]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    new = pod(f"new{ODD}", "1", nodeSelectr={})
    del new["metadata"]["ownerReferences"]  # a workload's name is its controller's
    (tmp_path / "new.json").write_text(json.dumps(new))
    (tmp_path / "site.policy").write_text(POLICY)
    return ["--snapshot", tmp_path / "cluster.json", "--policy", tmp_path / "site.policy"]


@pytest.mark.parametrize(
    "words",
    [
        ("dry-run",),
        ("dry-run", "--explain"),
        ("dry-run", "--explain", "--node", f"near{ODD}"),
        ("dry-run", "-f", "NEW"),
        ("capacity", "-f", "NEW"),
        ("capacity", "-f", "NEW", "--by", "zone"),
        ("drain", f"near{ODD}"),
        ("drain", "nowhere"),
        ("diff", "--replace", "all", "--by", "zone"),
        ("diff", "--replace", "all", "--format", "markdown"),
        ("rebalance", "--goal", "violations", "--min-age", "0s"),
        ("rebalance", "--goal", "free-nodes", "--min-age", "0s"),
        ("explain", "pod", f"fits{ODD}"),
        ("explain", "pod", "fits"),
        ("explain", "policy", "site"),
    ],
)
def test_texts_of_users_stay_on_their_line(wharf, question, tmp_path, words):
    given = [tmp_path / "new.json" if word == "NEW" else word for word in words]
    code, out, err = wharf(*given, *question)
    assert code in {0, 1, 2}
    assert not [
        line for line in f"{out}{err}".splitlines() if not line.isprintable() or line.lstrip().startswith(("FORGED", "wharf: FORGED"))
    ]
