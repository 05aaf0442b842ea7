"""Repairs of unexpected tokens: change one, leave it out, or insert another before it.

Each repair recognises one mistake. It returns None where it does not; otherwise it has reported the mistake and returns the index at
which to continue, or `CANNOT_REPAIR` where the rest of the statement makes no sense. `REPAIRS` has their order.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from wharfinger.language.parse import grammar
from wharfinger.language.parse.interactive import CLAUSES, CLOSER, ITEMS, STEP_TERMINALS, Open, Place, token_in_words
from wharfinger.language.parse.tokens import CLOSE, Token, spelling
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Label, Span
from wharfinger.language.report.wording import closest

CANNOT_REPAIR = -1

COMPARATORS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE", "IN", "MATCHES"})
MISSING_PUNCTUATION = ("COMMA", "ASSIGN", "COLON", "LBRACE", "ELSE", "WHERE", "VERSION", "WEIGHT", "THEN", "ON", "BY", "MESSAGE")
NEEDLESS = frozenset({"COLON", "ASSIGN", "COMMA"})
STATEMENT_ENDS = ITEMS | CLAUSES | CLOSE | {"COMMA", "ELSE", "ON", "THEN", "AND", "OR", "ASSIGN", "NORMALIZE", "RANGE", grammar.END}

NAMED = frozenset({"LET", "PARAM", "METRIC", "FILTER", "SCORE", "PREFER", "AVOID", "PERMIT"})
RULES = (
    "`param`, `let`, `metric`, `filter`, `score`, `prefer`, `avoid`, `base`, `quantum`, `tie_break`, `preemption`, `group`, `permit` "
    "and `test`"
)
BEGINNINGS = {
    "file": ("declaration or rule", f"`import`, `policy`, `for`, {RULES}"),
    "filter": ("clause of a filter", "`require` and `reject`"),
    "preemption": ("line of `preemption`", "`never_evict` and `only_evict`"),
    "group": ("line of a `group`", "`min_count`, `timeout`, `within`, `spread_over`, `disruption` and `reserve`"),
    "test": ("line of a test", "`node`, `pod`, `running`, `metric`, `param`, `place` and `expect`"),
}


class ForeignWord(msgspec.Struct, frozen=True):
    """A word of other schedulers and policy languages: the terminals that may be meant (the first that fits is taken), and the help."""

    meant: tuple[str, ...]
    help: str


_FILTER = "a rule that keeps pods off nodes is a `filter` with `require` or `reject` in it"
_SCORE = "a rule that ranks nodes is a `score`; `prefer` and `avoid` are scores of a condition"

FOREIGN_WORDS: dict[str, ForeignWord] = {
    **dict.fromkeys(("predicate", "constraint", "rule"), ForeignWord(("FILTER",), _FILTER)),
    **dict.fromkeys(("priority", "prioritize", "rank"), ForeignWord(("SCORE",), _SCORE)),
    **dict.fromkeys(
        ("allow", "permit_if", "must", "assert", "ensure"), ForeignWord(("REQUIRE",), "a filter requires a condition with `require`")
    ),
    **dict.fromkeys(("deny", "forbid", "block", "disallow"), ForeignWord(("REJECT",), "a filter excludes a condition with `reject`")),
    **dict.fromkeys(
        ("minimum", "min_member", "min_members", "minMember", "minCount", "min_available", "minAvailable"),
        ForeignWord(("MIN_COUNT",), "how many members are placed at once is `min_count`"),
    ),
    **dict.fromkeys(
        ("gang", "podgroup", "pod_group"),
        ForeignWord(("GROUP",), 'pods that are placed together are a `group by pod.labels["job-name"] { … }`'),
    ),
    **dict.fromkeys(("var", "const", "def", "define"), ForeignWord(("LET",), "a named value is declared with `let`")),
    **dict.fromkeys(
        ("parameter", "input", "option"), ForeignWord(("PARAM",), "a value that can be set from outside is declared with `param`")
    ),
    **dict.fromkeys(("include", "use"), ForeignWord(("IMPORT",), 'another file is used with `import "file.policy" as name`')),
    **dict.fromkeys(("elif", "elseif"), ForeignWord((), "a chain of choices is `if a then b else if c then d else e`")),
    **dict.fromkeys(("equals", "is"), ForeignWord(("EQ",), "equality is `==`")),
    **dict.fromkeys(("unless",), ForeignWord(("WHEN",), "a guard is `when condition`; write `when not …`")),
    **dict.fromkeys(("message", "because"), ForeignWord(("ELSE",), 'the message of a clause follows `else`: `require … else "…"`')),
    **dict.fromkeys(("assertion", "check"), ForeignWord(("EXPECT", "REQUIRE"), "a test asserts with `expect`, a filter with `require`")),
    **dict.fromkeys(("schedule", "bind"), ForeignWord(("PLACE",), "a test places a pod with `place`")),
}


class BrokenText:
    """The state that a repair reads and may change: the place of the token, the tokens, and the findings."""

    def __init__(self, place: Place, doubtful: list[int], diagnostics: Diagnostics) -> None:
        self.place = place
        self.engine = place.engine
        self.source = place.source
        self.tokens = place.tokens
        self.diagnostics = diagnostics
        self.doubtful = doubtful
        self.at = -1  # index of the token being repaired, or of the one before it where something is missing between them
        self.touched = -1  # the index of the last repaired token
        self.guessed = -1  # the index of the last token that was inserted or skipped on a guess
        self.nameless = 0

    def span(self, first: Token, last: Token | None = None) -> Span:
        """The span of a token, or from one to another."""
        return Span(self.source, first.start, (last or first).end)

    def kind(self, at: int) -> str:
        """The terminal of the token at an index; the end marker after the last one."""
        return self.tokens[at].type if at < len(self.tokens) else grammar.END

    def previous(self, at: int) -> Token | None:
        """The token before an index."""
        return self.tokens[at - 1] if at else None

    def replace_token(self, at: int, kind: str) -> int:
        """The index at which to continue after the token at an index was replaced by another one."""
        self.tokens[at].type, self.tokens[at].text = kind, spelling(kind)
        return at

    def insert_token(self, kind: str, text: str, at: int) -> int:
        """The index at which to continue after a token that is not in the text was fed before the one at an index."""
        place = self.tokens[at - 1].end if at else self.tokens[at].start
        self.engine.feed(Token(kind, text, place, place))
        self.at = at - 1
        return at


def unclosed(text: BrokenText, at: int) -> int | None:
    """A bracket that nothing closes."""
    around = text.place.innermost()
    token = text.tokens[at]
    if around is None or (text.place.partner(around.bracket) is not None and not _next_step(text, around, at)):
        return None
    closer = CLOSER[around.bracket.type]
    if not text.engine.accepts(closer):
        return None
    if token.type != grammar.END and not text.engine.accepts(closer, token.type):
        return None
    if any(around.bracket.start < offset < token.start for offset in text.doubtful):
        return text.insert_token(closer, spelling(closer), at)  # a string without an end has swallowed it
    shown = f"`{around.bracket.text}`"
    others = (Label(text.span(token), f"expected `{spelling(closer)}` before this"),) if token.type != grammar.END else ()
    text.diagnostics.error(
        Code.P104,
        f"{shown} is never closed",
        text.span(around.bracket),
        label="opened here",
        others=others,
        help=f"add `{spelling(closer)}`",
    )
    return text.insert_token(closer, spelling(closer), at)


def _next_step(text: BrokenText, around: Open, at: int) -> bool:
    """True if the next line of a test begins while the object of the last one is open: then the object's brace is missing."""
    kind = text.kind(at)
    inside = around.bracket.type == "LBRACE" and around.block is None
    return inside and kind in STEP_TERMINALS and text.place.first_on_line(at) and text.place.resumable(kind) > 0


