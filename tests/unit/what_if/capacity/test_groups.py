"""Whole groups are counted, by the search that places them, and the state is as before."""

import pytest
from msgspec.structs import replace

from tests.unit.groups.test_turns import pod
from tests.unit.simulate.clusters import policy
from tests.unit.simulate.test_groups import cluster, members, pod_group
from wharfinger.framework.chain import assemble
from wharfinger.groups.results import GroupState
from wharfinger.groups.turns import groups_among
from wharfinger.model.objects import PodResourceClaimStatus, PodStatus
from wharfinger.model.objects.pod_view import PodView
from wharfinger.what_if.capacity import capacity
from wharfinger.what_if.further_pods import further_groups
from wharfinger.what_if.supposed_changes import NodesLike

RACK = "rack"


def placements(state):
    return sorted((pod.key, pod.node_name) for pod, _ in state.placements())


@pytest.mark.parametrize(("sizes", "fit"), [((2, 2), [("r0", 2), ("r1", 2)]), ((1, 3), [("r0", 1), ("r1", 3)]), ((0, 1), [("r1", 1)])])
def test_further_groups_fill_the_racks(sizes, fit):
    state = cluster(pod_group("gang", 4, RACK), sizes=sizes)  # a node takes four members
    before, revision_objects = placements(state), dict(state.snapshot().group_sizes)
    found = capacity(assemble(), state, members("gang", 4))
    [room] = found.groups
    assert (room.placed, room.more) == (4, sum(count for _, count in fit) - 1)
    assert sorted((each.value, each.groups) for each in room.domains) == fit
    assert room.stop.state is GroupState.NO_ROOM
    assert room.stop.message.startswith("4 members must be placed at once")
    assert (found.rooms, found.all_placed) == ((), True)
    assert (placements(state), dict(state.snapshot().group_sizes)) == (before, revision_objects)


def test_members_of_further_groups_get_claims_of_their_own():
    """Not those that the controller has made for the pods that are asked about, which belong to these alone."""
    made = PodStatus(resource_claim_statuses=(PodResourceClaimStatus(name="gpu", resource_claim_name="gang-0-gpu-x7k2p"),))
    state = cluster(pod_group("gang", 2))
    asked = [PodView(replace(each.object, status=made)) for each in members("gang", 2)]
    index = groups_among(assemble(), state, asked)
    further = next(further_groups(index, "default/gang", asked, state))
    assert len(further.pods) == 2
    assert [each.object.status.resource_claim_statuses for each in further.pods] == [(), ()]


def test_groups_that_do_not_fit_as_a_whole_are_not_counted():
    state = cluster(pod_group("gang", 9, RACK))
    [room] = capacity(assemble(), state, members("gang", 9)).groups
    assert (room.placed, room.more, room.domains) == (0, 0, ())
    assert [(fit.fits, fit.wanted) for fit in room.stop.nearest] == [(8, 9), (8, 9)]


def gains(room):
    return {str(gain.change): gain.more for gain in room.gains}


@pytest.mark.parametrize(
    ("sizes", "size", "levels", "found"),
    [
        pytest.param((1, 1), 6, (RACK,), {"with one more node like r0-0": 1, "with one more node like r1-0": 1}, id="a node to a rack"),
        pytest.param((1,), 6, (), {"with one more node like r0-0": 1, "at 500m less cpu": 1}, id="or smaller members"),
        pytest.param((2,), 4, (), {"with one more node like r0-0": 1, "at 500m less cpu": 2}, id="for further groups"),
        pytest.param((1,), 10, (RACK,), {"with one more node like r0-0": 0, "at 500m less cpu": 0}, id="where one is not enough"),
    ],
)
def test_changes_add_whole_groups(sizes, size, levels, found):
    """A node takes four members of 1 CPU each."""
    state = cluster(pod_group("gang", size, *levels), sizes=sizes)
    before = placements(state)
    [room] = capacity(assemble(), state, members("gang", size)).groups
    assert {change: more for change, more in gains(room).items() if change in found} == found
    assert room.untried == ()
    assert placements(state) == before


def test_a_change_of_a_group_takes_rules_of_policies_into_account():
    ssd = policy('policy "ssd"\nfilter fast { require (node.labels["disk"] ?? "") == "ssd" else "no ssd" }\n')
    [room] = capacity(assemble([ssd]), cluster(pod_group("gang", 4), sizes=(1,)), members("gang", 4)).groups
    assert (room.placed, gains(room)["without rule ssd/fast"]) == (0, 1)


def test_nodes_that_are_supposed_are_reported_to_add_groups():
    state = cluster(pod_group("gang", 4, RACK), sizes=(1,))
    [room] = capacity(assemble(), state, members("gang", 4), extra=NodesLike(model="r0-0", count=2), changes=False).groups
    assert (room.total, room.added.more) == (3, 2)


def test_a_group_takes_its_room_before_pods_of_a_lower_priority():
    state = cluster(pod_group("gang", 4, RACK), sizes=(1, 1))
    found = capacity(assemble(), state, [*members("gang", 4, priority=1), *[pod(f"web-{number}") for number in range(2)]], changes=False)
    assert [(room.placed, room.more) for room in found.groups] == [(4, 0)]
    assert found.groups[0].stop.message.startswith("4 members must be placed at once")
    assert sum(room.placed + room.more for room in found.rooms) == 4


def test_the_limit_of_pods_ends_the_count_of_groups():
    state = cluster(pod_group("gang", 2), sizes=(4, 4))
    [room] = capacity(assemble(), state, members("gang", 2), limit=6).groups
    assert (room.more, room.at_least, room.stop) == (3, True, None)


def test_nodes_that_are_supposed_take_groups():
    state = cluster(pod_group("gang", 4, RACK), sizes=(1,))
    found = [capacity(assemble(), state, members("gang", 4), extra=extra) for extra in (None, NodesLike(model="r0-0", count=2))]
    assert [each.groups[0].more for each in found] == [0, 2]


def test_groups_of_a_policy_are_counted():
    gangs = policy('policy "gangs"\ngroup by pod.labels["job"] { min_count 4\n within required "rack" }\n')
    views = [pod(f"m-{number}", labels={"job": "train"}) for number in range(4)]
    [room] = capacity(assemble([gangs]), cluster(sizes=(2, 1)), views).groups
    assert (room.group, room.source, room.placed, room.more) == ("default/train", "policy gangs", 4, 2)
    assert [(each.value, each.groups) for each in room.domains] == [("r0", 2), ("r1", 1)]
