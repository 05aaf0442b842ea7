"""The Helm chart: the same objects as by kustomize, installed, upgraded and removed by the real Helm."""

import re
import shlex
from functools import partial

import pytest
import yaml

from tests.cluster import chart, custom, deployment
from tests.cluster.chart import FOLDER, KUBERNETES, HelmFailed, values
from tests.cluster.permissions import NAMESPACE
from tests.cluster.waiting import eventually

VALUES = {
    "base": [],
    "overlays/admission": ["admission.enabled=true"],
    "overlays/admission-any-caller": ["admission.enabled=true", "admission.anyCaller=true"],
    "overlays/cert-manager": ["admission.enabled=true", "admission.certManager=true"],
    "overlays/monitoring": ["monitoring.serviceMonitor=true", "monitoring.alerts=true", "monitoring.dashboard=true"],
    "overlays/policy-apps": ["policyApps.enabled=true"],
}


@pytest.fixture
def helm(tmp_path, request):
    """Runs Helm, on the API server where the test has one."""
    cluster = request.getfixturevalue("control_plane") if "control_plane" in request.fixturenames else None
    return partial(chart.helm, folder=tmp_path, kubeconfig=cluster and cluster.kubeconfig)


def rendered(helm, *settings, source=FOLDER):
    text = helm("template", "wharfinger", source, "--namespace", NAMESPACE, "--kube-version", KUBERNETES, *values(*settings))
    return [found for found in yaml.safe_load_all(text) if found]


def by_name(objects):
    """The objects by kind and name, without what each tool adds for a rollout when the settings change, and to keep definitions."""
    found = {}
    for obj in yaml.safe_load_all(re.sub(r"wharfinger-settings-[a-z0-9]{10}\b", "wharfinger-settings", yaml.safe_dump_all(objects))):
        annotations = obj["metadata"].pop("annotations", {})
        annotations.pop("helm.sh/resource-policy", None)
        if obj["kind"] == "Deployment":
            obj["spec"]["template"]["metadata"]["annotations"].pop("checksum/settings", None)
        found[obj["kind"], obj["metadata"]["name"]] = {**obj, "annotations": annotations}
    return found


def test_there_are_values_for_every_overlay():
    assert {f"overlays/{path.name}" for path in (deployment.FOLDER / "overlays").iterdir()} | {"base"} == set(VALUES)


@pytest.mark.parametrize(("folder", "settings"), VALUES.items())
def test_its_objects_are_those_of_kustomize(started_control_plane, helm, folder, settings):
    by_kustomize = yaml.safe_load_all(started_control_plane.kubectl("kustomize", deployment.FOLDER / folder))

    assert by_name(rendered(helm, "namespace.create=true", *settings)) == by_name(found for found in by_kustomize if found)


def test_the_signals_component_is_there_too(helm):
    plain, more = (by_name(rendered(helm, *settings)) for settings in ([], ["signals.enabled=true"]))
    component = [
        found
        for path in (deployment.FOLDER / "components" / "signals").glob("[!k]*.yaml")
        for found in yaml.safe_load_all(path.read_text())
    ]

    assert {key: more[key] for key in more.keys() - plain.keys()} == by_name(component)


def test_every_object_is_in_the_chosen_namespace(helm):
    text = helm("template", "w", FOLDER, "--namespace", "elsewhere", "--kube-version", KUBERNETES, *values("admission.enabled=true"))

    assert NAMESPACE not in text
    assert "elsewhere/wharfinger-policies" in text


def test_values_reach_the_objects(helm):
    found = by_name(
        rendered(
            helm,
            "replicas=3",
            "image.digest=sha256:" + "a" * 64,
            "nodeSelector.pool=system",
            "settings.limits.binds=7",
            "settings.port=12345",
            "shippedPolicies={spread}",
            r"policies.gold\.policy=policy \"gold\"",
            "overrides.Deployment/wharfinger.spec.revisionHistoryLimit=1",
        )
    )
    spec = found["Deployment", "wharfinger"]["spec"]
    settings = yaml.safe_load(found["ConfigMap", "wharfinger-settings"]["data"]["wharf.yaml"])
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["template"]["spec"]["nodeSelector"]) == (3, 1, {"pool": "system"})
    assert spec["template"]["spec"]["containers"][0]["image"] == "registry.example/wharfinger@sha256:" + "a" * 64
    assert (settings["port"], [port["containerPort"] for port in spec["template"]["spec"]["containers"][0]["ports"]]) == (12345, [12345])
    assert (settings["limits"], settings["logging"]) == ({"binds": 7}, {"format": "json"})
    assert set(found["ConfigMap", "wharfinger-policies"]["data"]) == {"spread.policy", "gold.policy"}


