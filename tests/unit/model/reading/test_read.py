"""Objects are read from lists, documents, folders, archives and standard input."""

import gzip
import io
import json
import sys

import pytest

import wharfinger
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import documents, files, workloads

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1", "namespace": "shop"}, "spec": {"nodeName": "n1"}}
EVENT = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop"}}


def kubectl_list(*items, **more):
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}, **more}


def as_json(plain, indent=None):
    return json.dumps(plain, indent=indent).encode()


def names(found):
    return sorted(objects.key_of(obj) for kind in found.by_kind.values() for obj in kind)


@pytest.mark.parametrize("indent", [None, 4, 2])
def test_a_list_as_kubectl_prints_it(indent):
    found = files.read_bytes(as_json(kubectl_list(NODE, POD, EVENT), indent))
    assert names(found) == ["n1", "shop/p1"]
    assert found.nodes[0].status.allocatable == {"cpu": "4"}
    assert found.pods[0].spec.node_name == "n1"
    assert found.ignored == {"Event": 1}
    assert len(found) == 2


def test_a_list_as_the_api_server_prints_it():
    bare = [{"metadata": {"name": name}} for name in ("a", "b")]
    found = files.read_bytes(as_json({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": bare}))
    assert [node.metadata.name for node in found.nodes] == ["a", "b"]
    found = files.read_bytes(as_json({"apiVersion": "v1", "items": None, "kind": "NodeList"}))
    assert len(found) == 0


def test_one_object_an_array_lines_and_a_list_in_a_list():
    assert names(files.read_bytes(as_json(NODE))) == ["n1"]
    assert names(files.read_bytes(as_json([NODE, POD]))) == ["n1", "shop/p1"]
    assert names(files.read_bytes(as_json(NODE) + b"\n" + as_json(kubectl_list(POD)))) == ["n1", "shop/p1"]
    assert names(files.read_bytes(as_json(kubectl_list(kubectl_list(NODE), POD)))) == ["n1", "shop/p1"]


def nested_lists(depth):
    value = NODE
    for _ in range(depth):
        value = {"apiVersion": "v1", "kind": "List", "items": [value]}
    return value


@pytest.mark.parametrize("content", [as_json(nested_lists(300)), b"---\n" + as_json(nested_lists(30))])
def test_lists_nested_for_no_reason_are_refused(content):
    with pytest.raises(InvalidObject, match=r"^f: item 0: item 0: item 0 \(List\): it is a List in a List in a List"):
        files.read_bytes(content, "f")


@pytest.mark.parametrize("content", [b"a: " + b"[" * 100_000, b"- " * 100_000, b"a: " + b"{a: " * 900 + b"}" * 900])
def test_yaml_too_deep_for_its_parser_is_refused_before_it_is_parsed(content):
    with pytest.raises(InvalidObject, match=r"f: values are nested more than 200 levels deep"):
        files.read_bytes(content, "f")


def test_brackets_in_text_are_not_depth():
    found = files.read_bytes(b"{apiVersion: v1, kind: Node, metadata: {name: n, annotations: {log: '" + b"[" * 1000 + b"'}}}")
    assert found.nodes[0].metadata.annotations == {"log": "[" * 1000}


YAML = b"""
# a comment
apiVersion: v1
kind: Node
metadata: {name: n1, creationTimestamp: 2026-01-01T00:00:00Z, labels: {since: 2024-01-01}}
status: {allocatable: {cpu: 4, memory: 1Gi}}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: p1, namespace: shop}, spec: {nodeName: n1}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
"""


def test_yaml_of_several_documents():
    found = files.read_bytes(YAML)
    assert names(found) == ["n1", "shop/p1"]
    assert found.ignored == {"ConfigMap": 1}
    assert found.nodes[0].status.allocatable == {"cpu": "4", "memory": "1Gi"}
    assert found.nodes[0].metadata.labels == {"since": "2024-01-01"}, "a date in YAML is text to Kubernetes"


def test_yaml_in_braces_is_not_taken_for_json():
    assert names(files.read_bytes(b"{apiVersion: v1, kind: Node, metadata: {name: n1}}")) == ["n1"]
    with pytest.raises(InvalidObject, match="not JSON: trailing comma"):
        files.read_bytes(b'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1",}}')


def test_json_documents_between_yaml_separators():
    assert names(files.read_bytes(b"---\n" + as_json(NODE) + b"\n---\n" + as_json(POD))) == ["n1", "shop/p1"]
    assert names(files.read_bytes(as_json(NODE) + b"\n---\n" + as_json(POD))) == ["n1", "shop/p1"]


def test_files_folders_gzip_and_standard_input(tmp_path, monkeypatch):
    (tmp_path / "nodes.json").write_bytes(as_json(kubectl_list(NODE)))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "pods.yaml.gz").write_bytes(gzip.compress(b"{apiVersion: v1, kind: Pod, metadata: {name: p2}}"))
    (tmp_path / "deep" / "big.json.gz").write_bytes(gzip.compress(as_json(kubectl_list(POD))))
    (tmp_path / "notes.txt").write_text("not read")
    (tmp_path / ".hidden.json").write_text("{")
    assert names(files.read_objects([tmp_path])) == ["default/p2", "n1", "shop/p1"]
    stdin = io.TextIOWrapper(io.BytesIO(gzip.compress(as_json(POD))))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert names(files.read_objects(["-", tmp_path / "nodes.json"])) == ["n1", "shop/p1"]


def test_paths_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match=r"gone.json: No such file"):
        files.read_objects([tmp_path / "gone.json"])
    with pytest.raises(UsageError, match=r"no files that end in \.json"):
        files.read_objects([tmp_path])
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(as_json(kubectl_list(NODE, POD)))[:-12])
    with pytest.raises(InvalidObject, match=r"cut.json.gz: broken gzip"):
        files.read_objects([tmp_path / "cut.json.gz"])


