"""Definitions, references, renaming, the outline, folds and selections."""

from itertools import pairwise

import pytest

from wharfinger.authoring import navigation
from wharfinger.authoring.actions import Edit, applied
from wharfinger.authoring.document import Document, findings
from wharfinger.authoring.hover import hover
from wharfinger.errors import UsageError

TEXT = """# Keeps
# room.
policy "x"
import "shared.policy" as shared

param keep: percent = 10%
let free = ratio(node.free.cpu, node.allocatable.cpu) ?? 0%

@owner("me")
filter room {
  require free >= keep else "only {free} of {keep}"
  require free >= shared.least
}

test "one" {
  param keep = 20%
  node a
  node "b-1" like a
  pod web
  place web
  expect web on a, "b-1"
  expect a rejected by room
}

test "two" {
  node a
  pod web
  place web
  expect web on a
}
"""
LIBRARY = "# What all share.\nlet least = 5%\n"


class Stored:
    """The library of the policy."""

    def exists(self, name):
        return name == "shared.policy"

    def read(self, name, diagnostics):
        return Document(name, LIBRARY).source


def document(text=TEXT):
    return Document("x.policy", text, texts=Stored())


LIBRARY_DOCUMENT = Document("shared.policy", LIBRARY)


@pytest.mark.parametrize(
    ("at", "count"),
    [("keep:", 4), ("free =", 4), ("room {", 2), ("a\n  node", 4), ("web\n  place", 3), ("b-1", 2), ("shared\n", 2)],
)
def test_references_and_definition(at, count):
    offset = TEXT.index(at)
    found = navigation.references(document(), offset)
    assert len(found) == count
    assert [each.declares for each in found] == [True] + [False] * (count - 1)
    for each in found:
        assert navigation.definition(document(), each.start)[0] == found[0]


FUNCTIONS = """policy "p"

# What is left.
let left(x: memory) = node.free.memory - x
let floor = 3

filter f {
  require left(pod.requests.memory) > 1Gi and floor(node.pod_count) > 1 and floor == 3 else "{left(1Gi)}"
}
"""


def test_a_declared_function_is_found_where_it_is_called():
    text = Document("x.policy", FUNCTIONS)
    for at in (FUNCTIONS.index("left(x"), FUNCTIONS.index("left(pod")):
        found = navigation.references(text, at)
        assert [(FUNCTIONS[each.start : each.end], each.declares) for each in found] == [("left", True), ("left", False), ("left", False)]
        said = hover(Document("x.policy", FUNCTIONS), at)
        assert said is not None
        assert "What is left" in said.text
    assert len(navigation.references(text, FUNCTIONS.index("floor = 3"))) == 2  # the other one is a function of the language


def test_a_name_of_a_library_is_declared_there():
    found = navigation.definition(document(), TEXT.index("least"))
    assert [(each.file, LIBRARY[each.start : each.end]) for each in found] == [("shared.policy", "least")]
    everywhere = navigation.references(LIBRARY_DOCUMENT, LIBRARY.index("least"), [document()])
    assert [each.file for each in everywhere] == ["shared.policy", "x.policy"]
    assert navigation.definition(document(), TEXT.index('"shared.policy"') + 2)[0].file == "shared.policy"


@pytest.mark.parametrize(
    ("at", "name"), [("keep:", "reserve"), ("free =", "left"), ("room {", "space"), ("web\n  place", "w-2"), ("shared\n", "lib")]
)
def test_a_renamed_text_means_the_same(at, name):
    edits = navigation.renamed(document(), TEXT.index(at), name)
    text = applied(TEXT, tuple(Edit(place.start, place.end, new) for place, new in edits))
    assert text != TEXT
    assert [each.code for each in findings(document(text))] == [each.code for each in findings(document())]
    again = navigation.renamed(document(text), text.index(name), TEXT[TEXT.index(at) :].split(maxsplit=1)[0].strip(":"))
    back = applied(text, tuple(Edit(place.start, place.end, new) for place, new in again))
    assert back.replace('"web"', "web") == TEXT


@pytest.mark.parametrize(
    ("at", "name", "said"),
    [
        ("keep:", "free", "already"),
        ("keep:", "2x", "no name"),
        ("keep:", "filter", "word of the language"),
        ("keep:", "node", "always means"),
        ("ratio", "x", "only params"),
        ("a\n  node", "b-1", "already"),
        ("a\n  node", "b 1", "no name"),
    ],
)
def test_a_refused_rename_gives_the_reason(at, name, said):
    with pytest.raises(UsageError, match=said):
        navigation.renamed(document(), TEXT.index(at), name)


def test_names_are_found_in_a_text_that_does_not_parse():
    text = TEXT.replace("require free >= keep", "require (free >= keep")
    assert len(navigation.references(document(text), text.index("free ="))) == 4


