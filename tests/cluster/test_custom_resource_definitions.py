"""The definitions of the custom resources, checked by a real API server."""

import pytest

from tests.cluster import custom
from tests.cluster.api import Refused

POLICY = {"source": 'policy "p"\nscore s = 1'}
APP = {"image": "web:1"}
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "web:1", "anything": {"goes": ["here"]}}]}}

ONE_OF = "give either a template or a workloadRef"
POLICY_ONE_OF = "give either the name of a policy or the source of one"

GOOD = [
    ("SchedulingPolicy", "p", {**POLICY, "mode": "Shadow", "params": {"reserve": "10%"}}),
    ("PlacementPreview", "a", {"template": TEMPLATE, "replicas": 3}),
    ("PlacementPreview", "b", {"workloadRef": {"kind": "Deployment", "name": "web"}, "policies": []}),
    ("PlacementPreview", "c", {"template": TEMPLATE, "policies": [{"name": "p"}, {"source": "policy", "params": {"x": "1"}}]}),
    ("PolicyApp", "web", {**APP, "port": 80, "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}, "policy": {"inline": "policy"}}),
    ("PolicyApp", "0web", APP),
]
BAD = [
    ("SchedulingPolicy", "p", {}, "spec.source: Required value"),
    ("SchedulingPolicy", "p", {"source": ""}, "should be at least 1 chars long"),
    ("SchedulingPolicy", "p", {**POLICY, "mode": "Maybe"}, "supported values"),
    ("SchedulingPolicy", "p", {**POLICY, "params": {"a-b": "1"}}, "the name of a param is a word of the policy language"),
    ("PlacementPreview", "p", {}, ONE_OF),
    ("PlacementPreview", "p", {"template": TEMPLATE, "workloadRef": {"kind": "Job", "name": "a"}}, ONE_OF),
    ("PlacementPreview", "p", {"workloadRef": {"kind": "Secret", "name": "a"}}, "Unsupported value"),
    ("PlacementPreview", "p", {"template": TEMPLATE, "policies": [{"params": {}}]}, POLICY_ONE_OF),
    ("PlacementPreview", "p", {"template": TEMPLATE, "replicas": 0}, "should be greater than or equal to 1"),
    ("PolicyApp", "web", {}, "spec.image: Required value"),
    ("PolicyApp", "web", {**APP, "policy": {}}, "give either the name of a policy or one inline"),
    ("PolicyApp", "web", {**APP, "policy": {"name": "a", "params": {"x": "1"}}}, "params are for an inline policy"),
    ("PolicyApp", "web", {**APP, "resources": {"requests": {"cpu": "lots"}}}, "should match"),
    ("PolicyApp", "web", {**APP, "env": [{"name": "A"}, {"name": "A"}]}, "Duplicate value"),
    ("PolicyApp", "0web", {**APP, "port": 80}, "the name is also that of a Service"),
    ("PolicyApp", "w" * 64, APP, "at most 63 characters"),
]  # fmt: skip


def test_the_server_accepts_them_without_reserve(defined):
    for found in defined.api.request("GET", custom.DEFINITIONS)["items"]:
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert "NonStructuralSchema" not in conditions


def test_a_definition_accepts_valid_objects_and_refuses_others_with_a_message(defined):
    for kind, name, spec in GOOD:
        stored = custom.create(defined, kind, name, spec)
        assert stored["spec"].items() >= spec.items()
        custom.delete(defined, kind, name)
    for kind, name, spec, sentence in BAD:
        with pytest.raises(Refused) as refused:
            custom.create(defined, kind, name, spec)
        assert sentence in str(refused.value), (kind, spec)


def test_omitted_fields_get_their_defaults(defined):
    assert custom.create(defined, "SchedulingPolicy", "p", POLICY)["spec"]["mode"] == "Enforce"
    spec = custom.create(defined, "PolicyApp", "web", {"image": "web:1"})["spec"]
    assert spec == {
        "image": "web:1",
        "replicas": 1,
        "schedulerName": "wharfinger",
        "driftPolicy": "Report",
        "evictionIntervalSeconds": 60,
    }


def test_kubectl_prints_columns_and_scales(defined, kubectl):
    custom.create(defined, "SchedulingPolicy", "p", POLICY)
    custom.create(defined, "PolicyApp", "web", APP)

    assert kubectl("get", "spol").splitlines()[0].split() == ["NAME", "STATUS", "MODE", "MATCHED", "ELIGIBLE", "NODES", "MESSAGE", "AGE"]
    assert kubectl("get", "papp").splitlines()[0].split() == ["NAME", "STATUS", "READY", "DESIRED", "POLICY", "DRIFTED", "MESSAGE", "AGE"]
    custom.create(defined, "PlacementPreview", "more", {"template": {"spec": {}}})
    assert kubectl("get", "pprev").splitlines()[0].split() == ["NAME", "STATUS", "PODS", "PLACED", "NODE", "MESSAGE", "AGE"]
    assert "policyapp.scheduling.wharfinger.dev/web" in kubectl("get", "wharfinger", "-o", "name")
    assert "Minimum time between two evictions" in kubectl("explain", "policyapps.spec.evictionIntervalSeconds")
    kubectl("scale", "papp/web", "--replicas=4")
    assert custom.get(defined, "PolicyApp", "web")["spec"]["replicas"] == 4


def test_the_command_prints_the_same(defined, kubectl, capsys):
    from wharfinger.cli.commands.run.run import wharf_install

    assert wharf_install(printed=True) == 0
    assert "configured" not in kubectl("diff", "--server-side", "-f", "-", content=capsys.readouterr().out)
