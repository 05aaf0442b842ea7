"""Custom resources on a real API server, reconciled by `wharf run`."""

import json
import time
import urllib.request
from itertools import pairwise

from tests.cluster import custom, objects
from tests.cluster.custom import EAST, phase, pods_of, running, zoned
from tests.cluster.misbehaviour import Answer
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually

TEMPLATE = {"spec": {"schedulerName": "wharfinger", "containers": [{"name": "main", "image": "web:1"}]}}


def test_an_app_runs_scales_changes_and_goes(defined, wharf, nodes, kubectl):
    nodes(4)
    spec = {"image": "web:1", "replicas": 3, "port": 80, "env": [{"name": "A", "value": "b"}], "resources": {"requests": {"cpu": "0.5"}}}
    custom.create(defined, "PolicyApp", "web", spec)
    eventually(lambda: running(defined, 3))
    made = defined.api.get("Deployment", "web")
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert made["metadata"]["ownerReferences"][0]["kind"] == "PolicyApp"
    assert (container["image"], container["env"], container["resources"]["requests"]["cpu"]) == ("web:1", spec["env"], "500m")
    assert defined.api.get("Service", "web")["spec"]["ports"][0]["port"] == 80
    assert kubectl("get", "papp", "web", "--no-headers").split()[1:4] == ["Running", "3", "3"]

    kubectl("scale", "papp/web", "--replicas=5")
    eventually(lambda: running(defined, 5))
    custom.patch(defined, "PolicyApp", "web", {"spec": {"image": "web:2", "port": None, "resources": None}})
    eventually(lambda: running(defined, 5) and all(pod["spec"]["containers"][0]["image"] == "web:2" for pod in pods_of(defined)))
    assert not any(pod["spec"]["containers"][0].get("resources") for pod in pods_of(defined))
    eventually(lambda: not [each for each in defined.api.list("Service", "default") if each["metadata"]["name"] == "web"])

    def reasons():
        return {event["reason"] for event in defined.api.list("Event") if event.get("regarding", {}).get("kind") == "PolicyApp"}

    eventually(lambda: "Running" in reasons() and reasons() & {"Pending", "Progressing"})

    custom.delete(defined, "PolicyApp", "web")
    eventually(lambda: custom.get(defined, "PolicyApp", "web") is None and not pods_of(defined))
    eventually(lambda: not defined.api.list("Deployment", "default"))


