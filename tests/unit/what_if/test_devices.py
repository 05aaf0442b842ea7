"""Questions about a supposed cluster count devices: each is given once, pods that leave give theirs back, and nothing stays afterwards."""

import pytest
from msgspec import structs

from tests.bench import devices
from wharfinger.event_loop import at_once
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate.dry_run import dry_run
from wharfinger.what_if.capacity.further_pods import grouped
from wharfinger.what_if.capacity.room_count import Count
from wharfinger.what_if.drain import Fate, drain
from wharfinger.what_if.evaluation import evaluated
from wharfinger.what_if.rebalance.draft import Draft
from wharfinger.what_if.supposed_changes import SupposedChanges

EXTENDED = "deviceclass.resource.kubernetes.io/gpu"


def cluster(n_nodes, count=1):
    state = devices.cluster(n_nodes)
    spec = objects.ResourceClaimTemplateSpec(spec=devices.claim("p", count).spec)
    state.put(objects.ResourceClaimTemplate(metadata=objects.ObjectMeta(name="gpu", namespace="default"), spec=spec))
    return state


def of_template(name):
    pod = devices.pending(name, claims=True).object
    owner = objects.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="web", controller=True)
    metadata = structs.replace(pod.metadata, owner_references=(owner,))
    return PodView(structs.replace(pod, metadata=metadata, status=objects.PodStatus()))


def of_resource(name):
    pod = of_template(name).object
    resources = objects.ContainerResources(requests={EXTENDED: "1"})
    return PodView(structs.replace(pod, spec=objects.PodSpec(containers=(objects.Container(name="c", resources=resources),))))


MAKES = {"template": of_template, "resource": of_resource}


def given(state):
    """The devices that claims have, which must all be different."""
    found = [
        (result.pool, result.device)
        for claim in state.objects.all(objects.ResourceClaim)
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    ]
    assert len(found) == len(set(found))
    return set(found)


def held(state):
    """The claims with what they have and for whom."""
    return {objects.key_of(claim): claim for claim in state.objects.all(objects.ResourceClaim)}


@pytest.mark.parametrize(("kind", "n_nodes", "count", "fit"), [("template", 3, 1, 24), ("template", 3, 4, 6), ("resource", 3, 1, 24)])
def test_capacity_counts_devices(kind, n_nodes, count, fit):
    state = cluster(n_nodes, count)
    with SupposedChanges(state) as supposed:
        counting = Count(assemble(), supposed, 100)
        workloads = grouped([MAKES[kind]("p-0")])
        assert counting.total(workloads, 0) == (fit, False)
        (found,) = counting.count(workloads)
        assert len(found.placed) + len(found.more) == fit
    assert not held(state)


@pytest.mark.parametrize("kind", MAKES)
def test_what_was_supposed_is_undone(kind):
    state = cluster(1)
    pods = [MAKES[kind](f"p{number}") for number in range(devices.DEVICES + 1)]
    dry_run(assemble(), state, pods[:2])
    before, placed = held(state), [pod for pod, _ in state.placements()]
    with SupposedChanges(state) as supposed:
        supposed.leave(placed[0])
        assert len(given(state)) == 1
        found = at_once(evaluated(Decider(assemble()), supposed, pods[2:]))
        assert [pod.node is None for pod in found.pods] == [False] * 7
        assert len(given(state)) == devices.DEVICES
    assert held(state) == before


@pytest.mark.parametrize("kind", MAKES)
def test_a_drain_moves_devices_with_their_pods(kind):
    state = cluster(2)
    dry_run(assemble(), state, [MAKES[kind](f"p{number}") for number in range(10)])
    assert len(given(state)) == 10
    on_first = [pod for pod, node in ((pod, pod.node_name) for pod, _ in state.placements()) if node == "n00000"]
    done = drain(assemble(), state, ["n00000"])
    waits = max(0, 10 - devices.DEVICES)
    assert len(done.of(Fate.WAITS)) == waits
    assert len(done.of(Fate.PLACED)) == len(on_first) - waits
    assert given(state) == {("n00001", f"gpu-{place}") for place in range(devices.DEVICES)}


@pytest.mark.parametrize("kind", MAKES)
def test_a_move_of_a_rebalance_takes_the_devices_along_and_back(kind):
    state = cluster(2)
    dry_run(assemble(), state, [MAKES[kind]("p")])
    (pod,) = (pod for pod, _ in state.placements())
    before, devices_before = held(state), given(state)
    draft = Draft(assemble(), state)
    mark = draft.mark()
    moved = draft.move(pod, lambda snapshot: ~snapshot.unschedulable, frozenset())
    assert moved is not None
    assert {pool for pool, _ in given(state)} == {moved.target} != {moved.source}
    draft.back_to(mark)
    assert (held(state), given(state)) == (before, devices_before)


def test_a_claim_that_others_use_keeps_its_devices():
    state = cluster(1)
    shared = structs.replace(devices.claim("shared", 1), metadata=objects.ObjectMeta(name="shared", namespace="default", uid="shared"))
    state.put(shared)
    use = objects.PodResourceClaim(name="gpu", resource_claim_name="shared")
    pods = [PodView(structs.replace(of_template(name).object, spec=objects.PodSpec(resource_claims=(use,)))) for name in "ab"]
    dry_run(assemble(), state, pods)
    placed = [pod for pod, _ in state.placements()]
    with SupposedChanges(state) as supposed:
        for pod, left in zip(placed, (1, 0), strict=True):
            supposed.leave(pod)
            assert len(given(state)) == left
    assert len(given(state)) == 1
