"""The verdicts of DynamicResources: which nodes have the devices for a pod's claims, and which devices.

The verdict of a node depends on its devices and their allocations, a number per row (`model.state.device_states`). Each distinct number is
evaluated once. After a change, only rows with another number are evaluated again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from wharfinger.framework.plugins.devices import allocations as api
from wharfinger.framework.plugins.devices import extended_resources
from wharfinger.framework.plugins.devices.pod_claims import PodClaims, deadline_and_broken, pod_claims
from wharfinger.framework.plugins.devices.requests import ClaimDemand, KnownDemands
from wharfinger.framework.plugins.devices.search import (
    MAX_TOTAL_STEPS,
    STEPS_AT_ONCE,
    STEPS_PER_NODE,
    Fault,
    FaultKind,
    Outcome,
    search,
    search_in_steps,
)
from wharfinger.framework.plugins.devices.shortage import DevicesByCondition, devices_by_condition, lines
from wharfinger.framework.pod_devices import preferred
from wharfinger.framework.prepared import (
    OUTDATED,
    Affected,
    AllocatingFilter,
    Attempt,
    ClaimAllocation,
    Mask,
    ObjectRevision,
    Reason,
    Rows,
)
from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model.objects.devices import MAX_ALTERNATIVES
from wharfinger.model.state import node_selection
from wharfinger.model.state.device_states import DeviceStates
from wharfinger.steps import at_once

if TYPE_CHECKING:
    from wharfinger.framework.prepared import Changes
    from wharfinger.model.devices.device import Device
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

NO_DEVICES, ELSEWHERE, INVALID_POOL, WRITTEN_BEFORE, NO_RESOURCE, FAULT = 1, 2, 4, 8, 16, 32  # the bits of the reasons
REASONS = tuple(
    Reason(text, resolvable=False)
    for text in (
        "cannot allocate all claims",
        "resourceclaim not available on the node",
        "invalid resource pools were encountered",
        "cannot schedule extended resource claim",
        "cannot fit resource",
        "error in the search for devices",
    )
)


class _RequestVariant(Struct, eq=False):
    """The requests on the nodes where the same extended resources (`left`) are left to claims, and the outcomes so far.

    `by_state` are outcomes by state number; `bits` and `scores` are indexed by it (-1: unknown). `uses` is the number of states with each
    outcome: one search serves them all. These searches took `steps` together. `too_long`: those for all nodes of the cluster take more
    steps than those of one decision may.
    """

    left: frozenset[str]
    demand: ClaimDemand
    special: objects.ResourceClaim | None
    mappings: tuple[objects.ContainerExtendedResourceRequest, ...]
    by_state: dict[int, Outcome] = field(default_factory=dict)
    uses: Counter[Outcome] = field(default_factory=Counter)
    steps: int = 0
    too_long: bool = False
    bits: NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))
    scores: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def keep(self, number: int, outcome: Outcome) -> None:
        """Store the outcome for a state."""
        self.by_state[number] = outcome
        self.uses[outcome] += 1
        if self.uses[outcome] == 1:
            self.steps += outcome.steps

    def forget(self, number: int) -> None:
        """Forget the outcome for a state."""
        outcome = self.by_state.pop(number)
        self.uses[outcome] -= 1
        if not self.uses[outcome]:
            del self.uses[outcome]
            self.steps -= outcome.steps


MAX_EXPLAINED = 500
"""Kinds of nodes of which an explanation looks at each device, at most: those of most nodes."""
MAX_OUTCOMES = 50_000
"""Outcomes that are kept for a list of claims, at most."""


class DeviceRule(AllocatingFilter):
    """The verdicts for the pods of a template; see REASONS."""

    reasons = REASONS
    fault_bits = FAULT

    def __init__(self, attempt: Attempt, claims: PodClaims, binding_timeout: float) -> None:
        snapshot = attempt.snapshot
        store = snapshot.objects
        self._pod = attempt.pod.object
        self._states = store.following(DeviceStates)
        self._backing = store.following(extended_resources.BackingClasses)
        self._epoch = -1
        self._at = self._states.log.end
        self._classes = ObjectRevision(snapshot, objects.DeviceClass)
        self._users = [claim.spec for claim in claims.users if claim.status.allocation is None]
        self._special = claims.special
        self._stale = claims.special is not None and bool(claims.special.spec.devices.requests)
        self._open_special = claims.special is not None and not self._stale and claims.special.status.allocation is None
        self._resources = claims.backed
        candidates = (name for name, amount in attempt.pod.requests.items() if amount and extended_resources.is_candidate(name))
        self._other_resources = tuple(name for name in candidates if name not in claims.backed)
        self._no_users = not claims.users
        self._shares = bool(claims.shared)
        self._allocated = [(index, claim) for index, claim in enumerate(claims.all) if claim.status.allocation is not None]
        self._deadline, self._broken = deadline_and_broken(self._allocated, snapshot, binding_timeout)
        self._known_demands = store.following(KnownDemands)
        self._variants: dict[frozenset[str], _RequestVariant] = {}
        self._named: tuple[PodView | None, frozenset[str], list[str]] = (None, frozenset(), [])  # the claims of the last pod

    # ── verdicts ──

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdicts."""
        ids = self._ids(snapshot)
        if self._stale:
            return np.full(len(ids[rows]), WRITTEN_BEFORE, np.uint8)
        found = np.zeros(len(ids[rows]), np.uint8)
        for left, among in self._parts(snapshot, rows):
            if self._no_users and not left:
                continue  # device plugins serve everything there
            found[among] = self._outcome_bits(snapshot, self._variant(left), ids[rows][among]).astype(np.uint8)
        if self._special is not None:
            for name in self._other_resources:
                found[~_has_allocatable(snapshot, name)[rows]] = NO_RESOURCE
        if self._allocated:
            elsewhere = self._unavailable_rows(snapshot, rows)
            found[elsewhere & (found == 0) & self._looks_at_claims(snapshot, rows)] = ELSEWHERE
        return found

    def precompute(self, snapshot: Snapshot, *, again: bool = False) -> Iterator[None]:
        """The steps of looking for devices on all nodes, which are kept for the verdicts; they end where nodes are numbered again.

        There are none if this was done before for the same requests, unless `again`, or a search for them took several steps.
        """
        if self._stale or not self._to_allocate:
            return
        limit = MAX_TOTAL_STEPS + STEPS_PER_NODE * snapshot.n_nodes
        ids = self._ids(snapshot)
        variants: list[tuple[_RequestVariant, list[int]]] = []
        for left, among in self._parts(snapshot, slice(None)):
            if not (self._no_users and not left):
                variant, numbers = self._variant(left), np.unique(ids[among]).tolist()
                if variant.demand.takes_long:  # for a known template, states that are new since the last pod
                    variants.append((self._make(left), numbers[::-1]))
                variants.append((variant, numbers))
        for variant, numbers in variants:
            if variant.demand.looked_at and not (again or variant.demand.takes_long):
                continue
            yield from variant.demand.compiling()
            for number in numbers:
                if self._states.epoch != self._epoch or variant.steps > limit:
                    break
                yield from self._finding(variant, number)
                yield
            variant.demand.looked_at = True

    def bits_at(self, snapshot: Snapshot, row: int) -> int:
        """The verdict for one row."""
        if self._special is not None or self._allocated:
            return int(self.bits(snapshot, np.array([row], np.intp)).item())
        number = int(self._ids(snapshot)[row])
        return _bits_of(self._outcome(self._variant(frozenset()), number))

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.int64]:
        """The score of each row: 8 for each first alternative, 7 for a second one, and so on."""
        ids = self._ids(snapshot)[rows]
        found = np.zeros(len(ids), np.int64)
        for left, among in self._parts(snapshot, rows):
            if not (self._no_users and not left):
                variant = self._variant(left)
                self._outcome_bits(snapshot, variant, ids[among])
                found[among] = variant.scores[ids[among]]
        if self._to_allocate:
            found[...] += sum(_score_of(claim) for _, claim in self._allocated)
        return found

    @property
    def _to_allocate(self) -> bool:
        return bool(self._users) or self._open_special

    @property
    def scores(self) -> bool:
        """True if the score of some node may be other than 0."""
        if not self._to_allocate:
            return False
        specs = [*self._users, *(claim.spec for _, claim in self._allocated)]
        return any(request.exactly is None for spec in specs for request in spec.devices.requests)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:
        """The rows whose devices changed; `OUTDATED` if a class did, or a claim's devices were not ready in time."""
        if not self._classes.unchanged(snapshot) or snapshot.monotonic > self._deadline:
            return OUTDATED
        rows = self.changed_rows(snapshot, self._at)
        self._at = self._states.log.end
        if rows is None or self._takes_too_long_now(snapshot, rows):
            return slice(None)
        if len(changes.node_rows) and (self._allocated or self._special is not None):
            return np.union1d(rows, changes.node_rows)
        return rows

    def changed_rows(self, snapshot: Snapshot, since: int) -> NDArray[np.intp] | None:
        """The rows whose devices changed after a position of the log, ascending; None for all."""
        epoch = self._epoch
        self._ids(snapshot)
        found = None if epoch != self._epoch else self._states.log.since(since)
        return None if found is None else np.array(sorted({row for row in found if isinstance(row, int)}), np.intp)

    @property
    def position(self) -> int:
        """The present end of the log of changed rows."""
        return self._states.log.end

    # ── what a decision reports ──

    def fault_at(self, attempt: Attempt, row: int) -> str:
        """The text of the error at a row."""
        variant = self._variant(self._left_at(attempt.snapshot, row))
        fault = Fault(FaultKind.GAVE_UP) if variant.too_long else self._at_row(attempt.snapshot, row)[0].fault
        assert fault is not None  # noqa: S101 — the caller has seen the bit
        pod, left, names = self._named
        if pod is not attempt.pod or left is not variant.left:  # called for many nodes in sequence, maybe for all
            names = [objects.key_of(claim) for claim in self._claims_to_allocate(attempt, variant)]
            self._named = attempt.pod, variant.left, names
        pools = self._states.at(attempt.snapshot, row).node
        return api.text(fault, names, pools, attempt.snapshot.names[row])

    def allocations(self, attempt: Attempt, row: int) -> tuple[ClaimAllocation, ...]:
        """The allocations for the pod on the node of a feasible row, and the allocations in flight that it shares."""
        found = pod_claims(attempt.pod, attempt.snapshot.objects) if self._shares else None
        flights = found.shared if isinstance(found, PodClaims) else ()
        shared = tuple(ClaimAllocation(claim=flight.claim, allocation=flight.allocation) for flight in flights)
        return (*shared, *self._new_allocations(attempt, row))

    def _new_allocations(self, attempt: Attempt, row: int) -> tuple[ClaimAllocation, ...]:
        if not self._to_allocate or self._stale or (self._no_users and not self._left_at(attempt.snapshot, row)):
            return ()
        outcome, variant = self._at_row(attempt.snapshot, row)
        if outcome.picks is None:
            return ()
        claims = self._claims_to_allocate(attempt, variant)
        pools = self._states.at(attempt.snapshot, row).node
        order = preferred(attempt, row)
        if order is not None:
            ordered = self._in_order(attempt.snapshot, row, variant, order)
            outcome = outcome if ordered.picks is None else ordered  # the search in that order may take too many steps
        node = attempt.snapshot.names[row]
        found = api.allocations(claims, variant.demand, outcome, pools=pools, node=node, salt=attempt.pod.uid)
        special = variant.special
        return tuple(
            ClaimAllocation(
                claim=claim, allocation=allocation, request_mappings=variant.mappings if special and claim is claims[-1] else ()
            )
            for claim, allocation in zip(claims, found, strict=True)
        )

    def shortage(self, attempt: Attempt, rows: NDArray[np.intp]) -> tuple[str, ...]:
        """Lines about the devices of these rows for the claims that are to be allocated, and about those of the other claims."""
        snapshot, found = attempt.snapshot, list[str]()
        bits = self.bits(snapshot, rows)
        if len(faulty := rows[bits == FAULT]):
            found.append(self.fault_at(attempt, int(faulty[0])))
        relevant = np.isin(bits, (0, NO_DEVICES, INVALID_POOL))
        for left, among in self._parts(snapshot, rows[relevant]) if self._to_allocate and not self._stale else ():
            if not (self._no_users and not left):
                found += self._shortage(attempt, self._variant(left), rows[relevant][among], rejected=bool(bits.any()))
        for index, claim in self._allocated:
            away = int(np.count_nonzero(self._not_at(snapshot, rows, index)))
            if away:
                devices = ", ".join(
                    f"{each.pool}/{each.device}" for each in api.pod_devices(claim, cast("objects.Allocation", claim.status.allocation))
                )
                found.append(
                    f"claim {objects.key_of(claim)} has {devices or 'its allocation'} already, out of reach of {count(away, 'node')}"
                )
        return tuple(found)

    def _shortage(self, attempt: Attempt, variant: _RequestVariant, rows: NDArray[np.intp], *, rejected: bool) -> list[str]:
        snapshot, demand, n_rows = attempt.snapshot, variant.demand, 0
        names = [objects.key_of(claim) for claim in self._claims_to_allocate(attempt, variant)]
        sums: list[DevicesByCondition] = []
        numbers, first, counts = np.unique(self._ids(snapshot)[rows], return_index=True, return_counts=True)
        demand.follow(self._states.epoch)
        for place in np.argsort(-counts, kind="stable")[:MAX_EXPLAINED].tolist():
            state = self._states.at(snapshot, int(rows[first[place]])) if len(numbers) == 1 else self._states.state(int(numbers[place]))
            codes = [demand.pool(pool) for pool in state.node.pools]
            found = devices_by_condition(demand, state.node, codes, state.usage)
            sums = sums or [DevicesByCondition.of(each) for each in found]
            for total, each in zip(sums, found, strict=True):
                total.add(each, int(counts[place]))
            n_rows += int(counts[place])
        demand.compact()
        return list(lines(sums, demand, names, n_rows, rejected=rejected))

    def elsewhere(self, snapshot: Snapshot, reached: Mask) -> list[int]:
        """The indexes of allocated claims that are not available on some node where only that keeps the pod away."""
        alone = reached & (self.bits(snapshot, slice(None)) == ELSEWHERE)
        return [index for index, _ in self._allocated if (alone & self._not_at(snapshot, slice(None), index)).any()]

    # ── parts ──

    def _ids(self, snapshot: Snapshot) -> NDArray[np.int32]:
        ids = self._states.ids(snapshot)
        if self._states.epoch != self._epoch:
            self._epoch = self._states.epoch
            self._variants.clear()
        return ids

    def _left_at(self, snapshot: Snapshot, row: int) -> frozenset[str]:
        """The resources that a node leaves to claims: backed by a class, and not allocatable there."""
        return frozenset(name for name in self._resources if not _amounts(snapshot, name)[row])

    def _parts(self, snapshot: Snapshot, rows: Rows) -> list[tuple[frozenset[str], Mask]]:
        """The rows by the resources that they leave to claims: each set with a mask over `rows`."""
        n_rows = node_selection.row_count(snapshot, rows)
        parts: list[tuple[frozenset[str], Mask]] = [(frozenset(), np.ones(n_rows, np.bool_))]
        for name in self._resources:
            has_none = _amounts(snapshot, name)[rows] == 0
            parts = [
                (left | {name} if leaves else left, among & (has_none if leaves else ~has_none))
                for left, among in parts
                for leaves in (True, False)
            ]
        return [(left, among) for left, among in parts if among.any()]

    def _looks_at_claims(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """The rows on which claims matter: with claims of the user, or with resources left to claims."""
        if not self._no_users:
            return np.ones(node_selection.row_count(snapshot, rows), np.bool_)
        found = np.zeros(node_selection.row_count(snapshot, rows), np.bool_)
        for left, among in self._parts(snapshot, rows):
            if left:
                found |= among
        return found

    def _variant(self, left: frozenset[str]) -> _RequestVariant:
        variant = self._variants.get(left)
        if variant is None:
            variant = self._variants[left] = self._make(left)
        return variant

    def _make(self, left: frozenset[str]) -> _RequestVariant:
        specs = list(self._users)
        mappings: tuple[objects.ContainerExtendedResourceRequest, ...] = ()
        special = None
        if self._open_special and self._special is not None:
            class_of = {name: found.metadata.name for name in sorted(left) if (found := self._backing.of(name)) is not None}
            requests, mappings = extended_resources.requests_of(self._pod, class_of)
            special = objects.ResourceClaim(
                metadata=self._special.metadata, spec=objects.ResourceClaimSpec(devices=objects.DeviceClaim(requests=requests))
            )
            specs.append(special.spec)
        return _RequestVariant(left, self._known_demands.of(specs), special, mappings)

    def _claims_to_allocate(self, attempt: Attempt, variant: _RequestVariant) -> list[objects.ResourceClaim]:
        """The pod's own claims that are to be allocated, in the order of the requests."""
        found = pod_claims(attempt.pod, attempt.snapshot.objects)
        assert isinstance(found, PodClaims)  # noqa: S101 — the rule was prepared for pods with such claims
        claims = [claim for claim in found.users if claim.status.allocation is None]
        if variant.special is not None:
            claims.append(extended_resources.in_memory_claim(attempt.pod, variant.special.spec.devices.requests))
        return claims

    def _at_row(self, snapshot: Snapshot, row: int) -> tuple[Outcome, _RequestVariant]:
        variant = self._variant(self._left_at(snapshot, row))
        return self._outcome(variant, int(self._ids(snapshot)[row])), variant

    def _takes_too_long_now(self, snapshot: Snapshot, rows: NDArray[np.intp]) -> bool:
        """True if the searches for all nodes take too many steps, or did until these rows changed: all verdicts change then."""
        found = False
        ids = self._ids(snapshot)[rows]
        for left, among in self._parts(snapshot, rows) if self._variants else ():
            variant = self._variants.get(left)
            if variant is not None:
                found |= variant.too_long
                for number in np.unique(ids[among])[::-1].tolist():
                    if self._takes_too_long(snapshot, variant):
                        break
                    self._outcome(variant, number)
                found |= self._takes_too_long(snapshot, variant)
        return found

    def _in_order(self, snapshot: Snapshot, row: int, variant: _RequestVariant, order: Sequence[Device]) -> Outcome:
        """The outcome where devices are tried in the order of policies; there is one if there is one in any order."""
        state = self._states.state(int(self._ids(snapshot)[row]))  # of all nodes like this one; its own pools have other names
        places = {
            (pool.driver, pool.name, device.name): (number, position)
            for number, pool in enumerate(self._states.at(snapshot, row).node.pools)
            for position, device in enumerate(pool.devices)
        }
        wanted = [place for each in order if (place := places.pop((each.driver, each.pool, each.name), None)) is not None]
        codes = [variant.demand.pool(pool) for pool in state.node.pools]
        return search(variant.demand, codes, state.node.groups, state.usage, [*wanted, *places.values()])

    def _outcome_bits(self, snapshot: Snapshot, variant: _RequestVariant, ids: NDArray[np.int32]) -> NDArray[np.int16]:
        size = self._states.n_states
        if len(variant.bits) < size:
            more = max(size, 2 * len(variant.bits)) - len(variant.bits)
            variant.bits = np.concatenate([variant.bits, np.full(more, -1, np.int16)])
            variant.scores = np.concatenate([variant.scores, np.zeros(more, np.int64)])
        for number in np.unique(ids[variant.bits[ids] < 0]).tolist():
            if self._takes_too_long(snapshot, variant):
                break
            outcome = self._outcome(variant, number)
            variant.bits[number] = _bits_of(outcome)
            variant.scores[number] = outcome.score
        variant.demand.compact()
        variant.too_long = self._takes_too_long(snapshot, variant)
        return np.full(len(ids), FAULT, np.int16) if variant.too_long else variant.bits[ids]

    def _takes_too_long(self, snapshot: Snapshot, variant: _RequestVariant) -> bool:
        """True if the searches for all present nodes together take more steps than one decision may take.

        A search that an earlier decision made counts like any other, so that what is decided does not depend on what was kept.
        """
        limit = MAX_TOTAL_STEPS + STEPS_PER_NODE * snapshot.n_nodes
        if variant.steps > limit:
            self._forget_former(snapshot, variant)
        return variant.steps > limit

    def _forget_former(self, snapshot: Snapshot, variant: _RequestVariant) -> None:
        """Forget the outcomes for states that no node has any more."""
        ids = self._ids(snapshot)
        present = {number for left, among in self._parts(snapshot, slice(None)) if left == variant.left for number in ids[among].tolist()}
        former = [number for number in variant.by_state if number not in present]
        for number in former:
            variant.forget(number)
        variant.bits[[number for number in former if number < len(variant.bits)]] = -1

    def _outcome(self, variant: _RequestVariant, number: int) -> Outcome:
        if number not in variant.by_state:
            variant.demand.follow(self._states.epoch)
            known = cast("Outcome | None", variant.demand.by_state.get(number))
            if known is not None:
                variant.keep(number, known)
                return known
            at_once(self._finding(variant, number))
        return variant.by_state[number]

    def _finding(self, variant: _RequestVariant, number: int) -> Generator[None]:
        """The steps of finding the outcome for a state; it is not kept if nodes are numbered again meanwhile."""
        demand, state = variant.demand, self._states.state(number)
        demand.follow(self._states.epoch)
        codes = []
        for pool in state.node.pools:
            for _ in demand.reading(pool):
                yield
                if self._states.epoch != self._epoch:
                    return
            codes.append(demand.pool(pool))
        key = (tuple(code.number for code in codes), state.node.groups, state.usage)
        outcome = cast("Outcome | None", demand.outcomes.get(key))
        if outcome is None:
            outcome = yield from search_in_steps(demand, codes, state.node.groups, state.usage)
            if outcome.steps >= STEPS_AT_ONCE:
                self._known_demands.take_long = demand.takes_long = True
            if len(demand.outcomes) > MAX_OUTCOMES:
                demand.outcomes.clear()
            demand.outcomes[key] = outcome
        if self._states.epoch == self._epoch:
            if len(demand.by_state) > MAX_OUTCOMES:
                demand.by_state.clear()
            demand.by_state[number] = outcome
            if number not in variant.by_state:
                variant.keep(number, outcome)

    def _unavailable_rows(self, snapshot: Snapshot, rows: Rows) -> Mask:
        found = np.zeros(node_selection.row_count(snapshot, rows), np.bool_)
        for index, _ in self._allocated:
            found |= self._not_at(snapshot, rows, index)
        return found

    def _not_at(self, snapshot: Snapshot, rows: Rows, index: int) -> Mask:
        """The rows on which the allocated claim of that index is not available."""
        n_rows = node_selection.row_count(snapshot, rows)
        if index in self._broken:
            return np.ones(n_rows, np.bool_)
        claim = next(claim for number, claim in self._allocated if number == index)
        allocation = claim.status.allocation
        terms = node_selection.parse_terms(allocation.node_selector) if allocation is not None else None
        return np.zeros(n_rows, np.bool_) if terms is None else ~node_selection.any_term(terms, snapshot, rows)


def _bits_of(outcome: Outcome) -> int:
    if outcome.fault is not None:
        return FAULT
    if outcome.picks is not None:
        return 0
    return INVALID_POOL if outcome.invalid else NO_DEVICES


def _amounts(snapshot: Snapshot, resource: str) -> NDArray[np.int64]:
    """The allocatable amount of a resource per row."""
    lane = snapshot.resource_index(resource)
    return np.zeros(snapshot.n_nodes, np.int64) if lane is None else snapshot.allocatable[lane]


def _has_allocatable(snapshot: Snapshot, resource: str) -> Mask:
    """The rows of nodes that name a resource as allocatable, were it 0."""
    lane = snapshot.resource_index(resource)
    return np.zeros(snapshot.n_nodes, np.bool_) if lane is None else snapshot.has_allocatable[lane]


def _score_of(claim: objects.ResourceClaim) -> int:
    """The score of the alternatives that an allocated claim got."""
    allocation = claim.status.allocation
    met = set() if allocation is None else {result.request for result in allocation.devices.results}
    return sum(
        MAX_ALTERNATIVES - place
        for request in claim.spec.devices.requests
        if request.exactly is None
        for place, each in enumerate(request.first_available)
        if f"{request.name}/{each.name}" in met
    )
