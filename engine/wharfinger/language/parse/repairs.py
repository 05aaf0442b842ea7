"""Repairs of unexpected tokens: change one, leave it out, or insert another before it.

Each repair recognises one mistake. It returns None where it does not; otherwise it has reported the mistake and returns the index at
which to go on, or `GIVE_UP` where the rest of the statement makes no sense. `REPAIRS` has their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.language.parse import grammar
from wharfinger.language.parse.expectation import found
from wharfinger.language.parse.interactive import CLAUSES, CLOSER, ITEMS, STEPS, Open, Place
from wharfinger.language.parse.tokens import CLOSE, Token, spelling
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Label
from wharfinger.language.report.source import Span
from wharfinger.language.report.wording import closest


@dataclass(frozen=True, slots=True)
class Habit:
    """A word that people bring along: the terminals that may be meant, the first that fits taken, and what to say."""

    meant: tuple[str, ...]
    help: str


_FILTER = "a rule that keeps pods off nodes is a `filter` with `require` or `reject` in it"
_SCORE = "a rule that ranks nodes is a `score`; `prefer` and `avoid` are scores of a condition"

HABITS: dict[str, Habit] = {
    **dict.fromkeys(("predicate", "constraint", "rule"), Habit(("FILTER",), _FILTER)),
    **dict.fromkeys(("priority", "prioritize", "rank"), Habit(("SCORE",), _SCORE)),
    **dict.fromkeys(("allow", "permit_if", "must", "assert", "ensure"), Habit(("REQUIRE",), "a filter says what must hold with `require`")),
    **dict.fromkeys(("deny", "forbid", "block", "disallow"), Habit(("REJECT",), "a filter says what must not hold with `reject`")),
    **dict.fromkeys(("var", "const", "def", "define"), Habit(("LET",), "a named value is declared with `let`")),
    **dict.fromkeys(("parameter", "input", "option"), Habit(("PARAM",), "a value that can be set from outside is declared with `param`")),
    **dict.fromkeys(("include", "use"), Habit(("IMPORT",), 'another file is used with `import "file.policy" as name`')),
    **dict.fromkeys(("elif", "elseif"), Habit((), "a chain of choices is `if a then b else if c then d else e`")),
    **dict.fromkeys(("equals", "is"), Habit(("EQ",), "equality is `==`")),
    **dict.fromkeys(("unless",), Habit(("WHEN",), "a guard is `when condition`; write `when not …`")),
    **dict.fromkeys(("message", "because"), Habit(("ELSE",), 'the message of a clause follows `else`: `require … else "…"`')),
    **dict.fromkeys(("assertion", "check"), Habit(("EXPECT", "REQUIRE"), "a test asserts with `expect`, a filter with `require`")),
    **dict.fromkeys(("schedule", "bind"), Habit(("PLACE",), "a test places a pod with `place`")),
}
PERMIT = "permit"


GIVE_UP = -1


class Mending:
    """What the tricks see and may do: the place of the token, the tokens, and the findings."""

    def __init__(self, place: Place, doubtful: list[int], diagnostics: Diagnostics) -> None:
        self.place = place
        self.engine = place.engine
        self.source = place.source
        self.tokens = place.tokens
        self.diagnostics = diagnostics
        self.doubtful = doubtful
        self.at = -1  # index of the token being mended, or of the one before it where something is missing between them
        self.touched = -1  # the same of what was mended last
        self.guessed = -1  # the same of what was put in or left out last on a mere guess
        self.nameless = 0

    def span(self, first: Token, last: Token | None = None) -> Span:
        """The span of a token, or from one to another."""
        return Span(self.source, first.start, (last or first).end)

    def kind(self, at: int) -> str:
        """The terminal of the token at an index; the end behind the last one."""
        return self.tokens[at].type if at < len(self.tokens) else grammar.END

    def previous(self, at: int) -> Token | None:
        """The token before an index."""
        return self.tokens[at - 1] if at else None

    def becomes(self, at: int, kind: str) -> int:
        """Where to go on after the token at an index has been made another one."""
        self.tokens[at].type, self.tokens[at].text = kind, spelling(kind)
        return at

    def put_in(self, kind: str, text: str, at: int) -> int:
        """Where to go on after a token that is not in the text has been fed before the one at an index."""
        place = self.tokens[at - 1].end if at else self.tokens[at].start
        self.engine.feed(Token(kind, text, place, place))
        self.at = at - 1
        return at


def unclosed(mending: Mending, at: int) -> int | None:
    """A bracket that nothing closes."""
    around = mending.place.innermost()
    token = mending.tokens[at]
    if around is None or (mending.place.partner(around.bracket) is not None and not _next_step(mending, around, at)):
        return None
    closer = CLOSER[around.bracket.type]
    if not mending.engine.accepts(closer):
        return None
    if token.type != grammar.END and not mending.engine.accepts(closer, token.type):
        return None
    if any(around.bracket.start < offset < token.start for offset in mending.doubtful):
        return mending.put_in(closer, spelling(closer), at)  # a string without an end has swallowed it
    shown = f"`{around.bracket.text}`"
    others = (Label(mending.span(token), f"expected `{spelling(closer)}` before this"),) if token.type != grammar.END else ()
    mending.diagnostics.error(
        Code.P104,
        f"{shown} is never closed",
        mending.span(around.bracket),
        label="opened here",
        others=others,
        help=f"add `{spelling(closer)}`",
    )
    return mending.put_in(closer, spelling(closer), at)


def _next_step(mending: Mending, around: Open, at: int) -> bool:
    """Whether the next line of a test begins while the object of the last one is open: then the object's brace is missing."""
    kind = mending.kind(at)
    inside = around.bracket.type == "LBRACE" and around.block is None
    return inside and kind in STEPS and mending.place.first_on_line(at) and mending.place.resumable(kind) > 0


