"""Fields of manifests that Kubernetes does not know, and those that a workload lacks, are reported with their place."""

import json

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.reading import decode, files

CONTAINER = {"name": "main", "image": "x", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}
PROBED = {**CONTAINER, "livenessProbe": {"httpGet": {"path": "/", "port": 80, "httpHeaders": [{"name": "a", "value": "b"}]}}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"anything": "x"}}}
TEMPLATE = {"metadata": {"labels": {"nodeSelectr": "free"}}, "spec": {"containers": [PROBED], "topologySpreadConstraints": [SPREAD]}}
CLAIM = {"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
WELL_WRITTEN = [
    ("", "Pod", {"apiVersion": "v1", "kind": "Pod", **TEMPLATE, "status": {"whatever": 1}}),
    ("", "PodTemplate", {"template": TEMPLATE}),
    ("", "ReplicationController", {"spec": {"selector": {"app": "web"}, "template": TEMPLATE}}),
    ("apps", "ReplicaSet", {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}),
    ("apps", "StatefulSet", {"spec": {"template": TEMPLATE, "volumeClaimTemplates": [CLAIM]}}),
    ("apps", "Deployment", {"spec": {"strategy": {"rollingUpdate": {"maxSurge": "25%"}}, "template": TEMPLATE}}),
    ("apps", "DaemonSet", {"spec": {"template": TEMPLATE}}),
    ("batch", "Job", {"spec": {"backoffLimit": 1, "template": TEMPLATE}}),
    ("batch", "CronJob", {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}}),
]


def misspelt(value, place=""):
    """(the manifest with one field of it misspelt, its place, its name) for each field of each object in it that is no map of free keys."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            for changed, where, name in misspelt(entry, f"{place}[{index}]"):
                yield [*value[:index], changed, *value[index + 1 :]], where, name
    if not isinstance(value, dict) or place.rpartition(".")[2] in {"labels", "matchLabels", "requests", "selector", "status"}:
        return
    for key, entry in value.items():
        there = f"{place}.{key}" if place else key
        yield {(f"{key}x" if other == key else other): each for other, each in value.items()}, f"{there}x", key
        for changed, where, name in misspelt(entry, there):
            yield {**value, key: changed}, where, name


@pytest.mark.parametrize(("group", "kind", "manifest"), WELL_WRITTEN, ids=[kind for _, kind, _ in WELL_WRITTEN])
def test_a_well_written_manifest_has_none_and_each_misspelt_field_is_found(group, kind, manifest):
    assert decode.unknown_fields(manifest, group, kind) == ()
    selector = kind != "ReplicationController"  # there it is a map of labels
    for changed, where, name in misspelt(manifest):
        if selector or not where.startswith("spec.selector."):
            assert decode.unknown_fields(changed, group, kind) == (f"{where}: unknown field; did you mean {name}?",)


def test_every_kind_that_pods_are_made_of_is_known():
    assert {(group, kind) for group, kind, _ in WELL_WRITTEN} == decode.CHECKED_KINDS <= set(objects.KINDS)


@pytest.mark.parametrize(
    ("group", "kind", "manifest"),
    [
        ("", "Node", {"spec": {"tants": []}}),  # not what people hand in to be placed
        ("example.com", "Pod", {"x": 1}),
        ("", "Pod", None),
        ("", "Pod", {"spec": [{"containers": 7}]}),  # of the wrong shape: decoding reports it
        ("", "Pod", {"spec": {"containers": {"name": "a"}, "nodeSelector": [{"a": 1}], "overhead": "x"}}),
    ],
)
def test_fields_that_are_not_checked(group, kind, manifest):
    assert decode.unknown_fields(manifest, group, kind) == ()


def test_a_field_like_no_other_gets_no_suggestion():
    assert decode.unknown_template_fields({"spec": {"zzz": 1, 7: 2}}, "spec.template") == (
        "spec.template.spec.zzz: unknown field",
        "spec.template.spec.7: unknown field",
    )


def test_very_many_unknown_fields_are_counted():
    warnings = decode.unknown_fields({f"x{number}": 1 for number in range(1000)}, "", "Pod")
    assert len(warnings) == decode.MAX_NAMED + 1
    assert warnings[-1] == "950 more unknown fields"


WORKLOADS = {kind: manifest for _, kind, manifest in WELL_WRITTEN if kind != "Pod"}


def handed_in(kind, manifest):
    """The objects of a manifest that a user hands in."""
    version = next(f"{group}/v1" if group else "v1" for group, known, _ in WELL_WRITTEN if known == kind)
    written = {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, **manifest}
    return files.read_bytes(json.dumps(written).encode(), "web.json", written=True)


@pytest.mark.parametrize("kind", WORKLOADS)
@pytest.mark.parametrize("left", [None, {}])
def test_a_workload_that_describes_no_pods_is_refused_with_its_place(kind, left):
    """The API server refuses it too; without a word, its pods would ask for nothing and fit everywhere."""
    assert len(handed_in(kind, WORKLOADS[kind])) == 1
    manifest, path = json.loads(json.dumps(WORKLOADS[kind])), []
    there = manifest
    while "template" not in there:
        path.append(next(name for name in ("spec", "jobTemplate") if name in there))
        there = there[path[-1]]
    there["template"] = left
    where = ".".join([*path, "template"])
    with pytest.raises(InvalidObject) as refused:
        handed_in(kind, manifest)
    assert str(refused.value) == f"web.json ({kind} web): {where}: it is missing; it has the metadata and spec of the pods"
