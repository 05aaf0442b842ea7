"""Text to tokens.

The terminals come from the grammar. This module adds what makes mistakes cheap to explain: a string without its end is one token up to
the end of its line; operators of other languages (`&&`, `!`, `===`) become the operator that was meant, with a finding; names and
numbers that were written as several tokens (`max-pods`, `16 Gi`) are put together before they are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import msgspec

from wharfinger.language.parse import grammar
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Source, Span
from wharfinger.language.semantics.types import UNITS

MAX_TOKENS = 30_000
MAX_NAME_LENGTH = 253  # as long as the name of any Kubernetes object may be
MAX_UNKNOWN_CHARACTERS = 100
MAX_SHOWN = 20
MAX_BRACKET_DEPTH = 100
PLACEHOLDER = re.compile(r"\{\{|(\{[^{}]*\})")
OPEN = frozenset({"LPAR", "LSQB", "LBRACE"})
CLOSE = frozenset({"RPAR", "RSQB", "RBRACE"})

DECLARES = frozenset({"LET", "PARAM", "METRIC", "FILTER", "SCORE", "PREFER", "AVOID", "PERMIT", "AS", "BY"})
NAMES_TEST_OBJECT = frozenset({"NODE", "POD", "RUNNING", "LIKE", "PLACE", "EXPECT", "ON"})
MAX_WORDS = 20
"""The maximum number of words of a name or key with dashes: else a long subtraction would be read again from each word."""
KEY_PARTS = frozenset({"NAME", "NUMBER", "MINUS", "DOT", "SLASH"})


class Token:
    """One word, number, string or symbol: its terminal, its text and its characters in the source."""

    __slots__ = ("end", "start", "text", "type")

    def __init__(self, kind: str, text: str, start: int, end: int) -> None:
        self.type = kind
        self.text = text
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"{self.type}({self.text!r})"


class ForeignOperator(msgspec.Struct, frozen=True):
    """An operator of another language: the terminal that was meant (None: nothing is put in its place) and what to say."""

    meant: str | None
    help: str
    suggestion: str | None = None


FOREIGN: dict[str, ForeignOperator] = {
    "&&": ForeignOperator("AND", "write `and`", "and"),
    "||": ForeignOperator("OR", "write `or`", "or"),
    "&": ForeignOperator("AND", "write `and`", "and"),
    "|": ForeignOperator("OR", "write `or`", "or"),
    "!": ForeignOperator("NOT", "write `not`", "not"),
    "===": ForeignOperator("EQ", "write `==`", "=="),
    "!==": ForeignOperator("NE", "write `!=`", "!="),
    "<>": ForeignOperator("NE", "write `!=`", "!="),
    "=~": ForeignOperator("MATCHES", "a label selector is tested with `matches`, the start of a string with `starts_with(a, b)`"),
    "!~": ForeignOperator("MATCHES", "a label selector is tested with `not … matches …`"),
    "=>": ForeignOperator("ARROW", "the points of a curve are written `x -> y`", "->"),
    "=<": ForeignOperator("LE", "write `<=`", "<="),
    "…": ForeignOperator("DOTDOT", "a range is written `low..high`", ".."),
    "...": ForeignOperator("DOTDOT", "a range is written `low..high`", ".."),
    ":=": ForeignOperator("ASSIGN", "a value is given with `=`", "="),
    "**": ForeignOperator("STAR", "there is no power operator; multiply"),
    "//": ForeignOperator("SLASH", "a comment starts with `#`; a division is one `/`"),
    ";": ForeignOperator(None, "nothing separates one item from the next; leave it out", ""),
    "?": ForeignOperator(None, "a choice is written `if condition then a else b`, a fallback for a missing value `a ?? b`"),
    "%": ForeignOperator(None, "a percentage is written without a space, `10%`; there is no remainder operator"),
    "“": ForeignOperator(None, 'write strings in straight quotes: `"…"`'),
    "”": ForeignOperator(None, 'write strings in straight quotes: `"…"`'),
    "‘": ForeignOperator(None, "write strings in straight quotes: `'…'`"),
    "’": ForeignOperator(None, "write strings in straight quotes: `'…'`"),
    "`": ForeignOperator(None, 'write strings in straight quotes: `"…"`'),
    "–": ForeignOperator("MINUS", "this is a dash from a word processor; the minus sign is `-`", "-"),
    "−": ForeignOperator("MINUS", "this is a typographic minus; the minus sign is `-`", "-"),
    "≤": ForeignOperator("LE", "write `<=`", "<="),
    "≥": ForeignOperator("GE", "write `>=`", ">="),
    "≠": ForeignOperator("NE", "write `!=`", "!="),
}


HIDDEN = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters that are no white space, and those of Unicode that set the direction of text (bidirectional formatting, UAX #9)."""


