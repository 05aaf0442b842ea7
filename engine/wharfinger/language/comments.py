"""Comments while a file is formatted: taken in order, each exactly once, by the statement it belongs to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from wharfinger.language import lexer
from wharfinger.language.source import Source, Span


@dataclass(slots=True)
class Margin:
    """The comments of a file that have not been written yet."""

    source: Source
    waiting: deque[Span]

    @classmethod
    def of(cls, source: Source) -> Margin:
        """All comments of a file."""
        return cls(source, deque(lexer.comments(source)))

    def before(self, offset: int) -> list[Span]:
        """The comments that begin before a place."""
        taken = []
        while self.waiting and self.waiting[0].start < offset:
            taken.append(self.waiting.popleft())
        return taken

    def beside(self, offset: int) -> Span | None:
        """The comment that follows a place on its line, with at most a comma between."""
        if self.waiting and not self.source.text[offset : self.waiting[0].start].strip(" \t,"):
            return self.waiting.popleft()
        return None

    def blank_between(self, start: int, end: int) -> bool:
        """Whether a blank line separates two places."""
        return self.source.text.count("\n", start, end) > 1
