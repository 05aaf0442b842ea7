"""Makes every decision of a log again, and compares it with other policies if these are given.

Decisions are compared to the last bit: node, number of feasible nodes and of equals, message, nomination, victims, totals. With other
policies each decision is made on the state as it was then, not as these policies would have changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from wharfinger.explain.conditions import PolicyCommentary
from wharfinger.explain.difference import causes
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.scheduler.decision_log.lines import LoggedAnswer
from wharfinger.scheduler.decision_log.reading import LogReader, Place, Recorded, decisions
from wharfinger.scheduler.decision_log.recorder import logged_answer

NOT_AGAIN = "the recorded decision does not come out again"

Others = Callable[[str, Chain], Chain]
"""Returns the chain to compare with that of a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A part of a decision that a replay did not reproduce."""

    place: Place
    pod: str
    part: str
    recorded: object
    found: object

    def __str__(self) -> str:
        return f"{self.place}: {self.pod}: {self.part} was {self.recorded!r}, and is {self.found!r} now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A decision that other policies make otherwise: the recorded node, the other node (None: no node), and the reasons.

    `nominated` and `other_nominated` are the nodes on which preemption makes room, where there is no node.
    """

    pod: str
    at: float
    profile: str
    node: str | None
    other: str | None
    nominated: str | None
    other_nominated: str | None
    feasible: int
    other_feasible: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One decision made again; `difference` and `change` are None where there is none."""

    pod: str
    profile: str
    difference: Difference | None
    change: Change | None


class Replay:
    """Replays a log; `notes` say what is missing in it. With `only` (namespace/name), decisions about other pods are skipped."""

    def __init__(self, path: str, others: Others | None = None, only: str | None = None) -> None:
        self._reader = LogReader(path=Path(path))
        self._own = Side()
        self._other = None if others is None else Side(others)
        self._only = only

    @property
    def notes(self) -> list[str]:
        """Sentences about what is missing in the log."""
        return self._reader.notes

    def run(self) -> Iterator[Replayed]:
        """Every decision in order. UsageError for a log that is not there, BrokenLog where it cannot be read on."""
        for recorded in decisions(self._reader, self._only):
            yield self._decide(recorded)

    def _decide(self, recorded: Recorded) -> Replayed:
        decision = self._own.decide(recorded)
        return Replayed(
            pod=recorded.pod.key,
            profile=recorded.question.profile,
            difference=_difference(recorded, logged_answer(decision)),
            change=None if self._other is None else self._changed(self._other, recorded, decision),
        )

    def _changed(self, side: Side, recorded: Recorded, former: Decision) -> Change | None:
        decision, answer = side.decide(recorded), recorded.answer
        if (decision.node, decision.nominated) == (answer.node, answer.nominated):
            return None
        found = causes(former, decision, recorded.snapshot, (self._own.commentary(former.chain), side.commentary(decision.chain)))
        return Change(
            pod=recorded.pod.key,
            at=recorded.question.now,
            profile=recorded.question.profile,
            node=answer.node,
            other=decision.node,
            nominated=answer.nominated,
            other_nominated=decision.nominated,
            feasible=answer.feasible,
            other_feasible=decision.feasible,
            reasons=tuple(map(str, found)) or (NOT_AGAIN,),
        )


class Side:
    """Makes recorded decisions again: by the chains of the log, or by others in their place."""

    def __init__(self, others: Others | None = None) -> None:
        self._others = others
        self._deciders: dict[str, Decider] = {}
        self._commentaries: dict[str, PolicyCommentary] = {}

    def decide(self, recorded: Recorded) -> Decision:
        """The decision on the recorded state; its details can be read until the next one."""
        profile = recorded.question.profile
        chain = recorded.chain if self._others is None else self._others(profile, recorded.chain)
        found = self._deciders.get(profile)
        if found is None or found.chain is not chain:
            found = self._deciders[profile] = Decider(chain)
        return found.decide(recorded.snapshot, recorded.pod)

    def commentary(self, chain: Chain) -> PolicyCommentary:
        """The commentary about the policies of a chain, which is kept."""
        if chain.revision not in self._commentaries:
            self._commentaries[chain.revision] = PolicyCommentary(chain)
        return self._commentaries[chain.revision]


def _difference(recorded: Recorded, found: LoggedAnswer) -> Difference | None:
    if recorded.answer == found:
        return None
    if recorded.answer.devices is None:
        found = msgspec.structs.replace(found, devices=None)
        if recorded.answer == found:
            return None
    before, now = msgspec.structs.asdict(recorded.answer), msgspec.structs.asdict(found)
    part = next(name for name in before if before[name] != now[name])
    return Difference(place=recorded.place, pod=recorded.pod.key, part=part, recorded=before[part], found=now[part])
