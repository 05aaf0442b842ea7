"""The place in a document where something is to be written, and what stands before it: tokens, roles, open brackets and texts in quotes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wharfinger.authoring.document import Document
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.words import Frame, Reading, Role
from wharfinger.language.parse.interactive import ITEMS
from wharfinger.language.parse.tokens import Lexer, Token, comments
from wharfinger.language.report.diagnostics import Diagnostics

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Place:
    """The place in a document where something is to be written: `start` to `end` is the word that has been begun.

    `before` are the tokens before it, from the beginning of the statement of the file, or of the placeholder of a message (`inside`).
    """

    document: Document
    start: int
    end: int
    before: list[Token]
    inside: bool
    role: Role
    reading: Reading
    frame: Frame | None
    cluster: KnownCluster | None

    @property
    def last(self) -> str:
        """The terminal of the token before."""
        return self.before[-1].type if self.before else ""

    @property
    def first_on_line(self) -> bool:
        """True if nothing stands before it on its line."""
        return not self.inside and not self.document.text[: self.start].rpartition("\n")[2].strip()


def in_comment(document: Document, line_start: int, offset: int) -> bool:
    """True if a comment begins between the start of a line and an offset on it."""
    return any(line_start <= each.start < offset for each in comments(document.source) if each.start >= line_start)


def string_at(document: Document, offset: int) -> Token | None:
    """The text in quotes that an offset is in, if it is in one."""
    tokens = document.tokens
    low, high = 0, len(tokens)
    while low < high:
        middle = (low + high) // 2
        if tokens[middle].end < offset:
            low = middle + 1
        else:
            high = middle
    for token in tokens[low : low + 2]:
        if token.type == "STRING" and token.start < offset and (offset < token.end or not _closed(token)):
            return token
    return None


def string_in(document: Document, start: int, offset: int) -> Token | None:
    """The text in quotes that has been begun inside of a placeholder before an offset."""
    found = Lexer(document.source, Diagnostics(), start, offset).read()
    return found[-1] if found and found[-1].type == "STRING" and not _closed(found[-1]) else None


def _closed(token: Token) -> bool:
    return len(token.text) > 1 and token.text[-1] == token.text[0]


def statement_start(document: Document, offset: int) -> int:
    """Where the statement of the file that stands before an offset begins: the last line before it that begins with a keyword."""
    tokens, text = document.tokens, document.text
    for token in reversed(tokens):
        if token.start < offset and token.type in ITEMS and (token.start == 0 or text[token.start - 1] == "\n") and token.end < offset:
            return token.start
    return 0


def tokens_between(document: Document, start: int, end: int) -> list[Token]:
    """The tokens of the characters from `start` to `end`."""
    return Lexer(document.source, Diagnostics(), start, end).read()


def place_at(document: Document, begin: int, offset: int, cluster: KnownCluster | None, *, inside: bool) -> Place:
    """The place at an offset, whose tokens are read from `begin` on; `inside`: it is in a placeholder of a message."""
    begun = _WORD.search(document.text, begin, offset)
    start = begun.start() if begun else offset
    end = offset
    while end < len(document.text) and (document.text[end].isalnum() or document.text[end] == "_"):
        end += 1
    before = tokens_between(document, begin, start)
    reading = Reading(document.source, [*before, Token("NAME", "_", start, max(end, start + 1))])
    if inside:
        reading.item = "FILTER"
    words = list(reading.words())
    return Place(document, start, end, before, inside, words[-1].role, reading, words[-1].frame, cluster)


def written_before(document: Document, offset: int) -> tuple[list[Token], Frame | None, str]:
    """The tokens of the statement before an offset, the innermost bracket that is open there, and the keyword of the statement."""
    begin, inside = statement_start(document, offset), False
    string = string_at(document, offset)
    if string is not None:
        brace = document.text.rfind("{", string.start, offset)
        inside = brace > document.text.rfind("}", string.start, offset)
        begin, offset = (brace + 1, offset) if inside else (begin, string.start)
    place = place_at(document, begin, offset, None, inside=inside)
    return place.before, place.frame, place.reading.item
