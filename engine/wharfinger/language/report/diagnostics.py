"""What is wrong with a policy, as values: collected, sorted, capped, rendered elsewhere (`render`).

A stage of the language never raises at the first mistake. It reports into a `Diagnostics` and goes on, so that an author sees every root
cause at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from wharfinger.errors import WharfingerError
from wharfinger.language.report.codes import Code, Severity
from wharfinger.language.report.source import Span

MOST_PER_FILE = 50


@dataclass(frozen=True, slots=True)
class Label:
    """A second place that helps to understand the first, with a few words."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding: stable code, one sentence, where, and how to mend it.

    `span` gets the carets and `label` is printed beside them; `help` is one sentence; `suggestion` replaces `span` when an editor applies
    it.
    """

    code: Code
    message: str
    span: Span
    label: str = ""
    others: tuple[Label, ...] = ()
    help: str | None = None
    suggestion: str | None = None

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
    """A policy does not compile; `diagnostics` says why."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        errors = [d for d in diagnostics if d.severity is Severity.ERROR]
        first = errors[0] if errors else next(iter(diagnostics))
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{first.span}: {first.code.name}: {first.message}{more}")
