"""How the function is called whose arguments are being written."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.authoring import vocabulary
from wharfinger.authoring.completing.place import written_before
from wharfinger.authoring.document import Document
from wharfinger.authoring.texts import called, parameters
from wharfinger.authoring.words import Frame
from wharfinger.builtins import CATALOGUE
from wharfinger.language.parse.tokens import CLOSE, OPEN, Token
from wharfinger.language.semantics.metric_sources import SOURCES


@dataclass(frozen=True, slots=True)
class Signature:
    """A call as it is written, its documentation, its parameters as they stand in it, and the number of the one being written."""

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
    return [Signature(text, doc, shown, _active(shown, count, named)) for text, doc, shown in _ways(frame.name, item)]


def _ways(name: str, item: str) -> list[tuple[str, str, tuple[str, ...]]]:
    if item == "METRIC" and name in SOURCES:
        shown = ("query", *(f"{option}: {row.kind.value}" for option, row in SOURCES[name].options.items()))
        return [(f"{name}({', '.join(shown)})", f"Takes {SOURCES[name].argument}, and options by name.", shown)]
    functions = [each for each in CATALOGUE.functions() if each.name.partition(".")[0] == name]
    found = [(called(each), each.doc, tuple(parameters(each))) for each in functions]
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
