"""The objects that are made for a PolicyApp, and when they have to be written."""

import copy

import pytest

from wharfinger.crd.models import PolicyAppSpec
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.semantics.authority import CLUSTER
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.model.state.object_store import ObjectStore, TimeAndObjects
from wharfinger.operator import app_objects
from wharfinger.operator.app_objects import NoPolicy, restricted_to_app

APP = ObjectMeta(name="web", namespace="shop", uid="u-1")


def spec(**fields):
    return PolicyAppSpec.model_validate({"image": "web:1", **fields})


def stored(body):
    """The object as an API server has it: with defaults of its own, and quantities in another spelling."""
    found = copy.deepcopy(body)
    found["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    container = found["spec"]["template"]["spec"]["containers"][0]
    container |= {"imagePullPolicy": "Always", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {}}}
    container.setdefault("env", []).append({"name": "INJECTED", "value": "1"})
    return found


def test_a_deployment_has_everything_that_is_asked_for():
    made = app_objects.deployment(APP, spec(replicas=3, port=80, env=[{"name": "A", "value": "b"}], policy={"name": "gold"}))
    template = made["spec"]["template"]

    assert made["spec"]["replicas"] == 3
    assert template["spec"]["schedulerName"] == "wharfinger"
    assert template["metadata"]["labels"].items() >= made["spec"]["selector"]["matchLabels"].items()
    assert template["metadata"]["labels"]["scheduling.wharfinger.dev/policy"] == "gold"
    assert template["spec"]["containers"] == [
        {
            "name": "app",
            "image": "web:1",
            "env": [{"name": "A", "value": "b"}],
            "ports": [{"name": "main", "containerPort": 80, "protocol": "TCP"}],
        }
    ]
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "scheduling.wharfinger.dev/v1alpha1",
            "kind": "PolicyApp",
            "name": "web",
            "uid": "u-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_a_policy_name_that_is_no_label_is_none():
    made = app_objects.deployment(APP, spec(policy={"name": "not a label"}))

    assert "scheduling.wharfinger.dev/policy" not in made["spec"]["template"]["metadata"]["labels"]


def test_a_service_only_with_a_port():
    assert app_objects.service(APP, spec()) is None
    assert app_objects.service(APP, spec(port=80))["spec"]["ports"][0]["targetPort"] == 80


def test_the_server_s_own_additions_and_spellings_are_no_difference():
    wanted = app_objects.deployment(APP, spec(resources={"requests": {"cpu": "0.5", "memory": 1024**3}}, env=[{"name": "A"}]))

    assert app_objects.holds(wanted["spec"], stored(wanted)["spec"])


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: spec.update(replicas=9),
        lambda spec: spec["template"]["spec"].update(schedulerName="default-scheduler"),
        lambda spec: spec["template"]["spec"]["containers"][0].update(image="other"),
        lambda spec: spec["template"]["spec"]["containers"][0]["env"].clear(),
        lambda spec: spec["template"]["spec"]["containers"][0]["resources"]["requests"].update(cpu="501m"),
        lambda spec: spec["template"]["spec"]["containers"].clear(),
        lambda spec: spec["template"]["metadata"]["labels"].clear(),
    ],
)
def test_edits_of_owned_fields_are_detected(edit):
    wanted = app_objects.deployment(APP, spec(resources={"requests": {"cpu": "0.5"}}, env=[{"name": "A", "value": "b"}]))
    found = stored(wanted)["spec"]
    edit(found)

    assert not app_objects.holds(wanted["spec"], found)


def test_removed_fields_change_the_digest():
    with_port, without = (app_objects.deployment(APP, spec(**more)) for more in ({"port": 80}, {}))

    assert app_objects.holds(without["spec"], with_port["spec"])
    assert not app_objects.holds(without["metadata"]["annotations"], with_port["metadata"]["annotations"])


TEXT = """# mine
policy "east" version "1.0.0"
@owner("me")

for pods where pod.namespace == "shop"
  or pod.priority > 3   # the rest

filter zone { require node.name == "a" else "no" }

test "one" {
  node a {}
  pod p {}
  place p
  expect p on a
}
"""


def test_an_inline_policy_is_held_to_the_app_and_keeps_its_lines():
    held = restricted_to_app(TEXT, name="shop.web", namespace="shop", app="web")
    lines, before = held.splitlines(), TEXT.splitlines()

    assert 'policy "shop.web" version "1.0.0"' in held
    assert "test" not in held
    assert '(pod.namespace == "shop"\n  or pod.priority > 3) and pod.namespace == "shop" and' in held
    assert [number for number, line in enumerate(lines) if "filter zone" in line] == [
        number for number, line in enumerate(before) if "filter zone" in line
    ]


def test_an_inline_policy_without_a_scope_gets_one():
    from wharfinger.model import objects
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.reading import decode
    from wharfinger.operator.preview_question import compiled

    own = {APP_LABEL: "web"}
    for text in (
        'policy "east" score s = 1',
        'policy "east" version "1.0.0" @owner("me")\nscore s = 1',
        'policy "east"\nfor pods\nscore s = 1',
        'policy "east"\nfor pods where true or true\nscore s = 1',
    ):
        policy = compiled(restricted_to_app(text, name="shop.web", namespace="shop", app="web"), {}, CLUSTER)
        governed = {
            (namespace, bool(labels)): policy.governs(
                PodView(decode.convert({"metadata": {"name": "p", "namespace": namespace, "labels": labels}}, objects.Pod)),
                TimeAndObjects(0.0, ObjectStore()),
            )
            for namespace in ("shop", "other")
            for labels in (own, {})
        }
        assert governed == {("shop", True): True, ("shop", False): False, ("other", True): False, ("other", False): False}


def test_a_text_that_is_no_policy_is_refused():
    with pytest.raises(PolicyError):
        restricted_to_app('policy "x"\nfilter {', name="a.b", namespace="a", app="b")
    with pytest.raises(NoPolicy):
        restricted_to_app("let x = 1", name="a.b", namespace="a", app="b")


APP_LABEL = "scheduling.wharfinger.dev/app"
