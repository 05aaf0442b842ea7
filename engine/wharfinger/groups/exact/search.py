"""Searches a place for a group in one domain after placing members in sequence has failed, or proves that there is none.

First the model of the filters of Kubernetes (`group_model`): all combinations of members at once. What it finds is placed in an order in
which the chain agrees to every member. A group with too many different members is placed in parts that are small enough. Smaller models
without some requirements (`relaxations`) can prove that there is no place. At last, for what the model does not know, everything is tried
within a budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.plugins.pods import affinity_terms
from wharfinger.groups.domains import DomainPlacement, TentativePlacement
from wharfinger.groups.exact import member_classes
from wharfinger.groups.exact.group_model import MAX_VECTORS, GroupModel, Solution
from wharfinger.groups.exact.member_classes import Merging, class_axes, requirements_in_steps
from wharfinger.groups.exact.packing import Space, TooMuchWork
from wharfinger.groups.exact.relaxations import Relaxation, relaxations
from wharfinger.model.columns.node_table import stable_hash

if TYPE_CHECKING:
    from wharfinger.groups.domains import Domain
    from wharfinger.groups.exact.member_classes import MemberClass
    from wharfinger.model.objects.pod_view import PodView

WORK_OF_STEP = 100
"""Units of work of the model (`packing`) that take as long as a decision about one member."""
MAX_FIRST_MEMBERS = 32  # members that are tried as the first of a solution
MAX_PART_VECTORS = 1 << 12  # vectors of a part of a group that is placed part by part
MAX_ORDERS = 60  # orders in which the parts of a group are tried, after the most promising ones
MAX_ORDERED = 128  # classes of which each is compared with all others
STEPS_FOR_PARTS = 5_000  # in one domain
STEPS_FOR_BOUND = 2_000  # of one model of a relaxation in one domain
LARGE = 10  # members of a group for which not everything is tried for long
STEPS_FOR_LARGE = 100


class ExactSearch:
    """The search for `wanted` of the members of some classes; the models are those of the state at the first question."""

    def __init__(self, tentative: TentativePlacement, classes: Sequence[MemberClass], wanted: int) -> None:
        self._tentative = tentative
        self._classes = classes
        self._wanted = wanted
        self._n_members = sum(len(each.members) for each in classes)
        self._models: dict[Merging, GroupModel] = {}
        self._relaxations: list[Relaxation] | None = None

    def place(self, domain: Domain) -> Generator[None, None, DomainPlacement | int | None]:
        """The placement, forgotten again; the most members that the domain takes, if too few; None if neither is found."""
        tentative = self._tentative
        model = yield from self._model(Merging.EQUALS)
        if model.fits_in_space:
            solution = yield from self._solved(model, domain)
            if solution is not None:
                if solution.n_placeable < self._wanted:
                    return solution.n_placeable
                tried = yield from self._in_any_order(domain, model.shares(solution))
                if tried is not None:
                    return tried
        else:
            n_placeable = yield from self._relaxed(domain)
            if n_placeable < self._wanted:
                return n_placeable
            tried = (yield from self._merged(domain)) or (yield from self._part_by_part(domain))
            if tried is not None:
                return tried
        steps = tentative.steps_left if self._n_members <= LARGE else min(STEPS_FOR_LARGE, tentative.steps_left)
        found = yield from self._by_trying_everything(domain, steps)
        return self._wanted - 1 if found is True else found or None

    def place_more(self, domain: Domain, than: int, steps: int) -> Generator[None, None, DomainPlacement | None]:
        """The placement of the most members, forgotten again; None if no more than `than` are found within the steps.

        Only for groups of which all combinations of members are looked at at once.
        """
        model = yield from self._model(Merging.EQUALS)
        solution = (yield from self._solved(model, domain, steps)) if model.fits_in_space else None
        if solution is None or solution.n_placeable <= than:
            return None
        return (yield from self._in_any_order(domain, model.shares(solution)))

    @property
    def exact(self) -> bool:
        """True if the model includes everything that the filters check, for all members."""
        model = self._models.get(Merging.EQUALS)
        return model is not None and model.exact and model.fits_in_space

    def at_most(self, domain: Domain) -> Generator[None, None, int]:
        """A number of members that the domain surely takes no more of, by the model alone."""
        model = yield from self._model(Merging.EQUALS)
        if not model.fits_in_space:
            return (yield from self._relaxed(domain))
        solution = yield from self._solved(model, domain)
        return self._n_members if solution is None else solution.n_placeable

    def _relaxed(self, domain: Domain) -> Generator[None, None, int]:
        """The most members that a domain takes by the first relaxation that shows that these are too few, else by the strictest."""
        if self._relaxations is None:
            self._relaxations = relaxations(self._classes)
        n_placeable = self._n_members
        for each in self._relaxations:
            n_placeable = min(n_placeable, (yield from self._placeable_by(each, domain)))
            if n_placeable < self._wanted:
                break
        return n_placeable

    def _placeable_by(self, relaxation: Relaxation, domain: Domain) -> Generator[None, None, int]:
        """The most members that a domain takes by the models of a relaxation, which count different members each."""
        n_placeable = 0
        if not relaxation.is_made:
            self._tentative.spend(relaxation.classes)
        for model in (yield from relaxation.models(self._tentative.decider, self._tentative.snapshot)):
            solution = (yield from self._solved(model, domain, STEPS_FOR_BOUND)) if model.fits_in_space else None
            n_placeable += model.n_members if solution is None else solution.n_placeable
        return n_placeable

    def _model(self, merging: Merging) -> Generator[None, None, GroupModel]:
        model = self._models.get(merging)
        if model is None:
            model = self._models[merging] = yield from self._new_model(self._classes, merging)
            yield from model.prepare()
        return model

    def _new_model(self, classes: Sequence[MemberClass], merging: Merging = Merging.EQUALS) -> Generator[None, None, GroupModel]:
        snapshot = self._tentative.snapshot
        self._tentative.spend(len(classes))
        requirements = yield from requirements_in_steps(self._tentative.decider, snapshot, classes)
        axes = yield from class_axes(classes, requirements, merging)
        return GroupModel(snapshot, classes, axes, merging)

    def _solved(self, model: GroupModel, domain: Domain, max_steps: int | None = None) -> Generator[None, None, Solution | None]:
        """The solution of a model; None if it takes more than `max_steps`, or than half of the steps that are left."""
        steps = self._tentative.steps_left // 2
        steps = steps if max_steps is None else min(steps, max_steps)
        try:
            solution = yield from model.solve(self._rows(domain), steps * WORK_OF_STEP)
        except TooMuchWork:
            self._tentative.spend(steps)
            return None
        self._tentative.spend(1 + int(solution.work / WORK_OF_STEP))
        return solution

    def _rows(self, domain: Domain) -> NDArray[np.intp]:
        """The rows of a domain in an order that depends only on the node names, so that all copies of a state give the same answer."""
        found: NDArray[np.intp] = domain.rows[np.argsort(self._tentative.snapshot.name_hashes[domain.rows], kind="stable")]
        return found

    def _merged(self, domain: Domain) -> Generator[None, None, DomainPlacement | None]:
        """A placement in which members that are much alike get equal room; None if none is found."""
        model = yield from self._model(Merging.MOST)
        solution = (yield from self._solved(model, domain)) if model.fits_in_space else None
        if solution is None or solution.n_placeable < self._wanted:
            return None
        return (yield from self._in_any_order(domain, model.shares(solution)))

    # ── from counts to members ──

    def _in_any_order(self, domain: Domain, shares: Mapping[tuple[int, int], int]) -> Generator[None, None, DomainPlacement | None]:
        """A solution of the model in an order in which the chain agrees to every member; None if none is found."""
        for first in (None, *itertools.islice(shares, MAX_FIRST_MEMBERS)):
            waiting = [list(each.members) for each in self._classes]
            rest = dict(shares)
            if first is None or (yield from self._assume_one(first, rest, waiting)):
                yield from self._assume_shares(rest, waiting)
            names = self._names()
            yield from self._tentative.forgetting()
            if not rest:
                return DomainPlacement(domain, names, [pod for each in waiting for pod in each])
        return None

    def _assume_one(
        self, share: tuple[int, int], shares: dict[tuple[int, int], int], waiting: Sequence[list[PodView]]
    ) -> Generator[None, None, bool]:
        """Assume one member of a share (class, row) if the chain agrees."""
        number, row = share
        if not self._tentative.takes(row, waiting[number][0]):
            return False
        self._tentative.assume(waiting[number].pop(0), self._tentative.snapshot.names[row])
        shares[share] -= 1
        if not shares[share]:
            del shares[share]
        yield
        return True

    def _assume_shares(self, shares: dict[tuple[int, int], int], waiting: Sequence[list[PodView]]) -> Generator[None, None, None]:
        """Assume shares (class, row → number) where the chain agrees, until all are or none can be; those that are, are taken out."""
        again = True
        while shares and again:
            again = False
            for share in list(shares):
                while share in shares and (yield from self._assume_one(share, shares, waiting)):
                    again = True

    def _names(self) -> dict[str, str]:
        """The nodes of the assumed members by uid, in order."""
        snapshot = self._tentative.snapshot
        rows = ((pod.uid, snapshot.placed(pod.uid)) for pod in self._tentative.assumed)
        return {uid: snapshot.names[placed[0]] for uid, placed in rows if placed is not None}

    # ── part by part ──

    def _part_by_part(self, domain: Domain) -> Generator[None, None, DomainPlacement | None]:
        """Place the classes in parts, each exactly, in some orders; None if too few members find a place."""
        ends_at = max(0, self._tentative.steps_left - STEPS_FOR_PARTS)
        for order in (yield from self._orders(domain)):
            waiting: dict[int, list[PodView]] = {id(each): list(each.members) for each in self._classes}
            for part in _parts(order):
                model = yield from self._new_model(part)
                yield from model.prepare()
                solution = yield from self._solved(model, domain)
                if solution is None:
                    break
                yield from self._assume_shares(model.shares(solution), [waiting[id(each)] for each in part])
            names = self._names()
            yield from self._tentative.forgetting()
            if len(names) >= self._wanted:
                return DomainPlacement(domain, names, [pod for each in self._classes for pod in waiting[id(each)]])
            if self._tentative.steps_left <= ends_at:
                break
        return None

    def _orders(self, domain: Domain) -> Generator[None, None, Iterator[list[MemberClass]]]:
        """A generator of steps that returns orders of classes: depended-on classes first, and the scarcest or the largest first."""
        decider, snapshot, classes = self._tentative.decider, self._tentative.snapshot, list(self._classes)
        self._tentative.spend(len(classes))
        ratio: dict[int, float] = {}
        for each in classes:
            ratio[id(each)] = len(each.members) / max(1, int(member_classes.room(decider, snapshot, each.pod)[domain.rows].sum()))
            yield
        free = {
            name: max(1, int(snapshot.allocatable[place][domain.rows].max()))
            for name in snapshot.resource_names
            if (place := snapshot.resource_index(name)) is not None
        }
        size = {id(each): max((amount / free.get(name, 1) for name, amount in each.pod.requests.items()), default=0.0) for each in classes}
        plain = {id(each): affinity_terms.terms_of_placed(each.pod) == affinity_terms.NO_TERMS for each in classes}
        keys: list[Callable[[MemberClass], Any]] = [
            lambda each: -size[id(each)],
            lambda each: -ratio[id(each)],
            lambda each: -size[id(each)] * len(each.members),
            lambda each: (plain[id(each)], -size[id(each)]),
            *(partial(_shuffled, number) for number in range(MAX_ORDERS)),
        ]
        return (_wanted_first(sorted(classes, key=key)) for key in keys)

    # ── everything ──

    def _by_trying_everything(self, domain: Domain, steps: int) -> Generator[None, None, DomainPlacement | bool]:
        """Try the members on the nodes of a domain in every order; a placement, True if there is none, False if the budget ends first.

        Members of one class are equal, so a state is the number of members of each class on each node. Each state is visited once. Where
        members get devices, the state depends on the order too, so nothing is proven.
        """
        tentative = self._tentative
        ends_at = tentative.steps_left - steps
        waiting = [list(each.members) for each in self._classes]
        placed: list[tuple[int, int]] = []
        seen: set[tuple[tuple[int, int], ...]] = set()
        stack = [(yield from self._moves(domain, waiting, 0))]
        while stack:
            if tentative.steps_left <= ends_at:
                yield from tentative.forgetting()
                return False
            move = next(stack[-1], None)
            if move is None:
                stack.pop()
                if placed:
                    waiting[placed.pop()[0]].insert(0, tentative.forget_last())
                continue
            state = tuple(sorted([*placed, move]))
            if state in seen:
                continue
            seen.add(state)
            number, row = move
            tentative.assume(waiting[number].pop(0), tentative.snapshot.names[row])
            placed.append(move)
            if len(placed) >= self._wanted:
                tried = DomainPlacement(domain, self._names(), [pod for each in waiting for pod in each])
                yield from tentative.forgetting()
                return tried
            stack.append((yield from self._moves(domain, waiting, len(placed))))
        return tentative.plain

    def _moves(self, domain: Domain, waiting: Sequence[list[PodView]], n_placed: int) -> Generator[None, None, Iterator[tuple[int, int]]]:
        """The (class, row) that the chain agrees to now, the class with the fewest nodes first; none if too few members can follow."""
        tentative = self._tentative
        bound = n_placed
        found: list[tuple[int, NDArray[np.intp]]] = []
        every = self._rows(domain)
        for number, each in enumerate(waiting):
            if each:
                tentative.spend()
                room = member_classes.room(tentative.decider, tentative.snapshot, each[0])[every]
                bound += min(len(each), int(np.minimum(room, len(each)).sum()))
                evaluation = tentative.evaluation(each[0])
                rows = every[evaluation.filtering.feasible[every]]
                if len(rows):
                    keys = evaluation.scoring.key_among(rows)
                    found.append((number, rows[np.argsort(-keys, kind="stable")]))
                yield
        if bound < self._wanted:
            return iter(())
        found.sort(key=lambda each: len(each[1]))
        return iter([(number, row) for number, rows in found for row in rows.tolist()])


def _shuffled(number: int, each: MemberClass) -> int:
    """A key by which classes are as if shuffled, and the same in every run."""
    return stable_hash(f"{number} {each.pod.uid}")


def _parts(order: Sequence[MemberClass]) -> Iterator[list[MemberClass]]:
    """Consecutive classes whose space of counts is small; a class with many members is its own part."""
    part: list[MemberClass] = []
    for each in order:
        sizes = [len(member.members) for member in [*part, each]]
        if part and (Space.size(sizes) > MAX_PART_VECTORS):
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _wanted_first(order: list[MemberClass]) -> list[MemberClass]:
    """The same order, but classes that others wish to be near come before these; as it is for very many classes."""
    if len(order) > MAX_ORDERED:
        return order
    terms = {id(each): affinity_terms.terms_of_placed(each.pod).required for each in order}
    wanted_by = {
        id(each): [other for other in order if other is not each and affinity_terms.matches_all(terms[id(each)], other.pod)]
        if terms[id(each)]
        else []
        for each in order
    }
    found: list[MemberClass] = []
    left = list(order)
    while left:
        ready = (each for each in left if not any(other is one for other in wanted_by[id(each)] for one in left))
        chosen = next(ready, left[0])
        left = [each for each in left if each is not chosen]
        found.append(chosen)
    return found


assert MAX_PART_VECTORS <= MAX_VECTORS  # noqa: S101 — a part has a model
