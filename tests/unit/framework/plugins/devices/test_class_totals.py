"""Scores of extended resources that a device class backs: as kube-scheduler's, and cached counts equal new ones."""

import random
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from tests.parity import case as cases
from wharfinger.framework import chain as chains
from wharfinger.framework.chain_settings import ChainConfig, arguments
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.framework.plugins.devices.class_totals import ClassTotals
from wharfinger.framework.plugins.node_resources import (
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
)
from wharfinger.framework.prepared import Attempt, Shared, Skip
from wharfinger.framework.registry import Registry, default_registry
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.devices.allocated import with_allocation

PATH = Path(__file__).parents[4] / "cases/extended_resource_scores/cases.jsonl.gz"
VECTORS = {vector.id: vector for vector in cases.read(PATH)}


def plugins(scoring):
    resources = [{"name": each["name"]} for each in scoring["resources"]]
    return {
        "fit": NodeResourcesFit(arguments(NodeResourcesFit, {"scoringStrategy": scoring})),
        "balanced": NodeResourcesBalancedAllocation(arguments(NodeResourcesBalancedAllocation, {"resources": resources})),
    }


def scores(plugin, pod, snapshot):
    rule = plugin.prepare_score(Attempt(pod, snapshot, Shared()), np.ones(snapshot.n_nodes, np.bool_))
    if isinstance(rule, Skip):
        return {"skip": True}
    found = rule.raw(snapshot, slice(None)).tolist()
    assert found == [rule.raw_at(snapshot, row) for row in range(snapshot.n_nodes)]
    return dict(zip(snapshot.names, found, strict=True))


@pytest.mark.parametrize("vector", VECTORS.values(), ids=list(VECTORS))
def test_the_score_is_that_of_kubernetes(vector):
    snapshot, pod = cases.cluster(vector.case).snapshot(), cases.pending(vector.case)
    for name, plugin in plugins(vector.case["scoring"]).items():
        if vector.answer[name] is not None:
            assert scores(plugin, pod, snapshot) == vector.answer[name]


def test_only_a_score_of_resources_that_a_class_may_back_depends_on_more_than_its_row():
    assert NodeResourcesFit().score_volatility is Volatility.ROW
    assert NodeResourcesBalancedAllocation().score_volatility is Volatility.ROW
    scoring = {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 1}]}
    assert {plugin.score_volatility for plugin in plugins(scoring).values()} == {Volatility.GLOBAL}


def test_nothing_is_counted_for_a_pod_that_requests_no_such_resource():
    vector = next(iter(VECTORS.values()))
    state = cases.cluster(vector.case)
    pod = cases.pending({"pod": {"metadata": {"name": "plain", "uid": "x"}, "spec": {"containers": [{"name": "c"}]}}})
    for plugin in plugins(vector.case["scoring"]).values():
        scores(plugin, pod, state.snapshot())
    assert state.snapshot().objects.existing_follower(ClassTotals) is None


def change(rng, state):
    """Change a slice, a claim, a class, or a node."""
    store = state.snapshot().objects
    kind = rng.choice((objects.ResourceSlice, objects.ResourceClaim, objects.DeviceClass, objects.Node, None))
    if kind is objects.Node or kind is None:
        node = state.snapshot().node_object(rng.randrange(state.snapshot().n_nodes))
        if kind is None:  # a node goes, so that rows move, and comes back
            state.remove_node(node.metadata.name)
            state.add_node(node)
            return
        labels = {**node.metadata.labels, "zone": rng.choice("abc")}
        amounts = {**node.status.allocatable, "example.com/gpu": rng.choice(("0", "3"))}
        state.update_node(
            structs.replace(
                node, metadata=structs.replace(node.metadata, labels=labels), status=structs.replace(node.status, allocatable=amounts)
            )
        )
        return
    found = store.all(kind)
    if not found:
        return
    one = rng.choice(found)
    if kind is objects.ResourceClaim:
        state.put(with_allocation(one, None))
    elif kind is objects.DeviceClass:
        state.put(structs.replace(one, spec=structs.replace(one.spec, selectors=one.spec.selectors[: rng.randrange(2)])))
    elif rng.random() < 0.3:
        state.drop("ResourceSlice", one.metadata.name)
    else:
        devices = list(one.spec.devices)
        rng.shuffle(devices)
        state.put(structs.replace(one, spec=structs.replace(one.spec, devices=tuple(devices[1:]))))


def allocate(rng, state, flying):
    """Take a device for a claim that is not written yet, or give the last one back."""
    if flying and rng.random() < 0.5:
        state.release_devices(flying.pop())
        return
    slices = [each for each in state.snapshot().objects.all(objects.ResourceSlice) if each.spec.devices]
    if not slices:
        return
    of = rng.choice(slices)
    result = objects.AllocatedDevice(request="r", driver=of.spec.driver, pool=of.spec.pool.name, device=rng.choice(of.spec.devices).name)
    allocation = objects.Allocation(devices=objects.AllocatedDevices(results=(result,)))
    claim = objects.ResourceClaim(metadata=objects.ObjectMeta(name=f"new-{len(flying)}", uid=f"new-{len(flying)}-{rng.random()}"))
    state.reserve_devices(claim, allocation)
    flying.append(claim)


@pytest.mark.parametrize("vector", VECTORS.values(), ids=list(VECTORS))
def test_kept_scores_are_those_of_a_fresh_start(vector):
    scoring = vector.case["scoring"]
    resources = [{"name": each["name"], "weight": 1} for each in scoring["resources"]]
    arguments = {"NodeResourcesFit": {"scoringStrategy": scoring}, "NodeResourcesBalancedAllocation": {"resources": resources}}
    registry = Registry((name, plugin) for name, plugin in default_registry().items() if name != "DynamicResources")  # it rejects nodes
    chain = chains.assemble(config=ChainConfig(arguments=arguments), registry=registry)
    state, pod, rng = cases.cluster(vector.case), cases.pending(vector.case), random.Random(vector.id)
    decider, flying = Decider(chain), []
    for _ in range(12):
        kept, fresh = decider.decide(state.snapshot(), pod), decide(chain, state.snapshot().detach(), pod)
        assert kept.feasible_nodes() == fresh.feasible_nodes()
        assert {name: kept.scores_at(name) for name in kept.feasible_nodes()} == {
            name: fresh.scores_at(name) for name in fresh.feasible_nodes()
        }
        allocate(rng, state, flying) if rng.random() < 0.4 else change(rng, state)