def test_manual_edits_are_healed(defined, wharf, nodes):
    nodes(3)
    custom.create(defined, "PolicyApp", "web", {"image": "web:1", "replicas": 2, "port": 80})
    eventually(lambda: running(defined, 2))

    defined.api.patch("Deployment", "web", {"spec": {"replicas": 7}})
    eventually(lambda: defined.api.get("Deployment", "web")["spec"]["replicas"] == 2)
    defined.api.patch("Deployment", "web", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}})
    eventually(lambda: defined.api.get("Deployment", "web")["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "wharfinger")
    defined.api.delete("Service", "web")
    eventually(lambda: [each for each in defined.api.list("Service", "default") if each["metadata"]["name"] == "web"])
    eventually(lambda: running(defined, 2))


UNSEEN = "a\x7fb\x80c\x85d\x9be\u2028f\u2029g\ufeffh"
"""Characters that YAML refuses or reads as line breaks."""


def test_texts_with_any_characters_are_written_as_they_are(defined, wharf, nodes):
    nodes(2)
    custom.create(defined, "PolicyApp", "web", {"image": "web:1", "replicas": 1, "env": [{"name": "A", "value": UNSEEN}]})
    custom.create(defined, "PlacementPreview", "odd", {"template": TEMPLATE, "policies": [{"name": UNSEEN}]})

    eventually(lambda: running(defined, 1))
    made = defined.api.get("Deployment", "web")
    assert made["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] == UNSEEN
    found = eventually(lambda: custom.status(defined, "PlacementPreview", "odd").get("conditions"))
    assert found[0]["message"].startswith(f'there is no active policy "{UNSEEN[:5]}')
    assert "reconciling" not in wharf.log


def test_an_unchanged_cluster_causes_no_writes(defined, wharf, nodes):
    zoned(nodes)
    spec = {"image": "web:1", "replicas": 2, "port": 80, "resources": {"requests": {"cpu": "0.1"}}, "policy": {"inline": EAST}}
    custom.create(defined, "PolicyApp", "web", spec)
    custom.create(defined, "PlacementPreview", "more", {"workloadRef": {"kind": "PolicyApp", "name": "web"}})
    eventually(lambda: running(defined, 2))
    eventually(lambda: custom.status(defined, "SchedulingPolicy", "default.web").get("matched") == 2)

    def versions():
        ours = [item for kind in custom.PLURALS for item in custom.items(defined, kind)]
        found = [*ours, defined.api.get("Deployment", "web"), defined.api.get("Service", "web"), *pods_of(defined)]
        return [item["metadata"]["resourceVersion"] for item in found]

    def settled():
        found = versions()
        time.sleep(4.0)
        return versions() == found

    eventually(settled)
    before, requests = versions(), request_counts(wharf)
    time.sleep(8.0)

    def looked():
        after = request_counts(wharf)
        for controller in ("policyapp", "placementpreview", "schedulingpolicy"):
            name = f'wharfinger_reconcile_total{{controller="{controller}",result="requeue"}}'
            assert after[name] > requests[name], "it has not looked"
            assert after[f'workqueue_queue_duration_seconds_count{{name="{controller}"}}'] >= after[name]
            assert after[f'workqueue_depth{{name="{controller}"}}'] == 0
        return True

    eventually(looked)
    assert versions() == before


def request_counts(wharf):
    with urllib.request.urlopen(f"{wharf.url}/metrics") as answer:
        lines = [line.rpartition(" ") for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_a_deployment_of_another_owner_is_left_alone(defined, wharf):
    defined.api.create(objects.deployment("web", 1))

    custom.create(defined, "PolicyApp", "web", {"image": "web:1"})

    eventually(lambda: phase(defined) == "Failed")
    assert "was not made for this app" in custom.status(defined, "PolicyApp", "web")["message"]
    assert defined.api.get("Deployment", "web")["spec"]["template"]["metadata"]["labels"] == {"app": "web"}
    defined.api.delete("Deployment", "web")
    eventually(lambda: phase(defined) != "Failed")


def test_a_preview_answers_follows_the_cluster_and_expires(defined, wharf, nodes):
    nodes(2, cpu="2")
    template = {"spec": {"containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}]}}

    custom.create(defined, "PlacementPreview", "fits", {"template": template, "replicas": 5, "ttlSeconds": 3600})
    status = eventually(lambda: custom.status(defined, "PlacementPreview", "fits"))
    assert (status["pods"], status["placed"], [each["count"] for each in status["placements"]]) == (5, 4, [2, 2])
    assert status["message"].startswith("0/2 nodes are available: 2 Insufficient cpu")
    assert status["rules"][0] == {"rule": "NodeResourcesFit", "rejected": 2, "reasons": ["2 Insufficient cpu"]}
    assert "NodeResourcesFit: Insufficient cpu" in status["nearestMiss"]["reasons"]

    nodes(1, prefix="more", cpu="2")
    eventually(lambda: custom.status(defined, "PlacementPreview", "fits").get("placed") == 5)

    custom.create(defined, "PlacementPreview", "short", {"template": template, "ttlSeconds": 10})
    eventually(lambda: custom.status(defined, "PlacementPreview", "short").get("placed") == 1)
    eventually(lambda: custom.get(defined, "PlacementPreview", "short") is None)


def test_a_status_is_written_again_no_sooner_than_the_api_server_asks_for(defined, proxy, nodes):
    nodes(1)
    with WharfProcess(defined, kubeconfig=proxy.kubeconfig) as wharf:
        wharf.wait_scheduling()
        custom.create(defined, "PlacementPreview", "ask", {"template": TEMPLATE, "capacity": True})
        before = eventually(lambda: custom.status(defined, "PlacementPreview", "ask").get("further"))
        proxy.add(Answer(status=429, retry_after=2), path="/placementpreviews/ask/status$")
        nodes(1, prefix="more")

        def refused():
            return [each for each in tuple(proxy.seen) if each.status == 429]

        eventually(lambda: len(refused()) > 4)
        assert min(later.at - earlier.at for earlier, later in pairwise(refused())) > 1.5
        proxy.clear()
        eventually(lambda: custom.status(defined, "PlacementPreview", "ask")["further"] > before)


def test_a_preview_tries_another_policy_set(defined, wharf, nodes):
    zoned(nodes)
    defined.api.create(objects.deployment("shop", 0, scheduler="wharfinger"))
    asked = {"workloadRef": {"kind": "Deployment", "name": "shop"}, "replicas": 6}

    custom.create(defined, "PlacementPreview", "now", asked)
    custom.create(defined, "PlacementPreview", "tried", {**asked, "policies": [{"source": EAST}]})
    custom.create(defined, "PlacementPreview", "broken", {**asked, "policies": [{"source": 'policy "x"\nfilter {'}]})
    custom.create(defined, "PlacementPreview", "unknown", {"workloadRef": {"kind": "Job", "name": "none"}})

    names = lambda name: {each["node"] for each in custom.status(defined, "PlacementPreview", name)["placements"]}  # noqa: E731 — used twice
    eventually(lambda: all(custom.status(defined, "PlacementPreview", name) for name in ("now", "tried", "broken", "unknown")))
    assert len(names("now")) == 6
    assert names("tried") == {"node-0001", "node-0003", "node-0005"}
    assert custom.condition(custom.status(defined, "PlacementPreview", "broken"), "Answered") == "False"
    condition = custom.status(defined, "PlacementPreview", "unknown")["conditions"][0]
    assert (condition["reason"], condition["message"]) == ("UnknownObject", "there is no Job none in namespace default")


def test_a_preview_and_a_dry_run_are_equal(defined, wharf, nodes, pods, tmp_path):
    zoned(nodes, 12)
    pods(20, scheduler="wharfinger", cpu="1300m")
    eventually(lambda: all("nodeName" in pod["spec"] for pod in defined.api.list("Pod")))
    workload = objects.deployment("shop", 40, scheduler="wharfinger", cpu="2")
    defined.api.create({**workload, "spec": {**workload["spec"], "replicas": 0}})
    snapshot, wanted = tmp_path / "snapshot.json", tmp_path / "pods.json"
    snapshot.write_text(defined.kubectl("get", "nodes,pods", "-A", "-o", "json"))
    wanted.write_text(json.dumps({**defined.api.get("Deployment", "shop"), "spec": workload["spec"]}))

    custom.create(defined, "PlacementPreview", "shop", {"workloadRef": {"kind": "Deployment", "name": "shop"}, "replicas": 40})
    status = eventually(lambda: custom.status(defined, "PlacementPreview", "shop"))

    import wharfinger

    cluster = wharfinger.load_snapshot(snapshot, pods=[wanted])
    results = wharfinger.place([], cluster).results
    counts = {}
    for result in results:
        counts[result.node] = counts.get(result.node, 0) + 1
    unplaced = counts.pop(None, 0)
    assert {each["node"]: each["count"] for each in status["placements"]} == counts
    assert (status["pods"], status["placed"]) == (40, 40 - unplaced)
