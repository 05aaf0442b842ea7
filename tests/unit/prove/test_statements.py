"""Statements about the shipped policies: what is proved, and what is refuted by a test that fails."""

import itertools

import pytest

from tests.unit.prove.policies import BEYOND, MODELLED, compiled, fails, shipped
from tests.work import calls
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.language.semantics import typed
from wharfinger.prove import encoder, question, statements
from wharfinger.prove.editable_policy import EditablePolicy
from wharfinger.prove.question import Verdict

SPOT = "spot"


@pytest.mark.parametrize("name", MODELLED)
def test_a_policy_decides_as_itself(name):
    assert statements.same_as(shipped(name), shipped(name)).verdict is Verdict.PROVED


@pytest.mark.parametrize("name", sorted(BEYOND))
def test_nothing_is_refuted_of_what_is_beyond_the_model(name):
    assert statements.same_as(shipped(name), shipped(name)).verdict is not Verdict.REFUTED


def test_spot_never_beats_on_demand_for_important_pods():
    answer = statements.never_above(shipped("critical-off-spot"), "spot", "not spot", "pod.priority >= 1000")
    assert answer.verdict is Verdict.PROVED


def test_the_statement_is_refuted_for_other_pods_by_a_test():
    policy = shipped("critical-off-spot")
    answer = statements.never_above(policy, "spot", "not spot", "pod.priority >= 100")
    assert answer.verdict is Verdict.REFUTED
    assert fails(policy, answer)


@pytest.mark.parametrize(
    ("name", "filter_", "condition", "verdict"),
    [
        ("team-pools", "own_nodes", 'not has(node.labels["team"])', Verdict.PROVED),
        ("team-pools", "own_nodes", 'node.labels["team"] == "search"', Verdict.REFUTED),
        ("critical-off-spot", "no_spot", "not spot", Verdict.PROVED),
        ("critical-off-spot", None, 'node.labels["eks.amazonaws.com/capacityType"] == "SPOT"', Verdict.REFUTED),
        ("bin-pack", None, "node.free.memory >= pod.requests.memory + node.allocatable.memory", Verdict.PROVED),
        ("keep-headroom", "headroom", "node.allocatable.cpu > 0cpu", Verdict.REFUTED),
        ("spread", "not_crowded", "node.pod_count < 2", Verdict.PROVED),
        ("spread", "not_crowded", "node.pod_count < 3", Verdict.REFUTED),
    ],
)
def test_nodes_that_a_filter_spares(name, filter_, condition, verdict):
    policy = shipped(name)
    answer = statements.spares(policy, filter_, condition)
    assert answer.verdict is verdict, str(answer)
    assert verdict is Verdict.PROVED or fails(policy, answer)


@pytest.mark.parametrize(
    ("name", "condition", "verdict"),
    [
        ("bin-pack", 'pod.namespace == "kube-system"', Verdict.PROVED),
        ("bin-pack", 'pod.namespace == "web"', Verdict.REFUTED),
        ("label-score", "true", Verdict.PROVED),
        ("cpu-load", 'pod.qos == "Guaranteed"', Verdict.PROVED),
        ("critical-off-spot", "pod.priority < 1000", Verdict.PROVED),
        ("critical-off-spot", "pod.priority <= 1000", Verdict.REFUTED),
    ],
)
def test_pods_that_a_policy_keeps_schedulable(name, condition, verdict):
    policy = shipped(name)
    answer = statements.keeps(policy, condition)
    assert answer.verdict is verdict, str(answer)
    assert verdict is Verdict.PROVED or fails(policy, answer)


RULES = """
policy "rules"
filter few { require node.pod_count < 10 else "full" }
filter fewer { require node.pod_count < 5 else "full" }
filter idle when node.pod_count < 0 { require node.unschedulable else "never asked" }
score flat = 50
"""


@pytest.mark.parametrize(
    ("rule", "verdict"), [("few", Verdict.REFUTED), ("fewer", Verdict.REFUTED), ("idle", Verdict.PROVED), ("flat", Verdict.PROVED)]
)
def test_rules_without_effect_are_reported(rule, verdict):
    answer = statements.dead(compiled(RULES), rule)
    assert answer.verdict is verdict, str(answer)
    assert verdict is Verdict.PROVED or fails(compiled(RULES), answer)


