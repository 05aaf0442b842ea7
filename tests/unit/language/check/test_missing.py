"""Missing values: what must be handled, and which guards make this unnecessary."""

from __future__ import annotations

import pytest

from tests.unit.language.policies import checked, codes, errors

Z = 'node.labels["z"]'
Y = 'node.labels["y"]'
FREE = 'node.free["gpu"]'

HANDLED = [
    f'({Z} ?? "") == "a"',
    f'has({Z}) and {Z} == "a"',
    f'{Z} == "a" and has({Z})',
    f'not has({Z}) or {Z} == "a"',
    f'not (has({Z}) and {Z} == "a")',
    f"has({Z}) and has({Y}) and {Z} == {Y}",
    f"has({Z}) and (has({Y}) and {Z} == {Y})",
    f'if has({Z}) then {Z} == "a" else true',
    f'if not has({Z}) then true else {Z} == "a"',
    f"if has({Z}) and has({Y}) then {Z} == {Y} else false",
    f'({Z} == "a") ?? false',
    f'(has({Z}) and {Z} == "a") or node.unschedulable',
    f"has({FREE}) and {FREE} + 1 > 2 and {FREE} * 2 < 9",
    f'node.labels matches "z in (a,b)" and {Z} == "a"',
    f'{Z} ?? {Y} ?? "" == "a"'.replace(f'{Z} ?? {Y} ?? ""', f'({Z} ?? {Y} ?? "")'),
    f'has({Z}) and {Z} in ["a", "b"]',
    "count(pods, on: node) > 1",
    "sum(pods, it.requests.cpu, on: node) > 1cpu",
    'count(pods where it.labels["a"] == "b", on: node) > 1',
    'has(node.labels["k"]) and count(pods, within: "k") > 1',
    "(avg(pods, it.requests.cpu, on: node) ?? 0cpu) < 1cpu",
    f"has({FREE}) and max({FREE}, 1) > 0",
    "ratio(node.free.cpu, node.allocatable.cpu) > 10%",
    "5 / max(1, node.pod_count) > 1",
    f'has({Z}) and matches_regex({Z}, "a+")',
    f'(({Z} == "a") ?? false) and {Z} in ["a"]',
]
UNHANDLED = [
    f'{Z} == "a"',
    f'{Z} != "a"',
    f'has({Y}) and {Z} == "a"',
    f'has({Z}) or {Z} == "a"',
    f'not has({Z}) and {Z} == "a"',
    f'if has({Z}) then true else {Z} == "a"',
    f'({Z} ?? {Y}) == "a"',
    f"has({Z}) and {Z} == {Y}",
    f"{FREE} > 2",
    f'has({Z}) and {Z} == "a" or {Z} == "b"',
    'count(pods, within: "k") > 1',
    "avg(pods, it.requests.cpu, on: node) < 1cpu",
    'has(node.labels["other"]) and count(pods, within: "k") > 1',
    "ratio(node.free.cpu, node.free.memory / 1Gi * 1cpu) > 10%",
    "5 / node.pod_count > 1",
    f'node.labels matches "!z" and {Z} == "a"',
    f'node.labels matches "z notin (a)" and {Z} == "a"',
    f'(({Z} == "a") ?? true) and {Z} in ["a"]',
    "age(node.created) > 1h",
]


@pytest.mark.parametrize("condition", HANDLED)
def test_a_condition_that_handles_missing_values_needs_no_on_missing(condition):
    assert errors(f"filter f {{ require {condition} }}") == []


@pytest.mark.parametrize("condition", UNHANDLED)
def test_something_must_be_given(condition):
    assert errors(f"filter f {{ require {condition} }}") == ["P401"]


@pytest.mark.parametrize("condition", UNHANDLED)
@pytest.mark.parametrize("action", ["pass", "reject"])
def test_on_missing_defines_it(condition, action):
    assert errors(f"filter f {{ require {condition} on missing {action} }}") == []


@pytest.mark.parametrize("condition", UNHANDLED)
@pytest.mark.parametrize("action", ["skip", "neutral", "0"])
def test_a_score_reports_it_too(condition, action):
    assert errors(f"prefer f = {condition}") == ["P402"]
    assert errors(f"prefer f = {condition} on missing {action}") == []


def test_no_default_is_proposed_for_a_time_as_none_can_be_written():
    _, found = checked("filter f { require age(node.created) > 1h }")
    assert [d.help for d in found] == ["guard it, `has(node.created)`; or end the rule with `on missing pass` or `on missing reject`"]


def test_no_default_is_proposed_for_a_metric_as_what_is_not_measured_is_not_idle():
    _, found = checked("metric load: percent = prometheus('q', node: \"instance\")\nfilter f { require load < 50% }")
    assert [d.help for d in found] == ["guard it, `has(load)`; or end the rule with `on missing pass` or `on missing reject`"]


def test_an_earlier_clause_guards_later_ones():
    assert errors(f'filter f {{ require has({Z})\n require {Z} == "a" }}') == []


def test_a_later_clause_does_not_guard_earlier_ones():
    assert errors(f'filter f {{ require {Z} == "a"\n require has({Z}) }}') == ["P401"]


def test_reject_guards_what_is_left():
    assert errors(f'filter f {{ reject not has({Z})\n require {Z} == "a" }}') == []


def test_a_clause_that_rejects_what_is_missing_guards_later_ones():
    assert errors(f'filter f {{ require {Z} == "a" on missing reject\n require {Z} != "b" }}') == []


def test_a_clause_that_lets_pass_what_is_missing_guards_nothing():
    assert errors(f'filter f {{ require {Z} == "a" on missing pass\n require {Z} != "b" }}') == ["P401"]


def test_when_guards_its_rule_only():
    assert errors(f'filter f when has({Z}) {{ require {Z} == "a" }}\nfilter g {{ require {Z} == "a" }}') == ["P401"]


def test_a_comparison_in_when_guards_too():
    assert errors(f'prefer s when {Z} != "a" = {Z} == "b"')[0:] == []


def test_for_guards_all_rules():
    assert errors('for pods where has(pod.labels["app"])\nfilter f { require pod.labels["app"] == node.name }') == []


def test_guards_reach_through_lets():
    assert errors(f"let z = {Z}\nlet known = has(z)\nfilter f {{ require known and z == {Z} }}") == []


def test_a_let_of_a_missing_value_is_found_where_it_is_used():
    assert errors(f'let z = {Z}\nlet good = z == "a"\nfilter f {{ require good }}') == ["P401"]


def test_messages_may_be_missing():
    assert codes("""filter f { require node.pod_count < 9 else "zone {node.labels['z']}" }""") == []


def test_ties_may_be_missing():
    assert codes(f"tie_break {FREE} desc") == []


def test_a_metric_guards_its_unseen_requests():
    metric = "metric load: percent = prometheus('q', node: \"instance\")\n"
    condition = "has(load) and load + ratio(unseen_requests(load).cpu, node.capacity.cpu) < 90%"
    assert errors(f"{metric}filter f {{ require {condition} }}") == []
    assert errors(f"{metric}filter f {{ require load < 90% }}") == ["P401"]
