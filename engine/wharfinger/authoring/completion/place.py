"""The position of a completion in a document: the text before it, the form of a candidate, and the enclosing call."""

from __future__ import annotations

from string import ascii_letters, digits

from msgspec import Struct

from wharfinger.authoring import vocabulary
from wharfinger.authoring.document import Document
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.vocabulary import parameters, signature_text
from wharfinger.authoring.words import Frame, Reading, Role
from wharfinger.builtins import CATALOGUE
from wharfinger.language.parse.interactive import ITEMS
from wharfinger.language.parse.tokens import CLOSE, OPEN, Lexer, Token, comments
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.semantics.catalogue import SOURCES

_LETTERS = frozenset(f"{ascii_letters}{digits}_")


class Place(Struct, frozen=True):
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
        """True if the line is empty before it."""
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
    """The offset of the statement before an offset: the last line before it that begins with a keyword."""
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
    start = end = offset
    while start > begin and document.text[start - 1] in _LETTERS:  # no search by a pattern, which would begin at each letter of the text
        start -= 1
    while start < offset and document.text[start] in digits:
        start += 1
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


class Candidate(Struct, frozen=True, kw_only=True):
    """One thing that may be written: characters `start` to `end` are replaced by `insert`, which is the label unless given.

    `kind` is field, function, value, subject, keyword, word, type, unit, key, label, object, rule, plugin or annotation. In a `snippet`,
    `$1` and `${1:text}` are where the author continues, as in the Language Server Protocol. Offers of a lower `rank` come first.
    """

    label: str
    kind: str
    start: int
    end: int
    insert: str = ""
    snippet: bool = False
    detail: str = ""
    doc: str = ""
    rank: int = 1

    @classmethod
    def word(cls, place: Place, label: str, kind: str, **more: object) -> Candidate:
        """An offer in place of the word that has been begun."""
        return cls(label=label, kind=kind, start=place.start, end=place.end, **more)  # type: ignore[arg-type]  # its own fields

    @property
    def written(self) -> str:
        """The text to insert."""
        return self.insert or self.label


class Signature(Struct, frozen=True):
    """A call as text, its documentation, the text of its parameters, and the index of the parameter at the cursor."""

    text: str
    doc: str
    parameters: tuple[str, ...]
    active: int


def signatures(document: Document, offset: int) -> list[Signature]:
    """The ways to call the function around an offset; none outside of a call."""
    tokens, frame, item = written_before(document, offset)
    while frame is not None and frame.holds != "call":
        if frame.holds not in {"group", "set", "index"}:
            return []
        frame = frame.around
    if frame is None:
        return []
    count, named = _argument(tokens, frame)
    return [Signature(text, doc, shown, _active(shown, count, named)) for text, doc, shown in _signature_forms(frame.name, item)]


def _signature_forms(name: str, item: str) -> list[tuple[str, str, tuple[str, ...]]]:
    if item == "METRIC" and name in SOURCES:
        shown = ("query", *(f"{option}: {row.kind.value}" for option, row in SOURCES[name].options.items()))
        return [(f"{name}({', '.join(shown)})", f"Takes {SOURCES[name].argument}, and options by name.", shown)]
    functions = [each for each in CATALOGUE.functions() if each.name.partition(".")[0] == name]
    found = [(signature_text(each), each.doc, tuple(parameters(each))) for each in functions]
    if name in vocabulary.SPECIAL_FORMS:
        text, doc = vocabulary.SPECIAL_FORMS[name]
        found.append((text, doc, tuple(text[len(name) + 1 : -1].split(", "))))
    return found


def _argument(tokens: list[Token], frame: Frame) -> tuple[int, str]:
    """The number of the argument that the tokens end in, and its name if it has one."""
    depth = count = 0
    named = ""
    inside = [token for token in tokens if token.start > frame.at]
    for at, token in enumerate(inside):
        depth += (token.type in OPEN) - (token.type in CLOSE)
        if depth == 0 and token.type == "COMMA":
            count, named = count + 1, ""
        elif depth == 0 and token.type == "COLON" and at:
            named = inside[at - 1].text
    return count, named


def _active(shown: tuple[str, ...], count: int, named: str) -> int:
    if named:
        return next((at for at, text in enumerate(shown) if text.startswith(f"{named}:")), max(0, len(shown) - 1))
    return min(count, max(0, len(shown) - 1))
