"""Decisions on a snapshot are those of the running scheduler at that moment."""

import itertools
import json
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from msgspec import structs

from tests.cluster import mixed_pods, objects
from tests.cluster.control_plane import TOKEN
from tests.cluster.live import NAME
from tests.cluster.process import WharfProcess
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually
from wharfinger.model import objects as model
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.simulate.cluster import load_cluster, load_pods

WHARF = Path(sys.executable).with_name("wharf")
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def wharf(*arguments, check=True):
    done = subprocess.run([WHARF, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 or not check, done.stderr
    return done


def decided(*flags):
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
    reported = {key: _scheduled(pod) for key, pod in keys.items() if key not in nodes}
    return nodes, reported


def _scheduled(pod):
    return next((condition["message"] for condition in pod["status"].get("conditions", ()) if condition["type"] == "PodScheduled"), None)


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
    api.create_many(objects.pod(f"gated-{i}", scheduler=NAME, schedulingGates=[{"name": "quota"}]) for i in range(3))
    policy = tmp_path / "mixed.policy"
    policy.write_text(mixed_pods.POLICY)

    wharf("snapshot", "-o", tmp_path / "now.json.gz", f"--kubeconfig={control_plane.kubeconfig}")
    expected_nodes, expected_messages = decided("--snapshot", tmp_path / "now.json.gz", "--policy", policy)
    live = decided("--live", f"--kubeconfig={control_plane.kubeconfig}", "--policy", policy)
    with WharfProcess(control_plane, "--policy", policy):
        eventually(lambda: len(found(control_plane)[0]) == len(expected_nodes) and all(found(control_plane)[1].values()))

    assert live == (expected_nodes, expected_messages)
    told_at_gates = {expected_messages.pop(f"default/gated-{i}") for i in range(3)}
    assert told_at_gates == {"waiting for scheduling gates: [quota]"}
    assert len(expected_nodes) > 400
    assert len(expected_messages) > 20
    actual_nodes, actual_messages = found(control_plane)
    assert {key for key in actual_messages if key.startswith("default/gated-")} == {f"default/gated-{i}" for i in range(3)}
    assert actual_nodes == expected_nodes
    assert {key: message for key, message in actual_messages.items() if not key.startswith("default/gated-")} == expected_messages
    assert_sound(control_plane)


def test_a_pod_that_waits_for_another_is_placed_after_it_in_both(control_plane, nodes, tmp_path):
    nodes(8)
    api = control_plane.api
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": mixed_pods.HOST}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    api.create(objects.pod("a-first", scheduler=NAME, affinity=affinity))
    api.create(objects.pod("b-second", scheduler=NAME, nodeSelector={"none": "such"}))
    api.create(objects.pod("c-third", scheduler=NAME, labels={"app": "db"}))

    expected_nodes, expected_messages = decided("--live", f"--kubeconfig={control_plane.kubeconfig}")
    with WharfProcess(control_plane):
        eventually(lambda: len(found(control_plane)[0]) == 2 and all(found(control_plane)[1].values()))

    assert expected_nodes["default/a-first"] == expected_nodes["default/c-third"]
    assert found(control_plane) == (expected_nodes, expected_messages)


LIMITED = [
    {},
    {"requests": {"cpu": "200m"}},
    {"limits": {"cpu": "1500m"}},
    {"limits": {"memory": "64Mi", "example.com/widget": "1"}},
    {"requests": {"cpu": "0", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "1Gi"}},
]
"""The resources of a container in a namespace with LimitRanges."""


def limit_range(name, *items):
    limits = [{"type": "Container", **item} for item in items]
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name, "namespace": "limited"}, "spec": {"limits": limits}}


def limited_pods():
    """A pod for each of LIMITED, with one container or several, with requests of the whole pod, and of a Deployment; and one more."""
    whole = {"cpu": "32", "memory": "32Gi"}
    for i, resources in enumerate(LIMITED):
        parts = {"containers": [container("main", resources), container("side", {})], "initContainers": [container("first", resources)]}
        yield objects.pod(f"one-{i}", namespace="limited", containers=parts["containers"][:1])
        yield objects.pod(f"more-{i}", namespace="limited", **parts)
        yield objects.pod(f"whole-{i}", namespace="limited", **parts, resources={"requests": whole})
        yield objects.deployment(f"set-{i}", 1, namespace="limited", **parts)
    yield objects.pod("limit-0", namespace="limited", containers=[container("main", {})], resources={"limits": whole})


def container(name, resources):
    return {"name": name, "image": "registry.k8s.io/pause:3.10", "resources": resources}


def amounts(pod):
    """What a pod asks for by the name of the pod or of its Deployment: as a whole, and each container alone."""
    alone = [structs.replace(pod, spec=model.PodSpec(containers=(each,))) for each in (*pod.spec.init_containers, *pod.spec.containers)]
    return "-".join(pod.metadata.name.split("-")[:2]), [(view.requests, dict(view.limits)) for view in map(PodView, (pod, *alone))]


