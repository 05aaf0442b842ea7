"""A policy that takes more of decisions than it may, on a real API server: its pods wait, with the reason, and all others continue."""

import subprocess
import sys
from pathlib import Path

from tests.cluster import custom
from tests.cluster.process import WharfProcess
from tests.cluster.replicas import configuration
from tests.cluster.waiting import eventually

WHARF = Path(sys.executable).with_name("wharf")
NAME = "wharfinger"
SLOW = """policy "slow"
for pods where (pod.labels["team"] ?? "") == "slow"
filter roomy { require node.pod_count < 100 else "full" }
score room weight 1 = least_allocated(cpu: 1)
"""
QUICK = """policy "quick"
for pods where (pod.labels["team"] ?? "") == "quick"
filter roomy { require node.pod_count < 100 else "full" }
"""
LONGEST = "wharfinger_event_loop_longest_step_seconds"


def bound(control_plane, team):
    """The number of bound pods of a team."""
    return sum("nodeName" in pod["spec"] for pod in control_plane.api.list("Pod") if pod["metadata"]["labels"].get("team") == team)


def test_pods_of_a_policy_beyond_its_budget_wait_and_all_others_go_on(control_plane, nodes, pods, tmp_path):
    nodes(5)
    for name, text in (("slow", SLOW), ("quick", QUICK)):
        (tmp_path / f"{name}.policy").write_text(text)
    settings = configuration(control_plane, limits={"policyBudget": "0.001ms"})  # any policy takes longer
    with WharfProcess(control_plane, f"--config={settings}", "--policy", tmp_path) as wharf:
        wharf.wait_scheduling()
        pods(40, prefix="slow", scheduler=NAME, labels={"team": "slow"})
        eventually(lambda: "policy suspended" in wharf.log)
        pods(40, prefix="other", scheduler=NAME, labels={"team": "other"})
        eventually(lambda: bound(control_plane, "other") == 40)

        assert bound(control_plane, "slow") < 40
        notes = eventually(lambda: [event["note"] for event in control_plane.api.list("Event") if "is suspended" in event.get("note", "")])
        assert notes[0].startswith('policy "slow" is suspended: it took ')
        [status] = {
            condition["message"]
            for pod in control_plane.api.list("Pod")
            for condition in pod["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and "suspended" in condition.get("message", "")
        }
        assert "pods that it governs wait" in status

        ran = subprocess.run([WHARF, "status", "--url", wharf.url], capture_output=True, text=True, timeout=120, check=False)
        rows = {line.split()[0]: line for line in ran.stdout.splitlines() if line}
        assert ran.returncode == 1
        assert " suspended " in rows["slow"]
        assert " active " in rows["quick"]
        metrics = wharf.get("/metrics")[1]
        assert 'wharfinger_policies{state="suspended"} 1.0' in metrics
        assert 'wharfinger_policy_suspensions_total{policy="slow"}' in metrics
        assert f"{LONGEST} " in metrics
        assert wharf.terminate() == 0


def test_the_object_of_a_suspended_policy_says_so(control_plane, defined, nodes, pods, kubectl):
    nodes(5)
    settings = configuration(control_plane, limits={"policyBudget": "0.001ms"})
    with WharfProcess(control_plane, f"--config={settings}") as wharf:
        wharf.wait_scheduling()
        custom.create(defined, "SchedulingPolicy", "slow", {"source": SLOW})
        eventually(lambda: custom.condition(custom.status(defined, "SchedulingPolicy", "slow"), "Active") == "True")
        pods(20, prefix="slow", scheduler=NAME, labels={"team": "slow"})

        def active():
            found = custom.status(defined, "SchedulingPolicy", "slow")["conditions"]
            return next(each for each in found if each["type"] == "Active")

        eventually(lambda: active()["status"] == "False")
        reason, message = active()["reason"], active()["message"]
        assert reason == "Suspended"
        assert "it took " in message
        assert kubectl("get", "spol", "slow", "--no-headers").split()[1] == "Suspended"
        about = [event for event in control_plane.api.list("Event") if event["regarding"]["kind"] == "SchedulingPolicy"]
        notes = eventually(lambda: [event["note"] for event in about if event["reason"] == "PolicySuspended"])
        assert notes == [message]