def nesting(mending: Mending, at: int) -> int | None:
    """A rule inside a filter, a clause outside of one, a line of a test outside of one."""
    token = mending.tokens[at]
    around = mending.place.innermost()
    word = f"`{token.text}`"
    if around and around.block and token.type in ITEMS and token.type != "AT" and mending.place.partner(around.bracket):
        others = (Label(mending.span(around.block), f"this `{around.block.text}` is not closed before it"),)
        help_ = f"move it behind the `}}` of the `{around.block.text}`"
        mending.diagnostics.error(
            Code.P116, f"{word} cannot stand inside a `{around.block.text}`", mending.span(token), others=others, help=help_
        )
        return GIVE_UP
    if token.type in CLAUSES and mending.place.level() == "file":
        help_ = f'write `filter name {{ {token.text} … else "…" }}`'
        mending.diagnostics.error(Code.P116, f"{word} stands inside a filter", mending.span(token), help=help_)
        return GIVE_UP
    if token.type in STEPS and mending.place.level() == "file" and mending.place.first_on_line(at):
        help_ = f'write `test "what it shows" {{ {token.text} … }}`'
        mending.diagnostics.error(Code.P116, f"{word} stands inside a test", mending.span(token), help=help_)
        return GIVE_UP
    return None


def stray(mending: Mending, at: int) -> int | None:
    """A closing bracket that closes nothing, or the wrong one."""
    token = mending.tokens[at]
    if token.type not in CLOSE:
        return None
    around = mending.place.innermost()
    if around is None:
        mending.diagnostics.error(Code.P105, f"`{token.text}` closes nothing", mending.span(token), help="remove it", suggestion="")
        return at + 1
    closer = CLOSER[around.bracket.type]
    if closer == token.type or not mending.engine.accepts(closer):
        return None
    others = (Label(mending.span(around.bracket), f"`{around.bracket.text}` is closed by `{spelling(closer)}`"),)
    message = f"`{token.text}` does not close `{around.bracket.text}`"
    mending.diagnostics.error(
        Code.P105, message, mending.span(token), others=others, help=f"write `{spelling(closer)}`", suggestion=spelling(closer)
    )
    return mending.becomes(at, closer)


COMPARATORS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE", "IN", "MATCHES"})
MISSING_PUNCTUATION = ("COMMA", "ASSIGN", "COLON", "LBRACE", "ELSE", "WHERE", "VERSION", "WEIGHT", "THEN", "ON", "BY", "MESSAGE")
NEEDLESS = frozenset({"COLON", "ASSIGN", "COMMA"})
STATEMENT_ENDS = ITEMS | CLAUSES | CLOSE | {"COMMA", "ELSE", "ON", "THEN", "AND", "OR", "ASSIGN", "NORMALIZE", "RANGE", grammar.END}


def equals(mending: Mending, at: int) -> int | None:
    """`=` for `==`, and the other way round."""
    token = mending.tokens[at]
    other = {"ASSIGN": "EQ", "EQ": "ASSIGN"}.get(token.type)
    if other is None or not mending.engine.accepts(other, mending.kind(at + 1)):
        return None
    if other == "EQ":
        message, help_ = "`=` does not compare", "write `==`; a single `=` gives a name its value"
    else:
        message, help_ = "`==` gives no value", "write `=`; two of them compare"
    mending.diagnostics.error(Code.P107, message, mending.span(token), help=help_, suggestion=spelling(other))
    return mending.becomes(at, other)


