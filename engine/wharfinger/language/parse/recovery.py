"""Feeds the tokens of a file to the parser, and goes on after an unexpected one.

The repairs are tried first on an unexpected token. If none fits, the token is reported, and everything up to
the next token that something on the stack can begin with is skipped: a clause inside a filter, a line inside a test, a declaration or rule
anywhere. Nothing is reported about the skipped part, so that one mistake is one finding.
"""

from __future__ import annotations

from wharfinger.language.parse import grammar, repairs
from wharfinger.language.parse.expectation import expected, found
from wharfinger.language.parse.interactive import CLAUSES, ITEMS, STEPS, Interactive, Place
from wharfinger.language.parse.repairs import GIVE_UP, BrokenText
from wharfinger.language.parse.tokens import CLOSE, OPEN, Token
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.report.source import Source, Span

MOST_FINDINGS = 100


class Recovery:
    """One parse of one list of tokens, the last of which is the end of the text."""

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
        engine = self.engine
        while at < len(self.tokens):
            if not engine.feed(self.tokens[at]):
                at = self._unexpected(at)
            elif engine.too_deep:
                self._too_deep(at)
                return False
            else:
                at += 1
        return at == len(self.tokens)

    def _too_deep(self, at: int) -> None:
        token = self.tokens[at]
        help_ = "name the parts with `let`"
        self.diagnostics.error(Code.P005, "this stands too deep in other things", Span(self.source, token.start, token.end), help=help_)

    def _unexpected(self, at: int) -> int:
        """The index at which to go on after an unexpected token."""
        if self.tokens[at].type == "RBRACE" and self.abandoned and self.place.innermost() is None:
            self.abandoned -= 1
            return at + 1
        if len(self.diagnostics) > MOST_FINDINGS:
            return self._skip_to_end()
        if self._excused(at):
            return self._skip(at)
        repaired = repairs.repaired(self.broken, at)
        if repaired is None and self.broken.touched < self.place.unfinished_statement(at):
            self._report(at)
        return self._skip(at) if repaired is None or repaired == GIVE_UP else repaired

    def _excused(self, at: int) -> bool:
        """True if a finding in this statement already explains the token."""
        statement = self.place.unfinished_statement(at)
        start, here = self.tokens[statement].start, self.tokens[at].start
        return any(start <= offset <= here for offset in self.doubtful) or self.broken.guessed >= statement

    def _report(self, at: int) -> None:
        token = self.tokens[at]
        label = f"expected {expected(self.engine.expected())}"
        end = token.end if token.type != grammar.END else token.start
        self.diagnostics.error(Code.P100, f"unexpected {found(token)}", Span(self.source, token.start, end), label=label)

    # ── going on ──

    def _skip(self, at: int) -> int:
        """The index of the next token from which to go on; the stack is cut back to take it."""
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
        """True if a token may begin something again; `nested` says that an item stands in a block that goes on behind it."""
        kind = self.tokens[index].type
        first = self.place.first_on_line(index)
        if kind == "RBRACE":
            return depth == 0
        if kind in CLAUSES | STEPS and depth == 0 and first and (kind not in ITEMS or not nested):
            return True
        return kind in ITEMS and not nested and (first or (depth == 0 and kind != "AT"))

    def _drop_statement(self) -> None:
        """Forget the statement that is being read: half of it would only be misunderstood."""
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
