"""The details of a rejection concern the pod only, and not other properties of the node."""

from tests.unit.scheduler.running import node, pod, view
from wharfinger.explain.remedies import details
from wharfinger.model.state.cluster_state import ClusterState


def node_view(found, *running):
    state = ClusterState()
    state.add_node(found)
    for each in running:
        state.add_pod(each)
    return state.snapshot().node(0)


def test_taints_that_the_pod_tolerates_or_that_keep_no_pod_away_are_not_shown():
    taints = [{"key": "team", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoSchedule"}, {"key": "old", "effect": "PreferNoSchedule"}]
    tolerant = view("p", tolerations=[{"key": "gpu", "operator": "Exists"}])

    assert details("TaintToleration", tolerant, node_view(node("a", taints=taints))) == ("taint team:NoSchedule",)


def test_a_port_at_another_address_is_not_shown():
    def with_port(address):
        return [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": address}]}]

    found = node_view(
        node("a"),
        pod("here", nodeName="a", containers=with_port("10.0.0.1")),
        pod("there", nodeName="a", containers=with_port("10.0.0.2")),
    )
    asking = view("p", containers=with_port("10.0.0.1"))

    assert details("NodePorts", asking, found) == ("TCP port 80 is used by default/here",)
