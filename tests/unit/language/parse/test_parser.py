"""Precedence and structure: operators, clauses, headers, and the position of each node."""

import pytest

from tests.unit.language.parsing import codes, expression, grouped, parsed, source
from wharfinger.language import ast
from wharfinger.language.parse.parser import parse_message
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.semantics.describe import quoted
from wharfinger.language.test_steps import Expectation


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a or b and not c", "(a or (b and (not c)))"),
        ("a or b or c", "((a or b) or c)"),
        ("not a == b", "(not (a == b))"),
        ("a + b * c - d / e", "((a + (b * c)) - (d / e))"),
        ("a - b - c", "((a - b) - c)"),
        ("-a * b", "((-a) * b)"),
        ("--a", "(-(-a))"),
        ("a ?? b ?? c", "(a ?? (b ?? c))"),
        ("a ?? 0 + 1 >= b", "((a ?? (0 + 1)) >= b)"),
        ("a not in b and c in d", "((a not in b) and (c in d))"),
        ('a.labels matches "x" or b', '((a.labels matches "x") or b)'),
        ("if a then b else c + 1", "(if a then b else (c + 1))"),
        ("if a then b else if c then d else e", "(if a then b else (if c then d else e))"),
        ("pods where a and b", "(pods where (a and b))"),
        ("count(pods where it.x == y or z, on: node)", "count((pods where ((it.x == y) or z)), on: node)"),
        ('pod.labels["x"].y', 'pod.labels["x"].y'),
        ("(a + b) * c", "((a + b) * c)"),
    ],
)
def test_operators_group_by_precedence(text, expected):
    assert grouped(expression(text)) == expected


@pytest.mark.parametrize(
    ("text", "digits", "unit"),
    [
        ("2Gi", "2", "Gi"),
        ("10%", "10", "%"),
        ("1.5", "1.5", ""),
        ("1e3", "1e3", ""),
        ("1E", "1", "E"),
        ("2Gb", "2", "Gb"),
        ("5e", "5", "e"),
    ],
)
def test_digits_and_unit_are_one_number(text, digits, unit):
    number = expression(text)
    assert (number.digits, number.unit) == (digits, unit)


@pytest.mark.parametrize(
    ("text", "value"),
    [('"a"', "a"), ("'a\"b'", 'a"b'), (r'"a\"\\\n\t\r\'"', "a\"\\\n\t\r'"), ('""', ""), ('"# no comment"', "# no comment")],
)
def test_strings_lose_their_quotes_and_escapes(text, value):
    assert expression(text).value == value


@pytest.mark.parametrize("quote", ['"', "'"])
def test_every_text_can_be_written_as_a_string(quote):
    text = "".join(map(chr, range(32, 127))) + "\n\t\r\\n"
    assert expression(quoted(text, quote)).value == text


def test_keywords_are_names_after_a_point_and_before_a_colon():
    assert grouped(expression("f(on: pod.test, weight: node.filter)")) == "f(on: pod.test, weight: node.filter)"


def test_every_node_knows_its_text():
    found = expression('ratio(node.free.memory - 1Gi, b["k"]) >= (limit)')
    assert found.left.span.text == 'ratio(node.free.memory - 1Gi, b["k"])'
    assert found.left.function_span.text == "ratio"
    assert found.left.arguments[0].value.left.field_span.text == "memory"
    assert found.right.span.text == "(limit)"


def test_parts_of_rules_may_are_in_any_order():
    one, _ = parsed('policy "p"\nscore s weight 2 tier 3 when a = b normalize max on missing 0')
    other, findings = parsed('policy "p"\nscore s when a tier 3 weight 2 = b on missing 0 normalize max')
    first, second = one.policy.items[0], other.policy.items[0]
    assert not list(findings)
    assert [grouped(part) for part in (first.tier, first.weight, first.when)] == ["3", "2", "a"]
    assert (second.normalize, second.on_missing.action) == (first.normalize, first.on_missing.action)


def test_annotations_before_for_are_the_policys_and_later_ones_the_next_items():
    file, findings = parsed('policy "p" @a @b(1)\nfor pods\n@c("x")\nlet d = 1\nlet e = 2')
    assert not list(findings)
    assert [annotation.name for annotation in file.policy.annotations] == ["a", "b"]
    assert [[annotation.name for annotation in item.annotations] for item in file.policy.items] == [["c"], []]
    assert file.policy.scope is None


def test_objects_nest_and_lists_hold_objects():
    file, findings = parsed('test "t" { node a { taints: [{ key: "k" }, { key: "l" },], labels: { "a/b": "c", on: "d" } } }')
    taints, labels = file.tests[0].steps[0].fields
    assert not list(findings)
    assert isinstance(taints.value, ast.SetLiteral)
    assert [member.fields[0].value.value for member in taints.value.items] == ["k", "l"]
    assert [field.name for field in labels.value] == ["a/b", "on"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("expect web on a, b", (Expectation.ON, "web", ["a", "b"], None, None)),
        ("expect web not on a", (Expectation.NOT_ON, "web", ["a"], None, None)),
        ('expect web pending message "m"', (Expectation.PENDING, "web", [], None, None)),
        ("expect a rejected", (Expectation.REJECTED, "a", [], None, None)),
        ('expect a rejected by f message "m"', (Expectation.REJECTED, "a", [], "f", None)),
        ("expect a accepted", (Expectation.ACCEPTED, "a", [], None, None)),
        ('expect web: "a-1" rejected by f', (Expectation.REJECTED, "a-1", [], "f", "web")),
    ],
)
def test_an_expect_line_gives_its_subject_nodes_rule_and_pod(line, expected):
    file, findings = parsed(f'test "t" {{ {line} }}')
    step = file.tests[0].steps[0]
    assert not list(findings)
    assert (step.expectation, step.subject, [name for name, _ in step.nodes], step.rule, step.pod) == expected


def message(text):
    file, _ = parsed(f'policy "p"\nfilter f {{ require a else {text} }}')
    diagnostics = Diagnostics()
    parts = parse_message(file.policy.items[0].clauses[0].message, diagnostics)
    return [part if isinstance(part, str) else grouped(part) for part in parts], codes(diagnostics)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('"plain"', ["plain"]),
        ('""', []),
        ('"{a} of {b + 1}"', ["a", " of ", "(b + 1)"]),
        ('"{pod.labels[\'app\']}: {{x}} \\""', ['pod.labels["app"]', ': {x} "']),
        ("'{pod.labels[\"app\"]}'", ['pod.labels["app"]']),
    ],
)
def test_a_message_is_split_into_text_and_placeholders(text, parts):
    assert message(text) == (parts, [])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"{a"', ["P119"]),
        ('"a}"', ["P119"]),
        ('"{}"', ["P119"]),
        ('"{a b}"', ["P100"]),
        ('"{a +}"', ["P100"]),
        ('"{a[\\"b\\"]}"', ["P119"]),
    ],
)
def test_malformed_holes_are_reported_where_they_are(text, found):
    parts, reported = message(text)
    assert (parts, reported) == ([], found) or reported == found


def test_an_expression_of_a_hole_is_in_the_file():
    text = 'policy "p"\nfilter f { require a else "has {node.free.cpu} left" }'
    file, _ = parsed(text)
    _, placeholder, _ = parse_message(file.policy.items[0].clauses[0].message, Diagnostics())
    assert placeholder.span.text == "node.free.cpu"
    assert placeholder.span.source == source(text)
