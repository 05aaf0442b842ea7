"""What an author most likely meant by an unexpected token.

Each method of `TRICKS` looks for one kind of mistake. It answers None when it does not recognise it; otherwise it has reported it and says
where to go on, with the token changed, left out or preceded by what was missing, or `GIVE_UP` where the rest of the statement makes no
sense.
"""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.language import grammar
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Diagnostics, Label
from wharfinger.language.expectation import found
from wharfinger.language.habits import HABITS, PERMIT
from wharfinger.language.lexer import CLOSE, Token, spelling
from wharfinger.language.place import CLAUSES, CLOSER, ITEMS, STEPS, Open, Place
from wharfinger.language.source import Span
from wharfinger.language.suggest import closest

GIVE_UP = -1
COMPARATORS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE", "IN", "MATCHES"})
NAMED = frozenset({"LET", "PARAM", "METRIC", "FILTER", "SCORE", "PREFER", "AVOID"})
MISSING_PUNCTUATION = ("COMMA", "ASSIGN", "COLON", "LBRACE", "ELSE", "WHERE", "VERSION", "WEIGHT", "THEN", "ON", "BY", "MESSAGE")
NEEDLESS = frozenset({"COLON", "ASSIGN", "COMMA"})
STATEMENT_ENDS = ITEMS | CLAUSES | CLOSE | {"COMMA", "ELSE", "ON", "THEN", "AND", "OR", "ASSIGN", "NORMALIZE", "RANGE", grammar.END}


