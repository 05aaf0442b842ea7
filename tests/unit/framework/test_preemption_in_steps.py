"""Pods to evict are searched for on some nodes at a time, before the decision about a pod that fits none."""

import pytest

from tests.unit.framework.kube import node, pod, state
from tests.unit.language.policies import policy
from tests.work import calls
from wharfinger.compiler.program import compile_policy
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.framework.evaluation.filter_slot import FilterTrial
from wharfinger.framework.plugins.default_preemption import MAX_INTERRUPTIONS, TRIALS_OF_CONFIRMATION, TRIALS_PER_STEP
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode

NODES_PER_STEP = TRIALS_PER_STEP // 5  # each node has four pods
NODES = 5 * NODES_PER_STEP + 7
ROOM = {"cpu": "4", "pods": "10"}


def asking(cpu):
    return [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]


def view(manifest):
    return PodView(decode.convert(manifest, objects.Pod))


def cluster(n_nodes=NODES):
    """Nodes that are full with pods of priorities that differ."""
    nodes = [node(f"n{i:04}", offer=ROOM) for i in range(n_nodes)]
    placed = [pod(f"p{i}", on=f"n{i // 4:04}", containers=asking("1"), priority=10 + i * 7919 % 100 // 10) for i in range(4 * n_nodes)]
    return state(nodes, placed)


def urgent(priority=5000):
    return view(pod("urgent", containers=asking("2"), priority=priority))


def answer(decision):
    return decision.node, decision.nominated, [victim.name for victim in decision.victims], decision.message


def test_a_step_looks_at_some_nodes():
    there, decider, asked = cluster(), Decider(assemble()), urgent()
    steps = decider.precompute(there.snapshot, asked, evicting=True)
    work = []
    while not work or work[-1] > 10:
        work.append(calls(lambda: next(steps, None)))
    assert max(work) < sum(work) / 3
    assert calls(lambda: decider.decide(there.snapshot(), asked)) < sum(work) / 10


def test_no_pod_with_room_has_steps():
    there, decider = cluster(), Decider(assemble())
    there.add_node(decode.convert(node("free", offer=ROOM), objects.Node))
    assert not list(decider.precompute(there.snapshot, urgent(), evicting=True))


def test_no_steps_are_taken_for_a_pod_that_may_evict_no_pod():
    assert not list(Decider(assemble()).precompute(cluster().snapshot, urgent(priority=5), evicting=True))


def remove(there, name):
    there.remove_pod(there.snapshot().placement(f"uid-{name}").pod)


CHANGES = {
    "nothing": lambda there: None,
    "a cheaper victim comes": lambda there: (
        remove(there, "p3"),
        there.add_pod(decode.convert(pod("cheap", on="n0000", containers=asking("1"), priority=1), objects.Pod)),
    ),
    "room": lambda there: (remove(there, "p8"), remove(there, "p9")),
    "a node": lambda there: there.add_node(decode.convert(node("new", offer=ROOM), objects.Node)),
    "a node goes": lambda there: ([remove(there, f"p{number}") for number in range(4)], there.remove_node("n0000")),
    "a budget": lambda there: there.put(
        objects.PodDisruptionBudget(
            metadata=objects.ObjectMeta(name="all", namespace="default"),
            spec=objects.PodDisruptionBudgetSpec(selector=objects.LabelSelector()),
        )
    ),
    "the cheapest becomes dear": lambda there: [remove(there, "p0"), remove(there, "p200")],
}


@pytest.mark.parametrize("taken", [0, 2, 100], ids=["no step", "two steps", "all steps"])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_between_the_steps_are_seen(change, taken):
    there, decider, asked = cluster(), Decider(assemble()), urgent()
    steps = decider.precompute(there.snapshot, asked, evicting=True)
    for _ in zip(range(taken), steps, strict=False):
        pass
    CHANGES[change](there)
    expected = answer(decide(decider.chain, there.snapshot().detach(), asked))
    assert answer(decider.decide(there.snapshot(), asked)) == expected
    list(steps)
    assert answer(decider.decide(there.snapshot(), asked)) == expected


def counted(monkeypatch, name):
    """The times that a method of the trials of nodes is called, as the length of a list."""
    called, usual = [], getattr(FilterTrial, name)
    monkeypatch.setattr(FilterTrial, name, lambda self, *of: called.append(of) or usual(self, *of))
    return called


def numbers(called, steps):
    """How often something is called in each step."""
    found = []
    for _ in steps:
        found.append(len(called))
        called.clear()
    return [*found, len(called)]


def test_a_step_tries_some_pods(monkeypatch):
    there = cluster(12)
    for number in range(12 * 60):
        there.add_pod(decode.convert(pod(f"more{number}", on=f"n{number % 12:04}", containers=asking("1m"), priority=3), objects.Pod))
    tried = numbers(counted(monkeypatch, "reasons_with_nominees"), Decider(assemble()).precompute(there.snapshot, urgent(), evicting=True))
    assert sum(tried) == 12 * 65
    assert max(tried) <= TRIALS_PER_STEP


FULL_ENOUGH = "filter crowded { require node.pod_count >= 4 }"  # no node passes without two of its pods
SOME = 'filter crowded { require node.pod_count >= 4 or ends_with(node.name, "7") }'


@pytest.mark.parametrize("rule", [FULL_ENOUGH, SOME])
def test_a_step_confirms_some_candidates(rule, monkeypatch):
    there, decider, asked = cluster(100), Decider(assemble([compile_policy(policy(rule))])), urgent()
    confirming = counted(monkeypatch, "confirmed")
    confirmed = numbers(confirming, decider.precompute(there.snapshot, asked, evicting=True))
    assert sum(confirmed) == (100 if rule is FULL_ENOUGH else sum(confirmed) > 5 and sum(confirmed))
    assert max(confirmed) <= 1 + TRIALS_PER_STEP // (TRIALS_OF_CONFIRMATION + 4)
    confirming.clear()
    found = answer(decider.decide(there.snapshot(), asked))
    assert not confirming
    assert found == answer(decide(decider.chain, there.snapshot().detach(), asked))
    assert (found[1] is None) == (rule is FULL_ENOUGH)


@pytest.mark.parametrize("change", CHANGES)
def test_changes_while_candidates_are_confirmed_are_seen(change, monkeypatch):
    there, decider, asked = cluster(100), Decider(assemble([compile_policy(policy(FULL_ENOUGH))])), urgent()
    confirming = counted(monkeypatch, "confirmed")
    steps = decider.precompute(there.snapshot, asked, evicting=True)
    while len(confirming) < 30:
        next(steps)
    CHANGES[change](there)
    list(steps)
    assert answer(decider.decide(there.snapshot(), asked)) == answer(decide(decider.chain, there.snapshot().detach(), asked))


def test_confirmations_leave_the_columns_of_the_cluster_alone():
    rule = compile_policy(policy('filter crowded { require node.pod_count >= 4 and contains(node.name, "n") }'))
    there, decider = cluster(100), Decider(assemble([rule]))
    decider.evaluation(there.snapshot(), urgent())
    kept = rule.static_columns(there.snapshot().strings)
    list(decider.precompute(there.snapshot, urgent(), evicting=True))
    assert rule.static_columns(there.snapshot().strings) is kept


SPREAD = {
    "maxSkew": 1000,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "s"}},
}


