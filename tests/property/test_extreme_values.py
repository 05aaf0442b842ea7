"""The kernels and the interpreter agree about values at the limits of what objects and texts may hold."""

from __future__ import annotations

import pytest

from tests.parity import case
from tests.property.test_evaluators import differences
from tests.unit.framework.kube import node, pod, state
from tests.unit.language.policies import policy
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import compile_policy

NOW = 1_700_000_000.0
LABELS = [
    *(
        "0.1m",
        "1e18",
        "8Ei",
        "7Ki",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-0",
        "1e-30",
        "1E3",
        "1n",
        "12e6Mi",
    ),
    *("nan", "inf", "-inf", "+5", "5.", "0x10", "1_000", "00", "K", "", "1.2.3", "v1.0.0-rc.1+x", "1.2.3-0a"),
    *("\u0661", "\u00e9" * 20, "a\x00b", "\u00df", "\u0130", None),
]
CPU = ("0", "1n", "9223372036854775807m", "1e18", "0.1m")
MEMORY = ("0", "8Ei", "7Ei", "1", "1m")
CREATED = ("1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", None)
NUMBERS = [
    "quantity({q}).number",
    "quantity({q}) / 1Ki",
    "-(node.free.cpu / 1cpu)",
    "node.free.memory / 1Gi",
    "node.allocatable.memory * -1 / 1Ki",
    "ratio(node.free.cpu, node.allocatable.cpu) / 1%",
    "age(node.created) / 1s",
    "hash({q}) / 1%",
    "max(node.free.cpu / 1m, -0.0)",
    "exp(clamp(quantity({q}).number, -700, 700))",
    "log(abs(quantity({q}).number) + 1)",
    "sigmoid(quantity({q}).number)",
    "{{ '': 1, 'é': 2, 'K': -0.0 }}[{q}]",
    "{{ 0: 1, 1: 2 }}[quantity({q}).number]",
    "curve(quantity({q}).number, -1e18 -> 0, 0 -> 50, 1e18 -> 100)",
    "quantity({q}).number * quantity({q}).number",
    "1 / quantity({q}).number",
    "sum(pods where quantity(it.labels['app']).number > 0, quantity(it.labels['app']).number, on: node)",
    "max(pods, quantity(it.labels['app']).number, on: node)",
    "avg(pods, quantity(it.labels['app']).number)",
]
CONDITIONS = [
    "matches_regex({q}, '^\\\\PL*$')",
    "matches_regex({q}, '[[:^alpha:]]')",
    "matches_regex({q}, '\\\\x{{e9}}+')",
    "matches_regex({q}, '(?i)k')",
    "matches_regex({q}, '(?s).*')",
    "matches_regex({q}, '(?U)a+')",
    "matches_regex({q}, '\\\\z')",
    "matches_regex({q}, '[^\\\\x00-\\\\x7F]')",
    "matches_regex({q}, '(?i)ß|İ')",
    "matches_regex({q}, '(?i)SS')",
    "semver({q}) > semver('1.0.0-rc.1')",
    "lower({q}) == upper({q})",
    "contains({q}, '')",
    "{q} in ['', 'K', 'ß']",
    "{q} not in []",
    "node.labels matches 'q in (K,00),zone'",
    "node.labels matches 'q > 5'",
    "node.labels matches 'q < 9223372036854775807,q!=K'",
    "quantity({q}) >= 8Ei",
    "node.created < pod.created",
    "age(node.created) > 20000h",
    "{q} == pod.labels['app']",
    "quantity({q}).number in [0, -0.0, 1e18]",
]


def extreme_node(number, label):
    made = node(f"n{number}", labels={} if label is None else {"q": label, "zone": "z"})
    created = CREATED[number % len(CREATED)]
    made["status"]["allocatable"] |= {"cpu": CPU[number % len(CPU)], "memory": MEMORY[number % len(MEMORY)]}
    made["metadata"] |= {} if created is None else {"creationTimestamp": created}
    return made


@pytest.fixture(scope="module")
def snapshot():
    nodes = [extreme_node(*each) for each in enumerate(LABELS)]
    values = [label for label in LABELS if label is not None]
    pods = [pod(f"p{i}", on=f"n{i * 3 % len(nodes)}", labels={"app": value}) for i, value in enumerate(values)]
    return state(nodes, pods).snapshot(NOW)


def agree(rule, expression, snapshot):
    text = rule.replace("{e}", expression.format(q="node.labels['q']"))
    compiled = compile_policy(policy(text + "\n"))
    incoming = case.pending({"pod": pod(labels={"app": "K"})})
    assert list(differences(compiled, BoundPolicy(compiled, incoming, snapshot), incoming, snapshot)) == []


@pytest.mark.parametrize("rule", ["score s = {e} normalize minmax on missing 7", "tie_break {e} desc"])
@pytest.mark.parametrize("expression", NUMBERS)
def test_numbers(expression, rule, snapshot):
    agree(rule, expression, snapshot)


@pytest.mark.parametrize(
    "rule",
    [
        "filter f { require {e} else \"{node.labels['q']}\" on missing pass reject not ({e}) on missing reject }",
        "prefer s = {e} on missing skip",
    ],
)
@pytest.mark.parametrize("expression", CONDITIONS)
def test_conditions(expression, rule, snapshot):
    agree(rule, expression, snapshot)