def test_the_outline_lists_the_declarations():
    found = navigation.outline(document())
    names = [
        ("policy", "x"),
        ("import", "shared"),
        ("param", "keep"),
        ("let", "free"),
        ("filter", "room"),
        ("test", "one"),
        ("test", "two"),
    ]
    assert [(each.kind, each.name) for each in found] == names
    assert [each.name for each in found[-2].children] == ["a", "b-1", "web"]
    assert TEXT[found[4].start :].startswith("@owner")
    ends = [each.end for each in found]
    assert all(end <= each.start for end, each in zip(ends, found[1:], strict=False))


def test_each_block_can_be_folded():
    folded = [(TEXT[each.start], TEXT.count("\n", each.start, each.end), each.kind) for each in navigation.folds(document())]
    assert folded == [("#", 1, "comment"), ("{", 3, "region"), ("{", 8, "region"), ("{", 5, "region")]


def test_selections_grow_to_the_surrounding_expression():
    offset = TEXT.index("free >= keep") + 1
    found = navigation.selections(document(), offset)
    texts = [TEXT[start:end] for start, end in found]
    assert texts[:3] == ["free", "free >= keep", 'require free >= keep else "only {free} of {keep}"']
    assert texts[-1] == TEXT
    assert all(outer[0] <= inner[0] and inner[1] <= outer[1] for inner, outer in pairwise(found))


def test_workspace_symbols_match_letters_in_order():
    found = navigation.matching_symbols("rm", [document(), LIBRARY_DOCUMENT])
    assert [symbol.name for _, symbol in found] == ["room"]
    assert len(navigation.matching_symbols("", [document(), LIBRARY_DOCUMENT])) == 8


MIXES = """policy "p"

workload typical = [
  { cpu: 4cpu, gpu: 1, weight: 12% },
]

prefer device smallest = it.capacity["memory"]
prefer device weight 2 = node.pod_count > 3
score frag = fragmentation(typical) normalize minmax

permit together timeout 5min {
  require pod.priority > 0
}
"""


def test_a_workload_is_renamed_where_it_is_used():
    found = navigation.renamed(Document("p.policy", MIXES), MIXES.index("typical"), "usual")
    assert [text for _, text in found] == ["usual", "usual"]


def test_the_outline_names_workloads_and_preferences_among_devices():
    found = [(each.name, each.kind) for each in navigation.outline(Document("p.policy", MIXES))]
    assert found == [
        ("p", "policy"),
        ("typical", "workload"),
        ("smallest", "score"),
        ("device", "score"),
        ("frag", "score"),
        ("together", "permit"),
    ]


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("gpu:", "how many devices"),
        ("typical)", "workload typical"),
        ("device smallest", "ranks the devices"),
        ("device weight", "prefer device w"),
    ],
)
def test_hover_over_workloads_and_devices(at, said):
    found = hover(Document("p.policy", MIXES), MIXES.index(at) + 1)
    assert found is not None
    assert said in found.text


def test_a_workload_may_be_a_name_too():
    text = 'policy "p"\nlet workload = node.pod_count\nscore s = workload normalize max\n'
    assert [(each.name, each.kind) for each in navigation.outline(Document("p.policy", text))] == [
        ("p", "policy"),
        ("workload", "let"),
        ("s", "score"),
    ]


PARAMETERS = """policy "x"

let keep = 1Gi
let left(free: memory, used: set<string>) = if "a" in used then free - keep else free
let twice(free: memory) = free * 2

score roomy = left(twice(node.free.memory), ["a"]) normalize minmax
"""


def test_a_parameter_is_known_in_its_function_alone():
    text = Document("x.policy", PARAMETERS)
    offset = PARAMETERS.index("free - keep")
    found = navigation.references(text, offset)
    assert [PARAMETERS.count("\n", 0, each.start) for each in found] == [3, 3, 3]
    assert navigation.definition(text, offset) == found[:1]
    assert (hover(text, offset).text, hover(text, PARAMETERS.index("used:")).text) == (
        "```policy\nfree: memory\n```\nA parameter.",
        "```policy\nused: set<string>\n```\nA parameter.",
    )
    edits = tuple(Edit(each.start, each.end, name) for each, name in navigation.renamed(text, offset, "room"))
    after = text.with_text(applied(PARAMETERS, edits))
    assert not findings(after)
    assert "let left(room: memory, used: set<string>) = if" in after.text
    assert "let twice(free: memory) = free * 2" in after.text


@pytest.mark.parametrize(
    ("at", "name", "said"),
    [
        ("free:", "used", "already a parameter `used`"),
        ("free:", "keep", "already a let `keep`"),
        ("keep =", "free", "already a parameter `free`"),
        ("free:", "pod", "always means something else"),
    ],
)
def test_a_parameter_and_a_declaration_have_different_names(at, name, said):
    with pytest.raises(UsageError, match=said):
        navigation.renamed(Document("x.policy", PARAMETERS), PARAMETERS.index(at), name)


def test_a_name_that_the_library_has_is_refused_where_it_is_used():
    library = Document("shared.policy", "let least = 5%\nlet most = 9%\n")
    with pytest.raises(UsageError, match="already a value `most`"):
        navigation.renamed(document(), TEXT.index("least"), "most", iter([library]))  # read from disk, once
