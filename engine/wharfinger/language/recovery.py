"""After an unexpected token."""

from __future__ import annotations

from wharfinger.language import grammar
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Diagnostics
from wharfinger.language.lexer import Token
from wharfinger.language.shift_reduce import ShiftReduce
from wharfinger.language.source import Source, Span

ITEMS = frozenset(
    {
        "IMPORT",
        "POLICY",
        "FOR",
        "AT",
        "PARAM",
        "LET",
        "METRIC",
        "FILTER",
        "SCORE",
        "PREFER",
        "AVOID",
        "BASE",
        "QUANTUM",
        "TIE_BREAK",
        "TEST",
    }
)
INNER = frozenset({"REQUIRE", "REJECT", "NODE", "POD", "RUNNING", "PLACE", "EXPECT", "RBRACE"})


class Recovery:
    """Drives the engine over the tokens."""

    def __init__(self, engine: ShiftReduce, source: Source, tokens: list[Token], diagnostics: Diagnostics) -> None:
        self.engine = engine
        self.source = source
        self.tokens = tokens
        self.diagnostics = diagnostics

    def run(self, end: Token) -> None:
        """Feed all tokens."""
        tokens = [*self.tokens, end]
        i = 0
        while i < len(tokens):
            if self.engine.feed(tokens[i]):
                i += 1
                continue
            token = tokens[i]
            self.diagnostics.error(Code.P100, f"unexpected `{token.text}`", Span(self.source, token.start, max(token.end, token.start)))
            i = self.skip(tokens, i)

    def skip(self, tokens: list[Token], i: int) -> int:
        """The index of the next token from which to go on."""
        start = i
        while i < len(tokens):
            kind = tokens[i].type
            if kind == grammar.END:
                self.engine.cut_back(kind)
                return i
            if (kind in ITEMS | INNER and (i > start or kind in ITEMS)) and self.engine.cut_back(kind):
                return i
            i += 1
        return i