def spread(number="", priority=5000):
    """A pod that is spread over nodes: its filter looks at all of them."""
    return view(pod(f"urgent{number}", containers=asking("2"), priority=priority, labels={"app": "s"}, topologySpreadConstraints=[SPREAD]))


def come(number, there):
    """A small pod comes that may not be evicted."""
    there.add_pod(decode.convert(pod(f"other{number}", on="n0001", containers=asking("1m"), priority=9999), objects.Pod))


def node_comes(number, there):
    there.add_node(decode.convert(node(f"new{number}", offer={"cpu": "1", "pods": "10"}), objects.Node))


def node_moves(number, there):
    """A node without pods goes, another one gets its row."""
    there.remove_node(f"spare{number}")


def budget_changes(number, there):
    there.put(
        objects.PodDisruptionBudget(
            metadata=objects.ObjectMeta(name=f"b{number}", namespace="default"),
            spec=objects.PodDisruptionBudgetSpec(selector=objects.LabelSelector()),
        )
    )


def second_passes(number, there):
    there.set_time(1000.0 + number)


UNSTEADY = [come, node_comes, node_moves, budget_changes, second_passes]
MOST_STEPS = (MAX_INTERRUPTIONS + 1) + 1 + NODES // NODES_PER_STEP + 2  # the last ones look at the chosen node again


