"""Several schedulers on one cluster: each binds its own pods, and respects the placements and nominations of the others."""

import pytest

from tests.cluster import objects
from tests.cluster.kube_scheduler import start_kube_scheduler
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.process import WharfProcess
from tests.cluster.soundness import assert_sound
from tests.cluster.test_preemption import priority_class
from tests.cluster.waiting import eventually, wait_bound

N_NODES = 20
N_EACH = 150


@pytest.fixture
def mixed(control_plane, nodes):
    """Creates pods of two schedulers in turns on nodes that have room for them, and returns when all are bound."""

    def play(one, other):
        nodes(N_NODES)
        control_plane.api.create_many(objects.pod(f"pod-{i:04d}", scheduler=(one, other)[i % 2]) for i in range(2 * N_EACH))
        wait_bound(control_plane, 2 * N_EACH)

    return play


def _reporters(api):
    """(schedulerName, instance) pairs: the instance that reported that a pod of the scheduler is bound."""
    of = {pod["metadata"]["uid"]: pod["spec"]["schedulerName"] for pod in api.list("Pod")}
    said = [event for event in api.list("Event") if event["reason"] == "Scheduled" and event["regarding"]["uid"] in of]
    return {(of[event["regarding"]["uid"]], event["reportingInstance"]) for event in said}


def test_together_with_kube_scheduler(control_plane, mixed):
    start_kube_scheduler(control_plane)
    with WharfProcess(control_plane):
        mixed("default-scheduler", NAME)
        assert_sound(control_plane)
        reporters = eventually(lambda: len(pairs := _reporters(control_plane.api)) >= 2 and pairs)
        assert len(reporters) == 2
        assert len({instance for _, instance in reporters}) == 2


def test_two_of_ours_with_names_of_their_own(control_plane, mixed):
    with WharfProcess(control_plane, name="one"), WharfProcess(control_plane, "--scheduler-name=second", name="two"):
        mixed(NAME, "second")
        assert_sound(control_plane, schedulers=("default-scheduler", NAME, "second"))
        reporters = eventually(lambda: len(pairs := _reporters(control_plane.api)) >= 2 and pairs)
        assert len(reporters) == 2


def test_pods_bound_by_other_schedulers_count_at_once(control_plane, nodes, pods):
    nodes(2, cpu="1")
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        (theirs,) = pods(1, prefix="theirs", cpu="800m", scheduler="another-scheduler")
        control_plane.api.bind(theirs, "node-0000")
        eventually(lambda: scheduler.placed() == 1)
        pods(2, scheduler=NAME, cpu="800m")

        eventually(lambda: sorted(_nodes(control_plane.api).values()) == ["node-0000", "node-0001"])
        assert_sound(control_plane, assumed=scheduler.assumed)
        control_plane.api.delete("Pod", theirs)
        eventually(lambda: sorted(_nodes(control_plane.api).values()) == ["node-0000", "node-0001"] and not scheduler.waiting())
        assert_sound(control_plane, assumed=scheduler.assumed)


def test_a_node_that_another_scheduler_has_nominated_is_kept_free_for_its_pod(control_plane, nodes, pods):
    api = control_plane.api
    nodes(1, cpu="2")
    high = priority_class(api, "important")
    with LiveScheduler(control_plane.kubeconfig) as scheduler:
        pods(1, prefix="theirs", cpu="1500m", scheduler="another-scheduler", priorityClassName=high)
        _nominate(api, "theirs-0000", "node-0000")
        theirs = api.get("Pod", "theirs-0000")["metadata"]["uid"]
        eventually(lambda: scheduler.ask(lambda asked: asked.state.snapshot().nominated_to(theirs)) == "node-0000")
        pods(1, scheduler=NAME, cpu="1")
        eventually(lambda: scheduler.waiting() == {"default/pod-0000": "unschedulable"})
        pods(1, prefix="fits", scheduler=NAME, cpu="400m")
        eventually(lambda: _nodes(api) == {"fits-0000": "node-0000"})

        _nominate(api, "theirs-0000", "")
        eventually(lambda: _nodes(api).keys() == {"fits-0000", "pod-0000"})
        assert_sound(control_plane, assumed=scheduler.assumed)


def _nominate(api, pod, node):
    path = f"/api/v1/namespaces/default/pods/{pod}/status"
    api.request("PATCH", path, {"status": {"nominatedNodeName": node or None}}, content_type="application/merge-patch+json")


def _nodes(api):
    """The nodes of the pods that are bound."""
    return {pod["metadata"]["name"]: node for pod in api.list("Pod") if (node := pod["spec"].get("nodeName"))}
