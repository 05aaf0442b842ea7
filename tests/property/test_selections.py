"""Selections that read the pod to be placed: counts equal those of the interpreter, and no decision evaluates all pods for them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.compiler import texts
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import compile_policy
from wharfinger.compiler.selections import ItemProgram
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

from . import clusters
from .test_evaluators import NOW, answers, differences

NAMES = ("a", "b", "pod-1", "")
CAPTURING = (
    "it.name == pod.name",
    "it.name != pod.name",
    "it.uid == pod.uid",
    "it.node_name == pod.name",
    'it.name in [pod.name, "b"]',
    "lower(it.name) == pod.name",
    'it.labels["app"] == pod.name',
    'it.labels["app"] != pod.name',
    '(it.labels["app"] ?? "a") == lower(pod.name)',
    "starts_with(it.name, pod.name)",
    "it.created < pod.created",
    "it.created == pod.created",
    "age(it.created) < 1005s",
    "age(it.created) < age(pod.created)",
    'it.labels[pod.name] == "a"',
)
PLAIN = (
    'it.labels["app"] == pod.labels["app"]',
    "it.namespace == pod.namespace",
    "it.priority < pod.priority",
    "it.priority > 1",
    'it.name == "a"',
    "has(it.started)",
    'pod.name == "a"',
)
VALUES = ("it.priority", "it.priority / 3", "it.requests.cpu / 7m", "(if {} then 0 else it.priority)", "number(it.labels['app'])")
EXTENTS = (", on: node", ', within: "disk"', "")


def predicates(depth: int) -> st.SearchStrategy[str]:
    simple = st.sampled_from(CAPTURING + PLAIN)
    if not depth:
        return simple
    inner = predicates(depth - 1)
    return st.one_of(
        simple,
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner),
        inner.map("(not {})".format),
        st.builds("(if {} then {} else {})".format, inner, inner, inner),
    )


@st.composite
def numbers(draw: st.DrawFn) -> str:
    """An aggregate over a random selection, or `spread` of one, as a number."""
    selection = f"pods where {draw(predicates(2))}"
    reduction = draw(st.sampled_from(["count", "sum", "avg", "min", "max", "spread"]))
    extent = draw(st.sampled_from(EXTENTS))
    if reduction == "spread":
        return f'(spread({selection}, by: "disk") ?? -1)'
    value = "" if reduction == "count" else ", " + draw(st.sampled_from(VALUES)).format(draw(predicates(1)))
    return f"({reduction}({selection}{value}{extent}) ?? -1)"


@st.composite
def policies(draw: st.DrawFn) -> str:
    scores = "\n".join(f"score s{i} = {draw(numbers())} * 1 normalize minmax" for i in range(2))
    return f'policy "random"\n{scores}\nfilter f {{\n  require {draw(numbers())} <= 2\n}}\n'


@st.composite
def pods(draw: st.DrawFn, node_name: str = "") -> PodView:
    name, namespace = draw(st.sampled_from(NAMES[:3])), draw(st.sampled_from(["web", "db"]))
    pod = draw(clusters.pods(st.just(name), node_name))
    labels = draw(st.fixed_dictionaries({}, optional={"app": st.sampled_from([*NAMES, "3"])}))
    metadata = msgspec.structs.replace(pod.metadata, namespace=namespace, uid=f"{namespace}/{name}", labels=labels)
    return PodView(msgspec.structs.replace(pod, metadata=metadata))


@st.composite
def changes(draw: st.DrawFn) -> Callable[[ClusterState], object]:
    """One change of the cluster: a pod comes, moves, changes or goes, or a node does."""
    what = draw(st.sampled_from(["pod", "pod", "pod", "gone", "node", "no node"]))
    name = draw(clusters.node_names)
    if what == "pod":
        pod = draw(pods(name))
        return lambda state: state.add_pod(pod)
    if what == "gone":
        pod = draw(pods())
        return lambda state: state.remove_pod(pod)
    if what == "node":
        node = draw(clusters.nodes(st.just(name)))
        return lambda state: state.add_node(node)
    return lambda state: state.remove_node(name)


slow = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@slow
@given(policies(), st.lists(changes(), min_size=1, max_size=6), st.data())
def test_counts_are_those_of_the_interpreter_whatever_happens(
    text: str, happening: list[Callable[[ClusterState], object]], data: st.DataObject
) -> None:
    policy = compile_policy(texts.typed_policy(text), {})
    state = ClusterState()
    state.add_node(objects.Node(metadata=objects.ObjectMeta(name="node-0", labels={"disk": "ssd"})))
    for change in happening:
        change(state)
        snapshot = state.snapshot(now=NOW)
        pod = data.draw(pods())
        assert not list(differences(policy, BoundPolicy(policy, pod, snapshot), pod, snapshot))


@slow
@given(policies(), st.lists(changes(), min_size=2, max_size=6), pods(), pods())
def test_numbers_that_were_kept_are_fresh_ones_to_the_last_bit(
    text: str, happening: list[Callable[[ClusterState], object]], one: PodView, other: PodView
) -> None:
    policy = compile_policy(texts.typed_policy(text), {})
    state = ClusterState()
    state.add_node(objects.Node(metadata=objects.ObjectMeta(name="node-0", labels={"disk": "ssd"})))
    for change in happening:
        change(state)
        snapshot, fresh = state.snapshot(now=NOW), state.snapshot(now=NOW).detach()
        for pod in (one, other):
            everywhere = slice(None)
            assert answers(policy, BoundPolicy(policy, pod, snapshot), snapshot, everywhere) == answers(
                policy, BoundPolicy(policy, pod, fresh), fresh, everywhere
            )


# ── work ──


def fleet(n_pods: int) -> ClusterState:
    """Four nodes with pods of as many templates as there are pods."""
    state = texts.cluster(*(texts.node(f"node-{number}", labels={"disk": "ssd"}, pods="9999") for number in range(4)))
    for number in range(n_pods):
        labels = {"app": f"app-{number % 5}", "own": str(number)}
        state.add_pod(texts.pod(f"placed-{number}", on=f"node-{number % 4}", labels=labels, priority=number % 7, cpu="1"))
    return state


def looked_at(monkeypatch: pytest.MonkeyPatch, selection: str, n_pods: int) -> list[int]:
    """The number of placed pods that are evaluated for each of five decisions, each of which places its pod."""
    asked = 0
    run = ItemProgram.run

    def counting(self: ItemProgram, captured: object, pod: PodView) -> object:
        nonlocal asked
        asked += 1
        return run(self, captured, pod)  # type: ignore[arg-type]  # as it was given

    monkeypatch.setattr(ItemProgram, "run", counting)
    policy = texts.compiled(f'policy "p"\nfilter f {{\n  require ({selection} ?? 0) < 9999\n}}\n')
    state = fleet(n_pods)
    found = []
    for number in range(5):
        asked = 0
        pod = texts.pod(f"new-{number}", labels={"app": "app-1"}, priority=2)
        snapshot = state.snapshot(now=NOW)
        bound = BoundPolicy(policy, pod, snapshot)
        assert not bound.filter_bits(0, snapshot, slice(None)).any()
        found.append(asked)
        state.assume(pod, f"node-{number % 4}")
    return found


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize(
    "selection",
    [
        "count(pods where it.name != pod.name and it.priority > 3{})",
        "count(pods where it.name != pod.name and it.uid != pod.uid{})",
        'count(pods where not (it.name == pod.name or it.labels["app"] == pod.labels["app"]){})',
        "sum(pods where it.uid != pod.uid, it.requests.cpu{}) / 1m / 1000",
        "max(pods where it.name != pod.name, it.priority{})",
        "avg(pods, (if it.name == pod.name then 0 else it.priority){})",
        'count(pods where it.labels["app"] != pod.name{})',
    ],
)
def test_no_decision_looks_at_all_placed_pods(monkeypatch: pytest.MonkeyPatch, selection: str, extent: str) -> None:
    for n_pods in (40, 400):
        first, *later = looked_at(monkeypatch, selection.format(extent), n_pods)
        assert first <= 6 * n_pods
        assert max(later) <= 12
