"""One decision: filters, scores, weights, tiers, ties."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from tests.unit.framework import fleet, kube
from wharfinger.errors import StaleSnapshot, UnknownObject
from wharfinger.framework import chain
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.evaluation.diagnosis import NO_NODES, reasons_of
from wharfinger.framework.extension import PostFilterOutcome, PostFilterPlugin
from wharfinger.framework.prepared import DefaultNormalize
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects

A, B, C = (fleet.stub(name) for name in "ABC")


def decided(state, *plugins, pod=None, weights=None, **arguments):
    return cycle.decide(fleet.chain_of(*plugins, weights=weights, **arguments), state.snapshot(), pod or fleet.pod())


ABC = ("a", "b", "c")


def test_the_highest_weighted_sum_wins():
    first, second = {"scores": {"a": 10, "b": 20}}, {"scores": {"a": 100, "c": 95}}
    decision = decided(fleet.state(*ABC), A, B, A=first, B=second, weights={"A": 5, "B": 1})
    assert (decision.node, decision.totals, decision.feasible, decision.ties) == ("a", (150.0,), 3, 1)
    assert [(ranked.node, ranked.totals) for ranked in decision.ranking(3)] == [("a", (150.0,)), ("b", (100.0,)), ("c", (95.0,))]
    assert (decision.runner_up.node, decision.margin) == ("b", 50.0)


def test_a_weight_of_zero_leaves_a_score_out():
    decision = decided(fleet.state(*ABC), A, B, A={"scores": {"a": 1}}, B={"scores": {"b": 100}}, weights={"B": 0})
    assert decision.node == "a"
    assert [part.name for part in decision.scores_at("a")] == ["A"]


def test_every_filter_must_let_a_node_through():
    decision = decided(fleet.state(*ABC), A, B, A={"reject": {"a": ("x",)}}, B={"reject": {"c": ("y",)}})
    assert (decision.node, decision.feasible) == ("b", 1)
    assert decision.feasible_nodes() == ("b",)
    assert decision.runner_up is decision.margin is None


def test_scores_of_nodes_that_are_not_feasible_do_not_count():
    plugin = fleet.stub("A", normalization=DefaultNormalize())
    decision = decided(fleet.state(*ABC), plugin, A={"scores": {"a": 500, "b": 10, "c": 5}, "reject": {"a": ("x",)}})
    assert [(part.raw, part.points) for part in decision.scores_at("b")] == [(10, 100)]
    assert [(part.raw, part.points) for part in decision.scores_at("c")] == [(5, 50)]
    assert decision.scores_at("a") == ()


def test_the_total_of_a_row_is_the_sum_of_its_parts():
    answers = {"A": {"scores": {"a": 10, "b": 20}}, "B": {"scores": {"a": 7}, "reject": {"c": ("x",)}}, "C": {"skip": True}}
    state = fleet.state(*ABC)
    decision = decided(state, A, B, C, weights={"A": 5, "B": 1}, **answers)
    rows = {name: state.snapshot().row(name) for name in ABC}
    assert decision.added_at(rows["a"], rows["b"]) == {"A": (1, 50.0, 100.0), "B": (1, 7.0, 0.0)}
    for one, other in itertools.product(ABC, ABC):
        parts = zip(decision.scores_at(one), decision.scores_at(other), strict=False)  # of "c", which is not feasible, there are none
        expected = {part.name: (part.tier, part.weighted, there.weighted) for part, there in parts}
        assert decision.added_at(rows[one], rows[other]) == expected


def test_the_filters_that_ran_are_those_that_are_not_skipped():
    decision = decided(fleet.state(*ABC), A, B, A={"skip": True}, B={"reject": {"c": ("x",)}})
    ran = [plugin.name for plugin in decision.diagnosis.ran]
    assert ran == ["B"] == [found.plugin for found in decision.diagnosis.filters if not found.skipped]


def test_a_plugin_that_skips_neither_filters_nor_scores():
    decision = decided(fleet.state(*ABC), A, A={"skip": True, "reject": dict.fromkeys(ABC, ("x",)), "scores": {"a": 100}})
    assert (decision.feasible, decision.ties) == (3, 3)
    assert decision.scores_at("a") == ()


def test_a_node_set_leaves_only_those_nodes():
    decision = decided(fleet.state(*ABC), A, B, A={"only": ("b", "c", "gone")}, B={"reject": {"b": ("full",)}})
    assert decision.feasible_nodes() == ("c",)


MESSAGES = {
    "reasons are counted once per node, by the first filter that rejects it": (
        {"A": {"reject": {"a": ("one",), "b": ("one", "two")}}, "B": {"reject": {"b": ("three",), "c": ("three",)}}},
        "0/3 nodes are available: 1 three, 1 two, 2 one.",
    ),
    "counts are sorted as text": (
        {"A": {"reject": dict.fromkeys(ABC, ("z", "a"))}},
        "0/3 nodes are available: 3 a, 3 z.",
    ),
    "a refusal of PreFilter stands alone": (
        {"A": {"reject": {"a": ("one",)}}, "B": {"refuse": "no claim"}},
        "0/3 nodes are available: no claim.",
    ),
    "after a resolvable refusal a later one counts": (
        {"A": {"refuse": "first"}, "B": {"refuse": "second"}},
        "0/3 nodes are available: second.",
    ),
    "an unresolvable refusal ends it": (
        {"A": {"refuse": "first", "refuse_for_good": True}, "B": {"refuse": "second", "refuse_for_good": True}},
        "0/3 nodes are available: first.",
    ),
    "nodes outside a node set are counted for it": (
        {"A": {"only": ("a", "b")}, "B": {"reject": dict.fromkeys(ABC, ("full",))}},
        "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [A], 2 full.",
    ),
    "two node sets": (
        {"A": {"only": ("a", "b")}, "B": {"only": ("b", "c")}, "C": {"reject": {"b": ("full",)}}},
        "0/3 nodes are available: 1 full, 2 node(s) didn't satisfy plugin(s) [A B].",
    ),
    "node sets that have nothing in common": (
        {"A": {"only": ("a",)}, "B": {"only": ("b",)}},
        "0/3 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously.",
    ),
    "an empty node set": ({"A": {"only": ()}}, "0/3 nodes are available: node(s) didn't satisfy plugin A."),
    "a node set of nodes that are gone": (
        {"A": {"only": ("x",)}},
        "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [A].",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), MESSAGES.values(), ids=MESSAGES)
def test_the_message_counts_nodes_by_reason_as_kube_scheduler_does(arguments, message):
    decision = decided(fleet.state(*ABC), A, B, C, **arguments)
    assert (decision.node, decision.message) == (None, message)
    assert str(decision) == f"default/web: {message}"
    counts = decision.diagnosis.reasons
    assert reasons_of(message) == reasons_of(f"{message} tried: 3 nodes.") == tuple(sorted(counts, key=lambda text: (-counts[text], text)))
    assert (decision.totals, decision.ranking(3), decision.runner_up) == ((), (), None)


@pytest.mark.parametrize(("message", "reasons"), [("", ()), (NO_NODES, (NO_NODES,))])
def test_a_message_that_counts_no_nodes_is_its_own_reason(message, reasons):
    assert reasons_of(message) == reasons


def test_a_cluster_without_nodes_has_a_message_of_its_own():
    assert decided(fleet.state(), A).message == "no nodes available to schedule pods"


def test_a_placed_pod_has_no_message():
    decision = decided(fleet.state("a"), A)
    assert decision.message == ""
    assert str(decision) == "default/web → a (1 of 1 node feasible)"


class Evictor(PostFilterPlugin):
    name = "Evictor"
    outcome = PostFilterOutcome(message="tried: nothing to evict")

    def post_filter(self, attempt, rejection):
        self.seen = rejection.rejected.tolist(), rejection.unresolvable.tolist()
        return self.outcome


def test_post_filter_runs_when_no_node_is_left():
    chain = fleet.chain_of(A, Evictor, A={"reject": dict.fromkeys(ABC, ("full",)), "unresolvable": ("full",)})
    decision = cycle.decide(chain, fleet.state(*ABC).snapshot(), fleet.pod())
    assert decision.message == "0/3 nodes are available: 3 full. tried: nothing to evict"
    assert chain.plugin("Evictor").seen == ([True] * 3, [True] * 3)


def test_the_first_post_filter_that_nominates_ends_it():
    victim = fleet.pod("victim")
    saver = type("Saver", (Evictor,), {"name": "Saver", "outcome": PostFilterOutcome(nominated="b", victims=(victim,))})
    last = type("Unasked", (Evictor,), {"name": "Unasked", "post_filter": lambda *_: pytest.fail("asked too late")})
    decision = decided(fleet.state(*ABC), A, Evictor, last, saver, A={"refuse": "full"})
    assert (decision.node, decision.nominated, decision.victims) == (None, "b", (victim,))


def test_the_same_question_has_the_same_answer():
    state = fleet.state(*(f"node-{number}" for number in range(50)))
    chain = fleet.chain_of(A)
    answers = {cycle.decide(chain, state.snapshot(), fleet.pod(str(number))).node for number in range(30)}
    again = {cycle.decide(chain, state.snapshot(), fleet.pod(str(number))).node for number in range(30)}
    assert answers == again
    assert len(answers) > 10  # a tie, broken per pod


def test_details_of_a_decision_live_until_it_is_brought_up_to_date():
    state = fleet.state(*ABC)
    decider = cycle.Decider(fleet.chain_of(A, A={"scores": {"a": 5}}))
    first = decider.decide(state.snapshot(), fleet.pod("one"))
    assert first.totals == (5.0,)
    state.assume(fleet.pod("one"), "a")
    decider.decide(state.snapshot(), fleet.pod("two"))
    with pytest.raises(StaleSnapshot, match="decision about default/one was made at revision 3"):
        _ = first.totals
    assert (first.node, first.feasible, first.n_nodes) == ("a", 3, 3)


def test_the_details_of_a_pure_decision_stay_readable_after_others():
    state = fleet.state(*ABC)
    snapshot = state.snapshot()
    chain = fleet.chain_of(A, A={"scores": {"a": 5}})
    first = cycle.decide(chain, snapshot, fleet.pod("one"))
    cycle.decide(chain, snapshot, fleet.pod("two"))
    assert first.margin == 5.0


def test_an_unknown_node_is_named():
    with pytest.raises(UnknownObject, match="no node x"):
        decided(fleet.state("a"), A).scores_at("x")


def test_a_decider_forgets_what_was_not_asked_for_lately():
    state = fleet.state(*ABC)
    decider = cycle.Decider(fleet.chain_of(A), max_cells=(3 + cycle.CELLS_OF_A_RULE) * 2 * 2)
    for cpu in ("1m", "2m", "3m", "4m"):
        decider.decide(state.snapshot(), fleet.pod(cpu=cpu))
    assert len(decider._kept) == 2


def test_a_plugin_may_depend_on_more_than_the_template():
    class Named(A):
        name = "Named"

        def identity(self, pod):
            return pod.name

        def prepare_filter(self, attempt):
            return fleet.Told(lambda snapshot, rows: np.array([attempt.pod.name != name for name in snapshot.names])[rows])

    decider = cycle.Decider(fleet.chain_of(Named))
    snapshot = fleet.state(*ABC).snapshot()
    assert [decider.decide(snapshot, fleet.pod(name)).node for name in "cab"] == ["c", "a", "b"]


def alone(number):
    """A pod with its own template, as of every Job."""
    return fleet.pod(f"job-{number}", labels={"job": f"{number}"})


def test_an_unused_template_is_dropped_when_another_comes():
    state, decider = fleet.state("a"), cycle.Decider(fleet.chain_of(fleet.stub("Idle")))
    for number in range(20):
        decider.decide(state.snapshot(1_000.0 + number), alone(number))
    assert len(decider._kept) == 20

    decider.decide(state.snapshot(1_000.0 + 9.5 + cycle.IDLE_SECONDS), alone(20))

    assert len(decider._kept) == 11  # 10 to 19, and the new one


def test_no_more_templates_are_remembered_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(cycle, "MAX_TEMPLATES", 5)
    state, decider = fleet.state("a"), cycle.Decider(fleet.chain_of(fleet.stub("Full")))
    for number in range(20):
        decider.decide(state.snapshot(1_000.0), alone(number))

    assert len(decider._kept) == 5


def test_on_few_nodes_the_rules_themselves_take_the_room():
    score = 'score s{0} = if pod.name == "{0}" then node.pod_count else {0} normalize minmax\n'
    rules = "".join(score.format(number) for number in range(40))
    chained = chain.assemble([fleet.policy(f'policy "names"\n{rules}')])
    state, decider = fleet.state("a"), cycle.Decider(chained, max_cells=100_000)
    for number in range(100):
        decider.decide(state.snapshot(1_000.0), alone(number))
    assert len(decider._kept) * 40 * 2_000 < 2_500_000  # a kept rule takes about 2 kB


def test_idle_templates_are_dropped_a_few_at_a_time():
    most, state, decider = cycle.DROPPED_AT_ONCE, fleet.state("a"), cycle.Decider(fleet.chain_of(fleet.stub("Idle")))
    for number in range(2 * most):
        decider.decide(state.snapshot(1_000.0), alone(number))
    kept = []
    for number in range(3):
        decider.decide(state.snapshot(1_001.0 + cycle.IDLE_SECONDS), alone(f"later-{number}"))
        kept.append(len(decider._kept))
    assert kept == [most + 1, 2, 3]


def test_templates_with_many_rules_leave_others_their_room():
    many = "".join(f'filter f{number} {{ require node.pod_count < {9 + number} else "full" }}\n' for number in range(50))
    chained = chain.assemble([fleet.policy(f'policy "many" for pods where pod.labels["many"] == "yes"\n{many}')])
    state = fleet.state(*ABC)
    usual = chained.pod_rules(fleet.pod(), state.snapshot()).n_rules
    decider = cycle.Decider(chained, max_cells=(3 + cycle.CELLS_OF_A_RULE) * 10 * usual)
    for number in range(10):
        decider.decide(state.snapshot(), alone(number))
    assert len(decider._kept) == 10
    decider.decide(state.snapshot(), fleet.pod("many", labels={"many": "yes"}))
    assert usual + 50 <= decider._n_rules <= 10 * usual
    assert decider._n_rules == sum(evaluation.pod_rules.n_rules for evaluation in decider._kept.values())


@pytest.mark.parametrize(
    ("rules", "labels", "remembered"),
    [
        ('for pods where pod.labels["app"] == "db"\nfilter f { require pod.name != "x" else "no" }', {"app": "db"}, 4),
        ('for pods where pod.labels["app"] == "db"\nfilter f { require pod.name != "x" else "no" }', {"app": "web"}, 1),
        ('for pods where pod.name == "pod-1"\nfilter f { require node.pod_count < 9 else "no" }', {}, 2),
        ('for pods where pod.name == "pod-1"\nfilter f { require node.pod_count < 9 else "no {pod.name}" }', {}, 2),
        ('filter f { require node.pod_count < 9 else "no {pod.name}" }', {}, 4),
        ('filter f { require count(pods where it.name == "x", on: node) < 9 else "no" }', {}, 1),
    ],
)
def test_only_pods_that_a_policy_distinguishes_are_decided_one_by_one(rules, labels, remembered):
    decider = cycle.Decider(chain.assemble([fleet.policy(f'policy "p"\n{rules}')]))
    state = fleet.state("a", "b")
    for number in range(4):
        decider.decide(state.snapshot(), fleet.pod(f"pod-{number}", labels=labels))
    assert len(decider._kept) == remembered


class Ignoring(DefaultNormalize):
    """Raw scores below `least` get no points."""

    def points(self, scores, low, high):
        return np.clip(100 * (scores - int(low)) // max(int(high) - int(low), 1), 0, 100)


def test_a_node_that_is_ignored_no_longer_holds_an_end_of_the_raw_scores():
    by_pods = {"a": (0, -1), "b": (0, 2), "c": (5, 5), "d": (2, 3)}  # the raw score with no pod and with one

    def raw(snapshot, rows):
        return np.array([by_pods[name][count] for name, count in zip(snapshot.names, snapshot.pod_count, strict=True)])[rows]

    plugin = fleet.stub(
        "Counted", prepare_score=lambda *_: fleet.Points(raw), score_volatility=Volatility.ROW, normalization=Ignoring(least=0)
    )
    chain, state = fleet.chain_of(plugin), fleet.state(*by_pods)
    decider = cycle.Decider(chain)
    for placed in ("d", "a", "b"):
        decider.decide(state.snapshot(), fleet.pod("asker"))
        state.assume(fleet.pod(f"on-{placed}"), placed)
    kept, fresh = decider.decide(state.snapshot(), fleet.pod("asker")), cycle.decide(chain, state.snapshot(), fleet.pod("asker"))
    assert kept.ranking(4) == fresh.ranking(4)


def test_nodes_that_were_alike_and_differ_now_have_points_by_those_that_are_feasible():
    def tainted(name, n_soft):
        taints = [{"key": f"soft-{number}", "effect": "PreferNoSchedule"} for number in range(n_soft)]
        return msgspec.convert(kube.node(name, taints=taints), objects.Node)

    chained, state = chain.assemble(), fleet.state()
    for name in ABC:
        state.add_node(tainted(name, 0))
    decider = cycle.Decider(chained)
    decider.decide(state.snapshot(), fleet.pod())
    for name, n_soft in (("a", 1), ("b", 2)):
        state.add_node(tainted(name, n_soft))
        decider.decide(state.snapshot(), fleet.pod())
    state.assume(fleet.pod("large", cpu="4"), "b")
    kept, fresh = decider.decide(state.snapshot(), fleet.pod()), cycle.decide(chained, state.snapshot(), fleet.pod())
    assert kept.scores_at("a") == fresh.scores_at("a")
    assert [part.points for part in kept.scores_at("a") if part.name == "TaintToleration"] == [0]
