"""Conditions are printed with the values of their operands below them."""

import pytest

from tests.hostile.writing import each, joined
from tests.unit.simulate import clusters
from wharfinger.explain import conditions
from wharfinger.framework.chain import assemble


def shown(condition, lets="", row=0, n_nodes=3):
    text = f'policy "p"\n{lets}\nfilter f {{\n  {condition} else "no"\n}}\n'
    compiled, state = clusters.policy(text), clusters.state_of(n_nodes)
    [pod] = clusters.pods_of(1)
    interpreter = conditions.interpreter_of(compiled, pod, state.snapshot())
    return conditions.operands(interpreter, compiled.policy, compiled.policy.filters[0].clauses[0].condition, row)


@pytest.mark.parametrize(
    ("condition", "lines"),
    [
        (
            "require node.allocatable.cpu >= 4cpu",
            ['require node.allocatable.cpu >= 4cpu else "no"', "        |                    |", "        8cpu                 true"],
        ),
        (
            'reject (node.labels["nope"] ?? "-") == pod.namespace',
            [
                'reject (node.labels["nope"] ?? "-") == pod.namespace else "no"',
                "        |                   |       |  |",
                '        missing             "-"     |  "default"',
                "                                    false",
            ],
        ),
        (
            "require pod.priority != 0",
            ['require pod.priority != 0 else "no"', "        |            |", "        0            false"],
        ),
        (
            'require not (pod.qos in ["Guaranteed"])',
            [
                'require not (pod.qos in ["Guaranteed"]) else "no"',
                "        |    |       |",
                "        true |       false",
                '             "Burstable"',
            ],
        ),
        (
            'require pod.qos not in ["Guaranteed"]',
            ['require pod.qos not in ["Guaranteed"] else "no"', "        |       |", "        |       true", '        "Burstable"'],
        ),
        (
            'require node.labels matches "disktype in (hdd)"',
            ['require node.labels matches "disktype in (hdd)" else "no"', "        |", "        true"],
        ),
        (
            'require has(node.free["x"]) or count(pods, on: node) < 5',
            [
                'require has(node.free["x"]) or count(pods, on: node) < 5 else "no"',
                "        |   |               |  |                     |",
                "        |   missing         |  0                     true",
                "        false               true",
            ],
        ),
    ],
)
def test_values_stand_under_their_operands(condition, lines):
    assert shown(condition) == lines


def test_lets_are_followed_but_not_what_selects_pods():
    lets = 'let all = pods where (it.labels["app"] ?? "") == "x"\nlet n = count(all, on: node)\nlet twice = n * 2'
    assert shown("require twice < 3", lets) == [
        'require twice < 3 else "no"',
        "        |     |",
        "        0     true",
        "let twice = n * 2",
        "            | |",
        "            0 0",
        "let n = count(all, on: node)",
        "        |",
        "        0",
    ]


def test_values_of_an_expression_over_several_lines_stand_under_each_line():
    lines = shown("require node.pod_count < 5\n    and node.allocatable.cpu > 1cpu")
    assert lines[0] == "require node.pod_count < 5"
    assert lines[3].startswith("and node.allocatable.cpu > 1cpu")


def test_values_from_the_right_never_touch():
    found = tuple(conditions.Value(1, column, text) for column, text in [(1, "aaaa"), (3, "b"), (5, "cc"), (8, "d")])
    assert conditions._under([(value.column - 1, value.text) for value in found]) == [
        "| | |  |",
        "| b cc d",
        "aaaa",
    ]


def test_a_long_line_is_cut_and_the_values_of_its_beginning_are_shown():
    lines = shown(f"require {joined(each('(pod.priority == {0}9)', 200), ' or ')}")
    assert lines[0].endswith("…")
    assert max(map(len, lines)) <= conditions.MAX_COLUMNS + len("false")


def test_of_many_values_the_first_ones_are_shown():
    numbers = ",\n    ".join(each("pod.priority + {0}", 200))
    assert sum(line.count("pod.priority") for line in shown(f"require max(\n    {numbers}) > 900")) == conditions.MAX_VALUES // 2


def test_of_many_clauses_that_fail_the_first_ones_are_given():
    text = 'policy "p"\nfilter f {\n' + 'require pod.priority > 9 else "no"\n' * 200 + "}\n"
    compiled, state = clusters.policy(text), clusters.state_of(3)
    [pod] = clusters.pods_of(1)
    explainer = conditions.PolicyExplainer(assemble([compiled]))
    sentences, lines = explainer.rejection(pod, state.snapshot(), "p/f", 0)
    assert sentences == (*["no"] * conditions.MAX_CLAUSES, "and 180 more requirements")
    assert sentences == explainer.sentences(pod, state.snapshot(), "p/f", 0)
    assert len(lines) == 3 * conditions.MAX_CLAUSES
