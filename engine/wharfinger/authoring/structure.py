"""The parts of a text: its statements as an outline, what can be folded, and what a selection grows to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wharfinger.authoring.document import Document
from wharfinger.authoring.statements import Statement
from wharfinger.authoring.words import DECLARATIONS, DECLARED_OBJECTS, Role, Word
from wharfinger.language import ast
from wharfinger.language.parse.tokens import comments


@dataclass(frozen=True, slots=True)
class Symbol:
    """A part of the outline: characters `start` to `end`, and its name at `name_start` to `name_end`.

    `kind` is policy, import, param, let, metric, workload, filter, score, permit, test, "test node", "test pod", or the keyword of one
    without a name.
    """

    name: str
    kind: str
    start: int
    end: int
    name_start: int
    name_end: int
    children: tuple[Symbol, ...] = ()


def outline(document: Document) -> list[Symbol]:
    """The statements of a file with their names; a test has its nodes and pods below it."""
    return [_symbol(each, each.keyword) for each in document.statements if each.keyword is not None]


def _symbol(statement: Statement, keyword: Word) -> Symbol:
    title = {"POLICY": Role.STRING, "TEST": Role.TEST}.get(statement.kind)
    named = next((word for word in statement.words if word.role is title or (title is None and word.role in DECLARATIONS)), None)
    if statement.kind not in {"TEST", "POLICY"} and named is not None and named.role in DECLARED_OBJECTS:
        named = None
    kind = named.role.value if named is not None and title is None else keyword.text
    shown = named or keyword
    children = tuple(
        Symbol(word.name, word.role.value, word.start, word.end, word.start, word.end)
        for word in statement.words
        if word.role in DECLARED_OBJECTS and statement.kind == "TEST"
    )
    return Symbol(shown.name or keyword.text, kind, statement.start, max(statement.end, shown.end), shown.start, shown.end, children)


# ── folding ──


@dataclass(frozen=True, slots=True)
class Fold:
    """Characters of several lines that can be hidden behind their first line; `kind` is "comment" or "region"."""

    start: int
    end: int
    kind: str


def folds(document: Document) -> list[Fold]:
    """What can be folded: brackets over several lines, and comments of several lines."""
    text = document.text
    found = [Fold(start, end, "region") for start, end in _brackets(document.words) if "\n" in text[start:end]]
    found += [Fold(start, end, "comment") for start, end in _comment_blocks(document)]
    return sorted(found, key=lambda fold: (fold.start, -fold.end))


def _brackets(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    waiting: list[Word] = []
    closes = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
    for word in words:
        if word.token in closes:
            waiting.append(word)
        elif word.token in closes.values() and any(closes[each.token] == word.token for each in waiting):
            while closes[(opened := waiting.pop()).token] != word.token:
                pass
            yield opened.start, word.end


def _comment_blocks(document: Document) -> Iterator[tuple[int, int]]:
    text = document.text
    block: list[tuple[int, int]] = []
    for span in comments(document.source):
        alone = not text[text.rfind("\n", 0, span.start) + 1 : span.start].strip()
        if block and not (alone and text[block[-1][1] : span.start].count("\n") == 1):
            if len(block) > 1:
                yield block[0][0], block[-1][1]
            block = []
        if alone:
            block.append((span.start, span.end))
    if len(block) > 1:
        yield block[0][0], block[-1][1]


# ── selections ──


def selections(document: Document, offset: int) -> list[tuple[int, int]]:
    """The characters that a selection at an offset grows to, from the word to the whole text; each holds the one before."""
    text = document.text
    found = {(0, len(text))}
    word = document.word_at(offset)
    if word is not None:
        found.add((word.start, word.end))
    found |= {(each.start, each.end) for each in document.statements if each.start <= offset <= each.end}
    for start, end in _brackets(document.words):
        if start < offset < end:
            found |= {(start, end), (start + 1, end - 1)}
    for statement in document.statements:
        if statement.start <= offset <= statement.end:
            found |= _nodes(document, offset)
            break
    nested: list[tuple[int, int]] = []
    for start, end in sorted(found, key=lambda place: place[1] - place[0]):
        if start <= offset <= end and (not nested or (start <= nested[-1][0] and nested[-1][1] <= end)):
            nested.append((start, end))
    return nested


def _nodes(document: Document, offset: int) -> set[tuple[int, int]]:
    """The nodes of the tree around an offset."""
    found: set[tuple[int, int]] = set()
    file = document.around(offset).checked.file
    if file is None:
        return found
    items = file.policy.items if file.policy is not None else file.items
    pending: list[ast.Node] = [*items, *file.tests, *([file.policy.scope] if file.policy is not None and file.policy.scope else [])]
    while pending:
        node = pending.pop()
        if node.span.source.name == document.name and node.span.start <= offset <= node.span.end:
            found.add((node.span.start, node.span.end))
            pending += ast.children(node)
    return found
