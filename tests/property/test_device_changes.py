"""After any changes, a running scheduler decides about claims for devices like one that has just started.

The clusters are those of the vectors: slices come, go and get new generations, claims are allocated and freed, allocations are in flight,
nodes are relabelled, classes change.
"""

import random

import pytest
from msgspec import structs

from tests.parity import case as cases
from tests.parity.answer import _allocation
from tests.parity.test_vectors import VECTORS
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.model import objects
from wharfinger.model.devices.allocated import with_allocation
from wharfinger.model.state import node_reader

(PATH,) = [path for path in VECTORS if path.name.startswith("dra")]
SEEDS = 150
STEPS = 6


def picture(decision):
    nodes = decision.feasible_nodes()
    return {
        "node": decision.node,
        "message": decision.message,
        "aborted": dict(decision.aborted),
        "claims": {node: [_allocation(each) for each in decision.claims_at(node)] for node in nodes},
        "scores": {node: decision.scores_at(node) for node in nodes},
        "freed": (decision.deallocate, decision.delete),
    }


def some(rng, state, kind):
    found = state.objects.all(kind)
    return rng.choice(found) if found else None


def take_or_free(rng, state, flying, decision):
    """An allocation of the decision becomes in flight or is written, or one that is in flight is given back."""
    if flying and rng.random() < 0.5:
        claim = flying.pop()
        state.release_devices(claim, written=rng.random() < 0.3)
        return
    for each in decision.claims:
        if each.claim.metadata.name.startswith("<") or rng.random() < 0.3:
            continue
        if rng.random() < 0.5:
            state.reserve_devices(each.claim, each.allocation)
            flying.append(each.claim)
        else:
            state.put(with_allocation(each.claim, each.allocation))


def change_slice(rng, state):
    one = some(rng, state, objects.ResourceSlice)
    if one is None:
        return
    kind = rng.random()
    if kind < 0.3:
        state.drop("ResourceSlice", one.metadata.name)
    elif kind < 0.6:
        pool = structs.replace(one.spec.pool, generation=one.spec.pool.generation + rng.choice((-1, 1)))
        state.put(structs.replace(one, spec=structs.replace(one.spec, pool=pool)))
    else:
        devices = list(one.spec.devices)
        rng.shuffle(devices)
        state.put(structs.replace(one, spec=structs.replace(one.spec, devices=tuple(devices[1:]))))


def change_claim(rng, state):
    claim = some(rng, state, objects.ResourceClaim)
    if claim is None:
        return
    if rng.random() < 0.2:
        state.drop("ResourceClaim", objects.key_of(claim))
    else:
        state.put(with_allocation(claim, None))


def change_node(rng, state):
    node = state.snapshot().node_object(rng.randrange(state.snapshot().n_nodes))
    labels = {**node.metadata.labels, "disk": rng.choice(("ssd", "hdd")), "topology.kubernetes.io/zone": rng.choice(("z1", "z2", "z3"))}
    state.update_node(structs.replace(node, metadata=structs.replace(node.metadata, labels=labels)))


def change_class(rng, state):
    found = some(rng, state, objects.DeviceClass)
    if found is not None:
        state.put(structs.replace(found, spec=structs.replace(found.spec, selectors=found.spec.selectors[: rng.randrange(2)])))


def change_nodes(rng, state):
    """A node comes or goes: the others get other rows."""
    snapshot = state.snapshot()
    node = snapshot.node_object(rng.randrange(snapshot.n_nodes))
    if rng.random() < 0.5 and snapshot.n_nodes > 1:
        state.remove_node(node.metadata.name)
    else:
        name = f"new-{rng.randrange(3)}"
        state.add_node(structs.replace(node, metadata=structs.replace(node.metadata, name=name)))


@pytest.fixture(autouse=True)
def _in_steps(monkeypatch):
    monkeypatch.setattr(node_reader, "READ_AT_ONCE", 0)


@pytest.mark.parametrize("part", range(3))
def test_kept_results_are_those_of_a_fresh_start(part):
    vectors = list(cases.read(PATH))
    for seed in range(part, SEEDS, 3):
        rng = random.Random(seed)
        vector = vectors[seed * len(vectors) // SEEDS]
        chain, pod, state = cases.chain(vector.case), cases.pending(vector.case), cases.cluster(vector.case)
        decider = Decider(chain)
        flying = []
        for step in range(STEPS):
            precompute = decider.precompute(state.snapshot, pod)
            for _ in range(rng.randrange(6)):
                next(precompute, None)
                if rng.random() < 0.2:
                    rng.choice((change_slice, change_node, change_nodes))(rng, state)
            kept = decider.decide(state.snapshot(), pod)
            fresh = decide(chain, state.snapshot().detach(), pod)
            assert picture(kept) == picture(fresh), (vector.id, seed, step)
            change = rng.choice((change_slice, change_claim, change_node, change_nodes, change_class, None, None))
            if change is None:
                take_or_free(rng, state, flying, fresh)
            else:
                change(rng, state)