def with_spares():
    """The cluster after many nodes with little room, which may go."""
    nodes = [node(f"spare{number}", offer={"cpu": "1", "pods": "10"}) for number in range(1, MOST_STEPS + 2)]
    there = cluster()
    full = state(nodes, [])
    for name in [*there.snapshot().names]:
        full.add_node(there.snapshot().node(there.snapshot().row(name)).object)
    for row in range(there.snapshot().n_nodes):
        for placed in there.snapshot().pods_on(row):
            full.add_pod(placed)
    return full


@pytest.mark.parametrize("change", UNSTEADY)
@pytest.mark.parametrize("asked", [spread(), urgent()], ids=["over several nodes", "over each node"])
def test_a_search_ends_in_steps_although_the_cluster_changes_in_every_step(asked, change, monkeypatch):
    there, decider = with_spares(), Decider(assemble())
    trying, tried = counted(monkeypatch, "reasons_with_nominees"), []
    for taken, _ in enumerate(decider.precompute(there.snapshot, asked, evicting=True), start=1):
        assert taken <= MOST_STEPS
        tried.append(len(trying))
        trying.clear()
        change(taken, there)
    found = decider.decide(there.snapshot(), asked)
    assert sum(tried) > 4 * NODES
    assert max([*tried, len(trying)]) <= TRIALS_PER_STEP
    again = decide(decider.chain, there.snapshot().detach(), asked)
    assert answer(found) == answer(again)
    assert (again.while_changing, found.while_changing or asked.name == "urgent") == (False, True)


def test_a_search_that_a_cluster_interrupts_answers_for_the_node_as_it_is():
    """The node that was the cheapest when its turn came has lost its cheap pods, and another one is gone."""
    there, decider, asked = cluster(), Decider(assemble()), spread()
    steps = decider.precompute(there.snapshot, asked, evicting=True)
    for taken, _ in enumerate(steps):
        come(taken, there)
        if taken == MAX_INTERRUPTIONS + 3:
            cheapest = decide(decider.chain, there.snapshot().detach(), asked).nominated
            for placed in list(there.snapshot().pods_on(there.snapshot().row(cheapest))):
                there.remove_pod(placed)
                there.add_pod(decode.convert(pod(f"dear-{placed.name}", on=cheapest, containers=asking("1"), priority=4999), objects.Pod))
    assert answer(decider.decide(there.snapshot(), asked)) == answer(decide(decider.chain, there.snapshot().detach(), asked))


def test_a_second_that_passes_between_the_last_step_and_the_decision_begins_no_search(monkeypatch):
    there, decider, asked = cluster(), Decider(assemble()), spread()
    list(decider.precompute(there.snapshot, asked, evicting=True))
    trying = counted(monkeypatch, "reasons_with_nominees")
    expected = answer(decide(decider.chain, there.snapshot().detach(), asked))
    trying.clear()
    there.set_time(there.snapshot().now + 1)
    assert answer(decider.decide(there.snapshot(), asked)) == expected
    assert not trying
