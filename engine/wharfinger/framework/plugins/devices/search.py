"""The search for devices: which devices of a node meet all alternatives of a pod.

The search is depth first, and the first full solution is taken. Claims, their requests, and the alternatives of a request are tried in
order, devices by pool, slice and place. Within one request, each further device comes after the one before; every request begins with the
first device. A device is taken if it is free, matches, has the counters and the capacity that are needed, is not tainted, and satisfies the
constraints of its claim. If the rest cannot be met then, the device is released and the next one is tried.

If an unused device has failed, an equal unused device of the same pool is not tried in its place, because the rest would fail in the same
way. A long search remembers where it has failed: with the same remaining requests, and the same taken devices as far as they matter, it
fails again (`_state_key`).

The search uses no names. It uses the codes of pools (`requests`) and their allocations, so its outcome is valid for every node with equal
devices. Requests, alternatives and constraints can be written so that the search would never end: it stops after `MAX_STEPS`;
kube-scheduler stops after ten seconds. Source: `structured/internal/incubating/allocator_incubating.go` and `constraint.go`, Kubernetes
1.36, with its oddities: the counters of two pools of one name are counted together, and a constraint on different values remembers the last
device of each request only.

The search is a generator that yields after every `STEPS_AT_ONCE` of its steps, so that the event loop need not wait for its end.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from msgspec import Struct

from wharfinger.framework.plugins.devices.cel.selector import UNKNOWN_KIND, TypedValue
from wharfinger.framework.plugins.devices.requests import (
    BEYOND_BUDGET,
    Alternative,
    ClaimDemand,
    Constraint,
    ConsumedCapacity,
    PoolCode,
    Request,
    SelectorFault,
)
from wharfinger.model.objects.devices import EXACT_COUNT, MAX_ALTERNATIVES, MAX_DEVICES
from wharfinger.model.state.device_states import UsageKey

MAX_STEPS: Final = 20_000
"""Devices and constraints that one search looks at, at most: about 30 ms."""
MAX_TOTAL_STEPS: Final = 60_000
"""Those that the searches of one decision look at, besides `STEPS_PER_NODE` for each node: 60 ms. Nodes that look the same share one."""
STEPS_PER_NODE: Final = 40
SHORT: Final = 500
"""Steps after which a search remembers where it has failed; most end before."""
STEPS_AT_ONCE: Final = 4_000
"""Steps that a search takes between two pauses: about 6 ms."""
COST_OF_STATE_KEY: Final = 4
"""The cost of finding out whether a search has been in a state before, in steps."""


class FaultKind(Enum):
    """An error of a search, by the message of kube-scheduler."""

    SELECTOR = "selector"
    UPDATING = "updating"
    INVALID = "invalid"
    TOO_MANY = "too many"
    UNKNOWN_MODE = "unknown mode"
    CONSTRAINT = "constraint"
    EMPTY_CONSTRAINT = "empty constraint"
    GAVE_UP = "gave up"


class Fault(Struct, frozen=True, eq=False):
    """An error that ends the cycle. `number` is a count or an index, `place` the pool and position of a device (-1: none)."""

    kind: FaultKind
    claim: int = 0
    alternative: Alternative | None = None
    number: int = 0
    place: tuple[int, int] = (-1, -1)
    selector: SelectorFault | None = None


class Pick(NamedTuple):
    """A device that was taken for an alternative: pool, position, and consumed capacity (None if the claim gets the whole device)."""

    alternative: Alternative
    pool: int
    position: int
    consumed_capacities: tuple[ConsumedCapacity, ...] | None


class Outcome(Struct, frozen=True, eq=False):
    """The result of a search: `picks` for each claim (None: there is no solution), or a fault.

    `chosen` are the alternatives that were chosen and their places, by (claim, request). `invalid` is true if there is no solution and some
    pool is invalid. `steps` are those that the search took.
    """

    picks: tuple[tuple[Pick, ...], ...] | None = None
    chosen: Mapping[tuple[int, int], tuple[int, Alternative]] | None = None
    invalid: bool = False
    fault: Fault | None = None
    steps: int = 0

    @property
    def score(self) -> int:
        """8 for each first alternative, 7 for a second one, and so on, if devices were taken for it."""
        if self.picks is None or not self.chosen:
            return 0
        met = {pick.alternative for picks in self.picks for pick in picks}
        return sum(MAX_ALTERNATIVES - place for place, alternative in self.chosen.values() if alternative in met)


class _Failed(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class _BranchResult(Enum):
    """The end of one branch of the search; `TOO_MANY`: a claim would get more devices than the maximum."""

    MET = "met"
    NOT_MET = "not met"
    TOO_MANY = "too many"


MET, NOT_MET, TOO_MANY = _BranchResult.MET, _BranchResult.NOT_MET, _BranchResult.TOO_MANY


Place = tuple[int, int]
"""The number of a pool, and the position of a device in it."""


def search(
    demand: ClaimDemand, pools: Sequence[PoolCode], groups: Sequence[int], usage: Sequence[UsageKey], order: Sequence[Place] | None = None
) -> Outcome:
    """The outcome for a node with these pools and their `usage`; `groups` numbers the pools by name.

    `order` are the positions of all devices in the order that a policy prefers; without it, they are tried in the order of Kubernetes. A
    search with an `order` gives up after `STEPS_AT_ONCE`, because a decision makes it without a pause.
    """
    found = Search(demand, pools, groups, usage, order)
    for _ in found.run():
        pass
    return found.outcome


def search_in_steps(
    demand: ClaimDemand, pools: Sequence[PoolCode], groups: Sequence[int], usage: Sequence[UsageKey]
) -> Generator[None, None, Outcome]:
    """The same with a pause after every `STEPS_AT_ONCE` steps, in the order of Kubernetes."""
    found = Search(demand, pools, groups, usage, None)
    yield from found.run()
    return found.outcome


_Branch = Generator[None, None, "_BranchResult"]


class _Taken:
    """The allocations of a device to claims of other pods, and in this search."""

    __slots__ = ("claims", "consumed", "exclusive", "held", "sharing")

    def __init__(self, key: Hashable | None) -> None:
        self.exclusive = key is True
        self.held = key is not None  # by other pods, in whole or in part
        self.sharing = 0
        self.consumed: dict[str, int] = {}
        self.claims: list[int] = []
        if isinstance(key, tuple):
            self.exclusive, shared, consumed = key
            self.sharing = int(shared)
            self.consumed = dict(consumed)


class _Undo(NamedTuple):
    alternative: Alternative
    place: tuple[int, int]
    consumed_capacities: tuple[ConsumedCapacity, ...] | None
    counted: bool


class _Values:
    """The values of one constraint's attribute among the devices taken so far."""

    __slots__ = ("_by_request", "_constraint", "_count", "_value")

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._count = 0
        self._value: TypedValue = UNKNOWN_KIND
        self._by_request: dict[str, TypedValue] = {}

    def add(self, alternative: Alternative, value: TypedValue | None) -> bool:
        """Add the device's value; False, and nothing is added, if that would violate the constraint."""
        if not self._constraint.concerns(alternative):
            return True
        if value is None:
            return False
        if self._count and not self._allows(value):
            return False
        self._count += 1
        if self._constraint.distinct:
            self._by_request[alternative.parent or alternative.name] = value
        elif self._count == 1:
            self._value = value
        return True

    def _allows(self, value: TypedValue) -> bool:
        if self._constraint.distinct:
            return not self._by_request or (value != UNKNOWN_KIND and value not in self._by_request.values())
        return value != UNKNOWN_KIND and value == self._value

    @property
    def state(self) -> Hashable:
        """A value that is equal for two states in which the constraint accepts the same further devices."""
        if not self._count:
            return None
        return tuple(sorted(self._by_request.items(), key=repr)) if self._constraint.distinct else self._value

    def remove(self, alternative: Alternative) -> None:
        """Undo `add`. For a distinct attribute, the value of the whole request is removed, also if it has other devices."""
        if self._constraint.concerns(alternative):
            self._count -= 1
            if self._constraint.distinct:
                self._by_request.pop(alternative.parent or alternative.name, None)


