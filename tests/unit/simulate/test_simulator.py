"""Placing pods in a simulation: the order, retries, gates, claims and utilisation."""

from datetime import UTC, datetime

import msgspec
import pytest
from msgspec import structs

from tests.unit.simulate import clusters
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate.dry_run import dry_run, utilisation
from wharfinger.simulate.placing import Mode, queue_order


def pod(name, priority=0, created=None):
    [view] = clusters.pods_of(1)
    when = None if created is None else datetime.fromtimestamp(created, UTC)
    metadata = structs.replace(view.object.metadata, name=name, creation_timestamp=when)
    return PodView(structs.replace(view.object, metadata=metadata, spec=structs.replace(view.object.spec, priority=priority)))


def test_queue_order_is_priority_then_age_then_key():
    chain = clusters.chain_of()
    waiting = [pod("z", 0, 10), pod("a", 0, 20), pod("late", 5, 99), pod("b", 0, 10), pod("unknown", 0), pod("old", 0, 1)]
    assert [view.name for view in queue_order(chain, waiting)] == ["late", "old", "b", "z", "a", "unknown"]
    assert [view.name for view in queue_order(chain, reversed(waiting))] == ["late", "old", "b", "z", "a", "unknown"]


@pytest.mark.parametrize(("templates", "n_nodes"), [(1, 40), (7, 6)])
def test_sequential_placement_is_deciding_and_assuming_one_by_one(templates, n_nodes):
    chain, state, reference = clusters.chain_of(), clusters.state_of(n_nodes, running=60), clusters.state_of(n_nodes, running=60)
    pods = clusters.pods_of(90, templates)
    result = dry_run(chain, state, pods)
    for view, placed in zip(queue_order(chain, pods), result.results, strict=True):
        decision = decide(chain, reference.snapshot(), view)
        assert (placed.pod, placed.node, placed.message, placed.feasible) == (view.key, decision.node, decision.message, decision.feasible)
        if decision.node is not None:
            reference.assume(view, decision.node)
    assert result.after == utilisation(reference.snapshot())
    assert 0 < result.unplaced < 90


def test_a_pod_with_affinity_to_a_later_one_is_tried_again_after_it():
    term = objects.PodAffinityTerm(label_selector=objects.LabelSelector(match_labels={"app": "db"}), topology_key="kubernetes.io/hostname")
    required = objects.PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
    follower, hopeless, db = pod("follower", created=1), pod("hopeless", created=2), pod("db", created=3)
    spec = structs.replace(follower.object.spec, affinity=objects.Affinity(pod_affinity=required))
    follower = PodView(structs.replace(follower.object, spec=spec))
    hopeless = PodView(structs.replace(hopeless.object, spec=structs.replace(hopeless.object.spec, node_selector={"none": "such"})))
    db = PodView(structs.replace(db.object, metadata=structs.replace(db.object.metadata, labels={"app": "db"})))
    advanced = []
    state = clusters.state_of(5)
    result = dry_run(clusters.chain_of(), state, [follower, hopeless, db], advance=lambda: advanced.append(1))
    assert [one.pod for one in result.results] == ["default/follower", "default/hopeless", "default/db"]
    assert result.results[0].node == result.results[2].node is not None
    assert result.results[1].node is None
    assert len(advanced) == 3
    assert (result.placed, len(list(state.placements()))) == (2, 2)
    alone = dry_run(clusters.chain_of(), clusters.state_of(5), [follower, hopeless, db], mode=Mode.INDEPENDENT)
    assert [one.node is None for one in alone.results] == [True, True, False]


@pytest.mark.parametrize("mode", list(Mode))
def test_pods_at_a_gate_are_not_tried_and_keep_their_place(mode):
    gate = (objects.PodSchedulingGate(name="quota"),)
    first, second, last = (pod(name, created=age) for age, name in enumerate(("first", "second", "last")))
    gated = PodView(structs.replace(second.object, spec=structs.replace(second.object.spec, scheduling_gates=gate)))
    state = clusters.state_of(3)
    result = dry_run(clusters.chain_of(), state, [last, gated, first], mode=mode)
    assert [(one.pod, one.node is None) for one in result.results] == [
        ("default/first", False),
        ("default/second", True),
        ("default/last", False),
    ]
    assert result.results[1].message == "waiting for scheduling gates: [quota]"
    assert [(reason.reason, reason.pods) for reason in result.reasons] == [("waiting for scheduling gates: [quota]", 1)]
    assert len(list(state.placements())) == (2 if mode is Mode.SEQUENTIAL else 0)


