"""Messages of rules are filled with values of the node, also where one is missing or very long."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.compiler.messages import MAX_LENGTH, OPEN, filled_message, missing_text, shown
from wharfinger.language.semantics.types import Kind, Type
from wharfinger.model.objects.pod_view import PodView

from .texts import cluster, compiled, node, pod, typed_policy


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (500.0, Kind.CPU, "500m"),
        (2.0 * 2**30, Kind.MEMORY, "2Gi"),
        (0.1, Kind.PERCENT, "10%"),
        (2.0, Kind.COUNT, "2"),
        (30.0, Kind.DURATION, "30s"),
        (0.0, Kind.TIME, "1970-01-01T00:00:00Z"),
        ("web", Kind.STRING, "web"),
        (True, Kind.BOOL, "true"),
        (None, Kind.CPU, "<none>"),
        (frozenset({"b", "a"}), Kind.SET, "[a, b]"),
    ],
)
def test_a_value_in_a_message_is_written_in_its_unit(value: Any, kind: Kind, text: str) -> None:
    assert shown(value, Type(kind, element=Kind.STRING if kind is Kind.SET else None)) == text


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ('node.labels["zone"] == "a"', 'node.labels["zone"] is missing'),
        ('node.labels["a"] == node.labels["b"]', 'node.labels["a"] or node.labels["b"] is missing'),
        ("ratio(node.free.cpu, node.capacity.cpu) > 50%", "ratio(node.free.cpu, node.capacity.cpu) is missing"),
        ('(node.labels["a"] ?? "x") == node.labels["b"]', 'node.labels["b"] is missing'),
        (
            'node.labels["a"] == "" and node.labels["b"] == "" and node.labels["c"] == "" and node.labels["d"] == ""',
            'node.labels["a"] or node.labels["b"] or another value is missing',
        ),
    ],
)
def test_the_message_about_a_missing_value_names_what_is_missing(condition: str, text: str) -> None:
    policy = typed_policy(f'policy "p"\nfilter f {{ require {condition} else "no" on missing reject }}')
    assert missing_text(policy.filters[0].clauses[0].condition, {}) == text


def test_values_in_messages_have_no_characters_that_a_terminal_obeys() -> None:
    policy = compiled("""
    policy "p"
    let note = pod.annotations["note"] ?? ""
    filter f { require node.pod_count < 0 else "no: {note}!" }
    """)
    snapshot, plain = cluster(node("a")).snapshot(), pod("p")
    metadata = structs.replace(plain.object.metadata, annotations={"note": "a\x1b[31mb\nc\x9bd\u202ee\u2028f\x7f"})
    noted = PodView(structs.replace(plain.object, metadata=metadata))
    expected = "no: a\ufffd[31mb c\ufffdd\ufffde f\ufffd!"
    assert BoundPolicy(policy, noted, snapshot).reasons(0) == (expected,)
    rule = policy.policy.filters[0]
    assert Interpreter(policy.policy, policy.params, noted, snapshot).message(rule.clauses[0], 0) == expected


def test_an_interpreted_message_has_the_values_of_the_node() -> None:
    policy = compiled("""
    policy "p"
    filter f {
      require node.free.cpu >= pod.requests.cpu else "{node.free.cpu} of {node.allocatable.cpu} free, pod wants {pod.requests.cpu}"
      require node.labels["gpu"] == "a" else "wrong GPU" on missing reject
    }
    """)
    snapshot = cluster(node("a", cpu="250m")).snapshot()
    incoming = pod("p", cpu="1500m")
    rule = policy.policy.filters[0]
    interpreter = Interpreter(policy.policy, policy.params, incoming, snapshot)
    assert interpreter.message(rule.clauses[0], 0) == "250m of 250m free, pod wants 1.5cpu"
    assert interpreter.message(rule.clauses[1], 0) == 'node.labels["gpu"] is missing'
    assert BoundPolicy(policy, incoming, snapshot).reasons(0)[0] == "… of … free, pod wants 1.5cpu"


def test_a_message_of_many_long_values_is_cut_before_they_are_put_together() -> None:
    policy = typed_policy('policy "p"\nfilter f { require node.pod_count > 3 else "' + "{pod.name} " * 1000 + '" }')
    asked = []

    def value_of(expr: Any) -> str:
        asked.append(expr)
        return "x" * 300

    said = filled_message(policy.filters[0].clauses[0].message, value_of)
    assert len(said) == MAX_LENGTH
    assert said.endswith("x" + OPEN)
    assert len(asked) <= 4


def test_sentences_without_values_of_the_pod_are_made_once_for_all_pods() -> None:
    reasons = compiled("""
    policy "p"
    filter same { require node.labels["gpu"] == "a" else "wrong GPU on {node.name}" on missing reject }
    filter own { require node.pod_count < 0 else "no node for {pod.name}" }
    """).reasons
    first, second = pod("first"), pod("second")

    assert reasons.of(0, first) is reasons.of(0, second)
    assert reasons.of(0, first) == (f"wrong GPU on {OPEN}", 'node.labels["gpu"] is missing')
    assert [reasons.of(1, each) for each in (first, second, first)] == [
        ("no node for first",),
        ("no node for second",),
        ("no node for first",),
    ]
