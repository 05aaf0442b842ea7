"""Words: misspelled ones, ones of other schedulers, ones of the language where a name should be.

Each function is a trick of `mending`: it answers None where it does not recognise the mistake.
"""

from __future__ import annotations

from wharfinger.language.codes import Code
from wharfinger.language.expectation import found
from wharfinger.language.habits import HABITS, PERMIT
from wharfinger.language.lexer import spelling
from wharfinger.language.mending import GIVE_UP, Mending
from wharfinger.language.place import ITEMS
from wharfinger.language.suggest import closest

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
