"""Rules about victims: compiled rules agree with the interpreter, and preemption ignores protected pods."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import msgspec
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.property import programs, topologies
from tests.property.test_evaluators import NOW, pending, states
from tests.property.test_preemption import Picture, pictures
from tests.unit.language.policies import policy
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.program import compile_policy
from wharfinger.framework import chain
from wharfinger.framework.evaluation import cycle
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Subject
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState

slow = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))

AGE = programs.operation(
    typed.Op.LT,
    programs.call("age", programs.attribute(Subject.ITEM, "created")),
    programs.call("age", programs.attribute(Subject.POD, "created")),
    type_=programs.BOOL,
)
OF_BOTH = [programs.Expressions((Subject.POD, Subject.ITEM), depth, programs.CLOCK, cluster=False) for depth in range(3)]
conditions = st.one_of(st.sampled_from(OF_BOTH).flatmap(lambda of_both: of_both.bools), st.just(AGE))
victim_rules = st.builds(
    lambda condition, missing: typed.VictimRule(span=programs.SPAN, condition=condition, missing_evicts=missing),
    conditions,
    st.sampled_from([None, True, False]),
)


@slow
@given(programs.policies(), st.lists(victim_rules, min_size=1, max_size=3), states(), pending)
def test_compiled_rules_agree_with_the_interpreter(
    whole: typed.Policy, rules: list[typed.VictimRule], state: ClusterState, pod: PodView
) -> None:
    compiled = compile_policy(replace(whole, victims=tuple(rules)), programs.PARAMS)
    snapshot = state.snapshot(now=NOW)
    interpreter = Interpreter(compiled.policy, compiled.params, pod, snapshot)
    assert compiled.victims is not None
    allowed = compiled.victims.allowed(pod, snapshot)
    placed = [(row, other) for row in range(snapshot.n_nodes) for other in snapshot.pods_on(row)]
    assert [allowed(other) for _, other in placed] == [interpreter.evictable(other, row) for row, other in placed]


RULES = (
    'never_evict when it.labels["app"] == "a" on missing keep',
    'never_evict when it.labels["app"] == "a" on missing evict',
    'only_evict when it.labels["app"] == pod.labels["app"] on missing evict',
    "only_evict when it.namespace == pod.namespace",
    "never_evict when it.priority > 0",
    "never_evict when age(it.created) < 1h on missing evict",
    'never_evict when it.namespace_labels["tier"] == "a" on missing evict',
    'only_evict when it.namespace_labels matches "tier" or it.namespace_labels["tier"] == pod.namespace_labels["tier"] on missing keep',
)


def raised(picture: Picture, pod: PodView, rules: typed.Policy) -> Picture:
    """The same cluster, in which the pods that are protected from `pod` have its priority."""
    compiled = compile_policy(rules)
    snapshot = picture.state().snapshot()
    interpreter = Interpreter(rules, compiled.params, pod, snapshot)
    evictable = {other.uid for row in range(snapshot.n_nodes) for other in snapshot.pods_on(row) if interpreter.evictable(other, row)}
    pods = [
        other if other.uid in evictable or other.priority >= pod.priority else _with_priority(other, pod.priority) for other in picture.pods
    ]
    event(f"{sum(a is not b for a, b in zip(pods, picture.pods, strict=True))} protected")
    return Picture(picture.nodes, pods, picture.others, picture.nominated)


def _with_priority(pod: PodView, priority: int) -> PodView:
    return PodView(msgspec.structs.replace(pod.object, spec=msgspec.structs.replace(pod.object.spec, priority=priority)))


def _pod(name: str, node: str, priority: int, cpu: str, **metadata: object) -> PodView:
    manifest = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata},
        "spec": {"nodeName": node, "priority": priority, "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
    }
    return PodView(decode.convert(manifest, objects.Pod))


@st.composite
def packed(draw: st.DrawFn) -> Picture:
    """Nodes of two CPUs, full of small pods: who is evicted is all that matters."""
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    labels = st.sampled_from([{}, {"app": "a"}, {"app": "b"}])
    created = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:50:00Z"])
    pods = [
        _pod(f"{name}{number}", name, draw(st.sampled_from([-1, 0, 5, 10])), "1", labels=draw(labels), creationTimestamp=draw(created))
        for name in names
        for number in range(draw(st.integers(1, 2)))
    ]
    node = {"status": {"allocatable": {"cpu": "2", "pods": "10"}}}
    nodes = [decode.convert({"metadata": {"name": name}, **node}, objects.Node) for name in names]
    return Picture(nodes, pods, [], [])


NEWCOMER = _pod("new", "", 10, "2", labels={"app": "a"})


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    case=st.one_of(st.tuples(packed(), st.just(NEWCOMER)), st.tuples(pictures(), topologies.pods("new").map(PodView))),
    lines=st.lists(st.sampled_from(RULES), min_size=1, max_size=2, unique=True),
)
def test_protected_pods_are_left_alone_as_if_their_priority_were_higher(case: tuple[Picture, PodView], lines: list[str]) -> None:
    picture, pod = case
    together = policy("preemption {\n" + "\n".join(lines) + "\n}")
    apart = [policy(f'policy "p{index}"\npreemption {{ {line} }}') for index, line in enumerate(lines)]
    expected = cycle.decide(chain.assemble(), raised(picture, pod, together).state().snapshot(), pod)
    assume(expected.node is None)
    event("nominated" if expected.nominated else "not nominated")
    for policies in ([together], apart):
        found = cycle.decide(chain.assemble([compile_policy(each) for each in policies]), picture.state().snapshot(), pod)
        assert (found.node, found.nominated) == (None, expected.nominated)
        assert sorted(victim.key for victim in found.victims) == sorted(victim.key for victim in expected.victims)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(picture=packed(), lines=st.lists(st.sampled_from(RULES), max_size=2, unique=True), data=st.data())
def test_a_kept_search_for_victims_equals_a_new_one(picture: Picture, lines: list[str], data: st.DataObject) -> None:
    built = chain.assemble([compile_policy(policy("preemption { never_evict when it.priority > 7\n" + "\n".join(lines) + "\n}"))])
    decider = cycle.Decider(built)
    state = picture.state()
    now = datetime(2026, 1, 1, 1, tzinfo=UTC).timestamp()
    for _ in range(4):
        kept, fresh = (decide(state.snapshot(now), NEWCOMER) for decide in (decider.decide, partial(cycle.decide, built)))
        assert (kept.node, kept.nominated, kept.message) == (fresh.node, fresh.nominated, fresh.message)
        assert [victim.key for victim in kept.victims] == [victim.key for victim in fresh.victims]
        now += data.draw(st.sampled_from([0, 3000]))
        if data.draw(st.booleans()):
            tier = data.draw(st.sampled_from([{}, {"tier": "a"}, {"tier": "b"}]))
            state.put(objects.Namespace(metadata=objects.ObjectMeta(name="default", labels=tier)))
        if picture.pods and data.draw(st.booleans()):
            changed = data.draw(st.sampled_from(picture.pods))
            state.add_pod(_pod(changed.name, changed.node_name, 0, "1", labels=data.draw(st.sampled_from([{}, {"app": "a"}]))).object)
