"""Changes by other clients to a pod or a node between the decision about it and its binding."""

import pytest

from tests.cluster import objects
from tests.cluster.live import NAME, LiveScheduler
from tests.cluster.misbehaviour import Answer, Hold
from tests.cluster.soundness import assert_sound
from tests.cluster.waiting import eventually


@pytest.fixture
def held(request, control_plane, proxy, nodes, pods):
    """A pod `early` whose bind is held in the proxy, with its node; what is asked of the fixture happens to the request after that."""
    nodes(2)
    hold = Hold()
    proxy.add(hold, path="/pods/early/binding$", times=1)
    if hasattr(request, "param"):
        proxy.add(request.param, path="/pods/early/binding$", times=1)
    with LiveScheduler(proxy.kubeconfig) as scheduler:
        pods(1, prefix="first", scheduler=NAME)
        control_plane.api.create(objects.pod("early", scheduler=NAME, cpu="1"))
        hold.catch()
        hold.scheduler = scheduler
        hold.node = scheduler.ask(lambda running: node_of(running, "default/early"))
        yield hold
        hold.let_go()


def node_of(scheduler, key):
    placed = scheduler.state._tables.pods.by_uid.values()
    return next((placement.pod.node_name for placement in placed if placement.pod.key == key), None)


def bound_to(api, name):
    return api.get("Pod", name)["spec"].get("nodeName")


def test_a_pod_that_another_scheduler_binds_first_stays_where_it_is(control_plane, held, pods):
    other = next(name for name in ("node-0000", "node-0001") if name != held.node)
    control_plane.api.bind("early", other)
    held.let_go()

    pods(20, scheduler=NAME)
    eventually(lambda: all("nodeName" in pod["spec"] for pod in control_plane.api.list("Pod")))
    assert bound_to(control_plane.api, "early") == other
    assert_sound(control_plane, assumed=held.scheduler.assumed)
    eventually(lambda: not held.scheduler.waiting())


def test_a_pod_that_another_scheduler_binds_to_the_same_node_is_bound(control_plane, held):
    control_plane.api.bind("early", held.node)
    held.let_go()

    assert_sound(control_plane, assumed=held.scheduler.assumed)
    assert bound_to(control_plane.api, "early") == held.node
    eventually(lambda: not held.scheduler.waiting())


def test_a_pod_made_anew_under_its_name_is_decided_about_again(control_plane, held):
    old = control_plane.api.get("Pod", "early")["metadata"]["uid"]
    control_plane.api.delete("Pod", "early")
    control_plane.api.create(objects.pod("early", scheduler=NAME, cpu="9"))  # more than a node has
    held.let_go()

    assert_sound(control_plane, assumed=held.scheduler.assumed)
    new = control_plane.api.get("Pod", "early")
    assert new["metadata"]["uid"] != old
    assert "nodeName" not in new["spec"]
    eventually(lambda: list(held.scheduler.waiting()) == ["default/early"])


def test_a_pod_that_is_deleted_is_forgotten(control_plane, held):
    control_plane.api.delete("Pod", "early")
    held.let_go()

    assert_sound(control_plane, assumed=held.scheduler.assumed)
    eventually(lambda: not held.scheduler.waiting())
    assert [pod["metadata"]["name"] for pod in control_plane.api.list("Pod")] == ["first-0000"]


def test_a_deleted_node_delays_no_other_pod(control_plane, held, pods):
    control_plane.api.delete("Node", held.node)
    eventually(lambda: held.scheduler.ask(lambda running: running.state.snapshot().row(held.node)) is None)
    held.let_go()

    pods(20, scheduler=NAME)
    eventually(lambda: all("nodeName" in pod["spec"] for pod in control_plane.api.list("Pod")))
    assert bound_to(control_plane.api, "early") == held.node, "the API server binds to any name"
    assert_sound(control_plane, assumed=held.scheduler.assumed, removed_nodes={held.node})
    control_plane.api.create(objects.node(held.node))
    eventually(lambda: held.scheduler.ask(lambda running: node_of(running, "default/early")) == held.node)
    assert_sound(control_plane, assumed=held.scheduler.assumed)


@pytest.mark.parametrize("held", [Answer(status=500)], indirect=True)
def test_a_bind_that_fails_as_its_node_is_deleted_goes_to_another_node(control_plane, held):
    control_plane.api.delete("Node", held.node)
    held.let_go()

    eventually(lambda: bound_to(control_plane.api, "early") not in {None, held.node})
    assert_sound(control_plane, assumed=held.scheduler.assumed, removed_nodes={held.node})


@pytest.mark.parametrize("held", [Answer(status=404), Answer(status=409)], indirect=True, ids=str)
def test_a_pod_that_is_wrongly_said_to_be_gone_is_bound_all_the_same(control_plane, held):
    held.let_go()

    eventually(lambda: bound_to(control_plane.api, "early") is not None)
    assert_sound(control_plane, assumed=held.scheduler.assumed)
