"""The explanation of a waiting group, as values; nothing changes."""

import pytest
from msgspec import structs

import wharfinger
from tests.bench import devices
from tests.unit.groups.test_turns import pod
from tests.unit.simulate.test_groups import RACK, cluster, members, pod_group
from wharfinger.errors import UnknownObject
from wharfinger.model import objects
from wharfinger.model.devices.allocated import Allocations
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading.files import Objects
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate.cluster import Cluster


def found(state, pending):
    return Cluster(state=state, pending=tuple(pending), objects=Objects(by_kind={}), ignored={}, skipped=())


def placements(state):
    return sorted((each.key, each.node_name) for each, _ in state.placements())


@pytest.mark.parametrize(("priority", "state"), [(0, "waits for room"), (10, "waits for room")])
def test_an_explanation_changes_nothing(priority, state):
    world = cluster(pod_group("gang", 8, RACK))
    for number, node in enumerate(["r0-0", "r1-1"]):
        world.add_pod(pod(f"web-{number}").placed_on(node))
    before = placements(world)
    explained = wharfinger.explain_group((), found(world, members("gang", 8, priority=priority)), "default/gang")
    assert (explained.state, [(fit.value, fit.fits) for fit in explained.domains]) == (state, [("r0", 7), ("r1", 7)])
    assert ("Preemption would make room in rack r" in explained.message) == (priority > 0)
    assert placements(world) == before


def test_a_group_that_is_not_there_is_unknown():
    world = cluster(pod_group("gang", 8, RACK))
    with pytest.raises(UnknownObject, match="did you mean default/gang"):
        wharfinger.explain_group((), found(world, members("gang", 8)), "default/gong")


def test_a_group_without_any_node_is_explained():
    world = ClusterState(1000.0)
    world.put(pod_group("gang", 2, RACK))
    explained = wharfinger.explain_group((), found(world, members("gang", 2)), "default/gang")
    assert (explained.state, explained.domains) == ("waits for room", ())


def test_a_domain_takes_no_more_members_than_there_are_devices_for_their_claims():
    world = devices.cluster(1)
    world.put(pod_group("gang", 3))
    waiting = []
    for name in ("a", "b", "c"):
        world.put(devices.claim(name, 4))
        one = devices.pending(name, claims=True).object
        group = objects.PodSchedulingGroup(pod_group_name="gang")
        waiting.append(PodView(structs.replace(one, spec=structs.replace(one.spec, scheduling_group=group))))
    explained = wharfinger.explain_group((), found(world, waiting), "default/gang")
    assert [(fit.fits, dict(fit.reasons)) for fit in explained.domains] == [(2, {"cannot allocate all claims": 1})]
    assert not world.objects.following(Allocations).of_pool((devices.DRIVER, "n00000"))
