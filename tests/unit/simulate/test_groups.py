"""A dry run places groups as the scheduler does: in one turn, by the same search, whole or not at all."""

import msgspec
import pytest
from msgspec import structs

from tests.group_searches import place
from tests.unit.groups.test_placing import RACK, racks
from tests.unit.groups.test_turns import pod
from tests.unit.simulate.test_simulator import volumes_and_claims
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups import preempting
from wharfinger.groups.membership import group_index
from wharfinger.groups.results import GroupState
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate.dry_run import dry_run
from wharfinger.simulate.placing import Mode, place_pods
from wharfinger.steps import at_once

NO_VICTIMS = f"preemption: {preempting.NO_VICTIMS}"


def pod_group(name, min_count, key=""):
    gang = None if min_count is None else objects.GangSchedulingPolicy(min_count=min_count)
    constraints = objects.PodGroupSchedulingConstraints(topology=(objects.TopologyConstraint(key=key),)) if key else None
    spec = objects.PodGroupSpec(scheduling_policy=objects.PodGroupSchedulingPolicy(gang=gang), scheduling_constraints=constraints)
    return objects.PodGroup(metadata=objects.ObjectMeta(name=name, namespace="default"), spec=spec)


def cluster(*groups, sizes=(2, 2)):
    state = racks(sizes)
    for group in groups:
        state.put(group)
    return state


def members(group, number, created=1.0, priority=0):
    return [pod(f"{group}-{index}", group, created=created, priority=priority) for index in range(number)]


def gated(view):
    gates = (objects.PodSchedulingGate(name="quota"),)
    return PodView(structs.replace(view.object, spec=structs.replace(view.object.spec, scheduling_gates=gates)))


def nodes(run):
    return {view.key: result.node for view, result in zip(run.pods, run.results, strict=True)}


@pytest.mark.parametrize("mode", list(Mode))
def test_a_group_goes_where_the_search_puts_it(mode):
    state, pods = cluster(pod_group("training", 8, RACK), sizes=(1, 2, 2)), members("training", 8)
    found = place(Decider(assemble()), state, group_index(pods, state.objects).group("default/training"))
    run = dry_run(assemble(), state, pods, mode=mode)
    assert {view.uid: result.node for view, result in zip(run.pods, run.results, strict=True)} == dict(found.nodes)
    [group] = run.groups
    assert (group.state, group.placed, group.members, group.domains) == (GroupState.PLACED, 8, 8, dict(found.domains))
    assert len(list(state.placements())) == (8 if mode is Mode.SEQUENTIAL else 0)
    assert all(result.totals and not result.message for result in run.results)


def test_a_group_that_does_not_fit_takes_no_room_from_others():
    state = cluster(pod_group("big", 9, RACK))
    run = dry_run(assemble(), state, [*members("big", 9, created=1), *[pod(f"web-{index}", created=2) for index in range(16)]])
    assert run.placed == 16
    [group] = run.groups
    assert (group.state, group.placed) == (GroupState.NO_ROOM, 0)
    assert [(fit.fits, fit.wanted) for fit in group.nearest] == [(8, 9), (8, 9)]
    messages = {result.message for result in run.results if result.node is None}
    assert messages == {f"group default/big: 9 members must be placed at once; rack r0 takes 8. {NO_VICTIMS}"}
    assert [(found.reason, found.pods, found.only) for found in run.reasons] == [(messages.pop(), 9, 9)]


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        (members("gang", 2), "2 of 4 members are there"),
        ([*members("gang", 3), gated(pod("gang-late", "gang"))], "1 of 4 members is held back, and 4 must be placed at once"),
        ([pod("alone", "other")], "there is no PodGroup of that name"),
    ],
)
def test_a_group_waits_for_its_members(pods, message):
    state = cluster(pod_group("gang", 4))
    run = dry_run(assemble(), state, pods)
    assert [(group.state, group.message) for group in run.groups] == [(GroupState.AWAITING, message)]
    assert run.placed == 0
    assert not list(state.placements())


def test_members_beyond_the_minimum_are_placed_as_far_as_there_is_room():
    state = cluster(pod_group("gang", 4, RACK), sizes=(1, 1))
    run = dry_run(assemble(), state, members("gang", 6))
    [group] = run.groups
    assert (group.state, group.placed, run.placed) == (GroupState.IN_PART, 4, 4)
    assert len({node.split("-")[0] for node in nodes(run).values() if node is not None}) == 1


