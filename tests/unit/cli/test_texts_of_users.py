"""Names, annotations and policies are texts of others: in a report they stay on their line, and move no cursor of a terminal."""

import itertools
import json

import pytest
import yaml

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
    assert not forged(f"{out}{err}")


def test_groups_that_a_search_cannot_place_are_named_on_one_line(wharf, question, tmp_path):
    (tmp_path / "site.policy").write_text('policy "site"\ngroup by pod.annotations["note"] { min_count 1 }\n')
    _, out, err = wharf("dry-run", "--pending", "--optimal", "1", *question)
    assert "the model does not include groups" in out
    assert not forged(f"{out}{err}")


def forged(text):
    """The lines that nobody but the author of a text has written, or that a terminal does not show as they are."""
    shown = text.split("\n")
    return [line for line in shown if not line.isprintable() or line.lstrip().startswith(("FORGED", "wharf: FORGED"))]


HIDDEN = "o\x7f\x9b31m\u202e\u2028\u200b\U000e0041"
"""What JSON and YAML need not escape. A terminal that reads UTF-8 may obey U+009B like an escape."""


@pytest.mark.parametrize(
    ("words", "output"),
    [*itertools.product([("dry-run", "--pending"), ("drain", HIDDEN)], ["json", "yaml"]), (("explain", "pod", f"shop/{HIDDEN}"), "json")],
)
def test_what_programs_read_says_the_same_and_can_be_shown(wharf, tmp_path, words, output):
    items = [node("near"), node(HIDDEN), pod(HIDDEN, "9"), pod(f"runs-{HIDDEN}", "1", nodeName=HIDDEN)]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    _, out, _ = wharf(*words, "--snapshot", tmp_path / "cluster.json", "--format", output)
    assert not forged(out)
    assert HIDDEN in json.dumps(yaml.safe_load(out) if output == "yaml" else json.loads(out), ensure_ascii=False)


POLICY_OF_OTHERS = r"""
policy "NAME\nFORGED\r"
filter f { require node.pod_count < 1 else "full\nFORGED\r" }
score s = if node.labels["KEY"] == "x" then 1 else 0 on missing 0
test "title\nFORGED\r" {
  node "n\nFORGED"
  pod p { labels: { "a": "b\nFORGED" } }
  running r on "n\nFORGED"
  place p
  expect p on "n\nFORGED"
  expect p pending message "x\nFORGED"
}
"""


@pytest.mark.parametrize(
    "words",
    [
        ("check",),
        ("check", "--cost"),
        ("check", "--format", "plain"),
        ("check", "--format", "github"),
        ("check", "--format", "json"),
        ("test",),
        ("test", "--coverage"),
        ("test", "--format", "plain"),
        ("test", "--format", "github"),
        ("test", "--format", "json"),
        ("test", "--format", "junit"),
        ("fmt", "--check"),
        ("prove",),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("key", ["a", r"a\nFORGED"], ids=["right", "wrong"])
def test_a_policy_and_the_name_of_its_file_stay_on_their_lines(wharf, tmp_path, monkeypatch, words, key):
    monkeypatch.chdir(tmp_path)
    for name in ("a.policy", "b\nFORGED\x1b[2J.policy"):
        (tmp_path / name).write_text(POLICY_OF_OTHERS.replace("NAME", name[0]).replace("KEY", key))
        _, out, err = wharf(*words, name)
        assert not forged(f"{out}{err}")
