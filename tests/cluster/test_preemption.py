"""Preemption as kube-scheduler does it: it respects budgets, evicts no more pods than needed, and writes events and conditions."""

import pytest

from tests.cluster import objects
from tests.cluster.api import Refused
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.misbehaviour import Answer, Delay
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually
from wharfinger.model.objects import PodDisruptionBudget


@pytest.fixture
def important(control_plane):
    """The name of a priority class far above that of the pods that name none."""
    return priority_class(control_plane.api, "important")


def priority_class(api, name, **more):
    """The name of a new priority class, once the API server's admission knows it too."""
    api.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1000, **more})

    def known():
        try:
            return api.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", objects.pod("any", priorityClassName=name))
        except Refused:
            return None

    eventually(known)
    return name


@pytest.fixture
def full(control_plane, nodes, pods):
    """The running scheduler, and two nodes filled with eight running pods of it that stop slowly: none has a second to lose."""
    nodes(2, cpu="4")
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        pods(8, prefix="small", scheduler=NAME, cpu="1", labels={"app": "small"}, terminationGracePeriodSeconds=1)
        eventually(lambda: scheduler.running() == 8)  # who is evicted depends on when they started
        yield scheduler


def names(api):
    return {pod["metadata"]["name"] for pod in api.list("Pod")}


def events(api, reason):
    return [event for event in api.list("Event") if event["reason"] == reason]


def bound(api, *pods):
    return all("nodeName" in api.get("Pod", name)["spec"] for name in pods)


def test_victims_make_room_and_have_an_event_with_the_reason(control_plane, full, important):
    api = control_plane.api
    control_plane.kwok.stop()  # so that victims stay until they have been looked at
    api.create(objects.pod("big", scheduler=NAME, cpu="2", priorityClassName=important))
    reported = eventually(lambda: len(found := events(api, "Preempted")) == 2 and found)
    victims = eventually(lambda: len(found := [pod for pod in api.list("Pod") if "deletionTimestamp" in pod["metadata"]]) == 2 and found)

    big = eventually(lambda: "nominatedNodeName" in (found := api.get("Pod", "big"))["status"] and found)
    node = big["status"]["nominatedNodeName"]
    assert {pod["spec"]["nodeName"] for pod in victims} == {node}
    assert "nodeName" not in big["spec"]
    for victim in victims:
        condition = next(each for each in victim["status"]["conditions"] if each["type"] == "DisruptionTarget")
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert condition["message"] == "wharfinger: preempting to accommodate a higher priority pod"
    assert {event["regarding"]["name"] for event in reported} == {victim["metadata"]["name"] for victim in victims}
    assert {event["note"] for event in reported} == {f"Preempted by pod {big['metadata']['uid']} on node {node}"}
    assert {event["related"]["name"] for event in reported} == {"big"}

    control_plane.kwok.start()
    eventually(lambda: bound(api, "big"))
    assert_sound(control_plane, assumed=full.assumed)
    assert api.get("Pod", "big")["spec"]["nodeName"] == node
    assert len(names(api)) == 7, "no more victims than needed"


def _guarded(scheduler):
    """(how many pods it has seen with the label, of each budget how many pods were found to have it)."""
    n_pods = sum(pod.object.metadata.labels.get("app") == "guarded" for pod, _ in scheduler.state.placements())
    return n_pods, [budget.status.expected_pods for budget in scheduler.state.objects.all(PodDisruptionBudget)]


def test_a_budget_is_kept_where_another_node_will_do(control_plane, full, important):
    api = control_plane.api
    by_node = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in api.list("Pod")}
    guarded = {name for name, node in by_node.items() if node == "node-0000"}
    for name in guarded:
        api.patch("Pod", name, {"metadata": {"labels": {"app": "guarded"}}})
    budget = {"minAvailable": len(guarded), "selector": {"matchLabels": {"app": "guarded"}}}
    api.create(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guard", "namespace": "default"}, "spec": budget}
    )
    eventually(lambda: full.ask(_guarded) == (len(guarded), [len(guarded)]))

    api.create(objects.pod("big", scheduler=NAME, cpu="3", priorityClassName=important))
    eventually(lambda: bound(api, "big"))
    assert_sound(control_plane, assumed=full.assumed)
    assert api.get("Pod", "big")["spec"]["nodeName"] == "node-0001"
    assert guarded <= names(api)


def test_a_pod_that_may_not_preempt_waits(control_plane, full):
    api = control_plane.api
    priority_class(api, "patient", preemptionPolicy="Never")
    api.create(objects.pod("big", scheduler=NAME, cpu="2", priorityClassName="patient"))
    eventually(lambda: full.waiting().get("default/big") == "unschedulable")
    assert_sound(control_plane, assumed=full.assumed)
    assert len(names(api)) == 9


def test_many_important_pods_take_one_victim_each(control_plane, full, important, pods):
    api = control_plane.api
    pods(6, prefix="big", scheduler=NAME, cpu="1", priorityClassName=important)
    eventually(lambda: bound(api, *(f"big-{i:04d}" for i in range(6))))
    assert_sound(control_plane, assumed=full.assumed)
    assert len(names(api)) == 8, "two of the small pods stay"
    assert len(eventually(lambda: len(reported := events(api, "Preempted")) >= 6 and reported)) == 6


TROUBLES = {
    "evictions fail at first": (Answer(status=500), {"method": "DELETE", "times": 7}),
    "conditions of victims are refused": (Answer(status=422), {"method": "PATCH", "path": "/small-.*/status$", "times": 2}),
    "evictions take three seconds": (Delay(seconds=3), {"method": "DELETE", "times": 2}),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_room_is_made_although(control_plane, proxy, nodes, important, trouble):
    api = control_plane.api
    nodes(1, cpu="4")
    action, requests = TROUBLES[trouble]
    proxy.add(action, **requests)
    with LiveScheduler(proxy.kubeconfig) as scheduler:
        api.create_many(objects.pod(f"small-{i}", scheduler=NAME, cpu="1", terminationGracePeriodSeconds=1) for i in range(4))
        eventually(lambda: scheduler.running() == 4)
        api.create(objects.pod("big", scheduler=NAME, cpu="2", priorityClassName=important))
        eventually(lambda: bound(api, "big"))
        assert_sound(control_plane, assumed=scheduler.assumed)
        assert len(names(api)) == 3
