"""Findings, hover, highlighting and formatting of a document, and that no prefix of a text makes them fail."""

import pytest

from tests.unit.language.diagnostic_case import NAME, cases, content
from tests.work import calls
from wharfinger.authoring import navigation, vocabulary
from wharfinger.authoring.completion.candidates import candidates
from wharfinger.authoring.document import Document, EditorTexts, findings
from wharfinger.authoring.highlighting import KINDS, MODIFIERS, highlights
from wharfinger.authoring.hover import hover
from wharfinger.authoring.inline_texts import InlayHints
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.protocol.positions import Positions
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.language import load
from wharfinger.language.files import shipped_policies
from wharfinger.language.format import format_source
from wharfinger.language.parse import grammar
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics.catalogue import SOURCES
from wharfinger.language.semantics.types import Kind
from wharfinger.simulate.cluster import load_cluster

SHIPPED = sorted(shipped_policies().glob("*.policy"))
DIAGNOSED = cases()


@pytest.fixture(scope="module")
def openb():
    return KnownCluster("openb:default", load_cluster(["openb:default"]))


def hovered(text, word, cluster=None):
    found = hover(Document("x.policy", text), text.index(word) + 1, cluster)
    return found.text if found else None


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_findings_are_those_of_check(path):
    said_alike(path)


@pytest.mark.parametrize("case", DIAGNOSED[::7], ids=str)
def test_findings_about_mistakes_are_those_of_check(case, tmp_path):
    for name, text in {**case.files, NAME: case.broken}.items():
        (tmp_path / name).write_bytes(content(text))
    said_alike(tmp_path / NAME)


def said_alike(path):
    """Each finding has the code, the message, the help and the place that `wharf check` prints."""
    policies, reported = load.load_policies([path], CATALOGUE)
    for policy in policies if not reported.has_errors else ():
        cost.report(policy, reported)
    document = Document(str(path), path.read_text("utf-8"), texts=load.OnDisk())
    wanted = [(each.code.name, each.message, each.help, each.span.start) for each in reported if each.span.source.name == str(path)]
    assert [(each.code, each.message, each.help, each.start) for each in findings(document)] == wanted


def test_a_finding_is_that_of_check():
    found = findings(Document("x.policy", 'policy "x"\nscore s = node.pod_cuont'))
    assert [each.text for each in found] == ["`node` has no field `pod_cuont`: unknown field\nhelp: did you mean `node.pod_count`?"]
    assert found[0].suggestion == "pod_count"


def test_arguments_that_a_plugin_refuses_are_findings():
    text = 'policy "x"\nbase kubernetes { NodeResourcesFit with { strategy: "Wrong" } }'
    found = findings(Document("x.policy", text))
    assert [(each.code, text[each.start : each.end]) for each in found] == [("", "NodeResourcesFit")]


def test_tests_in_a_test_file_are_checked_with_the_policy():
    texts = {
        "a.policy": 'policy "a"\nscore s = 1\n',
        "a_test.policy": 'test "t" {\n  node n\n  pod p\n  place p\n  expect n scores x == 1\n}\n',
    }

    class Stored:
        def exists(self, name):
            return name in texts

        def read(self, name, diagnostics):
            raise AssertionError("both are open")

    document = Document("a_test.policy", texts["a_test.policy"], texts=EditorTexts(texts, Stored()))
    assert [each.code for each in findings(document)] == ["P702"]


