"""Where something stands in a policy file.

A span carries its source, so that any error can show the line it talks about without anyone passing the text along.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class Source:
    """One policy text and the name it is known by (a path, `<stdin>`, a resource name)."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offsets (characters) at which lines begin; the first is 0."""
        return (0, *(i + 1 for i, char in enumerate(self.text) if char == "\n"))

    def line(self, number: int) -> str:
        """The text of line `number` (1-based), without its newline."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] - 1 if number < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` (exclusive) of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """The 1-based line of the first character."""
        return self.position(self.start)[0]

    @property
    def column(self) -> int:
        """The 1-based column of the first character."""
        return self.position(self.start)[1]

    @property
    def text(self) -> str:
        """The characters the span covers."""
        return self.source.text[self.start : self.end]

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based (line, column) of a character offset."""
        starts = self.source.line_starts
        low, high = 0, len(starts)
        while high - low > 1:
            middle = (low + high) // 2
            if starts[middle] <= offset:
                low = middle
            else:
                high = middle
        return low + 1, offset - starts[low] + 1

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, max(self.end, other.end))

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"
