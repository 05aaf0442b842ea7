"""Custom resources in tests on a real API server."""

from __future__ import annotations

import http.client
from pathlib import Path

import yaml

from tests.cluster.api import Refused
from tests.cluster.waiting import eventually

FOLDER = Path(__file__).parent.parent.parent / "deploy" / "crds"
GROUP = "scheduling.wharfinger.dev"
PLURALS = {"SchedulingPolicy": "schedulingpolicies", "PlacementPreview": "placementpreviews", "PolicyApp": "policyapps"}
EAST = 'policy "east"\nfilter zone {\n  require (node.labels["zone"] ?? "") == "east" else "not in the east"\n}\n'
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install(control_plane):
    """Applies the definitions, and waits until they are served. As a person does it is what tests of the pages do: kubectl is slow."""
    for definition in (yaml.safe_load(file.read_text("utf-8")) for file in sorted(FOLDER.glob(f"*.{GROUP}.yaml"))):
        where = f"{DEFINITIONS}/{definition['metadata']['name']}?fieldManager=tests&force=true"
        control_plane.api.request("PATCH", where, definition, content_type="application/apply-patch+yaml")
    wait_served(control_plane)


def wait_served(control_plane):
    """Returns when the API server serves the definitions."""
    eventually(lambda: all(established(control_plane)))
    for kind in PLURALS:
        eventually(lambda kind=kind: items(control_plane, kind) is not None)


def established(control_plane):
    """True for each of our definitions that the API server has established."""
    for item in control_plane.api.request("GET", DEFINITIONS)["items"]:
        if item["spec"]["group"] == GROUP:
            conditions = {each["type"]: each["status"] for each in item["status"].get("conditions") or ()}
            yield conditions.get("Established") == "True"


def uninstall(control_plane):
    """Removes the definitions and with them all objects; finalizers are taken away, as no controller may be there to honour them."""
    for kind in PLURALS:
        for item in items(control_plane, kind) or ():
            if item["metadata"].get("finalizers"):
                patch(control_plane, kind, item["metadata"]["name"], {"metadata": {"finalizers": None}}, item["metadata"].get("namespace"))
    for item in control_plane.api.list("Service"):  # the garbage collector needs time to notice that a kind is removed
        if f"{GROUP}/app" in item["metadata"].get("labels", {}):
            control_plane.api.delete("Service", item["metadata"]["name"], item["metadata"]["namespace"])
    names = {f"{plural}.{GROUP}" for plural in PLURALS.values()}
    for name in names:
        _or_none(lambda name=name: control_plane.api.request("DELETE", f"{DEFINITIONS}/{name}"))
    eventually(lambda: not names & {item["metadata"]["name"] for item in control_plane.api.request("GET", DEFINITIONS)["items"]})


def path(kind, namespace=None):
    """The path of all objects of a kind, or those of one namespace."""
    place = "" if namespace is None or kind == "SchedulingPolicy" else f"/namespaces/{namespace}"
    return f"/apis/{GROUP}/v1alpha1{place}/{PLURALS[kind]}"


def items(control_plane, kind):
    """All objects of a kind; None when it is not served."""
    return _or_none(lambda: control_plane.api.request("GET", path(kind))["items"])


def create(control_plane, kind, name, spec, namespace="default"):
    """The object as stored."""
    metadata = {"name": name} if kind == "SchedulingPolicy" else {"name": name, "namespace": namespace}
    body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    return control_plane.api.request("POST", path(kind, namespace), body)


def get(control_plane, kind, name, namespace="default"):
    """One object, None if it is deleted."""
    return _or_none(lambda: control_plane.api.request("GET", f"{path(kind, namespace)}/{name}"))


def patch(control_plane, kind, name, body, namespace="default"):
    """The object after a merge patch."""
    return control_plane.api.request("PATCH", f"{path(kind, namespace)}/{name}", body, content_type="application/merge-patch+json")


def delete(control_plane, kind, name, namespace="default"):
    """Requests the deletion of an object."""
    control_plane.api.request("DELETE", f"{path(kind, namespace)}/{name}")


def status(control_plane, kind, name, namespace="default"):
    """The status of an object, empty while there is none."""
    return (get(control_plane, kind, name, namespace) or {}).get("status") or {}


def condition(found, name):
    """The status of a condition of a status: `True`, `False`, `Unknown`, or None when it is not there."""
    return next((each["status"] for each in found.get("conditions", ()) if each["type"] == name), None)


def zoned(nodes, n=6):
    """n nodes, every other one in the zone `east`, the others in `west`."""
    return nodes(n, each=lambda i: {"labels": {"zone": "east" if i % 2 else "west"}})


def phase(cluster, name="web"):
    """The phase of a PolicyApp, None without a status."""
    return status(cluster, "PolicyApp", name).get("phase")


def pods_of(cluster, name="web"):
    """The pods of a PolicyApp."""
    found = cluster.api.list("Pod", "default")
    return [pod for pod in found if pod["metadata"].get("labels", {}).get(f"{GROUP}/app") == name]


def running(cluster, n, name="web"):
    """True if a PolicyApp has the status Running and that many running pods."""
    there = [pod for pod in pods_of(cluster, name) if "deletionTimestamp" not in pod["metadata"]]
    return len(there) == n and all(pod["status"]["phase"] == "Running" for pod in there) and phase(cluster, name) == "Running"


def _or_none(request):
    try:
        return request()
    except Refused as refused:
        if refused.code not in {http.client.NOT_FOUND, http.client.TOO_MANY_REQUESTS}:  # the latter while storage is set up
            raise
        return None
