"""Evictions and cordons: the writes by which pods are moved.

`POST …/pods/NAME/eviction` with the pod's uid is accepted if the PodDisruptionBudgets allow it, and answered with 429 while they do not
(pkg/registry/core/pod/storage/eviction.go, Kubernetes 1.36). A cordon is `spec.unschedulable`, as `kubectl cordon` sets it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from wharfinger.framework.ports import WriteFailed
from wharfinger.kube import refusals
from wharfinger.kube.connection import MERGE_PATCH, Connection
from wharfinger.kube.writes import failure, path_of
from wharfinger.model.objects.pod_view import PodView


class ApiEvictions:
    """Each call is one request; the caller repeats it as long as that is worth it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def evict(self, pod: PodView) -> None:
        """Evicts the pod of this uid; WriteFailed says whether another attempt may succeed, or the pod is gone."""
        uid = pod.object.metadata.uid
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}} if uid else {},
        }
        await self._written("POST", f"{path_of(pod)}/eviction", msgspec.json.encode(body))

    async def cordon(self, node: str, annotations: Mapping[str, str | None], *, closed: bool) -> None:
        """Cordons the node, or opens it; at the same time sets these annotations of the node, and removes those that are None."""
        body = {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True if closed else None}}
        await self._written("PATCH", f"/api/v1/nodes/{node}", msgspec.json.encode(body), MERGE_PATCH)

    async def _written(self, method: str, path: str, body: bytes, content_type: str = "application/json") -> None:
        try:
            await self._connection.request(method, path, body=body, content_type=content_type)
        except (refusals.Forbidden, refusals.Unauthorized) as error:
            raise WriteFailed(str(error), retriable=False) from error
        except refusals.ApiError as error:
            raise failure(error) from error
