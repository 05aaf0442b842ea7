"""Semantic highlighting: the kind of each word, in the names that the Language Server Protocol gives to kinds of words."""

from __future__ import annotations

from msgspec import Struct

from wharfinger.authoring.document import Document
from wharfinger.authoring.words import DECLARATIONS, Role, Word
from wharfinger.language.parse import tokens

KINDS = (
    "comment",
    "keyword",
    "operator",
    "number",
    "string",
    "property",
    "function",
    "type",
    "decorator",
    "enumMember",
    "class",
    "parameter",
    "variable",
    "namespace",
    "method",
    "event",
    "struct",
)
"""The kinds of words, standard ones of the protocol (3.17)."""

MODIFIERS = ("declaration", "readonly", "defaultLibrary")

_KIND: dict[Role, str] = {
    Role.KEYWORD: "keyword",
    Role.SYMBOL: "operator",
    Role.NUMBER: "number",
    Role.STRING: "string",
    Role.SUBJECT: "variable",
    Role.FIELD: "property",
    Role.FUNCTION: "function",
    Role.KEY: "property",
    Role.TYPE: "type",
    Role.ANNOTATION: "decorator",
    Role.WORD: "enumMember",
    Role.PLUGIN: "class",
    Role.PARAM: "parameter",
    Role.LET: "variable",
    Role.METRIC: "event",
    Role.WORKLOAD: "variable",
    Role.IMPORT: "namespace",
    Role.PARAMETER: "parameter",
    Role.VALUE: "variable",
    Role.FILTER: "method",
    Role.SCORE: "method",
    Role.PERMIT: "method",
    Role.RULE: "method",
    Role.TEST: "string",
    Role.TEST_NODE: "struct",
    Role.TEST_POD: "struct",
    Role.OBJECT: "struct",
}
_PUNCTUATION = frozenset({"LPAR", "RPAR", "LSQB", "RSQB", "LBRACE", "RBRACE", "COMMA", "COLON", "DOT"})
_LIBRARY = frozenset({Role.SUBJECT, Role.FUNCTION, Role.PLUGIN, Role.TYPE})


class Highlight(Struct, frozen=True):
    """Characters `start` to `end`, all on one line, with their kind of `KINDS` and those of `MODIFIERS` that hold."""

    start: int
    end: int
    kind: str
    modifiers: tuple[str, ...] = ()


def highlights(document: Document) -> list[Highlight]:
    """The words of a document with their kinds, in order and without overlap; punctuation is left out."""
    declared = {word.name: _KIND[word.role] for word in document.words if word.role in DECLARATIONS}
    found = [Highlight(span.start, span.end, "comment") for span in tokens.comments(document.source)]
    message: Word | None = None
    written = 0  # how far the message has been written; the words of its placeholders follow it
    for word in document.words:
        if message is not None and word.start > message.end:
            found += _string(message, written, message.end)
            message = None
        if word.role is Role.STRING:
            message, written = word, word.start
        elif word.role is not Role.SYMBOL or word.token not in _PUNCTUATION:
            if message is not None:
                found += _string(message, written, word.start)
                written = word.end
            found.append(_highlight(word, declared))
    if message is not None:
        found += _string(message, written, message.end)
    return sorted(found, key=lambda each: each.start)


def _string(message: Word, start: int, end: int) -> list[Highlight]:
    return [Highlight(start, end, "string")] if message.start <= start < end else []


def _highlight(word: Word, declared: dict[str, str]) -> Highlight:
    kind = declared.get(word.name, _KIND[word.role]) if word.role in {Role.VALUE, Role.OBJECT, Role.RULE} else _KIND[word.role]
    modifiers = [
        *(["declaration"] if word.role in DECLARATIONS else []),
        *(["readonly"] if kind in {"parameter", "variable"} else []),
        *(["defaultLibrary"] if word.role in _LIBRARY else []),
    ]
    return Highlight(word.start, word.end, kind, tuple(modifiers))