@pytest.mark.parametrize(
    ("text", "word", "wanted"),
    [
        ("let x = node.free.cpu", "cpu", "cpu (millicores)"),
        ("let x = node.free.cpu", "free", "A group of fields"),
        ('let x = node.labels["a"]', "labels", "string? (may be missing)"),
        ("let x = ratio(node.free.cpu, 1cpu)", "ratio", "missing where `whole` is 0"),
        ("let x = count(pods, on: node)", "count", "The number of selected pods"),
        ("let x = 16Gi", "16Gi", "17,179,869,184 bytes"),
        ("# How full\n# a node is.\nlet full = 3\nscore s = full", "full = 3", "How full a node is."),
        ("param keep: percent = 10% range 0%..50%\nscore s = 100 * keep", "keep: ", "0% to 50%"),
        ("filter f {\n  require true\n}", "require", vocabulary.KEYWORDS["require"]),
        ("score s = 1 normalize minmax", "minmax", "The lowest value gets 0"),
        ("metric m: percent = prometheus('q', max_age: 1min)", "max_age", "How old"),
        ("metric m: percent = prometheus('q', max_age: 1min)", "prometheus", "a query in quotes"),
        ("base kubernetes { NodeAffinity weight 3 }", "NodeAffinity", "addedAffinity"),
        ('test "t" { node a { taints: [] } }', "taints", "Taints, as kubectl writes them."),
        ('filter f {\n  require true else "{node.name}"\n}', "name}", "The node's name."),
        ("filter broken { require (\n\nlet x = node.free.cpu", "cpu", "cpu (millicores)"),
    ],
)
def test_the_hover_text_has_the_type_the_documentation_or_the_value_of_a_word(text, word, wanted):
    assert wanted in hovered(text, word)


def test_a_number_with_an_unknown_unit_has_no_hover():
    assert hovered("let x = 3pod", "3pod") is None
    assert hovered("let x = 1.5e3", "1.5e3") is None


def test_hover_shows_the_spread_over_the_nodes(openb):
    text = 'policy "x"\nlet gpus = node.free["nvidia.com/gpu"]\nscore s = clamp(gpus ?? 0, 0, 100)\n'
    text += 'let kind = node.labels["nvidia.com/gpu.product"]\n'
    assert hovered(text, "gpus ??", openb).endswith("1,523 nodes of openb:default; 1,213 have it: least 1, median 8, most 8")
    assert "1,213 have it: " in hovered(text, "labels", openb)
    assert "T4 (404)" in hovered(text, "kind", openb)
    assert "openb" not in hovered("let x = pod.requests.cpu", "cpu", openb)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_highlights_cover_the_words_without_overlap(path):
    text = path.read_text("utf-8")
    found = highlights(Document("x", text))
    ends = [0, *(each.end for each in found)]
    assert all(end <= each.start < each.end for end, each in zip(ends, found, strict=False))
    assert all("\n" not in text[each.start : each.end] for each in found)
    assert {each.kind for each in found} <= set(KINDS)
    assert {modifier for each in found for modifier in each.modifiers} <= set(MODIFIERS)
    letters = sum(each.end - each.start for each in found)
    assert letters == sum(not char.isspace() for char in text) - _plain(text, found)


def _plain(text, found):
    """Characters that are no white space outside of what is highlighted, less the spaces inside."""
    shown = {at for each in found for at in range(each.start, each.end)}
    return sum(not char.isspace() and at not in shown for at, char in enumerate(text)) - sum(text[at].isspace() for at in shown)


def test_highlights_distinguish_kinds_of_names():
    text = 'param p: cpu = 1cpu\nlet l = p\nfilter f {\n  require l > p else "has {node.free.cpu} of {p}" on missing pass\n}\n'
    found = [(text[each.start : each.end], each.kind) for each in highlights(Document("x", text))]
    for wanted in [("p", "parameter"), ("cpu", "type"), ("l", "variable"), ("f", "method"), ("pass", "enumMember"), ('"has {', "string")]:
        assert wanted in found
    assert ("} of {", "string") in found
    assert ("free", "property") in found


def test_formatting_is_that_of_fmt():
    assert Document("x", 'policy   "x"\nscore  s=1').formatted == 'policy "x"\n\nscore s = 1\n'
    assert Document("x", 'policy "x"\nscore s = (').formatted is None


def test_formatting_reads_a_text_that_has_been_checked_no_second_time():
    text = 'policy "x"\n' + "".join(f"let a{i} = {i} * ({i} + node.pod_count)\n" for i in range(50))
    first, second = Document("x", text), Document("x", text)
    assert first.checked.policy is not None
    assert second.statements
    assert calls(lambda: first.formatted) * 10 < calls(lambda: second.formatted) * 9


def test_a_text_of_one_long_statement_is_checked_once_for_a_hover_and_its_findings():
    document = Document("x", f'policy "x"\nscore s = {" + ".join(["node.pod_count"] * 50)} normalize max\n')
    assert hover(document, document.text.index("pod_count")) is not None
    assert document.is_checked


