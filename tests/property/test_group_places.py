"""A group is placed if the chain agrees to its members in some order on some nodes, and is called impossible if not.

The plain definition is tried on tiny clusters: every member, on every node, in every order.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.group_searches import place
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.groups.exact.member_classes import ordered
from wharfinger.groups.placing import placing
from wharfinger.groups.terms import Group, GroupTerms, Impossible, Level, Placed
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.steps import at_once

CHAIN = assemble()
HOST, RACK = "kubernetes.io/hostname", "rack"
APPS = ("a", "b", "c")
selectors = st.sampled_from([objects.LabelSelector(match_labels={"app": app}) for app in APPS] + [objects.LabelSelector()])
terms = st.builds(objects.PodAffinityTerm, topology_key=st.sampled_from([HOST, RACK]), label_selector=selectors)
constraints = st.builds(
    objects.TopologySpreadConstraint,
    topology_key=st.sampled_from([HOST, RACK]),
    max_skew=st.integers(1, 2),
    min_domains=st.sampled_from([None, None, 2]),
    when_unsatisfiable=st.just("DoNotSchedule"),
    label_selector=selectors,
)


def few(each: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(st.just(()), st.just(()), st.tuples(each))


@st.composite
def specs(draw: st.DrawFn, node: str = "") -> objects.PodSpec:
    near, apart = draw(few(terms)), draw(few(terms))
    port = draw(st.sampled_from([0, 0, 0, 80]))
    container = objects.Container(
        name="main",
        resources=objects.ContainerResources(requests={"cpu": str(draw(st.integers(1, 3)))}),
        ports=(objects.ContainerPort(host_port=port),) if port else (),
    )
    return objects.PodSpec(
        containers=(container,),
        node_name=node,
        affinity=objects.Affinity(
            pod_affinity=objects.PodAffinity(required_during_scheduling_ignored_during_execution=near),
            pod_anti_affinity=objects.PodAffinity(required_during_scheduling_ignored_during_execution=apart),
        ),
        topology_spread_constraints=() if node else draw(few(constraints)),
    )


@st.composite
def scenes(draw: st.DrawFn) -> tuple[ClusterState, Group]:
    state = ClusterState(1_000.0)
    for number in range(draw(st.integers(2, 4))):
        labels = {HOST: f"n{number}", **draw(st.sampled_from([{RACK: "r0"}, {RACK: "r1"}, {RACK: f"r{number % 2}"}, {}]))}
        offer = {"cpu": str(draw(st.integers(1, 6))), "pods": "110"}
        state.add_node(
            objects.Node(metadata=objects.ObjectMeta(name=f"n{number}", labels=labels), status=objects.NodeStatus(allocatable=offer))
        )
    if draw(st.booleans()):
        metadata = objects.ObjectMeta(name="there", namespace="default", uid="there", labels={"app": draw(st.sampled_from(APPS))})
        state.add_pod(objects.Pod(metadata=metadata, spec=draw(specs(node="n0"))))
    waiting = []
    for kind in range(draw(st.integers(1, 3))):
        spec, labels = draw(specs()), {"app": draw(st.sampled_from(APPS))}
        for number in range(draw(st.integers(1, 2))):
            name = f"m{kind}{number}"
            waiting.append(
                PodView(objects.Pod(metadata=objects.ObjectMeta(name=name, namespace="default", uid=name, labels=labels), spec=spec))
            )
    least = draw(st.integers(1, len(waiting)))
    levels = draw(st.sampled_from([(), (), (Level(RACK),)]))
    return state, Group(key="default/m", terms=GroupTerms(min_count=least, source="m", levels=levels), waiting=tuple(waiting))


def can_be_placed(  # noqa: PLR0917 — the state of the recursion
    decider: Decider, state: ClusterState, left: list[PodView], wanted: int, rows: list[int], seen: set[frozenset]
) -> bool:
    if wanted <= 0:
        return True
    there = frozenset((pod.uid, pod.node_name) for pod, assumed in state.placements() if assumed)
    if there in seen:
        return False
    seen.add(there)
    names = state.snapshot().names
    for pod in left:
        feasible = decider.evaluation(state.snapshot(), pod).filtering.feasible.copy()
        for row in rows:
            if feasible[row]:
                state.assume(pod, names[row])
                found = can_be_placed(decider, state, [other for other in left if other is not pod], wanted - 1, rows, seen)
                state.forget(pod)
                if found:
                    return True
    return False


@settings(max_examples=150, deadline=None)
@given(scenes())
def test_the_answer_is_that_of_trying_everything(scene: tuple[ClusterState, Group]) -> None:
    state, group = scene
    decider = Decider(CHAIN)
    snapshot = state.snapshot()
    racks: list[list[int]] = [list(range(snapshot.n_nodes))]
    if group.terms.levels:
        ids = snapshot.domain(RACK)[0].tolist()
        racks = [[row for row, each in enumerate(ids) if each == rack] for rack in sorted({each for each in ids if each >= 0})]
    possible = any(can_be_placed(decider, state, list(group.waiting), group.needed, rows, set()) for rows in racks)
    answer = place(Decider(CHAIN), state, group)
    assert isinstance(answer, Placed) is possible
    assert isinstance(answer, Impossible) is not possible
    members = {pod.uid: pod for pod in group.waiting}
    for uid, name in answer.nodes.items() if isinstance(answer, Placed) else ():
        row = state.snapshot().known_row(name)
        assert decider.evaluation(state.snapshot(), members[uid]).filtering.feasible[row]
        state.assume(members[uid], name)


@settings(max_examples=150, deadline=None)
@given(scenes())
def test_members_go_where_single_pods_would(scene: tuple[ClusterState, Group]) -> None:
    """A group without levels is placed as its members would be one after the other, each decided anew on the cluster as it is then."""
    state, group = scene
    group = replace(group, terms=GroupTerms(min_count=len(group.waiting), source="m"))
    alone: dict[str, str] = {}
    for pod in ordered(group.waiting):
        decision = decide(CHAIN, state.snapshot(), pod)
        if decision.node is None:
            break
        alone[pod.uid] = decision.node
        state.assume(pod, decision.node)
    for pod in group.waiting:
        state.forget(pod)
    if len(alone) == len(group.waiting):
        steps = placing(Decider(CHAIN), state, group, keep=True)
        assert at_once(steps) == Placed(nodes=alone)
        there = {pod.uid: pod.node_name for pod, assumed in state.placements() if assumed}
        assert there == alone
