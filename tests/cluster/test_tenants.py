"""A user who may only write PolicyApps and PlacementPreviews in one namespace (the role of docs/operating/security.md); real API server."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.cluster import custom, objects
from tests.cluster.api import Api, Refused
from tests.cluster.permissions import RBAC
from tests.cluster.process import WharfProcess
from tests.cluster.replicas import configuration
from tests.cluster.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "operating" / "security.md"
NAMESPACE = "team-a"
SECRET = "hunter2"
SEES = 'count(pods where starts_with(it.annotations["token"] ?? "", "{}") or it.labels matches "app=bank", on: node)'
SPY = 'policy "spy"\nfilter look {{\n  require ' + SEES + ' == 0 else "one begins with it"\n}}\n'
TEMPLATE = {"spec": {"schedulerName": "wharfinger", "containers": [{"name": "main", "image": "web:1"}]}}
TERM = {"topologyKey": "kubernetes.io/hostname", "namespaces": ["default"], "labelSelector": {"matchLabels": {"app": "bank"}}}
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


@pytest.fixture
def tenant(defined):
    """Requests of a ServiceAccount with nothing but the role of the page."""
    role = next(
        yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if "kind: Role" in text
    )
    subject = {"kind": "ServiceAccount", "name": "guest", "namespace": NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]}
    binding = {"metadata": {"name": "guest", "namespace": NAMESPACE}, "subjects": [subject], "roleRef": reference}
    where = f"{RBAC}/namespaces/{NAMESPACE}"
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    wanted = (
        ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
        (accounts, {"metadata": {"name": "guest"}}),
        (f"{where}/roles", role),
        (f"{where}/rolebindings", binding),
    )
    eventually(lambda: all(_is_there(defined, path, body) for path, body in wanted))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = defined.api.request("POST", f"{accounts}/guest/token", request)["status"]["token"]
    api = Api(defined.port, token, defined.certificate)
    eventually(lambda: _may(api))
    yield api
    for kind, name in (("rolebindings", "guest"), ("roles", role["metadata"]["name"])):
        defined.api.request("DELETE", f"{where}/{kind}/{name}")
    api.close()


def _is_there(defined, path, body):
    """True if an object exists and is not being deleted; it is made if it does not exist. The namespace may still be terminating."""
    with suppress(Refused):
        defined.api.request("POST", path, body)
    try:
        found = defined.api.request("GET", f"{path}/{body['metadata']['name']}")
    except Refused:
        return False
    return "deletionTimestamp" not in found["metadata"]


def _may(api):
    try:
        api.request("GET", custom.path("PlacementPreview", NAMESPACE))
    except Refused:
        return False
    return True


@pytest.fixture
def bank(defined, nodes):
    """Two nodes, on one of which a pod of another team runs."""
    nodes(2)
    pod = objects.pod("bank", labels={"app": "bank"}, annotations={"token": SECRET}, nodeName="node-0000")
    defined.api.create(pod)
    eventually(lambda: defined.api.get("Pod", "bank")["status"]["phase"] == "Running")


def asked(tenant, name, **spec):
    """The status of a preview that the tenant makes, as he reads it."""
    body = {"apiVersion": f"{custom.GROUP}/v1alpha1", "kind": "PlacementPreview", "metadata": {"name": name}, "spec": spec}
    tenant.request("POST", custom.path("PlacementPreview", NAMESPACE), body)
    where = f"{custom.path('PlacementPreview', NAMESPACE)}/{name}"
    return eventually(lambda: (found := tenant.request("GET", where).get("status") or {}).get("conditions") and found)


def test_a_tenant_may_not_write_cluster_policies_or_status(defined, tenant, wharf):
    head = {"apiVersion": f"{custom.GROUP}/v1alpha1", "kind": "SchedulingPolicy", "metadata": {"name": "p"}}
    policy = {**head, "spec": {"source": custom.EAST}}
    for method, path, body in (
        ("POST", custom.path("SchedulingPolicy"), policy),
        ("GET", custom.path("SchedulingPolicy"), None),
        ("GET", "/api/v1/pods", None),
        ("GET", "/api/v1/nodes", None),
        ("POST", custom.path("PlacementPreview", "default"), {}),
        ("GET", custom.path("PolicyApp", "default"), None),
    ):
        with pytest.raises(Refused, match="forbidden"):
            tenant.request(method, path, body)


def test_previews_show_no_pods_of_other_namespaces(defined, tenant, bank, wharf):
    for number, guess in enumerate(["h", "hunter2", "x"]):
        found = asked(tenant, f"guess-{number}", template=TEMPLATE, replicas=2, policies=[{"source": SPY.format(guess)}])
        assert found["placed"] == 2, found
        assert "one begins with it" not in json.dumps(found)
    annotations = 'policy "p"\nfilter f { require (node.annotations["x"] ?? "") == "" }\n'
    assert "P801" in json.dumps(asked(tenant, "annotations", template=TEMPLATE, policies=[{"source": annotations}]))
    metric = 'policy "p"\nmetric m: percent = prometheus("secret", node: "node")\nfilter f { require m < 1 on missing pass }\n'
    assert "P802" in json.dumps(asked(tenant, "metric", template=TEMPLATE, policies=[{"source": metric}]))
    reaching = {"spec": {**TEMPLATE["spec"], "affinity": ANTI}}
    assert "reaches other namespaces" in json.dumps(asked(tenant, "affinity", template=reaching))
    compared = {"spec": {**TEMPLATE["spec"], "priority": 1}}
    assert "the pods' priority is 1, where their class gives 0" in json.dumps(asked(tenant, "priority", template=compared))


def test_previews_show_no_policies_of_other_namespaces(defined, tenant, bank, wharf):
    alone = asked(tenant, "alone", template=TEMPLATE)["policyRevision"]
    custom.create(defined, "SchedulingPolicy", "vault", {"source": custom.EAST, "namespace": "default"})
    eventually(lambda: custom.condition(custom.status(defined, "SchedulingPolicy", "vault"), "Active") == "True")
    assert asked(tenant, "beside", template=TEMPLATE)["policyRevision"] == alone
    found = asked(tenant, "named", template=TEMPLATE, policies=[{"name": "vault"}])
    assert found["conditions"][0]["reason"] == "UnknownObject"


def test_an_inline_policy_sees_and_governs_its_own_pods_only(defined, tenant, bank, wharf):
    spec = {"image": "web:1", "replicas": 2, "policy": {"inline": SPY.format("h")}}
    body = {"apiVersion": f"{custom.GROUP}/v1alpha1", "kind": "PolicyApp", "metadata": {"name": "web"}, "spec": spec}
    tenant.request("POST", custom.path("PolicyApp", NAMESPACE), body)
    made = eventually(lambda: custom.get(defined, "SchedulingPolicy", f"{NAMESPACE}.web"))
    assert made["spec"]["namespace"] == NAMESPACE

    def status():
        return tenant.request("GET", f"{custom.path('PolicyApp', NAMESPACE)}/web").get("status") or {}

    eventually(lambda: status().get("phase") == "Running")
    assert SECRET not in json.dumps(status())
    assert custom.status(defined, "SchedulingPolicy", f"{NAMESPACE}.web")["authority"] == f"namespace {NAMESPACE}"
    code, answer = wharf.get("/policies?format=json")
    assert (code, [each["authority"] for each in json.loads(answer)["policies"]]) == (200, [f"namespace {NAMESPACE}"])
    tenant.request("DELETE", f"{custom.path('PolicyApp', NAMESPACE)}/web")
    eventually(lambda: custom.get(defined, "PolicyApp", "web", NAMESPACE) is None)


def test_the_oldest_apps_of_a_namespace_are_acted_upon_as_many_as_the_settings_allow(control_plane, defined, tenant, nodes):
    nodes(2)
    spec = {"image": "web:1", "replicas": 1, "policy": {"inline": custom.EAST.replace('"east"', '""')}}
    head = {"apiVersion": f"{custom.GROUP}/v1alpha1", "kind": "PolicyApp"}

    def ready(name):
        found = tenant.request("GET", f"{custom.path('PolicyApp', NAMESPACE)}/{name}").get("status") or {}
        return next((each for each in found.get("conditions", ()) if each["type"] == "Ready"), {"status": "", "reason": ""})

    with WharfProcess(control_plane, f"--config={configuration(control_plane, limits={'policyApps': 2})}") as wharf:
        wharf.wait_scheduling()
        for number in range(3):
            tenant.request("POST", custom.path("PolicyApp", NAMESPACE), {**head, "metadata": {"name": f"app-{number}"}, "spec": spec})
        last = eventually(lambda: (found := ready("app-2"))["reason"] == "Failed" and found)
        assert f"namespace {NAMESPACE} has 3 PolicyApps, and the scheduler acts upon the 2 oldest of a namespace" in last["message"]
        eventually(lambda: [ready(f"app-{number}")["status"] for number in range(2)] == ["True", "True"])
        assert custom.get(defined, "SchedulingPolicy", f"{NAMESPACE}.app-2") is None

        tenant.request("DELETE", f"{custom.path('PolicyApp', NAMESPACE)}/app-0")
        eventually(lambda: ready("app-2")["status"] == "True")
        for number in range(1, 3):
            tenant.request("DELETE", f"{custom.path('PolicyApp', NAMESPACE)}/app-{number}")
        eventually(lambda: all(custom.get(defined, "PolicyApp", f"app-{number}", NAMESPACE) is None for number in range(3)))


def app_of(tenant, name, **spec):
    """A PolicyApp that the tenant makes."""
    body = {"apiVersion": f"{custom.GROUP}/v1alpha1", "kind": "PolicyApp", "metadata": {"name": name}, "spec": {"image": "web:1", **spec}}
    return tenant.request("POST", custom.path("PolicyApp", NAMESPACE), body)


def status_of(tenant, kind, name):
    """The status of an object, as the tenant reads it."""
    return tenant.request("GET", f"{custom.path(kind, NAMESPACE)}/{name}").get("status") or {}


def told(status):
    """The status without the times of the object itself."""
    conditions = [{key: each[key] for key in each if key != "lastTransitionTime"} for each in status["conditions"]]
    return {**{key: value for key, value in status.items() if key != "expiresAt"}, "conditions": conditions}


def test_without_policies_of_namespaces_an_app_says_so_and_other_pods_are_placed(control_plane, defined, tenant, nodes):
    nodes(2)
    with WharfProcess(control_plane, f"--config={configuration(control_plane, tenantPolicies='Off')}") as wharf:
        wharf.wait_scheduling()
        app_of(tenant, "web", replicas=1, policy={"inline": custom.EAST})
        found = eventually(lambda: (status := status_of(tenant, "PolicyApp", "web")).get("phase") == "Failed" and status)
        assert "P803" in found["message"]
        found = asked(tenant, "ask", template=TEMPLATE, policies=[{"source": custom.EAST}])
        assert "P803" in found["conditions"][0]["message"]
        defined.api.create(objects.pod("other", scheduler="wharfinger"))
        eventually(lambda: defined.api.get("Pod", "other")["spec"].get("nodeName"))
        tenant.request("DELETE", f"{custom.path('PolicyApp', NAMESPACE)}/web")
        eventually(lambda: custom.get(defined, "PolicyApp", "web", NAMESPACE) is None)


CURIOUS = (
    'policy "curious"\nlet seen = count(pods where it.labels["app"] == "bank", on: node)\n'
    'filter few { require seen < 0 else "{seen} here" }\nscore apart = -seen normalize minmax\n'
)


def test_pods_of_other_namespaces_change_no_answer_to_a_tenant(defined, tenant, bank, wharf):
    large = {**TEMPLATE["spec"], "containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "999"}}}]}
    questions = {
        "none-fits": {"template": {"spec": large}, "capacity": True},
        "own-policy": {"template": TEMPLATE, "replicas": 2, "policies": [{"source": CURIOUS}]},
        "more-nodes": {"template": TEMPLATE, "nodes": [{"like": "node-0000", "count": 2}], "policies": [{"source": CURIOUS}]},
        "no-node": {"template": TEMPLATE, "nodes": [{"like": "node-000"}]},
        "a-drain": {"template": TEMPLATE, "drain": ["node-0000"]},
        "a-policy-of-others": {"template": TEMPLATE, "policies": [{"name": "bank.vault"}]},
    }
    before = {name: told(asked(tenant, f"{name}-1", **question)) for name, question in questions.items()}
    assert "did you mean" not in json.dumps(before["no-node"])
    custom.create(
        defined, "SchedulingPolicy", "bank.vault", {"source": custom.EAST.replace("east", "bank.vault", 1), "namespace": "default"}
    )
    eventually(lambda: custom.condition(custom.status(defined, "SchedulingPolicy", "bank.vault"), "Active") == "True")
    change = {"metadata": {"labels": {"app": "other", "tier": "a"}, "annotations": {"token": "changed"}}}
    defined.api.request("PATCH", "/api/v1/namespaces/default/pods/bank", change, content_type="application/merge-patch+json")
    waits = objects.pod("waits", namespace="default", scheduler="wharfinger", cpu="500", labels={"app": "bank"})
    defined.api.create(waits)
    eventually(lambda: "conditions" in (defined.api.get("Pod", "waits").get("status") or {}))
    after = {name: told(asked(tenant, f"{name}-2", **question)) for name, question in questions.items()}
    assert json.dumps(after).replace("-2-", "-1-") == json.dumps(before)


HOSTILE = {
    "doubling": 'policy "p"\nlet a0 = true\n'
    + "".join(f"let a{n + 1} = a{n} and a{n}\n" for n in range(40))
    + "filter f { require a40 }\n",
    "scan": 'policy "p"\nscore s = -count(pods where it.name != pod.name and it.priority > 3 + pod.priority, on: node) normalize minmax\n',
    "long": 'policy "p"\n' + "".join(f"filter f{n} {{ require node.free.cpu > {n} }}\n" for n in range(450)),
    "too-long": 'policy "p"\n' + "".join(f"let a{n} = {n}\n" for n in range(8_000)),
    "reserve": 'policy "p"\ngroup by pod.labels["app"] { min_count 2 reserve 1h }\n',
    "metric": 'policy "p"\nmetric m: percent = prometheus("up", node: "node", refresh: 1s)\nfilter f { require m < 1 on missing pass }\n',
    "plugin-name": 'policy "NodeResourcesFit"\nscore s = 1\n',
    "import": 'policy "p"\nimport "/etc/passwd.policy" as p\n',
    "cluster-name": 'policy "east"\nfilter f { reject true }\n',
}


def test_hostile_texts_of_a_tenant_delay_no_other_pods(defined, tenant, nodes, wharf):
    nodes(3, labels={"zone": "east"})
    custom.create(defined, "SchedulingPolicy", "east", {"source": custom.EAST})
    eventually(lambda: custom.condition(custom.status(defined, "SchedulingPolicy", "east"), "Active") == "True")
    for name, text in HOSTILE.items():
        app_of(tenant, name, replicas=1, policy={"inline": text})
        body = {"template": TEMPLATE, "replicas": 50, "capacity": True, "policies": [{"source": text}]}
        preview = {"apiVersion": f"{custom.GROUP}/v1alpha1", "kind": "PlacementPreview", "metadata": {"name": name}, "spec": body}
        tenant.request("POST", custom.path("PlacementPreview", NAMESPACE), preview)
    for number in range(20):
        defined.api.create(objects.pod(f"other-{number}", scheduler="wharfinger"))
    eventually(lambda: all(pod["spec"].get("nodeName") for pod in defined.api.list("Pod", "default")))
    for name in HOSTILE:
        found = eventually(
            lambda name=name: status_of(tenant, "PolicyApp", name).get("conditions") and status_of(tenant, "PolicyApp", name)
        )
        assert found["phase"] in {"Failed", "Pending", "Progressing", "Running", "Degraded"}
        eventually(lambda name=name: status_of(tenant, "PlacementPreview", name).get("conditions"))
    states = {each["name"]: each["state"] for each in json.loads(wharf.get("/policies?format=json")[1])["policies"]}
    assert states["east"] == "active"
    refused = {name for name in HOSTILE if status_of(tenant, "PolicyApp", name)["phase"] == "Failed"}
    assert refused >= {"too-long", "reserve", "metric", "import"}, {name: status_of(tenant, "PolicyApp", name) for name in HOSTILE}
    assert "passwd" not in json.dumps(status_of(tenant, "PolicyApp", "import")["message"]).replace("/etc/passwd.policy", "")
    for name in HOSTILE:
        tenant.request("DELETE", f"{custom.path('PolicyApp', NAMESPACE)}/{name}")
    eventually(lambda: all(custom.get(defined, "PolicyApp", name, NAMESPACE) is None for name in HOSTILE))


def test_no_app_takes_the_place_of_a_policy_of_the_cluster(defined, tenant, nodes, wharf):
    nodes(1, labels={"zone": "east"})
    source = custom.EAST.replace("east", f"{NAMESPACE}.web", 1)
    custom.create(defined, "SchedulingPolicy", f"{NAMESPACE}.web", {"source": source})
    eventually(lambda: custom.condition(custom.status(defined, "SchedulingPolicy", f"{NAMESPACE}.web"), "Active") == "True")
    app_of(tenant, "web", policy={"inline": CURIOUS})
    found = eventually(lambda: (status := status_of(tenant, "PolicyApp", "web")).get("conditions") and status)
    assert (found["phase"], custom.condition(found, "Applied")) == ("Failed", "False")
    kept = custom.get(defined, "SchedulingPolicy", f"{NAMESPACE}.web")
    assert (kept["spec"]["source"], kept["status"]["authority"]) == (source, "cluster")
    tenant.request("DELETE", f"{custom.path('PolicyApp', NAMESPACE)}/web")
    eventually(lambda: custom.get(defined, "PolicyApp", "web", NAMESPACE) is None)
    assert custom.get(defined, "SchedulingPolicy", f"{NAMESPACE}.web") is not None
