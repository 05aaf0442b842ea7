"""The nodes and pods of tests inside policies: every field has its effect."""

import pytest

from wharfinger.language import test_steps
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.test_steps import NODE_FIELDS, POD_FIELDS
from wharfinger.model import objects
from wharfinger.model.objects.node_view import NodeView
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.policies import scenario

NODE_SAMPLES = {
    "cpu": "4cpu",
    "memory": "16Gi",
    "ephemeral_storage": "100Gi",
    "pods": "20",
    "resources": '{ "nvidia.com/gpu": 2 }',
    "capacity": "{ cpu: 5cpu, ephemeral_storage: 1Gi }",
    "labels": '{ "a/b": "c" }',
    "annotations": '{ note: "x" }',
    "taints": '["dedicated=gpu:NoSchedule", "old:PreferNoSchedule"]',
    "unschedulable": "true",
    "conditions": '{ Ready: "False", DiskPressure: "True" }',
    "images": '{ "web:1": 120Mi }',
    "devices": '[{ count: 2, attributes: { model: "A100" } }]',
    "age": "2h",
}
POD_SAMPLES = {
    "namespace": '"shop"',
    "namespace_labels": '{ tier: "gold" }',
    "labels": '{ app: "web" }',
    "annotations": '{ note: "x" }',
    "requests": '{ cpu: 500m, memory: 1Gi, "nvidia.com/gpu": 1 }',
    "limits": "{ memory: 2Gi }",
    "priority": "1000",
    "priority_class": '"high"',
    "qos": '"Guaranteed"',
    "owner": '{ kind: "ReplicaSet", name: "web-1" }',
    "node_selector": '{ disktype: "ssd" }',
    "tolerations": '["dedicated=gpu:NoSchedule", "old:NoExecute", "any"]',
    "host_ports": "[80, 443]",
    "images": '["web:1", "proxy:2"]',
    "devices": '{ "gpu.example.com": 2 }',
    "holds": '["gpu-1"]',
    "scheduler_name": '"wharfinger"',
    "service_account": '"robot"',
    "age": "90s",
}


def fields(kind, text):
    diagnostics = Diagnostics()
    file = parse(Source(name="t", text=f'policy "p"\ntest "t" {{\n {kind} x {text}\n place x\n expect x on y\n}}\n'), diagnostics)
    assert not list(diagnostics)
    [step] = [step for step in (file.tests or file.policy.items[0].tests)[0].steps if isinstance(step, test_steps.Object)]
    return scenario.plain(step.fields)


def node(text):
    return NodeView(0, decode.convert(scenario.node_manifest("x", fields("node", text)), objects.Node), [])


def pod(text, **more):
    return PodView(decode.convert(scenario.pod_manifest("x", fields("pod", text), **more), objects.Pod))


def test_every_field_of_the_language_has_a_sample_here():
    assert NODE_SAMPLES.keys() == NODE_FIELDS.keys()
    assert POD_SAMPLES.keys() == POD_FIELDS.keys()


@pytest.mark.parametrize("name", [name for name in NODE_SAMPLES if name != "devices"])  # which are other objects
def test_every_node_field_changes_the_node(name):
    assert node(f"{{ {name}: {NODE_SAMPLES[name]} }}").object != node("{ }").object


@pytest.mark.parametrize("name", [name for name in POD_SAMPLES if name not in {"namespace_labels", "holds"}])  # which change other objects
def test_every_pod_field_changes_the_pod(name):
    assert pod(f"{{ {name}: {POD_SAMPLES[name]} }}").object != pod("{ }").object


def test_a_node_with_everything():
    found = node("{ " + ", ".join(f"{name}: {text}" for name, text in NODE_SAMPLES.items()) + " }")
    assert found.allocatable == {"cpu": 4000, "memory": 16 * 2**30, "ephemeral-storage": 100 * 2**30, "pods": 20, "nvidia.com/gpu": 2}
    assert found.capacity["cpu"] == 5000
    assert found.capacity["ephemeral-storage"] == 2**30
    assert found.labels == {"kubernetes.io/hostname": "x", "a/b": "c"}
    assert [(taint.key, taint.value, taint.effect) for taint in found.taints] == [
        ("dedicated", "gpu", "NoSchedule"),
        ("old", "", "PreferNoSchedule"),
    ]
    assert found.conditions == {"Ready": "False", "DiskPressure": "True"}
    assert found.images == {"web:1": 120 * 2**20}
    assert found.created == test_steps.START.timestamp() - 7200


def test_a_pod_with_everything():
    found = pod("{ " + ", ".join(f"{name}: {text}" for name, text in POD_SAMPLES.items()) + " }")
    assert found.key == "shop/x"
    assert found.requests == {"cpu": 500, "memory": 2**30, "nvidia.com/gpu": 1}
    assert (found.priority, found.qos) == (1000, "Guaranteed")
    assert found.controller.name == "web-1"
    assert [(t.key, t.operator, t.value, t.effect) for t in found.object.spec.tolerations] == [
        ("dedicated", "Equal", "gpu", "NoSchedule"),
        ("old", "Exists", "", "NoExecute"),
        ("any", "Exists", "", ""),
    ]
    assert sorted(port for _, _, port in found.host_ports) == [80, 443]
    assert found.images == ("web:1", "proxy:2")
    assert found.created == test_steps.START.timestamp() - 90


def test_the_defaults_of_test_objects():
    assert node("{ }").allocatable == {"cpu": 8000, "memory": 32 * 2**30, "pods": 110}
    assert pod("{ }").requests == {}
    assert pod("{ }").object.status.phase == "Pending"
    assert pod("{ }", node="a").object.status.phase == "Running"


def test_like_takes_over_fields_and_merges_those_with_keys():
    base = fields("pod", '{ labels: { app: "web", tier: "web" }, priority: 5, tolerations: ["a"] }')
    own = fields("pod", '{ labels: { tier: "api" }, tolerations: ["b"] }')
    assert scenario.merged(base, own) == {"labels": {"app": "web", "tier": "api"}, "priority": "5", "tolerations": ["b"]}
