"""The roles of deploy/ have the permissions that the process needs, and no others."""

import collections
from pathlib import Path

import pytest
from msgspec import convert

from tests.cluster import custom, deployment, everything
from tests.cluster.api import Api, Refused
from tests.cluster.misbehaviour import Answer
from tests.cluster.permissions import ACCOUNT, NAMESPACE, RBAC, allowed, granted, needed, roles, token
from tests.cluster.process import WharfProcess
from tests.cluster.test_preemption import priority_class
from tests.cluster.waiting import eventually
from wharfinger.crd.models import PolicyAppSpec
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.operator import app_objects

SETTINGS = Path(__file__).parents[2] / "deploy" / "base" / "wharf.yaml"
REFUSED = (
    ("GET", "/api/v1/secrets"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets"),
    ("GET", "/api/v1/configmaps"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps"),
    ("PATCH", "/api/v1/nodes/node-0000"),
    ("PATCH", "/api/v1/nodes/node-0000/status"),
    ("DELETE", "/api/v1/nodes/node-0000"),
    ("PUT", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/other"),
    ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
    ("POST", "/api/v1/namespaces/default/pods"),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/wharfinger/token"),
    ("POST", f"{RBAC}/clusterrolebindings"),
    ("DELETE", f"{custom.path('PolicyApp', 'default')}/web"),
)


@pytest.fixture
def deployed(control_plane):
    """The control plane with deploy/ applied, and with what PolicyApps take besides."""
    folder = deployment.FOLDER / "overlays" / "policy-apps"
    deployment.apply(control_plane, folder)
    yield control_plane
    deployment.remove(control_plane, folder)


@pytest.fixture
def account(deployed):
    """A token of the account that the process has in the cluster, with nothing granted but what deploy/ grants."""
    return token(deployed)


@pytest.fixture
def process(deployed, proxy, account, tmp_path):
    """Makes a `wharf run` as that account, with the settings of deploy/, whose requests the proxy sees."""
    kubeconfig = deployed.write_kubeconfig("kubeconfig-account", proxy.port, account)
    flags = (f"--config={SETTINGS}", "--bind-address=127.0.0.1", f"--state-dir={tmp_path}")
    return lambda name: WharfProcess(deployed, *flags, name=name, kubeconfig=kubeconfig, elect=True)


OWNING = ("update", custom.GROUP, "policyapps/finalizers")
"""No request, but what the API server wants to be granted to creators of objects that hold up the deletion of their app."""


ALLOCATING = ("patch", "resource.k8s.io", "resourceclaims/binding")
"""No request either, but what the API server wants of a client that allocates or reserves a claim."""
AFTER_FAULTS = {(verb, "resource.k8s.io", "resourceclaims") for verb in ("get", "delete")}
"""A claim is read again after a conflict, and one for extended resources is deleted if its pod is not bound (test_devices.py)."""


def test_every_rule_is_used_and_no_request_is_refused(deployed, proxy, process, nodes):
    custom.zoned(nodes)
    important = priority_class(deployed.api, "important")
    with process("streams") as wharf:
        wharf.wait_scheduling()
        everything.happen(deployed, proxy, important)
        assert wharf.terminate() == 0
    proxy.add(Answer(status=403), path="^/version$")  # as from a server too old to stream lists
    with process("lists") as wharf:
        wharf.wait_scheduling()
        eventually(lambda: any(needed(each) == [("list", custom.GROUP, "policyapps")] for each in proxy.seen))
        assert wharf.terminate() == 0

    refused = {(each.method, each.path) for each in proxy.seen if each.status == 403 and each.path != "/version"}
    assert not refused
    used = {grant for each in proxy.seen for grant in needed(each)}
    rules = [grant for role in roles(deployed).values() for grant in granted(role)]
    assert used | {OWNING, ALLOCATING} | AFTER_FAULTS == set(rules)


def test_no_rule_is_there_twice_or_granted_to_everybody(deployed):
    rules = [grant for role in roles(deployed).values() for grant in granted(role)]

    assert [grant for grant, count in collections.Counter(rules).items() if count > 1] == []
    for grant in set(rules):
        assert not allowed(deployed, grant, user=f"{ACCOUNT}-without-roles"), f"{grant} needs no rule"


def test_the_right_to_hold_up_deletions_is_needed(deployed, account):
    custom.create(deployed, "PolicyApp", "web", {"image": "web:1"})
    app = custom.get(deployed, "PolicyApp", "web")
    wanted = app_objects.deployment(convert(app["metadata"], ObjectMeta), PolicyAppSpec.model_validate(app["spec"]))
    role = "clusterroles/wharfinger-policy-apps"
    api = Api(deployed.port, account, deployed.certificate)

    def make():
        return api.request("POST", "/apis/apps/v1/namespaces/default/deployments?dryRun=All", wanted)

    try:
        assert make()
        rules = [rule for rule in roles(deployed)[role] if OWNING not in granted([rule])]
        deployed.api.request("PATCH", f"{RBAC}/{role}", {"rules": rules}, content_type="application/merge-patch+json")
        eventually(lambda: not allowed(deployed, OWNING))
        with pytest.raises(Refused, match="cannot set blockOwnerDeletion"):
            make()
    finally:
        api.close()


def test_without_the_role_of_apps_an_app_says_what_is_missing_and_gets_it(deployed, process):
    binding = f"{RBAC}/clusterrolebindings/wharfinger-policy-apps"
    bound = deployed.api.request("GET", binding)
    deployed.api.request("DELETE", binding)
    eventually(lambda: not allowed(deployed, ("create", "apps", "deployments")))
    with process("bare") as wharf:
        wharf.wait_scheduling()
        custom.create(deployed, "PolicyApp", "web", {"image": "web:1"})

        def ready():
            found = custom.status(deployed, "PolicyApp", "web").get("conditions", ())
            return next((each["message"] for each in found if each["type"] == "Ready"), "")

        eventually(lambda: "PolicyApps take deploy/components/policy-apps" in ready())
        assert not custom.get(deployed, "PolicyApp", "web")["metadata"].get("finalizers")
        custom.create(deployed, "PlacementPreview", "web", {"workloadRef": {"kind": "PolicyApp", "name": "web"}})
        eventually(lambda: custom.status(deployed, "PlacementPreview", "web").get("conditions"))
        asked = {each["type"]: each for each in custom.status(deployed, "PlacementPreview", "web")["conditions"]}
        assert asked["Answered"]["status"] == "True", asked
        again = {"metadata": {"name": "wharfinger-policy-apps"}, **{name: bound[name] for name in ("roleRef", "subjects")}}
        deployed.api.request("POST", f"{RBAC}/clusterrolebindings", again)
        eventually(lambda: [each for each in deployed.api.list("Deployment", "default") if each["metadata"]["name"] == "web"])


def test_other_resources_are_forbidden(deployed, account, nodes):
    nodes(1)
    api = Api(deployed.port, account, deployed.certificate)
    try:
        assert api.request("GET", "/api/v1/nodes")["items"], "the token is good"
        for method, path in REFUSED:
            with pytest.raises(Refused) as refusal:
                api.request(method, path, None if method == "GET" else {}, content_type="application/merge-patch+json")
            assert refusal.value.code == 403, (method, path, str(refusal.value))
    finally:
        api.close()
