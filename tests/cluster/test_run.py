"""`wharf run` as a process, on a real API server."""

import json
import signal
import time

import pytest

from tests.cluster import objects
from tests.cluster.control_plane import GUEST_TOKEN
from tests.cluster.misbehaviour import Delay
from tests.cluster.process import WharfProcess, run_to_end
from tests.cluster.programs import free_ports
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually
from wharfinger.kube.wire import SCHEDULING

NAME = "wharfinger"
SSD_ONLY = """policy "ssd-only"

filter disk {
  require (node.labels["disk"] ?? "none") == "ssd"
    else "has no SSD"
}
"""


@pytest.fixture
def ssd_only(tmp_path):
    path = tmp_path / "ssd-only.policy"
    path.write_text(SSD_ONLY)
    return path


@pytest.fixture
def half_ssd(nodes):
    """Ten nodes, every other one with an SSD: the names of those that have one."""
    names = nodes(10, each=lambda i: {"labels": {"disk": "ssd" if i % 2 else "hdd"}})
    return {name for i, name in enumerate(names) if i % 2}


def nodes_of(api, scheduler=NAME):
    return [pod["spec"].get("nodeName") for pod in api.list("Pod") if pod["spec"]["schedulerName"] == scheduler]


def test_a_deployment_is_placed_by_a_policy(control_plane, half_ssd, ssd_only):
    with WharfProcess(control_plane, "--policy", ssd_only) as wharf:
        control_plane.api.create(objects.deployment("web", 100, scheduler=NAME))
        eventually(lambda: sum(pod["status"]["phase"] == "Running" for pod in control_plane.api.list("Pod")) == 100)

        assert set(nodes_of(control_plane.api)) == half_ssd
        assert "ok" in wharf.get("/livez")[1]
        placed = 'scheduler_schedule_attempts_total{profile="wharfinger",result="scheduled"} 100.0'
        eventually(lambda: placed in wharf.get("/metrics")[1])
        assert 'wharfinger_policy_active_info{policy="ssd-only"' in wharf.get("/metrics")[1]
        assert_sound(control_plane)
        assert wharf.terminate() == 0
    assert "Traceback" not in wharf.log


def test_each_profile_places_its_own_pods(control_plane, half_ssd, ssd_only, tmp_path, pods):
    config = tmp_path / "wharf.yaml"
    profiles = [{"schedulerName": "fast", "policies": [ssd_only.name]}, {"schedulerName": "plain"}]
    config.write_text(json.dumps({"apiVersion": "config.wharfinger.dev/v1alpha1", "kind": "WharfingerConfiguration", "profiles": profiles}))

    with WharfProcess(control_plane, "--config", config):
        pods(20, prefix="fast", scheduler="fast")
        pods(20, prefix="plain", scheduler="plain")
        pods(1, prefix="other", scheduler="another-scheduler")
        eventually(lambda: all(nodes_of(control_plane.api, "fast") + nodes_of(control_plane.api, "plain")))

    assert set(nodes_of(control_plane.api, "fast")) <= half_ssd
    assert not set(nodes_of(control_plane.api, "plain")) <= half_ssd
    assert nodes_of(control_plane.api, "another-scheduler") == [None]


def test_a_dry_run_decides_once_about_each_pod_and_writes_nothing(control_plane, nodes, pods):
    nodes(1, cpu="4")
    pods(5, scheduler=NAME, cpu="1", priority=0)
    before = {pod["metadata"]["name"]: pod["metadata"]["resourceVersion"] for pod in control_plane.api.list("Pod")}

    with WharfProcess(control_plane, "--dry-run", "--log-format=json", elect=True) as wharf:

        def attempts(result):
            lines = map(json.loads, wharf.log.splitlines())
            return [line["pod"] for line in lines if line["event"] == "attempt" and line["result"] == result]

        eventually(lambda: len(attempts("scheduled")) == 4 and attempts("unschedulable"))
        control_plane.api.delete("Pod", next(iter(attempts("scheduled"))).partition("/")[2])
        eventually(lambda: len(attempts("scheduled")) == 5)
        time.sleep(1)
        assert len(set(attempts("scheduled"))) == len(attempts("scheduled")) == 5
        assert wharf.terminate() == 0

    left = {pod["metadata"]["name"]: pod["metadata"]["resourceVersion"] for pod in control_plane.api.list("Pod")}
    assert left.items() <= before.items()
    assert len(left) == 4
    assert not [event for event in control_plane.api.list("Event") if event.get("reportingController") == NAME]
    assert not [lease for lease in control_plane.kubectl("get", "leases", "-n", "kube-system").split() if lease == NAME]


