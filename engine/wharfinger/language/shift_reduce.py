"""The parser's engine: runs the LALR(1) tables over tokens, and lets recovery look at and change its stack.

Lark makes the tables (`grammar`); running them takes a stack and a loop. Having the loop here means that a token can be tried before it is
fed, that the stack can be cut back to where an item begins, and that checking a file does not pay for importing Lark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from wharfinger.language import grammar
from wharfinger.language.lexer import Token

Build = Callable[..., Any]


@cache
def _built_by(builder: type) -> tuple[Build | None, ...]:
    """For each rule the method that builds its value, None where there is none."""
    return tuple(getattr(builder, rule.action, None) if rule.action else None for rule in grammar.tables().rules)


class ShiftReduce:
    """A stack of states with the values they stand for."""

    def __init__(self, builder: object, start: str) -> None:
        tables = grammar.tables()
        self.rows = tables.rows
        self.rules = tables.rules
        self.last_state = tables.ends[start]
        self.builder = builder
        self.builds = _built_by(type(builder))  # type: ignore[arg-type]  # mypy asks the class for the __hash__ of its instances
        self.states = [tables.starts[start]]
        self.values: list[Any] = []
        self.grown: list[tuple[list[Any], int]] = []  # lists that reductions for the current token have added to, and how long they were

    def feed(self, token: Token) -> bool:
        """Whether the token was taken; if not, nothing has changed, although LALR tables reduce before they notice."""
        states, values, rows, kind = self.states, self.values, self.rows, token.type
        before: tuple[list[int], list[Any]] | None = None
        while (action := rows[states[-1]].get(kind)) is not None:
            if action >= 0:
                states.append(action)
                values.append(token)
                return True
            if before is None:
                before = (states[:], values[:])
                self.grown.clear()
            rule = self.rules[~action]
            if rule.passes:  # most of all reductions: an operand on its way through the levels of operators
                states.pop()
                states.append(rows[states[-1]][rule.origin])
            else:
                self._reduce(~action, rule)
            if kind == grammar.END and states[-1] == self.last_state:
                return True
        if before:
            self._restore(*before)
        return False

    def _restore(self, states: list[int], values: list[Any]) -> None:
        self.states[:], self.values[:] = states, values
        for members, length in reversed(self.grown):
            del members[length:]

    def _reduce(self, number: int, rule: grammar.Rule) -> None:
        states, values, size = self.states, self.values, rule.size
        parts = values[len(values) - size :]
        if size:
            del states[-size:]
            del values[-size:]
        build = self.builds[number]
        if rule.layout is not None:
            parts = self._arranged(rule.layout, parts)
        values.append(build(self.builder, *parts) if build else parts)
        states.append(self.rows[states[-1]][rule.origin])

    def accepts(self, kind: str, *following: str) -> bool:
        """Whether tokens of these kinds, one after the other, would be taken from here."""
        states = list(self.states)
        return all(self._shift(states, wanted) for wanted in (kind, *following))

    def _shift(self, states: list[int], kind: str) -> bool:
        """Play one token on a stack without values."""
        while (action := self.rows[states[-1]].get(kind)) is not None:
            if action >= 0:
                states.append(action)
                return True
            rule = self.rules[~action]
            if rule.size:
                del states[-rule.size :]
            states.append(self.rows[states[-1]][rule.origin])
            if kind == grammar.END and states[-1] == self.last_state:
                return True
        return False

    def expected(self) -> frozenset[str]:
        """The terminals that would be taken from here."""
        return frozenset(kind for kind in self.rows[self.states[-1]] if kind.isupper() and self.accepts(kind))

    def length_taking(self, kind: str, witness: str) -> int:
        """The length of the longest stack, up to this one, that takes a token of this kind and could take the witness; 0 for none."""
        for length in range(len(self.states), 0, -1):
            row = self.rows[self.states[length - 1]]
            if kind in row and witness in row and self._shift(self.states[:length], kind) and self._shift(self.states[:length], witness):
                return length
        return 0

    def cut_to(self, length: int) -> None:
        """Forget all of the stack but its first states."""
        del self.states[length:]
        del self.values[length - 1 :]

    def _arranged(self, layout: tuple[int, ...], parts: list[Any]) -> list[Any]:
        """The parts in the order and number the builder wants: absent ones as None, members of lists in place of the lists."""
        arranged: list[Any] = []
        if layout[0] < -1:
            arranged = parts[-2 - layout[0]]  # a list grows by its next member in place: copying it each time would take squared time
            self.grown.append((arranged, len(arranged)))
            layout = layout[1:]
        for index in layout:
            if index >= 0:
                arranged.append(parts[index])
            elif index == -1:
                arranged.append(None)
            else:
                arranged.extend(parts[-2 - index])
        return arranged