def test_a_folder_with_very_many_files_is_not_searched_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_FILES", 3)
    for number in range(4):
        (tmp_path / f"notes-{number}").touch()
    (tmp_path / "node.json").write_bytes(as_json(NODE))
    with pytest.raises(UsageError, match=r"this folder has more than 3 files; name the folder or the files that have the objects"):
        files.read_objects([tmp_path])


def test_the_last_of_two_versions_counts():
    newer = {**POD, "spec": {"nodeName": "n2"}}
    found = files.read_bytes(as_json(kubectl_list(POD, newer)))
    assert [pod.spec.node_name for pod in found.pods] == ["n2"]
    assert found.replaced == 1
    assert found.skipped == ("Pod shop/p1 is there more than once; the last one counts",)


def test_equal_versions_are_not_named_and_different_ones_are_counted():
    others = [{**POD, "metadata": {**POD["metadata"], "name": f"p{number}"}} for number in range(4)]
    changed = [{**pod, "spec": {"nodeName": "n2"}} for pod in others[1:]]
    found = files.read_bytes(as_json(kubectl_list(*others, NODE, *others, NODE, *changed)))
    assert found.replaced == 8
    assert found.skipped == ("Pod shop/p1 and 2 more are there more than once; the last one counts",)


def test_duplicates_in_a_file_written_by_hand_are_reported():
    """kubectl takes the last object too, and refuses a mapping with a key twice, of which one would be without effect."""
    found = files.read_bytes(as_json(kubectl_list(POD, NODE, POD)), "web.json", written=True)
    assert found.skipped == ("Pod shop/p1 is there more than once; the last one counts",)

    twice = b"kind: Pod\nmetadata: {name: web}\nspec:\n  nodeSelector: {disk: ssd}\n  nodeSelector: {gpu: a100}\n"
    assert files.read_bytes(twice).pods[0].spec.node_selector == {"gpu": "a100"}
    with pytest.raises(InvalidObject, match=r'^web.yaml: line 5: the key "nodeSelector" is there twice$'):
        files.read_bytes(twice, "web.yaml", written=True)


def test_kinds_of_other_groups_are_not_mistaken():
    knative = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "s"}}
    found = files.read_bytes(as_json(kubectl_list(knative)))
    assert found.ignored == {"Service": 1}
    assert len(found) == 0


def test_budgets_of_v1beta1_are_refused_as_their_empty_selector_means_something_else():
    budget = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"selector": {}}}
    with pytest.raises(InvalidObject, match=r"\(PodDisruptionBudget b\): policy/v1beta1 is not read: .* write it as policy/v1$"):
        files.read_bytes(as_json(kubectl_list(budget)))
    found = files.read_bytes(as_json(kubectl_list(budget, NODE)), skip_invalid=True)
    assert (len(found), len(found.skipped)) == (1, 1)
    assert len(files.read_bytes(as_json(kubectl_list({**budget, "apiVersion": "policy/v1"})))) == 1


def test_the_second_of_two_pods_with_the_same_uid_is_refused():
    pods = [{**POD, "metadata": {"name": name, "namespace": "shop", "uid": "abc"}} for name in ("a", "b")]
    sentence = "Pod shop/b: metadata.uid: abc is that of Pod shop/a; remove it from one of them"
    with pytest.raises(InvalidObject, match=f"^{sentence}$"):
        files.read_bytes(as_json(kubectl_list(*pods)))
    found = files.read_bytes(as_json(kubectl_list(*pods)), skip_invalid=True)
    assert ([pod.metadata.name for pod in found.pods], found.skipped) == (["a"], (sentence,))


