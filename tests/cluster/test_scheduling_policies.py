"""SchedulingPolicies and PolicyApps under policies, on a real API server."""

import itertools
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.cluster import custom
from tests.cluster.custom import EAST, phase, pods_of, running, zoned
from tests.cluster.process import WharfProcess
from tests.cluster.replicas import two_replicas
from tests.cluster.waiting import eventually

RESERVE = """policy "reserve"
for pods where (pod.labels["app"] ?? "") == "shop"
param keep: percent = 5% range 0%..50%
filter room { require node.free.cpu - pod.requests.cpu >= node.allocatable.cpu * keep else "less than {keep} of cpu left" }
"""


def policy(cluster, name):
    return custom.status(cluster, "SchedulingPolicy", name)


def condition(cluster, name, kind):
    return custom.condition(policy(cluster, name), kind)


def writes(replica):
    return [each for each in replica.proxy.seen if each.method == "PATCH" and custom.GROUP in each.path]


def zones(cluster, found):
    labels = {node["metadata"]["name"]: node["metadata"]["labels"].get("zone") for node in cluster.api.list("Node")}
    assert all("nodeName" in pod["spec"] for pod in found)
    return {labels[pod["spec"]["nodeName"]] for pod in found}


def test_a_policy_becomes_active_and_shows_which_pods_it_governs(defined, wharf, nodes, pods, kubectl):
    zoned(nodes)
    custom.create(defined, "SchedulingPolicy", "east", {"source": EAST})
    eventually(lambda: condition(defined, "east", "Active") == "True")
    pods(4, scheduler="wharfinger")

    eventually(lambda: policy(defined, "east").get("matched") == 4)
    eventually(lambda: zones(defined, defined.api.list("Pod")))
    status = policy(defined, "east")

    assert zones(defined, defined.api.list("Pod")) == {"east"}
    assert (status["eligible"], status["nodes"], status["policy"], len(status["revision"])) == (3, 6, "east", 64)
    assert {each["type"]: each["status"] for each in status["conditions"]} == dict.fromkeys(
        ["Ready", "Compiled", "Tested", "Active", "MetricsAvailable"], "True"
    )
    assert kubectl("get", "spol", "east", "--no-headers").split()[:6] == ["east", "Active", "Enforce", "4", "3", "6"]
    custom.delete(defined, "SchedulingPolicy", "east")
    eventually(lambda: custom.get(defined, "SchedulingPolicy", "east") is None)

    def goes_anywhere():
        pods(8, prefix=f"late-{time.monotonic_ns()}", scheduler="wharfinger")
        return eventually(lambda: zones(defined, defined.api.list("Pod"))) == {"east", "west"}

    eventually(goes_anywhere)


def test_a_broken_edit_changes_nothing_and_says_where(defined, wharf):
    custom.create(defined, "SchedulingPolicy", "east", {"source": EAST})
    eventually(lambda: condition(defined, "east", "Active") == "True")
    revision = policy(defined, "east")["revision"]

    custom.patch(defined, "SchedulingPolicy", "east", {"spec": {"source": EAST.replace("require", "requires")}})
    eventually(lambda: condition(defined, "east", "Compiled") == "False")
    status = policy(defined, "east")
    assert (condition(defined, "east", "Active"), status["revision"]) == ("True", revision)
    assert (status["diagnostics"][0]["line"], status["diagnostics"][0]["severity"], status["observedGeneration"]) == (3, "error", 2)

    custom.patch(defined, "SchedulingPolicy", "east", {"spec": {"source": EAST}})
    eventually(lambda: condition(defined, "east", "Compiled") == "True" and "diagnostics" not in policy(defined, "east"))


def rows(kubectl, kind):
    """The lines of kubectl for the objects of a kind: the column STATUS, and the whole line with single spaces."""
    found = [line.split() for line in kubectl("get", kind, "-n", "default", "--no-headers").splitlines()]
    return {words[0]: (words[1], " ".join(words)) for words in found}


def events_about(cluster, kind, name):
    found = [event for event in cluster.api.list("Event") if event.get("regarding", {}).get("kind") == kind]
    return [(event["reason"], event["note"]) for event in found if event["regarding"]["name"] == name]


