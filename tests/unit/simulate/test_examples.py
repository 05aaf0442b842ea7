"""The example clusters have what shipped policies ask about, and are the same each time."""

import pytest

import wharfinger
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import compile_policy
from wharfinger.errors import UsageError
from wharfinger.language.files import shipped_policies
from wharfinger.language.load import load_policies
from wharfinger.simulate import examples
from wharfinger.simulate.cluster import load_cluster


@pytest.mark.parametrize(("name", "n_nodes"), examples.SIZES.items())
def test_an_example_has_nodes_running_pods_and_pods_that_wait(name, n_nodes):
    cluster = load_cluster([f"example:{name}"])

    assert cluster.skipped == ()
    assert cluster.state.snapshot().n_nodes == n_nodes
    assert len(list(cluster.state.placements())) == examples.PER_NODE * n_nodes
    assert len(cluster.pending) == 8
    assert examples.manifests(name) == examples.manifests(name)


def test_the_pods_of_an_example_differ_in_what_becomes_of_them():
    cluster = load_cluster(["example:small"])

    feasible = {pod.name: wharfinger.decide((), cluster, pod).feasible for pod in cluster.pending}

    assert feasible["huge"] == 0
    assert feasible["train"] == 1
    assert feasible["archive"] < feasible["web-new"]


def test_each_shipped_policy_governs_a_pod_of_the_example():
    cluster = load_cluster(["example:small"])
    snapshot = cluster.state.snapshot()
    found, _ = load_policies([shipped_policies()], CATALOGUE)
    policies = [compile_policy(policy) for policy in found if policy is not None]

    idle = [policy.name for policy in policies if not any(policy.governs(pod, snapshot) for pod in cluster.pending)]
    assert idle == []


def test_an_unknown_example_is_reported():
    with pytest.raises(UsageError, match="no such example; there are example:small, example:large"):
        load_cluster(["example:none"])
