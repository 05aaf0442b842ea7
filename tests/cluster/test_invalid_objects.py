"""Objects that are too large, odd, or unreadable: the others are processed, and each dropped object is reported."""

import json

import pytest

from tests.cluster import objects
from tests.cluster.api import Refused
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.misbehaviour import Rewrite
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually
from tests.unit.simulate.clusters import chain_of

MEGABYTE = 2**20
MAX_NOTE = 1024
"""Bytes that the API server takes for the note of an event."""


def is_bound(api, name):
    return "nodeName" in api.get("Pod", name)["spec"]


def condition(api, name):
    conditions = api.get("Pod", name)["status"].get("conditions", ())
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def failures(api, name):
    return [event for event in api.list("Event") if event["reason"] == "FailedScheduling" and event["regarding"]["name"] == name]


def test_pods_as_large_as_etcd_takes_are_placed_and_larger_ones_refused(control_plane, nodes, pods):
    api = control_plane.api
    nodes(2)
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        with pytest.raises(Refused):
            api.create(objects.pod("huge", scheduler=NAME, annotations={f"key-{i}": "x" * MEGABYTE for i in range(5)}))
        api.create(objects.pod("large", scheduler=NAME, annotations={"key": "x" * (256 * 1024 - 100)}))
        large = [{"name": f"VARIABLE_{i}", "value": "x" * 10_000} for i in range(110)]  # environments have no limit of their own
        spec = objects.pod("larger", scheduler=NAME)
        spec["spec"]["containers"][0]["env"] = large
        api.create(spec)
        pods(20, scheduler=NAME)
        eventually(lambda: all("nodeName" in pod["spec"] for pod in api.list("Pod")))
        assert_sound(control_plane, assumed=scheduler.assumed)
        assert not scheduler.complaints.counts


LONG = 'policy "long"\nfilter never { reject node.name != "" else "REASON" }'


def test_long_reasons_fit_into_what_is_written(control_plane, nodes):
    """The condition has the reason as far as one may go, and the event as many bytes of it as the API server takes, not characters."""
    api = control_plane.api
    nodes(2)
    reason = ("zu wenig übrig für große Wünsche " * 100).strip()
    chain = chain_of(LONG.replace("REASON", reason))
    with LiveScheduler(control_plane.kubeconfig, chain) as scheduler:
        api.create(objects.pod("waiting", scheduler=NAME))
        [event] = eventually(lambda: failures(api, "waiting"))
        assert len(event["note"].encode()) in range(MAX_NOTE - 4, MAX_NOTE + 1)
        eventually(lambda: reason[:900] in condition(api, "waiting").get("message", ""))
        assert_sound(control_plane, assumed=scheduler.assumed, chain=chain)
        assert not scheduler.complaints.counts


QUANTITIES = {"exponent": "1e-1", "below a thousandth": "0.1m", "huge": "9223372036854775807", "spelled out": "100000u"}


@pytest.mark.parametrize("kind", QUANTITIES)
def test_odd_quantities_are_those_of_kubernetes(control_plane, nodes, kind):
    api = control_plane.api
    nodes(1)
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        api.create(objects.pod("odd", scheduler=NAME, cpu=QUANTITIES[kind]))
        api.create(objects.pod("other", scheduler=NAME))
        eventually(lambda: is_bound(api, "other"))
        if kind != "huge":
            eventually(lambda: is_bound(api, "odd"))
        assert_sound(control_plane, assumed=scheduler.assumed)
        assert not scheduler.complaints.counts


@pytest.mark.parametrize("amount", ["8Ei", "7Ei", "9223372036854775807"])
def test_a_pod_on_a_node_that_requests_more_than_there_is(control_plane, nodes, amount):
    api = control_plane.api
    nodes(2)
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        for i in range(3):
            api.create({**objects.pod(f"greedy-{i}", memory=amount, nodeName="node-0000")})
        api.create(objects.pod("greedy", scheduler=NAME, memory=amount))
        api.create_many(objects.pod(f"small-{i}", scheduler=NAME) for i in range(10))
        eventually(lambda: all(is_bound(api, f"small-{i}") for i in range(10)))
        assert {api.get("Pod", f"small-{i}")["spec"]["nodeName"] for i in range(10)} == {"node-0001"}
        eventually(lambda: condition(api, "greedy").get("status") == "False")
        assert "Insufficient memory" in condition(api, "greedy")["message"]
        for i in range(3):
            api.delete("Pod", f"greedy-{i}")
        api.create_many(objects.pod(f"more-{i}", scheduler=NAME) for i in range(110))
        eventually(lambda: all(is_bound(api, f"more-{i}") for i in range(110)))
        assert_sound(control_plane, assumed=scheduler.assumed)


