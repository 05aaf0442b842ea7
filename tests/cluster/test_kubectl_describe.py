"""`kubectl describe pod` shows the same for pods of Wharfinger and of kube-scheduler."""

import re

import pytest

from tests.cluster import objects
from tests.cluster.kube_scheduler import start_kube_scheduler
from tests.cluster.process import WharfProcess
from tests.cluster.test_preemption import priority_class
from tests.cluster.waiting import eventually

HELD = "tests.wharfinger.dev/held"


@pytest.fixture
def described(control_plane, nodes, kubectl):
    """The lines of the events of each pod, after a scheduler of that name has placed, refused and preempted."""

    def play(scheduler):
        api = control_plane.api
        nodes(1, cpu="2")
        api.create(objects.pod("small", scheduler=scheduler))
        eventually(lambda: api.get("Pod", "small")["spec"].get("nodeName"))
        victim = objects.pod("victim", scheduler=scheduler, cpu="1500m", terminationGracePeriodSeconds=1)
        victim["metadata"]["finalizers"] = [HELD]  # or there would be nothing to describe
        api.create(victim)
        eventually(lambda: api.get("Pod", "victim")["spec"].get("nodeName"))
        api.create(objects.pod("huge", scheduler=scheduler, cpu="100"))
        api.create(objects.pod("important", scheduler=scheduler, cpu="1500m", priorityClassName=priority_class(api, "important")))
        eventually(lambda: "deletionTimestamp" in api.get("Pod", "victim")["metadata"])
        eventually(lambda: _events(kubectl, "huge") and len(_events(kubectl, "victim")) > 1 and _events(kubectl, "important"))
        api.patch("Pod", "victim", {"metadata": {"finalizers": None}})
        eventually(lambda: api.get("Pod", "important")["spec"].get("nodeName"))
        of_victim = [event for event in api.list("Event") if event["regarding"]["name"] == "victim"]
        lines = {name: eventually(lambda name=name: _settled(kubectl, name)) for name in ("small", "huge", "important")}
        return {**lines, "victim": {(event["type"], event["reason"], _plain(event["note"])) for event in of_victim}}

    return play


def _settled(kubectl, name):
    lines = _events(kubectl, name)
    return lines if name == "huge" or any("Scheduled " in line for line in lines) else None


def _events(kubectl, name):
    """The lines of the section Events, without source, time and count."""
    _, _, section = kubectl("describe", "pod", name).partition("Events:")
    lines = [line.split(maxsplit=2) for line in section.splitlines()[3:] if line.strip()]
    return {_plain(f"{kind} {reason} {rest}") for kind, reason, rest in lines}


def _plain(line):
    """A line without times, who says it, uids, and what only a scheduler with claims says."""
    line = re.sub(r"(Scheduled|FailedScheduling|Preempted) +\S+( \(x\d+ over \S+\))? +\S+ +", r"\1 ", line)
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", line)


def test_the_events_are_those_of_kube_scheduler(control_plane, described):
    start_kube_scheduler(control_plane)
    theirs = described("default-scheduler")
    control_plane.end_others()
    _clear(control_plane.api)
    with WharfProcess(control_plane):
        ours = described("wharfinger")

    assert ours == theirs
    assert {name: len(lines) for name, lines in ours.items()} == {"small": 1, "huge": 1, "important": 2, "victim": 2}


def _clear(api):
    def gone():
        for kind in ("Pod", "Node", "Event"):
            api.delete_all(kind)
        return not api.list("Pod")

    eventually(gone)
    api.delete("PriorityClass", "important")
