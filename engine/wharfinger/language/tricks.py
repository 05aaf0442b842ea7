"""The tricks of `mending` in their order."""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.language import mending_brackets, mending_symbols, mending_words
from wharfinger.language.mending import Mending

# From the surest to the vaguest: a trick further down may also fit what one above recognises.
TRICKS: tuple[Callable[[Mending, int], int | None], ...] = (
    mending_words.permit,
    mending_symbols.equals,
    mending_symbols.chain,
    mending_symbols.malformed_number,
    mending_symbols.malformed_range,
    mending_brackets.unclosed,  # before nesting: an item in an open filter is either nested or the filter lacks its brace
    mending_brackets.nesting,
    mending_words.habit,  # before misspelled: `allow` is no misspelling of anything
    mending_words.keyword_as_name,
    mending_words.misspelled,
    mending_words.without_name,
    mending_words.unquoted,
    mending_symbols.needless,
    mending_brackets.stray,
    mending_symbols.punctuation,
    mending_words.unknown_keyword,
)


def mended(mending: Mending, at: int) -> int | None:
    """Where to go on after the token at an index, `GIVE_UP`, or None where no trick recognises what was meant."""
    mending.at = at
    result = next((result for trick in TRICKS if (result := trick(mending, at)) is not None), None)
    if result is not None:
        mending.touched = mending.at
    return result
