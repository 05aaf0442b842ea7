"""The controllers of Kubernetes create the replacement of an evicted pod when drains say that they do."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.cluster import objects
from tests.cluster.control_plane import ENDS_LATE
from tests.cluster.snapshot import read_cluster
from tests.cluster.waiting import eventually
from tests.cluster.what_if_batch import is_ready
from tests.testbed import build
from wharfinger.what_if.leaving_pods import replaced_after_delay, replaced_early

VERSIONS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1", "Job": "batch/v1"}
JOB_DELAY = timedelta(seconds=10)
GRACE = 60


@pytest.fixture
def more_controllers(control_plane):
    """The controllers that other tests are without."""
    names = ("job-controller", "statefulset-controller", "replicationcontroller-controller")
    flags = [f"--kubeconfig={control_plane.kubeconfig}", "--leader-elect=false", f"--controllers={','.join(names)}", "--secure-port=0"]
    control_plane.run("more-controllers", build.program("kube-controller-manager"), *flags)
    yield
    control_plane.api.delete("Job", "job")  # while its controller is there, which takes the finalizers of its pods
    eventually(lambda: not any("finalizers" in pod["metadata"] for pod in control_plane.api.list("Pod")))
    control_plane.end_others()
    for kind in VERSIONS:
        control_plane.api.delete_all(kind)


def workload(kind):
    """A workload of one pod, which needs its whole grace period to end."""
    name = kind.lower()
    spec = objects.pod("", restartPolicy="Never" if kind == "Job" else "Always")["spec"]
    template = {"metadata": {"labels": {"app": name}, "annotations": {ENDS_LATE: "true"}}, "spec": spec}
    selector = {"app": name} if kind == "ReplicationController" else {"matchLabels": {"app": name}}
    of_job = {"manualSelector": True} if kind == "Job" else {"replicas": 1}
    more = {"serviceName": "none"} if kind == "StatefulSet" else {}
    made = {"selector": selector, "template": template, **of_job, **more}
    return {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": made}


def time_of(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def test_replacements_are_created_when_drains_say(control_plane, more_controllers, nodes):
    api = control_plane.api

    def pods():
        return {owner["kind"]: pod for pod in api.list("Pod") for owner in pod["metadata"]["ownerReferences"]}

    def new(kind):
        """The replacement of the pod of that kind of workload, None if there is none."""
        there = [pod for pod in api.list("Pod") if pod["metadata"]["ownerReferences"][0]["kind"] == kind]
        return next((pod for pod in there if pod["metadata"]["uid"] != old[kind]["metadata"]["uid"]), None)

    nodes(1)
    for kind in VERSIONS:
        api.create(workload(kind))
    old = eventually(lambda: pods() if pods().keys() == VERSIONS.keys() else None)
    for pod in old.values():
        api.bind(pod["metadata"]["name"], "node-0000")
    eventually(lambda: all(map(is_ready, api.list("Pod"))))
    views = {view.controller.kind: view for view, _ in read_cluster(api).state.placements()}
    assert {kind for kind, view in views.items() if replaced_early(view)} == {"ReplicaSet", "ReplicationController"}
    assert {kind for kind, view in views.items() if replaced_after_delay(view)} == {"Job"}

    for pod in old.values():
        api.evict(pod["metadata"]["name"], grace=GRACE)
    for kind in ("ReplicaSet", "ReplicationController"):
        eventually(lambda kind=kind: new(kind))
    assert not new("StatefulSet")
    late = eventually(lambda: new("Job"))
    marked = time_of(api.get("Pod", old["Job"]["metadata"]["name"])["metadata"]["deletionTimestamp"]) - timedelta(seconds=GRACE)
    assert time_of(late["metadata"]["creationTimestamp"]) - marked >= JOB_DELAY - timedelta(seconds=1)  # both are whole seconds
    assert not new("StatefulSet")
    api.delete("Pod", old["StatefulSet"]["metadata"]["name"])
    eventually(lambda: new("StatefulSet"))
