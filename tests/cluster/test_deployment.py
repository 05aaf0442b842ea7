"""`kubectl apply -k deploy/` on a real API server, with the real kube-scheduler for its pods."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cluster import custom, deployment
from tests.cluster.kube_scheduler import start_kube_scheduler
from tests.cluster.permissions import NAMESPACE
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually
from tests.testbed import build

SELECTOR = "app.kubernetes.io/component=scheduler"
WHARF = Path(sys.executable).with_name("wharf")
NOT_INSTALLED = {"Certificate", "Issuer", "PrometheusRule", "ServiceMonitor"}


def rendered(control_plane, folder):
    return [found for found in yaml.safe_load_all(control_plane.kubectl("kustomize", folder)) if found]


def test_two_replicas_run_where_kube_scheduler_puts_them(control_plane, nodes):
    nodes(2)
    start_kube_scheduler(control_plane)
    deployment.apply(control_plane)
    try:
        control_plane.kubectl("rollout", "status", "deployment/wharfinger", "-n", NAMESPACE, "--timeout=60s")
        pods = control_plane.api.list("Pod", NAMESPACE, labelSelector=SELECTOR)
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"default-scheduler"}
        assert {pod["spec"]["priorityClassName"] for pod in pods} == {"system-cluster-critical"}
        budget = eventually(lambda: control_plane.api.get("PodDisruptionBudget", "wharfinger", NAMESPACE)["status"])
        assert budget["expectedPods"] == 2
        deployment.apply(control_plane)
        assert control_plane.api.get("Deployment", "wharfinger", NAMESPACE)["metadata"]["generation"] == 1, "applying twice changes nothing"
    finally:
        deployment.remove(control_plane)


def config_map(control_plane):
    return control_plane.api.get("ConfigMap", "wharfinger-policies", NAMESPACE)["data"]


def test_the_deployment_starts_without_policies_and_warnings_and_loads_added_policies(control_plane, tmp_path):
    deployment.apply(control_plane)
    try:
        with wharf_of_deploy(control_plane, tmp_path) as wharf:
            assert holds(wharf, 0, "no policies")
            assert "warning" not in wharf.log
            policy = (deployment.FOLDER.parent / "policies" / "spread.policy").read_text("utf-8")
            control_plane.api.patch("ConfigMap", "wharfinger-policies", {"data": {"spread.policy": policy}}, NAMESPACE)
            eventually(lambda: holds(wharf, 0, "spread  cluster  active"))
            deployment.apply(control_plane)
            assert set(config_map(control_plane)) == {"NO-POLICIES", "spread.policy"}, "what was added outlasts the next apply"
            control_plane.api.patch("ConfigMap", "wharfinger-policies", {"data": {"spread.policy": None}}, NAMESPACE)
            eventually(lambda: holds(wharf, 0, "no policies"))
    finally:
        deployment.remove(control_plane)


def wharf_of_deploy(control_plane, folder):
    """A `wharf run` with the settings of deploy/."""
    flags = (f"--config={deployment.FOLDER / 'base' / 'wharf.yaml'}", "--bind-address=127.0.0.1", f"--state-dir={folder}")
    return WharfProcess(control_plane, *flags, name="wharf-of-deploy")


def holds(wharf, code, last):
    """True if `wharf status` ends with that code, and its last line begins so; AssertionError otherwise."""
    command = [Path(sys.executable).with_name("wharf"), "status", "--url", wharf.url]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1].startswith(last), ran.stdout
    return True


@pytest.mark.parametrize("overlay", sorted((deployment.FOLDER / "overlays").iterdir()), ids=lambda path: path.name)
def test_overlays_are_taken_by_the_api_server(control_plane, overlay):
    found = [obj for obj in rendered(control_plane, overlay) if obj["kind"] not in NOT_INSTALLED]
    text = yaml.safe_dump_all(found)
    control_plane.kubectl("create", "namespace", NAMESPACE)
    try:
        control_plane.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", content=text)
    finally:
        control_plane.kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")


def test_own_policies_replace_the_empty_folder(control_plane, tmp_path):
    (tmp_path / "mine.policy").write_text('policy "mine"\nscore s = 1\n')
    generator = {"name": "wharfinger-policies", "namespace": NAMESPACE, "behavior": "replace", "files": ["mine.policy"]}
    base = "../" * (len(tmp_path.parts) - 1) + str(deployment.FOLDER / "base")[1:]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [base], "configMapGenerator": [generator]}))

    maps = {obj["metadata"]["name"]: obj["data"] for obj in rendered(control_plane, tmp_path) if obj["kind"] == "ConfigMap"}
    assert maps["wharfinger-policies"] == {"mine.policy": 'policy "mine"\nscore s = 1\n'}


def test_the_definitions_may_have_been_installed_before(control_plane, kubectl):
    printed = subprocess.run([WHARF, "install", "--print"], capture_output=True, text=True, check=True).stdout
    kubectl("apply", "-f", "-", content=printed)
    try:
        command = [build.program("kubectl"), f"--kubeconfig={control_plane.kubeconfig}", "apply", "-k", deployment.FOLDER]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0
        assert done.stderr == "", "following both pages gives no warning"
    finally:
        deployment.remove(control_plane)


def test_objects_of_the_former_definitions_outlive_the_new_ones(control_plane, kubectl):
    former = deployment.FOLDER.parent / "tests" / "cases" / "custom_resources" / "former"
    kubectl("apply", "--server-side", "-f", former / "definitions.yaml")
    try:
        objects = [found for found in yaml.safe_load_all((former / "objects.yaml").read_text()) if found]
        custom.wait_served(control_plane)
        for obj in objects:
            path = f"{custom.path(obj['kind'], 'default')}/{obj['metadata']['name']}"
            custom.create(control_plane, obj["kind"], obj["metadata"]["name"], obj["spec"])
            status = {"status": obj["status"]}
            control_plane.api.request("PATCH", f"{path}/status", status, content_type="application/merge-patch+json")
        before = {obj["kind"]: custom.get(control_plane, obj["kind"], obj["metadata"]["name"]) for obj in objects}
        assert "revision" in before["SchedulingPolicy"]["status"]["lastKnownGood"], "a field that there is no more"

        custom.install(control_plane)
        for kind, stored in before.items():
            name = stored["metadata"]["name"]
            assert custom.get(control_plane, kind, name)["spec"] == stored["spec"]
            assert custom.patch(control_plane, kind, name, {"metadata": {"labels": {"touched": "yes"}}})["spec"] == stored["spec"]
            migrated = custom.get(control_plane, kind, name)
            assert control_plane.api.request("PUT", f"{custom.path(kind, 'default')}/{name}", migrated)["spec"] == stored["spec"]
        with WharfProcess(control_plane):
            eventually(lambda: custom.condition(custom.status(control_plane, "SchedulingPolicy", "gold"), "Compiled") == "True")
            eventually(lambda: custom.condition(custom.status(control_plane, "PlacementPreview", "shop"), "Answered"))
            eventually(lambda: custom.status(control_plane, "PolicyApp", "web")["phase"] == "Failed")  # its policy was never one
    finally:
        custom.uninstall(control_plane)