def test_kubectl_shows_the_most_severe_finding_first_and_events_have_all(defined, wharf, nodes, kubectl):
    zoned(nodes)
    custom.create(defined, "SchedulingPolicy", "east", {"source": EAST})
    custom.create(defined, "SchedulingPolicy", "never", {"source": EAST.replace("node.labels", "node.lables").replace('"east"', '"n"', 1)})
    custom.create(defined, "PlacementPreview", "lost", {"workloadRef": {"kind": "Job", "name": "none"}})
    custom.create(defined, "PolicyApp", "bad", {"image": "web:1", "policy": {"inline": EAST.replace("node.labels", "node.lables")}})
    eventually(lambda: condition(defined, "east", "Ready") == "True")
    custom.patch(defined, "SchedulingPolicy", "east", {"spec": {"source": EAST.replace("require", "requires")}})
    eventually(lambda: condition(defined, "east", "Ready") == "False" and condition(defined, "never", "Ready") == "False")
    eventually(lambda: custom.status(defined, "PlacementPreview", "lost") and phase(defined, "bad") == "Failed")

    policies = rows(kubectl, "spol")
    assert policies["east"][0] == "FormerVersion"
    assert "schedulingpolicies/east:3:3: P113" in policies["east"][1]
    assert policies["never"][0] == "Refused"
    assert "schedulingpolicies/never:3:17: P302: `node` has no field `lables`" in policies["never"][1]
    assert "UnknownObject there is no Job none in namespace default" in rows(kubectl, "pprev")["lost"][1]
    assert rows(kubectl, "papp")["bad"][0] == "Failed"

    eventually(lambda: {reason for reason, _ in events_about(defined, "SchedulingPolicy", "east")} == {"PolicyAccepted", "PolicyRefused"})
    reported = dict(events_about(defined, "SchedulingPolicy", "east"))
    assert reported["PolicyAccepted"].endswith("is active")
    assert reported["PolicyRefused"].endswith("its former version stays in force")
    eventually(lambda: "P302" in str(events_about(defined, "SchedulingPolicy", "never")))
    eventually(lambda: "PolicyRefused" in kubectl("describe", "spol", "never"))


def test_the_state_of_the_policy_of_an_app_is_reported_in_its_namespace(defined, wharf, nodes, kubectl):
    zoned(nodes)
    defined.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    custom.create(defined, "PolicyApp", "web", {"image": "web:1", "policy": {"inline": EAST}}, namespace="team")
    eventually(lambda: "PolicyAccepted" in kubectl("events", "--for", "policyapp/web", "-n", "team"))
    assert events_about(defined, "SchedulingPolicy", "team.web") == []


def test_params_are_held_to_their_ranges(defined, wharf):
    custom.create(defined, "SchedulingPolicy", "reserve", {"source": RESERVE, "params": {"keep": "90%"}})
    eventually(lambda: condition(defined, "reserve", "Active") == "False")
    assert "range" in str(policy(defined, "reserve"))

    custom.patch(defined, "SchedulingPolicy", "reserve", {"spec": {"params": {"keep": "20%"}}})
    eventually(lambda: condition(defined, "reserve", "Active") == "True")


def test_disabled_and_shadow_policies_do_not_decide(defined, wharf, nodes, pods):
    zoned(nodes)
    for name, mode in (("shadow", "Shadow"), ("off", "Off")):
        custom.create(defined, "SchedulingPolicy", name, {"source": EAST.replace('"east"', f'"{name}"', 1), "mode": mode})
    eventually(lambda: condition(defined, "off", "Active") == "False" and condition(defined, "shadow", "Active") == "False")
    pods(24, scheduler="wharfinger")

    eventually(lambda: all("nodeName" in pod["spec"] for pod in defined.api.list("Pod")))
    assert zones(defined, defined.api.list("Pod")) == {"east", "west"}
    eventually(lambda: policy(defined, "shadow").get("matched") == 24)


def test_a_hundred_edits_in_a_second_end_with_the_last(defined, wharf):
    custom.create(defined, "SchedulingPolicy", "east", {"source": EAST})
    for i in range(100):
        custom.patch(defined, "SchedulingPolicy", "east", {"spec": {"source": EAST.replace("not in the east", f"edit {i}")}})

    def settled():
        found = custom.get(defined, "SchedulingPolicy", "east")
        return found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"] == 101

    eventually(settled)
    assert condition(defined, "east", "Active") == "True"


