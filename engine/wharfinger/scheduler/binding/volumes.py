"""The volumes that a pod claims, from the decision to the binding.

A claim whose class waits for its first consumer is bound once it is known where the pod goes. Where a persistent volume is there for it on
the node, that is reserved; otherwise the claim is annotated with the node, which makes the provisioner create one there. Then the
controllers of the cluster have their time to finish.

        reserve ──▶ bind (write, wait for the controllers) ──▶ the pod is bound
           └───────────▶ take back, if anything fails

Both are assumed at once, so that no other pod chooses the volume: the state has the reserved volume, or the annotated claim, until an event
shows another version. As in kube-scheduler 1.36 (`AssumePodVolumes`, `RevertAssumedPodVolumes` and `BindPodVolumes`,
pkg/scheduler/framework/plugins/volumebinding/binder.go), with these differences. Pods that share a claim share what is assumed for it, and
it is written once. What was written stays assumed until the watch shows it, also if the pod is not bound. If an event has replaced what
was assumed, the volume is chosen again before the write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field

from wharfinger.framework.extension import Placement
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.plugins.volumes.volume_binding import VolumeBinding, has_provisioner
from wharfinger.framework.plugins.volumes.volume_claims import SELECTED_NODE, Assumption
from wharfinger.framework.ports import BindFailed, WriteFailed
from wharfinger.model import objects
from wharfinger.scheduler.ports import LiveCluster

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.ports import VolumeWriter
    from wharfinger.model.objects.pod_view import PodView

POLL_SECONDS = 0.25
"""Seconds after which it is checked again whether claims are bound."""
VOLUMES_NOT_BOUND = "was removed before the pod's volumes were bound"

_ClaimKey = tuple[str, str]


class _Assumed(Struct):
    """What is assumed for a claim, the uids of the pods that need it, and its write."""

    change: Assumption
    pods: set[str] = field(default_factory=set)
    write: asyncio.Future[None] | None = None
    written: bool = False


class VolumeBinds:
    """Assumes and binds the volume claims of placed pods; `freed` is called when a volume is free again after a failed write."""

    def __init__(self, cluster: LiveCluster, freed: Callable[[], None]) -> None:
        self._cluster = cluster
        self._freed = freed
        self._assumed: dict[_ClaimKey, _Assumed] = {}
        self._of_pod: dict[str, list[_Assumed]] = {}  # by uid

    def reserve(self, pod: PodView, node: str) -> None:
        """Assume that the claims of a pod get their volumes on the node where it is placed."""
        if not pod.object.spec.volumes:
            return
        claims = volume_claims.waiting_claims(pod, self._cluster.state.objects)
        known = [self._known(claim) for claim in claims]
        for each in known:
            if each is not None:
                self._join(each, pod)
        if not all(known):
            for change in volume_claims.assumptions(pod, node, self._cluster.snapshot()):
                if change.after is not change.before:
                    made = self._assumed[_key(change.claim)] = _Assumed(change)
                    self._join(made, pod)
                    self._cluster.state.put(change.after)

    def release(self, pod: PodView) -> bool:
        """True if a volume or claim is free now; undoes `reserve`. What is written stays assumed until the watch shows it."""
        freed = False
        for each in self._of_pod.pop(pod.uid, ()):
            each.pods.discard(pod.uid)
            freed |= self._take_back(each)
        return freed

    async def bind(self, placement: Placement, chain: Chain, check: Callable[[], None]) -> None:
        """Wait until every claim of the pod is bound; `BindFailed` if one cannot be bound, or not within `bindTimeoutSeconds`.

        `check` is called again and again while it waits, and raises if the pod is not to be bound any more.
        """
        waiting, plugin = self._waiting(placement.pod), chain.plugin(VolumeBinding.name)
        if plugin is None or not waiting:
            return
        writer = self._cluster.ports.volumes
        if writer is None:
            names = ", ".join(claim.metadata.name for claim in waiting)
            raise BindFailed(f"binding volumes on first use is not supported here (claims {names})", retriable=False)
        try:
            for claim in waiting:
                await self._write(claim, placement, writer)
        except WriteFailed as failed:
            raise BindFailed(f"binding volumes: {failed.reason}") from failed
        await self._wait_for_claims(placement, plugin.arguments.bind_timeout_seconds, check)

    def _known(self, claim: objects.PersistentVolumeClaim) -> _Assumed | None:
        """What is assumed for a claim, and not replaced by an event."""
        known = self._assumed.get(_key(claim))
        return known if known is not None and known.change.is_in(self._cluster.state.objects) else None

    def _join(self, assumed: _Assumed, pod: PodView) -> None:
        if pod.uid not in assumed.pods:
            assumed.pods.add(pod.uid)
            self._of_pod.setdefault(pod.uid, []).append(assumed)

    def _take_back(self, assumed: _Assumed) -> bool:
        """True if the state has the object as it was before; False if a pod still needs what is assumed, or it is written or replaced."""
        if assumed.pods or assumed.write is not None:
            return False
        key = _key(assumed.change.claim)
        if self._assumed.get(key) is assumed:
            del self._assumed[key]
        if assumed.written or not assumed.change.is_in(self._cluster.state.objects):
            return False
        self._cluster.state.put(assumed.change.before)
        return True

    def _waiting(self, pod: PodView) -> list[objects.PersistentVolumeClaim]:
        """The pod's claims that are not bound yet; `BindFailed` for a claim that does not exist any more."""
        store = self._cluster.state.objects
        for use in volume_claims.claims_used(pod):
            if volume_claims.claim_of(use, pod, store) is None:
                raise BindFailed(volume_claims.claim_not_found(use.claim))
        return volume_claims.waiting_claims(pod, store)

    async def _write(self, claim: objects.PersistentVolumeClaim, placement: Placement, writer: VolumeWriter) -> None:
        """Write what is assumed for a claim, once for all pods that wait for it: a second write of the same version would be refused."""
        if self._cluster.snapshot().row(placement.node) is None:
            raise BindFailed(f"node {placement.node} {VOLUMES_NOT_BOUND}")
        if self._known(claim) is None:
            self.reserve(placement.pod, placement.node)
        assumed = self._known(claim)
        if assumed is None or assumed.written:
            return
        if assumed.write is None:
            assumed.write = asyncio.ensure_future(self._send(assumed.change, placement.node, writer))
            assumed.write.add_done_callback(partial(self._ended, assumed))
        await asyncio.shield(assumed.write)  # it goes on for the others if this attempt is cancelled

    async def _send(self, change: Assumption, node: str, writer: VolumeWriter) -> None:
        if isinstance(change.before, objects.PersistentVolume):
            await writer.reserve_volume(change.before, change.claim)
            return
        storage_class = self._cluster.state.objects.get(objects.StorageClass, volume_claims.claim_class(change.claim))
        if storage_class is not None and not has_provisioner(storage_class):
            raise WriteFailed(f'no volume is free any more for claim "{change.claim.metadata.name}" on node {node}')
        await writer.annotate_claim(change.claim, {SELECTED_NODE: node})

    def _ended(self, assumed: _Assumed, write: asyncio.Future[None]) -> None:
        assumed.written = not write.cancelled() and write.exception() is None
        assumed.write = None
        if self._take_back(assumed):  # no pod waits for it any more
            self._freed()

    async def _wait_for_claims(self, placement: Placement, seconds: float, check: Callable[[], None]) -> None:
        clock = self._cluster.ports.clock
        ends_at = clock.monotonic() + seconds
        annotated: set[str] = set()  # claims that the watch has shown with the annotation that names the node
        while waiting := self._waiting(placement.pod):
            for claim in waiting:
                known = self._known(claim)
                if known is not None and known.change.after is claim:
                    continue
                if SELECTED_NODE in claim.metadata.annotations:
                    annotated.add(claim.metadata.uid)
                elif claim.metadata.uid in annotated:  # the provisioner cannot make a volume there (checkBindings)
                    raise BindFailed(f'provisioning failed for PVC "{claim.metadata.name}"')
            if not self._cluster.state.is_placed(placement.pod.uid):
                raise BindFailed("the pod was deleted while its volumes were being bound", gone=True)
            check()
            if self._cluster.snapshot().row(placement.node) is None:
                raise BindFailed(f"node {placement.node} {VOLUMES_NOT_BOUND}")
            if clock.monotonic() >= ends_at:
                raise BindFailed("timed out waiting for the pod's volumes to be bound")
            await clock.sleep(POLL_SECONDS)


def _key(claim: objects.PersistentVolumeClaim) -> _ClaimKey:
    return objects.key_of(claim), claim.metadata.uid
