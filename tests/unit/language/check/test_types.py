"""Kinds, shapes, optionality and the desugared form of expressions."""

from __future__ import annotations

import pytest

from tests.unit.language.policies import checked, errors, policy, value
from wharfinger.language.ast import MissingAction, Normalize
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.describe import describe
from wharfinger.language.semantics.types import Kind, Shape

DECLARED = """
param most: count = 3 range 1..9
param keep: percent = 10%
metric load: percent = prometheus('q', node: "instance")
let gpus = pod.requests["nvidia.com/gpu"]
let siblings = pods where it.labels["app"] == pod.labels["app"]
"""
TYPES = [
    ("2", "count", Shape.CONST),
    ("2.5", "number", Shape.CONST),
    ("50%", "percent", Shape.CONST),
    ("most", "count", Shape.CONST),
    ("most * 2", "count", Shape.CONST),
    ("most / 2", "number", Shape.CONST),
    ("pod.requests.cpu", "cpu", Shape.POD),
    ("pod.requests.cpu + 500m", "cpu", Shape.POD),
    ("node.free.cpu - pod.requests.cpu", "cpu", Shape.NODE),
    ("keep * node.free.memory", "memory", Shape.NODE),
    ("node.free.memory / most", "memory", Shape.NODE),
    ("node.free.memory / 1Gi", "number", Shape.NODE),
    ("node.free.memory / node.capacity.memory", "number?", Shape.NODE),
    ("ratio(node.free.memory, node.capacity.memory)", "percent?", Shape.NODE),
    ("100 * keep", "number", Shape.CONST),
    ("keep * keep", "percent", Shape.CONST),
    ("age(pod.created)", "duration?", Shape.POD),
    ("pod.created + 5min", "time?", Shape.POD),
    ("node.created - pod.created", "duration?", Shape.NODE),
    ("gpus", "count?", Shape.POD),
    ("gpus ?? 0", "count", Shape.POD),
    ("gpus ?? 0.5", "number", Shape.POD),
    ("load", "percent?", Shape.NODE),
    ('node.labels["a"]', "string?", Shape.NODE),
    ("node.labels[pod.namespace]", "string?", Shape.NODE),
    ("node.labels", "labels", Shape.NODE),
    ('node.free["cpu"]', "cpu", Shape.NODE),
    ('pod.requests["ephemeral-storage"]', "memory", Shape.POD),
    ("has(gpus)", "bool", Shape.POD),
    ("gpus > 2", "bool?", Shape.POD),
    ('node.labels matches "a=b"', "bool", Shape.NODE),
    ('["a", "b"]', "set<string>", Shape.CONST),
    ("siblings", "pods", Shape.POD),
    ("count(siblings)", "count", Shape.POD),
    ("count(siblings, on: node)", "count", Shape.NODE),
    ('count(siblings, within: "z")', "count?", Shape.NODE),
    ("avg(pods, it.priority, on: node)", "number?", Shape.NODE),
    ("avg(pods, it.requests.cpu, on: node)", "cpu?", Shape.NODE),
    ("sum(pods, it.requests.memory)", "memory", Shape.POD),
    ("max(pods, it.created)", "time?", Shape.POD),
    ("max(1, node.pod_count)", "count", Shape.NODE),
    ("if has(gpus) then 1 else 0.5", "number", Shape.POD),
    ("curve(keep, 0% -> 1cpu, 100% -> 2cpu)", "cpu", Shape.CONST),
    ('spread(siblings, by: "z")', "number?", Shape.NODE),
    ("least_allocated()", "number", Shape.NODE),
    ('tolerates(pod, "a:NoSchedule")', "bool", Shape.POD),
    ("taints(node)", "count", Shape.NODE),
    ("unseen_requests(load).cpu", "cpu?", Shape.NODE),
]


@pytest.mark.parametrize(("text", "type_", "shape"), TYPES)
def test_an_expression_has_this_type_and_shape(text, type_, shape):
    found = (
        value(text, DECLARED)
        if text != "node.labels"
        else policy(f"{DECLARED}filter f {{ require node.labels matches 'a' }}").filters[0].clauses[0].condition.labels
    )
    assert (str(found.type), found.type.shape) == (type_, shape)


