"""A captured cluster that was written is read again unchanged."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.reading import decode, documents, files, snapshot_file
from wharfinger.model.state.cluster_state import ClusterState

PODS = Path(__file__).parents[3] / "cases" / "model" / "pod-requests.jsonl.gz"
NOON = 1_800_000_000.9
SELECTOR = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
MANIFESTS = [
    (
        "v1",
        "Node",
        {"spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}, "status": {"allocatable": {"cpu": 4}}},
    ),
    ("v1", "Namespace", {"metadata": {"name": "x", "labels": {"team": "a"}}}),
    ("v1", "Service", {"spec": {"selector": {"app": "web"}}}),
    ("v1", "ReplicationController", {"spec": {"selector": {"app": "web"}, "replicas": 0}}),
    ("apps/v1", "ReplicaSet", {"spec": {"selector": SELECTOR, "replicas": 3}}),
    ("apps/v1", "StatefulSet", {"spec": {"selector": SELECTOR}}),
    ("v1", "PersistentVolumeClaim", {"spec": {"storageClassName": "", "accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}}),
    ("v1", "PersistentVolume", {"spec": {"capacity": {"storage": "1Gi"}, "nodeAffinity": {"required": TERMS}, "claimRef": {"name": "c"}}}),
    ("storage.k8s.io/v1", "StorageClass", {"provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}),
    ("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 0}}]}}),
    ("storage.k8s.io/v1", "CSIDriver", {"spec": {"storageCapacity": True}}),
    ("storage.k8s.io/v1", "CSIStorageCapacity", {"storageClassName": "fast", "capacity": "1Gi", "nodeTopology": SELECTOR}),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"selector": {}}, "status": {"disruptionsAllowed": 0, "disruptedPods": {"p": None}}}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": -5, "preemptionPolicy": "Never", "globalDefault": True}),
    (
        "resource.k8s.io/v1",
        "ResourceSlice",
        {
            "spec": {
                "driver": "gpu.example.com",
                "pool": {"name": "n1", "generation": 2, "resourceSliceCount": 1},
                "nodeName": "n1",
                "devices": [
                    {
                        "name": "gpu-0",
                        "attributes": {
                            "model": {"string": "a100"},
                            "index": {"int": 0},
                            "healthy": {"bool": False},
                            "v": {"version": "1.2.3"},
                        },
                        "capacity": {
                            "memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}}
                        },
                        "taints": [{"key": "k", "effect": "NoExecute"}],
                        "consumesCounters": [{"counterSet": "s", "counters": {"slots": {"value": 2}}}],
                        "allowMultipleAllocations": True,
                    }
                ],
            }
        },
    ),
    (
        "resource.k8s.io/v1",
        "DeviceClass",
        {
            "spec": {
                "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"mode": ["a", {"b": 1}]}}}],
                "extendedResourceName": "example.com/gpu",
            }
        },
    ),
    (
        "resource.k8s.io/v1",
        "ResourceClaim",
        {
            "spec": {
                "devices": {
                    "requests": [{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu", "count": 2}]}],
                    "constraints": [{"requests": ["r"], "matchAttribute": "example.com/numa"}],
                }
            },
            "status": {
                "allocation": {
                    "devices": {
                        "results": [{"request": "r/s", "driver": "d", "pool": "p", "device": "x", "shareID": "1", "adminAccess": False}]
                    },
                    "nodeSelector": TERMS,
                },
                "reservedFor": [{"resource": "pods", "name": "web", "uid": "u"}],
            },
        },
    ),
    (
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        {"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]}}}},
    ),
]


def written(objs, word=None):
    return b"".join(
        snapshot_file.document((snapshot_file.encoded(obj, version) for version, obj in objs), word or snapshot_file.capture_at(NOON))
    )


def read_one(kind, found):
    return found.of(kind)[0]


@pytest.mark.parametrize(("version", "kind", "manifest"), MANIFESTS, ids=[kind for _, kind, _ in MANIFESTS])
def test_objects_come_back_as_they_were(version, kind, manifest):
    struct = objects.KINDS[version.rpartition("/")[0], kind]
    metadata = {"name": "x", "uid": "u", "resourceVersion": "8", "creationTimestamp": "2026-01-05T10:00:00Z"}
    obj = decode.convert({"metadata": metadata, **manifest}, struct)
    found = files.read_bytes(written([(version, obj)]))
    assert read_one(struct, found) == obj
    assert not found.ignored


def test_pods_of_all_kinds_come_back_as_they_were():
    lines = gzip.decompress(PODS.read_bytes()).splitlines()[:400]
    made = [decode.convert(json.loads(line)["pod"], objects.Pod) for line in lines]
    pods = [msgspec.structs.replace(pod, metadata=objects.ObjectMeta(name=f"p{i}")) for i, pod in enumerate(made)]
    assert list(files.read_bytes(written([("v1", pod) for pod in pods])).pods) == pods


@pytest.mark.parametrize("chunk", [64, documents.CHUNK])
def test_large_files_are_read_in_pieces(monkeypatch, chunk):
    monkeypatch.setattr(documents, "CHUNK", chunk)
    pods = [objects.Pod(metadata=objects.ObjectMeta(name=f"p{i}")) for i in range(5)]
    found = files.read_bytes(written([("v1", pod) for pod in pods], snapshot_file.capture_at(NOON, ["nodes: no"])))
    assert (len(found.pods), found.taken_at, found.skipped) == (5, 1_800_000_000.0, ("-: nodes: no",))


def test_a_captured_cluster_is_the_same_with_and_without_a_file():
    applied = {snapshot_file.LAST_APPLIED: "{}", "kept": "yes"}
    alike = {"spec": {"containers": [{"name": "main", "image": "web"}]}}
    made = [
        (version, decode.convert({"metadata": {"name": "x"}, **each}, objects.KINDS[version.rpartition("/")[0], kind]))
        for version, kind, each in MANIFESTS
    ]
    made += [("v1", decode.convert({"metadata": {"name": f"p{i}", "annotations": applied}, **alike}, objects.Pod)) for i in range(2)]
    word = snapshot_file.capture_at(NOON, ["nodes: no"])
    found = files.of_capture([obj for _, obj in made], word, "-")
    assert found == files.read_bytes(written(made, word))
    first, second = found.pods
    assert first.spec.containers is second.spec.containers
    assert first.metadata.annotations == {"kept": "yes"}


def test_a_cluster_without_objects_is_a_file_too():
    found = files.read_bytes(written([]))
    assert (len(found), found.taken_at) == (0, 1_800_000_000.0)


def test_rules_take_the_time_from_the_capture():
    old = decode.convert({"metadata": {"name": "a", "creationTimestamp": "2001-01-01T00:00:00Z"}}, objects.Node)
    found = files.read_bytes(written([("v1", old)]))
    assert ClusterState.from_objects(found).snapshot().now == 1_800_000_000.0
    assert ClusterState.from_objects(found, now=5.0).snapshot().now == 5.0


def test_objects_newer_than_the_capture_count_despite_another_clock():
    new = decode.convert({"metadata": {"name": "a", "creationTimestamp": "2040-01-01T00:00:00Z"}}, objects.Node)
    assert ClusterState.from_objects(files.read_bytes(written([("v1", new)]))).snapshot().now == 2_208_988_800.0


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ('{"takenAt": "yesterday"}', "takenAt: invalid RFC3339 encoded datetime"),
        ('{"notRead": "all"}', "notRead: expected a list, got text"),
        ("[]", "expected an object, got a list"),
    ],
)
def test_a_word_that_cannot_be_read_is_named(form, word, sentence):
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [], "capture": {word}}}'
    content = text if form == "json" else f"apiVersion: v1\nkind: List\nitems: []\ncapture: {word}\n"
    with pytest.raises(InvalidObject, match=f"^-: capture: {sentence}"):
        files.read_bytes(content.encode())
    assert files.read_bytes(content.encode(), skip_invalid=True).skipped[0].startswith("-: capture: ")
