"""Text to syntax tree, with every mistake of the text reported and the rest of it kept.

A mistake is repaired where it is clear what was meant (`=` for `==`, a bracket left open, a misspelled keyword). Where it is not, the token
is reported, and the parser continues at the next line that begins with the keyword of something it can be in. Nothing is reported about the
part between, so that one mistake is one finding. A message is a string literal as written in the file, so positions of expressions in it
are positions in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.parse import grammar, repairs
from wharfinger.language.parse.file_nodes import Assembly, SyntaxTree
from wharfinger.language.parse.interactive import CLAUSES, ITEMS, STEP_TERMINALS, Interactive, Place, terminals_in_words, token_in_words
from wharfinger.language.parse.repairs import CANNOT_REPAIR, BrokenText
from wharfinger.language.parse.tokens import CLOSE, OPEN, Lexer, Token, TokenJoiner
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Source, Span
from wharfinger.language.semantics.types import ESCAPES

MAX_FINDINGS = 100

PIECE = re.compile(r"""\{\{|\}\}|\{[^{}]*\}|[{}]|\\.|[^{}\\]+""", re.DOTALL)

MAX_DEPTH = 100
DECLARES = frozenset({"LET", "PARAM", "METRIC", "WORKLOAD", "FILTER", "SCORE", "PREFER", "AVOID", "AS"})
NAMED = (ast.Let, ast.Function, ast.Param, ast.Metric, ast.Workload, ast.Filter, ast.Score, ast.DevicePreference, ast.Import)


class Recovery:
    """Parses one list of tokens with error recovery; the last token is the end of the text."""

    def __init__(self, engine: Interactive, source: Source, tokens: list[Token], doubtful: list[int], diagnostics: Diagnostics) -> None:
        self.engine = engine
        self.source = source
        self.tokens = tokens
        self.doubtful = doubtful
        self.diagnostics = diagnostics
        self.place = Place(engine, source, tokens)
        self.broken = BrokenText(self.place, doubtful, diagnostics)
        self.abandoned = 0  # braces of blocks that were given up: their ends close nothing now

    def run(self) -> bool:
        """True if the parser got to the end of the text."""
        at = 0
        while at < len(self.tokens):
            at = self.engine.feed_all(self.tokens, at)
            if self.engine.too_deep:
                self._too_deep(at)
                return False
            if at < len(self.tokens):
                at = self._unexpected(at)
        return at == len(self.tokens)

    def _too_deep(self, at: int) -> None:
        token = self.tokens[at]
        help_ = "name the parts with `let`"
        self.diagnostics.error(Code.P005, "this is nested too deep", Span(self.source, token.start, token.end), help=help_)

    def _unexpected(self, at: int) -> int:
        """The index at which to continue after an unexpected token."""
        if self.tokens[at].type == "RBRACE" and self.abandoned and self.place.innermost() is None:
            self.abandoned -= 1
            return at + 1
        if len(self.diagnostics) > MAX_FINDINGS:
            return self._skip_to_end()
        if self._already_reported(at):
            return self._skip(at)
        repaired = repairs.repaired(self.broken, at)
        if repaired is None and self.broken.touched < self.place.unfinished_statement(at):
            self._report(at)
        return self._skip(at) if repaired is None or repaired == CANNOT_REPAIR else repaired

    def _already_reported(self, at: int) -> bool:
        """True if a finding in this statement already explains the token."""
        statement = self.place.unfinished_statement(at)
        start, end = self.tokens[statement].start, self.tokens[at].start
        return any(start <= offset <= end for offset in self.doubtful) or self.broken.guessed >= statement

    def _report(self, at: int) -> None:
        token = self.tokens[at]
        label = f"expected {terminals_in_words(self.engine.expected())}"
        end = token.end if token.type != grammar.END else token.start
        self.diagnostics.error(Code.P100, f"unexpected {token_in_words(token)}", Span(self.source, token.start, end), label=label)

    # ── continuing ──

    def _skip(self, at: int) -> int:
        """The index of the next token from which to continue; the stack is cut back to take it."""
        stop = self.place.end_of_nested(at)
        if stop == at and not (self.place.first_on_line(at) and self.place.level()):
            self._drop_statement()
        depth = 0
        for index in range(at, len(self.tokens)):
            kind = self.tokens[index].type
            if kind == grammar.END:
                break
            if kind in OPEN:
                depth += 1
            elif kind in CLOSE and depth:
                depth -= 1
            elif self._resumes(index, depth, nested=index < stop) and (length := self.place.resumable(kind)):
                self._cut_to(length, kind, depth)
                return index
        return self._skip_to_end()

    def _resumes(self, index: int, depth: int, *, nested: bool) -> bool:
        """True if a token may begin something again; `nested` is true for an item inside a block."""
        kind = self.tokens[index].type
        first = self.place.first_on_line(index)
        if kind == "RBRACE":
            return depth == 0
        if kind in CLAUSES | STEP_TERMINALS and depth == 0 and first and (kind not in ITEMS or not nested):
            return True
        return kind in ITEMS and not nested and (first or (depth == 0 and kind != "AT"))

    def _drop_statement(self) -> None:
        """Drop the statement that is being read: half a statement would lead to misleading findings."""
        length = self.place.unfinished()
        if length:
            before = self.place.open_braces()
            self.engine.cut_to(length)
            self.abandoned += before - self.place.open_braces()

    def _cut_to(self, length: int, kind: str, skipped: int) -> None:
        """Cut the stack, and remember braces that were open on it or skipped, so that their ends are not reported."""
        before = self.place.open_braces()
        self.engine.cut_to(length)
        if kind != "RBRACE":
            self.abandoned += before - self.place.open_braces() + skipped

    def _skip_to_end(self) -> int:
        end = len(self.tokens) - 1
        length = self.place.resumable(grammar.END)
        if not length:
            return end + 2
        self.engine.cut_to(length)
        return end


def pieces(source: Source, start: int, end: int, diagnostics: Diagnostics) -> Iterator[str | Span]:
    """The pieces of a message in order: text with its escapes resolved, and the spans between the braces of placeholders."""
    text = ""
    for match in PIECE.finditer(source.text, start, end):
        piece, span = match.group(), Span(source, match.start(), match.end())
        if piece in {"{{", "}}"}:
            text += piece[0]
        elif piece in {"{", "}"}:
            _report_lone_brace(piece, span, diagnostics)
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


def _report_lone_brace(brace: str, span: Span, diagnostics: Diagnostics) -> None:
    other = "}" if brace == "{" else "{"
    help_ = f"a placeholder is written `{{expression}}`, a brace itself `{brace * 2}`"
    diagnostics.error(Code.P119, f"`{brace}` without its `{other}` in a message", span, help=help_, suggestion=brace * 2)


def _usable(piece: str, span: Span, diagnostics: Diagnostics) -> bool:
    if not piece[1:-1].strip():
        diagnostics.error(
            Code.P119,
            "a placeholder without an expression",
            span,
            help="name what is shown: `{node.free.cpu}`; braces themselves are `{{` and `}}`",
        )
        return False
    if "\\" in piece:
        help_ = "in a message in double quotes, write the strings inside placeholders in single quotes: `{pod.labels['app']}`"
        diagnostics.error(Code.P119, "a backslash inside a placeholder", span, help=help_)
        return False
    return True


def parse(source: Source, diagnostics: Diagnostics) -> ast.File | None:
    """The syntax tree of a file without the parts that could not be parsed, or None if limits are exceeded or the file is empty.

    Never raises because of the text: whatever is wrong with it is in `diagnostics` afterwards.
    """
    lexer = Lexer(source, diagnostics)
    tokens = lexer.read()
    if lexer.gave_up:
        return None
    lexer.report_hidden()
    if not tokens:
        help_ = 'a policy begins with `policy "name"`'
        diagnostics.error(Code.P001, f"{source.name} declares nothing", Span(source, 0, 0), help=help_)
        return None
    elements = _run("start", source, tokens, lexer.doubtful, diagnostics)
    if elements is None:
        return None
    file = replace(Assembly(source, diagnostics).file(elements), words=lexer.words)
    deep = ast.deepest(file, MAX_DEPTH)
    if deep:
        _too_deep(deep, diagnostics)
        return None
    return replace(file, lost=_declared(tokens) - _kept(file)) if diagnostics.has_errors else file


def parse_message(message: ast.String, diagnostics: Diagnostics) -> tuple[str | ast.Expr, ...]:
    """The parts of a message in order: plain text, and the expressions of its placeholders with their own places in the file.

    `{{` and `}}` are braces. A placeholder that cannot be read is reported and left out.
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
    deep = ast.deepest(expression, MAX_DEPTH) if expression else None
    if deep:
        _too_deep(deep, diagnostics)
    return None if deep else expression


