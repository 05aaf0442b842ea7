"""What other policies would have changed in a decision log: each recorded decision made by two chains, on the cluster as it was then.

No decision rests on an earlier one here: the state is always the recorded one. So every change has rules that cause it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from wharfinger.explain.difference import Cause, causes
from wharfinger.scheduler.decision_log.reading import LogReader, decisions
from wharfinger.simulate.replay import Others, Side
from wharfinger.what_if.diff import Totals, totals


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionChange:
    """A decision that comes out otherwise: when and by which profile it was made, the nodes and messages of both sides, and the causes."""

    pod: str
    at: float
    profile: str
    before: str | None
    after: str | None
    before_message: str
    after_message: str
    causes: tuple[Cause, ...]


@dataclass(frozen=True, kw_only=True)
class LogDiff:
    """The changes of a log in order; `notes` say what is missing in it. `unplaced` are the decisions without a node before and after."""

    changes: tuple[DecisionChange, ...]
    decisions: int
    pods: int
    profiles: tuple[str, ...]
    unplaced: tuple[int, int]
    notes: tuple[str, ...]

    @property
    def rows(self) -> tuple[DecisionChange, ...]:
        """The changes: each decision is told by itself."""
        return self.changes

    @cached_property
    def totals(self) -> Totals:
        """The changes, counted."""
        return totals((change.before, change.after, False, change.causes) for change in self.changes)


def log_diff(path: str | Path, after: Others, before: Others | None = None) -> LogDiff:
    """What the chains of `after` decide otherwise than those of `before`, by default those of the log.

    Raises UsageError for a log that is not there, BrokenLog where it cannot be read on.
    """
    reader = LogReader(path=Path(path))
    sides = Side(before), Side(after)
    changes: list[DecisionChange] = []
    unplaced, n_decisions = [0, 0], 0
    pods: set[str] = set()
    profiles: dict[str, None] = {}
    for recorded in decisions(reader):
        former, later = (side.decide(recorded) for side in sides)
        n_decisions += 1
        pods.add(recorded.pod.key)
        profiles[recorded.question.profile] = None
        for side, decision in enumerate((former, later)):
            unplaced[side] += decision.node is None
        commentaries = sides[0].commentary(former.chain), sides[1].commentary(later.chain)
        found = causes(former, later, recorded.snapshot, commentaries)
        if found:
            changes.append(
                DecisionChange(
                    pod=recorded.pod.key,
                    at=recorded.question.now,
                    profile=recorded.question.profile,
                    before=former.node,
                    after=later.node,
                    before_message=former.message,
                    after_message=later.message,
                    causes=tuple(found),
                )
            )
    return LogDiff(
        changes=tuple(changes),
        decisions=n_decisions,
        pods=len(pods),
        profiles=tuple(profiles),
        unplaced=(unplaced[0], unplaced[1]),
        notes=tuple(reader.notes),
    )
