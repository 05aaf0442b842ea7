"""What running the tests of policies found, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from wharfinger.language.source import Span


class Truth(Enum):
    """The three answers of a condition."""

    TRUE = "true"
    FALSE = "false"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One thing that was not as expected: where, one sentence, and lines that show why."""

    at: Span
    sentence: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One test and what failed in it."""

    policy: str
    title: str
    at: Span
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """A clause, a `when` or a score: the answers its type allows, and those that some test produced."""

    policy: str
    rule: str
    at: Span
    possible: tuple[Truth, ...]
    seen: frozenset[Truth]

    @property
    def unseen(self) -> tuple[Truth, ...]:
        """The answers that no test produced."""
        return tuple(truth for truth in self.possible if truth not in self.seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All tests of all policies, in the order of the files."""

    results: tuple[Result, ...]
    coverage: tuple[Covered, ...]
    untested: tuple[str, ...]

    @property
    def failed(self) -> int:
        """How many tests failed."""
        return sum(not result.passed for result in self.results)


def covered_fraction(coverage: Iterable[Covered]) -> float:
    """Answers produced per answers possible; 1 where there is nothing to cover."""
    points = list(coverage)
    possible = sum(len(point.possible) for point in points)
    return sum(len(point.seen & set(point.possible)) for point in points) / possible if possible else 1.0
