"""No policy of a namespace evicts pods of others from nodes that it would still reject."""

import pytest

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import compile_policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

NODES = ("a", "b", "c")
FULL = "node.free.cpu < 1cpu"
TENANT = Authority("team")
TRUSTED = Authority("team", TenantPolicies.TRUSTED)


def pod(name, namespace, priority, cpu, node=""):
    resources = objects.ContainerResources(requests={"cpu": cpu})
    spec = objects.PodSpec(node_name=node, priority=priority, containers=(objects.Container(name="main", resources=resources),))
    return objects.Pod(metadata=objects.ObjectMeta(name=name, namespace=namespace, uid=f"{namespace}/{name}"), spec=spec)


def full_cluster(namespace):
    state = ClusterState(1000.0)
    for node in NODES:
        status = objects.NodeStatus(allocatable={"cpu": "4", "pods": "9"})
        state.add_node(objects.Node(metadata=objects.ObjectMeta(name=node, labels={"disk": "ssd"}), status=status))
        state.add_pod(pod(f"on-{node}", namespace, -10, "3500m", node))
    return state


def evicted(requirement, authority, victims="bank"):
    """(the pods that leave until the pod that needs room is placed, or none leaves any more; its node)."""
    text = f'policy "p"\nfilter f {{ require {requirement} else "no" }}\n'
    policy = TextSet(texts={"p": text.encode()}).check("p", CATALOGUE, Diagnostics(), authority).policy
    chain, state, waiting = assemble([compile_policy(policy)]), full_cluster(victims), PodView(pod("waits", "team", 0, "1"))
    gone = []
    while True:
        decision = decide(chain, state.snapshot(1000.0), waiting)
        if not decision.victims:
            return gone, decision.node
        gone += [victim.key for victim in decision.victims]
        for victim in decision.victims:
            state.remove_pod(victim)


@pytest.mark.parametrize("requirement", [FULL, "node.pod_count > 0", '(share_after("cpu") ?? 0%) > 100%', "count(pods, on: node) >= 0"])
def test_pods_elsewhere_stay_where_a_filter_reads_what_their_leaving_changes(requirement):
    assert evicted(requirement, TENANT) == ([], None)


@pytest.mark.parametrize("requirement", ['(node.labels["disk"] ?? "") == "ssd"', "node.capacity.cpu >= 0cpu", 'node.name in ["a"]'])
def test_a_filter_that_reads_node_objects_leaves_preemption_as_kubernetes_has_it(requirement):
    assert evicted(requirement, TENANT) == (["bank/on-a"], "a")


def test_a_policy_may_evict_pods_of_its_own_namespace():
    assert evicted('(node.labels["disk"] ?? "") == "ssd"', TENANT, victims="team") == (["team/on-a"], "a")


@pytest.mark.parametrize("authority", [CLUSTER, TRUSTED, TENANT], ids=str)
@pytest.mark.parametrize("requirement", [FULL, "node.pod_count > 0", '(share_after("cpu") ?? 0%) > 100%'])
def test_no_pod_is_evicted_for_a_node_that_a_filter_rejects_without_it(requirement, authority):
    assert evicted(requirement, authority, victims="team") == ([], None)


@pytest.mark.parametrize("authority", [CLUSTER, TRUSTED], ids=str)
@pytest.mark.parametrize("requirement", ["count(pods, on: node) < 5", "node.free.cpu >= 0cpu"])
def test_a_filter_that_lets_the_node_without_them_pass_leaves_preemption_as_kubernetes_has_it(requirement, authority):
    assert evicted(requirement, authority) == (["bank/on-a"], "a")
