"""Warnings about labels and metrics that a policy reads and few or no objects of the cluster have."""

import pytest

from tests.unit.simulate import clusters
from tests.work import calls
from wharfinger.explain import policy_warnings
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies


@pytest.mark.parametrize(
    ("key", "known", "meant"),
    [
        ("zone", ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"], "topology.kubernetes.io/zone"),
        ("zone", ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"], "topology.kubernetes.io/zone"),
        ("disk-type", ["disktype", "kubernetes.io/os"], "disktype"),
        ("disktipe", ["disktype"], "disktype"),
        ("gpu", ["disktype", "kubernetes.io/os"], None),
        ("zone", [], None),
    ],
)
def test_the_key_that_was_meant(key, known, meant):
    assert policy_warnings.nearest(key, known) == meant


def found(text, n_nodes=4, n_pods=2):
    return policy_warnings.warnings([clusters.policy(text)], clusters.state_of(n_nodes).snapshot(), clusters.pods_of(n_pods))


def test_keys_that_some_node_or_pod_has_are_fine():
    text = 'policy "p"\nfilter f { reject (node.labels["lifecycle"] ?? "") == "spot" and (pod.labels["app"] ?? "") == "x" else "no" }\n'
    assert found(text) == []


@pytest.mark.parametrize("key", ["scheduling.wharfinger.dev/app", "scheduling.wharfinger.dev/policy"])
def test_keys_that_are_made_for_apps_come_with_their_pods(key):
    assert found(f'policy "p"\nfilter f {{ reject (pod.labels["{key}"] ?? "") == "web" else "no" }}\n') == []


@pytest.mark.parametrize(
    ("condition", "warning"),
    [
        ('(node.labels["lifecycl"] ?? "") == "spot"', "p: label `lifecycl` is on 0 of 4 nodes; did you mean `lifecycle` (4)?"),
        ('node.labels matches "zone in (a)"', "p: label `zone` is on 0 of 4 nodes; did you mean `topology.kubernetes.io/zone` (4)?"),
        ('(pod.labels["appp"] ?? "") == "x"', "p: label `appp` is on 0 of 2 pods; did you mean `app` (2)?"),
        ('(node.labels["qqqqqqqq"] ?? "") == "x"', "p: label `qqqqqqqq` is on 0 of 4 nodes"),
    ],
)
def test_keys_that_nothing_has_are_named(condition, warning):
    assert found(f'policy "p"\nfilter f {{ reject {condition} else "no" }}\n') == [warning]


@pytest.mark.parametrize(
    ("authority", "warnings"),
    [
        (CLUSTER, ["p: label `appp` is on 0 of 2 pods; did you mean `app` (2)?"]),
        (Authority("elsewhere"), []),
        (Authority("default", TenantPolicies.TRUSTED), ["p: label `appp` is on 0 of 2 pods; did you mean `app` (2)?"]),
    ],
    ids=str,
)
def test_keys_of_pods_of_other_namespaces_are_not_named(authority, warnings):
    policy = clusters.policy('policy "p"\nfilter f { reject (pod.labels["appp"] ?? "") == "x" else "no" }\n', authority)
    assert policy_warnings.warnings([policy], clusters.state_of(4).snapshot(), clusters.pods_of(2)) == warnings


def test_without_nodes_or_pods_there_is_nothing_to_say():
    text = 'policy "p"\nfilter f { reject (node.labels["a"] ?? "") == (pod.labels["b"] ?? "-") else "no" }\n'
    assert found(text, 0, 0) == []


def test_topology_keys_count_as_read():
    text = """policy "p"
let same = pods where (it.labels["app"] ?? "") == (pod.labels["app"] ?? "-")
score apart weight 1 = spread(same, by: "zone") on missing 0
filter few { require (count(same, within: "kubernetes.io/hostnam") ?? 0) < 9 else "many" }
"""
    assert found(text) == [
        "p: label `kubernetes.io/hostnam` is on 0 of 4 nodes; did you mean `kubernetes.io/hostname` (4)?",
        "p: label `zone` is on 0 of 4 nodes; did you mean `topology.kubernetes.io/zone` (4)?",
    ]


def test_a_metric_that_too_few_nodes_have_is_named():
    text = """policy "p"
metric load: percent = prometheus("up", node: "instance", refresh: 15s, max_age: 2min, min_coverage: 50%)
score calm weight 1 = curve(load, 0% -> 100, 100% -> 0) on missing neutral
"""
    state, compiled = clusters.state_of(4), clusters.policy(text)
    state.set_metric("load", {"node-00000": (0.5, state.snapshot().now)})
    assert policy_warnings.warnings([compiled], state.snapshot(), []) == [
        "p: metric `load` is fresh on 1 of 4 nodes, fewer than 50 %: the rules that use it are suspended"
    ]
    state.set_metric("load", {f"node-0000{i}": (0.5, state.snapshot().now) for i in range(3)})
    assert policy_warnings.warnings([compiled], state.snapshot(), []) == []


def test_some_of_many_absent_keys_are_named_and_their_names_are_compared_within_a_budget():
    keys = " or ".join(f'has(node.labels["label-number-{number}"])' for number in range(60))
    policy, state = clusters.policy(f'policy "p"\nfilter f {{ require {keys} }}\n'), clusters.state_of(4)
    pods = [clusters.pods_of(1)[0]]
    said = policy_warnings.warnings([policy], state.snapshot(), pods)
    assert len(said) == policy_warnings.MAX_NAMED + 1
    assert said[-1] == "p: 40 more labels that it reads are on 0 of 4 nodes"
    known = {f"label-of-a-node-{number}": 1 for number in range(5000)}
    named = [f"label-number-{number}" for number in range(2000)]
    assert calls(lambda: list(policy_warnings._absent("p", named, known, 4, "node"))) < 2_000_000
