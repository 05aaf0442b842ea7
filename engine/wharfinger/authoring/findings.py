"""What is wrong with a document, in the words of `wharf check`."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.authoring.document import Document
from wharfinger.language.report.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding about characters `start` to `end`. `code` is empty for what a plugin says about its arguments.

    `others` are further places, each with its file, its characters and a few words. `suggestion` replaces the characters unless it is None.
    """

    start: int
    end: int
    severity: str  # "error" or "warning"
    code: str
    message: str
    label: str = ""
    help: str | None = None
    suggestion: str | None = None
    others: tuple[tuple[str, int, int, str], ...] = ()

    @property
    def text(self) -> str:
        """All that is said at this place: the message, the label of the place, and the help."""
        labelled = f"{self.message}: {self.label}" if self.label and self.label not in self.message else self.message
        return f"{labelled}\nhelp: {self.help}" if self.help else labelled


def findings(document: Document) -> list[Finding]:
    """The findings about a document in the order of the text."""
    refused = [Finding(start=start, end=end, severity="error", code="", message=message) for message, start, end in document.refused()]
    found = (*document.checked.found, *document.too_costly)
    return sorted((*map(_finding, found), *refused), key=lambda each: (each.start, each.end))


def _finding(diagnostic: Diagnostic) -> Finding:
    span = diagnostic.span
    return Finding(
        start=span.start,
        end=span.end,
        severity=diagnostic.severity.value,
        code=diagnostic.code.name,
        message=diagnostic.message,
        label=diagnostic.label,
        help=diagnostic.help,
        suggestion=diagnostic.suggestion,
        others=tuple((label.span.source.name, label.span.start, label.span.end, label.text) for label in diagnostic.others),
    )
