"""The answer about a statement: proved, refuted by a test block, or beyond what is modelled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """What is known of a statement."""

    PROVED = "proved"
    REFUTED = "counterexample"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The verdict about one statement.

    `counterexample` is a `test` block in the language, formatted; it fails as a test of `fails_with`, the name of a policy's file.
    `because` says for an unknown verdict what is not modelled, and where it stands.
    """

    statement: str
    verdict: Verdict
    counterexample: str | None = None
    fails_with: str | None = None
    because: str | None = None

    def __str__(self) -> str:
        if self.verdict is Verdict.PROVED:
            otherwise = f"\n# expects otherwise, and fails with {self.fails_with}\n{self.counterexample}"
            return f"proved: {self.statement}\n" + (otherwise if self.counterexample is not None else "")
        if self.verdict is Verdict.UNKNOWN:
            return f"beyond what is modelled: {self.statement}\n  {self.because}\n"
        return f"not so: {self.statement}\n\n# fails with {self.fails_with}\n{self.counterexample}"
