"""Policies in the chain: the effect of their rules in addition to Kubernetes."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.unit.framework import fleet
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework import chain, registry
from wharfinger.framework.evaluation import cycle
from wharfinger.model.objects.pod_view import PodView

EAST_WEST = [fleet.node("east", labels={"side": "east", "rank": "1"}), fleet.node("west", labels={"side": "west"}), fleet.node("mid")]


def policy(body, name="p", scope="", **params):
    return fleet.policy(f'policy "{name}"\n{f"for pods where {scope}" if scope else ""}\n{body}', **params)


def decided(*policies, state=None, pod=None, plugins=()):
    assembled = chain.assemble(policies) if plugins is None else fleet.chain_of(*plugins, policies=policies)
    return cycle.decide(assembled, (state or fleet.state(*EAST_WEST)).snapshot(), pod or fleet.pod())


@pytest.mark.parametrize("name", [*registry.default_registry(), "", "changed rows", "with nominated pods"])
def test_a_policy_may_be_called_like_anything(name):
    """Whatever it is called it decides as under any other name, and so do the other plugins; kept results included."""
    rules = """
    filter f { require node.labels["side"] == "east" or count(pods, within: "side") > 1 else "no" on missing reject }
    score s weight 5 = -node.pod_count normalize minmax
    """
    namesake = chain.assemble([policy(rules, name or "p")])
    other = chain.assemble([policy(rules, "q")])
    decider = cycle.Decider(namesake)
    state = fleet.state(*EAST_WEST)
    for number in range(4):
        pod = fleet.pod(f"web-{number}")
        expected = cycle.decide(other, state.snapshot(), pod)
        assert decider.decide(state.snapshot(), pod).node == expected.node
        assert cycle.decide(namesake, state.snapshot(), pod).totals == expected.totals
        state.assume(pod, expected.node)


# ── filters ──


def test_a_filter_rejects_in_its_own_words():
    decision = decided(policy('filter side { require (node.labels["side"] ?? "") == "east" else "not in the {pod.namespace} east" }'))
    assert (decision.node, decision.feasible) == ("east", 1)
    assert decision.rejections_at("west") == ("p/side: not in the default east",)


def test_policies_add_their_filters():
    east = policy('filter f { reject node.labels["side"] == "east" else "no east" on missing pass }', "a")
    west = policy('filter f { reject node.labels["side"] == "west" else "no west" on missing pass }', "b")
    for policies in itertools.permutations([east, west]):
        assert decided(*policies).node == "mid"
        assert decided(*policies, state=fleet.state(*EAST_WEST[:2])).message == "0/2 nodes are available: 1 no east, 1 no west."


def test_a_missing_value_that_rejects_says_what_is_missing():
    decision = decided(policy('filter f { require node.labels["side"] == "east" else "no" on missing reject }'), state=fleet.state("bare"))
    assert "side" in decision.message
    assert decision.message != "0/1 nodes are available: 1 no."


def test_only_rejections_by_rules_over_node_objects_are_unresolvable():
    crowd = 'filter crowd { require node.pod_count < 1 else "crowded" }'
    side = 'filter side { reject node.labels["side"] == "west" else "west" on missing pass }'
    state = fleet.state(*EAST_WEST, pods=[fleet.pod("first", node_name="east"), fleet.pod("second", node_name="mid")])
    unresolvable = decided(policy(crowd + side), state=state).diagnosis.unresolvable
    assert {state.snapshot().names[row] for row in unresolvable.nonzero()[0]} == {"west"}


def test_a_pod_that_is_not_governed_meets_kubernetes_alone():
    strict = policy('filter f { reject node.pod_count >= 0 else "never" }', scope='pod.labels["app"] == "web"')
    assert decided(strict, pod=fleet.pod(labels={"app": "db"})).feasible == 3
    governed = decided(strict, pod=fleet.pod(labels={"app": "web"}))
    assert (governed.node, governed.policies) == (None, ("p",))


def test_hard_constraints_of_kubernetes_come_first():
    decision = decided(policy('filter f { reject node.pod_count >= 0 else "never" }'), plugins=None, pod=fleet.pod(cpu="100"))
    assert decision.message.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert decision.rejections_at("mid") == ("NodeResourcesFit: Insufficient cpu", "p/f: never")


# ── scores ──

SCORES = {
    "weight times points": (
        'score s weight 3 = if node.labels["side"] == "west" then 40 else 0 on missing 10',
        {"east": 0, "west": 120, "mid": 30},
    ),
    "prefer": ('prefer s weight 2 = has(node.labels["side"])', {"east": 200, "west": 200, "mid": 0}),
    "skip leaves the sum alone": (
        'score s = if node.labels["side"] == "west" then 40 else 70 on missing skip',
        {"east": 70, "west": 40, "mid": 0},
    ),
    "neutral is the mean": (
        'score s = if node.labels["side"] == "west" then 40 else 70 on missing neutral',
        {"east": 70, "west": 40, "mid": 55},
    ),
    "neutral without any value": (
        'score s = if node.labels["no"] == "x" then 40 else 70 on missing neutral',
        {"east": 50, "west": 50, "mid": 50},
    ),
    "minmax": ("score s = node.pod_count normalize minmax", {"east": 50, "west": 50, "mid": 50}),
    "a guard": ('score s when has(node.labels["rank"]) = 30', {"east": 30, "west": 0, "mid": 0}),
    "max": ('score s = (if has(node.labels["rank"]) then 8 else 2) normalize max', {"east": 100, "west": 25, "mid": 25}),
}


@pytest.mark.parametrize(("text", "expected"), SCORES.values(), ids=SCORES)
def test_the_points_of_a_score(text, expected):
    decision = decided(policy(text))
    assert {ranked.node: ranked.totals[0] for ranked in decision.ranking(9)} == pytest.approx(expected)


def test_only_feasible_nodes_are_normalised_over():
    text = 'filter f { reject node.labels["side"] == "east" else "no" on missing pass }\nscore s = node.pod_count normalize minmax'
    pods = [fleet.pod(f"e{n}", node_name="east") for n in range(9)] + [fleet.pod("w", node_name="west")]
    decision = decided(policy(text), state=fleet.state(*EAST_WEST, pods=pods))
    assert {ranked.node: ranked.totals[0] for ranked in decision.ranking(9)} == {"west": 100, "mid": 0}


def test_policies_add_their_scores_in_any_order():
    first = policy('score s weight 0.1 = if has(node.labels["rank"]) then 33 else 7', "a")
    second = policy('score s weight 0.7 = if has(node.labels["side"]) then 1 else 99', "b")
    totals = {decided(*policies).totals for policies in itertools.permutations([first, second])}
    assert len(totals) == 1


def test_a_later_tier_decides_between_equals_only():
    text = """
      score first = if has(node.labels["side"]) then 50 else 40
      score second tier 2 = if has(node.labels["side"]) then (if has(node.labels["rank"]) then 1 else 2) else 100
    """
    decision = decided(policy(text))
    assert (decision.node, decision.tiers, decision.totals, decision.ties) == ("west", (1, 2), (50.0, 2.0), 1)
    assert [ranked.node for ranked in decision.ranking(9)] == ["west", "east", "mid"]


def test_totals_closer_than_the_quantum_are_equal():
    text = "quantum 10\n" + 'score s = if has(node.labels["rank"]) then 52 else 49\ntie_break node.pod_count desc'
    state = fleet.state(*EAST_WEST, pods=[fleet.pod("x", node_name="mid")])
    assert decided(policy(text), state=state).node == "mid"
    assert decided(policy(text.replace("quantum 10", "quantum 1")), state=state).node == "east"


def test_tie_breaks_are_followed_in_turn():
    text = "tie_break node.pod_count asc, node.requested.cpu desc"
    pods = [fleet.pod("a", node_name="east", cpu="1"), fleet.pod("b", node_name="west", cpu="2")]
    decision = decided(policy(text), state=fleet.state(*EAST_WEST, pods=[*pods, *(fleet.pod(f"m{n}", node_name="mid") for n in range(3))]))
    assert (decision.node, decision.ties) == ("west", 1)


def test_a_missing_tie_key_comes_last_either_way():
    for direction in ("asc", "desc"):
        text = f'tie_break (if node.labels["rank"] == "1" then 5 else 5) {direction}'
        assert decided(policy(text)).node == "east"


# ── base scores ──


def test_a_policy_reweighs_base_scores_for_its_pods():
    shift = policy("base kubernetes { NodeResourcesFit weight 7\n ImageLocality weight 0 }", scope='has(pod.labels["app"])')
    ours = decided(shift, plugins=None, pod=fleet.pod(labels={"app": "x"}))
    others = decided(shift, plugins=None)
    weights = [{part.name: part.weight for part in decision.scores_at("mid")} for decision in (ours, others)]
    assert (weights[0]["NodeResourcesFit"], weights[1]["NodeResourcesFit"]) == (7, 1)
    assert "ImageLocality" not in weights[0]
    assert "ImageLocality" in weights[1]


def test_a_policy_gives_base_scores_other_arguments_but_never_filters():
    packing = policy('base kubernetes { NodeResourcesFit weight 1 with { strategy: "MostAllocated" } }')
    state = fleet.state("full", "empty", pods=[fleet.pod("big", cpu="3", memory="12Gi", node_name="full")])
    raw = {
        name: {part.name: part.raw for part in decided(*policies, plugins=None, state=state).scores_at("full")}["NodeResourcesFit"]
        for name, policies in {"packing": [packing], "plain": []}.items()
    }
    assert raw["packing"] > 70
    assert raw["plain"] < 30
    assert decided(packing, plugins=None, state=state, pod=fleet.pod(cpu="5")).node is None


CONTRADICTIONS = {
    "weights": ("base kubernetes { ImageLocality weight 2 }", "base kubernetes { ImageLocality weight 3 }", "different weight"),
    "arguments": (
        'base kubernetes { NodeResourcesFit weight 1 with { strategy: "MostAllocated" } }',
        'base kubernetes { NodeResourcesFit weight 1 with { strategy: "LeastAllocated" } }',
        "different arguments",
    ),
}


@pytest.mark.parametrize(("first", "second", "message"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_policies_that_surely_contradict_each_other_are_refused(first, second, message):
    with pytest.raises(UsageError, match=f'policies "a" and "b" give .* {message}; both govern the same pods'):
        chain.assemble([policy(second, "b"), policy(first, "a")])


def test_policies_that_happen_to_contradict_each_other_are_distinguished_by_name():
    first = policy("base kubernetes { ImageLocality weight 2 }", "a", scope='has(pod.labels["x"])')
    second = policy("base kubernetes { ImageLocality weight 3 }", "b", scope='has(pod.labels["y"])')
    assembled = chain.assemble([second, first])
    decision = cycle.decide(assembled, fleet.state("n").snapshot(), fleet.pod(labels={"x": "", "y": ""}))
    assert {part.name: part.weight for part in decision.scores_at("n")}["ImageLocality"] == 2
    assert decision.notes == ('policies "a" and "b" give ImageLocality different weight',)
    assert cycle.decide(assembled, fleet.state("n").snapshot(), fleet.pod(labels={"y": ""})).notes == ()


def test_policies_that_set_the_same_weight_cause_no_note():
    same = "base kubernetes { ImageLocality weight 2 }"
    assert chain.assemble([policy(same, "a"), policy(same, "b")]).pod_rules(fleet.pod(), fleet.state().snapshot()).notes == ()


def test_two_policies_of_one_name_are_refused():
    with pytest.raises(UsageError, match='two policies are called "p"'):
        chain.assemble([policy("score s = 1"), policy("score s = 2")])


def test_an_override_of_a_plugin_that_this_chain_does_not_have():
    with pytest.raises(UnknownObject, match="no plugin ImageLocality"):
        fleet.chain_of(fleet.Stub, policies=[policy("base kubernetes { ImageLocality weight 2 }")])


# ── the chain ──


def test_the_revision_of_a_chain_changes_with_the_meaning_of_its_policies_only():
    one, same, other = policy("score s = 1"), policy("# hello\nscore s =   1"), policy("score s = 2")
    assert chain.assemble([one]).policy_revision == chain.assemble([same]).policy_revision
    assert chain.assemble([one]).policy_revision != chain.assemble([other]).policy_revision
    assert len({chain.assemble(policies).revision for policies in ([], [one], [other])}) == 3


def test_rules_are_in_the_table():
    printed = str(
        fleet.chain_of(fleet.Stub, policies=[policy('filter f { require node.pod_count < 3 else "x" }\nscore s tier 2 weight 2.5 = 3')])
    )
    assert printed.splitlines()[-2:] == ["p/f     Filter", "p/s     Score         2.5     tier=2"]


def test_pods_of_one_template_are_distinguished_where_a_policy_reads_their_names():
    named = policy('filter f { require pod.name == "web-0" else "{pod.name} is not web-0" }')
    decider = cycle.Decider(fleet.chain_of(fleet.Stub, policies=[named]))
    snapshot = fleet.state("n").snapshot()
    assert decider.decide(snapshot, fleet.pod("web-0")).node == "n"
    assert decider.decide(snapshot, fleet.pod("web-1")).message == "0/1 nodes are available: 1 web-1 is not web-0."


# ── what a decision reports ──


def test_a_decision_shows_its_filters_and_its_best_nodes():
    text = """
      filter f { reject node.labels["side"] == "east" else "no" on missing pass }
      score s weight 2 = if has(node.labels["side"]) then 9 else 4
    """
    decision = decided(policy(text))
    assert (decision.pod.key, decision.node, decision.n_nodes, decision.feasible, decision.margin) == ("default/web", "west", 3, 2, 10)
    assert [(each.plugin, each.alone, each.left, each.reasons) for each in decision.diagnosis.filters] == [("p/f", 1, 2, {"no": 1})]
    best = [(each.node, list(each.totals)) for each in decision.ranking(5)]
    assert best == [("west", [18.0]), ("mid", [8.0])]
    assert [[(part.name, part.points) for part in decision.scores_at(node)] for node, _ in best] == [[("p/s", 9.0)], [("p/s", 4.0)]]


@pytest.mark.parametrize("within", ["", ', within: "zone"'])
def test_the_age_of_what_is_counted_over_many_nodes_passes_with_the_time(within):
    """The cluster does not change between the two questions."""
    first = fleet.pod("first", node_name="a").object
    first = replace(first, metadata=replace(first.metadata, creation_timestamp=datetime.fromtimestamp(1_000, UTC)))
    cluster = fleet.state(fleet.node("a", labels={"zone": "z"}), fleet.node("b", labels={"zone": "z"}), pods=[PodView(first)])
    settled = f"age(max(pods, it.created{within}))"
    rules = (
        f'filter calm {{ require {settled} > 10s else "too early" on missing pass }}\nscore late = curve({settled}, 0s -> 0, 100s -> 100)'
    )
    decider = cycle.Decider(fleet.chain_of(policies=[policy(f"{rules} on missing neutral")]))
    for now, feasible, points in ((1_005.0, 0, None), (1_020.0, 2, 20.0), (1_050.0, 2, 50.0)):
        decision = decider.decide(cluster.snapshot(now), fleet.pod())
        assert decision.feasible == feasible
        assert points is None or decision.scores_at("a")[0].points == points
