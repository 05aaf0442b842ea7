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
from wharfinger.model.objects.pod_view import PodView
from wharfinger.scheduler.decision_log.lines import Line, LoggedAnswer, LoggedQuestion
from wharfinger.scheduler.decision_log.reading import BrokenLog, LogReader, Place, Playback
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
        playback, empty = Playback(), True
        for place, line in self._reader.lines():
            try:
                if line.t == "decision":
                    empty = False
                    replayed = self._decide(place, line, playback)
                    if replayed is not None:
                        yield replayed
                else:
                    playback.take(line)
            except BrokenLog as error:
                raise BrokenLog(f"{place}: {error}") from error
        if empty:
            raise BrokenLog(f"{self._reader.path}: no decision has been written to this decision log yet")

    def _decide(self, place: Place, line: Line, playback: Playback) -> Replayed | None:
        pod, question, answer = playback.pod(line), line.asked, line.told
        if question is None or answer is None or not playback.complete or question.profile not in playback.chains:
            raise BrokenLog("a decision of which something is missing")
        if self._only not in (None, pod.key):
            return None
        if question.revision != playback.state.revision:
            now, then = playback.state.revision, question.revision
            raise BrokenLog(f"the state is at revision {now} and was at {then} when this was decided: changes are missing")
        chain = playback.chains[question.profile]
        decision = _decider(self._deciders, question.profile, chain).decide(playback.state.snapshot(question.now), pod)
        difference = _difference(place, pod, answer, logged_answer(decision))
        change = None if self._others is None else self._changed(self._others, question, answer, pod, chain, playback)
        return Replayed(pod=pod.key, profile=question.profile, difference=difference, change=change)

    def _changed(  # noqa: PLR0913, PLR0917 — the question and both chains
        self, others: Others, question: LoggedQuestion, answer: LoggedAnswer, pod: PodView, chain: Chain, playback: Playback
    ) -> Change | None:
        other = others(question.profile, chain)
        decision = _decider(self._other_deciders, question.profile, other).decide(playback.state.snapshot(question.now), pod)
        if (decision.node, decision.nominated) == (answer.node, answer.nominated):
            return None
        return Change(
            pod=pod.key,
            at=question.now,
            profile=question.profile,
            node=answer.node,
            other=decision.node,
            nominated=answer.nominated,
            other_nominated=decision.nominated,
            feasible=answer.feasible,
            other_feasible=decision.feasible,
            reasons=tuple(_why(decision, answer.node)),
        )


def _decider(known: dict[str, tuple[Chain, Decider]], profile: str, chain: Chain) -> Decider:
    found = known.get(profile)
    if found is None or found[0] is not chain:
        found = known[profile] = (chain, Decider(chain))
    return found[1]


def _difference(place: Place, pod: PodView, recorded: LoggedAnswer, found: LoggedAnswer) -> Difference | None:
    if recorded == found:
        return None
    before, now = msgspec.structs.asdict(recorded), msgspec.structs.asdict(found)
    part = next(name for name in before if before[name] != now[name])
    return Difference(place=place, pod=pod.key, part=part, recorded=before[part], found=now[part])


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