WRONG = {
    "replica=3": "'replica' not allowed",
    "settings.limits.gracePeriod=soon": "/settings/limits/gracePeriod",
    "settings.limit=3": "'limit' not allowed",
    "image.digest=abc": "/image/digest",
    "policies.gold=x": "gold is not the file name of a policy",
    r"policies.\.\.policy=x": "..policy is not the file name of a policy",
    "policies.gold.policy=x": "a backslash stands before the dot",
    "overrides.deployment.x=1": "at '/overrides': additional properties 'deployment' not allowed",
    "settings.port=0": "there would be nothing for the probes to ask",
    "settings.leaderElection.leaderElect=false": "set replicas to 1",
    "admission.certManager=true": "admission.certManager is for the webhook",
    "admission.anyCaller=true": "admission.anyCaller is for the webhook",
    "shippedPolicies={nowhere}": "the project has no policy nowhere",
    "image.repository=": "there is no published image",
    "image.repository=registry.example/wharfinger:1.2": "/image/repository",
    "image.repository=a b": "/image/repository",
    "image.tag=1.2 beta": "/image/tag",
    "admission=null": "missing property 'admission'",
    "overrides.Deployment/wharfingr.spec.replicas=1": "these values make no object Deployment/wharfingr; there are",
}


@pytest.mark.parametrize(("setting", "said"), WRONG.items())
def test_wrong_values_are_refused_and_named(helm, setting, said):
    with pytest.raises(HelmFailed, match=re.escape(said)):
        rendered(helm, setting)


def test_the_notes_name_the_port_and_what_the_webhook_lacks(control_plane, helm):
    def notes(*settings):
        return helm("install", "w", FOLDER, "--dry-run=client", "--namespace", NAMESPACE, *values(*settings)).partition("NOTES:")[2]

    assert "deployment/wharfinger 10261 # then open http://localhost:10261/ui" in notes()
    assert "deployment/wharfinger 777 # then open http://localhost:777/ui" in notes("settings.port=777")
    assert "secret" not in notes()
    assert f"kubectl create secret tls wharfinger-admission -n {NAMESPACE}" in notes("admission.enabled=true")


def test_null_means_none(helm):
    assert rendered(helm, "policies=null", "shippedPolicies=null") == rendered(helm)


def test_helm_lint_finds_nothing(helm):
    assert "0 chart(s) failed" in helm("lint", "--strict", FOLDER, *values())


def test_the_archive_holds_all_that_the_chart_reads(helm, tmp_path):
    helm("package", FOLDER, "--destination", tmp_path)
    (archive,) = tmp_path.glob("wharfinger-*.tgz")

    assert rendered(helm, "shippedPolicies={spread}", source=archive) == rendered(helm, "shippedPolicies={spread}")


def test_the_chart_is_installed_upgraded_and_removed(control_plane, helm, kubectl):
    former = deployment.FOLDER.parent / "tests" / "cases" / "custom_resources" / "former" / "definitions.yaml"
    kubectl("apply", "-f", former)
    try:
        install = ("upgrade", "--install", "wharfinger", FOLDER, "--namespace", NAMESPACE, "--create-namespace", "--take-ownership")
        said = helm(*install, *values())
        assert f"kubectl rollout status deployment/wharfinger -n {NAMESPACE}" in said
        custom.wait_served(control_plane)
        custom.create(control_plane, "SchedulingPolicy", "gold", {"source": 'policy "gold"\nscore s = 1\n'})
        policies = partial(control_plane.api.get, "ConfigMap", "wharfinger-policies", NAMESPACE)
        assert list(policies()["data"]) == ["NO-POLICIES"]
        control_plane.api.patch("ConfigMap", "wharfinger-policies", {"data": {"mine.policy": "x"}}, NAMESPACE)

        deployed = partial(control_plane.api.get, "Deployment", "wharfinger", NAMESPACE)
        (upgrade,) = re.findall(r"helm upgrade wharfinger <this chart> (.*shippedPolicies.*)", said)
        helm("upgrade", "wharfinger", FOLDER, *shlex.split(upgrade))
        assert set(policies()["data"]) == {"spread.policy", "critical-off-spot.policy", "mine.policy"}, "what was added by hand stays"
        assert deployed()["metadata"]["generation"] == 1, "other policies are no rollout"

        helm(*install, *values("shippedPolicies={spread}", "settings.limits.binds=9"))
        assert set(policies()["data"]) == {"spread.policy", "mine.policy"}, "what was added by hand outlasts an upgrade"
        assert deployed()["metadata"]["generation"] == 2, "other settings are a rollout"
        helm(*install, *values("shippedPolicies={spread}", "settings.limits.binds=9"))
        assert deployed()["metadata"]["generation"] == 2, "the same values change nothing"

        helm("uninstall", "wharfinger", "--namespace", NAMESPACE)
        eventually(lambda: not control_plane.api.list("Deployment", NAMESPACE))
        assert custom.get(control_plane, "SchedulingPolicy", "gold"), "the definitions stay, with their objects"
    finally:
        custom.uninstall(control_plane)
        kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=60s")
