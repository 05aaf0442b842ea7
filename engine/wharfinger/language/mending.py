"""What may be done about an unexpected token: change it, leave it out, or put something in before it.

The mistakes themselves are recognised by the tricks in `mending_words`, `mending_symbols` and `mending_brackets`; `tricks` says in which
order. A trick answers None when it does not recognise its mistake. Otherwise it has reported it and says where to go on, or `GIVE_UP`
where the rest of the statement makes no sense.
"""

from __future__ import annotations

from wharfinger.language import grammar
from wharfinger.language.diagnostics import Diagnostics
from wharfinger.language.lexer import Token, spelling
from wharfinger.language.place import Place
from wharfinger.language.source import Span

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
