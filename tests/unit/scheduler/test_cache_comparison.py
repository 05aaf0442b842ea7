"""The comparison of the scheduler's cache with the API server."""

import msgspec
import pytest

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.scheduler.live_answers import OnOtherNode, WrongSum, compare, contents_of


def node(name):
    return msgspec.convert({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}, objects.Node)


def pod(name, node_name="", phase="Running", cpu="1"):
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": f"uid of {name}"},
            "spec": {"nodeName": node_name, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": phase},
        },
        objects.Pod,
    )


NODES = [node("a"), node("b")]
PODS = [pod("one", "a"), pod("two", "b"), pod("waiting"), pod("done", "a", phase="Succeeded")]


@pytest.fixture
def state():
    made = ClusterState()
    for obj in (*NODES, *PODS):
        made.put(obj)
    return made


def test_a_true_picture_is_equal(state):
    found = compare(contents_of(state), NODES, PODS)
    assert found.equal
    assert (found.nodes, found.pods, dict(found.assumed)) == (2, 2, {})


def test_nodes_that_are_missing_or_extra(state):
    found = compare(contents_of(state), [node("a"), node("c")], PODS)
    assert not found.equal
    assert (found.missing_nodes, found.extra_nodes) == (("c",), ("b",))


def test_pods_that_are_missing_extra_or_elsewhere(state):
    found = compare(contents_of(state), NODES, [pod("one", "b"), pod("three", "a")])
    assert not found.equal
    assert (found.missing_pods, found.extra_pods) == (("default/three",), ("default/two",))
    assert found.other_node == (OnOtherNode(pod="default/one", believed="a", actual="b"),)


def test_a_pod_that_was_only_assumed_is_no_difference_until_the_api_server_has_it_elsewhere(state):
    state.assume(PodView(pod("waiting")), "a")
    found = compare(contents_of(state), NODES, PODS)
    assert found.equal
    assert dict(found.assumed) == {"default/waiting": "a"}
    compared = compare(contents_of(state), NODES, [*PODS[:2], pod("waiting", "b")])
    assert not compared.equal
    assert compared.other_node == (OnOtherNode(pod="default/waiting", believed="a", actual="b"),)
    assert dict(compared.assumed) == {}


def test_pods_on_a_node_that_is_not_known_count(state):
    state.add_pod(pod("early", "later"))
    assert compare(contents_of(state), NODES, [*PODS, pod("early", "later")]).equal
    assert compare(contents_of(state), NODES, PODS).extra_pods == ("default/early",)


def test_sums_that_are_not_those_of_the_pods(state):
    state._tables.nodes.resources.take(state.snapshot().row("b"), {"cpu": 500}, (500, 0))
    found = compare(contents_of(state), NODES, PODS)
    assert not found.equal
    assert found.wrong_sums == (WrongSum(node="b", believed={"cpu": 1500, "pods": 2}, actual={"cpu": 1000, "pods": 1}),)


def test_the_contents_are_those_of_their_moment(state):
    contents = contents_of(state)
    state.add_pod(PodView(pod("late", "b")))
    assert compare(contents, NODES, PODS).equal
    assert compare(contents_of(state), NODES, PODS).extra_pods == ("default/late",)


def test_the_state_is_left_as_it_was(state):
    before = state.revision
    compare(contents_of(state), [node("c")], [])
    assert state.revision == before
