"""Explanations of waiting and bound pods in a running scheduler."""

import asyncio

import msgspec
import pytest

from tests.unit.scheduler.running import Running, node, pod
from tests.unit.simulate.clusters import policy
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework.chain import assemble
from wharfinger.policies.active import ActivePolicies
from wharfinger.scheduler.live_answers import LiveExplanations

TEXT = """
policy "mix"
param most: count = 1
let here = count(pods, on: node)
filter few {
  require here < most else "it has {here} pods"
  require (node.labels["zone"] ?? "") == "a" or not (node.allocatable.cpu < 8cpu) else "elsewhere"
}
"""


def explained(running, key, nodes=()):
    async def ask():
        scheduling = asyncio.ensure_future(running.scheduler.run())
        await running.calm()
        try:
            return await LiveExplanations(running.clock).of(running.scheduler, key, nodes)
        finally:
            running.scheduler.stop()
            await running.calm()
            scheduling.cancel()

    return asyncio.run(ask())


def running_on(*objects, chain=None):
    running = Running({"wharfinger": chain or assemble()})
    for obj in objects:
        running.cluster.put(obj)
    running.cluster.connect(running.scheduler.sink)
    return running


def ways(found):
    return {way.node: way.sentences for way in found.remedies}


def test_the_explanation_of_a_waiting_pod_names_what_would_let_it_onto_the_nearest_nodes():
    tainted = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    running = running_on(node("small", cpu="1"), node("busy", cpu="4", taints=tainted), pod("p", cpu="2"), node("shut", unschedulable=True))
    found = explained(running, "default/p")

    assert found.explanation.node is None
    assert found.bound_to == ""
    assert ways(found) == {
        "small": ("it would have to request at most 1 of cpu, which is all that the node has",),
        "busy": ("the pod would have to tolerate gpu=yes:NoSchedule, or the node lose that taint",),
        "shut": ("the node would have to be uncordoned (`kubectl uncordon shut`)",),
    }
    assert "what would have to change" in str(found)


def test_amounts_that_have_to_become_free_are_named():
    running = running_on(node("n", cpu="4"), pod("big", cpu="3", nodeName="n"), pod("p", cpu="2"))
    [(_, [sentence])] = ways(explained(running, "default/p")).items()
    assert sentence == "1 of cpu would have to become free, or the pod request at most 1"


def test_a_selector_and_a_port_say_what_the_node_lacks():
    container = {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}
    running = running_on(
        node("n", labels={"disk": "hdd"}),
        pod("other", nodeName="n", containers=[container]),
        pod("p", containers=[container], nodeSelector={"disk": "ssd", "zone": "a"}),
    )
    assert ways(explained(running, "default/p", ["n"]))["n"] == (
        "the node would have to have the label disk=ssd; it has disk=hdd",
        "the node would have to have the label zone=a; it has no such label",
        "default/other would have to leave TCP port 80",
    )


def test_a_policys_conditions_are_shown_with_their_values():
    chain = assemble([policy(TEXT)])
    running = running_on(node("n", labels={"zone": "b"}), pod("there", nodeName="n"), pod("p"), chain=chain)
    assert ways(explained(running, "default/p"))["n"] == (
        "`here` is 1 and would have to be less than 1",
        (
            '`(node.labels["zone"] ?? "")` is "b" and would have to be equal to "a"; '
            "or `node.allocatable.cpu` is 4cpu and would have to be at least 8cpu"
        ),
    )


def test_a_bound_pod_is_decided_about_again_as_if_it_waited():
    running = running_on(node("n1"), node("n2"), pod("p", nodeName="n1", cpu="4"), pod("q", nodeName="n2", cpu="1"))
    found = explained(running, "default/p", ["n2"])

    assert (found.bound_to, found.explanation.node) == ("n1", "n1")
    assert "default/p is bound to n1; this was decided again as if it waited" in str(found)
    assert "the same node again" in str(found)
    assert running.scheduler.state.is_placed("uid-p"), "the live state is untouched"
    assert ways(found)["n2"] == ("1 of cpu would have to become free, or the pod request at most 3",)


def test_a_feasible_node_that_was_not_chosen_says_how_many_points_it_is_behind():
    running = running_on(node("n1"), node("n2"), pod("q", nodeName="n2", cpu="2"), pod("p", nodeName="n1"))
    [first, *parts] = ways(explained(running, "default/p", ["n2"]))["n2"]
    assert first.startswith("it would need ")
    assert "more points to equal n1" in first
    assert any("NodeResourcesFit" in part for part in parts)


@pytest.mark.parametrize(
    ("key", "error", "says"),
    [
        ("default/webb", UnknownObject, "there is no pod default/webb; did you mean default/web?"),
        ("shop/web", UnknownObject, "there is no pod shop/web; did you mean default/web?"),
        ("default/foreign", UsageError, "its schedulerName is other"),
        ("default/done", UsageError, "has ended"),
    ],
)
def test_pods_that_nothing_can_be_said_about(key, error, says):
    done = pod("done", nodeName="n")
    done = msgspec.structs.replace(done, status=msgspec.structs.replace(done.status, phase="Succeeded"))
    running = running_on(node("n"), pod("web"), pod("foreign", scheduler="other"), done)
    with pytest.raises(error, match=says.replace("?", r"\?")):
        explained(running, key)


def test_a_node_that_is_not_there_is_named():
    with pytest.raises(UnknownObject, match="there is no node n2"):
        explained(running_on(node("n"), pod("web")), "default/web", ["n2"])


CLOSED = 'policy "mix"\nfor pods where pod.namespace == "default"\nfilter off { reject node.name == "a" else "closed" }'


def explained_policy(running, active, name):
    async def ask():
        scheduling = asyncio.ensure_future(running.scheduler.run())
        await running.calm()
        try:
            return await LiveExplanations(running.clock).of_policy(running.scheduler, active, name)
        finally:
            running.scheduler.stop()
            await running.calm()
            scheduling.cancel()

    return asyncio.run(ask())


@pytest.mark.parametrize("shadow", [False, True])
def test_a_policy_in_force_is_explained_on_a_copy_of_the_state(shadow):
    with_it, plain = assemble([policy(CLOSED)]), assemble()
    chain = plain if shadow else with_it
    running = running_on(node("a", cpu="4"), pod("old", cpu="1", nodeName="a"), pod("new", cpu="9"), chain=chain)
    shadows = {"wharfinger": {"mix": with_it}} if shadow else {"wharfinger": {}}
    active = ActivePolicies(chains={"wharfinger": chain}, shadows=shadows)
    profile, found = explained_policy(running, active, "mix")
    assert profile == "wharfinger"
    assert (found.governed.pods, found.governed.waiting) == (2, 1)
    assert [(each.pod, each.without, each.chosen) for each in found.differing] == [("default/old", "a", None)]
    assert running.scheduler.state.is_placed(running.scheduler.known_pod("default/old").uid)
    with pytest.raises(UnknownObject, match="no policy mixx is in force; did you mean mix"):
        explained_policy(running, active, "mixx")
    with pytest.raises(UnknownObject, match=r"no policy zones is in force; in force: mix$"):
        explained_policy(running, active, "zones")