def nesting(text: BrokenText, at: int) -> int | None:
    """A rule inside a filter, a clause outside of one, a line of a test outside of one."""
    token = text.tokens[at]
    around = text.place.innermost()
    word = f"`{token.text}`"
    if around and around.block and token.type in ITEMS and token.type != "AT" and text.place.partner(around.bracket):
        others = (Label(text.span(around.block), f"this `{around.block.text}` is not closed before it"),)
        help_ = f"move it behind the `}}` of the `{around.block.text}`"
        text.diagnostics.error(
            Code.P116, f"{word} is not allowed inside a `{around.block.text}`", text.span(token), others=others, help=help_
        )
        return CANNOT_REPAIR
    if token.type in CLAUSES and text.place.level() == "file":
        help_ = f'write `filter name {{ {token.text} … else "…" }}`'
        text.diagnostics.error(Code.P116, f"{word} belongs inside a filter", text.span(token), help=help_)
        return CANNOT_REPAIR
    if token.type in STEP_TERMINALS and text.place.level() == "file" and text.place.first_on_line(at):
        help_ = f'write `test "what it shows" {{ {token.text} … }}`'
        text.diagnostics.error(Code.P116, f"{word} belongs inside a test", text.span(token), help=help_)
        return CANNOT_REPAIR
    return None


