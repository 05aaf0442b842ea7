"""Brackets, and what stands in the wrong ones.

Each function is a trick of `mending`: it answers None where it does not recognise the mistake.
"""

from __future__ import annotations

from wharfinger.language import grammar
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Label
from wharfinger.language.lexer import CLOSE, spelling
from wharfinger.language.mending import GIVE_UP, Mending
from wharfinger.language.place import CLAUSES, CLOSER, ITEMS, STEPS, Open


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
