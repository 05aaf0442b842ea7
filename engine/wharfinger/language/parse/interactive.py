"""A parse by Lark's table that recovery can look into: its place in a file, the expected tokens, and texts about both.

It can try a token before it is taken, and cut the stack back to where a statement begins. The parser builds Lark's trees, which nothing
changes afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import lark
import msgspec

from wharfinger.language.parse import grammar
from wharfinger.language.parse.tokens import CLOSE, OPEN, Token, spelling
from wharfinger.language.report.diagnostics import Source

MAX_STATES = 1500  # many times what an expression of the greatest depth needs

ITEMS = frozenset(
    "IMPORT POLICY FOR AT PARAM LET METRIC WORKLOAD FILTER SCORE PREFER AVOID BASE QUANTUM TIE_BREAK PREEMPTION GROUP PERMIT TEST".split()  # noqa: SIM905  # a table
)
CLAUSES = frozenset({"REQUIRE", "REJECT", "NEVER_EVICT", "ONLY_EVICT"})
STEP_TERMINALS = frozenset({"NODE", "POD", "RUNNING", "PLACE", "EXPECT", "METRIC", "PARAM", "MOMENT"})
BLOCKS = frozenset({"FILTER", "TEST", "BASE", "PREEMPTION", "GROUP", "PERMIT"})
CLOSER = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}


class Interactive:
    """One parse. `values` are the tokens and trees on the stack: one fewer than its states. `tree` is the whole once the end was fed."""

    def __init__(self, start: str) -> None:
        self._table = grammar.tables()[start]
        self._states = [self._table.start]
        self.values: list[Any] = []
        self.tree: lark.Tree[Any] | None = None

    @property
    def too_deep(self) -> bool:
        """True if the stack is deeper than any text of a usual depth makes it."""
        return len(self._states) > MAX_STATES

    def feed_all(self, tokens: Sequence[Token], begin: int = 0) -> int:
        """The index of the first token from `begin` on that is not taken, or makes the stack too deep; the number of tokens if none is."""
        states, feed = self._states, self.feed
        for at in range(begin, len(tokens)):
            if not feed(tokens[at]) or len(states) > MAX_STATES:
                return at
        return len(tokens)

    def feed(self, token: Token) -> bool:
        """True if the token is taken; if not, nothing has changed."""
        table, states, values, kind = self._table, self._states, self.values, token.type
        actions, chains = table.actions, table.chains
        undo: list[tuple[list[int], list[Any]]] = []
        while True:
            top = states[-1]
            action = actions[top].get(kind)
            if isinstance(action, int):
                states.append(action)
                values.append(token)
                return True
            if action is None:
                for before, parts in reversed(undo):
                    states[-1:], values[-1:] = before, parts
                return False
            if action.passes_on:
                undo.append(([top], values[-1:]))
                states[-1] = chains[states[-2], top, kind]
            else:
                begin = len(values) - action.size
                parts = values[begin:]
                undo.append((states[begin + 1 :], parts))
                del states[begin + 1 :], values[begin:]
                states.append(table.following[states[-1]][action.origin])
                values.append(action.build(parts))
            if states[-1] == table.end and kind == grammar.END:
                self.tree = values[-1]
                return True

    def accepts(self, kind: str, *following: str) -> bool:
        """True if this sequence of kinds of tokens would be accepted from here."""
        return self._accepts(len(self._states), (kind, *following))

    def expected(self) -> frozenset[str]:
        """The terminals that would be taken from here."""
        return frozenset(kind for kind in self._table.actions[self._states[-1]] if self.accepts(kind))

    def choices_below(self, index: int) -> AbstractSet[str]:
        """The terminals that the state below the value at an index of the stack has an action for."""
        return self._table.actions[self._states[index]].keys()

    def length_taking(self, kind: str, other: str) -> int:
        """The length of the longest stack, up to this one, that takes a token of either kind; 0 for none."""
        for length in range(len(self._states), 0, -1):
            choices = self._table.actions[self._states[length - 1]]
            if kind in choices and other in choices and self._accepts(length, (kind,)) and self._accepts(length, (other,)):
                return length
        return 0

    def cut_to(self, length: int) -> None:
        """Forget all of the stack but its first states."""
        del self._states[length:]
        del self.values[length - 1 :]

    def _accepts(self, length: int, kinds: Sequence[str]) -> bool:
        """True if the first states of the stack would take a sequence of kinds of tokens. The stack is only read."""
        table, above = self._table, list[int]()  # the states that would come after those first ones
        for kind in kinds:
            while True:
                action = table.actions[above[-1] if above else self._states[length - 1]].get(kind)
                if action is None:
                    return False
                if isinstance(action, int):
                    above.append(action)
                    break
                length -= max(0, action.size - len(above))
                del above[max(0, len(above) - action.size) :]
                above.append(table.following[above[-1] if above else self._states[length - 1]][action.origin])
                if above[-1] == table.end and kind == grammar.END:
                    break
        return True


class Open(msgspec.Struct, frozen=True):
    """A bracket that is open, and the keyword of the block it opens, if it opens one."""

    bracket: Token
    block: Token | None


class Place:
    """The surroundings of a token: its line, statement and brackets."""

    def __init__(self, engine: Interactive, source: Source, tokens: list[Token]) -> None:
        self.engine = engine
        self.source = source
        self.tokens = tokens

    def first_on_line(self, at: int) -> bool:
        """True if a token is the first of its line."""
        return at == 0 or "\n" in self.source.text[self.tokens[at - 1].end : self.tokens[at].start]

    def statement(self, at: int) -> int:
        """The index of the token with which the statement around a token begins."""
        for index in range(min(at, len(self.tokens) - 1), 0, -1):
            kind = self.tokens[index].type
            if kind in ITEMS or (kind in CLAUSES | STEP_TERMINALS and self.first_on_line(index)):
                return index
        return 0

    def unfinished_statement(self, at: int) -> int:
        """Like `statement`, but if a token begins a statement too early, the incomplete statement before it."""
        begins = at > 0 and self.statement(at) == at
        return self.statement(at - 1) if begins and self.level() is None else self.statement(at)

    def innermost(self) -> Open | None:
        """The bracket opened last that is still open."""
        found = self._open()
        if not found:
            return None
        index, token = found[-1]
        return Open(token, self._block(index) if token.type == "LBRACE" else None)

    def _open(self) -> list[tuple[int, Token]]:
        """The brackets on the stack that are open, with their places on it."""
        found: list[tuple[int, Token]] = []
        for index, value in enumerate(self.engine.values):
            if isinstance(value, Token):
                if value.type in OPEN:
                    found.append((index, value))
                elif value.type in CLOSE:
                    found.pop()
        return found

    def _block(self, index: int) -> Token | None:
        """The keyword of the block that the brace at `index` of the stack opens."""
        for value in reversed(self.engine.values[:index]):
            if isinstance(value, Token) and value.type in BLOCKS:
                return value
            if isinstance(value, Token) and value.type in OPEN | STEP_TERMINALS | {"WITH", "COLON"}:
                return None
        return None

    def open_braces(self) -> int:
        """The number of open braces."""
        return sum(token.type == "LBRACE" for _, token in self._open())

    def level(self) -> str | None:
        """The block that a line beginning here belongs to: "file", "filter", "preemption", "group" or "test"; None inside of a statement.

        Most words that begin the lines of a test may also be names. So the check for a test uses `metric`, which may not.
        """
        if self.engine.accepts("FILTER"):
            return "file"
        if self.engine.accepts("REQUIRE"):
            return "filter"
        if self.engine.accepts("NEVER_EVICT"):
            return "preemption"
        if self.engine.accepts("MIN_COUNT") and not self.engine.accepts("NAME"):
            return "group"
        return "test" if self.engine.accepts("METRIC") else None

    def unfinished(self) -> int | None:
        """The length of the stack before the statement that is being read; None if one has just ended."""
        values = self.engine.values
        for index in range(len(values) - 1, -1, -1):
            value = values[index]
            if isinstance(value, Token) and value.type in ITEMS | CLAUSES | STEP_TERMINALS:
                name = value.type in STEP_TERMINALS - ITEMS and "METRIC" not in self.engine.choices_below(index)
                if not name:
                    return index + 1
        return None

    def resumable(self, kind: str) -> int:
        """The length of the stack on which a keyword would begin a statement again; 0 where none is."""
        witness = "METRIC" if kind in STEP_TERMINALS else kind
        return self.engine.length_taking(kind, witness)

    def partner(self, bracket: Token) -> int | None:
        """The index of the token that closes a bracket, or None where nothing does."""
        waiting: list[str] = []
        for index in range(self._index(bracket), len(self.tokens)):
            kind = self.tokens[index].type
            if kind in OPEN:
                waiting.append(CLOSER[kind])
            elif kind in CLOSE and kind in waiting:
                while waiting.pop() != kind:
                    pass
                if not waiting:
                    return index if kind == CLOSER[bracket.type] else None
        return None

    def end_of_nested(self, at: int) -> int:
        """The end of the block around a token that begins an item nested in it by mistake; else the token itself."""
        around = self.innermost()
        if around and around.block and self.tokens[at].type in ITEMS and (partner := self.partner(around.bracket)):
            return partner
        return at

    def _index(self, token: Token) -> int:
        return bisect_left(self.tokens, token.start, key=lambda other: other.start)


# Families of terminals, in the order in which they are named. A family replaces its members if all of its witnesses are expected.
FAMILIES: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = (
    (
        "a declaration or rule",
        frozenset({"LET", "FILTER", "SCORE"}),
        frozenset(
            "AT AVOID BASE FILTER FOR GROUP IMPORT LET METRIC PARAM POLICY PERMIT PREEMPTION PREFER QUANTUM SCORE TEST TIE_BREAK".split()  # noqa: SIM905  # a table reads better
        ),
    ),
    (
        "a line of a test",
        frozenset({"PLACE", "EXPECT", "RUNNING", "PARAM"}),
        frozenset(["NODE", "POD", "RUNNING", "METRIC", "PARAM", "PLACE", "EXPECT"]),
    ),
    (
        "an expression",
        frozenset({"NUMBER", "LPAR", "MINUS"}),
        frozenset("NUMBER STRING TRUE FALSE NAME LPAR LSQB LBRACE MINUS NOT IF PODS".split()),  # noqa: SIM905 — quotes would hide the names
    ),
    ("a name", frozenset({"NAME"}), frozenset({"NAME"})),
    ("a string in quotes", frozenset({"STRING"}), frozenset({"STRING"})),
    ("a number", frozenset({"NUMBER"}), frozenset({"NUMBER"})),
)
OPERATORS = frozenset(
    "OR AND EQ NE LT LE GT GE IN NOT MATCHES COALESCE PLUS MINUS STAR SLASH DOT LSQB LPAR".split()  # noqa: SIM905 — as above
)
MAX_NAMED = 5


def token_in_words(token: Token) -> str:
    """A token as text: "`=`", "the string `"x"`", "the end of the file"."""
    if token.type == grammar.END:
        return token.text
    kind = {"STRING": "the string ", "NUMBER": "the number "}.get(token.type, "")
    text = token.text if len(token.text) <= 40 else token.text[:39] + "…"
    return f"{kind}`{text}`"


def terminals_in_words(terminals: AbstractSet[str]) -> str:
    """A set of terminals as text: "`=`, `range` or the next declaration"; operators are named only where nothing else is expected."""
    left = set(terminals)
    names: list[str] = []
    for name, witnesses, members in FAMILIES:
        if witnesses <= left:
            names.append(name)
            left -= members | _keywords_as_names()
    operators = left | {"NOT", "LPAR"} >= OPERATORS
    if operators:
        left -= OPERATORS
    left -= {"COMMA"} if "COMMA" in left and len(left) > MAX_NAMED else set()
    words = [f"`{spelling(terminal)}`" for terminal in sorted(left - {grammar.END})]
    names += ["the end of the file"] if grammar.END in left and not words and not names else words
    if operators and len(names) < MAX_NAMED:
        names.append("an operator")
    return _joined(names)


def _keywords_as_names() -> frozenset[str]:
    """The keywords that may also be names."""
    terminals = grammar.terminals()
    return frozenset(terminal for word, terminal in terminals.keywords.items() if word not in terminals.reserved)


def _joined(names: list[str]) -> str:
    if len(names) > MAX_NAMED + 1:
        names = [*names[:MAX_NAMED], "…"]
        return ", ".join(names)
    if len(names) <= 1:
        return "".join(names)
    return f"{', '.join(names[:-1])} or {names[-1]}"
