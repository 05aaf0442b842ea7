"""The layout of formatted policies."""

import pytest

from tests.unit.language.parsing import codes, expression, parsed, source
from wharfinger.language import ast
from wharfinger.language import format as layout
from wharfinger.language.format import canonical, format_file, format_source
from wharfinger.language.format_expressions import one_line
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.diagnostics import Diagnostics, Source

MESSY = """\
# Licence.

# What it is for.
policy 'web'   version "1"   # trailing
@owner("team") @urgent


for pods where ( pod.namespace=='web' )
param a:count=1 range 0..9
# about b
param b : percent=10%
let c=1


let d   = 2
filter f when (has(node.labels["x"])){# why
   # first
   require a<b and(c or d)   else 'is "{c}"'
   reject not(a==b)on missing pass else "no"  # inline

   # last
}
score s when x weight 5=(y)on missing (0) normalize minmax( 3 )
prefer t=z
base kubernetes{A weight 1,B with{k:[{n:1},{n:2}],l:"x"}}
base kubernetes { A weight 0 }
quantum 1 tier 2
tie_break a asc,b desc
test 't'{node "a" {cpu:4cpu,labels:{"a/b":"c",on:'d'}}
  running w like p on a
  metric m{a:1%,"b-1":2% age 3min}
  param q=3 place p
  expect p on a,"b-1"  expect p:a scores s>=(if x then 1 else 2)
}
# The end.
"""
TIDY = """\
# Licence.

# What it is for.
policy "web" version "1"  # trailing
@owner("team")
@urgent

for pods where pod.namespace == "web"

param a: count = 1 range 0..9
# about b
param b: percent = 10%

let c = 1

let d = 2

filter f when has(node.labels["x"]) {  # why
  # first
  require a < b and (c or d) else 'is "{c}"'
  reject not (a == b) else "no" on missing pass  # inline

  # last
}

score s weight 5 when x = y normalize minmax(3) on missing 0
prefer t = z

base kubernetes {
  A weight 1
  B with { k: [{ n: 1 }, { n: 2 }], l: "x" }
}

base kubernetes { A weight 0 }
quantum 1 tier 2
tie_break a asc, b desc

test "t" {
  node a { cpu: 4cpu, labels: { "a/b": "c", on: "d" } }
  running w like p on a
  metric m { a: 1%, "b-1": 2% age 3min }
  param q = 3
  place p
  expect p on a, "b-1"
  expect p: a scores s >= (if x then 1 else 2)
}
# The end.
"""
LONG = """\
policy "p"

let wanted = count(
  pods where it.labels["app.kubernetes.io/name"] == pod.labels["app.kubernetes.io/name"]
    and it.namespace == pod.namespace
    and (it.priority >= 1000 or it.node_name == "the-special-node"),
  on: node,
)
let models = [
  "NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3", "Tesla-V100-SXM2-32GB", "Tesla-T4",
  "NVIDIA-L40S",
]

filter f {
  require ratio(node.free.memory - pod.requests.memory, node.allocatable.memory) >= keep_free
    else "would leave less than {keep_free} of memory free"
    on missing reject
}

score s weight 5 when pod.labels["tier"] == "web" =
  curve(
    ratio(node.requested.cpu + pod.requests.cpu, node.allocatable.cpu),
    0% -> 40,
    target -> 100,
    95% -> 20,
    98% -> 10,
  )
  on missing neutral

test "t" {
  node a {
    cpu: 4cpu,
    labels: { "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1" },
    taints: ["dedicated=gpu:NoSchedule"],
  }
}
"""


def formatted(text):
    diagnostics = Diagnostics()
    result = format_source(source(text), diagnostics)
    assert not list(diagnostics)
    return result


def test_an_unformatted_file_is_formatted():
    assert formatted(MESSY) == TIDY


@pytest.mark.parametrize("text", [TIDY, LONG], ids=["tidy", "long"])
def test_a_tidy_file_stays_as_it_is(text):
    assert formatted(text) == text


def test_long_lines_are_broken():
    assert formatted(" ".join(LONG.split()).replace(",)", ")").replace(", ]", "]")) == LONG


def test_canonical_text_knows_no_comments_and_no_layout():
    one, _ = parsed(MESSY)
    other, _ = parsed(TIDY.replace("let c = 1\n\n", "let c = 1\n"))
    assert canonical(one) == canonical(other)
    assert "#" not in canonical(one)


def test_a_comment_in_the_middle_moves_above_its_statement():
    assert formatted('policy "p"\nlet a = 1 + # one\n  2 # two\n') == 'policy "p"\n\n# one\nlet a = 1 + 2  # two\n'