def test_pods_of_manifests_ask_for_what_the_limit_ranges_of_the_api_server_give_them(control_plane, tmp_path):
    api = control_plane.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "limited"}})
    api.create(limit_range("a", {"defaultRequest": {"cpu": "300m"}, "max": {"cpu": "2"}}))
    api.create(limit_range("b", {"min": {"memory": "32Mi"}}, {"type": "Pod", "max": {"cpu": "64"}}))
    api.create(limit_range("c", {"default": {"ephemeral-storage": "3Gi", "example.com/gadget": "1"}}))
    manifests = list(limited_pods())
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    wharf("snapshot", "-o", tmp_path / "now.json", f"--kubeconfig={control_plane.kubeconfig}")
    expected, _ = load_pods([tmp_path / "pods.json"], load_cluster([tmp_path / "now.json"]))

    api.create_many(manifests)
    made = eventually(lambda: found if len(found := api.list("Pod", "limited")) == len(expected) else None)
    assert dict(amounts(pod.object) for pod in expected) == dict(amounts(decode.convert(pod, model.Pod)) for pod in made)


def test_a_snapshot_is_of_one_moment_though_pods_come_all_the_while(control_plane, nodes):
    """Pods are created all the while, each after a set of the same name: in every picture one set at most is ahead of its pod."""
    nodes(2)
    api, stop = control_plane.api, threading.Event()

    def create():
        for i in itertools.count():
            if stop.is_set():
                return
            api.create(empty_set(f"web-{i:05d}"))
            api.create(objects.pod(f"web-{i:05d}"))

    creator = threading.Thread(target=create)
    creator.start()
    try:
        eventually(lambda: len(api.list("Pod")) > 10)
        text = [wharf("snapshot", "-o-", f"--kubeconfig={control_plane.kubeconfig}").stdout for _ in range(3)]
    finally:
        stop.set()
        creator.join()

    for picture in map(json.loads, text):
        sets, pods = ({item["metadata"]["name"] for item in picture["items"] if item["kind"] == kind} for kind in ("ReplicaSet", "Pod"))
        assert pods
        assert sets >= pods
        assert len(sets - pods) <= 1


def test_forbidden_kinds_are_reported_with_the_missing_rule(control_plane, nodes, tmp_path):
    nodes(1)
    api = control_plane.api
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    name = {"metadata": {"name": "reader"}}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "default"}})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    api.request("POST", f"{RBAC}/clusterroles", {**name, "rules": rules})
    api.request("POST", f"{RBAC}/clusterrolebindings", {**name, "subjects": [subject], "roleRef": role})
    token = api.request("POST", "/api/v1/namespaces/default/serviceaccounts/reader/token", {"spec": {}})["status"]["token"]
    config = tmp_path / "config"
    config.write_text(control_plane.kubeconfig.read_text().replace(TOKEN, token))

    def without_pods():
        done = wharf("snapshot", "-o", tmp_path / "now.json", f"--kubeconfig={config}", check=False)
        assert done.returncode == 2
        return 'grant a ClusterRole with the rule {apiGroups: [""], resources: [pods], verbs: [list]}' in done.stderr

    eventually(without_pods)
    rules[0]["resources"].append("pods")
    api.request("PATCH", f"{RBAC}/clusterroles/reader", {"rules": rules}, content_type="application/merge-patch+json")

    def with_pods():
        done = wharf("snapshot", "-o", tmp_path / "now.json", f"--kubeconfig={config}", check=False)
        assert done.returncode == 0, done.stderr
        return "resources: [csinodes], verbs: [list]}" in done.stderr

    eventually(with_pods)
    for kind in ("clusterroles", "clusterrolebindings"):
        api.request("DELETE", f"{RBAC}/{kind}/reader")
    api.request("DELETE", "/api/v1/namespaces/default/serviceaccounts/reader")


def test_the_cache_of_a_running_scheduler_is_what_the_api_server_has(control_plane, nodes, pods):
    nodes(10)
    with WharfProcess(control_plane) as process:
        pods(200, scheduler=NAME)
        pods(20, prefix="others", scheduler="absent-scheduler")
        eventually(lambda: len(found(control_plane)[0]) == 200)
        eventually(lambda: cache_of(process)["pods"] == 200 and cache_of(process)["equal"])
        control_plane.api.delete("Pod", "pod-0000")
        control_plane.api.delete("Node", "node-0003")
        eventually(lambda: cache_of(process)["nodes"] == 9 and cache_of(process)["equal"])
        assert cache_of(process)["assumed"] == {}


def cache_of(process):
    with urllib.request.urlopen(f"{process.url}/debug/cache", timeout=10) as answer:
        return json.load(answer)


def empty_set(name):
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": objects.pod(name)["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