def _run(start: str, source: Source, tokens: list[Token], doubtful: list[int], diagnostics: Diagnostics) -> Any:
    """The value of the production that the tokens form, or None with findings."""
    tokens[:] = TokenJoiner(source, tokens, diagnostics).read()
    end = tokens[-1].end if tokens else len(source.text)
    last = Token(grammar.END, "end of the file" if start == "start" else "end of the expression", end, end)
    everything = [*tokens, last]
    parse = Interactive(start)
    if not Recovery(parse, source, everything, doubtful, diagnostics).run():
        return None
    assert parse.tree  # noqa: S101  # the end of the text was taken
    return SyntaxTree(source, diagnostics).transform(parse.tree)


def _too_deep(node: ast.Node, diagnostics: Diagnostics) -> None:
    help_ = "name the parts with `let`; test membership with `in [...]` instead of a chain of `or`"
    diagnostics.error(Code.P005, f"operators are nested more than {MAX_DEPTH} deep", node.span, help=help_)


def _declared(tokens: list[Token]) -> frozenset[str]:
    """The names that the text declares, in items that could be read or not."""
    return frozenset(name.text for keyword, name in pairwise(tokens) if keyword.type in DECLARES and name.text.isidentifier())


def _kept(file: ast.File) -> frozenset[str]:
    """The names that the tree declares."""
    items = file.policy.items if file.policy else file.items
    return frozenset(item.name for item in (*items, *file.imports) if isinstance(item, NAMED))
