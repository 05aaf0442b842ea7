"""What-if questions to a running scheduler on a real API server: previews, /evaluate and `wharf explain policy`, and the commands."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cluster import custom, objects
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually

NAME = "wharfinger"
POLICY = """policy "east"
for pods where (pod.labels["app"] ?? "") == "web"
filter zone {
  require (node.labels["zone"] ?? "") != "west" else "in the west"
}
"""
WORKLOAD = {"spec": {"schedulerName": NAME, "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1500m"}}}]}}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"minAvailable": 5, "selector": {"matchLabels": {"app": "web"}}},
}


def zone(index):
    return {"labels": {"kubernetes.io/hostname": f"node-{index:04d}", "zone": "west" if index == 3 else "east"}}


def output_of(*words):
    """The JSON that a command prints."""
    command = [Path(sys.executable).with_name("wharf"), *map(str, words), "--format", "json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout)


@pytest.fixture
def shop(defined, nodes, tmp_path):
    """A running scheduler with six pods of one workload on three of four nodes, one more pod that nobody makes again, and a budget."""
    policy = tmp_path / "east.policy"
    policy.write_text(POLICY)
    nodes(4, cpu="4", each=zone)
    with WharfProcess(defined, "--policy", policy, "--custom-resources", "--tenant-policies=Trusted") as running:
        defined.api.create(objects.deployment("web", 6, scheduler=NAME, cpu="1"))
        defined.api.create(BUDGET)
        defined.api.create(objects.pod("bare", scheduler=NAME, nodeName="node-0000", cpu="10m"))
        eventually(lambda: defined.api.get("PodDisruptionBudget", "web").get("status", {}).get("disruptionsAllowed") == 1)
        yield running, policy
    defined.api.delete("Deployment", "web")
    defined.api.delete("PodDisruptionBudget", "web")


def evaluated(running, **request):
    body = json.dumps(request).encode()
    asked = urllib.request.Request(f"{running.url}/evaluate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.loads(answer.read())


def test_drains_are_those_of_the_verb(shop, defined):
    running, policy = shop
    drained = ["node-0000", "node-0001"]
    verb = output_of("drain", *drained, "--live", f"--kubeconfig={defined.kubeconfig}", "--policy", policy)
    outcomes = {(pod["pod"], pod["outcome"], (pod.get("replacement") or {}).get("node")) for pod in verb["pods"]}
    assert {outcome for _, outcome, _ in outcomes} >= {"placed", "refused"}
    answer = evaluated(running, drain=drained)
    assert {(pod["pod"], pod["outcome"], pod["node"]) for pod in answer["pods"]} == outcomes
    assert answer["steps"] == verb["steps"] > 1
    assert [(use["budget"], use["allowedNow"]) for use in answer["budgets"]] == [("default/web", 1)]

    custom.create(defined, "PlacementPreview", "drain", {"template": WORKLOAD, "drain": drained})
    status = eventually(lambda: custom.status(defined, "PlacementPreview", "drain"))
    assert status["drainedRefused"] == 1
    assert status["drained"] + status["drainedForbidden"] == sum(outcome != "refused" for _, outcome, _ in outcomes)
    assert len(defined.api.list("Pod")) == 7


def test_supposed_nodes_and_further_pods(shop, defined):
    running, _ = shop
    like = [{"like": "node-0003", "count": 2}]
    spec = {"template": WORKLOAD, "replicas": 2, "nodes": like, "capacity": True}
    custom.create(defined, "PlacementPreview", "more", spec)
    custom.create(defined, "PlacementPreview", "wrong", {"template": WORKLOAD, "nodes": [{"like": "node-9999"}]})
    status = eventually(lambda: custom.status(defined, "PlacementPreview", "more"))
    assert (status["placed"], status["further"]) == (2, 7)  # two on each of the empty nodes, one on each of three others
    wrong = eventually(lambda: custom.status(defined, "PlacementPreview", "wrong"))
    assert custom.condition(wrong, "Answered") == "False"

    workload = {**objects.deployment("big", 4, scheduler=NAME), "spec": {"replicas": 4, "selector": {}, "template": WORKLOAD}}
    answer = evaluated(running, objects=[workload], nodes=like)
    assert (answer["placed"], [node["name"] for node in answer["newNodes"]]) == (4, ["node-0003-new-1", "node-0003-new-2"])
    with pytest.raises(urllib.error.HTTPError) as refused:
        evaluated(running, nodes=[{"like": "node-9999"}])
    assert refused.value.code == 404
    refused.value.close()
    assert len(defined.api.list("Node")) == 4


def test_pods_of_manifests_have_the_default_requests_of_their_namespace(shop, defined):
    running, _ = shop
    defined.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "limited"}})
    limits = [{"type": "Container", "defaultRequest": {"cpu": "1500m"}}]
    metadata = {"name": "cpu", "namespace": "limited"}
    defined.api.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}})
    template = {"spec": {"schedulerName": NAME, "containers": [{"name": "main", "image": "x"}]}}
    metadata = {"name": "few", "namespace": "limited"}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 9, "template": template}}
    eventually(lambda: evaluated(running, objects=[workload])["placed"] == 5)  # two on the empty node, one on each of three others
    custom.create(defined, "PlacementPreview", "few", {"template": template, "replicas": 9}, "limited")
    assert eventually(lambda: custom.status(defined, "PlacementPreview", "few", "limited"))["placed"] == 5


def test_a_policy_shows_which_pods_it_governs_and_what_it_rejects(shop, defined):
    running, _ = shop
    defined.api.patch("Deployment", "web", {"spec": {"replicas": 14}})
    eventually(lambda: sum("nodeName" in pod["spec"] for pod in defined.api.list("Pod")) == 1 + 3 + 4 + 4)
    eventually(lambda: output_of("explain", "policy", "east", "--url", running.url)["governed"]["waiting"] == 3)
    explained = output_of("explain", "policy", "east", "--url", running.url)
    assert (explained["governed"]["pods"], explained["governed"]["of"], explained["lookedAt"]) == (14, 15, 14)
    [zone_filter] = explained["filters"]
    assert (zone_filter["rule"], zone_filter["nodes"], zone_filter["pods"], zone_filter["sentences"]) == (
        "east/zone",
        1,
        14,
        ["in the west"],
    )
    assert {each["without"] for each in explained["differing"] if each["chosen"] is None} == {"node-0003"}
    assert explained["suspended"] == []
