"""The first decision does little work for each placed pod, also if each has a template of its own."""

import gc

import pytest

from tests.unit.compiler.texts import compiled
from tests.unit.model.clusters import node
from tests.unit.model.clusters import state as state_of
from tests.unit.scheduler.running import view
from tests.work import calls
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.framework.chain import assemble, with_policies
from wharfinger.framework.evaluation.cycle import Decider

ZONE = "topology.kubernetes.io/zone"
SELECTOR = {"labelSelector": {"matchLabels": {"app": "a1"}}}
SPREAD = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **SELECTOR}]
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, **SELECTOR}]}}


def first_decision(count, **spec):
    """The calls of the first decision on a cluster of that many templates."""
    state = state_of([node(f"n{number}", {ZONE: f"z{number}"}) for number in range(3)])
    for number in range(count):
        state.add_pod(view(f"p{number}", labels={"app": f"a{number % 5}", "index": str(number)}, nodeName=f"n{number % 3}"))
    return calls(lambda: Decider(assemble()).decide(state.snapshot(), view("new", labels={"app": "a1"}, **spec)))


@pytest.mark.parametrize(
    ("spec", "most"),
    [({}, 8), ({"topologySpreadConstraints": SPREAD}, 16), ({"affinity": APART}, 18)],
    ids=["plain", "spread", "affinity"],
)
def test_calls_for_each_template(spec, most):
    few, many = first_decision(1000, **spec), first_decision(2000, **spec)
    assert (many - few) / 1000 <= most


def test_a_template_with_a_policy_is_freed_when_it_is_dropped_and_not_at_the_next_collection():
    state = state_of([node(f"n{number}") for number in range(3)])
    rules = 'policy "p"\nfilter f { require node.pod_count < 9 }\nscore s = node.pod_count normalize max on missing 0\n'
    decider = Decider(with_policies(assemble(), [compiled(rules)]))

    def release():
        while decider.release():
            pass

    def bound():
        return sum(isinstance(each, BoundPolicy) for each in gc.get_objects())

    gc.disable()
    try:
        decider.decide(state.snapshot(), view("first"))
        release()
        before = bound()
        for number in range(20):
            decider.decide(state.snapshot(), view(f"p{number}", labels={"index": str(number)}))
            state.add_pod(view(f"r{number}", nodeName="n1"))  # the node is evaluated by itself then
            decider.decide(state.snapshot(), view(f"q{number}", labels={"index": str(number)}))
        assert bound() >= before + 20
        release()
        assert bound() == before
    finally:
        gc.enable()
