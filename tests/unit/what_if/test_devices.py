"""Questions about a supposed cluster count devices: each is given once, pods that leave give theirs back, and nothing stays afterwards."""

import pytest
from msgspec import structs

from tests.bench import devices
from tests.unit.language.policies import policy as policy_of
from wharfinger.cli import diff_report
from wharfinger.cli.diff_report import Titles
from wharfinger.compiler.program import compile_policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.language.report.plain_values import plain
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.copies import checkpoint_of, copied
from wharfinger.simulate.dry_run import dry_run
from wharfinger.simulate.placing import DirectPlacement
from wharfinger.steps import at_once
from wharfinger.what_if.diff import diff
from wharfinger.what_if.drain.answer import DrainOutcome
from wharfinger.what_if.drain.plan import drain
from wharfinger.what_if.further_pods import grouped
from wharfinger.what_if.optimal.model import Answer
from wharfinger.what_if.optimal.search import optimal
from wharfinger.what_if.rebalance.draft import Draft
from wharfinger.what_if.room_count import Count
from wharfinger.what_if.supposed_changes import NodesLike, SupposedChanges, added, evaluated, nodes_like

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
def test_supposed_changes_are_undone(kind):
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
    assert len(done.of(DrainOutcome.WAITS)) == waits
    assert len(done.of(DrainOutcome.PLACED)) == len(on_first) - waits
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


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize(("more", "fit"), [(0, 8), (1, 16), (2, 24)])
def test_a_new_node_has_the_devices_of_its_model(kind, more, fit):
    state = cluster(1)
    before = {objects.key_of(each) for each in state.objects.all(objects.ResourceSlice)}
    with SupposedChanges(state) as supposed:
        names = [name for name, _ in at_once(added(supposed, [NodesLike(model="n00000", count=more)]))]
        pods = [MAKES[kind](f"p{number:02}") for number in range(fit + 1)]
        found = at_once(evaluated(Decider(assemble()), supposed, pods)).pods
        assert sum(pod.node is not None for pod in found) == fit
        assert {pool for pool, _ in given(state)} == {"n00000", *names}
    assert {objects.key_of(each) for each in state.objects.all(objects.ResourceSlice)} == before


def test_a_pool_of_a_new_node_is_complete_though_that_of_its_model_spans_nodes():
    state = cluster(2)
    for each in list(state.objects.all(objects.ResourceSlice)):
        pool = structs.replace(each.spec.pool, name="rack", resource_slice_count=2)
        renamed = tuple(structs.replace(device, name=f"{each.metadata.name}-{device.name}") for device in each.spec.devices)
        state.put(structs.replace(each, spec=structs.replace(each.spec, pool=pool, devices=renamed)))
    (new,) = nodes_like(state.snapshot(), "n00001")
    (own,) = new.slices
    assert (own.spec.node_name, own.spec.pool.name, own.spec.pool.resource_slice_count) == (new.name, f"rack-{new.name}", 1)


BIG_FIRST = compile_policy(policy_of('policy "p"\nprefer device last = if it.name == "gpu-7" then 1 else 0\n'))


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize("running", [False, True])
def test_a_difference_says_devices(kind, running):
    state, pods = cluster(1), [MAKES[kind](f"p{number}") for number in range(8 if running else 2)]
    if running:
        dry_run(assemble(), state, pods)
        pods = [pod for pod, _ in state.placements()]
    before = held(state)
    asked = {"pods": [], "replaced": pods} if running else {"pods": pods}
    found = diff(assemble(), assemble([BIG_FIRST]), state, **asked)
    assert held(state) == before
    assert {change.before for change in found.changes} == {change.after for change in found.changes} == {"n00000"}
    first = found.changes[0]
    assert [each.device for each in (*first.before_devices, *first.after_devices)] == ["gpu-0", "gpu-7"]
    assert (found.totals.devices, found.totals.elsewhere, found.totals.follow) == (len(found.changes), 0, 0)
    said = diff_report.table(found, Titles(before="x", after="y"), 10)
    assert f"{first.pod}  n00000 (" in said
    assert ": gpu-0)  n00000 (" in said
    assert "with other devices" in said
    assert plain(diff_report.value(found, Titles(before="x", after="y")))["changes"][0]["after"]["devices"][0]["device"] == "gpu-7"


def test_the_best_placement_moves_pods_with_their_devices():
    state = cluster(2)  # two nodes with 8 devices; pods request 5, 5 and, in small ones, 3 each
    for name, count in (("gpu", 5), ("three", 3)):
        spec = devices.claim("p", count).spec
        of_any = structs.replace(spec, devices=structs.replace(spec.devices, constraints=()))
        template = objects.ResourceClaimTemplateSpec(spec=of_any)
        state.put(objects.ResourceClaimTemplate(metadata=objects.ObjectMeta(name=name, namespace="default"), spec=template))
    use = (objects.PodResourceClaim(name="gpu", resource_claim_template_name="three"),)
    for name in ("s0", "s1"):  # both on the same node, so that a large pod finds 8 and 2
        own = of_template(name).object
        chosen = structs.replace(own.spec, resource_claims=use)
        pod = DirectPlacement(state).claimed(PodView(structs.replace(own, spec=chosen)))
        (each,) = decide(assemble(), state.snapshot(), pod).claims_at("n00000")
        DirectPlacement(state).place(pod, "n00000", [each])
    pods = [of_template(name) for name in ("big-0", "big-1")]
    assert dry_run(assemble(), at_once(copied(state.snapshot())), pods).placed == 1
    found = optimal(assemble(), checkpoint_of(state), state.snapshot().now, pods, 30)
    assert (found.answer, found.moves) == (Answer.FOUND, 1)
    assert sorted(step.node for step in found.plan if not step.source) == ["n00000", "n00001"]
    assert found.left_out.endswith("for devices, the search counts how many fit each request alone, and the chain confirms the rest")
    third = [*pods, of_template("big-2")]
    assert optimal(assemble(), checkpoint_of(state), state.snapshot().now, third, 3).answer is not Answer.FOUND
