"""Editors get an answer for any text: no prefix of a policy and no changed text makes a request fail."""

import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lsprotocol import types as lsp

from tests.unit.language.diagnostic_case import cases, content
from wharfinger.authoring.actions import actions
from wharfinger.authoring.document import Document, findings
from wharfinger.authoring.inline_texts import InlayHints
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.protocol.answers import Answers
from wharfinger.authoring.statements import Statements
from wharfinger.authoring.words import words_of
from wharfinger.errors import UsageError
from wharfinger.language.files import shipped_policies
from wharfinger.language.parse.tokens import Lexer
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.simulate.cluster import load_cluster

LONGEST = 20_000  # characters; longer ones are about limits
BROKEN = [content(case.broken).decode("utf-8", "replace") for case in cases()]
TEXTS = [
    *(path.read_text("utf-8") for path in sorted(shipped_policies().glob("*.policy"))),
    *(each for each in BROKEN if len(each) < LONGEST),
]
PIECES = ["{", "}", "(", ")", '"', "'", "[", "]", ".", ":", ",", "=", "#", "\n", "\r", "😀", "@", "{node.", "test", "node", "as", "0x", "%"]


@pytest.fixture(scope="module")
def cluster():
    return KnownCluster("openb:default", load_cluster(["openb:default"]))


@st.composite
def begun(draw):
    """A text as it may stand in an editor, and a place in it."""
    text = draw(st.sampled_from(TEXTS))
    end = draw(st.integers(0, len(text)))
    kept = draw(st.sampled_from(["prefix", "cut", "changed"]))
    rest = text[end:] if kept != "prefix" else ""
    piece = draw(st.sampled_from(PIECES)) if kept == "changed" else ""
    skipped = draw(st.integers(0, min(30, len(rest)))) if kept == "cut" else 0
    return text[:end] + piece + rest[skipped:], min(end, len(text))


@settings(max_examples=60, deadline=None)
@given(begun())
def test_every_question_has_an_answer(cluster, found):
    text, offset = found
    answers = Answers(cluster)
    document = answers.workspace.changed("x.policy", text, 1)
    length = len(text)
    answers.completion(document, offset)
    answers.hover(document, offset)
    answers.signature_help(document, offset)
    answers.definition(document, offset)
    answers.references(document, offset, declarations=True)
    answers.highlight(document, offset)
    answers.folding(document)
    answers.semantic_tokens(document)
    answers.inlay_hints(document, 0, length)
    answers.actions(document, offset, offset, [])
    for lens in answers.lenses(document):
        answers.resolved(lens)
    with contextlib.suppress(UsageError):
        answers.rename(document, offset, "other_name")
    for each in answers.selection(document, [offset]):
        grown = each
        while grown.parent is not None:
            assert inside(grown.range, grown.parent.range)
            grown = grown.parent
    symbols = answers.symbols(document)
    assert all(inside(each.selection_range, each.range) for each in symbols)
    assert all(inside(child.range, each.range) for each in symbols for child in each.children)
    end = answers.position(document, length)
    assert all(inside(each.range, lsp.Range(lsp.Position(0, 0), end)) for each in answers.diagnostics(document))
    answers.formatting(document)
    answers.completion(document, offset)
    answers.actions(document, 0, length, [])


MISSPELT_HEAD = """plicy "p"
score one = count(pods where starts_with(it.name, "web-"), on: node) normalize minmax
"""


@settings(max_examples=60, deadline=None)
@given(begun())
@example((MISSPELT_HEAD, 1))
def test_inlay_hints_do_not_depend_on_what_was_asked_before(found):
    """Those that were kept from an earlier version are those that the text has when it is read for the first time."""
    text, offset = found
    hints = InlayHints()
    for version in (text[:offset], text[:offset] + "\n" + text[offset:], text):
        assert hints.of(Document("x.policy", version)) == InlayHints().of(Document("x.policy", version))


@settings(max_examples=300, deadline=None)
@given(begun())
def test_words_read_piece_by_piece_are_those_of_the_whole_text(found):
    source = Source(name="x.policy", text=found[0])
    statements = Statements(source)
    tokens = Lexer(source, Diagnostics()).read()
    assert list(map(repr, statements.tokens())) == list(map(repr, tokens))
    assert statements.words() == words_of(source, tokens)
    inside_statements = [word for each in statements.read() for word in each.words]
    assert inside_statements == statements.words()[len(statements.words()) - len(inside_statements) :]


@pytest.mark.parametrize(
    "text",
    [each for each in BROKEN if len(each) < LONGEST],
    ids=[each.path.stem for each in cases() if len(content(each.broken)) < LONGEST],
)
def test_fixes_do_not_depend_on_what_has_been_checked_before(text):
    """A document that has not been checked is asked by the statement alone; its fixes of errors are those that the whole text has."""
    whole = Document("x.policy", text)
    for finding in findings(whole):
        if finding.severity == "error":
            assert fixed(Document("x.policy", text), finding.start) == fixed(whole, finding.start)


def fixed(document, offset):
    """The changes at a place that mend errors."""
    return [(each.title, each.edits) for each in actions(document, offset, offset) if each.fixes and each.fixes.severity == "error"]


def inside(inner, outer):
    def place(position):
        return (position.line, position.character)

    return place(outer.start) <= place(inner.start) <= place(inner.end) <= place(outer.end)
