"""Costly rules of policies are computed in steps before a decision, by parts of their expressions."""

import pytest

from tests.unit.framework import fleet
from tests.work import calls
from wharfinger.compiler import bound, cost, schedule
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.model.state.cluster_state import ClusterState

NODES = 40
TERMS = " + ".join(
    "(" + " + ".join(f"sqrt(node.pod_count + {first + number})" for number in range(50)) + ")" for first in range(0, 400, 50)
)
OF_ROWS = f'policy "rows"\nfilter roomy {{ require {TERMS} < 9000 else "no" }}\nscore quiet = log({TERMS}) normalize minmax'
TIMED = f'policy "timed"\nscore aged = ({TERMS}) * (age(node.created) / 1s) normalize minmax on missing 0'
OF_ZONES = (
    f'policy "zones"\nscore apart = ({TERMS}) * (count(pods where it.labels["app"] == pod.labels["app"], within: "{fleet.ZONE}") ?? 0)'
)
OF_ZONES += " normalize minmax"
POINTS = "node_affinity_points() + topology_spread_points()"
OF_POINTS = f'policy "points{{}}"\nscore s = log({TERMS} + {POINTS}) normalize minmax'
OF_TIES = f'policy "ties{{}}"\ntie_break ({TERMS}) * 0 asc'
OF_MANY = 'policy "many{}"\n' + "\n".join(f'filter f{n} {{{{ require node.free.cpu > {n}m else "no" }}}}' for n in range(20))
USUAL = 'policy "usual"\nscore packed = node.pod_count normalize minmax'


@pytest.fixture(autouse=True)
def _few_nodes_are_many(monkeypatch):
    monkeypatch.setattr(cycle, "OPERATIONS_AT_ONCE", 30_000)
    monkeypatch.setattr("wharfinger.framework.evaluation.kept_result.OPERATIONS_AT_ONCE", 30_000)
    monkeypatch.setattr(bound, "OPERATIONS_PER_STEP", NODES * 200)


def accepted(text):
    """A compiled policy, of which the cost is known, as it is once a policy was accepted."""
    return cost.affordable(fleet.policy(text))


def cluster() -> ClusterState:
    return fleet.state(*(fleet.node(f"n{number}") for number in range(NODES)))


def works(decider, there, pod, now=1.0, change=lambda: None):
    """The work of each step before a decision, and of the decision; `change` is called between them."""
    steps = decider.precompute(lambda: there.snapshot(now), pod)
    found = []
    while True:
        ended = object()
        last = []
        found.append(calls(lambda last=last, ended=ended: last.append(next(steps, ended))))
        if last == [ended]:
            break
        change()
    decided = []
    found.append(calls(lambda: decided.append(decider.decide(there.snapshot(now), pod))))
    return found, decided[0]


def is_same(decision, decider, there, pod, now=1.0):
    again = decide(decider.chain, there.snapshot(now), pod)
    return (decision.node, decision.totals, decision.feasible) == (again.node, again.totals, again.feasible)


def test_no_step_computes_more_than_a_part():
    there, pod, decider = cluster(), fleet.pod(), Decider(assemble([accepted(OF_ROWS), accepted(TIMED)]))
    found, decision = works(decider, there, pod)
    assert len(found) > 10
    assert max(found) < sum(found) / 4
    assert is_same(decision, decider, there, pod)


def test_rules_of_node_objects_alone_have_their_kept_columns():
    texts = [OF_ROWS, 'policy "kept"\nfilter large { require node.allocatable.cpu > 1cpu else "small" }']
    there, pod, decider = cluster(), fleet.pod(), Decider(assemble(list(map(accepted, texts))))
    _, decision = works(decider, there, pod)
    assert is_same(decision, decider, there, pod)


def test_usual_rules_take_no_steps():
    there, pod, decider = cluster(), fleet.pod(), Decider(assemble([accepted(USUAL)]))
    found, _ = works(decider, there, pod)
    assert len(found) == 2  # the end of the steps, and the decision


def test_after_a_placement_one_node_is_computed():
    there, pod, decider = cluster(), fleet.pod(), Decider(assemble([accepted(OF_ROWS)]))
    _, decision = works(decider, there, pod)
    there.assume(pod, decision.node)
    found, decision = works(decider, there, fleet.pod("next"))
    assert len(found) == 2
    assert is_same(decision, decider, there, fleet.pod("next"))


def test_a_second_computes_the_rules_that_read_the_time():
    there, pod, decider = cluster(), fleet.pod(), Decider(assemble([accepted(OF_ROWS), accepted(TIMED)]))
    first, _ = works(decider, there, pod)
    found, decision = works(decider, there, pod, now=2.0)
    assert 5 < len(found) < len(first)
    assert max(found) < sum(first) / 4
    assert is_same(decision, decider, there, pod, now=2.0)


def test_a_node_that_comes_has_all_computed_in_steps_again():
    there, pod, decider = cluster(), fleet.pod(), Decider(assemble([accepted(OF_ROWS)]))
    first, _ = works(decider, there, pod)
    there.add_node(fleet.node("new"))
    found, decision = works(decider, there, pod)
    assert max(found) < sum(first) / 4
    assert is_same(decision, decider, there, pod)