class Search:
    """One search. `occupied`, `has_capacity` and `has_counters` are the conditions by which it takes a device."""

    def __init__(
        self,
        demand: ClaimDemand,
        pools: Sequence[PoolCode],
        groups: Sequence[int],
        usage: Sequence[UsageKey],
        order: Sequence[Place] | None,
    ) -> None:
        self._order = order
        self._ranks = {place: rank for rank, place in enumerate(order or ())}
        self._limit = MAX_STEPS if order is None else STEPS_AT_ONCE
        self._demand = demand
        self._pools = pools
        self._trusted = [not pool.incomplete and not pool.invalid for pool in pools]
        self._groups = groups
        self._taken = [_by_position(pool, used) for pool, used in zip(pools, usage, strict=True)]
        self._values = [_Values(constraint) for constraint in demand.constraints]
        self._every: dict[int, list[tuple[int, int]]] = {}
        self._picks: list[list[Pick]] = [[] for _ in demand.claims]
        self._chosen: dict[tuple[int, int], tuple[int, Alternative]] = {}
        self._available: dict[int, dict[tuple[str, str], int]] = {}
        self._consumed: dict[int, dict[tuple[str, str], int]] = {}
        self._has_admin = any(alternative.admin for alternative in demand.alternatives)
        self._of_kind: dict[int, Sequence[Place]] = {}
        self._by_alternative: dict[int, tuple[frozenset[Place], frozenset[Place], tuple[int, ...]]] = {}
        self._failed: dict[Hashable, _BranchResult] = {}
        self._steps = 0
        self._pause_at = STEPS_AT_ONCE
        self.outcome = Outcome()

    def run(self) -> Iterator[None]:
        """Find the first full solution, or why there is none: the `outcome`. Yields after every `STEPS_AT_ONCE` steps."""
        try:
            self._prepare()
            end = yield from self._claim(0)
        except _Failed as failed:
            self.outcome = Outcome(fault=failed.fault, steps=self._steps)
        except RecursionError:  # each device is one level of the search; hundreds of them for one pod are too many
            self.outcome = Outcome(fault=Fault(FaultKind.GAVE_UP), steps=self._steps)
        else:
            if end is MET:
                self.outcome = Outcome(picks=tuple(map(tuple, self._picks)), chosen=self._chosen, steps=self._steps)
            else:
                self.outcome = Outcome(invalid=any(pool.invalid for pool in self._pools), steps=self._steps)

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > self._limit:
            raise _Failed(Fault(FaultKind.GAVE_UP))

    # ── before the search ──

    def _prepare(self) -> None:
        """Find the devices of alternatives that want all, and check that no claim requests too many."""
        for index, claim in enumerate(self._demand.claims):
            least = sum(min((self._size(alternative) for alternative in request.alternatives), default=0) for request in claim.requests)
            if least > MAX_DEVICES:
                raise _Failed(Fault(FaultKind.TOO_MANY, index, number=least))
            if claim.unknown >= 0:
                raise _Failed(Fault(FaultKind.EMPTY_CONSTRAINT, index, number=claim.unknown))

    def _size(self, alternative: Alternative) -> int:
        if not alternative.every:
            if alternative.wanted.allocation_mode not in {"", EXACT_COUNT}:
                raise _Failed(Fault(FaultKind.UNKNOWN_MODE, alternative.claim, alternative))
            return alternative.count
        if alternative.number not in self._every:
            self._every[alternative.number] = list(self._matching(alternative))
        return len(self._every[alternative.number])

    def _matching(self, alternative: Alternative) -> Iterator[tuple[int, int]]:
        for number, pool in enumerate(self._pools):
            if pool.incomplete or pool.invalid:
                raise _Failed(
                    Fault(FaultKind.UPDATING if pool.incomplete else FaultKind.INVALID, alternative.claim, alternative, place=(number, -1))
                )
            self._spend(len(pool.codes))
            for position in range(len(pool.codes)):
                if self._selectable(alternative, number, position) and self.has_capacity(alternative, number, position):
                    yield number, position

    def _selectable(self, alternative: Alternative, number: int, position: int) -> bool:
        pool = self._pools[number]
        match = pool.codes[position].matches[alternative.kind]
        if match is BEYOND_BUDGET:
            raise _Failed(Fault(FaultKind.GAVE_UP))
        if isinstance(match, SelectorFault):
            raise _Failed(Fault(FaultKind.SELECTOR, alternative.claim, alternative, selector=match))
        return match and (pool.reachable is None or pool.reachable[position])

    # ── the search ──

    def _claim(self, index: int) -> _Branch:
        if index == len(self._demand.claims):
            return MET
        return (yield from self._request(index, 0))

    def _request(self, claim: int, index: int) -> _Branch:
        requests = self._demand.claims[claim].requests
        if index == len(requests):
            end = yield from self._claim(claim + 1)
            return NOT_MET if end is TOO_MANY else end  # another choice in this claim may need less there
        request = requests[index]
        if not request.choice:
            return (yield from self._devices(request.alternatives[0], index, 0, 0, 0))
        return (yield from self._alternatives(request, claim, index))

    def _alternatives(self, request: Request, claim: int, index: int) -> _Branch:
        too_many = True
        for place, alternative in enumerate(request.alternatives):
            end = yield from self._devices(alternative, index, 0, 0, 0)
            if end is MET:
                self._chosen[claim, index] = place, alternative
                return MET
            too_many &= end is TOO_MANY
        return TOO_MANY if too_many else NOT_MET

    def _devices(self, alternative: Alternative, index: int, count: int, from_pool: int, from_position: int) -> _Branch:
        """Take the devices of an alternative from the `count`th on, not before a place, and then everything after the alternative."""
        self._spend(1 + len(self._demand.claims[alternative.claim].constraints))
        if self._steps >= self._pause_at:
            self._pause_at = self._steps + STEPS_AT_ONCE
            yield
        size = self._size(alternative)
        if count >= size:
            return NOT_MET if alternative.every and not size else (yield from self._request(alternative.claim, index + 1))
        if len(self._picks[alternative.claim]) + size - count > MAX_DEVICES:
            return TOO_MANY
        state_key = self._state_key(alternative, index, count, (from_pool, from_position))
        if state_key in self._failed:
            return self._failed[state_key]
        end = NOT_MET
        for number, position in self._places_of(alternative, count, from_pool, from_position):
            undo = self._take(alternative, number, position, must=alternative.every)
            end = NOT_MET if undo is None else (yield from self._devices(alternative, index, count + 1, number, position + 1))
            if end is MET:
                return MET
            if undo is not None:
                self._release(undo)
            if end is TOO_MANY:
                break
        if state_key is not None:
            self._failed[state_key] = end
        return end

    def _places_of(self, alternative: Alternative, count: int, from_pool: int, from_position: int) -> Iterable[Place]:
        """The places to try for the `count`th device: one if all devices are wanted."""
        if alternative.every:
            return [self._every[alternative.number][count]]
        return self._distinct_places(self._candidates(alternative, from_pool, from_position))

    def _distinct_places(self, places: Iterator[Place]) -> Iterator[Place]:
        """The places without unused devices that look like one before."""
        tried: set[tuple[int, int]] = set()
        for number, position in places:
            alike = number, id(self._pools[number].codes[position])
            if position in self._taken[number]:
                yield number, position
            elif alike not in tried:
                tried.add(alike)
                yield number, position

    # ── what a search remembers ──

    def _state_key(self, alternative: Alternative, index: int, count: int, begin: Place) -> Hashable:
        """A value that is equal if the rest of the search has the same outcome: remaining requests, and taken devices that matter to them.

        None in a short search, and for the last of several devices: the rest is a separate state.
        """
        last = 0 < count == self._size(alternative) - 1
        if last or self._steps < SHORT:
            return None
        later, own, groups = self._wanted(alternative, index)
        taken = set[Hashable]()
        for picks in self._picks:
            for each in picks:
                place = each.pool, each.position
                if place in later or (place in own and (alternative.every or self._is_from(place, begin))):
                    part = None if each.consumed_capacities is None else tuple(self._taken[each.pool][each.position].consumed.items())
                    taken.add((place, part, each.alternative.claim if self._has_admin else None))
        consumed = tuple(tuple(self._consumed.get(group, {}).items()) for group in groups)
        values = tuple(self._values[constraint.number].state for constraint in self._demand.claims[alternative.claim].constraints)
        self._spend(COST_OF_STATE_KEY)
        return alternative.number, count, begin, len(self._picks[alternative.claim]), frozenset(taken), consumed, values

    def _wanted(self, alternative: Alternative, index: int) -> tuple[frozenset[Place], frozenset[Place], tuple[int, ...]]:
        """The devices that may be tried for later requests and for an alternative of this one, and the groups of counters that they use."""
        if alternative.number not in self._by_alternative:
            claims = self._demand.claims
            requests = [
                *claims[alternative.claim].requests[index + 1 :],
                *(each for other in claims[alternative.claim + 1 :] for each in other.requests),
            ]
            kinds = {each.kind for request in requests for each in request.alternatives}
            later, own = frozenset[Place]().union(*map(self._matching_kind, kinds)), frozenset(self._matching_kind(alternative.kind))
            groups = {self._groups[number] for number, position in later | own if self._pools[number].codes[position].consumption}
            self._by_alternative[alternative.number] = later, own, tuple(sorted(groups))
        return self._by_alternative[alternative.number]

    def _matching_kind(self, kind: int) -> Sequence[Place]:
        """The devices, in order, that match alternatives of a kind, or whose selectors fail, which is an error when they are tried."""
        if kind not in self._of_kind:
            found: list[Place] = []
            for number, pool in enumerate(self._pools):
                if self._trusted[number]:
                    self._spend(len(pool.codes))
                    for position, code in enumerate(pool.codes):
                        match = code.matches[kind]
                        if match is not False and (match is not True or pool.reachable is None or pool.reachable[position]):
                            found.append((number, position))
            self._of_kind[kind] = found
        return self._of_kind[kind]

    def _candidates(self, alternative: Alternative, from_pool: int, from_position: int) -> Iterator[tuple[int, int]]:
        """The places of devices that are free and match, from a place on."""
        for number, position in self._places(alternative, from_pool, from_position):
            self._spend(1)
            if not self.occupied(alternative, number, position) and self._selectable(alternative, number, position):
                yield number, position

    def _places(self, alternative: Alternative, from_pool: int, from_position: int) -> Iterator[Place]:
        """The devices of pools that can be trusted, from a place on: by pool and position, or in the order that a policy prefers.

        A long search leaves out those that do not match.
        """
        trusted = self._trusted
        if self._order is not None:
            yield from (place for place in self._order[self._first_rank((from_pool, from_position)) :] if trusted[place[0]])
            return
        if self._steps >= SHORT:
            matching = self._matching_kind(alternative.kind)
            yield from itertools.islice(matching, bisect.bisect_left(matching, (from_pool, from_position)), None)
            return
        for number in range(from_pool, len(self._pools)):
            if trusted[number]:
                for position in range(from_position if number == from_pool else 0, len(self._pools[number].codes)):
                    yield number, position

    def _is_from(self, place: Place, begin: Place) -> bool:
        """True if a device is tried from a place on."""
        return place >= begin if self._order is None else self._ranks[place] >= self._first_rank(begin)

    def _first_rank(self, begin: Place) -> int:
        """The rank in the order of a policy of the first device that is tried from a place on: behind the one that was taken last."""
        return self._ranks[begin[0], begin[1] - 1] + 1 if begin[1] else 0

    def occupied(self, alternative: Alternative, number: int, position: int) -> bool:
        """True if others, or the same claim, have the device."""
        taken = self._taken[number].get(position)
        if taken is None:
            return False
        return alternative.claim in taken.claims if alternative.admin else taken.exclusive or bool(taken.claims)

    def has_capacity(self, alternative: Alternative, number: int, position: int) -> bool:
        """True if the device has enough of each capacity that the alternative consumes."""
        consumed_capacities = self._pools[number].codes[position].consumed_capacities[alternative.kind]
        if consumed_capacities is None:
            return False
        taken = self._taken[number].get(position)
        consumed: Mapping[str, int] = {} if taken is None else taken.consumed
        return all(consumed.get(portion.name, 0) + portion.nanos <= portion.there for portion in consumed_capacities)

    # ── taking and giving back ──

    def _take(self, alternative: Alternative, number: int, position: int, *, must: bool) -> _Undo | None:
        """Take a device that matches, if it is available; None, and nothing is changed, if not."""
        code = self._pools[number].codes[position]
        place = number, position
        if self.occupied(alternative, number, position) or (not must and not self.has_capacity(alternative, number, position)):
            return None
        taken = self._taken[number].get(position)
        counted = self._consumes_counters(number, position)
        if counted and not self._consume_counters(number, position):
            return None
        fits = code.tolerated[alternative.kind] and self._constrain(alternative, code.values, place, must=must)
        if not fits or (must and not self.has_capacity(alternative, number, position)):
            if fits:
                self._unconstrain(alternative)
            if counted:
                self._release_counters(number, position)
            return None
        taken = self._taken[number].setdefault(position, _Taken(None)) if taken is None else taken
        consumed_capacities = code.consumed_capacities[alternative.kind] if code.shareable else None
        if consumed_capacities is None:
            taken.claims.append(alternative.claim)
        else:
            taken.sharing += 1
            for portion in consumed_capacities:
                taken.consumed[portion.name] = taken.consumed.get(portion.name, 0) + portion.nanos
        self._picks[alternative.claim].append(Pick(alternative, number, position, consumed_capacities))
        return _Undo(alternative, place, consumed_capacities, counted)

    def _release(self, undo: _Undo) -> None:
        number, position = undo.place
        self._picks[undo.alternative.claim].pop()
        taken = self._taken[number][position]
        if undo.consumed_capacities is None:
            taken.claims.remove(undo.alternative.claim)
        else:
            taken.sharing -= 1
            for portion in undo.consumed_capacities:
                taken.consumed[portion.name] -= portion.nanos
        if not taken.held and not taken.claims and not taken.sharing:
            del self._taken[number][position]  # untouched again
        self._unconstrain(undo.alternative)
        if undo.counted:
            self._release_counters(number, position)

    def _constrain(self, alternative: Alternative, values: Sequence[TypedValue | None], place: tuple[int, int], *, must: bool) -> bool:
        constraints = self._demand.claims[alternative.claim].constraints
        for index, constraint in enumerate(constraints):
            if not self._values[constraint.number].add(alternative, values[constraint.number]):
                for added in reversed(constraints[:index]):
                    self._values[added.number].remove(alternative)
                if must:
                    raise _Failed(Fault(FaultKind.CONSTRAINT, alternative.claim, alternative, place=place))
                return False
        return True

    def _unconstrain(self, alternative: Alternative) -> None:
        for constraint in reversed(self._demand.claims[alternative.claim].constraints):
            self._values[constraint.number].remove(alternative)

    # ── counters ──

    def has_counters(self, number: int, position: int) -> bool:
        """True if the device consumes no counters, or enough of them are left."""
        if not self._consumes_counters(number, position):
            return True
        enough = self._consume_counters(number, position)
        if enough:
            self._release_counters(number, position)
        return enough

    def _consumes_counters(self, number: int, position: int) -> bool:
        """True if the device consumes counters when it is taken; a device with an allocated share has consumed them already."""
        code, taken = self._pools[number].codes[position], self._taken[number].get(position)
        return bool(code.consumption) and not (code.shareable and taken is not None and taken.sharing)

    def _consume_counters(self, number: int, position: int) -> bool:
        """Consume the counters of a device; False, and nothing is consumed, if any counter of its pool would then be overdrawn."""
        group = self._groups[number]
        available = self._available.get(group)
        if available is None:
            available = self._available[group] = self._remaining_counters(number)
        consumed = self._consumed.setdefault(group, {})
        for counters, name, nanos in self._pools[number].consumptions[position]:
            consumed[counters, name] = consumed.get((counters, name), 0) + nanos
        if any(left < consumed.get(counter, 0) for counter, left in available.items()):
            self._release_counters(number, position)
            return False
        return True

    def _release_counters(self, number: int, position: int) -> None:
        consumed = self._consumed[self._groups[number]]
        for counters, name, nanos in self._pools[number].consumptions[position]:
            consumed[counters, name] -= nanos

    def _remaining_counters(self, number: int) -> dict[tuple[str, str], int]:
        """The counters of a pool that devices of other pods leave free; may be negative."""
        pool = self._pools[number]
        left = {(counters, name): nanos for counters, each in pool.counters.items() for name, nanos in each.items()}
        for position, taken in self._taken[number].items():
            if taken.held:
                for counters, name, nanos in pool.consumptions[position]:
                    if (counters, name) in left:
                        left[counters, name] -= nanos
        return left


def _by_position(pool: PoolCode, used: UsageKey) -> dict[int, _Taken]:
    return {position: _Taken(key) for position, key in used} if pool.codes else {}
