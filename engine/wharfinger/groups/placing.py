"""Finds where a group of pods goes: all members that must be placed, close together, by the chain that places single pods.

`placing` is a generator of short steps, `place` runs it to its end. Members are assumed on the state one after the other and forgotten
again, so that filters and scores see those placed before. Domains are tried best first: those that may take the whole group come first,
among them the one whose nodes score best. The first that takes every member is the answer; if none does, the one that takes most, as
kube-scheduler 1.36 chooses (schedule_one_podgroup.go, plugins/podgrouppodscount).

Between two steps some members may be assumed on the state. Pass a copy (`FollowedCopy`) if others must not see that.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.groups import domains, member_classes
from wharfinger.groups.domains import Domain
from wharfinger.groups.group_model import GroupModel, Solution
from wharfinger.groups.packing import TooMuchWork
from wharfinger.groups.terms import DomainFit, Group, GroupAnswer, Impossible, NotFound, Placed
from wharfinger.language.report.wording import count

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot

STEPS = 20_000
"""The default budget: decisions about one member on the nodes of one domain."""
WORK_OF_STEP = 100
"""Units of work of the model (`packing`) that take as long as a decision about one member."""
MOST_NEAREST = 3
MOST_FIRSTS = 32  # members that are tried as the first of a solution


def place(  # noqa: PLR0913 — what decides, about whom, and how far to go
    decider: Decider,
    state: ClusterState,
    group: Group,
    *,
    steps: int = STEPS,
    keep: bool = False,
    within: Mapping[str, str] | None = None,
) -> GroupAnswer:
    """The answer of `placing`, in one go."""
    search = placing(decider, state, group, steps=steps, keep=keep, within=within)
    while True:
        try:
            next(search)
        except StopIteration as end:
            answer: GroupAnswer = end.value
            return answer


def placing(  # noqa: PLR0913 — the same
    decider: Decider,
    state: ClusterState,
    group: Group,
    *,
    steps: int = STEPS,
    keep: bool = False,
    within: Mapping[str, str] | None = None,
) -> Generator[None, None, GroupAnswer]:
    """A generator of steps that returns where the group goes, or why it goes nowhere.

    The state is as before when it ends or is closed, except with `keep`: then the members of a placement stay assumed. The search gives up
    after `steps` decisions about members. `within` are values of required levels: only their domain is looked at.
    """
    search = _Search(decider, state, group, steps, within or {})
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

    def __init__(self, decider: Decider, state: ClusterState, group: Group, steps: int, within: Mapping[str, str]) -> None:
        self._within = within
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
        self._proven = True  # no domain of the last stage takes the group
        self._model: GroupModel | None = None

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
        if any(pinned.get(key, value) != value for key, value in self._within.items()):
            return Impossible(nearest=(), message="its placed members are in another domain")
        pinned = {**pinned, **self._within}
        found: list[DomainFit] = []
        for keys in domains.stages(group.terms.levels):
            exact = set(keys) == set(required)
            best, fits = yield from self._best_of(keys, pinned)
            if best is not None and (exact or not best.left or (group.needed and len(best.nodes) >= self._wanted)):
                self._assume_all(best.nodes)
                return Placed(nodes=best.nodes, domains=best.domain.labels, left=tuple(best.left))
            found = sorted(fits, key=lambda fit: (-fit.fits, fit.value))[:MOST_NEAREST]
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
        self._proven = True
        quality = self._quality(candidates)
        order = sorted(range(len(candidates)), key=lambda number: (-bounds[number], -quality[number], str(candidates[number])))
        best: _Tried | None = None
        fits = [DomainFit(key=each.key, value=each.value, fits=bounds[i], wanted=self._wanted) for i, each in enumerate(candidates)]
        for number in order:
            least = self._wanted if best is None else len(best.nodes) + 1
            if bounds[number] < least:
                break
            if self._left_steps <= 0:
                self._proven = False
                break
            tried = yield from self._fill(candidates[number])
            fits[number] = self._fit(tried)
            self.forget_all()
            if len(tried.nodes) >= least:
                best = tried
                if not tried.left:
                    break
        if best is None:
            for number in order:
                if bounds[number] < self._wanted:
                    break
                exact = yield from self._exactly(candidates[number], fits[number])
                if isinstance(exact, _Tried):
                    return exact, fits
                fits[number] = exact
        return best, fits

    def _exactly(self, domain: Domain, greedy: DomainFit) -> Generator[None, None, _Tried | DomainFit]:
        """What a domain takes by the model of the filters and, where that says too little, by trying everything within the budget."""
        model = self._model
        if model is None:
            model = self._model = GroupModel(self._decider, self._snapshot(), self._classes)
            yield
        if model.fits_in_space:
            try:
                solution = yield from model.solve(domain.rows, self._left_steps * WORK_OF_STEP)
            except TooMuchWork:
                self._left_steps = 0
                self._proven = False
                return greedy
            self._spend(1 + int(solution.work / WORK_OF_STEP))
            if solution.most < self._wanted:
                return replace(greedy, fits=max(solution.most, greedy.fits))
            realised = yield from self._realised(domain, solution)
            if realised is not None:
                return realised
        found = yield from self._exhausted(domain)
        if isinstance(found, _Tried):
            return found
        self._proven = self._proven and found
        return greedy

    def _realised(self, domain: Domain, solution: Solution) -> Generator[None, None, _Tried | None]:
        """A solution of the model in an order in which the chain agrees to every member; None if none is found."""
        shares = {(number, row): amount for row, vector in solution.rows().items() for number, amount in enumerate(vector) if amount}
        for first in (None, *itertools.islice(shares, MOST_FIRSTS)):
            tried = yield from self._in_some_order(domain, dict(shares), first)
            self.forget_all()
            if tried is not None:
                return tried
        return None

    def _in_some_order(
        self, domain: Domain, shares: dict[tuple[int, int], int], first: tuple[int, int] | None
    ) -> Generator[None, None, _Tried | None]:
        """Assume the shares (class, row → number) wherever the chain agrees, until all are or none can be; `first` goes first."""
        tried = _Tried(domain)
        waiting = [list(each.members) for each in self._classes]
        again = True
        while shares and again:
            again = False
            for number, row in [first] if first is not None else list(shares):
                while shares.get((number, row)) and self._is_feasible(waiting[number][0], row):
                    pod = waiting[number].pop(0)
                    name = self._snapshot().names[row]
                    tried.nodes[pod.uid] = name
                    self._assume(pod, name)
                    again = True
                    shares[number, row] -= 1
                    if not shares[number, row]:
                        del shares[number, row]
                    if first is not None:
                        break
                yield
            first = None
        tried.left = [pod for pod in self._members if pod.uid not in tried.nodes]
        return None if shares else tried

    def _is_feasible(self, pod: PodView, row: int) -> bool:
        self._spend(1)
        return bool(self._decider.evaluation(self._snapshot(), pod).filtering.feasible[row])

    def _exhausted(self, domain: Domain) -> Generator[None, None, _Tried | bool]:
        """Try the members on the nodes of a domain in every order; a placement, True if there is none, False if the budget ends first.

        Members of one class are equal, so a state is the number of members of each class on each node. Each state is visited once.
        """
        waiting = [list(each.members) for each in self._classes]
        placed: list[tuple[int, int]] = []
        seen: set[tuple[tuple[int, int], ...]] = set()
        stack = [(yield from self._moves(domain, waiting, len(placed)))]
        while stack:
            if self._left_steps <= 0:
                self.forget_all()
                return False
            move = next(stack[-1], None)
            if move is None:
                stack.pop()
                if placed:
                    number, _ = placed.pop()
                    pod = self._assumed.pop()
                    self._state.forget(pod)
                    waiting[number].insert(0, pod)
                continue
            state = tuple(sorted([*placed, move]))
            if state in seen:
                continue
            seen.add(state)
            number, row = move
            pod = waiting[number].pop(0)
            self._assume(pod, self._snapshot().names[row])
            placed.append(move)
            if len(placed) >= self._wanted:
                names = self._snapshot().names
                tried = _Tried(domain, {pod.uid: names[row] for pod, (_, row) in zip(self._assumed, placed, strict=True)})
                tried.left = [pod for each in waiting for pod in each]
                self.forget_all()
                return tried
            stack.append((yield from self._moves(domain, waiting, len(placed))))
        return True

    def _moves(self, domain: Domain, waiting: Sequence[list[PodView]], n_placed: int) -> Generator[None, None, Iterator[tuple[int, int]]]:
        """The (class, row) that the chain agrees to now, the class with the fewest nodes first; none if too few members can follow."""
        bound = n_placed
        found: list[tuple[int, NDArray[np.intp]]] = []
        for number, each in enumerate(waiting):
            if each:
                self._spend(1)
                snapshot = self._snapshot()
                room = member_classes.room(self._decider, snapshot, each[0])[domain.rows]
                bound += min(len(each), int(np.minimum(room, len(each)).sum()))
                evaluation = self._decider.evaluation(snapshot, each[0])
                rows = domain.rows[evaluation.filtering.feasible[domain.rows]]
                if len(rows):
                    keys = evaluation.scoring.key_among(rows)
                    found.append((number, rows[np.argsort(-keys, kind="stable")]))
                yield
        if bound < self._wanted:
            return iter(())
        found.sort(key=lambda each: len(each[1]))
        return iter([(number, row) for number, rows in found for row in rows.tolist()])

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

    def _spend(self, steps: int) -> None:
        self._steps += steps
        self._left_steps -= steps

    def _choose(self, pod: PodView, rows: NDArray[np.intp] | None) -> str | None:
        self._spend(1)
        snapshot = self._snapshot()
        choice = self._decider.choose(snapshot, pod, rows)
        return None if choice is None else snapshot.names[choice.row]

    def _assume(self, pod: PodView, node: str) -> None:
        self._state.assume(self._decider.chain.assigned_on(pod, self._snapshot(), node), node)
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
        if self._proven:
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
