"""`wharf drain` refuses what the real `kubectl drain` refuses, and evicts what it evicts, for every odd pod."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import objects
from tests.cluster.test_what_if import kubectl_drain
from tests.cluster.waiting import eventually

WHARF = Path(sys.executable).with_name("wharf")
NODE = "node-0000"
MIRROR = {"kubernetes.io/config.mirror": "x"}
SCRATCH = [{"name": "scratch", "emptyDir": {}}]
HELD = ["tests.wharfinger.dev/held"]
"""A finalizer: a pod that is deleted stays, and is being deleted."""


def owner(kind, uid, *, controller=True):
    return {"apiVersion": "apps/v1", "kind": kind, "name": kind.lower(), "uid": uid, "controller": controller}


def odd_pods(uid):
    """Pods by name, with what is done to each: (manifest, the phase that it gets, whether it is deleted)."""
    set_, agent = owner("StatefulSet", uid["StatefulSet"]), owner("DaemonSet", uid["DaemonSet"])
    made = {
        "plain": ({}, {}, "", False),
        "owned": ({"ownerReferences": [set_]}, {}, "", False),
        "owned-scratch": ({"ownerReferences": [set_]}, {"volumes": SCRATCH}, "", False),
        "owned-memory": ({"ownerReferences": [set_]}, {"volumes": [{"name": "m", "emptyDir": {"medium": "Memory"}}]}, "", False),
        "owned-host-path": ({"ownerReferences": [set_]}, {"volumes": [{"name": "h", "hostPath": {"path": "/tmp"}}]}, "", False),
        "not-controlled": ({"ownerReferences": [owner("StatefulSet", uid["StatefulSet"], controller=False)]}, {}, "", False),
        "agent": ({"ownerReferences": [agent]}, {}, "", False),
        "agent-scratch": ({"ownerReferences": [agent]}, {"volumes": SCRATCH}, "", False),
        "agent-ending": ({"ownerReferences": [agent], "finalizers": HELD}, {}, "", True),
        "mirror": ({"annotations": MIRROR}, {}, "", False),
        "mirror-scratch": ({"annotations": MIRROR}, {"volumes": SCRATCH}, "", False),
        "plain-ending": ({"finalizers": HELD}, {}, "", True),
        "owned-ending": ({"ownerReferences": [set_], "finalizers": HELD}, {}, "", True),
        "scratch-ending": ({"ownerReferences": [set_], "finalizers": HELD}, {"volumes": SCRATCH}, "", True),
        "plain-done": ({}, {}, "Succeeded", False),
        "plain-failed": ({}, {}, "Failed", False),
        "scratch-done": ({"ownerReferences": [set_]}, {"volumes": SCRATCH}, "Succeeded", False),
        "agent-done": ({"ownerReferences": [agent]}, {}, "Succeeded", False),
    }
    for name, (metadata, spec, phase, deleted) in made.items():
        pod = objects.pod(name, cpu="10m", nodeName=NODE, **spec)
        pod["metadata"].update(metadata)
        yield pod, phase, deleted


@pytest.fixture
def odd(control_plane, nodes):
    """The odd pods, all on one node."""
    nodes(2)
    control_plane.kwok.kill()  # it would give them other phases
    api = control_plane.api
    template = {"metadata": {"labels": {"app": "x"}}, "spec": objects.pod("")["spec"]}
    uid = {}
    for kind in ("StatefulSet", "DaemonSet"):
        more = {"serviceName": "none"} if kind == "StatefulSet" else {}
        spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template, **more}
        made = api.create({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": kind.lower(), "namespace": "default"}, "spec": spec})
        uid[kind] = made["metadata"]["uid"]
    finished, n_pods = set(), 0
    for pod, phase, deleted in odd_pods(uid):
        name, n_pods = pod["metadata"]["name"], n_pods + 1
        api.create(pod)
        path = f"/api/v1/namespaces/default/pods/{name}"
        api.request("PATCH", f"{path}/status", {"status": {"phase": phase or "Running"}}, content_type="application/merge-patch+json")
        if phase:
            finished.add(f"default/{name}")
        if deleted:
            api.request("DELETE", path)
    eventually(lambda: len(api.list("Pod")) == n_pods)
    yield finished
    for pod in api.list("Pod"):
        if pod["metadata"].get("finalizers"):
            api.patch("Pod", pod["metadata"]["name"], {"metadata": {"finalizers": None}})


def test_odd_pods_are_treated_as_by_kubectl(control_plane, odd):
    for force, data in itertools.product([True, False], repeat=2):
        flags = ["--force"] * force + ["--delete-emptydir-data"] * data
        command = [WHARF, "drain", NODE, "--live", f"--kubeconfig={control_plane.kubeconfig}", "--format=json", *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        pods = {each["pod"]: each["outcome"] for each in json.loads(done.stdout)["pods"]}
        refused = {pod for pod, outcome in pods.items() if outcome == "refused"}
        leaving = {pod for pod, outcome in pods.items() if outcome not in {"refused", "stays"}}
        evicted, cannot = kubectl_drain(control_plane, NODE, force=force, delete_empty_dir_data=data)
        assert cannot == refused, flags
        assert evicted - odd == (set() if refused else leaving), flags
