"""Amounts far beyond those of real machines: they are limited, no sum overflows, and removal is exact."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.framework import fleet
from wharfinger.framework import chain
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.evaluation.cycle import decide
from wharfinger.model.columns.domains import exact_sum
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.objects.requests import MAX_AMOUNT
from wharfinger.model.state.cluster_state import ClusterState

HUGE = ("1", "1Gi", "83Pi", "8Pi", "9Ei", "9223372036854775807", "1e999999")
texts = st.sampled_from(HUGE)


@pytest.mark.parametrize("memory", HUGE)
@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
def test_a_pod_is_placed_whatever_a_node_offers(memory: str, strategy: str):
    arguments = {"NodeResourcesFit": {"scoringStrategy": {"type": strategy}}}
    state = fleet.state(fleet.node("a", cpu="200m", memory=memory), fleet.node("b", memory="1e30", pods=memory))
    decision = decide(chain.assemble([], ChainConfig(arguments=arguments)), state.snapshot(), fleet.pod(memory="1"))
    assert decision.node is not None
    assert all(0 <= part.points <= 100 for part in decision.scores_at(decision.node))


@pytest.mark.parametrize(
    ("memory", "offered"),
    [("1Gi", 2**30), ("-1", 0), *((text, MAX_AMOUNT) for text in ("8Pi", "83Pi", "9Ei", "9223372036854775807", "1e999999"))],
)
def test_allocatable_amounts_are_limited_so_that_sums_are_exact(memory: str, offered: int):
    snapshot = fleet.state(fleet.node("a", memory=memory)).snapshot()
    amounts = (
        snapshot.allocatable[1, 0],
        snapshot.capacity[1, 0],
        snapshot.node(0).allocatable["memory"],
        snapshot.node(0).capacity["memory"],
    )
    assert amounts == (offered,) * 4


def test_a_thousand_pods_that_ask_for_exabytes_do_not_wrap():
    placed = [fleet.pod(f"p{number}", memory="9Ei", node_name="a") for number in range(2000)]
    state = fleet.state("a", "b", pods=placed)
    row = state.snapshot().row("a")
    assert state.snapshot().requested[1, row] == state.snapshot().nonzero[1, row] == MAX_AMOUNT
    assert decide(chain.assemble(), state.snapshot(), fleet.pod()).node == "b"
    for pod in placed:
        state.remove_pod(pod)
    assert state.snapshot().requested[1, row] == state.snapshot().nonzero[1, row] == 0


def test_preemption_counts_what_is_beyond_the_bound():
    victims = [fleet.pod(f"p{number}", memory="8Pi", node_name="a", priority=-number) for number in range(3)]
    state = fleet.state(fleet.node("a", memory="9Pi"), pods=victims)
    decision = decide(chain.assemble(), state.snapshot(), fleet.pod(memory="8Pi", priority=9))
    assert {pod.name for pod in decision.victims} == {"p0", "p1", "p2"}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), texts, texts), min_size=1, max_size=12), st.data())
def test_sums_are_those_of_the_pods_that_are_there(pods: list[tuple[str, str, str]], data: st.DataObject):
    state = fleet.state("a", "b", "c")
    views: list[PodView] = []
    for number, (node, cpu, memory) in enumerate(pods):
        views.append(fleet.pod(f"p{number}", cpu=cpu, memory=memory, node_name=node))
        state.add_pod(views[-1])
    if data.draw(st.booleans()):
        state.remove_node(data.draw(st.sampled_from("abc")))
    for pod in data.draw(st.lists(st.sampled_from(views), unique_by=lambda view: view.uid)):
        state.remove_pod(pod)
    same(state)
    for name in "abc":
        state.add_node(fleet.node(name))
    same(state)


def same(state: ClusterState) -> None:
    snapshot = state.snapshot()
    for row in range(snapshot.n_nodes):
        requested = snapshot.node(row).requested
        assert snapshot.requested[:2, row].tolist() == [requested.get("cpu", 0), requested.get("memory", 0)]


@given(st.lists(st.one_of(st.floats(allow_nan=False), st.sampled_from([1e308, -1e308, math.inf])), max_size=8), st.randoms())
def test_a_sum_does_not_depend_on_the_order(numbers: list[float], chance):
    found = exact_sum(numbers)
    shuffled = list(numbers)
    chance.shuffle(shuffled)
    assert repr(exact_sum(shuffled)) == repr(found)
    assert math.isnan(found) == (math.inf in numbers and -math.inf in numbers)


def test_a_sum_is_rounded_once():
    assert exact_sum([1e308, 1e308, -1e308]) == 1e308
    assert exact_sum([1e308, 1e308]) == math.inf
    assert exact_sum([-1e308, -1e308]) == -math.inf
