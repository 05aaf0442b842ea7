"""The search finds a place for each group that has one, and proves that there is none only for groups without a place.

The thousand cases of `python -m tests.bench.groups` are of the same kind.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.group_cases import Case, CaseClass, CaseNode, feasible, group_of, random_case, state_of
from tests.group_searches import place
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.groups.terms import GroupAnswer, Impossible, Level, Placed

HOST, RACK = "kubernetes.io/hostname", "example.com/rack"
CHAIN = assemble()


def answer_of(case: Case) -> GroupAnswer:
    """The answer, checked: the state is as before, and the chain agrees to each member of a placement in its order."""
    state, group = state_of(case), group_of(case)
    before = [(pod.uid, pod.node_name) for pod, _ in state.placements()]
    answer = place(Decider(CHAIN), state, group)
    assert [(pod.uid, pod.node_name) for pod, _ in state.placements()] == before
    if isinstance(answer, Placed):
        assert len(answer.nodes) >= case.min_count
        by_uid = {pod.uid: pod for pod in group.waiting}
        nodes = {node.name: node for node in case.nodes}
        for level in case.levels:
            assert not level.required or len({nodes[name].domain(level.key) for name in answer.nodes.values()}) == 1
        for uid, name in answer.nodes.items():
            assert name in decide(CHAIN, state.snapshot(), by_uid[uid]).feasible_nodes()
            state.assume(by_uid[uid], name)
    return answer


@pytest.mark.parametrize("seed", range(30))
def test_random_groups_are_placed_where_a_place_exists(seed: int) -> None:
    case = random_case(seed)
    answer = answer_of(case)
    can = feasible(case)
    if isinstance(answer, Placed):
        assert can is not False
    if isinstance(answer, Impossible):
        assert can is not True


@pytest.mark.parametrize("seed", [5, 48, 50, 76, 138, 163, 199])
def test_the_order_in_which_nodes_were_added_changes_no_answer(seed: int) -> None:
    case = random_case(seed)
    turned = replace(case, nodes=case.nodes[::-1])
    assert str(place(Decider(CHAIN), state_of(turned), group_of(case))) == str(place(Decider(CHAIN), state_of(case), group_of(case)))


def nodes(*free: int, racks: int = 1) -> tuple[CaseNode, ...]:
    return tuple(CaseNode(f"n{n}", f"r{n % racks}", "b0", {"cpu": cpu, "memory": 64}) for n, cpu in enumerate(free))


def members(app: str, number: int, cpu: int, **affinities: object) -> CaseClass:
    return CaseClass(app, number, {"cpu": cpu, "memory": 1}, **affinities)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("case", "placed"),
    [
        pytest.param(Case(nodes(7, 7), (members("a", 2, 4), members("b", 2, 3)), 4), True, id="the small ones go beside the large ones"),
        pytest.param(Case(nodes(6, 6), (members("a", 3, 3), members("b", 2, 2)), 5), False, id="no two small ones fit beside each other"),
        pytest.param(
            Case(nodes(4, 4, 4), (members("a", 2, 1, apart=((HOST, "a"),)), members("b", 1, 4)), 3), True, id="apart, and one alone"
        ),
        pytest.param(
            Case(nodes(4, 4), (members("a", 2, 1, apart=((HOST, "a"),)), members("b", 1, 4)), 3), False, id="apart, and no node left"
        ),
        pytest.param(
            Case(nodes(4, 2, 2, 2, racks=2), (members("a", 3, 1, near=(RACK, "a")), members("b", 1, 3, near=(RACK, "a"))), 4),
            True,
            id="all follow the first to the rack of the large node",
        ),
        pytest.param(
            Case(nodes(4, 4, racks=2), (members("a", 1, 4), members("b", 1, 1, near=(RACK, "a"))), 2),
            False,
            id="the wanted one fills its rack",
        ),
        pytest.param(
            Case(nodes(9, 9, 1, racks=3), (members("a", 4, 1, spread=(RACK, 1)),), 4), True, id="spread with one in the small rack"
        ),
        pytest.param(
            Case(nodes(9, 9, 1, racks=3), (members("a", 6, 1, spread=(RACK, 1)),), 6), False, id="spread needs two in the small rack"
        ),
        pytest.param(
            Case(nodes(9, 9, 1, racks=3), (members("a", 6, 1, spread=(RACK, 1)),), 5), True, id="the sixth of a group of five is left out"
        ),
        pytest.param(
            Case(nodes(3, 2, 2, 1, racks=2), (members("a", 2, 2), members("b", 1, 1)), 3, (Level(RACK),)), True, id="the second rack"
        ),
    ],
)
def test_small_groups_are_placed_if_and_only_if_that_is_possible(case: Case, placed: bool) -> None:
    answer = answer_of(case)
    assert isinstance(answer, Placed if placed else Impossible), answer
    assert feasible(case) is placed
