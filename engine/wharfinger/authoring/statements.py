"""The statements of a policy with their words, read piece by piece.

A piece is the text between two lines that begin with the keyword of a statement. Its words depend only on the piece. The words of a piece
are cached by its text. After a change only the changed piece is read again, even if the others have moved.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import dropwhile

from msgspec import Struct, field

from wharfinger.authoring.words import Frame, Role, Word, words_of
from wharfinger.language.parse import grammar
from wharfinger.language.parse.interactive import ITEMS, Interactive
from wharfinger.language.parse.tokens import Lexer, Token
from wharfinger.language.report.diagnostics import Diagnostics, Source

MAX_MESSAGE_WORDS = 200  # words of one message that are looked through for the end of a statement
MAX_KEPT = 1000  # readings of pieces, of all documents
MAX_TEXT_LENGTH = 500_000  # characters; a longer text exceeds the limits of the language as a whole


class _Part(Struct, frozen=True):
    """Words of one piece that belong to a statement; the piece begins at `shift`."""

    words: tuple[Word, ...]
    shift: int


class Statement(Struct):
    """A statement of the file: its characters, its keyword and its words; annotations belong to the statement after them.

    It ends after its last word. The words of placeholders end before their message.
    """

    start: int
    end: int
    keyword: Word | None = None
    _parts: list[_Part] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The terminal of the keyword, as in `parse.interactive.ITEMS`; "" without a keyword."""
        return "" if self.keyword is None else self.keyword.token

    @property
    def words(self) -> list[Word]:
        """The words in order."""
        return [word for part in self._parts for word in _moved(part.words, part.shift)]

    def names(self, roles: Collection[Role]) -> set[str]:
        """The names of the words with one of these roles."""
        return {word.name for part in self._parts for word in part.words if word.role in roles}


class _Piece(Struct, frozen=True):
    """The reading of one piece, as if the text began with it."""

    text: str
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]
    statements: tuple[tuple[int, int, Word | None, tuple[Word, ...]], ...]


class Statements:
    """The statements of a text in order, and all its tokens and words."""

    def __init__(self, source: Source) -> None:
        self._pieces = _pieces(source)

    def tokens(self) -> list[Token]:
        """All tokens, as they are written."""
        return [Token(each.type, each.text, each.start + at, each.end + at) for at, piece in self._pieces for each in piece.tokens]

    def words(self) -> list[Word]:
        """The tokens with their roles, those in the placeholders of messages too."""
        return [word for start, piece in self._pieces for word in _moved(piece.words, start)]

    def are_in_order(self) -> bool:
        """True if the grammar allows this sequence of words. Their meaning is not checked.

        The parser reads the pieces before the first incomplete one once. From there on it reads until the first unexpected word.
        """
        rest = dropwhile(lambda piece: _is_complete(piece.text), (piece for _, piece in self._pieces))
        return _is_in_order([token for piece in rest for token in piece.tokens])

    def read(self) -> list[Statement]:
        """The statements; an annotation at the end of a piece belongs to the first statement of the next."""
        found: list[Statement] = []
        for shift, piece in self._pieces:
            for start, end, keyword, words in piece.statements:
                moved = None if keyword is None else keyword.moved(shift)
                if found and found[-1].keyword is None:
                    found[-1].end, found[-1].keyword = end + shift, moved
                    found[-1]._parts.append(_Part(words, shift))  # noqa: SLF001  # of this module
                else:
                    found.append(Statement(start + shift, end + shift, moved, [_Part(words, shift)]))
        return found


def _pieces(source: Source) -> list[tuple[int, _Piece]]:
    """The pieces of a text, each with where it begins."""
    text = source.text
    starts = [0, *(found.start() for found in _beginning().finditer(text) if found.start())] if len(text) <= MAX_TEXT_LENGTH else [0]
    found = [(start, _piece(text[start:end])) for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return [(0, _piece(text))] if any(piece.tokens and piece.tokens[-1].type in {"DOT", "AT"} for _, piece in found[:-1]) else found


@cache
def _beginning() -> re.Pattern[str]:
    """Match a keyword that begins a line and a statement. What follows it shows that it is no name, except after `.` and `@`."""
    spelled = sorted(word for word, terminal in grammar.terminals().keywords.items() if terminal in ITEMS and terminal != "GROUP")
    return re.compile(rf"^(?:(?:{'|'.join(spelled)})(?=[ \t]+[A-Za-z\"_])|group(?=[ \t]+(?:by\b|\{{)))", re.MULTILINE)


@lru_cache(maxsize=MAX_KEPT)
def _piece(text: str) -> _Piece:
    source = Source(name="", text=text)
    tokens = tuple(Lexer(source, Diagnostics()).read())
    words = tuple(words_of(source, tokens))
    return _Piece(text, tokens, words, tuple(_statements(words)))


@lru_cache(maxsize=MAX_KEPT)
def _is_complete(text: str) -> bool:
    """True if a piece consists of whole statements that do not continue in the next piece."""
    return _is_in_order(_piece(text).tokens)


def _is_in_order(tokens: Sequence[Token]) -> bool:
    """True if the grammar allows these tokens as a whole file; without any, they are a part of one."""
    return not tokens or Interactive("start").feed_all([*tokens, Token(grammar.END, "", 0, 0)]) > len(tokens)


def _statements(words: Iterable[Word]) -> Iterator[tuple[int, int, Word | None, tuple[Word, ...]]]:
    """The first and last character, the keyword and the words of each statement."""
    start, keyword, kept, behind = 0, None, list[Word](), -1
    for word in words:
        if word.start >= behind:  # not in a placeholder of a message
            behind = word.end
            begins = word.frame is None and word.token == word.item and word.token in ITEMS and word.role in {Role.KEYWORD, Role.SYMBOL}
            if begins and (not kept or keyword is not None):
                if kept:
                    yield start, _end(kept), keyword, tuple(kept)
                start, keyword, kept = word.start, None, []
            if begins and word.token != "AT":  # noqa: S105  # a terminal
                keyword = word
            if not begins and not kept:  # before the first statement
                continue
        elif not kept:
            continue
        kept.append(word)
    if kept:
        yield start, _end(kept), keyword, tuple(kept)


def _end(words: list[Word]) -> int:
    return max(word.end for word in words[-MAX_MESSAGE_WORDS:])


def _moved(words: Iterable[Word], shift: int) -> Iterable[Word]:
    """Words moved by `shift` characters."""
    if not shift:
        return words
    frames: dict[int, Frame] = {}
    return [word.moved(shift, frames) for word in words]