def test_policies_are_checked_before_anything_is_connected_to(control_plane, tmp_path):
    bad = tmp_path / "bad.policy"
    bad.write_text(SSD_ONLY.replace("node.", "nod."))

    code, log = run_to_end(control_plane, "--policy", bad)

    assert code == 1
    assert "did you mean" in log
    assert "connected" not in log


def test_credentials_that_are_refused_end_the_process(control_plane):
    kubeconfig = control_plane.write_kubeconfig("wrong", control_plane.port, token="nobody")

    code, log = run_to_end(control_plane, kubeconfig=kubeconfig)

    assert code == 2
    assert f"the API server https://127.0.0.1:{control_plane.port} refuses the credentials" in log
    assert "Traceback" not in log


def test_a_certificate_that_is_not_trusted_ends_the_process(control_plane):
    config = json.loads(control_plane.kubeconfig.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority"]
    (control_plane.folder / "untrusting").write_text(json.dumps(config))

    code, log = run_to_end(control_plane, kubeconfig=control_plane.folder / "untrusting")

    assert code == 2
    assert "cannot trust the API server" in log


def test_a_port_in_use_ends_the_process(control_plane):
    with WharfProcess(control_plane) as wharf:
        code, log = run_to_end(control_plane, f"--port={wharf.port}")

    assert code == 2
    assert f"cannot serve on 127.0.0.1 port {wharf.port}: another process uses the port already" in log


def test_a_server_that_does_not_answer_is_asked_again_until_a_signal(control_plane):
    wharf = WharfProcess(control_plane, name="patient", kubeconfig=control_plane.write_kubeconfig("nobody-there", free_ports(1)[0]))
    wharf.start()
    try:
        eventually(lambda: wharf.log.count("does not answer yet") >= 2)
        status, text = wharf.get("/readyz")

        assert status == 500
        assert "[-]api-server failed: it has not answered yet" in text
        assert wharf.get("/livez")[0] == 200
        assert wharf.terminate() == 0
    finally:
        wharf.kill()


def test_a_second_signal_does_not_wait_for_what_is_under_way(control_plane, proxy, nodes, pods):
    nodes(1)
    with WharfProcess(control_plane, kubeconfig=proxy.kubeconfig) as wharf:
        slow = proxy.add(Delay(seconds=30), path="/binding$")
        pods(1, scheduler=NAME)
        eventually(lambda: slow.done)
        wharf.signal(signal.SIGTERM)
        eventually(lambda: "stopping" in wharf.log)

        assert wharf.terminate() == 1
        assert "stopped at once by a second signal" in wharf.log
        assert "Traceback" not in wharf.log


def test_readyz_names_the_kinds_that_may_not_be_read(control_plane, nodes, pods):
    nodes(2)
    kubeconfig = control_plane.write_kubeconfig("guest", control_plane.port, token=GUEST_TOKEN)
    rules = [
        {"apiGroups": ["*"], "resources": [f"{resource.path.rpartition('/')[2]}"], "verbs": ["list", "watch"]}
        for resource in SCHEDULING
        if resource.name != "PodDisruptionBudget"
    ]
    rules.append({"apiGroups": ["", "events.k8s.io"], "resources": ["pods/binding", "pods/status", "events"], "verbs": ["*"]})
    roles = [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "guest"}, "rules": rules},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "guest"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "guest"},
            "subjects": [{"kind": "User", "name": "guest"}],
        },
    ]
    control_plane.kubectl("apply", "-f", "-", content=json.dumps({"apiVersion": "v1", "kind": "List", "items": roles}))

    wharf = WharfProcess(control_plane, name="guest", kubeconfig=kubeconfig)
    wharf.start()
    try:
        pods(5, scheduler=NAME)
        eventually(lambda: all(nodes_of(control_plane.api)))
        status, text = wharf.get("/readyz")
    finally:
        wharf.kill()
        control_plane.kubectl("delete", "clusterrole,clusterrolebinding", "guest")

    assert status == 500
    assert "[+]informer-sync ok" in text
    assert "[-]permissions failed: PodDisruptionBudget: " in text