def test_late_members_join_those_that_are_placed():
    state, early = cluster(pod_group("gang", 2, RACK), sizes=(2, 1)), members("gang", 2)
    state.add_pod(early[0].placed_on("r1-0"))
    state.add_pod(early[1].placed_on("r1-0"))
    run = dry_run(assemble(), state, [pod("gang-late", "gang"), pod("gang-later", "gang")])
    assert set(nodes(run).values()) == {"r1-0"}
    assert [(group.state, group.placed, group.members) for group in run.groups] == [(GroupState.PLACED, 4, 4)]
    again = dry_run(assemble(), state, [pod("gang-last", "gang")])
    assert [(group.state, group.placed, group.members) for group in again.groups] == [(GroupState.IN_PART, 4, 5)]


def test_the_group_whose_turn_is_first_takes_the_room():
    def placed_first(*pods):
        state = cluster(pod_group("one", 8, RACK), pod_group("two", 8, RACK), sizes=(2,))
        return [group.group for group in dry_run(assemble(), state, pods).groups if group.is_placed]

    assert placed_first(*members("one", 8, created=2), *members("two", 8, created=1)) == ["default/two"]
    assert placed_first(*members("one", 8, created=2, priority=1), *members("two", 8, created=1)) == ["default/one"]


def test_pods_placed_in_sequence_are_those_of_a_dry_run():
    pods = [*members("gang", 6), *members("big", 9), pod("web")]
    groups = pod_group("gang", 6, RACK), pod_group("big", 9, RACK)
    run = dry_run(assemble(), cluster(*groups), pods)
    outcomes = at_once(place_pods(Decider(assemble()), cluster(*groups), pods, watch=lambda *_: None))
    assert {outcome.decision.pod.key: outcome.decision.node for outcome in outcomes} == nodes(run)


def test_an_explanation_of_a_member_says_what_its_group_waits_for():
    state = cluster(pod_group("big", 9, RACK))
    run = dry_run(assemble(), state, members("big", 9), explained=lambda _pod: True)
    said = {result.explanation.message for result in run.results}
    assert said == {f"group default/big: 9 members must be placed at once; rack r0 takes 8. {NO_VICTIMS}"}


@pytest.mark.parametrize("whole", [False, True])
def test_the_victims_of_a_group_leave_and_other_groups_stay_whole(whole):
    state = cluster(pod_group("high", 4, RACK), pod_group("low", 2), sizes=(1, 1))
    if whole:
        low = pod_group("low", 2)
        state.put(structs.replace(low, spec=structs.replace(low.spec, disruption_mode="PodGroup")))
    for number, node in enumerate(["r0-0", "r1-0", "r1-0"]):
        state.add_pod(pod(f"low-{number}", "low").placed_on(node))
    run = dry_run(assemble(), state, members("high", 4, priority=10))
    [group] = run.groups
    assert (group.state, group.domains, run.placed) == (GroupState.PLACED, {RACK: "r0"}, 4)
    assert sorted(group.victims) == (["default/low-0", "default/low-1", "default/low-2"] if whole else ["default/low-0"])
    assert run.evicted == len(group.victims)
    assert len(list(state.placements())) == (4 if whole else 6)


def test_a_group_asked_about_alone_evicts_no_pod():
    state = cluster(pod_group("high", 4, RACK), sizes=(1,))
    state.add_pod(pod("low").placed_on("r0-0"))
    run = dry_run(assemble(), state, members("high", 4, priority=10), mode=Mode.INDEPENDENT)
    assert [(group.state, group.victims) for group in run.groups] == [(GroupState.NO_ROOM, ())]
    assert len(list(state.placements())) == 1


def mounting(view, claim):
    volume = msgspec.convert({"name": "v", "persistentVolumeClaim": {"claimName": claim}}, objects.Volume)
    return PodView(structs.replace(view.object, spec=structs.replace(view.object.spec, volumes=(volume,))))


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(("n_volumes", "placed"), [(4, 4), (3, 0)])
def test_members_do_not_count_on_one_volume(mode, n_volumes, placed):
    state = cluster(pod_group("training", 4))
    for obj in volumes_and_claims(n_volumes, 4):
        state.put(obj)
    before = {(objects.kind_of(obj), objects.key_of(obj)): obj for obj in state.objects}
    pods = [mounting(member, f"claim-{number}") for number, member in enumerate(members("training", 4))]
    run = dry_run(assemble(), state, pods, mode=mode)
    assert run.placed == placed
    if placed and mode is Mode.SEQUENTIAL:
        held = [volume.spec.claim_ref.name for volume in state.objects.all(objects.PersistentVolume)]
        assert sorted(held) == [f"claim-{number}" for number in range(4)]
    else:
        assert {(objects.kind_of(obj), objects.key_of(obj)): obj for obj in state.objects} == before
