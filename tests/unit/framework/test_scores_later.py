"""Scores that are brought up to date later than the filters are those of a new decision."""

import random

import pytest

from tests.unit.scheduler.running import node, view
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.model.state.cluster_state import ClusterState

ZONE = "topology.kubernetes.io/zone"
N_ZONES, N_NODES = 4, 20


def spread(when):
    return {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": {"matchLabels": {"app": "web"}}}


def points(decision):
    return decision.node, decision.totals, {name: decision.scores_at(name) for name in decision.feasible_nodes()}


@pytest.mark.parametrize("constraints", [["ScheduleAnyway"], ["DoNotSchedule"], ["ScheduleAnyway", "DoNotSchedule"]], ids=" ".join)
@pytest.mark.parametrize("seed", range(3))
def test_scores_after_questions_about_filters_alone(seed, constraints):
    """Zones become full and free again, so that the zones with feasible nodes change between two scorings."""
    chance, state, chain, there = random.Random(seed), ClusterState(), assemble(), {}
    for number in range(N_NODES):
        state.add_node(node(f"n{number}", "2", labels=[(ZONE, f"z{number % N_ZONES}")]))
    asker = view("asker", "1", labels={"app": "web"}, topologySpreadConstraints=[spread(when) for when in constraints])
    decider = Decider(chain)
    for turn in range(200):
        for number in chance.choice([[chance.randrange(N_NODES)], range(chance.randrange(N_ZONES), N_NODES, N_ZONES)]):
            if number in there:
                state.remove_pod(there.pop(number))
            else:
                there[number] = view(f"full-{turn}-{number}", "2", labels={"app": chance.choice(["web", "db"])}).placed_on(f"n{number}")
                state.add_pod(there[number])
        snapshot = state.snapshot()
        if chance.random() < 0.6:
            assert decider.filtering(snapshot, asker).count == Decider(chain).filtering(snapshot, asker).count
        else:
            assert points(decider.decide(snapshot, asker)) == points(decide(chain, snapshot, asker))
