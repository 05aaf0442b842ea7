"""Makes every decision of a log again, and compares it with other policies if these are given.

Decisions are compared to the last bit: node, number of feasible nodes and of equals, message, nomination, victims, totals. A group is
searched for again on a copy of the state, with its recorded terms: nodes, domains and members without a place are compared, or why there is
none, and the pods that preemption evicts for it. With other policies each decision is made on the state as it was then, not as these
policies would have changed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.explain.conditions import PolicyExplainer
from wharfinger.explain.difference import causes
from wharfinger.framework.chain import Chain, with_policies
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.groups.attempt import without_nominations
from wharfinger.groups.placing import placing
from wharfinger.groups.preempting import preempting
from wharfinger.language.report.wording import count, most_first
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.copies import FollowedCopy
from wharfinger.scheduler.decision_log.lines import LoggedAnswer, LoggedFound
from wharfinger.scheduler.decision_log.reading import LogReader, Place, Recorded, RecordedFound, RecordedSearch, questions
from wharfinger.scheduler.decision_log.recorder import logged_answer, logged_found
from wharfinger.steps import at_once

MAX_NAMED = 4
"""The number of named nodes of a group, and of named members on other nodes."""
NOT_REPRODUCED = "the decision made again differs from the recorded one"

Others = Callable[[str, Chain], Chain]
"""Returns the chain to compare with that of a profile."""


def others(policies: Callable[[Chain], Sequence[CompiledPolicy]], profile: str | None = None) -> Others:
    """The chains of a log with the policies that are given for each, those of one profile or of all."""
    known: dict[tuple[str, str], Chain] = {}

    def other(own: str, chain: Chain) -> Chain:
        if profile not in (None, own):
            return chain
        if (own, chain.revision) not in known:
            known[own, chain.revision] = with_policies(chain, policies(chain))
        return known[own, chain.revision]

    return other


class Difference(Struct, frozen=True, kw_only=True):
    """A part of a decision that a replay did not reproduce; `pod` is the pod's key, or `group` and that of a group."""

    place: Place
    pod: str
    part: str
    recorded: object
    found: object

    def __str__(self) -> str:
        return f"{self.place}: {self.pod}: {self.part} was {self.recorded!r}, and is {self.found!r} now"