WRONG = [
    ("node.free.cpu + node.free.memory", "P201"),
    ("node.free.cpu * node.free.cpu", "P201"),
    ("1 / node.free.cpu", "P201"),
    ("pod.created + pod.created", "P201"),
    ("pod.created * 2", "P201"),
    ("keep + 1", "P201"),
    ("node.free.memory > 5", "P202"),
    ("keep > 0.5", "P202"),
    ("pod.namespace == 5", "P202"),
    ("pod.namespace < 'b'", "P202"),
    ("true < false", "P202"),
    ("5 in ['a']", "P202"),
    ("2Gb", "P203"),
    ("not 5", "P204"),
    ("-pod.namespace", "P204"),
    ("most and true", "P204"),
    ("pod.namespace + 'x'", "P204"),
    ("'a' in pod.namespace", "P204"),
    ("pod.namespace matches 'a'", "P204"),
    ("if most then 1 else 2", "P205"),
    ("count(pods where it.priority)", "P205"),
    ("clamp(1cpu, 0, 1)", "P206"),
    ("age(5)", "P206"),
    ("taints(pod)", "P206"),
    ("unseen_requests(most).cpu", "P206"),
    ("count(most)", "P206"),
    ("sum(pods, it.name)", "P206"),
    ("has(pod)", "P206"),
    ("has()", "P207"),
    ("clamp(1)", "P207"),
    ("count()", "P207"),
    ("count(pods, it.priority)", "P207"),
    ("sum(pods)", "P207"),
    ("count(pods, on: pod)", "P207"),
    ("count(pods, on: node, within: 'z')", "P207"),
    ("curve(most)", "P504"),
    ("curve(most, 1)", "P207"),
    ("abs(x: 1, x: 2)", "P207"),
    ("abs(1 -> 2)", "P207"),
    ("if true then 1 else 1cpu", "P208"),
    ("[1, 'a']", "P208"),
    ("curve(keep, 0 -> 1, 1 -> 2)", "P208"),
    ("1e50", "P209"),
    ("pod == node", "P213"),
    ("siblings == siblings", "P213"),
    ("if true then pods else pods", "P213"),
    ("count(pods where it.name == node.name)", "P214"),
    ("count(pods where load > 1%)", "P214"),
    ("curve(most, pod.priority -> 1, 2 -> 3)", "P215"),
    ("[pod.namespace]", "P215"),
    ("node.labels matches pod.namespace", "P217"),
    ("count(pods, within: pod.namespace)", "P217"),
    ("it.name", "P219"),
    ("count(pods where count(pods) > 1)", "P220"),
    ("nothing", "P301"),
    ("pod.nothing", "P302"),
    ("pod.namespace.x", "P302"),
    ("most.x", "P302"),
    ("load.cpu", "P302"),
    ("nothing(1)", "P303"),
    ("unseen_requests(load)", "P302"),
    ("pod.namespace['a']", "P310"),
    ("node.labels[5]", "P310"),
    ("node.labels[node.name]", "P310"),
    ("node.labels['-']", "P310"),
    ("curve(most, 2 -> 1, 1 -> 2)", "P504"),
]


@pytest.mark.parametrize(("text", "code"), WRONG)
def test_one_mistake_is_one_finding(text, code):
    assert errors(f"{DECLARED}let wrong = {text}") == [code]


