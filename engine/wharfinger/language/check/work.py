"""How much work the check of one policy may be.

Almost everything that checking does takes time in proportion to the text. What does not counts its steps here: which guards hold where a
let is used depends on every way that leads to it, and there may be more ways than anybody can go. Steps are counted and not timed, so the
verdict on a policy is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.language.source import Span

MOST_STEPS = 100_000  # policies people write take some hundred, one of 500 rules some ten thousand
MOST_FINDINGS = 500  # of one check; fewer are ever shown
PER_STEP = 16  # members of a set, or characters of a text, that are put together in the time of one step


class TooMuchWork(Exception):
    """A check would take more steps than it may."""


class EnoughFindings(Exception):
    """More is wrong with a policy than anybody will read."""


@dataclass(slots=True)
class Work:
    """The steps and findings of one check so far; `at` is the part of the policy that is being looked at."""

    at: Span | None = None
    steps: int = 0
    findings: int = 0

    def spend(self, steps: int = 1) -> None:
        """Counts steps; raises `TooMuchWork` when there are too many."""
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise TooMuchWork

    def put_together(self, members: int) -> None:
        """Counts the steps of building a set or a text of so many members or characters; raises `TooMuchWork`."""
        self.spend(1 + members // PER_STEP)

    def found(self) -> None:
        """Counts a finding; raises `EnoughFindings` when there are too many."""
        self.findings += 1
        if self.findings > MOST_FINDINGS:
            raise EnoughFindings