@cache
def _scanner() -> re.Pattern[str]:
    """One pattern for all tokens; the name of the group is the family that matched. A longer symbol comes before its prefixes."""
    terminals = grammar.terminals()
    symbols = sorted((*terminals.symbols, *FOREIGN), key=lambda symbol: (-len(symbol), symbol))
    skipped = "|".join(terminals.patterns[name] for name in ("WHITESPACE", "COMMENT"))
    families = {
        "skip": f"(?:{skipped})+",
        "NAME": terminals.patterns["NAME"],
        "NUMBER": terminals.patterns["NUMBER"],
        "STRING": terminals.patterns["STRING"],
        "open_string": r"""["'][^\r\n]*""",
        "symbol": "|".join(re.escape(symbol) for symbol in symbols),
        "unknown": r"[^\s\x00-\x7f]+|.",
    }
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in families.items()), re.DOTALL)


@cache
def spelling(terminal: str) -> str:
    """The spelling of a keyword or symbol: `AND` is `and`, `LBRACE` is `{`; the terminal itself for names, numbers and strings."""
    terminals = grammar.terminals()
    return next((text for words in (terminals.symbols, terminals.keywords) for text, name in words.items() if name == terminal), terminal)


def comments(source: Source) -> list[Span]:
    """The comments of a source in order, each without trailing spaces."""
    pattern = re.compile(grammar.terminals().patterns["COMMENT"])
    found = []
    for skipped in _scanner().finditer(source.text):
        if skipped.lastgroup == "skip":
            inside = pattern.finditer(source.text, skipped.start(), skipped.end())
            found += [Span(source, each.start(), each.start() + len(each.group().rstrip())) for each in inside]
    return found


def words_in_placeholders(message: str) -> int:
    """The number of words and symbols in the placeholders of a message; the braces count."""
    return sum(found.lastgroup != "skip" for piece in PLACEHOLDER.finditer(message) for found in _scanner().finditer(piece[1] or ""))


class Lexer:
    """Reads one text, or a part of one, into tokens, and reports what cannot be a token."""

    def __init__(self, source: Source, diagnostics: Diagnostics, start: int = 0, end: int | None = None) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.start = start
        self.end = len(source.text) if end is None else end
        self.tokens: list[Token] = []
        self.words = 0  # those in the placeholders of messages included
        self.gave_up = False
        self.invalid_characters = 0
        self.doubtful: list[int] = []  # where something was left out or swallowed, so that what follows may not make sense

    def span(self, start: int, end: int) -> Span:
        """The span of some characters of the text."""
        return Span(self.source, start, end)

    def read(self) -> list[Token]:
        """All tokens.

        `gave_up` is set where there are too many, where brackets are nested too deep, or where most of the text is no token.
        """
        terminals = grammar.terminals()
        keywords, symbols, tokens = terminals.keywords, terminals.symbols, self.tokens
        for number, match in enumerate(_scanner().finditer(self.source.text, self.start, self.end)):
            family = match.lastgroup
            if number > 2 * MAX_TOKENS:  # every other match at most is white space
                break
            if family == "skip":
                continue
            text, start, end = match.group(), match.start(), match.end()
            if family == "NAME":
                tokens.append(Token(keywords.get(text, "NAME"), text, start, end))
            elif family == "symbol" and text in symbols:
                tokens.append(Token(symbols[text], text, start, end))
            elif family in {"NUMBER", "STRING"}:
                tokens.append(Token(family, text, start, end))
            else:
                self._replace_invalid(family, text, start, end)
                if self.invalid_characters > MAX_UNKNOWN_CHARACTERS:
                    self.gave_up = True
                    break
        self._names_beside_punctuation()
        self._limits()
        return tokens

    def _names_beside_punctuation(self) -> None:
        """A word directly after `.` or before `:` is a name, also if it is a keyword; so is `group` in an expression."""
        before = ""
        tokens = self.tokens
        for index, token in enumerate(tokens):
            kind = token.type
            if kind == "COLON" and index and tokens[index - 1].text.isidentifier():
                tokens[index - 1].type = "NAME"
            elif before == "DOT" and token.text.isidentifier():
                token.type = "NAME"
            elif kind == "GROUP" and before not in {"PLACE", "EXPECT"}:
                following = tokens[index + 1].type if index + 1 < len(tokens) else ""
                token.type = "GROUP" if following in {"BY", "LBRACE"} else "NAME"
            before = kind

    def _limits(self) -> None:
        depth = 0
        for token in self.tokens:
            self.words += 1 + (words_in_placeholders(token.text) if token.type == "STRING" else 0)
            if self.words > MAX_TOKENS:
                self._over(Code.P007, f"more than {MAX_TOKENS:,} words and symbols in one file", token, "split it into several policies")
                return
            if token.type == "NAME" and token.end - token.start > MAX_NAME_LENGTH:
                self._over(Code.P011, f"a name has at most {MAX_NAME_LENGTH} characters", token, "shorten it")
                return
            if token.type in OPEN:
                depth += 1
                if depth > MAX_BRACKET_DEPTH:
                    self._over(Code.P005, f"brackets are nested more than {MAX_BRACKET_DEPTH} deep", token, "name the parts with `let`")
                    return
            elif token.type in CLOSE:
                depth = max(0, depth - 1)

    def report_hidden(self) -> None:
        """Report the first character of the text that cannot be seen; one outside of strings and comments is reported already."""
        found = None if self.invalid_characters else HIDDEN.search(self.source.text)
        if found is not None:
            message = f"the character U+{ord(found[0]):04X} cannot be seen, and may make the text look different from what it says"
            self.diagnostics.error(Code.P012, message, self.span(found.start(), found.end()), help="leave it out")

    def _over(self, code: Code, message: str, token: Token, help: str) -> None:  # noqa: A002  # the field of a diagnostic is called help
        self.gave_up = True
        self.diagnostics.error(code, message, self.span(token.start, token.end), help=help)

    def _replace_invalid(self, family: str | None, text: str, start: int, end: int) -> None:
        """Report characters that are not a token, and replace them by the most likely one."""
        self.invalid_characters += 1
        if family == "open_string":
            self._open_string(text, start, end)
        elif text in FOREIGN:
            self._foreign(text, start, end)
        else:
            short = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
            shown = f"`{short}`" if text.isprintable() else f"U+{ord(text[0]):04X}"
            help_ = "names are made of letters a to z, digits and `_`" if text[0].isalpha() else None
            self.doubtful.append(start)
            self.diagnostics.error(Code.P102, f"{shown} means nothing here", self.span(start, end), help=help_)

    def _open_string(self, text: str, start: int, end: int) -> None:
        quote = text[0]
        self.doubtful.append(start)
        self.tokens.append(Token("STRING", text, start, end))
        self.diagnostics.error(
            Code.P101,
            "this string has no end",
            self.span(start, end),
            label=f"no closing `{quote}` on this line",
            help="a string ends on the line it starts on; inside it, write `\\n` for a new line and `\\" + quote + "` for a quote",
        )

    def _foreign(self, text: str, start: int, end: int) -> None:
        foreign = FOREIGN[text]
        if foreign.meant is None and text != ";":
            self.doubtful.append(start)
        elif foreign.meant:
            self.tokens.append(Token(foreign.meant, spelling(foreign.meant), start, end))
        self.diagnostics.error(
            Code.P103,
            f"`{text}` is not an operator of the language",
            self.span(start, end),
            help=foreign.help,
            suggestion=foreign.suggestion,
        )


