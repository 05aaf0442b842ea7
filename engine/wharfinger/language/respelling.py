"""Names and numbers that were written as several tokens, put together before anything is parsed.

`max-pods` as a name, `gpu-1` as a node of a test, `app.kubernetes.io/name` as a key, `.5` and `16 Gi` as numbers: each would otherwise
come out as an unexpected symbol somewhere behind the mistake.
"""

from __future__ import annotations

from collections.abc import Iterator

from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Diagnostics
from wharfinger.language.lexer import Token
from wharfinger.language.source import Source, Span
from wharfinger.language.units import UNITS

DECLARES = frozenset({"LET", "PARAM", "METRIC", "FILTER", "SCORE", "PREFER", "AVOID", "AS", "BY"})
NAMES_TEST_OBJECT = frozenset({"NODE", "POD", "RUNNING", "LIKE", "PLACE", "EXPECT", "ON"})
MOST_WORDS = 20  # of a name or key with dashes; without a limit, a long subtraction would be read again from each of its words
KEY_PARTS = frozenset({"NAME", "NUMBER", "MINUS", "DOT", "SLASH"})


class Respelling:
    """One pass over the tokens of a file."""

    def __init__(self, source: Source, tokens: list[Token], diagnostics: Diagnostics) -> None:
        self.source = source
        self.tokens = tokens
        self.diagnostics = diagnostics
        self.dashed = {self._text(run) for run in self._declared()}

    def read(self) -> list[Token]:
        """The tokens with what belongs together in one token; each joint is reported."""
        kept: list[Token] = []
        position = 0
        while position < len(self.tokens):
            token, position = self._next(kept, position)
            kept.append(token)
        return kept

    def _next(self, kept: list[Token], at: int) -> tuple[Token, int]:
        token = self.tokens[at]
        before = kept[-1].type if kept else ""
        if token.type == "DOT":
            return self._leading_point(kept, at)
        if before == "NUMBER" and token.text in UNITS and token.type == "NAME" and self._spaced(kept[-1], token):
            return self._apart(kept, at)
        if not token.text.isidentifier():
            return token, at + 1
        run = self._run(at)
        if len(run) > 1 and (before in DECLARES | NAMES_TEST_OBJECT or self._text(run) in self.dashed):
            return self._dashed(run, before), at + len(run)
        if before in {"LBRACE", "COMMA"} and (key := self._key(at)):
            return self._quoted(key), at + len(key)
        return token, at + 1

    # ── what belongs together ──

    def _declared(self) -> Iterator[list[Token]]:
        for at, token in enumerate(self.tokens[1:], start=1):
            if token.type == "NAME" and self.tokens[at - 1].type in DECLARES:
                run = self._run(at)
                if len(run) > 1:
                    yield run

    def _run(self, at: int) -> list[Token]:
        """Words joined by dashes without spaces, beginning at a token."""
        run = [self.tokens[at]]
        for position in range(at + 1, min(at + 2 * MOST_WORDS, len(self.tokens) - 1), 2):
            dash, word = self.tokens[position], self.tokens[position + 1]
            if dash.type != "MINUS" or dash.start != run[-1].end or word.start != dash.end or not word.text[:1].isalnum():
                break
            run += [dash, word]
        return run

    def _key(self, at: int) -> list[Token] | None:
        """A key with dots, dashes or slashes in front of a colon, without spaces; None where the key is an ordinary one."""
        run = [self.tokens[at]]
        for position in range(at + 1, min(at + 2 * MOST_WORDS, len(self.tokens))):
            token = self.tokens[position]
            if token.start != run[-1].end:
                return None
            if token.type == "COLON":
                return run if len(run) > 1 else None
            if token.type not in KEY_PARTS and not token.text.isidentifier():
                return None
            run.append(token)
        return None

    def _text(self, run: list[Token]) -> str:
        return self.source.text[run[0].start : run[-1].end]

    def _spaced(self, number: Token, unit: Token) -> bool:
        between = self.source.text[number.end : unit.start]
        return between.strip(" ") == "" and number.text.replace(".", "").isdigit()

    # ── what is put in its place ──

    def _dashed(self, run: list[Token], before: str) -> Token:
        text = self._text(run)
        first, last = run[0].start, run[-1].end
        if before in NAMES_TEST_OBJECT:
            self._report(
                Code.P108,
                f"`{text}` has a dash",
                first,
                last,
                f'write names of nodes and pods that have dashes in quotes: `"{text}"`',
                f'"{text}"',
            )
            return Token("STRING", f'"{text}"', first, last)
        joined = text.replace("-", "_")
        if before in DECLARES:
            self._report(Code.P108, f"the name `{text}` has a dash", first, last, f"`-` is the minus sign; write `{joined}`", joined)
        return Token("NAME", joined, first, last)

    def _quoted(self, run: list[Token]) -> Token:
        text = self._text(run)
        first, last = run[0].start, run[-1].end
        self._report(Code.P108, f"the key `{text}` is not a plain word", first, last, f'write it in quotes: `"{text}"`', f'"{text}"')
        return Token("STRING", f'"{text}"', first, last)

    def _leading_point(self, kept: list[Token], at: int) -> tuple[Token, int]:
        """`.5`: a point that follows nothing it could belong to, with digits behind it."""
        token = self.tokens[at]
        after = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        follows = kept and (kept[-1].type in {"NAME", "RPAR", "RSQB", "STRING", "NUMBER"} or kept[-1].text.isidentifier())
        if after is None or after.type != "NUMBER" or after.start != token.end or (follows and kept[-1].end == token.start):
            return token, at + 1
        whole = f"0.{after.text}"
        self._report(Code.P109, "a number begins with a digit", token.start, after.end, f"write `{whole}`", whole)
        return Token("NUMBER", whole, token.start, after.end), at + 2

    def _apart(self, kept: list[Token], at: int) -> tuple[Token, int]:
        """`16 Gi`."""
        number, unit = kept.pop(), self.tokens[at]
        whole = number.text + unit.text
        self._report(Code.P109, "a unit stands directly behind its number", number.start, unit.end, f"write `{whole}`", whole)
        return Token("NUMBER", whole, number.start, unit.end), at + 1

    def _report(self, code: Code, message: str, start: int, end: int, help: str, suggestion: str) -> None:  # noqa: A002, PLR0913, PLR0917  # as the fields of a diagnostic
        self.diagnostics.error(code, message, Span(self.source, start, end), help=help, suggestion=suggestion)
