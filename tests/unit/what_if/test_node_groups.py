"""How many pods of a group are tried: all, as far as there is time."""

import itertools

import pytest

from tests.cluster import objects as made
from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.what_if import node_groups
from wharfinger.what_if.node_groups import BUDGET, NodeGroup, ranked_groups


def group(name, n_pods):
    node = decode.convert(made.node(name, cpu="64"), objects.Node)
    pods = [PodView(decode.convert(made.pod(f"p{number:03d}", cpu="100m"), objects.Pod)) for number in range(n_pods)]
    return NodeGroup(name=name, node=node, count=1, pods=tuple(pods))


@pytest.mark.parametrize(
    ("takes", "tried", "cut"),
    [
        (0.01, {40, 12}, ""),  # time for all
        (BUDGET / 3, {20, 12}, " (of 40; there was time for no more)"),  # a third for the first ten, so twice as many in what is left
        (BUDGET, {10}, " (of 40; there was time for no more)"),
    ],
)
def test_as_many_pods_are_tried_as_there_is_time_for(monkeypatch, takes, tried, cut):
    monkeypatch.setattr(node_groups, "FEWEST_PODS", 10)
    clock = itertools.count(0.0, takes)
    ranked = ranked_groups(assemble(), ClusterState(0.0), [group("large", 40), group("small", 12)], lambda: next(clock))
    assert {found.tried for found in ranked} == tried
    assert all(found.placed == found.tried for found in ranked)
    large = next(found for found in ranked if found.name == "large")
    assert cut in str(large)
    assert ("time" in str(large)) == bool(cut)