def test_a_pod_that_is_placed_has_rules_computed_in_steps_that_count_pods_of_zones():
    zones = [fleet.node(f"n{number}", labels={fleet.ZONE: f"z{number % 3}"}) for number in range(NODES)]
    there, pod, decider = fleet.state(*zones), fleet.pod(labels={"app": "web"}), Decider(assemble([accepted(OF_ZONES)]))
    first, _ = works(decider, there, pod)
    for number in range(3):
        there.assume(fleet.pod(f"other{number}", labels={"app": "web"}), f"n{number}")
        found, decision = works(decider, there, pod)
        assert 5 < len(found) <= len(first)
        assert max(found) < sum(first) / 4
        assert is_same(decision, decider, there, pod)
    found, _ = works(decider, there, pod)
    assert len(found) == 2


@pytest.mark.parametrize("comes", ["a template", "a node"])
def test_changes_between_steps_lose_no_work(comes, monkeypatch):
    monkeypatch.setattr("wharfinger.compiler.program.ROWS_PER_STEP", 4)
    there, pod, placed = cluster(), fleet.pod(labels={"app": "web"}), []
    reading = OF_ROWS.replace("node.pod_count", "node.allocatable.cpu / 1m").replace('"rows"', '"reading"')
    decider = Decider(assemble([accepted(text) for text in (reading, OF_ROWS, TIMED)]))
    if comes == "a node":
        works(decider, there, pod)
        there.add_node(fleet.node("new"))

    def place():
        if len(placed) < NODES // 10:
            placed.append(None)
            there.assume(fleet.pod(f"other{len(placed)}"), f"n{len(placed)}")

    found, decision = works(decider, there, pod, change=place)
    assert len(placed) == NODES // 10
    assert found[-1] < sum(found) / 4
    assert is_same(decision, decider, there, pod)


def test_many_changed_nodes_are_computed_in_steps():
    there, pod, decider = cluster(), fleet.pod(), Decider(assemble([accepted(OF_ROWS)]))
    first, _ = works(decider, there, pod)
    for number in range(NODES // 2):
        there.assume(fleet.pod(f"other{number}"), f"n{number}")
    found, decision = works(decider, there, pod)
    assert max(found) < sum(first) / 4
    assert is_same(decision, decider, there, pod)


def test_columns_that_are_long_to_compute_are_computed_in_one_step_each(monkeypatch):
    monkeypatch.setattr("wharfinger.compiler.program.ROWS_PER_STEP", 4)
    there, pod = cluster(), fleet.pod()
    decider = Decider(assemble([accepted(OF_ROWS.replace("node.pod_count", "node.allocatable.cpu / 1m"))]))
    found, decision = works(decider, there, pod)
    assert max(found) < sum(found) / 8
    assert is_same(decision, decider, there, pod)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([], []), ([3, 3, 3], [(0, 2), (2, 3)]), ([9, 1, 1], [(0, 1), (1, 3)]), ([1, 9], [(0, 1), (1, 2)]), ([6], [(0, 1)])],
)
def test_parts_weigh_as_much_as_allowed_or_are_one_step(weights, expected):
    assert [(part.start, part.stop) for part in schedule.parts(weights, 6)] == expected


@pytest.mark.parametrize(
    "text", [OF_POINTS, OF_TIES, OF_MANY, OF_ROWS.replace('"rows"', '"rows{}"')], ids=["points", "ties", "many", "rows"]
)
def test_what_several_policies_take_together_is_no_step(text, monkeypatch):
    for module in ("rules.work", "evaluation.kept_result"):
        monkeypatch.setattr(f"wharfinger.framework.{module}.MAX_AT_ONCE", 30_000)
    monkeypatch.setattr(cycle, "OPERATIONS_AT_ONCE", 10_000)
    monkeypatch.setattr("wharfinger.framework.rules.work.IN_PORTION", 10_000)
    there, pod = cluster(), fleet.pod()
    decider = Decider(assemble([accepted(text.replace("{}", str(number)).replace("{{", "{").replace("}}", "}")) for number in range(5)]))
    for number in range(3):
        found, decision = works(decider, there, pod)
        assert max(found) < sum(found) / 4
        assert is_same(decision, decider, there, pod)
        if number == 0:
            there.assume(fleet.pod("other"), "n1")
        else:
            there.add_node(fleet.node(f"new{number}"))


def test_many_rules_are_prepared_in_steps_also_on_few_nodes():
    there, pod = fleet.state(fleet.node("a"), fleet.node("b")), fleet.pod()
    text = OF_MANY.replace("{{", "{").replace("}}", "}")
    decider = Decider(assemble([accepted(text.replace("many{}", f"many{number}")) for number in range(16)]))
    found, decision = works(decider, there, pod)
    assert max(found) < sum(found) / 3
    assert is_same(decision, decider, there, pod)