@pytest.mark.parametrize(
    ("text", "desugared"),
    [
        ("pod.namespace != 'a'", 'pod.namespace != "a"'),
        ("pod.namespace not in ['b', 'a']", 'pod.namespace not in ["a", "b"]'),
        ("pod.namespace in [node.name, 'a']", 'pod.namespace == node.name or pod.namespace == "a"'),
        ("-5", "-5"),
        ("(1 + most) * 2", "(1 + most) * 2"),
        ("1 + most * 2", "1 + most * 2"),
        ("most - (1 - most)", "most - (1 - most)"),
        ("not (true and false)", "not (true and false)"),
        ("gpus ?? gpus ?? 0", "gpus ?? gpus ?? 0"),
        ("node.labels matches 'a in (x,y),!b'", 'node.labels matches "a in (x,y),!b"'),
        ("count(pods where it.name == 'a', on: node)", 'count(pods where it.name == "a", on: node)'),
        ("least_allocated(cpu: 2, memory: 1)", "least_allocated(cpu: 2, memory: 1)"),
        ("unseen_requests(load).cpu", "unseen_requests(load).cpu"),
        ("2048Mi + 512Mi", "2Gi + 512Mi"),
        ("if true then 1 else 2", "if true then 1 else 2"),
        ("curve(keep, 0% -> 1, 50% -> 2)", "curve(keep, 0% -> 1, 50% -> 2)"),
    ],
)
def test_an_expression_is_described_in_its_canonical_form(text, desugared):
    assert describe(value(text, DECLARED)) == desugared


def test_prefer_and_avoid_are_scores():
    prefer, avoid = policy("prefer a = node.unschedulable\navoid b weight 2 = node.unschedulable").scores
    assert describe(prefer.value) == "if node.unschedulable then 100 else 0"
    assert describe(avoid.value) == "if node.unschedulable then 0 else 100"
    assert (prefer.weight.value, prefer.tier, prefer.normalize, prefer.on_missing) == (1.0, 1, Normalize.NONE, None)


def test_reject_is_require_not():
    first, second = policy('filter f { reject node.unschedulable else "x"\n require node.name == "a" }').filters[0].clauses
    assert describe(first.condition) == "not node.unschedulable"
    assert first.message.parts == ("x",)
    assert first.missing_passes is None
    assert second.message.parts == ('requires node.name == "a"',)


def test_message_holes_are_expressions_with_their_places():
    found = policy('filter f { require node.pod_count < 5 else "has {node.pod_count}, {{limit}} {5}" }')
    count, limit = (part for part in found.filters[0].clauses[0].message.parts if isinstance(part, typed.Expr))
    assert (count.span.text, limit.span.text) == ("node.pod_count", "5")


def test_params_are_in_base_units():
    keep, most, names = policy(
        "param keep: memory = 2Gi range 1Gi..4Gi\nparam most: count\nparam names: set<string> = ['a']\n"
        "filter f { require node.free.memory > keep and node.pod_count < most and node.name in names }"
    ).params
    assert (keep.default, keep.low, keep.high) == (2.0**31, 2.0**30, 2.0**32)
    assert (most.default, most.low, most.high) == (None, 0.0, None)
    assert names.default == frozenset({"a"})


def test_a_metric_has_its_freshness():
    (metric,) = policy(
        "metric load: percent = prometheus('up', node: \"instance\", refresh: 30s, max_age: 2min, min_coverage: 50%)\n"
        "filter f { require load < 5% on missing pass }"
    ).metrics
    assert (metric.query, metric.options, metric.refresh, metric.max_age, metric.min_coverage) == (
        "up",
        {"node": "instance", "server": "default"},
        30,
        120,
        0.5,
    )
    assert metric.type.kind is Kind.PERCENT


def test_lets_follow_those_they_need():
    found = policy("let a = b + c\nlet b = c + 1\nlet c = node.pod_count\nfilter f { require a > 5 }")
    assert [let.name for let in found.lets] == ["c", "b", "a"]


def test_every_part_of_a_score_is_in_the_typed_score():
    rule = "score s tier 3 weight w * 2 when pod.priority > 5 = node.pod_count normalize minmax(4) on missing skip"
    score = policy(f"param w: number = 2 range 0..5\n{rule}").scores[0]
    assert (score.tier, describe(score.weight), score.normalize, score.on_missing) == (3, "w * 2", Normalize.MINMAX, MissingAction.SKIP)
    assert score.min_spread is not None
    assert score.min_spread.value == 4.0


