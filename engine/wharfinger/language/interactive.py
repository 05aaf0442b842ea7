"""Lark's interactive parser for recovery: it can try a token before it is taken, and cut the stack back to where a statement begins.

The parser builds Lark's trees, which nothing changes afterwards, so a copy of the parser costs two lists of references.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import lark
from lark.exceptions import UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from wharfinger.language import grammar
from wharfinger.language.lexer import Token

MOST_STATES = 1500  # many times what an expression of the greatest depth needs


class Interactive:
    """One parse. `tree` is the parse tree once the end of the text was fed."""

    def __init__(self, start: str) -> None:
        self._parser = grammar.parser().parse_interactive(start=start)
        self.tree: lark.Tree[Any] | None = None

    @property
    def values(self) -> list[Any]:
        """What stands on the stack: tokens and trees. One shorter than the stack of states."""
        return self._parser.parser_state.value_stack

    @property
    def too_deep(self) -> bool:
        """True if the stack is deeper than any text of a usual depth makes it."""
        return len(self._parser.parser_state.state_stack) > MOST_STATES

    def feed_all(self, tokens: Iterable[Token]) -> bool:
        """True if all tokens are taken. After False the parser is of no use: Lark reduces before it notices an unexpected token."""
        parser, states = self._parser, self._parser.parser_state.state_stack
        try:
            for token in tokens:
                self.tree = parser.feed_token(token)  # type: ignore[arg-type]  # Lark looks at nothing but the type of a token
                if len(states) > MOST_STATES:
                    return False
        except UnexpectedToken:
            return False
        return True

    def feed(self, token: Token) -> bool:
        """True if the token is taken; if not, nothing has changed."""
        before = _copy(self._parser)
        try:
            self.tree = self._parser.feed_token(token)  # type: ignore[arg-type]  # as above
        except UnexpectedToken:
            self._parser = before
            return False
        return True

    def accepts(self, kind: str, *following: str) -> bool:
        """True if tokens of these kinds, one after the other, would be taken from here."""
        trial = _copy(self._parser)
        return all(_feed(trial, Token(wanted, "", 0, 0)) for wanted in (kind, *following))

    def expected(self) -> frozenset[str]:
        """The terminals that would be taken from here."""
        return frozenset(self._parser.accepts())

    def choices_below(self, index: int) -> frozenset[str]:
        """The terminals that the state below the value at an index of the stack has an action for."""
        return frozenset(_cut(_copy(self._parser), index + 1).choices())

    def length_taking(self, kind: str, witness: str) -> int:
        """The length of the longest stack, up to this one, that takes a token of this kind and could take the witness; 0 for none."""
        trial = _copy(self._parser)
        for length in range(len(trial.parser_state.state_stack), 0, -1):
            choices = _cut(trial, length).choices()
            if kind in choices and witness in choices and _takes(trial, kind) and _takes(trial, witness):
                return length
        return 0

    def cut_to(self, length: int) -> None:
        """Forgets all of the stack but its first states."""
        _cut(self._parser, length)


def _copy(parser: InteractiveParser) -> InteractiveParser:
    """Another parser in the same state; the trees are shared."""
    copy: InteractiveParser = parser.copy(deepcopy_values=False)
    return copy


def _feed(parser: InteractiveParser, token: Token) -> bool:
    try:
        parser.feed_token(token)  # type: ignore[arg-type]  # as above
    except UnexpectedToken:
        return False
    return True


def _takes(parser: InteractiveParser, kind: str) -> bool:
    return _feed(_copy(parser), Token(kind, "", 0, 0))


def _cut(parser: InteractiveParser, length: int) -> InteractiveParser:
    state = parser.parser_state
    del state.state_stack[length:]
    del state.value_stack[length - 1 :]
    return parser