def unmatched_bracket(text: BrokenText, at: int) -> int | None:
    """A closing bracket that closes nothing, or the wrong one."""
    token = text.tokens[at]
    if token.type not in CLOSE:
        return None
    around = text.place.innermost()
    if around is None:
        text.diagnostics.error(Code.P105, f"`{token.text}` closes nothing", text.span(token), help="remove it", suggestion="")
        return at + 1
    closer = CLOSER[around.bracket.type]
    if closer == token.type or not text.engine.accepts(closer):
        return None
    others = (Label(text.span(around.bracket), f"`{around.bracket.text}` is closed by `{spelling(closer)}`"),)
    message = f"`{token.text}` does not close `{around.bracket.text}`"
    text.diagnostics.error(
        Code.P105, message, text.span(token), others=others, help=f"write `{spelling(closer)}`", suggestion=spelling(closer)
    )
    return text.replace_token(at, closer)


def equals(text: BrokenText, at: int) -> int | None:
    """`=` for `==`, and the other way round."""
    token = text.tokens[at]
    other = {"ASSIGN": "EQ", "EQ": "ASSIGN"}.get(token.type)
    if other is None or not text.engine.accepts(other, text.kind(at + 1)):
        return None
    if other == "EQ":
        message, help_ = "`=` does not compare", "write `==`; a single `=` gives a name its value"
    else:
        message, help_ = "`==` gives no value", "write `=`; two of them compare"
    text.diagnostics.error(Code.P107, message, text.span(token), help=help_, suggestion=spelling(other))
    return text.replace_token(at, other)


def chain(text: BrokenText, at: int) -> int | None:
    """`a < b < c`."""
    token = text.tokens[at]
    if token.type not in COMPARATORS or not text.engine.accepts("AND") or text.engine.accepts("NUMBER"):
        return None
    help_ = "join two comparisons with `and`: `a < b and b < c`; group with parentheses where a truth value is compared"
    text.diagnostics.error(Code.P106, "comparisons do not chain", text.span(token), label="a second comparison", help=help_)
    depth = 0
    for index in range(at + 1, len(text.tokens)):
        kind = text.kind(index)
        if depth == 0 and (kind in STATEMENT_ENDS or text.place.first_on_line(index)):
            return index
        depth += (kind in CLOSER) - (kind in CLOSE)
    return len(text.tokens) - 1


def malformed_number(text: BrokenText, at: int) -> int | None:
    """`5.` and `1.2.3`."""
    point, number = (text.tokens[at - 1], text.tokens[at - 2]) if at > 1 else (None, None)
    if point is None or number is None or point.type != "DOT" or number.type != "NUMBER" or number.end != point.start:
        return None
    last = text.tokens[at] if text.kind(at) == "NUMBER" else point
    help_ = "a number is digits, at most one point with digits on both sides, and a unit"
    text.diagnostics.error(Code.P109, f"`{text.span(number, last).text}` is not a number", text.span(number, last), help=help_)
    return CANNOT_REPAIR


