"""The control plane of the tests works: the assumptions of all other tests here."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster import objects
from tests.cluster.waiting import eventually


def test_kubectl_talks_to_the_server_of_its_own_version(kubectl):
    versions = json.loads(kubectl("version", "-o", "json"))

    assert versions["serverVersion"]["gitVersion"] == versions["clientVersion"]["gitVersion"]


def test_kwok_makes_nodes_ready_and_keeps_what_they_offer(control_plane, nodes):
    names = nodes(20, cpu="3")

    found = control_plane.api.list("Node")
    assert sorted(item["metadata"]["name"] for item in found) == names
    assert {item["status"]["allocatable"]["cpu"] for item in found} == {"3"}


def test_a_bound_pod_runs(control_plane, nodes, pods):
    (node,) = nodes(1)
    (pod,) = pods(1)

    control_plane.api.bind(pod, node)

    eventually(lambda: control_plane.api.get("Pod", pod)["status"]["phase"] == "Running")


def test_controllers_make_the_pods_of_a_deployment(control_plane):
    control_plane.api.create(objects.deployment("web", 7))

    eventually(lambda: len(control_plane.api.list("Pod")) == 7)


def test_each_test_begins_with_an_empty_cluster(control_plane):
    assert control_plane.api.list("Node") + control_plane.api.list("Pod") + control_plane.api.list("Deployment") == []


def test_the_api_server_comes_back_with_everything(control_plane, nodes, kubectl):
    (name,) = nodes(1)

    control_plane.api_server.kill()
    control_plane.start_api_server()

    assert kubectl("get", "nodes", "-o", "name").strip() == f"node/{name}"


def test_a_killed_session_leaves_no_program_behind(tmp_path):
    script = (
        "import time; from pathlib import Path; from tests.cluster.programs import Program;"
        f"program = Program('sleeper', ['sleep', '600'], Path({str(tmp_path)!r})); program.start();"
        "print(program.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as session:
        pid = int(session.stdout.readline())
        session.send_signal(signal.SIGKILL)
        session.wait()

        eventually(lambda: _gone(pid))


def _gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text("utf-8").split()[2] == "Z"  # killed, but not yet reaped


def test_a_condition_that_never_holds_ends_at_its_deadline():
    began = time.monotonic()

    try:
        eventually(lambda: False, within=0.2)
    except AssertionError:
        assert time.monotonic() - began < 5
    else:
        raise AssertionError("it must not return")