def chain(mending: Mending, at: int) -> int | None:
    """`a < b < c`."""
    token = mending.tokens[at]
    if token.type not in COMPARATORS or not mending.engine.accepts("AND") or mending.engine.accepts("NUMBER"):
        return None
    help_ = "join two comparisons with `and`: `a < b and b < c`; group with parentheses where a truth value is compared"
    mending.diagnostics.error(Code.P106, "comparisons do not chain", mending.span(token), label="a second comparison", help=help_)
    depth = 0
    for index in range(at + 1, len(mending.tokens)):
        kind = mending.kind(index)
        if depth == 0 and (kind in STATEMENT_ENDS or mending.place.first_on_line(index)):
            return index
        depth += (kind in CLOSER) - (kind in CLOSE)
    return len(mending.tokens) - 1


def malformed_number(mending: Mending, at: int) -> int | None:
    """`5.` and `1.2.3`."""
    point, number = (mending.tokens[at - 1], mending.tokens[at - 2]) if at > 1 else (None, None)
    if point is None or number is None or point.type != "DOT" or number.type != "NUMBER" or number.end != point.start:
        return None
    last = mending.tokens[at] if mending.kind(at) == "NUMBER" else point
    help_ = "a number is digits, at most one point with digits on both sides, and a unit"
    mending.diagnostics.error(Code.P109, f"`{mending.span(number, last).text}` is not a number", mending.span(number, last), help=help_)
    return GIVE_UP


def malformed_range(mending: Mending, at: int) -> int | None:
    """`range 1 to 10`, `range [1, 10]`, `in 1..10`."""
    ended = mending.kind(at) in ITEMS | {grammar.END}
    statement = mending.place.statement(at - 1 if ended else at)
    if mending.kind(statement) != "PARAM":
        return None
    start = next((index for index in range(at, statement, -1) if mending.kind(index) == "RANGE"), None)
    if start is None and mending.kind(at) == "DOTDOT":
        start = next((index for index in range(at, statement, -1) if mending.kind(index) == "IN"), at - 1)
    if start is None or start == at:
        return None
    last = at - 1 if ended else at
    span = mending.span(mending.tokens[start], mending.tokens[last])
    mending.diagnostics.error(Code.P123, "this is not a range", span, help="write `range low..high`: `range 1..10`")
    return GIVE_UP


def needless(mending: Mending, at: int) -> int | None:
    """`weight: 5`, `weight = 5`, a comma at the end of a rule."""
    token = mending.tokens[at]
    if mending.kind(at + 1) == "COLON" and token.type == "NAME":
        keyword = grammar.terminals().keywords.get(token.text)
        if keyword and mending.engine.accepts(keyword, mending.kind(at + 2)):
            mending.becomes(at, keyword)
            mending.engine.feed(token)
            at += 1
            token = mending.tokens[at]
    if token.type not in NEEDLESS or not mending.engine.accepts(mending.kind(at + 1)):
        return None
    mending.diagnostics.error(Code.P100, f"no {found(token)} stands here", mending.span(token), help="leave it out", suggestion="")
    mending.guessed = at
    return at + 1


def punctuation(mending: Mending, at: int) -> int | None:
    """A symbol or small word left out."""
    token = mending.tokens[at]
    expected = mending.engine.expected()
    named = mending.engine.accepts("NAME")  # then a word would be taken for a name
    following = mending.kind(at + 1)
    for kind in MISSING_PUNCTUATION if token.type != grammar.END else ():
        if named and spelling(kind).isidentifier():
            continue
        if kind in expected and mending.engine.accepts(kind, token.type, following):
            missing = spelling(kind)
            message = f"expected `{missing}` before {found(token)}"
            mending.diagnostics.error(
                Code.P100, message, mending.span(token), label=f"`{missing}` is missing here", suggestion=f"{missing} {token.text}"
            )
            mending.guessed = at - 1
            return mending.put_in(kind, missing, at)
    return None


NAMED = frozenset({"LET", "PARAM", "METRIC", "FILTER", "SCORE", "PREFER", "AVOID"})
RULES = "`param`, `let`, `metric`, `filter`, `score`, `prefer`, `avoid`, `base`, `quantum`, `tie_break`, `preemption` and `test`"
BEGINNINGS = {
    "file": ("declaration or rule", f"`import`, `policy`, `for`, {RULES}"),
    "filter": ("clause of a filter", "`require` and `reject`"),
    "preemption": ("line of `preemption`", "`never_evict` and `only_evict`"),
    "test": ("line of a test", "`node`, `pod`, `running`, `metric`, `param`, `place` and `expect`"),
}


def permit(mending: Mending, at: int) -> int | None:
    """`permit gang timeout 5min { … }`."""
    if mending.tokens[at].text != PERMIT or mending.place.level() != "file":
        return None
    help_ = "there is no way yet to hold a placed pod back until its group is complete"
    mending.diagnostics.error(Code.P118, "`permit` is not supported yet", mending.span(mending.tokens[at]), help=help_)
    return GIVE_UP


