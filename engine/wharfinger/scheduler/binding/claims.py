"""The devices that a pod claims, from the decision to the binding.

        reserve ──▶ bind (write allocation and reservation, wait until the devices are ready) ──▶ the pod is bound
           └─────────────▶ give back, if anything fails

A device that was chosen is taken at once (`ClusterState.reserve_devices`), so that no two pods get it. It stays taken until the watch shows
the allocation in the claim, which then counts instead. If the pod is not bound, what is not written is given back, and what is written
loses the reservation for the pod: the next attempt finds the claim allocated, or PostFilter frees it, or Kubernetes' controller does. What
is written and not shown yet is given back when the watch shows it.

A scheduler that is killed after an allocation was written leaves a claim that is allocated and reserved for a pod without a node. The next
one finds it so, and places the pod where the devices are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from wharfinger.emit import Failed
from wharfinger.event_loop import Background, until
from wharfinger.framework.extension import Placement
from wharfinger.framework.plugins.devices import extended_resources
from wharfinger.framework.plugins.devices.dynamic_resources import NAME
from wharfinger.framework.plugins.devices.pod_claims import DeviceWaits, PodClaims, pod_claims, readiness
from wharfinger.framework.ports import BindFailed, WriteFailed
from wharfinger.model import objects
from wharfinger.model.devices.allocated import claim_uid, is_reserved
from wharfinger.model.objects.devices import IN_MEMORY
from wharfinger.scheduler import status
from wharfinger.scheduler.ports import LiveCluster

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.framework.ports import DeviceClaimWriter
    from wharfinger.framework.prepared import ClaimAllocation
    from wharfinger.model.objects.pod_view import PodView

P = ParamSpec("P")
T = TypeVar("T")
POLL_SECONDS = 0.25
"""Seconds after which it is checked again whether devices are ready, if the pod's claims have not changed before."""
WATCH_TIMEOUT = 30.0
"""Seconds after which the watch has to show a claim that was written."""