def test_a_workload_of_another_group_is_named_with_its_group():
    volcano = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}}
    found = files.read_bytes(as_json(kubectl_list(volcano)), "job.json", written=True)
    assert workloads.left_out(found) == ["1 Job of batch.volcano.sh/v1alpha1 left out: no pods are created from this kind"]


BROKEN = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad", "namespace": "shop"}, "spec": {"containers": 3}}


@pytest.mark.parametrize("content", [as_json(kubectl_list(NODE, BROKEN, POD)), as_json([NODE, BROKEN, POD])])
def test_a_broken_object_is_named_and_left_out_only_on_request(content):
    message = "cluster.json: item 1 (Pod shop/bad): spec.containers: expected a list, got a number"
    with pytest.raises(InvalidObject) as caught:
        files.read_bytes(content, "cluster.json")
    assert str(caught.value).replace("a whole number", "a number") == message
    found = files.read_bytes(content, "cluster.json", skip_invalid=True)
    assert names(found) == ["n1", "shop/p1"]
    assert len(found.skipped) == 1
    assert "item 1 (Pod shop/bad)" in found.skipped[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", None),
        (b"{}", "f: it has no kind"),
        (b'{"kind": "Pod", "apiVersion": "v1"}', "f (Pod): metadata.name: it has no name"),
        (b'{"kind": 7}', "f: kind: expected text, got a whole number"),
        (b'{"kind": "List", "items": {}}', "f: items: expected a list, got an object"),
        (b"kind: List\nitems: 7\n", "f: items: expected a list"),
        (b"just words", "f: neither JSON nor YAML objects"),
        (b"a: b: c", "f: not YAML: mapping values are not allowed in this context at line 1, column 5"),
        (b"a:\n\tb: 1\n", "at line 2, column 1; line 2 is indented with a tab, write spaces"),
        ("a:\n\u00a0 b: 1\n  c: 1\n".encode(), "at line 3, column 4; line 2 is indented with the character U+00A0, write spaces"),
        (b"a: {{ .Values.a }}\n", "; `{{ \u2026 }}` is of a template, which has to be rendered first, as `helm template` does"),
        (b"\xff\xfek", "it is not UTF-8 text"),
        (b"k: \x00", "it is not UTF-8 text, as it has zero bytes"),
        (b'[1, "x"]', "f: item 0: it is not an object"),
        (b"[", "f: not JSON: it ends too early"),
        (b"[" * 100_000 + b"]" * 100_000, "f: not JSON that can be read: its values are nested too deeply"),
        (b"{\x00", "zero bytes"),
        ('{"kind": "List"}'.encode("utf-16"), "f: it is UTF-16; write it as UTF-8, in PowerShell by `| Out-File -Encoding utf8 FILE`"),
        (as_json(kubectl_list(NODE, POD))[:120], "not JSON: it ends too early"),
        (as_json(kubectl_list(NODE, POD)).replace(b'"p1"', b'"p1'), "item 1, which starts at byte 138, is not JSON"),
    ],
)
def test_content_without_objects_is_reported(content, message):
    if message is None:
        assert len(files.read_bytes(content, "f")) == 0
        return
    with pytest.raises(InvalidObject) as caught:
        files.read_bytes(content, "f")
    assert message in str(caught.value)


def test_a_written_workload_without_its_api_version_is_refused():
    workload = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": {"spec": {"containers": []}}}}
    with pytest.raises(InvalidObject, match=r"\(Deployment web\): it has no apiVersion; expected what `kubectl get"):
        files.read_bytes(as_json(kubectl_list(workload)), "web.json", written=True)


def test_items_with_objects_like_items_inside_are_read_whole():
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"rs{number}", "uid": "u"} for number in range(3)]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "ownerReferences": owners, "managedFields": owners}}
    for indent in (None, 4):
        found = files.read_bytes(as_json(kubectl_list(pod, NODE, pod | {"metadata": {"name": "q"}}), indent))
        assert names(found) == ["default/p", "default/q", "n1"]
        assert [owner.name for owner in found.pods[0].metadata.owner_references] == ["rs0", "rs1", "rs2"]


def test_items_longer_than_a_chunk(monkeypatch):
    monkeypatch.setattr(documents, "CHUNK", 64)
    items = [{**NODE, "metadata": {"name": f"n{number}", "annotations": {"x": "y" * number}}} for number in range(200)]
    # The head of the List has to be in the first chunk, or it is read in one piece; both ways give the same.
    assert len(files.read_bytes(as_json(kubectl_list(*items))).nodes) == 200
    monkeypatch.setattr(documents, "CHUNK", 8)
    assert len(files.read_bytes(as_json(kubectl_list(*items))).nodes) == 200


