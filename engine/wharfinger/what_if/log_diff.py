"""What other policies would have changed in a decision log: each recorded decision made by two chains, on the cluster as it was then.

No decision rests on an earlier one here: the state is always the recorded one. So every change has rules that cause it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from wharfinger.explain.conditions import PolicyCommentary
from wharfinger.explain.difference import Cause, causes
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.scheduler.decision_log.reading import LogReader, Recorded, decisions
from wharfinger.simulate.replay import Others, decider
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

    @cached_property
    def totals(self) -> Totals:
        """The changes, counted."""
        return totals((change.before, change.after, False, change.causes) for change in self.changes)


class _Side:
    """The chains of one side: those of the log, or others in their place."""

    def __init__(self, others: Others | None) -> None:
        self._others = others
        self._deciders: dict[str, tuple[Chain, Decider]] = {}
        self._commentaries: dict[str, PolicyCommentary] = {}

    def decide(self, recorded: Recorded) -> Decision:
        profile = recorded.question.profile
        chain = recorded.chain if self._others is None else self._others(profile, recorded.chain)
        return decider(self._deciders, profile, chain).decide(recorded.snapshot, recorded.pod)

    def commentary(self, chain: Chain) -> PolicyCommentary:
        if chain.revision not in self._commentaries:
            self._commentaries[chain.revision] = PolicyCommentary(chain)
        return self._commentaries[chain.revision]


def log_diff(path: str | Path, after: Others, before: Others | None = None, advance: Callable[[], None] = lambda: None) -> LogDiff:
    """What the chains of `after` decide otherwise than those of `before`, by default those of the log.

    Raises UsageError for a log that is not there, BrokenLog where it cannot be read on. `advance` is called for every decision.
    """
    reader = LogReader(path=Path(path))
    sides = _Side(before), _Side(after)
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
        advance()
    return LogDiff(
        changes=tuple(changes),
        decisions=n_decisions,
        pods=len(pods),
        profiles=tuple(profiles),
        unplaced=(unplaced[0], unplaced[1]),
        notes=tuple(reader.notes),
    )