def test_independent_placement_does_not_change_the_cluster():
    chain, state = clusters.chain_of(), clusters.state_of(20)
    revision = state.revision
    result = dry_run(chain, state, clusters.pods_of(60), mode=Mode.INDEPENDENT)
    assert state.revision == revision
    assert result.after is None
    assert result.placed == 60
    assert {placed.totals for placed in result.results} == {result.results[0].totals}


def test_reasons_count_pods_and_those_with_no_other_reason():
    text = 'policy "no"\nfilter never { reject node.name != "" else "never" }\n'
    result = dry_run(clusters.chain_of(text), clusters.state_of(5), clusters.pods_of(3))
    assert [(found.reason, found.pods, found.only) for found in result.reasons] == [("never", 3, 3)]


def test_utilisation_adds_up_what_was_placed():
    state = clusters.state_of(10)
    before = utilisation(state.snapshot())
    assert (before.nodes, before.touched, before.pods) == (10, 0, 0)
    assert before.of("cpu").allocatable == sum((8000, 16000, 32000)[i % 3] for i in range(10))
    state.assume(clusters.pods_of(1)[0], "node-00003")
    after = utilisation(state.snapshot())
    assert (after.touched, after.pods) == (1, 1)
    assert after.of("cpu").requested == 10
    assert after.of("memory").requested == 16 * 2**20
    assert after.of("nvidia.com/gpu").fraction == 0.0
    assert [use.resource for use in after.resources] == ["cpu", "memory", "ephemeral-storage"]


def volumes_and_claims(n_volumes, n_claims, provisioner="kubernetes.io/no-provisioner"):
    def made(kind, **manifest):
        return msgspec.convert(manifest, kind)

    yield made(objects.StorageClass, metadata={"name": "late"}, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer")
    for number in range(n_volumes):
        spec = {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
        yield made(objects.PersistentVolume, metadata={"name": f"disk-{number}"}, spec=spec, status={"phase": "Available"})
    for number in range(n_claims):
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
        yield made(
            objects.PersistentVolumeClaim, metadata={"name": f"claim-{number}", "namespace": "default", "uid": f"c{number}"}, spec=spec
        )


def claiming(name, claim, created):
    found = pod(name, created=created)
    volumes = (msgspec.convert({"name": "v", "persistentVolumeClaim": {"claimName": claim}}, objects.Volume),)
    return PodView(structs.replace(found.object, spec=structs.replace(found.object.spec, volumes=volumes)))


def test_two_pods_do_not_count_on_one_volume():
    pods = [claiming(f"p{number}", f"claim-{number}", number) for number in range(3)]
    state = clusters.state_of(4)
    for obj in volumes_and_claims(2, 3):
        state.put(obj)
    result = dry_run(assemble(), state, pods)
    assert [one.node is not None for one in result.results] == [True, True, False]
    assert "didn't find available persistent volumes to bind" in result.results[2].message
    claims = [state.objects.get(objects.PersistentVolumeClaim, f"claim-{number}", "default") for number in range(3)]
    assert sorted(claim.spec.volume_name for claim in claims) == ["", "disk-0", "disk-1"]
    held = [state.objects.get(objects.PersistentVolume, name).spec.claim_ref.name for name in ("disk-0", "disk-1")]
    assert sorted(held) == ["claim-0", "claim-1"]


def test_pods_that_share_a_claim_go_where_its_volume_would_be_made():
    pods = [claiming(f"p{number}", "claim-0", number) for number in range(3)]
    state = clusters.state_of(4)
    for obj in volumes_and_claims(0, 1, provisioner="csi.example.com"):
        state.put(obj)
    result = dry_run(assemble(), state, pods)
    assert len({one.node for one in result.results}) == 1
    assert result.results[0].node is not None


def test_pods_asked_about_alone_leave_claims_as_they_are():
    pods = [claiming(f"p{number}", f"claim-{number}", number) for number in range(3)]
    state = clusters.state_of(4)
    for obj in volumes_and_claims(1, 3):
        state.put(obj)
    assert dry_run(assemble(), state, pods, mode=Mode.INDEPENDENT).unplaced == 0