class Mending:
    """Tries the tricks on an unexpected token."""

    def __init__(self, place: Place, doubtful: list[int], diagnostics: Diagnostics) -> None:
        self.place = place
        self.engine = place.engine
        self.source = place.source
        self.tokens = place.tokens
        self.diagnostics = diagnostics
        self.doubtful = doubtful
        self.touched = -1  # index of the last token that was mended
        self.guessed = -1  # index of the last token before which something was put in, or which was left out, on a mere guess
        self.nameless = 0

    def mended(self, at: int) -> int | None:
        """Where to go on, `GIVE_UP`, or None where no trick fits."""
        result = next((result for trick in TRICKS if (result := trick(self, at)) is not None), None)
        if result is not None:
            self.touched = at
        return result

    # ── shared ──

    def _span(self, first: Token, last: Token | None = None) -> Span:
        return Span(self.source, first.start, (last or first).end)

    def _kind(self, at: int) -> str:
        return self.tokens[at].type if at < len(self.tokens) else grammar.END

    def _previous(self, at: int) -> Token | None:
        return self.tokens[at - 1] if at else None

    def _becomes(self, at: int, kind: str) -> int:
        self.tokens[at].type, self.tokens[at].text = kind, spelling(kind)
        return at

    def _put_in(self, kind: str, text: str, at: int) -> int:
        """Feed a token that is not in the text, before the one at `at`."""
        place = self.tokens[at - 1].end if at else self.tokens[at].start
        self.engine.feed(Token(kind, text, place, place))
        return at

    # ── tricks ──

    def _permit(self, at: int) -> int | None:
        if self.tokens[at].text != PERMIT or self.place.level() != "file":
            return None
        help_ = "there is no way yet to hold a placed pod back until its group is complete"
        self.diagnostics.error(Code.P118, "`permit` is not supported yet", self._span(self.tokens[at]), help=help_)
        return GIVE_UP

    def _equals(self, at: int) -> int | None:
        """`=` for `==`, and the other way round."""
        token = self.tokens[at]
        other = {"ASSIGN": "EQ", "EQ": "ASSIGN"}.get(token.type)
        if other is None or not self.engine.accepts(other, self._kind(at + 1)):
            return None
        if other == "EQ":
            message, help_ = "`=` does not compare", "write `==`; a single `=` gives a name its value"
        else:
            message, help_ = "`==` gives no value", "write `=`; two of them compare"
        self.diagnostics.error(Code.P107, message, self._span(token), help=help_, suggestion=spelling(other))
        return self._becomes(at, other)

    def _chain(self, at: int) -> int | None:
        """`a < b < c`."""
        token = self.tokens[at]
        if token.type not in COMPARATORS or not self.engine.accepts("AND") or self.engine.accepts("NUMBER"):
            return None
        help_ = "join two comparisons with `and`: `a < b and b < c`; group with parentheses where a truth value is compared"
        self.diagnostics.error(Code.P106, "comparisons do not chain", self._span(token), label="a second comparison", help=help_)
        depth = 0
        for index in range(at + 1, len(self.tokens)):
            kind = self._kind(index)
            if depth == 0 and (kind in STATEMENT_ENDS or self.place.first_on_line(index)):
                return index
            depth += (kind in CLOSER) - (kind in CLOSE)
        return len(self.tokens) - 1

    def _nesting(self, at: int) -> int | None:
        """A rule inside a filter, a clause outside of one, a line of a test outside of one."""
        token = self.tokens[at]
        around = self.place.innermost()
        word = f"`{token.text}`"
        if around and around.block and token.type in ITEMS and token.type != "AT" and self.place.partner(around.bracket):
            others = (Label(self._span(around.block), f"this `{around.block.text}` is not closed before it"),)
            help_ = f"move it behind the `}}` of the `{around.block.text}`"
            self.diagnostics.error(
                Code.P116, f"{word} cannot stand inside a `{around.block.text}`", self._span(token), others=others, help=help_
            )
            return GIVE_UP
        if token.type in CLAUSES and self.place.level() == "file":
            help_ = f'write `filter name {{ {token.text} … else "…" }}`'
            self.diagnostics.error(Code.P116, f"{word} stands inside a filter", self._span(token), help=help_)
            return GIVE_UP
        if token.type in STEPS and self.place.level() == "file" and self.place.first_on_line(at):
            help_ = f'write `test "what it shows" {{ {token.text} … }}`'
            self.diagnostics.error(Code.P116, f"{word} stands inside a test", self._span(token), help=help_)
            return GIVE_UP
        return None

    def _habit(self, at: int) -> int | None:
        """A word of other schedulers."""
        token = self.tokens[at]
        habit = HABITS.get(token.text)
        if habit is None:
            return None
        meant = next((kind for kind in habit.meant if self.engine.accepts(kind, self._kind(at + 1))), None)
        begins = self.place.first_on_line(at) and self.place.level()
        if meant is None and not begins:
            return None
        suggestion = spelling(meant) if meant else None
        self.diagnostics.error(
            Code.P114, f"`{token.text}` is not a word of the language", self._span(token), help=habit.help, suggestion=suggestion
        )
        return self._becomes(at, meant) if meant else GIVE_UP

    def _keyword_as_name(self, at: int) -> int | None:
        token = self.tokens[at]
        if not token.text.isidentifier() or token.type == "NAME" or not self.engine.accepts("NAME", self._kind(at + 1)):
            return None
        if token.type in ITEMS and self.place.first_on_line(at):
            return None
        message = f"`{token.text}` is a word of the language and cannot be a name"
        self.diagnostics.error(
            Code.P115, message, self._span(token), help=f"choose another name, such as `{token.text}_1`", suggestion=f"{token.text}_1"
        )
        token.type = "NAME"
        return at

    def _misspelled(self, at: int) -> int | None:
        """A keyword with a letter wrong, or in capitals."""
        token = self.tokens[at]
        if not token.text.isidentifier():
            return None
        words = {
            spelling(kind): kind for kind in sorted(self.engine.expected()) if spelling(kind).isidentifier() and spelling(kind) != kind
        }
        near = token.text.lower() if token.text.lower() in words else closest(token.text, words) if len(token.text) > 2 else None
        if near is None or near == token.text or not self.engine.accepts(words[near], self._kind(at + 1)):
            return None
        self.diagnostics.error(
            Code.P113, f"unknown word `{token.text}`", self._span(token), help=f"did you mean `{near}`?", suggestion=near
        )
        return self._becomes(at, words[near])

    def _unknown_keyword(self, at: int) -> int | None:
        """A word that begins a line where a keyword should."""
        token = self.tokens[at]
        level = self.place.level()
        if not token.text.isidentifier() or not self.place.first_on_line(at) or level is None:
            return None
        where, words = BEGINNINGS[level]
        self.diagnostics.error(Code.P113, f"`{token.text}` begins no {where}", self._span(token), help=f"these do: {words}")
        return GIVE_UP

    def _number(self, at: int) -> int | None:
        """`5.` and `1.2.3`."""
        point, number = (self.tokens[at - 1], self.tokens[at - 2]) if at > 1 else (None, None)
        if point is None or number is None or point.type != "DOT" or number.type != "NUMBER" or number.end != point.start:
            return None
        last = self.tokens[at] if self._kind(at) == "NUMBER" else point
        help_ = "a number is digits, at most one point with digits on both sides, and a unit"
        self.diagnostics.error(Code.P109, f"`{self._span(number, last).text}` is not a number", self._span(number, last), help=help_)
        return GIVE_UP

    def _range(self, at: int) -> int | None:
        """`range 1 to 10`, `range [1, 10]`, `in 1..10`."""
        ended = self._kind(at) in ITEMS | {grammar.END}
        statement = self.place.statement(at - 1 if ended else at)
        if self._kind(statement) != "PARAM":
            return None
        start = next((index for index in range(at, statement, -1) if self._kind(index) == "RANGE"), None)
        if start is None and self._kind(at) == "DOTDOT":
            start = next((index for index in range(at, statement, -1) if self._kind(index) == "IN"), at - 1)
        if start is None or start == at:
            return None
        last = at - 1 if ended else at
        span = self._span(self.tokens[start], self.tokens[last])
        self.diagnostics.error(Code.P123, "this is not a range", span, help="write `range low..high`: `range 1..10`")
        return GIVE_UP

    def _without_name(self, at: int) -> int | None:
        """`score weight 5 = …`."""
        before = self._previous(at)
        if before is None or before.type not in NAMED or not self.engine.accepts("NAME", self._kind(at)):
            return None
        help_ = f"every `{before.text}` has a name, by which messages, tests and reports speak of it: `{before.text} name …`"
        self.diagnostics.error(
            Code.P100, f"this `{before.text}` has no name", self._span(before), label="expected a name behind it", help=help_
        )
        self.nameless += 1
        return self._put_in("NAME", f"nameless_{self.nameless}", at)

    def _unclosed(self, at: int) -> int | None:
        """A bracket that nothing closes."""
        around = self.place.innermost()
        token = self.tokens[at]
        if around is None or (self.place.partner(around.bracket) is not None and not self._next_step(around, at)):
            return None
        closer = CLOSER[around.bracket.type]
        if not self.engine.accepts(closer):
            return None
        if token.type != grammar.END and not self.engine.accepts(closer, token.type):
            return None
        if any(around.bracket.start < offset < token.start for offset in self.doubtful):
            return self._put_in(closer, spelling(closer), at)  # a string without an end has swallowed it
        shown = f"`{around.bracket.text}`"
        others = (Label(self._span(token), f"expected `{spelling(closer)}` before this"),) if token.type != grammar.END else ()
        self.diagnostics.error(
            Code.P104,
            f"{shown} is never closed",
            self._span(around.bracket),
            label="opened here",
            others=others,
            help=f"add `{spelling(closer)}`",
        )
        return self._put_in(closer, spelling(closer), at)

    def _next_step(self, around: Open, at: int) -> bool:
        """Whether the next line of a test begins while the object of the last one is open: then the object's brace is missing."""
        kind = self._kind(at)
        inside = around.bracket.type == "LBRACE" and around.block is None
        return inside and kind in STEPS and self.place.first_on_line(at) and self.place.resumable(kind) > 0

    def _unquoted(self, at: int) -> int | None:
        """`policy web` for `policy "web"`."""
        token = self.tokens[at]
        if not token.text.isidentifier() or self.engine.accepts("NAME") or not self.engine.accepts("STRING", self._kind(at + 1)):
            return None
        quoted = f'"{token.text}"'
        self.diagnostics.error(
            Code.P100, f"expected a string in quotes, found {found(token)}", self._span(token), help=f"write `{quoted}`", suggestion=quoted
        )
        token.type, token.text = "STRING", quoted
        return at

    def _needless(self, at: int) -> int | None:
        """`weight: 5`, `weight = 5`, a comma at the end of a rule."""
        token = self.tokens[at]
        if self._kind(at + 1) == "COLON" and token.type == "NAME":
            keyword = grammar.tables().keywords.get(token.text)
            if keyword and self.engine.accepts(keyword, self._kind(at + 2)):
                self._becomes(at, keyword)
                self.engine.feed(token)
                at += 1
                token = self.tokens[at]
        if token.type not in NEEDLESS or not self.engine.accepts(self._kind(at + 1)):
            return None
        self.diagnostics.error(Code.P100, f"no {found(token)} stands here", self._span(token), help="leave it out", suggestion="")
        self.guessed = at
        return at + 1

    def _punctuation(self, at: int) -> int | None:
        """A symbol or small word left out."""
        token = self.tokens[at]
        expected = self.engine.expected()
        named = self.engine.accepts("NAME")  # then a word would be taken for a name
        following = self._kind(at + 1)
        for kind in MISSING_PUNCTUATION if token.type != grammar.END else ():
            if named and spelling(kind).isidentifier():
                continue
            if kind in expected and self.engine.accepts(kind, token.type, following):
                missing = spelling(kind)
                message = f"expected `{missing}` before {found(token)}"
                self.diagnostics.error(
                    Code.P100, message, self._span(token), label=f"`{missing}` is missing here", suggestion=f"{missing} {token.text}"
                )
                self.guessed = at
                return self._put_in(kind, missing, at)
        return None

    def _stray(self, at: int) -> int | None:
        """A closing bracket that closes nothing, or the wrong one."""
        token = self.tokens[at]
        if token.type not in CLOSE:
            return None
        around = self.place.innermost()
        if around is None:
            self.diagnostics.error(Code.P105, f"`{token.text}` closes nothing", self._span(token), help="remove it", suggestion="")
            return at + 1
        closer = CLOSER[around.bracket.type]
        if closer == token.type or not self.engine.accepts(closer):
            return None
        others = (Label(self._span(around.bracket), f"`{around.bracket.text}` is closed by `{spelling(closer)}`"),)
        message = f"`{token.text}` does not close `{around.bracket.text}`"
        self.diagnostics.error(
            Code.P105, message, self._span(token), others=others, help=f"write `{spelling(closer)}`", suggestion=spelling(closer)
        )
        return self._becomes(at, closer)


