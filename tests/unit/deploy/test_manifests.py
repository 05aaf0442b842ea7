"""The manifests of deploy/, as far as they can be checked without a cluster."""

from pathlib import Path

import pytest
import yaml

from wharfinger.daemon.settings import PORT, read_settings
from wharfinger.language.files import NO_POLICIES_MARKER
from wharfinger.signals import sources

ROOT = Path(__file__).parents[3]
BASE = ROOT / "deploy" / "base"
MANIFESTS = [*BASE.rglob("*.yaml"), *(ROOT / "deploy" / "components").rglob("*.yaml")]
ROLES = {"ClusterRole", "Role"}


def objects(path):
    return [found for found in yaml.safe_load_all(path.read_text("utf-8")) if isinstance(found, dict)]


def deployment():
    return objects(BASE / "deployment.yaml")[0]


def test_the_base_enforces_no_policy_and_says_that_this_is_meant():
    generated = {each["name"]: each for each in objects(BASE / "kustomization.yaml")[0]["configMapGenerator"]}
    policies = generated["wharfinger-policies"]

    assert [literal.partition("=")[0] for literal in policies["literals"]] == [NO_POLICIES_MARKER]
    assert "files" not in policies
    assert read_settings(str(BASE / "wharf.yaml")).policy_config_map == "wharfinger-system/wharfinger-policies"


def test_the_settings_can_be_read_and_fit_the_other_manifests():
    settings = read_settings(str(BASE / "wharf.yaml"))
    pod = deployment()["spec"]["template"]["spec"]
    container = pod["containers"][0]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    leases = [rule for rule in objects(BASE / "roles" / "own-namespace.yaml")[0]["rules"] if rule["resources"] == ["leases"]]

    assert (settings.bind_address, settings.port) == ("0.0.0.0", PORT)
    assert container["ports"][0]["containerPort"] == settings.port
    assert settings.state_directory in mounts
    assert leases[1]["resourceNames"] == [settings.leader_election.resource_name]
    assert pod["terminationGracePeriodSeconds"] > settings.limits.grace_period
    assert pod["schedulerName"] not in {profile.scheduler_name for profile in settings.profiles}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_roles_name_what_they_grant(path):
    for role in (found for found in objects(path) if found.get("kind") in ROLES):
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "secrets" not in rule["resources"]
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
    assert not any(found.get("roleRef", {}).get("name") == "cluster-admin" for found in objects(path))


WRITES = {"create", "update", "patch", "delete", "deletecollection"}
WRITTEN_IN_ALL_NAMESPACES = {
    "events",
    "persistentvolumeclaims",
    "persistentvolumes",
    "placementpreviews",
    "placementpreviews/status",
    "podgroups/status",
    "pods",
    "pods/binding",
    "pods/status",
    "policyapps/status",
    "resourceclaims",
    "resourceclaims/binding",
    "resourceclaims/status",
    "schedulingpolicies/status",
}


def test_without_policy_apps_the_scheduler_may_write_what_scheduling_takes_and_nothing_else():
    """Deployments, Services and policies are made for PolicyApps alone, whose role is deploy/components/policy-apps."""
    roles = [found for path in (BASE / "roles").glob("*.yaml") for found in objects(path) if found["kind"] == "ClusterRole"]
    written = {resource for role in roles for rule in role["rules"] if WRITES & set(rule["verbs"]) for resource in rule["resources"]}
    assert written == WRITTEN_IN_ALL_NAMESPACES

    [_, *others] = objects(ROOT / "deploy" / "components" / "policy-apps" / "role.yaml")
    assert [found["kind"] for found in others] == ["ClusterRoleBinding"]
    assert not any("policy-apps" in path.read_text("utf-8") for path in BASE.glob("kustomization.yaml"))


def test_the_role_for_signals_is_what_the_metrics_api_is_asked_for():
    [rule] = objects(ROOT / "deploy" / "components" / "signals" / "metrics-api.yaml")[0]["rules"]
    group, resource = rule["apiGroups"][0], rule["resources"][0]

    assert sources.PATH.startswith(f"/apis/{group}/")
    assert sources.PATH.endswith(f"/{resource}")
    assert rule == {"apiGroups": [group], "resources": [resource], "verbs": ["list"]}