METRICS = {"cpu_busy": {"n1": 0.5, "n2": {"value": 0.75, "time": "2026-01-01T00:00:00Z"}, "n3": {"value": 1, "time": 1000.5}, "n4": None}}
SAMPLES = {"cpu_busy": {"n1": (0.5, None), "n2": (0.75, 1767225600.0), "n3": (1.0, 1000.5)}}


@pytest.mark.parametrize(
    "plain",
    [
        kubectl_list(NODE, metrics=METRICS),
        {"metrics": METRICS},
        {"kind": "MetricSamples", "apiVersion": "wharfinger.dev/v1alpha1", "metrics": METRICS},
    ],
)
def test_metrics_stand_with_objects_or_alone(plain):
    found = files.read_bytes(as_json(plain))
    assert found.metrics == SAMPLES
    assert len(found) == len(plain.get("items", []))


def test_metrics_in_yaml_and_over_several_files(tmp_path):
    (tmp_path / "a.yaml").write_text("metrics:\n  m: {n1: 1, n2: {value: 2, time: 2026-01-01T00:00:00Z}}\n")
    (tmp_path / "b.yaml").write_text("metrics:\n  m: {n1: 3}\n  k: {n1: 1.5}\n")
    assert files.read_objects([tmp_path]).metrics == {"m": {"n1": (3.0, None), "n2": (2.0, 1767225600.0)}, "k": {"n1": (1.5, None)}}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], "f: metrics: expected metric names"),
        ({"m": 1}, "f: metrics: m: expected a value for every node"),
        ({"m": {"n": "high"}}, "f: metrics: m.n: expected"),
        ({"m": {"n": {"value": "x"}}}, "f: metrics: m.n: value: expected a number, got text"),
        ({"m": {"n": {"value": 1, "age": "10min"}}}, "f: metrics: m.n: "),
        ({"m": {"n": {"value": 1, "time": 1767225600000}}}, "f: metrics: m.n: a time is in seconds since 1970"),
    ],
)
def test_bad_metrics_are_named(table, message):
    with pytest.raises(InvalidObject) as caught:
        files.read_bytes(as_json({"metrics": table}), "f")
    assert message in str(caught.value)
    assert files.read_bytes(as_json({"metrics": table}), "f", skip_invalid=True).skipped


def test_not_a_number_is_not_a_metric():
    with pytest.raises(InvalidObject, match="finite"):
        files.read_bytes(b"metrics: {m: {n: .nan}}")


def test_equal_parts_of_pods_are_kept_once():
    pods = [
        {
            **POD,
            "metadata": {"name": f"p{number}", "labels": {"app": "web"}, "uid": str(number)},
            "spec": {
                "nodeName": "n1",
                "volumes": [{"name": f"token-{number}", "projected": {}}],
                "containers": [{"name": "c", "image": "nginx"}],
            },
        }
        for number in range(3)
    ]
    first, second, third = files.read_bytes(as_json(kubectl_list(*pods))).pods
    assert (first.metadata.name, second.metadata.name, third.metadata.uid) == ("p0", "p1", "2")
    assert second.spec.containers is first.spec.containers
    assert second.metadata.labels is third.metadata.labels
    assert second.spec.volumes == (), "volumes that decide nothing are left out"


def test_standard_input_is_read_once(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"kind": "List", "items": []}')))
    files.read_objects(["-"])
    with pytest.raises(UsageError, match="only once"):
        files.read_objects(["-"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(as_json(POD))))
    with pytest.raises(UsageError, match="only once"):
        files.read_objects(["-", "-"])


def test_standard_input_is_read_once_by_readers_of_different_kinds(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'policy "p"\n')))
    wharfinger.load_policies("-")
    for read in (wharfinger.load_policies, wharfinger.load_config, wharfinger.load_snapshot):
        with pytest.raises(UsageError, match="only once"):
            read("-")


def test_templates_that_were_read_are_those_of_the_pods(tmp_path):
    spec = {"containers": [{"name": "main", "image": "a"}]}
    names = {"a": {"app": "x"}, "b": {"app": "x"}, "c": {"app": "y"}}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": n, "namespace": "n", "labels": labels}, "spec": spec}
        for n, labels in names.items()
    ]
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    found = files.read_objects([tmp_path / "pods.json"])
    assert found.templates == {f"n/{pod.metadata.name}": PodView(pod).template for pod in found.pods}
    assert len(set(found.templates.values())) == 2
