"""Chains of moves that free more although no single move does: found by the search, confirmed by the chain, each pod moved at most once."""

from itertools import product

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.unit.framework.kube import node, state
from tests.unit.what_if.rebalance.test_plan import GPU, MILLI, asking, moves, planned
from wharfinger.what_if.rebalance import rearrangement
from wharfinger.what_if.rebalance.plan import Goal
from wharfinger.what_if.rebalance.rearrangement import Arrangement, rearranged


def crowded(small=None, other=None):
    """Three shared GPUs: `large` fits next to `fixed` only after `small` has left; no single move gains anything."""
    nodes = [node(name, offer={"cpu": "8", GPU: "1", MILLI: "1000"}) for name in "abc"]
    pods = [
        asking("large", "a", {MILLI: "700"}),
        asking("small", "b", {MILLI: "400"}, **(small or {})),
        asking("fixed", "b", {MILLI: "200"}, kind="Job"),
        asking("other", "c", {MILLI: "600"}, kind="Job"),
    ]
    pods[3]["metadata"]["labels"] = other or {}
    return state(nodes, pods)


def test_a_pod_moves_away_so_that_another_can_come():
    plan = planned(crowded(), Goal.FREE_GPUS)
    assert moves(plan) == [("small", "b", "c"), ("large", "a", "b")]
    assert [(move.why, move.gain) for move in plan.moves] == [("makes room on b", 0), ("frees GPUs of a", 1)]


@pytest.mark.parametrize("plan_options", [{"most_moves": 1}, {"cost": 0.5}])
def test_a_chain_of_moves_keeps_to_what_moves_may_cost(plan_options):
    assert planned(crowded(), Goal.FREE_GPUS, **plan_options).moves == ()


def test_a_chain_of_moves_that_a_rule_refuses_is_left_out():
    term = {"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    assert len(planned(crowded(small=apart), Goal.FREE_GPUS).moves) == 2
    assert planned(crowded(small=apart, other={"app": "other"}), Goal.FREE_GPUS).moves == ()


def counted(free, others):
    """The value of a node in these tests: 1 if nothing is on it."""
    return (0, 0.4 / (1 + others)) if others else (1, 0.0)


def arrangement(sizes, at, room):
    free = [room[n] - sum(size for size, where in zip(sizes, at, strict=True) if where == n) for n in range(len(room))]
    return Arrangement(
        free=tuple((amount,) for amount in free),
        others=tuple(at.count(n) for n in range(len(room))),
        requests=tuple(((0, size),) for size in sizes),
        at=at,
        original=at,
        nodes=(tuple(range(len(room))),) * len(sizes),
    )


@st.composite
def arrangements(draw):
    n_nodes = draw(st.integers(2, 4))
    at = tuple(draw(st.lists(st.integers(0, n_nodes - 1), min_size=2, max_size=5)))
    sizes = [draw(st.integers(1, 4)) for _ in at]
    used = [sum(size for size, where in zip(sizes, at, strict=True) if where == n) for n in range(n_nodes)]
    return sizes, at, [amount + draw(st.integers(0, 4)) for amount in used]


def best_of_all(sizes, at, room):
    """(the most free nodes of all ways to put the pods on the nodes, the fewest moves that it takes)."""
    ways = product(range(len(room)), repeat=len(sizes))
    fitting = [way for way in ways if all(sum(s for s, w in zip(sizes, way, strict=True) if w == n) <= room[n] for n in range(len(room)))]
    return max((len(room) - len(set(way)), -sum(map(int.__ne__, way, at))) for way in fitting)


@settings(max_examples=40, deadline=None)
@given(arrangements())
def test_a_rearrangement_fits_and_is_no_worse_than_before(made):
    sizes, at, room = made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rearrangement, "MAX_STEPS", 2000)
        found = rearranged(arrangement(sizes, at, room), counted, 0.0, 1)
    used = [sum(size for size, where in zip(sizes, found.at, strict=True) if where == n) for n in range(len(room))]
    assert all(taken <= offered for taken, offered in zip(used, room, strict=True))
    assert found.value == len(room) - len(set(found.at)) >= len(room) - len(set(at))
    assert found.moves == sum(map(int.__ne__, found.at, at))
    assert (found.value, -found.moves) <= best_of_all(sizes, at, room)
