"""The attributes of groups in policies: kernels and interpreter agree, kept answers follow, and members match the plain definition."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.property import clusters
from tests.property.test_cached_decision import compiled
from tests.property.test_evaluators import NOW, differences, states
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

BYS = (
    'group by pod.labels["app"] { min_count 2 }',
    'group by pod.labels["app"] ?? "none" { min_count pod.priority }',
    "let app = pod.labels['app']\ngroup by if pod.priority > 0 then app else app { min_count 3 }",
    "group { reserve }",
    "",
)
VALUES = (
    "count(group)",
    "count(group, on: node)",
    "count(group, within: 'disk') ?? 7",
    "sum(group, it.priority, on: node)",
    "max(group, it.priority, within: 'disk') ?? 0",
    "count(pods where (it.group.name ?? 'x') == (pod.group.name ?? 'y'), on: node)",
    "pod.group.size ?? 0",
    "pod.group.min ?? 0",
    "pod.group.placed ?? 0",
    "(if pod.group.name == 'a' then 1 else 2) ?? 3",
)
GROUPS = ("a", "b", "none", "g")
slow = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@st.composite
def members(draw: st.DrawFn, name: str, node: str = "") -> objects.Pod:
    """A pod that may name a PodGroup."""
    pod = draw(clusters.pods(st.just(name), node))
    group = draw(st.sampled_from([None, None, "a", "g"]))
    return pod if group is None else replace(pod, spec=replace(pod.spec, scheduling_group=objects.PodSchedulingGroup(pod_group_name=group)))


@st.composite
def worlds(draw: st.DrawFn) -> ClusterState:
    """A cluster with PodGroups, some of them known to have members, and placed pods that name one."""
    state = draw(states())
    for namespace in ("default", "web"):
        for name in GROUPS:
            if draw(st.booleans()):
                state.set_group_size(f"{namespace}/{name}", draw(st.integers(1, 5)))
            if draw(st.integers(0, 2)) == 0:
                gang = objects.GangSchedulingPolicy(min_count=draw(st.integers(0, 3)))
                spec = objects.PodGroupSpec(scheduling_policy=objects.PodGroupSchedulingPolicy(gang=gang))
                state.put(objects.PodGroup(metadata=objects.ObjectMeta(name=name, namespace=namespace), spec=spec))
    for name in ("member-0", "member-1"):
        state.add_pod(draw(members(name, draw(st.sampled_from(list(state.snapshot().names))))))
    return state


def policy_of(by: str, value: str) -> str:
    return (
        f'policy "p"\n{by}\nfilter f {{ require {value} < 2 else "{{{value}}} are too many" }}\nscore s = {value} normalize max\n'
        f"tie_break {value} desc\npermit held {{ require {value} >= 1 else 'waiting' }}\n"
    )


texts = st.builds(policy_of, st.sampled_from(BYS), st.sampled_from(VALUES))
incoming = members("incoming").map(PodView)


@slow
@given(texts, worlds(), st.one_of(incoming, members("member-0").map(PodView)))
def test_kernels_agree_with_the_interpreter(text: str, state: ClusterState, pod: PodView) -> None:
    policy, snapshot = compiled(text), state.snapshot(now=NOW)
    assert not list(differences(policy, BoundPolicy(policy, pod, snapshot), pod, snapshot))


@slow
@given(texts, worlds(), members("member-0").map(PodView))
def test_permits_count_the_pod_itself(text: str, state: ClusterState, pod: PodView) -> None:
    policy, snapshot = compiled(text), state.snapshot(now=NOW)
    bound, interpreter = BoundPolicy(policy, pod, snapshot, counted=True), Interpreter(policy.policy, {}, pod, snapshot, counted=True)
    refused = bound.bits_of(policy.permits[0], snapshot, slice(None)) != 0
    wanted = [any(answer is not True for _, answer in interpreter.filter(policy.policy.permits[0], row)) for row in range(snapshot.n_nodes)]
    assert refused.tolist() == wanted


@slow
@given(st.sampled_from(VALUES[:2]), worlds(), incoming)
def test_the_members_are_those_with_the_name_of_the_group(value: str, state: ClusterState, pod: PodView) -> None:
    policy, snapshot = compiled(policy_of(BYS[0], value)), state.snapshot(now=NOW)
    name = named(pod)
    raw, _ = BoundPolicy(policy, pod, snapshot).score(0, snapshot, slice(None))
    mine = [
        [each for each in snapshot.pods_on(row) if name and each.namespace == pod.namespace and named(each) == name]
        for row in range(snapshot.n_nodes)
    ]
    counts = np.array([len(each) for each in mine], dtype=float)
    assert raw.tolist() == (counts if "on: node" in value else np.full(snapshot.n_nodes, counts.sum())).tolist()


def named(pod: PodView) -> str:
    """The plain definition: the PodGroup that a pod names, or else its label."""
    group = pod.object.spec.scheduling_group
    return group.pod_group_name or "" if group is not None else pod.labels.get("app", "")


@slow
@given(texts, worlds(), incoming, st.data())
def test_kept_answers_follow_members_and_what_is_known_of_groups(text: str, state: ClusterState, pod: PodView, data: st.DataObject) -> None:
    chain = assemble([compiled(text)])
    decider = Decider(chain)
    names = list(state.snapshot().names)
    for step in range(4):
        snapshot = state.snapshot(now=NOW)
        kept, fresh = decider.decide(snapshot, pod), decide(chain, snapshot, pod)
        assert (kept.node, kept.feasible, kept.message) == (fresh.node, fresh.feasible, fresh.message)
        match data.draw(st.integers(0, 3)):
            case 0:
                state.set_group_size(f"{pod.namespace}/{data.draw(st.sampled_from(GROUPS))}", data.draw(st.integers(0, 4)))
            case 1:
                gang = objects.GangSchedulingPolicy(min_count=data.draw(st.integers(0, 4)))
                spec = objects.PodGroupSpec(scheduling_policy=objects.PodGroupSchedulingPolicy(gang=gang))
                metadata = objects.ObjectMeta(name=data.draw(st.sampled_from(GROUPS)), namespace=pod.namespace)
                state.put(objects.PodGroup(metadata=metadata, spec=spec))
            case 2:
                state.assume(PodView(data.draw(members(f"late-{step}"))), data.draw(st.sampled_from(names)))
            case _:
                state.remove_pod(PodView(data.draw(members("member-0"))))


def test_a_kept_answer_follows_the_number_of_members_and_the_podgroup() -> None:
    chain = assemble([compiled(policy_of(BYS[0], VALUES[6])), compiled(policy_of(BYS[0], VALUES[7]).replace('"p"', '"q"'))])
    decider, state = Decider(chain), ClusterState()
    state.add_node(objects.Node(metadata=objects.ObjectMeta(name="a"), status=objects.NodeStatus(allocatable={"pods": "9"})))
    pod = PodView(objects.Pod(metadata=objects.ObjectMeta(name="incoming", labels={"app": "a"})))

    def rejecting() -> list[str]:
        decision = decider.decide(state.snapshot(now=NOW), pod)
        return [rejection.plugin for rejection in decision.diagnosis.at(0)]

    assert rejecting() == ["q/f"]  # `min_count 2`
    gang = objects.GangSchedulingPolicy(min_count=1)
    spec = objects.PodGroupSpec(scheduling_policy=objects.PodGroupSchedulingPolicy(gang=gang))
    state.put(objects.PodGroup(metadata=objects.ObjectMeta(name="a", namespace="default"), spec=spec))
    assert rejecting() == []
    state.set_group_size("default/a", 3)
    assert rejecting() == ["p/f"]
    state.set_group_size("default/a", 1)
    assert rejecting() == []
