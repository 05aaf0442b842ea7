"""The first decision about a template, where every placed pod has a template of its own, reads them in steps and not at once.

Indexed Jobs and StatefulSets make such pods. Whoever may write a policy, or a template of pods, chooses what is read of each of them.
"""

from __future__ import annotations

import pytest

from tests.parity import case
from tests.unit.framework.kube import node, pod, state
from tests.unit.language.policies import policy
from tests.work import calls
from wharfinger.compiler.program import ROWS_PER_STEP, compile_policy
from wharfinger.framework import chain
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.model import objects
from wharfinger.model.columns.pod_table import READ_PER_STEP
from wharfinger.model.reading import decode

ZONE = "topology.kubernetes.io/zone"
REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
FEW, MANY = 2048, 6144
SMALL = 640  # so few that later pods always wait for the pod that reads them
TERM = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
NO_TERM = {**TERM, "labelSelector": {"matchLabels": {"app": "none"}}}
NODES = 8
COUNTS = 5  # steps in each case that count what the others evaluated, at most: of each reader, and of the smallest or largest values


def spread(when):
    return pod(labels={"app": "s"}, topologySpreadConstraints=[{"maxSkew": 100_000, "whenUnsatisfiable": when, **TERM}])


def terms(kind, how, term=TERM):
    listed = [term] if how == REQUIRED else [{"weight": 1, "podAffinityTerm": term}]
    return pod(labels={"app": "s"}, affinity={kind: {how: listed}})


PODS = {
    "plain": pod(),
    "hard constraint": spread("DoNotSchedule"),
    "soft constraint": spread("ScheduleAnyway"),
    "affinity": terms("podAffinity", REQUIRED),
    "anti-affinity": terms("podAntiAffinity", REQUIRED, NO_TERM),
    "preference": terms("podAffinity", PREFERRED),
    "disk": pod(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]),
}
SELECTIONS = {
    "kept": 'it.labels["app"] != "x"',
    "kept for values of the pod": 'it.labels["app"] != pod.labels["app"]',
    "index of names": "it.name != pod.name",
    "index of templates": 'it.labels["app"] != pod.name',
    "each pod once": 'starts_with(it.name, "p")',
    "scan": "starts_with(it.name, pod.name)",
}
EXTREMES = {
    "largest": 'max(pods where it.labels["app"] != "x", it.priority, on: node)',
    "smallest of a zone": f'min(pods where it.labels["app"] != pod.labels["app"], it.priority, within: "{ZONE}")',
    "largest of other names": "max(pods where it.name != pod.name, it.priority)",
}
POLICY = "let chosen = pods where {0}\nscore s = count(chosen, on: node) normalize minmax\n"
EXTREME = "filter f {{ require ({0} ?? 0) < 5 }}\n"
CASES = {
    **{name: (manifest, None) for name, manifest in PODS.items()},
    **{name: (pod(labels={"app": "s"}), POLICY.format(predicate)) for name, predicate in SELECTIONS.items()},
    **{name: (pod(labels={"app": "s"}), EXTREME.format(value)) for name, value in EXTREMES.items()},
}


def cluster(n_pods, n_nodes=NODES):
    nodes = [node(f"n{i}", labels={ZONE: f"z{i % 2}"}, offer={"pods": "10000"}) for i in range(n_nodes)]
    return state(nodes, [pod(f"p{i}", on=f"n{i % n_nodes}", labels={"app": f"a{i}"}) for i in range(n_pods)])


def decider_of(text):
    return Decider(chain.assemble([] if text is None else [compile_policy(policy(text))]))


@pytest.fixture
def all_in_steps(monkeypatch):
    """Make all reading happen in steps."""
    monkeypatch.setattr(cycle, "STEPS_AT_ONCE", 0)


@pytest.mark.usefixtures("all_in_steps")
@pytest.mark.parametrize("name", CASES)
def test_the_first_decision_reads_no_template_of_a_placed_pod(name):
    manifest, text = CASES[name]

    def work(n_pods):
        there, decider, asked = cluster(n_pods), decider_of(text), case.pending({"pod": manifest})
        steps = sum(1 for _ in decider.precompute(there.snapshot, asked))
        assert steps >= n_pods // READ_PER_STEP
        return calls(lambda: decider.decide(there.snapshot(), asked))

    assert abs(work(MANY) - work(FEW)) < (MANY - FEW) / 10


