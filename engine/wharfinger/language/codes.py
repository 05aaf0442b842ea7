"""Every diagnostic code: its severity, its title and what it means.

A code is never reused for something else. Its page in `docs/errors/` is made from this record and from the case file of the same name in
`tests/cases/diagnostics/`, which holds a policy that raises it and the mended one.

    P0xx files and limits · P1xx syntax · P2xx types and units · P3xx names · P4xx missing values · P5xx scores · P6xx structure · P7xx tests · L… lints
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """An error keeps a policy from compiling; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Record:
    """What a code says of itself."""

    title: str
    explanation: str
    severity: Severity = Severity.ERROR


class Code(Enum):
    """The codes, in order."""

    P203 = Record(
        "unknown unit",
        "A number is followed by letters that are not a unit of the language. Units say what a number measures, so a misspelled one "
        "would silently change the meaning by orders of magnitude.",
    )

    @property
    def severity(self) -> Severity:
        """Error or warning."""
        return self.value.severity

    @property
    def title(self) -> str:
        """A few words, the headline of its page."""
        return self.value.title
