"""Symbols and numbers: the wrong one, one too many, one too few.

Each function is a trick of `mending`: it answers None where it does not recognise the mistake.
"""

from __future__ import annotations

from wharfinger.language import grammar
from wharfinger.language.codes import Code
from wharfinger.language.expectation import found
from wharfinger.language.lexer import CLOSE, spelling
from wharfinger.language.mending import GIVE_UP, Mending
from wharfinger.language.place import CLAUSES, CLOSER, ITEMS

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