def malformed_range(text: BrokenText, at: int) -> int | None:
    """`range 1 to 10`, `range [1, 10]`, `in 1..10`."""
    ended = text.kind(at) in ITEMS | {grammar.END}
    statement = text.place.statement(at - 1 if ended else at)
    if text.kind(statement) != "PARAM":
        return None
    start = next((index for index in range(at, statement, -1) if text.kind(index) == "RANGE"), None)
    if start is None and text.kind(at) == "DOTDOT":
        start = next((index for index in range(at, statement, -1) if text.kind(index) == "IN"), at - 1)
    if start is None or start == at:
        return None
    last = at - 1 if ended else at
    span = text.span(text.tokens[start], text.tokens[last])
    text.diagnostics.error(Code.P123, "this is not a range", span, help="write `range low..high`: `range 1..10`")
    return CANNOT_REPAIR


def quoted_argument(text: BrokenText, at: int) -> int | None:
    """`most_allocated("example.com/gpu": 1)`."""
    name = text.previous(at)
    if name is None or name.type != "STRING" or text.kind(at) != "COLON" or text.kind(at + 2) not in {"COMMA", "RPAR"}:
        return None
    value = text.tokens[at + 1]
    help_ = f"an argument is named by a word without quotes; without a name it is `{name.text}` alone"
    text.diagnostics.error(Code.P100, f"`{text.span(name, value).text}` is no argument", text.span(name, value), help=help_)
    return at + 2


def needless(text: BrokenText, at: int) -> int | None:
    """`weight: 5`, `weight = 5`, a comma at the end of a rule."""
    token = text.tokens[at]
    if text.kind(at + 1) == "COLON" and token.type == "NAME":
        keyword = grammar.terminals().keywords.get(token.text)
        if keyword and text.engine.accepts(keyword, text.kind(at + 2)):
            text.replace_token(at, keyword)
            text.engine.feed(token)
            at += 1
            token = text.tokens[at]
    if token.type not in NEEDLESS or not text.engine.accepts(text.kind(at + 1)):
        return None
    text.diagnostics.error(Code.P100, f"no {token_in_words(token)} is allowed here", text.span(token), help="leave it out", suggestion="")
    text.guessed = at
    return at + 1


def punctuation(text: BrokenText, at: int) -> int | None:
    """A symbol or small word left out."""
    token = text.tokens[at]
    expected = text.engine.expected()
    named = text.engine.accepts("NAME")  # then a word would be taken for a name
    following = text.kind(at + 1)
    for kind in MISSING_PUNCTUATION if token.type != grammar.END else ():
        if named and spelling(kind).isidentifier():
            continue
        if kind in expected and text.engine.accepts(kind, token.type, following):
            missing = spelling(kind)
            message = f"expected `{missing}` before {token_in_words(token)}"
            text.diagnostics.error(
                Code.P100, message, text.span(token), label=f"`{missing}` is missing here", suggestion=f"{missing} {token.text}"
            )
            text.guessed = at - 1
            return text.insert_token(kind, missing, at)
    return None


def word_of_other_scheduler(text: BrokenText, at: int) -> int | None:
    """A word of other schedulers."""
    token = text.tokens[at]
    word = FOREIGN_WORDS.get(token.text)
    if word is None:
        return None
    meant = next((kind for kind in word.meant if text.engine.accepts(kind, text.kind(at + 1))), None)
    begins = text.place.first_on_line(at) and text.place.level()
    if meant is None and not begins:
        return None
    suggestion = spelling(meant) if meant else None
    text.diagnostics.error(
        Code.P114, f"`{token.text}` is not a word of the language", text.span(token), help=word.help, suggestion=suggestion
    )
    return text.replace_token(at, meant) if meant else CANNOT_REPAIR