RULES = "`param`, `let`, `metric`, `filter`, `score`, `prefer`, `avoid`, `base`, `quantum`, `tie_break` and `test`"
BEGINNINGS = {
    "file": ("declaration or rule", f"`import`, `policy`, `for`, {RULES}"),
    "filter": ("clause of a filter", "`require` and `reject`"),
    "test": ("line of a test", "`node`, `pod`, `running`, `metric`, `param`, `place` and `expect`"),
}

# From the surest to the vaguest: a trick further down may also fit what one above recognises.
TRICKS: tuple[Callable[[Mending, int], int | None], ...] = (
    Mending._permit,  # noqa: SLF001  # the tricks are this module's own
    Mending._equals,  # noqa: SLF001
    Mending._chain,  # noqa: SLF001
    Mending._number,  # noqa: SLF001
    Mending._range,  # noqa: SLF001
    Mending._unclosed,  # noqa: SLF001
    Mending._nesting,  # noqa: SLF001
    Mending._habit,  # noqa: SLF001
    Mending._keyword_as_name,  # noqa: SLF001
    Mending._misspelled,  # noqa: SLF001
    Mending._without_name,  # noqa: SLF001
    Mending._unquoted,  # noqa: SLF001
    Mending._needless,  # noqa: SLF001
    Mending._stray,  # noqa: SLF001
    Mending._punctuation,  # noqa: SLF001
    Mending._unknown_keyword,  # noqa: SLF001
)
