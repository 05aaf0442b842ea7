"""What is written about claims and volumes before the pod that uses them is bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from wharfinger.framework.ports import Clock, WriteFailed
from wharfinger.kube import refusals
from wharfinger.kube.connection import MERGE_PATCH, Connection
from wharfinger.kube.patient_writes import PatientWrites
from wharfinger.model.objects import ObjectMeta, PersistentVolume, PersistentVolumeClaim

_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class ApiVolumeWriter:
    """A VolumeWriter that writes to an API server while `may_write` says so."""

    def __init__(self, connection: Connection, clock: Clock, may_write: Callable[[], bool] = lambda: True) -> None:
        self._write = PatientWrites(connection, clock, may_write).write

    async def annotate_claim(self, claim: PersistentVolumeClaim, annotations: Mapping[str, str]) -> None:
        """None, once the claim has the annotations; WriteFailed when it is another one by now."""
        path = f"/api/v1/namespaces/{claim.metadata.namespace or 'default'}/persistentvolumeclaims/{claim.metadata.name}"
        body = {"metadata": {**_uid(claim.metadata), "annotations": dict(annotations)}}
        await self._write("PATCH", path, msgspec.json.encode(body), MERGE_PATCH)

    async def reserve_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """None, once the volume is reserved for the claim; WriteFailed when it has changed since it was chosen: choose again.

        Source: GetBindVolumeToClaim, component-helpers/storage/volume/helpers.go, Kubernetes 1.36.
        """
        version = {"resourceVersion": volume.metadata.resource_version} if volume.metadata.resource_version else {}
        body = {
            "metadata": {**_uid(volume.metadata), **version, "annotations": {_BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"claimRef": _claim_reference(claim)},
        }
        try:
            await self._write("PATCH", f"/api/v1/persistentvolumes/{volume.metadata.name}", msgspec.json.encode(body), MERGE_PATCH)
        except WriteFailed as failed:
            if isinstance(failed.__cause__, refusals.Conflict):
                raise WriteFailed(failed.reason) from failed.__cause__
            raise


def _claim_reference(claim: PersistentVolumeClaim) -> dict[str, str]:
    fields = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace or "default",
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
        "resourceVersion": claim.metadata.resource_version,
    }
    return {name: value for name, value in fields.items() if value}


def _uid(metadata: ObjectMeta) -> dict[str, str]:
    return {"uid": metadata.uid} if metadata.uid else {}
