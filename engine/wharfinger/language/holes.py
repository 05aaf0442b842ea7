"""Where the holes of a message are.

A message is a string literal as it stands in the file, so that the place of a hole in it is a place in the file. Escapes are resolved in
the text between holes only; a hole holds an expression, which has strings in the other kind of quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Diagnostics
from wharfinger.language.source import Source, Span

PIECE = re.compile(r"""\{\{|\}\}|\{[^{}]*\}|[{}]|\\.|[^{}\\]+""", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


def pieces(source: Source, start: int, end: int, diagnostics: Diagnostics) -> Iterator[str | Span]:
    """The pieces of a message in order: text with its escapes resolved, and the spans between the braces of holes."""
    text = ""
    for found in PIECE.finditer(source.text, start, end):
        piece, span = found.group(), Span(source, found.start(), found.end())
        if piece in {"{{", "}}"}:
            text += piece[0]
        elif piece in {"{", "}"}:
            _lone(piece, span, diagnostics)
        elif piece.startswith("{"):
            if text:
                yield text
            text = ""
            if _usable(piece, span, diagnostics):
                yield Span(source, span.start + 1, span.end - 1)
        else:
            text += ESCAPES.get(piece[1], piece[1]) if piece.startswith("\\") else piece
    if text:
        yield text


def _lone(brace: str, span: Span, diagnostics: Diagnostics) -> None:
    other = "}" if brace == "{" else "{"
    help_ = f"a hole is written `{{expression}}`, a brace itself `{brace * 2}`"
    diagnostics.error(Code.P119, f"`{brace}` without its `{other}` in a message", span, help=help_, suggestion=brace * 2)


def _usable(piece: str, span: Span, diagnostics: Diagnostics) -> bool:
    if not piece[1:-1].strip():
        diagnostics.error(
            Code.P119,
            "a hole without an expression",
            span,
            help="name what is shown: `{node.free.cpu}`; braces themselves are `{{` and `}}`",
        )
        return False
    if "\\" in piece:
        help_ = "in a message in double quotes, the strings inside holes stand in single quotes: `{pod.labels['app']}`"
        diagnostics.error(Code.P119, "a backslash inside a hole", span, help=help_)
        return False
    return True
