"""Decisions and their explanations, requested from a process on a real API server, and replayed from its log."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cluster import objects
from tests.cluster.policies import revision
from tests.cluster.process import WharfProcess
from tests.cluster.test_preemption import priority_class
from tests.cluster.waiting import eventually

NAME = "wharfinger"
POLICY = """policy "even"

param most: count = 20

let here = count(pods where has(it.labels["app"]), on: node)
filter few { require here < most else "runs {here} of them" }
score room weight 3 = least_allocated(cpu: 1)
score apart weight 2 = -here normalize minmax
"""


def wharf(*words):
    """(exit code, stdout, stderr) of a command."""
    command = [Path(sys.executable).with_name("wharf"), *map(str, words)]
    ran = subprocess.run(command, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, timeout=120, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def n_bound(api):
    return sum(bool(pod["spec"].get("nodeName")) for pod in api.list("Pod"))


def busy(running, control_plane, nodes, pods, policy):
    """Placements, preemption, pods that leave, a policy that changes, a node that goes."""
    nodes(12, cpu="8")
    api = control_plane.api
    priority_class(api, "important")
    pods(150, scheduler=NAME, cpu="400m", labels={"app": "web"}, terminationGracePeriodSeconds=1)
    eventually(lambda: n_bound(api) == 150)
    for pod in api.list("Pod")[:30]:
        api.delete("Pod", pod["metadata"]["name"])
    before = revision(running)
    policy.write_text(POLICY.replace("weight 3", "weight 5"))
    eventually(lambda: n_bound(api) == 120 and revision(running) != before)
    for number in range(12):
        api.create(objects.pod(f"big-{number}", cpu="5500m", scheduler=NAME, labels={"app": "big"}, priorityClassName="important"))
    api.create(objects.pod("too-big", cpu="64", scheduler=NAME))
    eventually(lambda: sum(bool(pod["spec"].get("nodeName")) for pod in api.list("Pod") if "big-" in pod["metadata"]["name"]) == 12)
    api.delete("Node", api.list("Node")[0]["metadata"]["name"])
    for number in range(40):
        api.create(objects.pod(f"late-{number}", scheduler=NAME, cpu="5m"))
    eventually(lambda: sum(bool(pod["spec"].get("nodeName")) for pod in api.list("Pod") if "late-" in pod["metadata"]["name"]) == 40)


def test_decisions_are_logged_explained_and_made_again(control_plane, nodes, pods, tmp_path):
    policy, log = tmp_path / "even.policy", tmp_path / "decisions.jsonl"
    policy.write_text(POLICY)
    with WharfProcess(control_plane, "--policy", policy, "--decision-log", log) as running:
        busy(running, control_plane, nodes, pods, policy)

        def decisions():
            found = json.loads(running.get("/decisions?result=scheduled&limit=1000")[1])
            return len(found["decisions"]) >= 150 + 12 + 40 and found  # a decision is listed after the watch has shown its pod as bound

        listed = eventually(decisions)
        assert {each["result"] for each in listed["decisions"]} == {"scheduled"}
        assert listed["seen"] > len(listed["decisions"])
        reported = json.loads(running.get("/decisions/default/big-3")[1])["decisions"]
        [bound] = [pod for pod in control_plane.api.list("Pod") if pod["metadata"]["name"] == "big-3"]
        assert reported[0]["node"] == bound["spec"]["nodeName"]
        assert reported[0]["milliseconds"].keys() >= {"queue", "decide", "bind"}

        code, text, _ = wharf("explain", "pod", "too-big", "--url", running.url)
        assert code == 0
        assert "it would have to request at most 8 of cpu, which is all that the node has" in text
        code, text, _ = wharf("explain", "pod", "default/late-1", "--url", running.url)
        assert code == 0
        assert "as if it waited" in text
        assert text.startswith("last decision: 20")
        code, text, _ = wharf("top", "--once", "--url", running.url)
        assert code == 0
        assert "leader" in text
        assert "even" in text
        assert "default/late-" in text
        code, _, err = wharf("explain", "pod", "late-1000", "--url", running.url)
        assert (code, err.split(";")[0]) == (2, "wharf: there is no pod default/late-1000")
        running.kill()  # as a crash does

    code, _, err = wharf("explain", "pod", "late-1", "--url", running.url)
    assert code == 2
    assert "no scheduler answers there" in err
    replays(log)


def replays(log):
    code, out, err = wharf("replay", log)
    assert code == 0, out + err
    assert "each as it was recorded" in out
    n_decisions = int(out.split(" decisions ")[0].replace(",", ""))
    assert n_decisions >= 150 + 12 + 1 + 40

    lines = log.read_text().splitlines()
    assert sum('"t":"chain"' in line for line in lines) >= 2, "the policy changed in the middle"
    assert any('"nominated":"' in line for line in lines), "a pod was preempted"

    code, out, _ = wharf("replay", log, "--param", "most=5", "--format", "json")
    found = json.loads(out)
    assert (code, found["differences"]) == (0, [])
    assert 0 < len(found["changes"]) < found["decisions"]


def test_a_log_goes_on_over_a_restart(control_plane, nodes, pods, tmp_path):
    log = tmp_path / "decisions.jsonl"
    nodes(5)
    for round_ in range(2):
        with WharfProcess(control_plane, "--decision-log", log) as running:
            pods(20, scheduler=NAME, prefix=f"round-{round_}")
            eventually(lambda wanted=20 * (round_ + 1): n_bound(control_plane.api) == wanted)
            assert running.terminate() == 0
    assert (tmp_path / "decisions.jsonl.000001").exists()
    assert oct(log.stat().st_mode & 0o777) == "0o600"
    code, out, err = wharf("replay", log)
    assert (code, err) == (0, "")
    assert out.startswith("40 decisions about 40 pods made again, each as it was recorded")


def test_a_log_that_cannot_be_written_ends_the_start(control_plane, tmp_path):
    code, _, err = wharf("run", f"--kubeconfig={control_plane.kubeconfig}", "--decision-log", tmp_path / "missing" / "log", "--port", "0")
    assert code == 2
    assert "the decision log cannot be written" in err
