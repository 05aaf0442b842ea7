"""Makes every decision of a log again, and compares it with other policies if these are given.

Decisions are compared to the last bit: node, number of feasible nodes and of equals, message, nomination, victims, totals. With other
policies each decision is made on the state as it was then, not as these policies would have changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.language.report.wording import count
from wharfinger.scheduler.decision_log.lines import LoggedAnswer
from wharfinger.scheduler.decision_log.reading import LogReader, Place, Recorded, decisions
from wharfinger.scheduler.decision_log.recorder import logged_answer

MOST_REASONS = 3

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
        self._others = others
        self._only = only
        self._deciders: dict[str, tuple[Chain, Decider]] = {}
        self._other_deciders: dict[str, tuple[Chain, Decider]] = {}

    @property
    def notes(self) -> list[str]:
        """Sentences about what is missing in the log."""
        return self._reader.notes

    def run(self) -> Iterator[Replayed]:
        """Every decision in order. UsageError for a log that is not there, BrokenLog where it cannot be read on."""
        for recorded in decisions(self._reader, self._only):
            yield self._decide(recorded)

    def _decide(self, recorded: Recorded) -> Replayed:
        profile = recorded.question.profile
        decision = decider(self._deciders, profile, recorded.chain).decide(recorded.snapshot, recorded.pod)
        difference = _difference(recorded, logged_answer(decision))
        change = None if self._others is None else self._changed(self._others, recorded)
        return Replayed(pod=recorded.pod.key, profile=profile, difference=difference, change=change)

    def _changed(self, others: Others, recorded: Recorded) -> Change | None:
        profile, answer = recorded.question.profile, recorded.answer
        chain = others(profile, recorded.chain)
        decision = decider(self._other_deciders, profile, chain).decide(recorded.snapshot, recorded.pod)
        if (decision.node, decision.nominated) == (answer.node, answer.nominated):
            return None
        return Change(
            pod=recorded.pod.key,
            at=recorded.question.now,
            profile=profile,
            node=answer.node,
            other=decision.node,
            nominated=answer.nominated,
            other_nominated=decision.nominated,
            feasible=answer.feasible,
            other_feasible=decision.feasible,
            reasons=tuple(_why(decision, answer.node)),
        )


def decider(known: dict[str, tuple[Chain, Decider]], profile: str, chain: Chain) -> Decider:
    """The decider of a profile, kept in `known`; a new one when its chain has changed."""
    found = known.get(profile)
    if found is None or found[0] is not chain:
        found = known[profile] = (chain, Decider(chain))
    return found[1]


def _difference(recorded: Recorded, found: LoggedAnswer) -> Difference | None:
    if recorded.answer == found:
        return None
    before, now = msgspec.structs.asdict(recorded.answer), msgspec.structs.asdict(found)
    part = next(name for name in before if before[name] != now[name])
    return Difference(place=recorded.place, pod=recorded.pod.key, part=part, recorded=before[part], found=now[part])


def _why(decision: Decision, former: str | None) -> Iterator[str]:
    """Why the present node is chosen, and not the former one."""
    if decision.node is None:
        yield decision.message
        return
    if former is None:
        yield f"{decision.feasible} of {count(decision.n_nodes, 'node')} {'is' if decision.n_nodes == 1 else 'are'} feasible now"
        return
    rejections = decision.rejections_at(former)
    if rejections:
        yield from (f"{former} is rejected: {rejection}" for rejection in rejections[:MOST_REASONS])
        return
    pairs = list(zip(decision.scores_at(decision.node), decision.scores_at(former), strict=True))
    pairs.sort(key=lambda pair: (-abs(pair[0].weighted - pair[1].weighted), pair[0].name))
    gaps = [(ahead.name, ahead.weighted, own.weighted) for ahead, own in pairs[:MOST_REASONS] if ahead.weighted != own.weighted]
    yield from (f"{name}: {now:g} at {decision.node}, {then:g} at {former}" for name, now, then in gaps)
    if not gaps:
        yield f"{former} is as good, and loses among equals"
