"""Volumes of a pod that is being bound: its claims are bound before the pod is.

A claim whose class waits for its first consumer is bound once it is known where the pod goes. Where a persistent volume is there for it on
the node, that is reserved; otherwise the claim is annotated with the node, which tells the provisioner where to make one. Then the
controllers of the cluster have their time to finish. As in kube-scheduler 1.36 (pkg/scheduler/framework/plugins/volumebinding/binder.go,
`BindPodVolumes`), except that volumes are chosen again from the present state instead of being kept from the decision. If that state is
out of date, a write is refused and the pod is tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.framework.extension import Placement
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.plugins.volumes.volume_binding import SELECTED_NODE
from wharfinger.framework.ports import BindFailed, WriteFailed
from wharfinger.model import objects
from wharfinger.scheduler.ports import LiveCluster

if TYPE_CHECKING:
    from wharfinger.framework.ports import VolumeWriter
    from wharfinger.model.objects.pod_view import PodView

BIND_TIMEOUT = 600.0
"""Seconds to wait for the controllers, as `bindTimeoutSeconds` of VolumeBindingArgs."""


POLL_SECONDS = 0.25
"""Seconds between two checks of the claims."""


class VolumeBinds:
    """Binds the claims of placed pods."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster

    async def bind(self, placement: Placement) -> None:
        """Wait until every claim of the pod is bound; `BindFailed` if one cannot be bound."""
        waiting = self._waiting(placement.pod)
        if not waiting:
            return
        writer = self._cluster.ports.volumes
        if writer is None:
            names = ", ".join(claim.metadata.name for claim in waiting)
            raise BindFailed(f"binding volumes on first use is not supported here (claims {names})", retriable=False)
        try:
            await self._write(waiting, placement, writer)
        except WriteFailed as failed:
            raise BindFailed(f"binding volumes: {failed.reason}") from failed
        await self._wait_for_claims(placement)

    def _waiting(self, pod: PodView) -> list[objects.PersistentVolumeClaim]:
        """The pod's claims that are not bound yet; `BindFailed` for a claim that does not exist any more."""
        store = self._cluster.state.objects
        found = []
        for use in volume_claims.claims_used(pod):
            claim = volume_claims.claim_of(use, pod, store)
            if claim is None:
                raise BindFailed(volume_claims.claim_not_found(use.claim))
            if not volume_claims.fully_bound(claim) and claim not in found:
                found.append(claim)
        return found

    async def _write(self, waiting: list[objects.PersistentVolumeClaim], placement: Placement, writer: VolumeWriter) -> None:
        """Reserve volumes, and name the node to provisioners."""
        snapshot = self._cluster.snapshot()
        row = snapshot.row(placement.node)
        if row is None:
            raise BindFailed(f"node {placement.node} was removed before the pod's volumes were bound")
        fresh = [claim for claim in waiting if SELECTED_NODE not in claim.metadata.annotations]
        for claim, volume in volume_claims.chosen_on(fresh, snapshot, row):
            if volume is None:
                await writer.annotate_claim(claim, {SELECTED_NODE: placement.node})
            elif volume.spec.claim_ref is None:
                await writer.reserve_volume(volume, claim)

    async def _wait_for_claims(self, placement: Placement) -> None:
        clock = self._cluster.ports.clock
        ends_at = clock.monotonic() + BIND_TIMEOUT
        annotated: set[str] = set()  # claims that were seen with the annotation that names the node
        while waiting := self._waiting(placement.pod):
            for claim in waiting:
                if SELECTED_NODE in claim.metadata.annotations:
                    annotated.add(claim.metadata.uid)
                elif claim.metadata.uid in annotated:  # the provisioner cannot make a volume there (checkBindings)
                    raise BindFailed(f'provisioning failed for PVC "{claim.metadata.name}"')
            if not self._cluster.state.is_placed(placement.pod.uid):
                raise BindFailed("the pod was deleted while its volumes were being bound", gone=True)
            if clock.monotonic() >= ends_at:
                raise BindFailed("timed out waiting for the pod's volumes to be bound")
            await clock.sleep(POLL_SECONDS)
