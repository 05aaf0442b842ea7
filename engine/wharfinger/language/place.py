"""Where in a file the parser is: the block and the statement around a token, as the engine's stack and the tokens show them."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.language.interactive import Interactive
from wharfinger.language.lexer import CLOSE, OPEN, Token
from wharfinger.language.source import Source

ITEMS = frozenset("IMPORT POLICY FOR AT PARAM LET METRIC FILTER SCORE PREFER AVOID BASE QUANTUM TIE_BREAK PREEMPTION TEST".split())  # noqa: SIM905  # a table
CLAUSES = frozenset({"REQUIRE", "REJECT", "NEVER_EVICT", "ONLY_EVICT"})
STEPS = frozenset({"NODE", "POD", "RUNNING", "PLACE", "EXPECT", "METRIC", "PARAM"})
BLOCKS = frozenset({"FILTER", "TEST", "BASE", "PREEMPTION"})
CLOSER = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}


@dataclass(frozen=True, slots=True)
class Open:
    """A bracket that is open, and the keyword of the block it opens, if it opens one."""

    bracket: Token
    block: Token | None


class Place:
    """Answers questions about the surroundings of a token."""

    def __init__(self, engine: Interactive, source: Source, tokens: list[Token]) -> None:
        self.engine = engine
        self.source = source
        self.tokens = tokens

    def first_on_line(self, at: int) -> bool:
        """Whether a token is the first of its line."""
        return at == 0 or "\n" in self.source.text[self.tokens[at - 1].end : self.tokens[at].start]

    def statement(self, at: int) -> int:
        """The index of the token with which the statement around a token begins."""
        for index in range(min(at, len(self.tokens) - 1), 0, -1):
            kind = self.tokens[index].type
            if kind in ITEMS or (kind in CLAUSES | STEPS and self.first_on_line(index)):
                return index
        return 0

    def unfinished_statement(self, at: int) -> int:
        """As `statement`, but where a token begins a statement too early, the one before it, which lacks something."""
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
            if isinstance(value, Token) and value.type in OPEN | STEPS | {"WITH", "COLON"}:
                return None
        return None

    def open_braces(self) -> int:
        """How many braces are open."""
        return sum(token.type == "LBRACE" for _, token in self._open())

    def level(self) -> str | None:
        """What a line that begins here is a line of: "file", "filter", "preemption" or "test"; None in the middle of something.

        The words that begin the lines of a test may also be names, so that it takes one that may not to tell.
        """
        if self.engine.accepts("FILTER"):
            return "file"
        if self.engine.accepts("REQUIRE"):
            return "filter"
        if self.engine.accepts("NEVER_EVICT"):
            return "preemption"
        return "test" if self.engine.accepts("METRIC") else None

    def unfinished(self) -> int | None:
        """The length of the stack before the statement that is being read; None where one has just ended."""
        values = self.engine.values
        for index in range(len(values) - 1, -1, -1):
            value = values[index]
            if isinstance(value, Token) and value.type in ITEMS | CLAUSES | STEPS:
                name = value.type in STEPS - ITEMS and "METRIC" not in self.engine.choices_below(index)
                if not name:
                    return index + 1
        return None

    def resumable(self, kind: str) -> int:
        """The length of the stack on which a keyword would begin a statement again; 0 where none is."""
        witness = "METRIC" if kind in STEPS else kind
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
        """Where the block around a token ends, if the token begins an item that is nested in it by mistake; else the token itself."""
        around = self.innermost()
        if around and around.block and self.tokens[at].type in ITEMS and (partner := self.partner(around.bracket)):
            return partner
        return at

    def _index(self, token: Token) -> int:
        low, high = 0, len(self.tokens)
        while low < high:
            middle = (low + high) // 2
            if self.tokens[middle].start < token.start:
                low = middle + 1
            else:
                high = middle
        return low