def test_an_app_brings_its_own_policy(defined, wharf, nodes, pods):
    zoned(nodes)
    custom.create(defined, "PolicyApp", "web", {"image": "web:1", "replicas": 4, "policy": {"inline": EAST}})
    eventually(lambda: running(defined, 4) and custom.condition(custom.status(defined, "PolicyApp", "web"), "Governed") == "True")
    pods(24, scheduler="wharfinger")
    eventually(lambda: all("nodeName" in pod["spec"] for pod in defined.api.list("Pod")))

    assert zones(defined, pods_of(defined)) == {"east"}
    assert zones(defined, [pod for pod in defined.api.list("Pod") if pod["metadata"]["name"].startswith("pod-")]) == {"east", "west"}
    custom.delete(defined, "PolicyApp", "web")
    eventually(lambda: custom.get(defined, "PolicyApp", "web") is None)
    eventually(lambda: custom.items(defined, "SchedulingPolicy") == [] and not pods_of(defined))


def test_an_app_says_that_its_policy_is_not_there_or_broken(defined, wharf, nodes):
    nodes(1)
    custom.create(defined, "PolicyApp", "web", {"image": "web:1", "policy": {"name": "gold"}})
    eventually(lambda: custom.condition(custom.status(defined, "PolicyApp", "web"), "Governed") == "False")
    assert 'waits for its policy: there is no active policy "gold"' in custom.status(defined, "PolicyApp", "web")["message"]
    assert not defined.api.list("Deployment", "default")
    gold = 'policy "gold"\nfor pods where (pod.labels["scheduling.wharfinger.dev/policy"] ?? "") == "gold"\nscore s = 1\n'
    custom.create(defined, "SchedulingPolicy", "gold", {"source": gold})
    eventually(lambda: custom.condition(custom.status(defined, "PolicyApp", "web"), "Governed") == "True" and running(defined, 1))

    custom.create(defined, "PolicyApp", "bad", {"image": "web:1", "policy": {"inline": 'policy "x"\nfilter {'}})
    eventually(lambda: custom.status(defined, "PolicyApp", "bad").get("phase") == "Failed")
    assert "does not compile" in custom.status(defined, "PolicyApp", "bad")["message"]
    assert [each["metadata"]["name"] for each in defined.api.list("Deployment", "default")] == ["web"]

    typed = EAST.replace('"zone"', "3")
    custom.create(defined, "PolicyApp", "worse", {"image": "web:1", "policy": {"inline": typed}})
    eventually(lambda: custom.status(defined, "PolicyApp", "worse").get("phase") == "Failed")
    assert "the inline policy is refused" in custom.status(defined, "PolicyApp", "worse")["message"]


def test_drifted_pods_are_listed_and_evicted_one_by_one(defined, wharf, nodes):
    zoned(nodes)
    spec = {"image": "web:1", "replicas": 3, "policy": {"inline": EAST}, "evictionIntervalSeconds": 4}
    custom.create(defined, "PolicyApp", "web", spec)
    eventually(lambda: running(defined, 3))
    before = {pod["metadata"]["uid"] for pod in pods_of(defined)}
    for i in range(6):
        defined.api.patch("Node", f"node-{i:04d}", {"metadata": {"labels": {"zone": "west" if i % 2 else "east"}}})

    eventually(lambda: custom.status(defined, "PolicyApp", "web").get("drifted") == 3)
    first = custom.status(defined, "PolicyApp", "web")["drift"][0]
    assert first["node"] in {"node-0001", "node-0003", "node-0005"}
    assert first["reasons"] == ["zone: not in the east"]
    assert {pod["metadata"]["uid"] for pod in pods_of(defined)} == before

    custom.patch(defined, "PolicyApp", "web", {"spec": {"driftPolicy": "Evict"}})
    eventually(lambda: not before & {pod["metadata"]["uid"] for pod in pods_of(defined)})
    evicted = eventually(lambda: len(times := _evictions(defined)) >= 3 and times)
    assert len(evicted) == 3
    assert min(later - earlier for earlier, later in itertools.pairwise(evicted)) > timedelta(seconds=2.5)
    eventually(lambda: running(defined, 3) and custom.status(defined, "PolicyApp", "web")["drifted"] == 0)


def _evictions(cluster):
    """The times at which the process evicted pods, from its log."""
    said = [event for event in cluster.api.list("Event") if event["reason"] == "Evicted"]
    return sorted(datetime.fromisoformat(event["eventTime"]) for event in said)