class DeviceClaims:
    """Reserves, writes and releases the devices of pods that are being bound; at most `limit` requests are under way at a time."""

    def __init__(self, cluster: LiveCluster, limit: int) -> None:
        self._cluster = cluster
        self._room = asyncio.Semaphore(limit)  # a driver may take minutes, so only requests count, not the waiting for what comes of them
        self._taken: dict[str, tuple[ClaimAllocation, ...]] = {}  # in flight, by the uid of the pod
        self._written: dict[str, list[objects.ResourceClaim]] = {}  # reserved by us, by the uid of the pod
        self._awaited: dict[str, list[asyncio.Event]] = {}  # who waits for a change of a claim, by its uid
        self._background = Background(lambda error: cluster.ports.emit(Failed("giving devices back", error)))

    def has_claims(self, pod: PodView) -> bool:
        """True if the pod has claims."""
        return bool(pod.object.spec.resource_claims) or pod.uid in self._taken

    def reserve(self, pod: PodView, chosen: tuple[ClaimAllocation, ...]) -> None:
        """Take the devices that were chosen for a pod that was just assumed."""
        for number, each in enumerate(chosen, start=1):
            self._cluster.state.reserve_devices(each.claim, each.allocation)
            self._taken[pod.uid] = chosen[:number]  # to be given back if the next one cannot be taken

    def claim_changed(self, claim: objects.ResourceClaim) -> None:
        """Wake what waits for a change of a claim, which the watch has shown."""
        for waiting in self._awaited.pop(claim.metadata.uid, ()):
            waiting.set()

    def release(self, pod: PodView) -> bool:
        """True if devices are free now; undoes `reserve`, and what `bind` has written, the latter in the background."""
        written = self._written.pop(pod.uid, [])
        unseen = [claim for claim in written if not self._shows(claim)]
        freed = False
        for each in self._taken.pop(pod.uid, ()):
            found = next((claim for claim in unseen if _holds(claim, each.allocation)), None)
            if found is None:
                freed |= self._cluster.state.release_devices(each.claim)
            else:
                self._background.start(self._release_once_visible(each, found))
        for claim in written:  # each by itself: one that cannot be given back must not keep the others
            self._background.start(self._unreserve(claim, pod))
        return freed

    async def drain(self) -> None:
        """Wait until no release is under way."""
        await self._background.drain()

    async def bind(self, placement: Placement, chain: Chain, check: Callable[[], None]) -> None:
        """Return once all claims of the pod are written and their devices are ready; `BindFailed` if one is not available.

        `check` is called again and again while it waits, and raises if the pod is not to be bound any more.
        """
        pod, plugin = placement.pod, chain.plugin(NAME)
        if plugin is None or not self.has_claims(pod):
            return
        writer = self._cluster.ports.claims
        if writer is None:
            raise BindFailed("claims for devices are not supported here", retriable=False)
        try:
            for claim in self._claims(placement):
                await self._bind(claim, placement, writer)
        except WriteFailed as failed:
            raise BindFailed(f"{NAME}: {failed.reason}") from failed
        await self._wait_for_devices(placement, plugin.arguments.binding_seconds, check)

    def bound(self, pod: PodView) -> None:
        """Forget a pod that is bound: its claims stay with it."""
        if not (self._taken or self._written):
            return
        self._written.pop(pod.uid, None)
        for each in self._taken.pop(pod.uid, ()):
            self._cluster.state.release_devices(each.claim, written=True)

    async def post_filter(self, decision: Decision) -> None:
        """Free or delete a claim so that the next attempt may choose devices again."""
        writer = self._cluster.ports.claims
        if writer is None:
            return
        if decision.deallocate is not None:
            await self._request(writer.deallocate, decision.deallocate)
        elif decision.delete is not None:
            await self._request(writer.delete, decision.delete)

    def clean_up(self, decision: Decision) -> None:
        """Do `post_filter` in the background."""
        if decision.deallocate is not None or decision.delete is not None:
            self._background.start(self.post_filter(decision))

    def _claims(self, placement: Placement) -> list[objects.ResourceClaim]:
        """The pod's claims as they are now; `BindFailed` if one does not exist any more."""
        found: list[objects.ResourceClaim] = []
        pod = placement.pod
        for name in filter(None, map(pod.claim_name, pod.object.spec.resource_claims)):
            claim = self._cluster.state.objects.get(objects.ResourceClaim, name, pod.namespace)
            if claim is None:
                raise BindFailed(f'{NAME}: could not find ResourceClaim "{pod.namespace}/{name}"')
            found.append(claim)
        special = (each.claim for each in self._taken.get(pod.uid, ()) if each.claim.metadata.name == IN_MEMORY)
        return [*found, *(claim for claim in special if claim.spec.devices.requests)]  # else the node's device plugin serves them

    async def _bind(self, claim: objects.ResourceClaim, placement: Placement, writer: DeviceClaimWriter) -> None:
        pod = placement.pod
        taken = self._taken.get(pod.uid, ())
        chosen = next((each for each in taken if claim_uid(each.claim) == claim_uid(claim)), None)
        if chosen is None and is_reserved(claim, pod):
            return
        made = claim
        if claim.metadata.name == IN_MEMORY and chosen is not None:
            made = await self._request(writer.create, claim)
            self._note(pod, made)
        written = await self._request(writer.reserve, made, pod, None if chosen is None else chosen.allocation)
        if made is not claim:
            self._written[pod.uid].remove(made)
        self._note(pod, written)
        if made is not claim and chosen is not None:
            await self._request(writer.note_extended, pod, written, chosen.request_mappings)
        await self._wait_for_watch(written)

    def _note(self, pod: PodView, claim: objects.ResourceClaim) -> None:
        self._written.setdefault(pod.uid, []).append(claim)

    async def _wait_for_watch(self, written: objects.ResourceClaim) -> None:
        """Return once the state has the claim as it was written: only then may it be in flight no more."""
        if not await self._is_visible(written):
            raise BindFailed(f"{NAME}: claim {objects.key_of(written)} was written, and the watch does not show it")

    async def _is_visible(self, written: objects.ResourceClaim) -> bool:
        """True once the state has the claim as it was written, False if it has not after `WATCH_TIMEOUT` seconds."""
        clock = self._cluster.ports.clock
        ends_at = clock.monotonic() + WATCH_TIMEOUT
        while not self._shows(written):
            left = ends_at - clock.monotonic()
            if left <= 0:
                return False
            await self._change([written], left)
        return True

    def _shows(self, written: objects.ResourceClaim) -> bool:
        known = self._cluster.state.objects.get(objects.ResourceClaim, written.metadata.name, written.metadata.namespace)
        return known is not None and known.metadata.uid == written.metadata.uid and known.status.allocation is not None

    async def _release_once_visible(self, taken: ClaimAllocation, written: objects.ResourceClaim) -> None:
        try:
            await self._is_visible(written)
        finally:
            self._cluster.state.release_devices(taken.claim)

    async def _change(self, claims: Sequence[objects.ResourceClaim], seconds: float) -> None:
        """Return when the watch shows a change of one of the claims, or at the timeout."""
        changed = asyncio.Event()
        for claim in claims:
            self._awaited.setdefault(claim.metadata.uid, []).append(changed)
        try:
            await until(changed, self._cluster.ports.clock, seconds)
        finally:
            for claim in claims:
                waiting = self._awaited.get(claim.metadata.uid, [])
                if changed in waiting:
                    waiting.remove(changed)
                    if not waiting:
                        del self._awaited[claim.metadata.uid]

    async def _wait_for_devices(self, placement: Placement, seconds: float, check: Callable[[], None]) -> None:
        """Return once the drivers have prepared all devices that ask for it, within `seconds` of the allocation."""
        waits, noted = self._cluster.state.objects.following(DeviceWaits), False
        while True:
            found = pod_claims(placement.pod, self._cluster.state.objects)
            claims = found.all if isinstance(found, PodClaims) else ()
            ready = [readiness(claim) for claim in claims if claim.status.allocation is not None]
            failed = next((each for each in ready if isinstance(each, str)), None)
            if failed is not None:
                raise BindFailed(f"{NAME}: {failed}")
            if all(ready):
                return
            if not noted:
                noted = True
                self._cluster.ports.events.record(placement.pod, status.waiting_for_devices(placement.node))
            if not self._cluster.state.is_placed(placement.pod.uid):
                raise BindFailed("the pod was deleted while its devices were being prepared", gone=True)
            check()
            snapshot = self._cluster.snapshot()
            if snapshot.row(placement.node) is None:
                raise BindFailed(f"node {placement.node} was removed while the pod's devices were being prepared")
            for claim in claims:
                limit = waits.ends_at(claim, snapshot, seconds)
                if limit is not None and snapshot.monotonic > limit and not readiness(claim):
                    raise BindFailed(f"{NAME}: device binding timeout: claim={claim.metadata.name}")
            await self._change(claims, POLL_SECONDS)

    async def _unreserve(self, claim: objects.ResourceClaim, pod: PodView) -> None:
        writer = self._cluster.ports.claims
        if writer is None:
            return
        if extended_resources.owner_uid(claim):
            await self._request(writer.delete, claim)
        else:
            await self._request(writer.unreserve, claim, pod)

    async def _request(self, send: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer of a request to the writer of claims, sent when fewer than the limit are under way."""
        async with self._room:
            return await send(*args, **kwargs)


def _holds(claim: objects.ResourceClaim, allocation: objects.Allocation) -> bool:
    """True if the claim has these devices."""
    has = claim.status.allocation
    return has is not None and has.devices.results == allocation.devices.results