def test_base_quantum_and_ties():
    found = policy(
        'base kubernetes { NodeResourcesFit weight 2 with { strategy: "MostAllocated", resources: [{ name: "cpu", weight: 1 }] }\n'
        " ImageLocality weight 0 }\n"
        "quantum 1\nquantum 0.5 tier 2\ntie_break node.pod_count asc, node.free.cpu desc"
    )
    fit, images = found.base
    assert fit.arguments == {"strategy": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    assert (images.plugin, images.weight.value, images.arguments) == ("ImageLocality", 0.0, {})
    assert found.quantum == {1: 1.0, 2: 0.5}
    assert [key.descending for key in found.tie_break] == [False, True]


@pytest.mark.parametrize(("quantum", "found"), [("1e-12", []), ("1e-15", []), ("1e-16", ["P505"]), ("0", ["P505"])])
def test_totals_can_be_rounded_to_a_quantum(quantum, found):
    assert errors(f"quantum {quantum}") == found


def test_annotations_are_plain_values():
    assert policy('policy "p"\n@owner("team")\n@stable\n@tags(["b", "a"])\nprefer a = node.unschedulable').annotations == {
        "owner": "team",
        "stable": True,
        "tags": ["a", "b"],
    }


@pytest.mark.parametrize(("relabel", "found"), [("(", ["P603"]), ("(a{1000}){1000}", ["P603"]), ("(.*):9100", [])])
def test_the_relabel_option_of_a_metric_is_checked(relabel, found):
    declared = f"metric load: percent = prometheus('up', node: \"instance\", relabel: '{relabel}')"
    assert errors(f"{declared}\nfilter f {{ require load < 5% on missing pass }}") == found


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("refresh: 3min", ["P603"]),  # max_age is 2min where it is not given
        ("refresh: 3min, max_age: 3min", []),
        ('node: ""', ["P603"]),
        ('server: " "', ["P603"]),
        ('relabel: ""', ["P603"]),
        ('times: ""', ["P603"]),
    ],
)
def test_options_of_a_metric_that_can_bring_no_sample(options, found):
    declared = f"metric load: percent = prometheus('up', {options})"
    assert errors(f"{declared}\nfilter f {{ require load < 5% on missing pass }}") == found


@pytest.mark.parametrize(
    ("options", "refresh"), [("", 15.0), ("max_age: 5s", 2.5), ("max_age: 1s", 1.0), ("max_age: 5s, refresh: 5s", 5.0)]
)
def test_samples_are_refreshed_twice_as_often_as_they_grow_old_where_that_is_less_than_usual(options, refresh):
    given = f", {options}" if options else ""
    typed = policy(f'policy "p"\nmetric load: percent = prometheus(\'up\', node: "instance"{given})\nprefer a = has(load)')
    assert typed.metrics[0].refresh == refresh


@pytest.mark.parametrize(
    ("body", "used", "found"),
    [
        ("it.priority + x", "sum(pods, f(1), on: node)", []),
        ("it.requests.cpu / 1cpu + x", "sum(pods where it.name != pod.name, f(1), on: node)", []),
        ('number(it.labels["a"]) + x', "sum(pods, f(1), on: node)", []),
        ("it.free_share / 1% + x", "sum(devices, f(1), on: node)", []),
        ('(it.free["milli"] ?? 0) + x', "sum(devices, f(1), on: node)", []),
        ("it.priority + x", "sum(devices, f(1), on: node)", ["P222"]),
        ("it.free_share / 1% + x", "sum(pods, f(1), on: node)", ["P222"]),
        ("it.priority + x", "f(1)", ["P222"]),
        ("it.prio + x", "sum(pods, f(1), on: node)", ["P302"]),
    ],
)
def test_it_in_a_function_means_the_item_of_the_selection_around_the_call(body, used, found):
    assert errors(f"let f(x: number) = {body}\nscore s = {used} normalize minmax on missing 0") == found


def test_a_long_circle_is_shown_in_part():
    found = checked("\n".join(f"let a{i} = a{(i + 1) % 400}" for i in range(400)) + "\ntie_break a0 asc")[1].found
    (error,) = [each for each in found if each.code.name == "P307"]
    assert error.message == "`a0` needs itself: a0 → a1 → a2 → a3 → a4 → a5 → a6 → a7 → 392 more → a0"
    assert len(error.others) == 7
