"""Text to syntax tree, with every mistake of the text reported and the rest of it kept.

A mistake is repaired where it is clear what was meant (`=` for `==`, a bracket left open, a misspelled keyword). Where it is not, the
parser goes on at the next line that begins with the keyword of something it can be in. A message is a string literal as it stands in
the file, so that the place of an expression in it is a place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from wharfinger.language.parse import grammar
from wharfinger.language.parse.file_nodes import Assembly, SyntaxTree
from wharfinger.language.parse.interactive import Interactive
from wharfinger.language.parse.recovery import Recovery
from wharfinger.language.parse.tokens import Lexer, Respelling, Token
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.report.source import Source, Span
from wharfinger.language.syntax import ast

PIECE = re.compile(r"""\{\{|\}\}|\{[^{}]*\}|[{}]|\\.|[^{}\\]+""", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


def pieces(source: Source, start: int, end: int, diagnostics: Diagnostics) -> Iterator[str | Span]:
    """The pieces of a message in order: text with its escapes resolved, and the spans between the braces of holes."""
    text = ""
    for match in PIECE.finditer(source.text, start, end):
        piece, span = match.group(), Span(source, match.start(), match.end())
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


DEEPEST = 100
DECLARES = frozenset({"LET", "PARAM", "METRIC", "FILTER", "SCORE", "PREFER", "AVOID", "AS"})
NAMED = (ast.Let, ast.Param, ast.Metric, ast.Filter, ast.Score, ast.Import)


def parse(source: Source, diagnostics: Diagnostics) -> ast.File | None:
    """The syntax tree of a file without what could not be read, or None if limits are exceeded or the file is empty.

    Never raises because of the text: whatever is wrong with it is in `diagnostics` afterwards.
    """
    lexer = Lexer(source, diagnostics)
    tokens = lexer.read()
    if lexer.gave_up:
        return None
    if not tokens:
        help_ = 'a policy begins with `policy "name"`'
        diagnostics.error(Code.P001, f"{source.name} says nothing", Span(source, 0, 0), help=help_)
        return None
    words = len(tokens)
    elements = _run("start", source, tokens, lexer.doubtful, diagnostics)
    if elements is None:
        return None
    file = replace(Assembly(source, diagnostics).file(elements), words=words)
    deep = ast.deepest(file, DEEPEST)
    if deep:
        _too_deep(deep, diagnostics)
        return None
    return replace(file, lost=_declared(tokens) - _kept(file)) if diagnostics.has_errors else file


def parse_message(message: ast.String, diagnostics: Diagnostics) -> tuple[str | ast.Expr, ...]:
    """The parts of a message in order: plain text, and the expressions of its holes with their own places in the file.

    `{{` and `}}` stand for braces. A hole that cannot be read is reported and left out.
    """
    source, start, end = message.span.source, message.span.start + 1, message.span.end - 1
    parts: list[str | ast.Expr] = []
    for piece in pieces(source, start, end, diagnostics):
        if isinstance(piece, str):
            parts.append(piece)
        elif (expression := parse_expression(source, piece.start, piece.end, diagnostics)) is not None:
            parts.append(expression)
    return tuple(parts)


def parse_expression(source: Source, start: int, end: int, diagnostics: Diagnostics) -> ast.Expr | None:
    """The expression that the characters `start` to `end` of a source hold, or None with findings if they hold none."""
    lexer = Lexer(source, diagnostics, start, end)
    tokens = lexer.read()
    if lexer.gave_up:
        return None
    expression = _run("expression", source, tokens, lexer.doubtful, diagnostics)
    deep = ast.deepest(expression, DEEPEST) if expression else None
    if deep:
        _too_deep(deep, diagnostics)
    return None if deep else expression


def _run(start: str, source: Source, tokens: list[Token], doubtful: list[int], diagnostics: Diagnostics) -> Any:
    """What the tokens make up, or None."""
    tokens[:] = Respelling(source, tokens, diagnostics).read()
    end = tokens[-1].end if tokens else len(source.text)
    last = Token(grammar.END, "end of the file" if start == "start" else "end of the hole", end, end)
    everything = [*tokens, last]
    parse = Interactive(start)
    if not parse.feed_all(everything):
        parse = Interactive(start)
        if not Recovery(parse, source, everything, doubtful, diagnostics).run():
            return None
    assert parse.tree  # noqa: S101  # the end of the text was taken
    return SyntaxTree(source, diagnostics).transform(parse.tree)


def _too_deep(node: ast.Node, diagnostics: Diagnostics) -> None:
    help_ = "name the parts with `let`; test membership with `in [...]` instead of a chain of `or`"
    diagnostics.error(Code.P005, f"operators stand more than {DEEPEST} deep in each other", node.span, help=help_)


def _declared(tokens: list[Token]) -> frozenset[str]:
    """The names that the text declares, in items that could be read or not."""
    return frozenset(name.text for keyword, name in pairwise(tokens) if keyword.type in DECLARES and name.text.isidentifier())


def _kept(file: ast.File) -> frozenset[str]:
    """The names that the tree declares."""
    items = file.policy.items if file.policy else file.items
    return frozenset(item.name for item in (*items, *file.imports) if isinstance(item, NAMED))