def habit(mending: Mending, at: int) -> int | None:
    """A word of other schedulers."""
    token = mending.tokens[at]
    habit = HABITS.get(token.text)
    if habit is None:
        return None
    meant = next((kind for kind in habit.meant if mending.engine.accepts(kind, mending.kind(at + 1))), None)
    begins = mending.place.first_on_line(at) and mending.place.level()
    if meant is None and not begins:
        return None
    suggestion = spelling(meant) if meant else None
    mending.diagnostics.error(
        Code.P114, f"`{token.text}` is not a word of the language", mending.span(token), help=habit.help, suggestion=suggestion
    )
    return mending.becomes(at, meant) if meant else GIVE_UP


def keyword_as_name(mending: Mending, at: int) -> int | None:
    """`score weight weight 5 = …`."""
    token = mending.tokens[at]
    if not token.text.isidentifier() or token.type == "NAME" or not mending.engine.accepts("NAME", mending.kind(at + 1)):
        return None
    if token.type in ITEMS and mending.place.first_on_line(at):
        return None
    message = f"`{token.text}` is a word of the language and cannot be a name"
    mending.diagnostics.error(
        Code.P115, message, mending.span(token), help=f"choose another name, such as `{token.text}_1`", suggestion=f"{token.text}_1"
    )
    token.type = "NAME"
    return at


def misspelled(mending: Mending, at: int) -> int | None:
    """A keyword with a letter wrong, or in capitals."""
    token = mending.tokens[at]
    if not token.text.isidentifier():
        return None
    words = {spelling(kind): kind for kind in sorted(mending.engine.expected()) if spelling(kind).isidentifier() and spelling(kind) != kind}
    near = token.text.lower() if token.text.lower() in words else closest(token.text, words) if len(token.text) > 2 else None
    if near is None or near == token.text or not mending.engine.accepts(words[near], mending.kind(at + 1)):
        return None
    mending.diagnostics.error(
        Code.P113, f"unknown word `{token.text}`", mending.span(token), help=f"did you mean `{near}`?", suggestion=near
    )
    return mending.becomes(at, words[near])


def unquoted(mending: Mending, at: int) -> int | None:
    """`policy web` for `policy "web"`."""
    token = mending.tokens[at]
    if not token.text.isidentifier() or mending.engine.accepts("NAME") or not mending.engine.accepts("STRING", mending.kind(at + 1)):
        return None
    quoted = f'"{token.text}"'
    mending.diagnostics.error(
        Code.P100, f"expected a string in quotes, found {found(token)}", mending.span(token), help=f"write `{quoted}`", suggestion=quoted
    )
    token.type, token.text = "STRING", quoted
    return at


def without_name(mending: Mending, at: int) -> int | None:
    """`score weight 5 = …`."""
    before = mending.previous(at)
    if before is None or before.type not in NAMED or not mending.engine.accepts("NAME", mending.kind(at)):
        return None
    help_ = f"every `{before.text}` has a name, by which messages, tests and reports speak of it: `{before.text} name …`"
    mending.diagnostics.error(
        Code.P100, f"this `{before.text}` has no name", mending.span(before), label="expected a name behind it", help=help_
    )
    mending.nameless += 1
    return mending.put_in("NAME", f"nameless_{mending.nameless}", at)


def unknown_keyword(mending: Mending, at: int) -> int | None:
    """A word that begins a line where a keyword should."""
    token = mending.tokens[at]
    level = mending.place.level()
    if not token.text.isidentifier() or not mending.place.first_on_line(at) or level is None:
        return None
    where, words = BEGINNINGS[level]
    mending.diagnostics.error(Code.P113, f"`{token.text}` begins no {where}", mending.span(token), help=f"these do: {words}")
    return GIVE_UP


# From the surest to the vaguest: a trick further down may also fit what one above recognises.
TRICKS: tuple[Callable[[Mending, int], int | None], ...] = (
    permit,
    equals,
    chain,
    malformed_number,
    malformed_range,
    unclosed,  # before nesting: an item in an open filter is either nested or the filter lacks its brace
    nesting,
    habit,  # before misspelled: `allow` is no misspelling of anything
    keyword_as_name,
    misspelled,
    without_name,
    unquoted,
    needless,
    stray,
    punctuation,
    unknown_keyword,
)


def mended(mending: Mending, at: int) -> int | None:
    """Where to go on after the token at an index, `GIVE_UP`, or None where no trick recognises what was meant."""
    mending.at = at
    result = next((result for trick in TRICKS if (result := trick(mending, at)) is not None), None)
    if result is not None:
        mending.touched = mending.at
    return result