ZONED = 'policy "zoned"\nfilter z { require (node.labels["zone"] ?? "") == "x" else "elsewhere" }\n'
MEASURED = """policy "measured"
metric load: percent = prometheus("load", node: "instance")
filter idle when pod.priority < 5 { require load < 50% else "busy" on missing pass }
"""


@pytest.mark.parametrize(
    ("clause", "others", "alone", "together"),
    [
        ('has(node.labels["zone"])', [ZONED], Verdict.REFUTED, Verdict.PROVED),
        ('(node.labels["disk"] ?? "") == "ssd"', [ZONED], Verdict.REFUTED, Verdict.REFUTED),
        ('has(node.labels["zone"])', [MEASURED], Verdict.REFUTED, Verdict.REFUTED),
        ('has(node.labels["zone"])', [MEASURED, ZONED], Verdict.REFUTED, Verdict.PROVED),
        ('pod.priority < 5 or (node.labels["zone"] ?? "") in ["x", "y"]', [ZONED], Verdict.REFUTED, Verdict.PROVED),
    ],
)
def test_other_policies_are_enforced_too(clause, others, alone, together):
    policy = compiled(f'policy "p"\nfilter f {{ require {clause} else "no" }}\n')
    further = [compiled(text) for text in others]
    assert statements.keeps(policy, "true").verdict is alone
    for answer in (statements.keeps(policy, "true", further), statements.implied_by(policy, "f", with_policies=further)):
        assert answer.verdict is together, str(answer)
        assert together is Verdict.PROVED or fails(policy, answer)


def test_a_counterexample_is_one_that_the_other_policies_let_pass():
    policy = compiled('policy "p"\nfilter f { require node.pod_count < 3 else "no" }\n')
    answer = statements.keeps(policy, "true", [compiled(ZONED)])
    assert answer.counterexample is not None
    assert 'zone: "x"' in answer.counterexample


def test_further_policies_have_names_of_their_own():
    with pytest.raises(UsageError, match="zoned is there twice"):
        statements.keeps(compiled(RULES), "true", [compiled(ZONED), compiled(ZONED)])
    answer = statements.keeps(compiled(ZONED), "pod.priority > 9", [compiled(GROUPED, "q.policy")])
    assert answer.verdict is Verdict.REFUTED


def test_groups_of_a_further_policy_are_named_where_there_is_no_proof():
    policy = compiled('policy "n"\nfilter f { require node.pod_count < 5 else "full" }\n')
    answer = statements.keeps(policy, "true", [compiled(GROUPED, "q.policy")])
    assert answer.verdict is Verdict.UNKNOWN
    assert "`group` (q.policy:2:1)" in str(answer.because)


def test_a_filter_is_implied_by_a_stricter_one():
    assert statements.implied_by(compiled(RULES), "few", "fewer").verdict is Verdict.PROVED
    answer = statements.implied_by(compiled(RULES), "fewer", "few")
    assert answer.verdict is Verdict.REFUTED
    assert fails(compiled(RULES), answer)


@pytest.mark.parametrize("read", ['(pod.namespace_labels["tier"] ?? "") != "g"', 'not (pod.namespace_labels matches "tier in (g)")'])
def test_labels_of_namespaces_are_not_those_of_pods(read):
    policy = compiled(f'policy "x"\nfilter t {{ require {read} else "no" }}\n')
    assert statements.spares(policy, "t", 'pod.labels["tier"] == "a"').verdict is Verdict.REFUTED
    answer = statements.dead(policy, "t")
    assert answer.verdict is Verdict.REFUTED, str(answer)
    assert fails(policy, answer)


def test_a_scope_of_labels_of_namespaces_is_shown_by_such_a_pod():
    team = 'for pods where pod.namespace_labels["team"] == "ml"\n'
    rule = 'filter own { require node.labels["pool"] == "ml" else "not ours" on missing reject }'
    policy = compiled(f'policy "x"\n{team}{rule}')
    answer = statements.dead(policy, "own")
    assert answer.verdict is Verdict.REFUTED
    assert fails(policy, answer)
    assert (
        statements.same_as(policy, compiled(f'policy "x"\n{rule.replace("own {", "own when " + team[15:-1] + " {")}')).verdict
        is Verdict.PROVED
    )