class Change(Struct, frozen=True, kw_only=True):
    """A decision that other policies change: the recorded node, the other node (None: no node), and the reasons.

    `nominated` and `other_nominated` are the nodes on which preemption makes room, where there is no node. For a group, `pod` is as in
    `Difference`, the nodes are those of its members, and `feasible` is the number of members with a place.
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


class Replayed(Struct, frozen=True, kw_only=True):
    """One decision, or search for a `group`, made again; `difference` and `change` are None where there is none."""

    pod: str
    group: bool = False
    profile: str
    difference: Difference | None
    change: Change | None


class Replay:
    """Replays a log; `notes` are sentences about missing parts. With `only` (namespace/name), decisions about other pods are skipped."""

    def __init__(self, path: str, others: Others | None = None, only: str | None = None) -> None:
        self._reader = LogReader(path=Path(path))
        self._own = Side()
        self._other = None if others is None else Side(others)
        self._only = only
        self._searches = GroupReplay(others)

    @property
    def notes(self) -> list[str]:
        """Sentences about missing parts of the log."""
        return self._reader.notes

    def run(self) -> Iterator[Replayed]:
        """Every decision in order. UsageError for a log that does not exist, BrokenLog where it cannot be read on."""
        for recorded in questions(self._reader, self._only):
            if isinstance(recorded, Recorded):
                yield self._decide(recorded)
            elif isinstance(recorded, RecordedSearch):
                self._searches.begin(recorded)
            elif (again := self._searches.ended(recorded)) is not None:
                yield again

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
        if answer.while_changing:  # the same search again, for both sides
            answer = logged_answer(former)
        if (decision.node, decision.nominated) == (answer.node, answer.nominated):
            return None
        found = causes(former, decision, recorded.snapshot, (self._own.explainer(former.chain), side.explainer(decision.chain)))
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
            reasons=tuple(map(str, found)) or (NOT_REPRODUCED,),
        )


class Side:
    """Makes recorded decisions again: by the chains of the log, or by others in their place."""

    def __init__(self, others: Others | None = None) -> None:
        self._others = others
        self._deciders: dict[str, Decider] = {}
        self._explainers: dict[str, PolicyExplainer] = {}

    def decide(self, recorded: Recorded) -> Decision:
        """The decision on the recorded state; its details can be read until the next one."""
        return self.decider(recorded.question.profile, recorded.chain).decide(recorded.snapshot, recorded.pod)

    def decider(self, profile: str, recorded: Chain) -> Decider:
        """The decider of a profile, which decides by its `recorded` chain or by the other one."""
        chain = recorded if self._others is None else self._others(profile, recorded)
        found = self._deciders.get(profile)
        if found is None or found.chain is not chain:
            found = self._deciders[profile] = Decider(chain)
        return found

    def explainer(self, chain: Chain) -> PolicyExplainer:
        """The explainer about the policies of a chain, which is kept."""
        if chain.revision not in self._explainers:
            self._explainers[chain.revision] = PolicyExplainer(chain)
        return self._explainers[chain.revision]


class GroupReplay:
    """Searches for groups again: on a copy of the state at the beginning of a search, when its recorded answer is read."""

    def __init__(self, others: Others | None = None) -> None:
        self._others = others
        self._of: ClusterState | None = None  # the state that the copy follows
        self._copy = FollowedCopy()
        self._sides: tuple[Side, Side | None] = (Side(), None)
        self._begun: tuple[RecordedSearch, ClusterState] | None = None

    def begin(self, search: RecordedSearch) -> None:
        """Copy the state of a search; one before it without an answer had been given up."""
        if search.state is not self._of:
            self._of, self._copy = search.state, FollowedCopy()
            self._sides = (Side(), None if self._others is None else Side(self._others))
        self._begun = search, at_once(self._copy.follow(search.state.snapshot(search.now)))

    def ended(self, recorded: RecordedFound) -> Replayed | None:
        """The search made again; None if its beginning is unknown, or it was not requested."""
        if self._begun is None or self._begun[0].group.key != recorded.key:
            return None
        search, copy = self._begun
        self._begun = None
        own, other = self._sides
        found = _searched(own, search, copy)
        return Replayed(
            pod=f"group {recorded.key}",
            group=True,
            profile=search.profile,
            difference=_first_difference(recorded.place, f"group {recorded.key}", recorded.found, found),
            change=None if other is None else _change_of_group(search, recorded.found, _searched(other, search, copy)),
        )


def _searched(side: Side, search: RecordedSearch, copy: ClusterState) -> LoggedFound:
    decider = side.decider(search.profile, search.chain)
    with without_nominations(copy, search.group.waiting):
        if search.others is None:
            return logged_found(at_once(placing(decider, copy, search.group)))
        return logged_found(at_once(preempting(decider, copy, search.group, search.others)))


def _change_of_group(search: RecordedSearch, before: LoggedFound, now: LoggedFound) -> Change | None:
    if (before.result, before.nodes, before.victims) == (now.result, now.nodes, now.victims):
        return None
    freeing = search.others is not None
    return Change(
        pod=f"group {search.group.key}",
        at=search.now,
        profile=search.profile,
        node=None if freeing else _nodes_of(before),
        other=None if freeing else _nodes_of(now),
        nominated=_nodes_of(before) if freeing else None,
        other_nominated=_nodes_of(now) if freeing else None,
        feasible=len(before.nodes),
        other_feasible=len(now.nodes),
        reasons=tuple(each.message for each in (before, now) if each.message) or tuple(_moves(search, before, now)),
    )


def _moves(search: RecordedSearch, before: LoggedFound, now: LoggedFound) -> Iterator[str]:
    """The members that would be on other nodes, and how many other pods would be evicted; only the first ones."""
    moved = [pod for pod in search.group.waiting if before.nodes.get(pod.uid) != now.nodes.get(pod.uid)]
    for pod in moved[:MAX_NAMED]:
        yield f"{pod.name} on {now.nodes.get(pod.uid, 'no node')} instead of {before.nodes.get(pod.uid, 'no node')}"
    if before.victims != now.victims:
        yield f"evicts {count(len(now.victims), 'pod')}, {len(set(now.victims) - set(before.victims))} of them others than before"


def _nodes_of(found: LoggedFound) -> str | None:
    """The nodes of a group by name, those of most members first; None without a place."""
    counts = Counter(found.nodes.values())
    names = [f"{name} ({number})" for name, number in most_first(counts)]
    return ", ".join([*names[:MAX_NAMED], *(["…"] if len(names) > MAX_NAMED else [])]) or None


_OF_THE_SEARCH = "nominated", "victims", "message", "while_changing"
"""The parts of an answer that may be others where the cluster changed during the search for pods to evict."""


def _difference(recorded: Recorded, found: LoggedAnswer) -> Difference | None:
    if recorded.answer.devices is None:
        found = msgspec.structs.replace(found, devices=None)
    if recorded.answer.while_changing:
        found = msgspec.structs.replace(found, **{name: getattr(recorded.answer, name) for name in _OF_THE_SEARCH})
    return _first_difference(recorded.place, recorded.pod.key, recorded.answer, found)


def _first_difference(place: Place, about: str, recorded: msgspec.Struct, found: msgspec.Struct) -> Difference | None:
    if recorded == found:
        return None
    before, now = msgspec.structs.asdict(recorded), msgspec.structs.asdict(found)
    part = next(name for name in before if before[name] != now[name])
    return Difference(place=place, pod=about, part=part, recorded=before[part], found=now[part])
