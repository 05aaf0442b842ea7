"""Pods to evict are searched for on some nodes at a time, before the decision about a pod that fits none."""

import pytest

from tests.unit.framework.kube import node, pod, state
from tests.work import calls
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.framework.plugins.default_preemption import NODES_PER_STEP
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode

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
    "the cheapest becomes dear": lambda there: [remove(there, "p0"), remove(there, "p400")],
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