def test_a_disruption_budget_keeps_drifted_pods(defined, wharf, nodes):
    zoned(nodes)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"scheduling.wharfinger.dev/app": "web"}}},
    }
    defined.api.create(budget)
    spec = {"image": "web:1", "replicas": 2, "policy": {"inline": EAST}, "evictionIntervalSeconds": 1, "driftPolicy": "Evict"}
    custom.create(defined, "PolicyApp", "web", spec)
    eventually(lambda: running(defined, 2))
    before = {pod["metadata"]["uid"] for pod in pods_of(defined)}
    for i in range(6):
        defined.api.patch("Node", f"node-{i:04d}", {"metadata": {"labels": {"zone": "west" if i % 2 else "east"}}})

    eventually(lambda: "EvictionRefused" in {event["reason"] for event in defined.api.list("Event")})
    assert {pod["metadata"]["uid"] for pod in pods_of(defined)} == before


def test_definitions_that_come_later_are_picked_up(control_plane, nodes, pods):
    nodes(2)
    with WharfProcess(control_plane) as running_one:
        pods(2, scheduler="wharfinger")
        eventually(lambda: all("nodeName" in pod["spec"] for pod in control_plane.api.list("Pod")))
        eventually(lambda: "custom resources are not defined" in running_one.log)
        try:
            custom.install(control_plane)
            custom.create(control_plane, "SchedulingPolicy", "east", {"source": EAST})
            custom.create(control_plane, "PolicyApp", "web", {"image": "web:1"})
            eventually(lambda: condition(control_plane, "east", "Active") == "True")
            eventually(lambda: custom.status(control_plane, "PolicyApp", "web").get("phase"))
        finally:
            custom.uninstall(control_plane)


def test_definitions_that_are_deleted_are_named_with_the_way_back(defined, wharf, nodes):
    nodes(2)
    custom.create(defined, "SchedulingPolicy", "east", {"source": EAST})
    eventually(lambda: condition(defined, "east", "Active") == "True")
    custom.uninstall(defined)

    def status():
        command = [Path(sys.executable).with_name("wharf"), "status", "--url", wharf.url]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    eventually(lambda: "`wharf install --print | kubectl apply -f -` brings it back" in status().stdout)
    assert status().returncode == 1
    assert "404" not in status().stdout
    eventually(lambda: "custom resources are not defined; continuing without them" in wharf.log)
    assert "objects may not be read" not in wharf.log
    custom.install(defined)
    eventually(lambda: status().returncode == 0)


@pytest.mark.parametrize("moment", ["created", "running"])
def test_the_api_server_restarts(defined, wharf, nodes, moment):
    nodes(3)
    custom.create(defined, "PolicyApp", "web", {"image": "web:1", "replicas": 3})
    if moment == "running":
        eventually(lambda: running(defined, 3))
    defined.api_server.kill()
    defined.start_api_server()

    eventually(lambda: running(defined, 3))
    custom.patch(defined, "PolicyApp", "web", {"spec": {"replicas": 4}})
    eventually(lambda: running(defined, 4))


def test_a_leader_that_dies_half_way_is_followed_by_one_that_goes_on(defined, nodes):
    with two_replicas(defined) as (leader, standby):
        custom.create(defined, "PolicyApp", "web", {"image": "web:1", "replicas": 3})
        eventually(lambda: defined.api.list("Deployment", "default"), every=0.005)
        leader.kill()
        assert phase(defined) != "Running"
        assert not writes(standby), "who does not lead writes nothing"
        made = defined.api.get("Deployment", "web")["metadata"]["uid"]
        nodes(3)  # without one it runs nowhere, however late the leader dies

        eventually(lambda: running(defined, 3))
        assert [each["metadata"]["uid"] for each in defined.api.list("Deployment", "default")] == [made]
        assert writes(standby)


def test_apps_that_go_while_they_are_made_leave_nothing(defined, wharf, nodes):
    nodes(3)
    for i in range(20):
        custom.create(defined, "PolicyApp", f"web-{i}", {"image": "web:1", "port": 80, "policy": {"inline": EAST}})
        if i % 2:
            time.sleep(0.02)
        custom.delete(defined, "PolicyApp", f"web-{i}")

    eventually(lambda: not custom.items(defined, "PolicyApp"))
    eventually(lambda: not custom.items(defined, "SchedulingPolicy") and not defined.api.list("Deployment", "default"))
    eventually(lambda: {each["metadata"]["name"] for each in defined.api.list("Service", "default")} <= {"kubernetes"})
