"""Writing whole objects: what one wants is applied, what has become of it is written to its status.

Server-side apply is the only way objects are made and changed: fields that others own stay theirs, fields of ours that somebody has
changed are ours again, and applying the same twice changes nothing. Whoever asks is expected to ask again: each call is one attempt, and
what the API server says instead comes back as the exceptions of `refusals`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from wharfinger.crd.fields import MANAGER
from wharfinger.framework.ports import WriteFailed
from wharfinger.kube.connection import JSON, MERGE_PATCH, Connection
from wharfinger.kube.custom_resources import API_VERSIONS, Deployment, PlainObject, collection

APPLY_PATCH = "application/apply-patch+yaml"
_APPLY = {"fieldManager": MANAGER, "force": "true"}
_APPLY_STATUS = {"fieldManager": f"{MANAGER}-status", "force": "true"}
_JSON_OBJECT = msgspec.json.Decoder(dict[str, Any])


class ObjectWriter:
    """Writes objects while `may_write` says so. Everything raises ApiError, and WriteFailed once this process may not write any more."""

    def __init__(self, connection: Connection, may_write: Callable[[], bool] = lambda: True) -> None:
        self._connection = connection
        self._may_write = may_write

    async def get(self, path: str) -> dict[str, Any]:
        """The object at a path."""
        return _JSON_OBJECT.decode(await self._connection.request("GET", path))

    async def apply(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The object as stored, made or changed so that every field of `body` is as it says there."""
        metadata = body["metadata"]
        path = f"{collection(body['kind'], metadata.get('namespace', ''))}/{metadata['name']}"
        return _JSON_OBJECT.decode(await self._write("PATCH", path, body, APPLY_PATCH, _APPLY))

    async def apply_status(self, obj: PlainObject, status: Mapping[str, Any]) -> None:
        """None, once the status is this one; only if the object is still the one of its uid, and unchanged since it was read."""
        meta = obj.metadata
        kind = type(obj).__name__
        identity = {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}
        if meta.namespace:
            identity["namespace"] = meta.namespace
        body = {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": identity, "status": status}
        await self._write("PATCH", f"{path_of(obj)}/status", body, APPLY_PATCH, _APPLY_STATUS)

    async def set_finalizers(self, obj: PlainObject, finalizers: Sequence[str]) -> None:
        """None, once the object has these; Conflict when it has changed since it was read."""
        body = {"metadata": {"resourceVersion": obj.metadata.resource_version, "uid": obj.metadata.uid, "finalizers": list(finalizers)}}
        await self._write("PATCH", path_of(obj), body, MERGE_PATCH)

    async def delete(self, obj: PlainObject) -> None:
        """None, once the object of this uid is being deleted; NotFound or Conflict when it is gone already.

        What owns pods goes after them. For anything else that would only mean to wait until the garbage collector has learnt of its kind.
        """
        propagation = "Foreground" if isinstance(obj, Deployment) else "Background"
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": obj.metadata.uid},
            "propagationPolicy": propagation,
        }
        await self._write("DELETE", path_of(obj), options)

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """None, once the pod of this uid is being evicted; TooManyRequests while a disruption budget forbids it."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        await self._write("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)

    async def _write(
        self, method: str, path: str, body: Mapping[str, Any], content_type: str = JSON, params: Mapping[str, str] | None = None
    ) -> bytes:
        content = msgspec.json.encode(body)
        return await self._connection.request(
            method, path, params=params, body=content, content_type=content_type, before=self._still_leading
        )

    def _still_leading(self) -> None:
        if not self._may_write():
            raise WriteFailed("this process is not the leader any more")


def path_of(obj: PlainObject) -> str:
    """The path of an object."""
    return f"{collection(type(obj).__name__, obj.metadata.namespace)}/{obj.metadata.name}"
