"""Generated clusters are deterministic."""

from collections import Counter

from tests.unit.simulate import clusters
from wharfinger.simulate import workloads


def test_generated_clusters_are_deterministic_and_have_different_nodes():
    nodes = workloads.node_manifests(100)
    assert nodes == workloads.node_manifests(100)
    labels = [node["metadata"]["labels"] for node in nodes]
    assert len({label[workloads.ZONE] for label in labels}) == workloads.ZONES
    assert Counter(label["lifecycle"] for label in labels) == {"on-demand": 95, "spot": 5}
    assert sum(bool(node["spec"]["taints"]) for node in nodes) == 2


def test_pods_come_from_as_many_templates_as_asked_for():
    for templates in (1, 7, 100):
        assert len({pod.template for pod in clusters.pods_of(300, templates)}) == templates


def test_running_pods_are_dealt_out_over_all_nodes():
    state = clusters.state_of(30, running=300)
    assert int(state.snapshot().pod_count.sum()) == 300
    assert int(state.snapshot().pod_count.max()) <= 20