def test_for_pods_parts_the_policys_annotations_from_the_items():
    text = 'policy "p"\n@a\n\nfor pods\n\n@b\nlet c = 1\n'
    assert formatted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "a - (b - c)", "(a + b) * c", "-(a + b)", "not (a and b)", "not a.b", "(a ?? b) == c",
        "(a ?? b) and c", "a ?? b + c", "(a ?? b) ?? c",

        "a ?? b ?? c", "(a or b) and c", "a or b and c", "(a == b) == c", "(if a then b else c) + d", "if a then b else c + d",
        "(pods where a) in b", "count(pods where a, on: node)", "(a + b).c", "f(a)[b]", "a in [1, 2]", "a not in b", "[pods where a]",
    ],
)  # fmt: skip
def test_parentheses_stand_where_they_are_needed(text):
    assert one_line(expression(text)) == text


@pytest.mark.parametrize(
    ("written", "kept"),
    [('"a"', '"a"'), ("'a'", '"a"'), ("'say \"x\"'", "'say \"x\"'"), ('"it\'s"', '"it\'s"'),
     (r'"\"\'"', r'''"\"'"'''), (r"'\"\''", r"""'"\''"""), (r'"\n\t\\"', r'"\n\t\\"')],
)  # fmt: skip
def test_strings_keep_what_they_say(written, kept):
    assert one_line(expression(written)) == kept


@pytest.mark.parametrize("length", [253, 254])
def test_an_object_of_a_test_keeps_its_quotes_if_a_name_without_them_would_be_too_long(length):
    name = "n" * length
    shown = name if length == 253 else f'"{name}"'
    text = f"""\
policy "x"

test "a" {{
  node {shown}
  pod web
  place web
  expect web on {shown}
}}
"""
    assert format_source(source(text), Diagnostics()) == text


@pytest.mark.parametrize(
    ("depth", "times"),
    [(60, 110), (24, 280)],
    ids=["more than 256 KiB", "more than 30,000 words"],
)
def test_a_text_that_would_be_too_large_to_be_read_again_is_left_alone(depth, times):
    nested = "{ a: " * depth + "1" + " }" * depth
    nodes = "".join(f"node n{number} {{ labels: {nested} }}\n" for number in range(times))
    diagnostics = Diagnostics()
    assert format_source(source(f'policy "x"\ntest "a" {{\nnode n {{}}\npod p {{}}\nplace p\n{nodes}}}\n'), diagnostics) is None
    [found] = diagnostics
    assert "would be too large to be read again" in found.message


def test_a_file_with_mistakes_is_left_alone_and_the_next_one_is_not():
    diagnostics = Diagnostics()
    assert format_source(source("let a ="), diagnostics) is None
    assert format_source(source("let  a = 1"), diagnostics) == "let a = 1\n"
    assert codes(diagnostics) == ["P100"]


def test_windows_line_ends_become_plain_ones():
    assert format_file(parsed("# a\r\nlet b = 1\r\n")[0]) == "# a\nlet b = 1\n"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("let a = 1 + 2 * b", "let   a = (1 + (2 * b))", True),
        ("let a = 1 + 2 * b", "let a = (1 + 2) * b", False),
        ("let a = 1", "let a = 1%", False),
        ("let a = [1, 2]", "let a = [1, 2, ]", True),
        ("let a = [1, 2]", "let a = [1, 2, 3]", False),
        ("let a = b", "let b = b", False),
        ("let a = 1", "param a: count = 1", False),
        ('test "t" { place p expect p on a, b }', 'test "t" { place p\n expect p on a,  b }', True),
        ('test "t" { place p expect p on a, b }', 'test "t" { place p expect p on a, c }', False),
        ("let a = 1\nlet b = 2", "let a = 1", False),
    ],
)
def test_trees_are_compared_without_their_places(one, other, same):
    texts = [f'policy "x"\n{text}\n' for text in (one, other)]
    trees = [parse(Source(name="x", text=text), Diagnostics()) for text in texts]
    assert ast.is_same_tree(*trees) is same
    assert ast.is_same_tree(*reversed(trees)) is same


def test_a_text_whose_layout_would_change_its_meaning_is_left_alone(monkeypatch):
    tree = parse(Source(name="x", text='policy "x"\nlet a =  1\n'), Diagnostics())
    monkeypatch.setattr(layout, "format_file", lambda _: 'policy "x"\nlet a = 2\n')
    with pytest.raises(AssertionError, match="would change its meaning"):
        layout.format_verified(tree)
