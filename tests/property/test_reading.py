"""Reading any file returns objects, or reports each object that cannot be read; it raises no other exception."""

import json
import re

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView, kept_volumes
from wharfinger.model.reading import decode, documents, files, workloads

CONTAINER = {
    "name": "c",
    "image": "x:1",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    "ports": [{"containerPort": 80, "hostPort": 80}],
}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
SPEC = {
    "nodeName": "n1",
    "priority": 1,
    "containers": [CONTAINER],
    "initContainers": [{**CONTAINER, "restartPolicy": "Always"}],
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": SELECTOR, "topologyKey": "z"}]}},
    "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}, {"name": "token", "projected": {}}],
}
METADATA = {
    "name": "p",
    "namespace": "ns",
    "uid": "u",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"a": "b"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}],
}
STATUS = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}}],
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": METADATA, "spec": SPEC, "status": STATUS}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"zone": "z"}},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4"}, "images": [{"names": ["a"], "sizeBytes": 1}]},
}
WORKLOAD = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "w"}, "spec": {"replicas": 2, "template": {"spec": SPEC}}}
INNER = {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n2"}}]}
LIST = {
    "apiVersion": "v1",
    "items": [NODE, POD, WORKLOAD, INNER],
    "kind": "List",
    "metadata": {},
    "metrics": {"m": {"n1": 1, "n2": {"value": 2}}},
}

odd = st.sampled_from([None, True, 0, -1, 1.5, 10**30, "", "x", "1e999", "\u0000", [], {}, [None], [[]], {"a": None}, {"": 1}])


def places(value, path=()):
    """Every path in a JSON value."""
    found = [path]
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        found += places(entry, (*path, key))
    return found


PLACES = places(LIST)[1:]


def with_change(value, path, new):
    if not path:
        return new
    changed = dict(value) if isinstance(value, dict) else list(value)
    try:
        changed[path[0]] = with_change(changed[path[0]], path[1:], new)
    except (KeyError, IndexError, TypeError):  # an earlier change took the place away
        return value
    return changed


@st.composite
def mutated(draw):
    value = LIST
    for path, new in draw(st.lists(st.tuples(st.sampled_from(PLACES), odd), max_size=3)):
        value = with_change(value, path, new) if isinstance(value, dict) else value
    return value


def strictly(content):
    """The value that is read, or the sentence that refuses it."""
    try:
        return files.read_bytes(content, "file")
    except InvalidObject as error:
        return str(error)


def same_reasons(strict, skipped):
    """True if a line for each reason, with the place each time, equals one sentence with all reasons."""
    lines = strict.splitlines()
    ends = (match.end() for match in re.finditer(": ", lines[0]))
    shared = (lines[0][:end] for end in ends if all(line.startswith(lines[0][:end]) for line in lines))
    return any(place + "; ".join(line.removeprefix(place) for line in lines) == skipped for place in shared)


def check(content):
    found = files.read_bytes(content, "file", skip_invalid=True)
    for pod in found.pods:
        assert PodView(pod).demand
    workloads.expand(found)
    strict = strictly(content)
    assert same_reasons(strict, found.skipped[0]) if found.skipped else strict == found
    assert not found.skipped or strict.startswith("file")


@given(mutated(), st.sampled_from([None, 1, 4]))
@settings(max_examples=60)
def test_json_with_strange_values(value, indent):
    check(json.dumps(value, indent=indent).encode())


@given(mutated())
@settings(max_examples=25)
def test_yaml_with_strange_values(value):
    check(yaml.safe_dump(value).encode())


@given(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 40), st.binary(max_size=6)), min_size=1, max_size=4), st.booleans()
)
@settings(max_examples=80)
def test_json_with_broken_bytes(damages, pretty):
    content = json.dumps(LIST, indent=4 if pretty else None).encode()
    for where, length, new in damages:
        at = int(where * len(content))
        content = content[:at] + new + content[at + length :]
    check(content)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_with_a_message(content):
    check(content)


names = st.text(alphabet="abcdef", min_size=1, max_size=3)
pods = st.builds(
    lambda name, node, label, volumes, phase: {
        **POD,
        "metadata": {**METADATA, "name": name, "uid": f"u-{name}", "labels": {"app": label}},
        "spec": {
            **SPEC,
            "nodeName": node,
            "volumes": [{"name": volume, "emptyDir" if volume < "c" else "projected": {}} for volume in volumes] + SPEC["volumes"],
        },
        "status": {**STATUS, "phase": phase},
    },
    names,
    names,
    names,
    st.lists(names, max_size=2),
    st.sampled_from(["Running", "Pending"]),
)


@given(
    st.lists(pods, max_size=8, unique_by=lambda pod: pod["metadata"]["name"]),
    st.sampled_from([16, 256, 1 << 20]),
    st.sampled_from([None, 4]),
)
@settings(max_examples=50)
def test_streamed_and_shared_objects_equal_those_decoded_alone(plain, chunk, indent):
    content = json.dumps({"apiVersion": "v1", "items": plain, "kind": "List", "metadata": {}}, indent=indent).encode()
    before, documents.CHUNK = documents.CHUNK, chunk
    try:
        found = files.read_bytes(content)
    finally:
        documents.CHUNK = before
    alone = [decode.decode_json(json.dumps(pod).encode(), objects.Pod) for pod in plain]
    assert [pod.metadata for pod in found.pods] == [pod.metadata for pod in alone]
    assert [pod.status for pod in found.pods] == [pod.status for pod in alone]
    for read_pod, own in zip(found.pods, alone, strict=True):
        assert PodView(read_pod).template == PodView(own).template
        assert read_pod.spec.node_name == own.spec.node_name
        assert read_pod.spec.volumes == kept_volumes(own.spec)
