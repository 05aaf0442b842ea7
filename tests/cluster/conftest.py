"""One control plane for the session, emptied after each test.

Where its programs are neither built nor can be built, tests are skipped and say why; with CI=true they fail instead.
"""

import contextlib
import http.client

import pytest

from tests.cluster import custom, deployment, objects
from tests.cluster.api import Refused
from tests.cluster.control_plane import ControlPlane
from tests.cluster.process import WharfProcess
from tests.cluster.programs import built
from tests.cluster.proxy import Proxy
from tests.cluster.waiting import eventually

WORKLOADS = ("Deployment", "ReplicaSet")
OURS = (
    *WORKLOADS,
    "Pod",
    "PodGroup",
    "PodDisruptionBudget",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "RuntimeClass",
    "LimitRange",
    "ResourceClaimTemplate",
    "ResourceClaim",
    "ResourceSlice",
    "DeviceClass",
)
OTHERS = (
    ("Namespace", "", ("default", "kube-")),
    ("PriorityClass", "", "system-"),
    ("Lease", "kube-system", "apiserver-"),
    ("ConfigMap", "default", "kube-root-ca"),
    ("Service", "default", "kubernetes"),
)
"""(kind, namespace, how the names begin of what the control plane has there itself)."""


@pytest.fixture(scope="session")
def started_control_plane():
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kwok", "kube-scheduler"):
        built(name)
    with ControlPlane() as started:
        yield started


@pytest.fixture
def control_plane(started_control_plane):
    """The control plane, without nodes and pods; what the test leaves there is removed after it."""
    yield started_control_plane
    started_control_plane.kwok.kill()  # it deletes pods by their names alone: late ones are those of the next test
    if not started_control_plane.api_server.running:
        started_control_plane.start_api_server()
    if not started_control_plane.controllers.running:
        started_control_plane.controllers.start()
    started_control_plane.end_others()
    _remove_workloads(started_control_plane)
    _empty(started_control_plane.api)
    started_control_plane.kwok.start()


def _remove_workloads(control_plane):
    """Remove what controllers make pods for, while they are stopped: what they have read is old, and they would make more pods."""
    if any(map(control_plane.api.any, WORKLOADS)):
        control_plane.controllers.kill()
        _remove(control_plane.api, (*WORKLOADS, "Pod"))
        control_plane.controllers.start()


def _remove(api, kinds):
    def none_left():
        left = list(filter(api.any, kinds))
        for kind in left:
            with contextlib.suppress(Refused, OSError, http.client.HTTPException):  # many take longer than a request may, and become fewer
                api.delete_all(kind)
        return not left

    eventually(none_left, within=600)


def _empty(api):
    _remove(api, OURS)
    for kind, namespace, kept in OTHERS:
        _delete_all_but(api, kind, namespace, kept)
    for kind in ("Node", "Event"):
        api.delete_all(kind)


def _delete_all_but(api, kind, namespace, kept):
    for name in (item["metadata"]["name"] for item in api.list(kind, namespace)):
        if not name.startswith(kept):
            api.delete(kind, name, namespace)


@pytest.fixture
def kubectl(control_plane):
    """Runs the real kubectl: what it prints."""
    return control_plane.kubectl


@pytest.fixture
def proxy(control_plane):
    """A proxy in front of the API server that misbehaves on demand."""
    with Proxy(control_plane) as running:
        yield running


@pytest.fixture
def nodes(control_plane):
    """Creates n nodes, by a name or a callable from the index to keywords of `objects.node`, and waits until kwok has made them Ready."""

    def make(n, prefix="node", each=lambda _: {}, **alike):
        made = control_plane.api.create_many(objects.node(f"{prefix}-{i:04d}", **{**alike, **each(i)}) for i in range(n))
        eventually(lambda: sum(map(_ready, control_plane.api.list("Node"))) >= n)
        return [item["metadata"]["name"] for item in made]

    return make


@pytest.fixture
def pods(control_plane):
    """Creates n pods, with keywords of `objects.pod` that are alike or (a callable from the index) differ."""

    def make(n, prefix="pod", each=lambda _: {}, **alike):
        made = control_plane.api.create_many(objects.pod(f"{prefix}-{i:04d}", **{**alike, **each(i)}) for i in range(n))
        return [item["metadata"]["name"] for item in made]

    return make


@pytest.fixture
def pools(nodes):
    """Forty nodes, every other one in pool b: pool by node."""
    names = nodes(40, pods=200, cpu="64", each=lambda i: {"labels": {"pool": "ab"[i % 2]}})
    return {name: "ab"[i % 2] for i, name in enumerate(names)}


@pytest.fixture
def config_map(control_plane):
    """Writes the keys of a ConfigMap of policies; None deletes it."""
    name = "policies"

    def write(**keys):
        data = {f"{key}.policy": content for key, content in keys.items()}
        try:
            control_plane.api.patch("ConfigMap", name, {"data": data})
        except Exception:  # noqa: BLE001 — it is not there yet
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}
            control_plane.api.create(body)

    yield write
    control_plane.api.delete("ConfigMap", name)


@pytest.fixture
def defined(control_plane):
    """The control plane with the custom resources defined."""
    custom.install(control_plane)
    yield control_plane
    custom.uninstall(control_plane)


@pytest.fixture
def deployed(control_plane):
    """The control plane with deploy/ applied as a person does; nothing there runs its pods."""
    deployment.apply(control_plane)
    yield control_plane
    deployment.remove(control_plane)


@pytest.fixture
def wharf(defined):
    """One running `wharf run` on it."""
    with WharfProcess(defined) as running:
        yield running


def _ready(node):
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in node["status"].get("conditions", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    cluster = getattr(item, "funcargs", {}).get("control_plane")
    if report.failed and cluster is not None:
        cluster.keep = True
        report.sections += [(f"log of {program.name} ({program.log})", program.tail(5)) for program in cluster.programs]
    return report