@pytest.mark.parametrize("case", DIAGNOSED[::12], ids=str)
def test_formatting_reads_what_the_parser_reads(case):
    """The pieces of a text are in the grammar's order exactly where the formatter needs it: for each text and its beginnings."""
    for text in (case.broken, case.mended):
        for end in {len(text), *range(0, min(len(text), 2000), 80)}:
            formats_alike(text[:end])


@pytest.mark.parametrize(
    "text",
    [
        'policy "x"\n\ntest "t" {\nnode a\nmetric load { a: 1 }\nparam keep = 3\npod p\nplace p\nexpect p on a\n}\n',
        'policy "x"\n\nfilter\nf {\nrequire true\n}\n\n@owner("a")\n\nscore s = 1\n',
        'policy "x"\n\nlet a =\nscore s = 1\n',
        'policy "x"\n\nlet a = (1 +\n# said\nscore s = 1\n',
        "# only a comment\n",
    ],
)
def test_formatting_reads_statements_that_go_on_at_a_keyword(text):
    formats_alike(text)


def formats_alike(text):
    assert Document("x.policy", text).formatted == format_source(Source(name="x.policy", text=text), Diagnostics())


@pytest.mark.parametrize("text", ["", "a\nb", "a\r\nb\rc", "😀x\n😀", "é\n\n", "\ufeffpolicy"])
def test_places_are_counted_as_editors_do(text):
    positions = Positions(text)
    for offset in range(len(text) + 1):
        line, unit = positions.at(offset)
        inside = offset and text[offset - 1 : offset + 1] == "\r\n"
        assert inside or positions.offset(line, unit) == offset
        assert positions.from_units(positions.to_units(offset)) == offset
    assert positions.offset(99, 0) == len(text)
    assert positions.offset(0, 99) == len(text.splitlines()[0]) if text else True


def test_a_place_behind_a_wide_character():
    assert Positions("😀x").at(1) == (0, 2)
    assert Positions("😀x").offset(0, 1) == 0


def test_a_place_far_behind_a_wide_character_is_no_more_work():
    """An editor is told the places of all words; a policy may stand in one line."""

    def work(length):
        positions = Positions("😀" + "x" * length)
        return calls(lambda: (positions.at(length), positions.offset(0, length), positions.to_units(length), positions.from_units(length)))

    assert work(10_000) == work(10)


def test_every_fixed_word_has_a_text():
    assert set(vocabulary.KEYWORDS) == set(grammar.terminals().keywords)
    assert set(vocabulary.TYPES) >= {kind.value for kind in Kind} - {"unknown"}
    assert set(vocabulary.OPTIONS) == {option for source in SOURCES.values() for option in source.options}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_no_prefix_of_a_text_makes_an_answer_fail(path):
    """Every answer after every n-th letter of a file that is typed in."""
    text = path.read_text("utf-8")
    step = max(1, len(text) // 25)
    for end in range(0, len(text), step):
        document = Document("x.policy", text[:end])
        candidates(document, end)
        hover(document, max(0, end - 2))
        highlights(document)
        findings(document)
        _ = document.formatted


@pytest.mark.parametrize("line", ["let a = b c\n", "let x-y = x-y\n", "let a = a + 1\n", 'import "x" as y\n'])
@pytest.mark.parametrize("ask", [lambda document: hover(document, 20), lambda document: InlayHints().of(document)], ids=["hover", "hints"])
def test_a_name_that_is_declared_very_often_is_followed_once(line, ask):
    few, many = (calls(lambda n=n: ask(Document("x.policy", 'policy "x"\n' + line * n)), limit=6_000_000) for n in (1_000, 2_000))
    assert many <= 2.2 * few


@pytest.mark.parametrize("ask", [navigation.references, navigation.renamable, navigation.definition])
def test_the_work_for_the_parameters_of_a_function_grows_with_their_number(ask):
    def work(n):
        names = [f"x{number}" for number in range(n)]
        text = f'policy "x"\nlet f({", ".join(f"{name}: count" for name in names)}) = {" + ".join(names)}\n'
        document = Document("x.policy", text)
        assert document.words
        return calls(lambda: ask(document, text.index("x7")), limit=20_000_000)

    assert work(400) < 2.2 * work(200)
