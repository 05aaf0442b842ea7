"""NodeDeclaredFeatures: which pods need a feature, which nodes have it, and what wakes a pod that waits for one."""

import pytest

from tests.parity import case as cases
from tests.unit.framework.kube import decide, node, pod, state
from wharfinger.framework.cluster_event import node_updated
from wharfinger.framework.plugins.node_declared_features import NodeDeclaredFeatures, needed
from wharfinger.model import objects
from wharfinger.model.reading import decode

RESTARTS, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
RULES = {"restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}


def declaring(name, *features):
    plain = node(name)
    plain["status"]["declaredFeatures"] = list(features)
    return plain


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({}, ()),
        ({"containers": [{"name": "c", **RULES}]}, (RESTARTS,)),
        ({"initContainers": [{"name": "c", **RULES}]}, (RESTARTS,)),
        ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]}, ()),
        ({"hostNetwork": True, "hostUsers": False}, (USERS,)),
        ({"hostNetwork": True}, ()),
        ({"hostUsers": False}, ()),
        ({"hostNetwork": True, "hostUsers": False, "containers": [{"name": "c", **RULES}]}, (RESTARTS, USERS)),
    ],
)
def test_a_pod_needs_what_its_spec_uses(spec, features):
    assert needed(decode.convert({"spec": spec}, objects.Pod).spec) == features


def test_only_nodes_that_declare_all_of_it_are_feasible():
    cluster = state([declaring("a", USERS, "Other"), declaring("b", RESTARTS), declaring("c"), declaring("d", USERS, RESTARTS)])
    assert decide(cluster, pod(hostNetwork=True, hostUsers=False)).feasible_nodes() == ("a", "d")
    assert decide(cluster, pod(hostNetwork=True, hostUsers=False, initContainers=[RULES])).feasible_nodes() == ("d",)
    assert decide(cluster, pod()).feasible_nodes() == ("a", "b", "c", "d")


def test_the_message_counts_the_nodes_that_lack_it():
    decision = decide(state([declaring("a")]), pod(hostNetwork=True, hostUsers=False))
    assert decision.message == "0/1 nodes are available: 1 node(s) didn't match Pod's required features. no new claims to deallocate"


def test_a_pod_wakes_when_a_node_declares_what_it_needs():
    waiting = cases.pending({"pod": pod(hostNetwork=True, hostUsers=False)})
    before = decode.convert(declaring("a"), objects.Node)
    plugin = NodeDeclaredFeatures()
    for features, wakes in (((USERS,), True), (("Other",), False)):
        change = node_updated(before, decode.convert(declaring("a", *features), objects.Node))
        assert change.events & plugin.wakes_on
        assert plugin.may_help(waiting, change, state([]).snapshot()) is wakes
