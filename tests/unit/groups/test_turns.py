"""Groups have one turn, at the position of their first member."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from tests.unit.groups.test_placing import member
from wharfinger.framework.chain import assemble
from wharfinger.groups.membership import group_index
from wharfinger.groups.turns import age_key, queue_key, turns
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState


def pod(name, group="", priority=0, created=1.0, labels=None):
    made = member(name, priority=priority).object
    metadata = structs.replace(made.metadata, creation_timestamp=datetime.fromtimestamp(created, UTC), labels=labels or {})
    spec = made.spec if not group else structs.replace(made.spec, scheduling_group=objects.PodSchedulingGroup(pod_group_name=group))
    return PodView(structs.replace(made, metadata=metadata, spec=spec))


def state_with(**priorities):
    state = ClusterState(100.0)
    for name, priority in priorities.items():
        gang = objects.PodGroupSchedulingPolicy(gang=objects.GangSchedulingPolicy(min_count=2))
        spec = objects.PodGroupSpec(scheduling_policy=gang, priority=priority)
        state.put(objects.PodGroup(metadata=objects.ObjectMeta(name=name, namespace="default"), spec=spec))
    return state


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        # the oldest member's time counts for the group, and the highest priority of its pods
        (queue_key, ["high b-new b-old", "first", "a-1 a-2", "last"]),
        (age_key, ["high b-new b-old", "first", "a-1 a-2", "last"]),
    ],
)
def test_a_group_has_the_turn_of_its_first_member(key, expected):
    pods = [
        pod("first", created=2),
        pod("a-2", "a", created=9),
        pod("a-1", "a", created=3),
        pod("last", created=4),
        pod("b-old", "b", created=1),
        pod("high", "b", priority=5, created=8),
        pod("b-new", "b", priority=1, created=7),
    ]
    index = group_index(pods, state_with(a=None, b=None).objects)
    assert [" ".join(each.name for each in turn.pods) for turn in turns(assemble(), index, pods, key)] == expected


def test_the_priority_of_a_podgroup_counts_in_place_of_its_pods():
    pods = [pod("vain", "low", priority=1000), pod("vain-2", "low", priority=1000), pod("plain", priority=10), pod("meek", "high")]
    index = group_index(pods, state_with(low=-5, high=20).objects)
    assert [turn.group or turn.pods[0].name for turn in turns(assemble(), index, pods)] == ["default/high", "plain", "default/low"]


def test_pods_without_groups_are_in_the_order_of_the_queue():
    pods = [pod("b", created=1), pod("a", created=1), pod("high", priority=1, created=9)]
    assert [turn.pods[0].name for turn in turns(assemble(), group_index(pods, state_with().objects), pods)] == ["high", "a", "b"]
