"""The permissions that the roles of deploy/ grant and that requests need, as (verb, group, resource)."""

from __future__ import annotations

from tests.cluster.proxy import Exchange

NAMESPACE = "wharfinger-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:wharfinger"
GROUPS = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def roles(control_plane):
    """The roles that are bound to the account, as the API server has them: their rules, by the name of the role."""
    found = {}
    for bindings, where in (("clusterrolebindings", ""), (f"namespaces/{NAMESPACE}/rolebindings", f"namespaces/{NAMESPACE}/")):
        for binding in control_plane.api.request("GET", f"{RBAC}/{bindings}")["items"]:
            if any((each["kind"], each["name"]) == ("ServiceAccount", "wharfinger") for each in binding.get("subjects", ())):
                kind = {"ClusterRole": "clusterroles", "Role": f"{where}roles"}[binding["roleRef"]["kind"]]
                role = f"{kind}/{binding['roleRef']['name']}"
                found[role] = control_plane.api.request("GET", f"{RBAC}/{role}")["rules"]
    return found


def granted(rules):
    """Every single thing that rules grant, as often as they do."""
    return [(verb, group, what) for rule in rules for group in rule["apiGroups"] for what in rule["resources"] for verb in rule["verbs"]]


def needed(exchange: Exchange):
    """The permissions that a request needs: none for a path that is no resource. Applying what was not there creates it."""
    parts = exchange.path.strip("/").split("/")
    if parts[0] not in {"api", "apis"} or len(parts) < 3:
        return []
    group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    what = "/".join([parts[0], *parts[2:]])
    if exchange.method == "GET":
        verbs = ["watch" if exchange.watch else "get" if len(parts) > 1 else "list"]
    else:
        verbs = [VERBS[exchange.method], *(["create"] if (exchange.method, exchange.status) == ("PATCH", 201) else [])]
    return [(verb, group, what) for verb in verbs]


def allowed(control_plane, grant, user=ACCOUNT, name=""):
    """True if the API server would let a user do that in the account's namespace."""
    verb, group, what = grant
    resource, _, sub = what.partition("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": sub, "namespace": NAMESPACE, "name": name}
    spec = {"user": user, "groups": GROUPS, "resourceAttributes": attributes}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return control_plane.api.request("POST", REVIEWS, body)["status"]["allowed"]


def token(control_plane):
    """A token of the account, as the kubelet would mount it."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/wharfinger/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    return control_plane.api.request("POST", path, body)["status"]["token"]
