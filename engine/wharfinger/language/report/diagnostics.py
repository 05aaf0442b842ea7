"""Diagnostics as values: spans of a policy's source, and errors and warnings about them, collected, sorted and capped.

A stage of the language never raises at the first mistake. It reports into a `Diagnostics` and continues, so that an author sees every root
cause at once. A span carries its source, so that any error can show the line it is about; `render` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
from msgspec import Struct, structs

from wharfinger.errors import WharfingerError, printable
from wharfinger.language.report.codes import Code, Severity

MAX_PER_FILE = 50


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


class Span(msgspec.Struct, frozen=True, gc=False):
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
        return f"{printable(self.source.name)}:{self.line}:{self.column}"


class Label(Struct, frozen=True):
    """A second place that helps to understand the first, with a few words."""

    span: Span
    text: str

    def __post_init__(self) -> None:
        structs.force_setattr(self, "text", printable(self.text))  # it may quote what an author has written


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One finding: a stable code, one sentence, the place, and how to fix it.

    `span` gets the carets and `label` is printed next to them; `help` is one sentence; `suggestion` replaces `span` when an editor applies
    it. Apart from that, all texts are made printable, and stay on one line: they may quote what an author has written.
    """

    code: Code
    message: str
    span: Span
    label: str = ""
    others: tuple[Label, ...] = ()
    help: str | None = None
    suggestion: str | None = None

    def __post_init__(self) -> None:
        for name, text in (("message", self.message), ("label", self.label), ("help", self.help)):
            if text is not None and not text.isprintable():
                structs.force_setattr(self, name, printable(text))

    @property
    def severity(self) -> Severity:
        """The severity of its code."""
        return self.code.severity

    def sort_key(self) -> tuple[str, int, int, str]:
        """Order of printing: file, position, code."""
        return (self.span.source.name, self.span.start, self.span.end, self.code.name)


@dataclass(slots=True)
class Diagnostics:
    """A growing collection of findings; equal findings are kept once."""

    found: list[Diagnostic] = field(default_factory=list)
    _places: set[tuple[Code, Span]] = field(default_factory=set, repr=False)

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep a finding unless the same code was already reported for the same place."""
        place = (diagnostic.code, diagnostic.span)
        if place not in self._places:
            self._places.add(place)
            self.found.append(diagnostic)

    def error(self, code: Code, message: str, span: Span, **more: object) -> None:
        """Build and keep a finding (any severity; the code decides)."""
        self.add(Diagnostic(code=code, message=message, span=span, **more))  # type: ignore[arg-type]  # its own fields

    @property
    def has_errors(self) -> bool:
        """True if any finding is an error (not a warning)."""
        return any(d.severity is Severity.ERROR for d in self.found)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sorted(self.found, key=Diagnostic.sort_key))

    def __len__(self) -> int:
        return len(self.found)


class PolicyError(WharfingerError):
    """A policy does not compile; `diagnostics` has the reasons."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        errors = [d for d in diagnostics if d.severity is Severity.ERROR]
        first = errors[0] if errors else next(iter(diagnostics))
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{first.span}: {first.code.name}: {first.message}{more}")
