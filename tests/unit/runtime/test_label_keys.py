import pytest

from tests.unit.runtime import clusters
from wharfinger.runtime import label_keys


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
    assert label_keys.nearest(key, known) == meant


def found(text, n_nodes=4, n_pods=2):
    return label_keys.warnings([clusters.policy(text)], clusters.state_of(n_nodes).snapshot(), clusters.pods_of(n_pods))


def test_keys_that_some_node_or_pod_has_are_fine():
    text = 'policy "p"\nfilter f { reject (node.labels["lifecycle"] ?? "") == "spot" and (pod.labels["app"] ?? "") == "x" else "no" }\n'
    assert found(text) == []


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


def test_without_nodes_or_pods_there_is_nothing_to_say():
    text = 'policy "p"\nfilter f { reject (node.labels["a"] ?? "") == (pod.labels["b"] ?? "-") else "no" }\n'
    assert found(text, 0, 0) == []
