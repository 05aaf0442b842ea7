"""The interpreter evaluates expressions for one node, and traces every part of them."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.compiler.interpreter import SKIP, Interpreter

from .texts import ZONE, cluster, compiled, node, pod

MAYBE = {True: "true", False: "false", None: 'node.labels["absent"] == "x"'}


def value(expression: str, *, labels: dict[str, str] | None = None) -> Any:
    policy = compiled(f'policy "p"\nlet it_is = {expression}\nfilter f {{ require has(it_is) else "no" }}')
    state = cluster(node("a", labels={ZONE: "1", **(labels or {})}), node("b", labels={ZONE: "1"}), node("c"))
    for number in range(2):
        state.add_pod(pod(f"p{number}", on="b", labels={"app": "web"}, cpu=f"{number + 1}"))
    interpreter = Interpreter(policy.policy, policy.params, pod("incoming", cpu="500m"), state.snapshot(now=100.0))
    return interpreter.value(policy.policy.lets[0].value, 0)


@pytest.mark.parametrize("a", [True, False, None])
@pytest.mark.parametrize("b", [True, False, None])
def test_and_or_and_not_of_missing_values_follow_kleene_logic(a: bool | None, b: bool | None) -> None:
    conjunction = False if False in (a, b) else None if None in (a, b) else True
    disjunction = True if True in (a, b) else None if None in (a, b) else False
    assert value(f"({MAYBE[a]}) and ({MAYBE[b]})") is conjunction
    assert value(f"({MAYBE[a]}) or ({MAYBE[b]})") is disjunction
    assert value(f"not ({MAYBE[a]})") is (None if a is None else not a)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("node.free.cpu - pod.requests.cpu", 3500.0),
        ("node.free.cpu / 0", None),
        ("ratio(node.free.cpu, node.free.cpu)", 1.0),
        ('node.labels["absent"] ?? "x"', "x"),
        ('has(node.labels["absent"])', False),
        ('number(node.labels["absent"]) ?? 7', 7.0),
        ('if node.labels["absent"] == "x" then 1 else 2', None),
        ("if node.pod_count > 0 then 1 else 2", 2.0),
        ("curve(node.free.cpu, 0cpu -> 0, 8cpu -> 100)", 50.0),
        ("curve(node.free.cpu, 0cpu -> 0, 1cpu -> 30)", 30.0),
        ("curve(node.free.cpu, 5cpu -> 10, 8cpu -> 100)", 10.0),
        ("count(pods, on: node)", 0.0),
        (f'count(pods, within: "{ZONE}")', 2.0),
        ("count(pods)", 2.0),
        ('sum(pods where it.labels["app"] == "web", it.requests.cpu)', 3000.0),
        (f'avg(pods, it.requests.cpu, within: "{ZONE}")', 1500.0),
        ("max(pods, it.requests.cpu, on: node)", None),
        (f'min(pods, it.requests.cpu, within: "{ZONE}")', 1000.0),
        ('count(pods, within: "absent")', None),
        (f'spread(pods, by: "{ZONE}")', 100.0),
        ('node.labels matches "a in (x,y), !b"', True),
        ('node.labels matches "a notin (x)"', False),
        ('node.labels matches "n > 3"', True),
        ('node.labels matches "a > 3"', False),
        ('"x" in ["x", "y"]', True),
    ],
)
def test_the_interpreter_evaluates_each_kind_of_expression(expression: str, wanted: Any) -> None:
    assert value(expression, labels={"a": "x", "n": "12"}) == wanted


def test_trace_shows_every_part_once() -> None:
    policy = compiled("""
    policy "p"
    let left = node.free.cpu - pod.requests.cpu
    filter f { require left > 1cpu and left < 3cpu else "no" }
    """)
    interpreter = Interpreter(policy.policy, policy.params, pod("p", cpu="2"), cluster(node("a")).snapshot())
    assert interpreter.trace(policy.policy.filters[0].clauses[0].condition, 0) == [
        ("left > 1cpu and left < 3cpu", True),
        ("left > 1cpu", True),
        ("left", 2000.0),
        ("node.free.cpu - pod.requests.cpu", 2000.0),
        ("node.free.cpu", 4000.0),
        ("pod.requests.cpu", 2000.0),
        ("left < 3cpu", True),
    ]


def test_a_rule_that_does_not_apply_has_no_effect() -> None:
    policy = compiled("""
    policy "p"
    filter f when node.pod_count > 5 { require node.unschedulable else "no" }
    score s when node.pod_count > 5 = 100
    """)
    interpreter = Interpreter(policy.policy, policy.params, pod("p"), cluster(node("a")).snapshot())
    assert interpreter.filter(policy.policy.filters[0], 0) == []
    assert interpreter.score(policy.policy.scores[0], 0) is SKIP
