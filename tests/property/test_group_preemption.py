"""Preemption for a group evicts the least important pods that must leave, as a search over all sets of pods finds them."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.group_searches import place, preempt
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.preempting import Unit, possible_victims
from wharfinger.groups.terms import Disruption, Group, GroupTerms, Level, Placed, Preemption
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

CHAIN = assemble()
RACK = "rack"


def pod(name: str, cpu: int, priority: int, node: str = "", started: int = 0) -> PodView:
    container = objects.Container(name="main", resources=objects.ContainerResources(requests={"cpu": str(cpu)}))
    return PodView(
        objects.Pod(
            metadata=objects.ObjectMeta(name=name, namespace="default", uid=name, labels={"app": name[0]}),
            spec=objects.PodSpec(containers=(container,), priority=priority, node_name=node),
            status=objects.PodStatus(start_time=datetime.fromtimestamp(1_000 + started, UTC)),
        )
    )


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[objects.Node], list[PodView], list[objects.PodDisruptionBudget], Group, list[Group]]:
    sizes = draw(st.lists(st.integers(2, 5), min_size=1, max_size=4))
    nodes = [
        objects.Node(
            metadata=objects.ObjectMeta(name=f"n{n}", labels={RACK: f"r{n % 2}"}),
            status=objects.NodeStatus(allocatable={"cpu": str(cpu), "pods": "110"}),
        )
        for n, cpu in enumerate(sizes)
    ]
    placed, free = [], dict(enumerate(sizes))
    for number in range(draw(st.integers(1, 6))):
        row = draw(st.integers(0, len(sizes) - 1))
        cpu = draw(st.integers(1, 3))
        if cpu <= free[row]:
            free[row] -= cpu
            placed.append(pod(f"{draw(st.sampled_from('xyz'))}{number}", cpu, draw(st.integers(0, 4)), f"n{row}", number))
    together = [each for each in placed if each.name.startswith("x")] if draw(st.booleans()) else []
    whole = GroupTerms(min_count=1, source="x", disruption=Disruption.GROUP, priority=draw(st.sampled_from([None, 1, 9])))
    others = [Group(key="default/x", terms=whole, waiting=(), placed=tuple(together))] if together else []
    budgets = []
    if draw(st.booleans()):
        budgets.append(
            objects.PodDisruptionBudget(
                metadata=objects.ObjectMeta(name="y", namespace="default"),
                spec=objects.PodDisruptionBudgetSpec(selector=objects.LabelSelector(match_labels={"app": "y"})),
                status=objects.PodDisruptionBudgetStatus(disruptions_allowed=draw(st.integers(0, 1))),
            )
        )
    waiting = tuple(pod(f"m{n}", draw(st.integers(1, 3)), 3) for n in range(draw(st.integers(1, 3))))
    levels = (Level(RACK),) if draw(st.booleans()) else ()
    group = Group(key="default/m", terms=GroupTerms(min_count=len(waiting), source="m", levels=levels), waiting=waiting)
    return nodes, placed, budgets, group, others


def state_of(nodes: list[objects.Node], placed: list[PodView], budgets: list[objects.PodDisruptionBudget]) -> ClusterState:
    state = ClusterState(2_000.0)
    for node in nodes:
        state.add_node(node)
    for each in placed:
        state.add_pod(each)
    for budget in budgets:
        state.put(budget)
    return state


def finished(steps: Generator[None, None, list[Unit]]) -> list[Unit]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[Unit] = end.value
            return found


def fits(nodes: list[objects.Node], placed: list[PodView], group: Group, gone: tuple[Unit, ...], rack: str | None) -> bool:
    left = {each.uid for unit in gone for each, _, _ in unit.pods}
    state = state_of(nodes, [each for each in placed if each.uid not in left], [])
    return isinstance(place(Decider(CHAIN), state, group, within={RACK: rack} if rack else {}), Placed)


@settings(max_examples=120, deadline=None)
@given(scenes())
def test_the_victims_are_those_of_brute_force(
    scene: tuple[list[objects.Node], list[PodView], list[objects.PodDisruptionBudget], Group, list[Group]],
) -> None:
    nodes, placed, budgets, group, others = scene
    state, decider = state_of(nodes, placed, budgets), Decider(CHAIN)
    before = sorted((each.uid, each.node_name, assumed) for each, assumed in state.placements())
    units = finished(possible_victims(decider, state, group, others))
    answer = preempt(decider, state, group, others)
    assert sorted((each.uid, each.node_name, assumed) for each, assumed in state.placements()) == before
    racks = sorted({node.metadata.labels[RACK] for node in nodes}) if group.terms.levels else [None]
    best: dict[str | None, tuple[int, ...]] = {}
    for rack in racks:
        on = {node.metadata.name for node in nodes if rack is None or node.metadata.labels[RACK] == rack}
        near = [number for number, unit in enumerate(units) if any(node in on for _, node, _ in unit.pods)]
        # a set is better if the first unit, by importance, that is in one of two sets only is not in it
        sets = (chosen for size in range(len(near) + 1) for chosen in itertools.combinations(near, size))
        possible = [chosen for chosen in sets if fits(nodes, placed, group, tuple(units[number] for number in chosen), rack)]
        if possible:
            best[rack] = min(possible, key=lambda chosen: [number in chosen for number in range(len(units))])
    if isinstance(answer, Preemption):
        gone = {each.uid for each in answer.victims}
        rack = answer.placement.domains.get(RACK)
        assert gone == {each.uid for number in best[rack] for each, _, _ in units[number].pods}
        highest = {where: max((units[number].priority for number in chosen), default=-1) for where, chosen in best.items()}
        if not budgets:
            assert highest[rack] == min(highest.values())
        state = state_of(nodes, [each for each in placed if each.uid not in gone], budgets)
        for uid, name in answer.placement.nodes.items():
            member = next(each for each in group.waiting if each.uid == uid)
            assert decider.chain is CHAIN
            assert name in Decider(CHAIN).decide(state.snapshot(), member).feasible_nodes()
            state.assume(member, name)
    else:
        assert not units or not best
