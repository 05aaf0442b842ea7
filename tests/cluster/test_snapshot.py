"""A snapshot of the moment, and what is decided on it, against the scheduler that runs for real."""

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster import mixed_pods, objects
from tests.cluster.live import NAME
from tests.cluster.process import WharfProcess
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually

WHARF = Path(sys.executable).with_name("wharf")


def wharf(*arguments, check=True):
    done = subprocess.run([WHARF, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 or not check, done.stderr
    return done


def decided(cluster, *flags):
    """(node by pod, message by pod without one), as `wharf dry-run` has it."""
    report = json.loads(wharf("dry-run", "--format", "json", "--pods-of", NAME, *flags).stdout)
    return (
        {pod["pod"]: pod["node"] for pod in report["pods"] if pod["node"]},
        {pod["pod"]: pod["message"] for pod in report["pods"] if not pod["node"]},
    )


def found(cluster):
    """The same, as it is in the cluster."""
    pods = [pod for pod in cluster.api.list("Pod") if pod["spec"]["schedulerName"] == NAME]
    keys = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in pods}
    nodes = {key: pod["spec"]["nodeName"] for key, pod in keys.items() if "nodeName" in pod["spec"]}
    told = {key: _scheduled(pod) for key, pod in keys.items() if key not in nodes}
    return nodes, told


def _scheduled(pod):
    return next((told["message"] for told in pod["status"].get("conditions", ()) if told["type"] == "PodScheduled"), None)


def test_dry_runs_on_a_snapshot_decide_as_the_scheduler_does(control_plane, nodes, tmp_path):
    api = control_plane.api
    nodes(40, each=mixed_pods.node)
    for made in mixed_pods.setting():
        api.create(made)
    running = [objects.pod(f"running-{i}", labels={"app": "plain"}, cpu="500m") for i in range(30)]
    for i, pod in enumerate(api.create_many(running)):
        api.bind(pod["metadata"]["name"], f"node-{i * 7 % 40:04d}")
    eventually(lambda: all(pod["status"]["phase"] == "Running" for pod in api.list("Pod")))
    pods = mixed_pods.pods(500, NAME)
    api.create_many(pods[:250])
    time.sleep(1.1)  # creation times have whole seconds: two of them, and many pods of each
    api.create_many(pods[250:])
    policy = tmp_path / "mixed.policy"
    policy.write_text(mixed_pods.POLICY)

    wharf("snapshot", "-o", tmp_path / "now.json.gz", f"--kubeconfig={control_plane.kubeconfig}")
    expected_nodes, expected_messages = decided(control_plane, "--snapshot", tmp_path / "now.json.gz", "--policy", policy)
    live = decided(control_plane, "--live", f"--kubeconfig={control_plane.kubeconfig}", "--policy", policy)
    with WharfProcess(control_plane, "--policy", policy):
        eventually(lambda: len(found(control_plane)[0]) == len(expected_nodes) and all(found(control_plane)[1].values()), within=60)

    assert live == (expected_nodes, expected_messages)
    assert len(expected_nodes) > 400
    assert len(expected_messages) > 20
    assert found(control_plane) == (expected_nodes, expected_messages)
    assert_sound(control_plane)