FREE = "count(devices where not it.taken, on: node)"


def test_counts_of_devices_are_equal_where_their_texts_are():
    rule = 'filter pool {{ require {pool} == "ml" else "no" on missing reject }}\nfilter free {{ require {free} > 0 else "no" }}'
    one = compiled('policy "x"\n' + rule.format(pool='node.labels["pool"]', free=FREE))
    other = compiled(f'policy "x"\nlet left = {FREE}\n' + rule.format(pool='(node.labels["pool"] ?? "")', free="left"))
    assert statements.same_as(one, other).verdict is Verdict.PROVED
    assert statements.implied_by(one, "free").verdict is not Verdict.PROVED
    more = compiled('policy "x"\n' + rule.format(pool='node.labels["pool"]', free=FREE.replace("not ", "")))
    assert statements.same_as(one, more).verdict is Verdict.UNKNOWN
    answer = statements.dead(one, "free")
    assert answer.verdict is Verdict.REFUTED
    assert fails(one, answer)


def test_a_sum_over_devices_is_beyond_what_is_modelled():
    policy = compiled('policy "x"\nfilter f { require sum(devices, it.free["milli"] ?? 0, on: node) >= 0 else "no" }')
    assert statements.dead(policy, "f").verdict is Verdict.UNKNOWN


def test_versions_that_choose_other_devices_are_not_proved_alike():
    one, same, other = (
        compiled(f'policy "x"\nprefer device first = {value}\nscore s = 1', name)
        for value, name in (('it.free["milli"] ?? 0', "a"), ('it.free["milli"] ?? 0', "b"), ('-(it.free["milli"] ?? 0)', "c"))
    )
    assert statements.same_as(one, same).verdict is Verdict.PROVED
    answer = statements.same_as(one, other)
    assert answer.verdict is Verdict.UNKNOWN
    assert "prefer device" in answer.because


def test_names_and_conditions_that_are_wrong():
    policy = compiled(RULES)
    with pytest.raises(UnknownObject, match="no filter fwe; did you mean few"):
        statements.spares(policy, "fwe", "true")
    with pytest.raises(UnknownObject, match="no rule nothing"):
        statements.dead(policy, "nothing")
    with pytest.raises(UsageError, match="implied by itself"):
        statements.implied_by(policy, "few", "few")
    with pytest.raises(UsageError, match="about the pod alone"):
        statements.keeps(policy, "node.unschedulable")
    with pytest.raises(PolicyError):
        statements.keeps(policy, "pod.nam == 1")
    with pytest.raises(PolicyError, match="unexpected end of the expression"):
        statements.keeps(policy, "pod.labels[")


GROUPED = 'policy "p"\ngroup by pod.labels["job"] { min_count 2 }\nfilter f { require node.pod_count < 5 else "full" }\n'


def test_the_placement_of_groups_is_not_modelled():
    policy = compiled(GROUPED, "p.policy")
    other = compiled(GROUPED.replace("min_count 2", "min_count 3"), "q.policy")
    assert statements.same_as(policy, compiled(GROUPED, "q.policy")).verdict is Verdict.PROVED
    for answer in (statements.same_as(policy, other), statements.keeps(policy, "false"), statements.never_above(policy, "false", "true")):
        assert answer.verdict is Verdict.UNKNOWN
        assert "`group`" in (answer.because or "")
    assert statements.spares(policy, "f", "node.pod_count < 5").verdict is Verdict.PROVED


def test_a_permit_is_beyond_what_is_modelled():
    policy = compiled('policy "p"\npermit late { require node.pod_count > 1 else "wait" }\n', "p.policy")
    assert "`permit`" in (statements.keeps(policy, "true").because or "")


def test_counts_of_members_are_not_modelled():
    policy = compiled('policy "p"\nfilter f { require count(group) < 3 else "enough" }\n', "p.policy")
    assert statements.dead(policy, "f").verdict is Verdict.UNKNOWN


