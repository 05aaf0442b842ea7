"""The first decision does little work for each placed pod, also if each has a template of its own."""

import pytest

from tests.unit.model.clusters import node
from tests.unit.model.clusters import state as state_of
from tests.unit.scheduler.running import view
from tests.work import calls
from wharfinger.framework.chain import assemble
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