def keyword_as_name(text: BrokenText, at: int) -> int | None:
    """`score weight weight 5 = …`."""
    token = text.tokens[at]
    if not token.text.isidentifier() or token.type == "NAME" or not text.engine.accepts("NAME", text.kind(at + 1)):
        return None
    if token.type in ITEMS and text.place.first_on_line(at):
        return None
    message = f"`{token.text}` is a word of the language and cannot be a name"
    text.diagnostics.error(
        Code.P115, message, text.span(token), help=f"choose another name, such as `{token.text}_1`", suggestion=f"{token.text}_1"
    )
    token.type = "NAME"
    return at


def misspelled(text: BrokenText, at: int) -> int | None:
    """A keyword with a letter wrong, or in capitals."""
    token = text.tokens[at]
    if not token.text.isidentifier():
        return None
    words = {spelling(kind): kind for kind in sorted(text.engine.expected()) if spelling(kind).isidentifier() and spelling(kind) != kind}
    near = token.text.lower() if token.text.lower() in words else closest(token.text, words) if len(token.text) > 2 else None
    if near is None or near == token.text or not text.engine.accepts(words[near], text.kind(at + 1)):
        return None
    text.diagnostics.error(Code.P113, f"unknown word `{token.text}`", text.span(token), help=f"did you mean `{near}`?", suggestion=near)
    return text.replace_token(at, words[near])


def unquoted(text: BrokenText, at: int) -> int | None:
    """`policy web` for `policy "web"`."""
    token = text.tokens[at]
    if not token.text.isidentifier() or text.engine.accepts("NAME") or not text.engine.accepts("STRING", text.kind(at + 1)):
        return None
    quoted = f'"{token.text}"'
    text.diagnostics.error(
        Code.P100,
        f"expected a string in quotes, found {token_in_words(token)}",
        text.span(token),
        help=f"write `{quoted}`",
        suggestion=quoted,
    )
    token.type, token.text = "STRING", quoted
    return at


def without_name(text: BrokenText, at: int) -> int | None:
    """`score weight 5 = …`."""
    before = text.previous(at)
    if before is None or before.type not in NAMED or not text.engine.accepts("NAME", text.kind(at)):
        return None
    help_ = f"every `{before.text}` has a name, which messages, tests and reports use: `{before.text} name …`"
    text.diagnostics.error(Code.P100, f"this `{before.text}` has no name", text.span(before), label="expected a name behind it", help=help_)
    text.nameless += 1
    return text.insert_token("NAME", f"nameless_{text.nameless}", at)


def unknown_keyword(text: BrokenText, at: int) -> int | None:
    """A word that begins a line where a keyword should."""
    token = text.tokens[at]
    level = text.place.level()
    if not token.text.isidentifier() or not text.place.first_on_line(at) or level is None:
        return None
    if token.text == "group" and level == "file":
        help_ = 'write `group by pod.labels["job-name"] { min_count 4 }`, or `group { … }` for pods that name a PodGroup themselves'
        text.diagnostics.error(Code.P100, "`group` is followed by `by` or `{`", text.span(token), help=help_)
        return CANNOT_REPAIR
    where, words = BEGINNINGS[level]
    text.diagnostics.error(Code.P113, f"`{token.text}` begins no {where}", text.span(token), help=f"these do: {words}")
    return CANNOT_REPAIR


# From the surest to the vaguest: a repair further down may also fit what one above recognises.
REPAIRS: tuple[Callable[[BrokenText, int], int | None], ...] = (
    equals,
    chain,
    malformed_number,
    malformed_range,
    unclosed,  # before nesting: an item in an open filter is either nested or the filter lacks its brace
    nesting,
    word_of_other_scheduler,  # before misspelled: `allow` is no misspelling of anything
    keyword_as_name,
    misspelled,
    without_name,
    unquoted,
    quoted_argument,
    needless,
    unmatched_bracket,
    punctuation,
    unknown_keyword,
)


def repaired(text: BrokenText, at: int) -> int | None:
    """The index at which to continue after a repair of the token at an index, `CANNOT_REPAIR`, or None if no repair fits."""
    text.at = at
    result = next((result for repair in REPAIRS if (result := repair(text, at)) is not None), None)
    if result is not None:
        text.touched = text.at
    return result