EVICTING = 'policy "p"\nfor pods where pod.priority >= 100\npreemption { never_evict when it.priority >= 50 }\n'


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        (EVICTING.replace(">= 50", "> 50"), Verdict.REFUTED),
        (EVICTING.replace("never_evict when it.priority >= 50", 'never_evict when it.namespace == "system"'), Verdict.REFUTED),
        (EVICTING.replace("never_evict when it.priority >= 50", "only_evict when it.priority < 50"), Verdict.PROVED),
        ('policy "p"\nfor pods where pod.priority >= 100\n', Verdict.REFUTED),
    ],
)
def test_versions_that_evict_other_pods_are_distinguished_by_an_eviction(other, verdict):
    first, second = compiled(EVICTING, "a.policy"), compiled(other, "b.policy")
    answer = statements.same_as(first, second)
    assert answer.verdict is verdict, str(answer)
    if verdict is Verdict.REFUTED:
        assert "expect running_1 evicted" in str(answer.counterexample)
        assert fails(second if answer.fails_with == "b.policy" else first, answer)


TYPICAL = """policy "p"

workload typical = [{ cpu: 4cpu, gpu: 1, weight: 100% }]
score fgd = floor(100 * sigmoid((fragmentation(typical) - fragmentation_after(typical)) / 1000)) on missing 0
"""
WORTH = """policy "p"

let worth = { "gold": 3, "silver": 2 }
score light = -sum(pods, worth[it.labels["tier"]] ?? 1, on: node) normalize minmax
"""


@pytest.mark.parametrize(
    ("text", "old", "new", "verdicts"),
    [
        (TYPICAL, "4cpu", "8cpu", {Verdict.UNKNOWN}),
        (TYPICAL, "typical", "usual", {Verdict.PROVED}),
        (WORTH, "3", "5", {Verdict.REFUTED, Verdict.UNKNOWN}),  # the first model of the solver may have no such sum of pods
        (WORTH, "worth", "value", {Verdict.PROVED}),
    ],
)
def test_workloads_and_tables_are_compared_by_what_they_hold(text, old, new, verdicts):
    first, second = compiled(text), compiled(text.replace(old, new), "q.policy")
    answer = statements.same_as(first, second)
    assert answer.verdict in verdicts
    if answer.verdict is Verdict.REFUTED:
        assert fails(second if answer.fails_with == "q.policy" else first, answer)


def test_a_condition_over_lets_that_double_looks_through_them_once(monkeypatch):
    lets = "".join(f"let a{number} = a{number - 1} + a{number - 1}\n" for number in range(1, 25))
    policy = EditablePolicy(compiled(f'policy "p"\nlet a0 = pod.priority\n{lets}filter f {{ require node.pod_count < 3 else "no" }}\n'))
    looked_at, parts = itertools.count(1), typed.parts

    def counted(expr):
        assert next(looked_at) < 10_000
        return parts(expr)

    monkeypatch.setattr(typed, "parts", counted)
    policy.conditions({"--keeps": "a24 > 3"}, frozenset({"--keeps"}))
    with pytest.raises(UsageError, match="reads the node"):
        policy.conditions({"--keeps": "a24 > node.pod_count"}, frozenset({"--keeps"}))


def test_lets_that_double_are_compared_without_being_written_out():
    chain = "".join(f"let a{i + 1} = a{i} and a{i}\n" for i in range(25))
    rule = "score s = count(pods where it.priority > 3 and a25, on: node) normalize minmax\n"
    policy = compiled(f'policy "p"\nlet a0 = pod.priority > 3\n{chain}{rule}')
    assert statements.same_as(policy, policy).verdict is Verdict.PROVED


@pytest.mark.parametrize("rules", ["filter f{0} {{ require node.pod_count < {0} }}", "score s{0} = node.pod_count + {0} normalize minmax"])
def test_more_rules_than_are_compared_with_each_other_are_not_examined_together(rules):
    """Whoever opens a pull request chooses the policy that a pipeline examines."""
    many = compiled("\n".join(['policy "p"', *(rules.format(number) for number in range(101))]))
    with pytest.raises(
        UsageError, match=r"policy p has 101 scores and clauses of filters; at most 100 are examined together\. Name a statement"
    ):
        statements.survey(many)


