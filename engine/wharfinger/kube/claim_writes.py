"""Writes of claims for devices: allocation, reservation, and the claims that the scheduler makes for extended resources.

An allocation is written with the version of the claim that was read. So nothing is written over what others have written, and where that
happens the claim is read and checked again, as kube-scheduler does (`bindClaim` of
plugins/dynamicresources/dynamicresources.go, Kubernetes 1.36). The answer to a write may be lost: if the claim that is read again has the
allocation, it has been written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from wharfinger.framework.ports import Clock, WriteFailed
from wharfinger.kube import api_errors
from wharfinger.kube.connection import JSON, MERGE_PATCH, STRATEGIC_PATCH, Connection
from wharfinger.kube.writes import GuardedWrites, path_of
from wharfinger.model import objects
from wharfinger.model.devices.allocated import consumer_of, is_reserved
from wharfinger.model.objects.devices import FINALIZER
from wharfinger.model.objects.metadata import time_text
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode

_CONFLICTS = 5
"""The maximum number of times that a claim is read again because it has changed."""
_API = "/apis/resource.k8s.io/v1"
_KIND = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}


class ApiClaimWriter:
    """A DeviceClaimWriter that writes to an API server while `may_write` is true."""

    def __init__(self, connection: Connection, clock: Clock, may_write: Callable[[], bool] = lambda: True) -> None:
        self._connection = connection
        self._clock = clock
        self._writes = GuardedWrites(connection, clock, may_write)
        self._write = self._writes.write

    @property
    def in_flight(self) -> int:
        """The number of writes that are under way: a binding waits for each."""
        return self._writes.in_flight

    async def create(self, claim: objects.ResourceClaim) -> objects.ResourceClaim:
        """The claim as it was created; the API server gives it a name.

        Its owner is the pod, without `blockOwnerDeletion`: kube-scheduler sets that, and needs a right to the finalizers of pods for it.
        """
        meta = claim.metadata
        owners = [
            {
                "apiVersion": each.api_version,
                "kind": each.kind,
                "name": each.name,
                "uid": each.uid,
                "controller": True,
            }
            for each in meta.owner_references
        ]
        metadata = {
            "generateName": meta.generate_name,
            "namespace": meta.namespace,
            "annotations": meta.annotations,
            "ownerReferences": owners,
        }
        body = {**_KIND, "metadata": metadata, "spec": msgspec.to_builtins(claim.spec)}
        path = f"{_API}/namespaces/{meta.namespace or 'default'}/resourceclaims"
        return _read(await self._write("POST", path, msgspec.json.encode(body), JSON))

    async def reserve(self, claim: objects.ResourceClaim, pod: PodView, allocation: objects.Allocation | None) -> objects.ResourceClaim:
        """The claim as it was written; WriteFailed if it no longer exists or has changed."""
        uid = claim.metadata.uid
        for left in reversed(range(_CONFLICTS)):
            if claim.metadata.uid != uid:
                raise WriteFailed(f"claim {objects.key_of(claim)} was replaced by another one", gone=True)
            if is_reserved(claim, pod) and claim.status.allocation is not None:
                return claim
            _check(claim, allocation)
            try:
                return await self._reserve(claim, pod, allocation)
            except WriteFailed as failed:
                if not left or not isinstance(failed.__cause__, api_errors.Conflict | api_errors.ServerError | api_errors.Unreachable):
                    raise
            claim = await self._read_again(claim)
        raise AssertionError("the last attempt has returned or raised")

    async def _reserve(self, claim: objects.ResourceClaim, pod: PodView, allocation: objects.Allocation | None) -> objects.ResourceClaim:
        if allocation is not None and FINALIZER not in claim.metadata.finalizers:
            finalizers = [*claim.metadata.finalizers, FINALIZER]
            protected = {"metadata": {**_version(claim), "finalizers": finalizers}}
            claim = _read(await self._write("PATCH", _path(claim), msgspec.json.encode(protected), MERGE_PATCH))
        consumers = [*map(msgspec.to_builtins, claim.status.reserved_for), msgspec.to_builtins(consumer_of(pod))]
        status: dict[str, Any] = {"reservedFor": consumers}
        if allocation is not None and claim.status.allocation is None:  # else another pod that shares it was faster
            stamp = {"allocationTimestamp": time_text(self._clock.now())}
            status["allocation"] = {**stamp, **msgspec.to_builtins(allocation)}
        body = {"metadata": _version(claim), "status": status}
        return _read(await self._write("PATCH", f"{_path(claim)}/status", msgspec.json.encode(body), MERGE_PATCH))

    async def unreserve(self, claim: objects.ResourceClaim, pod: PodView) -> None:
        """Take the reservation away; what others have changed stays."""
        metadata = {"uid": claim.metadata.uid} if claim.metadata.uid else {}
        body = {"metadata": metadata, "status": {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]}}
        try:
            await self._write("PATCH", f"{_path(claim)}/status", msgspec.json.encode(body), STRATEGIC_PATCH)
        except WriteFailed as failed:
            if not failed.gone:
                raise

    async def deallocate(self, claim: objects.ResourceClaim) -> None:
        """Take allocation, reservations and the drivers' words away; WriteFailed if the claim has changed."""
        body = {"metadata": _version(claim), "status": {"allocation": None, "reservedFor": None, "devices": None}}
        await self._write("PATCH", f"{_path(claim)}/status", msgspec.json.encode(body), MERGE_PATCH)

    async def delete(self, claim: objects.ResourceClaim) -> None:
        """Take the finalizer away and delete the claim. A newer claim of that name stays."""
        uid = claim.metadata.uid
        try:
            for left in reversed(range(_CONFLICTS)):
                try:
                    finalizers = [each for each in claim.metadata.finalizers if each != FINALIZER]
                    body = {"metadata": {**_version(claim), "finalizers": finalizers}}
                    await self._write("PATCH", _path(claim), msgspec.json.encode(body), MERGE_PATCH)
                    break
                except WriteFailed as failed:
                    if not left or not isinstance(failed.__cause__, api_errors.Conflict):
                        raise
                claim = await self._read_again(claim)
                if claim.metadata.uid != uid:
                    return
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": claim.metadata.uid}}
            await self._write("DELETE", _path(claim), msgspec.json.encode(options))
        except WriteFailed as failed:
            if not failed.gone:
                raise

    async def note_extended(
        self, pod: PodView, claim: objects.ResourceClaim, mappings: Sequence[objects.ContainerExtendedResourceRequest]
    ) -> None:
        """Write `status.extendedResourceClaimStatus` of the pod."""
        metadata = {"uid": pod.object.metadata.uid} if pod.object.metadata.uid else {}
        status = {"resourceClaimName": claim.metadata.name, "requestMappings": [msgspec.to_builtins(each) for each in mappings]}
        body = {"metadata": metadata, "status": {"extendedResourceClaimStatus": status}}
        await self._write("PATCH", f"{path_of(pod)}/status", msgspec.json.encode(body), STRATEGIC_PATCH)

    async def _read_again(self, claim: objects.ResourceClaim) -> objects.ResourceClaim:
        try:
            return _read(await self._connection.request("GET", _path(claim)))
        except api_errors.NotFound as error:
            raise WriteFailed(f"claim {objects.key_of(claim)} does not exist any more", gone=True) from error
        except api_errors.ApiError as error:
            raise WriteFailed(f"claim {objects.key_of(claim)} cannot be read: {error}") from error


def _read(answer: bytes) -> objects.ResourceClaim:
    return decode.decode_json(answer, objects.ResourceClaim)


def _path(claim: objects.ResourceClaim) -> str:
    return f"{_API}/namespaces/{claim.metadata.namespace or 'default'}/resourceclaims/{claim.metadata.name}"


def _version(claim: objects.ResourceClaim) -> Mapping[str, str]:
    """The uid and version that the API server must still have."""
    return {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}


def _check(claim: objects.ResourceClaim, allocation: objects.Allocation | None) -> None:
    """Raise if the claim cannot be written as was decided; an allocation equal to ours was written by us before."""
    name = objects.key_of(claim)
    if claim.metadata.deletion_timestamp is not None:
        raise WriteFailed(f"claim {name} got deleted in the meantime", gone=True)
    written = claim.status.allocation
    if allocation is None and written is None:
        raise WriteFailed(f"claim {name} got deallocated elsewhere in the meantime")
    if allocation is not None and written is not None and written.devices.results != allocation.devices.results:
        raise WriteFailed(f"claim {name} got allocated elsewhere in the meantime")
