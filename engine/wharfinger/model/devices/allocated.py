"""The allocations of devices of ResourceSlices: the one definition, which everything else reads.

A device is in use if the status of any claim names it, of whatever namespace, reserved or not, being deleted or not; devices that were
allocated with admin access do not count. A device that several claims may share is not in use, but some of its capacity is consumed, and it
holds shares. An allocation that the scheduler has decided on but not written yet is *in flight*: it counts as if it were written. Other
pods wait until it is, except for the members of the group that is being placed: they share it.

`Allocations` follows the claims of an object store, so that nothing is counted twice and a question costs one look-up. Source:
plugins/dynamicresources/allocateddevices.go and dra_manager.go, Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, Protocol

from msgspec import Struct, field, structs
from msgspec.structs import replace

from wharfinger.model import objects
from wharfinger.model.objects import quantity
from wharfinger.model.objects.pod_view import PodView

PoolId = tuple[str, str]
"""(driver, name) of a pool."""

MAX_LOGGED: Final = 20_000
"""Changes that a log keeps; who has not read it for so long looks at everything again."""


class Store(Protocol):
    """The part of `model.state.object_store.ObjectStore` that is used here."""

    def touch(self, kind: type[objects.AnyObject]) -> None:
        """Count a change of a kind."""

    def following(self, make: type[Allocations]) -> Allocations:
        """The allocations of the store."""

    def existing_follower(self, make: type[Allocations]) -> Allocations | None:
        """The allocations of the store, if they have been read."""


class Usage(Struct):
    """The allocations of one device: `exclusive` claims, `shares`, and consumed capacity in nanos by name (by `consumers` claims)."""

    exclusive: int = 0
    shares: int = 0
    consumers: int = 0
    consumed: dict[str, int] = field(default_factory=dict)

    @property
    def allocated(self) -> bool:
        """True if any claim holds the device, or a part of it."""
        return bool(self.exclusive or self.shares or self.consumers)

    @property
    def key(self) -> Hashable:
        """A value that is equal for two devices with equal allocations."""
        if not self.shares and not self.consumers:
            return True
        return self.exclusive > 0, self.consumers > 0, tuple(sorted(self.consumed.items()))


class InFlight(Struct, frozen=True, kw_only=True):
    """An allocation that is decided and not written yet, for a claim; `sharers` pods have decided on it.

    `allocated` is the claim with the allocation; always the same object.
    """

    claim: objects.ResourceClaim
    allocation: objects.Allocation
    allocated: objects.ResourceClaim
    sharers: int = 1


class ChangeLog:
    """The keys that changed, in order; each reader remembers how far it has read."""

    __slots__ = ("_keys", "_start")

    def __init__(self) -> None:
        self._keys: list[Hashable] = []
        self._start = 0

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._start + len(self._keys)

    def add(self, key: Hashable) -> None:
        """Log a change."""
        self._keys.append(key)
        if len(self._keys) > MAX_LOGGED:
            del self._keys[: MAX_LOGGED // 2]
            self._start += MAX_LOGGED // 2

    def since(self, position: int) -> Sequence[Hashable] | None:
        """The changes after a position; None if they are no longer all there."""
        return None if position < self._start else self._keys[position - self._start :]


def claim_uid(claim: objects.ResourceClaim) -> str:
    """The uid of a claim; its key, if it has none (in files)."""
    return claim.metadata.uid or objects.key_of(claim)


class Allocations:
    """The allocations in a cluster, written or in flight; `log` has the (driver, pool) of each change."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (objects.ResourceClaim,)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: dict[str, objects.Allocation] = {}
        self._in_flight: dict[str, InFlight] = {}
        self._shareable: set[str] = set()
        self._counted: dict[str, objects.Allocation] = {}
        self._used: dict[PoolId, dict[str, Usage]] = {}
        self.log = ChangeLog()

    # ── queries ──

    def of_pool(self, pool: PoolId) -> Mapping[str, Usage]:
        """The allocations of the devices of a pool, by name; devices without allocations are left out."""
        return self._used.get(pool, _NO_USAGE)

    def of_device(self, driver: str, pool: str, device: str) -> Usage | None:
        """The usage of a device; None if nothing of it is taken."""
        return self.of_pool((driver, pool)).get(device)

    def in_flight(self, claim: objects.ResourceClaim) -> InFlight | None:
        """The allocation in flight for a claim; None if there is none."""
        return self._in_flight.get(claim_uid(claim))

    def shareable(self, claim: objects.ResourceClaim) -> InFlight | None:
        """The allocation in flight for a claim that the next pod shares; None if there is none, or the pod has to wait."""
        return self._in_flight.get(claim_uid(claim)) if claim_uid(claim) in self._shareable else None

    def all_in_flight(self) -> Iterator[InFlight]:
        """Every allocation in flight."""
        yield from self._in_flight.values()

    # ── what changes it ──

    def take(self, claim: objects.ResourceClaim, allocation: objects.Allocation) -> None:
        """Count an allocation that is not written yet, until `release`; a second pod that takes it becomes a sharer."""
        uid = claim_uid(claim)
        known = self._in_flight.get(uid)
        if known is not None:
            self._in_flight[uid] = replace(known, sharers=known.sharers + 1)
        else:
            self._in_flight[uid] = InFlight(claim=claim, allocation=allocation, allocated=with_allocation(claim, allocation))
            self._recount(uid)
        self._store.touch(objects.ResourceClaim)

    def share(self, claim: objects.ResourceClaim) -> None:
        """Allow later pods to share the allocation in flight for a claim, until `end_sharing`."""
        self._shareable.add(claim_uid(claim))
        self._store.touch(objects.ResourceClaim)

    def end_sharing(self) -> None:
        """Stop sharing: later pods wait until the allocations in flight are written."""
        if self._shareable:
            self._shareable.clear()
            self._store.touch(objects.ResourceClaim)

    def release(self, claim: objects.ResourceClaim, *, written: bool = False) -> bool:
        """Count the allocation of one pod no longer as in flight; True if it is in flight for no other pod.

        `written`: it is in the claim's status now, and no longer needed as in flight.
        """
        uid = claim_uid(claim)
        known = self._in_flight.get(uid)
        if known is None:
            return False
        freed = written or known.sharers == 1
        if freed:
            del self._in_flight[uid]
            self._shareable.discard(uid)
            self._recount(uid)
        else:
            self._in_flight[uid] = replace(known, sharers=known.sharers - 1)
        self._store.touch(objects.ResourceClaim)
        return freed

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Follow a claim that was added, changed or removed."""
        for claim in (old, new):
            if isinstance(claim, objects.ResourceClaim):
                uid = claim_uid(claim)
                allocation = claim.status.allocation if claim is new else None
                if allocation is None:
                    self._written.pop(uid, None)
                else:
                    self._written[uid] = allocation
        for uid in {claim_uid(claim) for claim in (old, new) if isinstance(claim, objects.ResourceClaim)}:
            self._recount(uid)

    def _recount(self, uid: str) -> None:
        flying = self._in_flight.get(uid)
        now = self._written.get(uid) or (None if flying is None else flying.allocation)
        before = self._counted.pop(uid, None)
        if now is not None:
            self._counted[uid] = now
        if now is before or (now is not None and before is not None and now.devices.results == before.devices.results):
            return
        if before is not None:
            self._count(before, -1)
        if now is not None:
            self._count(now, 1)

    def _count(self, allocation: objects.Allocation, sign: int) -> None:
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            pool = (result.driver, result.pool)
            used = self._used.setdefault(pool, {})
            usage = used.setdefault(result.device, Usage())
            if result.share_id is None:
                usage.exclusive += sign
            else:
                usage.shares += sign
                if result.consumed_capacity:
                    usage.consumers += sign
                    for name, amount in result.consumed_capacity.items():
                        usage.consumed[name] = usage.consumed.get(name, 0) + sign * quantity.nano(amount)
            if not usage.allocated:
                del used[result.device]
                if not used:
                    del self._used[pool]
            self.log.add(pool)


_NO_USAGE: Mapping[str, Usage] = {}


def copy_in_flight(source: Store, target: Store) -> None:
    """Count the allocations in flight of one store in another, a copy of it, too."""
    known = source.existing_follower(Allocations)
    for flight in () if known is None else known.all_in_flight():
        for _ in range(flight.sharers):
            target.following(Allocations).take(flight.claim, flight.allocation)


def with_allocation(claim: objects.ResourceClaim, allocation: objects.Allocation | None) -> objects.ResourceClaim:
    """The claim with this allocation in its status."""
    return structs.replace(claim, status=structs.replace(claim.status, allocation=allocation))


def consumer_of(pod: PodView) -> objects.ClaimConsumer:
    """The pod as `reservedFor` of a claim names it."""
    return objects.ClaimConsumer(resource="pods", name=pod.name, uid=pod.object.metadata.uid)


def is_reserved(claim: objects.ResourceClaim, pod: PodView) -> bool:
    """True if a claim is reserved for the pod, as Kubernetes sees it: by uid."""
    return any(each.uid == pod.object.metadata.uid for each in claim.status.reserved_for)


def with_reservation(claim: objects.ResourceClaim, pod: PodView) -> objects.ResourceClaim:
    """The claim, reserved for the pod too."""
    return structs.replace(claim, status=structs.replace(claim.status, reserved_for=(*claim.status.reserved_for, consumer_of(pod))))