def many_filters(n):
    """A policy whose filters have numbers of pods as limits."""
    return compiled("\n".join(['policy "p"', *(f"filter f{number} {{ require node.pod_count < {number + 1} }}" for number in range(n))]))


def test_what_the_budget_of_all_rules_does_not_suffice_for_is_named(monkeypatch):
    asked = []
    answered = question._answer
    monkeypatch.setattr(question, "_answer", lambda statement: asked.append(statement.text) or answered(statement))
    monkeypatch.setattr(statements, "MAX_TOGETHER", 3 * question.ENCODED)
    *found, last = statements.survey(many_filters(20))
    assert len(found) == len(asked) == 1
    assert last.verdict is Verdict.UNKNOWN
    assert last.statement.endswith(", filter f6, filter f7 and 32 more")
    assert "not looked at: the rules before used up the budget of all rules together" in str(last)


def test_the_budget_of_all_rules_suffices_for_usual_policies():
    for policy in (many_filters(4), shipped("gpu-bin-pack")):
        assert not any("not looked at" in str(answer) for answer in statements.survey(policy))


def test_lets_count_once_in_the_budget_of_all_rules():
    chain = "".join(f"let a{i + 1} = a{i} and a{i}\n" for i in range(25))
    policy = compiled(f'policy "p"\nlet a0 = pod.priority > 3\n{chain}filter f {{ require a25 }}\nfilter g {{ require a1 }}\n')
    assert statements._n_expressions(policy, *policy.policy.filters) < 100


LOAD = "node.free.cpu / node.allocatable.cpu"
CURVE = f"score r = curve({LOAD}, %s) on missing 0"
LARGE = {  # the rule, what stands between its parts, and a part
    "points of a curve": (CURVE, ", ", lambda i: f"{i / 1000} -> {i * 7919 % 101}"),
    "points of a curve that rises and falls": (CURVE, ", ", lambda i: f"{i / 1000} -> {i % 2 * (i + 1)}"),
    "functions of texts": ("filter r { %s }", " ", lambda i: f'reject starts_with(node.labels["k{i}"], "a{i}") on missing pass'),
    "selections": ("filter r { %s }", " ", lambda i: f"require count(pods where it.priority > {i}, on: node) < 9"),
}


@pytest.mark.parametrize(("rule", "between", "part"), LARGE.values(), ids=LARGE.keys())
def test_a_rule_twice_as_long_takes_about_twice_the_work(rule, between, part):
    policies = [compiled(f'policy "p"\n{rule % between.join(map(part, range(n)))}\n') for n in (48, 96)]
    once, twice = (calls(lambda policy=policy: statements.dead(policy, "r")) for policy in policies)
    assert twice < 2.6 * once


def test_a_curve_of_ten_lines_is_proved_to_rise():
    points = ", ".join(f"{i / 10} -> {10 * i}" for i in range(11))
    policy = compiled(f'policy "p"\nfilter high {{ require curve({LOAD}, {points}) >= 40 on missing pass }}\n')
    assert statements.spares(policy, "high", f"{LOAD} >= 0.42").verdict is Verdict.PROVED


@pytest.mark.parametrize(
    "text",
    [
        'policy "p"\nfilter f { require node.name in [%s] else "no" }\n',
        'policy "p"\nparam s: set<string> = [%s]\nfilter f { require node.name in s else "no" }\n',
    ],
    ids=["in the rule", "as a param"],
)
def test_a_statement_about_a_huge_set_is_unknown_before_terms_are_made_of_it(text):
    policy = compiled(text % ", ".join(f'"n{number}"' for number in range(encoder.MAX_TERMS + 1)))
    answers = []
    assert calls(lambda: answers.append(statements.dead(policy, "f"))) < 5_000_000
    [found] = answers
    assert found.verdict is Verdict.UNKNOWN
    assert "more than 5,000 terms" in found.because
    assert len(found.because) < 300


def test_the_policies_of_a_survey_are_read_again_once(monkeypatch):
    read = []
    monkeypatch.setattr(statements, "EditablePolicy", lambda compiled: read.append(compiled) or EditablePolicy(compiled))
    statements.survey(compiled('policy "p"\nscore s = node.pod_count normalize max\nscore t = 1\nfilter f { require true }\n'))
    assert len(read) == 1
