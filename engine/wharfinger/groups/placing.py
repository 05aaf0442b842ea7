"""Finds where a group of pods goes: all members that must be placed, close together, by the chain that places single pods.

`placing` is a generator of short steps, `place` runs it to its end. Members are assumed on the state one after the other and forgotten
again, so that filters and scores see those placed before. Domains are tried best first: those that may take the whole group come first,
among them the one whose nodes score best. The first that takes every member is the answer; if none does, the one that takes most, as
kube-scheduler 1.36 chooses (schedule_one_podgroup.go, plugins/podgrouppodscount).

Between two steps some members may be assumed on the state. Pass a copy (`FollowedCopy`) if others must not see that.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.groups import domains, member_classes
from wharfinger.groups.domains import Domain
from wharfinger.groups.terms import DomainFit, Group, GroupAnswer, Impossible, NotFound, Placed
from wharfinger.language.report.wording import count

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot

STEPS = 20_000
"""The default budget: decisions about one member on the nodes of one domain."""
MOST_NEAREST = 3


def place(decider: Decider, state: ClusterState, group: Group, *, steps: int = STEPS, keep: bool = False) -> GroupAnswer:
    """The answer of `placing`, in one go."""
    search = placing(decider, state, group, steps=steps, keep=keep)
    while True:
        try:
            next(search)
        except StopIteration as end:
            answer: GroupAnswer = end.value
            return answer


def placing(
    decider: Decider, state: ClusterState, group: Group, *, steps: int = STEPS, keep: bool = False
) -> Generator[None, None, GroupAnswer]:
    """A generator of steps that returns where the group goes, or why it goes nowhere.

    The state is as before when it ends or is closed, except with `keep`: then the members of a placement stay assumed. The search gives up
    after `steps` decisions about members.
    """
    search = _Search(decider, state, group, steps)
    answer: GroupAnswer | None = None
    try:
        answer = yield from search.run()
    finally:
        if not (keep and isinstance(answer, Placed)):
            search.forget_all()
    return answer


@dataclass(slots=True)
class _Tried:
    """What one domain takes: members with their nodes in order, and the members left."""

    domain: Domain
    nodes: dict[str, str] = field(default_factory=dict)
    left: list[PodView] = field(default_factory=list)


class _Search:
    """The search for one group: the members, what is assumed, and the work that is done."""

    def __init__(self, decider: Decider, state: ClusterState, group: Group, steps: int) -> None:
        self._decider = decider
        self._state = state
        self._group = group
        self._now = state.snapshot().now
        self._members = member_classes.ordered(group.waiting)
        self._keys: dict[str, Hashable] = {pod.uid: decider.chain.key(pod, self._now) for pod in self._members}
        self._classes = member_classes.classes(decider, self._members, self._now)
        self._by_uid = {pod.uid: pod for pod in self._members}
        self._wanted = max(1, group.needed)
        self._assumed: list[PodView] = []
        self._left_steps = steps
        self._steps = 0
        self._excluded = True  # every domain so far was excluded by its bound

    def forget_all(self) -> None:
        """Forget what the search has assumed."""
        while self._assumed:
            self._state.forget(self._assumed.pop())

    def run(self) -> Generator[None, None, GroupAnswer]:
        """The search itself."""
        group = self._group
        if not self._members:
            return Placed(nodes={})
        if self._wanted > len(self._members):
            there = len(self._members) + len(group.placed)
            return Impossible(nearest=(), message=f"{count(there, 'member')} of at least {group.terms.min_count} exist")
        required = tuple(level.key for level in group.terms.levels if level.required)
        pinned = self._pinned(required)
        if pinned is None:
            return Impossible(nearest=(), message=f"its placed members are not in one domain of {', '.join(required)}")
        found: list[DomainFit] = []
        for keys in domains.stages(group.terms.levels):
            exact = set(keys) == set(required)
            best, fits = yield from self._best_of(keys, pinned)
            if best is not None and (exact or not best.left or (group.needed and len(best.nodes) >= self._wanted)):
                self._assume_all(best.nodes)
                return Placed(nodes=best.nodes, domains=best.domain.labels, left=tuple(best.left))
            found = fits
        return self._failure(found)

    def _snapshot(self) -> Snapshot:
        return self._state.snapshot(self._now)

    def _pinned(self, required: Sequence[str]) -> Mapping[str, str] | None:
        """The values that the placed members give to the required levels; None if they disagree."""
        snapshot = self._snapshot()
        rows = []
        for pod in self._group.placed:
            placed = snapshot.placed(pod.uid)
            row = snapshot.row(pod.node_name) if placed is None else placed[0]
            if row is not None:
                rows.append(row)
        return domains.of_rows(required, rows, snapshot) if rows else {}

    def _best_of(self, keys: Sequence[str], pinned: Mapping[str, str]) -> Generator[None, None, tuple[_Tried | None, list[DomainFit]]]:
        """The first domain of some topology keys that takes all members, else the one that takes most; and how many each domain takes."""
        snapshot = self._snapshot()
        candidates = [
            domain
            for domain in domains.domains(keys, snapshot)
            if all(domain.labels.get(key, value) == value for key, value in pinned.items())
        ]
        bounds = yield from self._bounds(candidates)
        quality = self._quality(candidates)
        order = sorted(range(len(candidates)), key=lambda number: (-bounds[number], -quality[number], str(candidates[number])))
        self._excluded = all(bound < self._wanted for bound in bounds)
        best: _Tried | None = None
        fits = [DomainFit(key=each.key, value=each.value, fits=bounds[i], wanted=self._wanted) for i, each in enumerate(candidates)]
        for number in order:
            least = self._wanted if best is None else len(best.nodes) + 1
            if bounds[number] < least or self._left_steps <= 0:
                break
            tried = yield from self._fill(candidates[number])
            fits[number] = self._fit(tried)
            self.forget_all()
            if len(tried.nodes) >= least:
                best = tried
                if not tried.left:
                    break
        return best, sorted(fits, key=lambda fit: (-fit.fits, fit.value))[:MOST_NEAREST]

    def _bounds(self, candidates: Sequence[Domain]) -> Generator[None, None, list[int]]:
        """The most members that each domain may take."""
        totals = [0] * len(candidates)
        for each in self._classes:
            room = member_classes.room(self._decider, self._snapshot(), each.pod)
            for number, domain in enumerate(candidates):
                totals[number] += min(len(each.members), int(np.minimum(room[domain.rows], len(each.members)).sum()))
            yield
        return totals

    def _quality(self, candidates: Sequence[Domain]) -> list[float]:
        """The mean total of the best nodes of each domain for the class of most members, as many nodes as it has members."""
        each = max(self._classes, key=lambda found: len(found.members))
        evaluation = self._decider.evaluation(self._snapshot(), each.pod)
        if not evaluation.filtering.count or len(candidates) == 1:
            return [0.0] * len(candidates)
        keys = np.where(evaluation.filtering.feasible, evaluation.scoring.tiers[0].key(slice(None)), -np.inf)
        return [_mean_of_best(keys[domain.rows], len(each.members)) for domain in candidates]

    def _fill(self, domain: Domain) -> Generator[None, None, _Tried]:
        """Assume as many members as the chain places in a domain one after the other; those refused are tried again after others came."""
        tried = _Tried(domain)
        rows = domain.rows if domain.labels else None
        waiting = self._members
        while True:
            refused: set[Hashable] = set()
            left: list[PodView] = []
            progress = False
            for pod in waiting:
                key = self._keys[pod.uid]
                if key in refused:
                    left.append(pod)
                    continue
                choice = self._choose(pod, rows)
                yield
                if choice is None:
                    refused.add(key)
                    left.append(pod)
                else:
                    tried.nodes[pod.uid] = choice
                    self._assume(pod, choice)
                    progress = True
            tried.left = left
            if not left or not progress:
                return tried
            waiting = left

    def _choose(self, pod: PodView, rows: NDArray[np.intp] | None) -> str | None:
        self._steps += 1
        self._left_steps -= 1
        snapshot = self._snapshot()
        choice = self._decider.choose(snapshot, pod, rows)
        return None if choice is None else snapshot.names[choice.row]

    def _assume(self, pod: PodView, node: str) -> None:
        self._state.assume(pod, node)
        self._assumed.append(pod)

    def _assume_all(self, nodes: Mapping[str, str]) -> None:
        for uid, node in nodes.items():
            self._assume(self._by_uid[uid], node)

    def _fit(self, tried: _Tried) -> DomainFit:
        """How many members the domain took, and what stops the next one; asked while they are assumed."""
        reasons: Mapping[str, int] = {}
        if tried.left:
            snapshot = self._snapshot()
            evaluation = self._decider.evaluation(snapshot, tried.left[0])
            reasons = Diagnosis(evaluation.filtering, snapshot.n_nodes).reasons_among(tried.domain.rows)
        domain = tried.domain
        return DomainFit(key=domain.key, value=domain.value, fits=len(tried.nodes), wanted=self._wanted, reasons=reasons)

    def _failure(self, nearest: Sequence[DomainFit]) -> GroupAnswer:
        message = _message(nearest, self._wanted)
        if self._excluded:
            return Impossible(nearest=tuple(nearest), message=message)
        return NotFound(nearest=tuple(nearest), steps=self._steps, message=message)


def _mean_of_best(keys: NDArray[np.float64], most: int) -> float:
    """The mean of the highest finite keys, at most `most` of them; −inf without any."""
    finite = keys[np.isfinite(keys)]
    if not len(finite):
        return -np.inf
    if len(finite) > most:
        finite = np.partition(finite, len(finite) - most)[-most:]
    return float(finite.mean())


def _message(nearest: Sequence[DomainFit], wanted: int) -> str:
    members = count(wanted, "member")
    if not nearest:
        return f"no node has the labels of the group's levels, and {members} must be placed"
    best = nearest[0]
    where = f"{best.key} {best.value} takes {best.fits}" if best.key else f"the cluster takes {best.fits}"
    reasons = ", ".join(f"{number} {text}" for text, number in sorted(best.reasons.items(), key=lambda item: (-item[1], item[0])))
    return f"{members} must be placed at once; {where}" + (f": {reasons}" if reasons else "")