class TokenJoiner:
    """One pass over the tokens of a file."""

    def __init__(self, source: Source, tokens: list[Token], diagnostics: Diagnostics) -> None:
        self.source = source
        self.tokens = tokens
        self.diagnostics = diagnostics
        self.dashed = {self._text(run) for run in self._declared()}

    def read(self) -> list[Token]:
        """The tokens with split ones joined; each join is reported."""
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
            return self._spaced_unit(kept, at)
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
        for position in range(at + 1, min(at + 2 * MAX_WORDS, len(self.tokens) - 1), 2):
            dash, word = self.tokens[position], self.tokens[position + 1]
            if dash.type != "MINUS" or dash.start != run[-1].end or word.start != dash.end or not word.text[:1].isalnum():
                break
            run += [dash, word]
        return run

    def _key(self, at: int) -> list[Token] | None:
        """A key with dots, dashes or slashes in front of a colon, without spaces; None for an ordinary key."""
        run = [self.tokens[at]]
        for position in range(at + 1, min(at + 2 * MAX_WORDS, len(self.tokens))):
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
        """`.5`: a point that follows nothing it could belong to, with digits after it."""
        token = self.tokens[at]
        after = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        follows = kept and (kept[-1].type in {"NAME", "RPAR", "RSQB", "STRING", "NUMBER"} or kept[-1].text.isidentifier())
        if after is None or after.type != "NUMBER" or after.start != token.end or (follows and kept[-1].end == token.start):
            return token, at + 1
        whole = f"0.{after.text}"
        self._report(Code.P109, "a number begins with a digit", token.start, after.end, f"write `{whole}`", whole)
        return Token("NUMBER", whole, token.start, after.end), at + 2

    def _spaced_unit(self, kept: list[Token], at: int) -> tuple[Token, int]:
        """`16 Gi`."""
        number, unit = kept.pop(), self.tokens[at]
        whole = number.text + unit.text
        self._report(Code.P109, "write a unit directly after its number", number.start, unit.end, f"write `{whole}`", whole)
        return Token("NUMBER", whole, number.start, unit.end), at + 1

    def _report(self, code: Code, message: str, start: int, end: int, help: str, suggestion: str) -> None:  # noqa: A002, PLR0913, PLR0917  # as the fields of a diagnostic
        self.diagnostics.error(code, message, Span(self.source, start, end), help=help, suggestion=suggestion)