@pytest.mark.usefixtures("all_in_steps")
@pytest.mark.parametrize("name", CASES)
def test_a_step_evaluates_a_few_templates(name):
    """A step that counts what the others evaluated looks each template up."""
    manifest, text = CASES[name]
    there, decider, asked = cluster(MANY), decider_of(text), case.pending({"pod": manifest})
    steps = decider.precompute(there.snapshot, asked)
    work = sorted(calls(lambda: next(steps, None)) for _ in range(10 * MANY // READ_PER_STEP))
    evaluating, counting = work[:-COUNTS], work[-COUNTS:]
    assert max(evaluating) < 50 * READ_PER_STEP
    assert max(counting) < 5 * MANY


def add_pods(there, number):
    for i in range(number):
        there.add_pod(decode.convert(pod(f"more{i}", on="n1", labels={"app": f"more{i}"}), objects.Pod))


def remove_pods(there, every):
    for gone in range(0, FEW, every):
        there.remove_pod(there.snapshot().placement(f"uid-p{gone}").pod)


def remove_node(there):
    remove_pods(there, NODES)
    there.remove_node("n0")


CHANGES = {
    "a pod": lambda there: add_pods(there, 1),
    "pods": lambda there: add_pods(there, 3000),
    "gone": lambda there: remove_pods(there, 2),
    "a node": lambda there: there.add_node(decode.convert(node("new", labels={ZONE: "z2"}), objects.Node)),
    "node gone": remove_node,
}


@pytest.mark.usefixtures("all_in_steps")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("change", CHANGES)
def test_changes_between_two_steps_are_read_for_the_decision(name, change):
    manifest, text = CASES[name]
    there, decider, asked = cluster(FEW), decider_of(text), case.pending({"pod": manifest})
    steps = decider.precompute(there.snapshot, asked)
    for _ in range(5):
        next(steps)
    CHANGES[change](there)
    list(steps)
    found, fresh = decider.decide(there.snapshot(), asked), decide(decider.chain, there.snapshot().detach(), asked)
    assert (found.node, found.feasible, found.ranking(NODES + 1)) == (fresh.node, fresh.feasible, fresh.ranking(NODES + 1))


def constraints(number):
    return [{"maxSkew": 100_000, "whenUnsatisfiable": "DoNotSchedule", **term(f"x{each}")} for each in range(number)]


def preferences(number):
    return {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term(f"x{each}")} for each in range(number)]}}


def term(other):
    return {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [other]}]}}


def selections(number, predicate):
    lines = [
        f"let a{each} = pods where {predicate.format(each)}\nscore s{each} = count(a{each}) normalize minmax" for each in range(number)
    ]
    return "\n".join(lines)


MANY_TERMS = {
    "constraints": (pod(labels={"app": "s"}, topologySpreadConstraints=constraints(100)), None),
    "preferences": (pod(labels={"app": "s"}, affinity=preferences(100)), None),
    "selections": (pod(), selections(100, 'it.labels["k{0}"] != "x"')),
    "a long selection": (
        pod(),
        selections(8, " and ".join(f'not matches_regex(it.annotations["k{i}"] ?? "", "x{{0}}")' for i in range(6))),
    ),
}


@pytest.mark.parametrize("name", MANY_TERMS)
def test_few_templates_are_read_in_steps_if_that_takes_long(name):
    manifest, text = MANY_TERMS[name]
    there, decider, asked = cluster(SMALL), decider_of(text), case.pending({"pod": manifest})
    steps = decider.precompute(there.snapshot, asked)
    work = [calls(lambda: next(steps, None)) for _ in range(100 * SMALL // READ_PER_STEP)]
    assert max(work) < sum(work) / 3


KEPT = "\n".join(f'filter f{i} {{ require not starts_with(node.labels["l{i}"] ?? "none", "x{i}") }}' for i in range(10))


@pytest.mark.usefixtures("all_in_steps")
def test_columns_that_are_kept_are_computed_some_rows_at_a_time():
    """All policies together may keep many numbers for each node."""

    def work(n_nodes):
        there, decider, asked = cluster(0, n_nodes), decider_of(KEPT), case.pending({"pod": pod()})
        steps = sum(1 for _ in decider.precompute(there.snapshot, asked))
        assert steps == 10 * -(-n_nodes // ROWS_PER_STEP)
        return calls(lambda: decider.decide(there.snapshot(), asked))

    work(2 * ROWS_PER_STEP)  # what is imported and kept at the first use counts for none of the others
    assert work(4 * ROWS_PER_STEP) - work(2 * ROWS_PER_STEP) < ROWS_PER_STEP / 10