def spoilt(change, name):
    """Rewrites the events of one object, and its place in lists."""

    def line(text):
        if f'"name":"{name}"'.encode() not in text:
            return text
        answer = json.loads(text)
        for each in [answer["object"]] if "object" in answer else answer.get("items", ()):
            if each["metadata"]["name"] == name:
                change(each)
        return json.dumps(answer).encode()

    return Rewrite(line=line)


def wrong_type(pod):
    pod["spec"]["containers"] = "none"


def not_a_quantity(pod):
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "plenty"


def negative(pod):
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "-5"


def odd_operator(pod):
    pod["spec"]["affinity"] = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
            ]
        }
    }


REASON_OF = {wrong_type: "SchedulerError", not_a_quantity: "SchedulerError", odd_operator: "Unschedulable"}


@pytest.mark.parametrize("change", REASON_OF)
@pytest.mark.parametrize("from_list", [False, True], ids=["watched", "listed"])
def test_a_pod_that_cannot_be_read_waits_and_reports_it(control_plane, proxy, nodes, change, from_list):
    api = control_plane.api
    nodes(2)
    proxy.add(spoilt(change, "odd"), method="GET", path="/pods$")
    if from_list:
        api.create(objects.pod("odd", scheduler=NAME))
    with LiveScheduler(proxy.kubeconfig) as scheduler:
        if not from_list:
            api.create(objects.pod("odd", scheduler=NAME))
        api.create_many(objects.pod(f"other-{i}", scheduler=NAME) for i in range(10))
        eventually(lambda: all(is_bound(api, f"other-{i}") for i in range(10)))
        eventually(lambda: failures(api, "odd"))
        assert not is_bound(api, "odd")
        assert eventually(lambda: condition(api, "odd"))["reason"] == REASON_OF[change]
        proxy.clear()
        proxy.cut(watches=True)
        api.patch("Pod", "odd", {"metadata": {"labels": {"mended": "yes"}}})
        eventually(lambda: is_bound(api, "odd"))
        assert_sound(control_plane, assumed=scheduler.assumed)


def test_a_node_that_cannot_be_read_is_left_out(control_plane, proxy, nodes):
    api = control_plane.api
    proxy.add(spoilt(lambda node: node["status"]["allocatable"].update(cpu="plenty"), "node-0000"), method="GET", path="/nodes$")
    nodes(2)
    with LiveScheduler(proxy.kubeconfig) as scheduler:
        api.create_many(objects.pod(f"other-{i}", scheduler=NAME) for i in range(10))
        eventually(lambda: all(is_bound(api, f"other-{i}") for i in range(10)))
        assert {api.get("Pod", f"other-{i}")["spec"]["nodeName"] for i in range(10)} == {"node-0001"}
        assert any("plenty" in each for each in scheduler.complaints.counts)
        assert_sound(control_plane, assumed=scheduler.assumed)


BROKEN = {
    "cut short": lambda line: line[: len(line) // 2],
    "no JSON": lambda line: b"<html>busy</html>",
    "very long": lambda line: b" " * (5 * MEGABYTE) + line,
    "no object": lambda line: b'{"type":"ADDED","object":null}',
    "not text": lambda line: b'{"type":"ADDED","object":{"metadata":{"name":"\xff\xfe"}}}',
}


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_lines_of_watches_lose_nothing(control_plane, proxy, nodes, pods, broken):
    met = iter(range(10**6))
    nodes(5)

    def line(text):
        return BROKEN[broken](text) if text and next(met) % 10 == 5 else text

    proxy.add(Rewrite(line=line), watch=True, path="/pods$")
    with LiveScheduler(proxy.kubeconfig) as scheduler:
        pods(60, scheduler=NAME)
        eventually(
            lambda: all("nodeName" in pod["spec"] for pod in control_plane.api.list("Pod"))
        )  # who lists again and again waits longer each time
        proxy.clear()
        assert_sound(control_plane, assumed=scheduler.assumed)
