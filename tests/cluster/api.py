"""A client of the API server for tests: plain JSON over connections that stay open, and many objects at a time.

It shares no code with the product, so that a mistake there cannot hide here.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

_GROUPS = {
    "Deployment": "/apis/apps/v1",
    "ReplicaSet": "/apis/apps/v1",
    "StatefulSet": "/apis/apps/v1",
    "DaemonSet": "/apis/apps/v1",
    "Job": "/apis/batch/v1",
    "PriorityClass": "/apis/scheduling.k8s.io/v1",
    "PodGroup": "/apis/scheduling.k8s.io/v1alpha2",
    "PodDisruptionBudget": "/apis/policy/v1",
    "StorageClass": "/apis/storage.k8s.io/v1",
    "CSINode": "/apis/storage.k8s.io/v1",
    "RuntimeClass": "/apis/node.k8s.io/v1",
    "DeviceClass": "/apis/resource.k8s.io/v1",
    "ResourceSlice": "/apis/resource.k8s.io/v1",
    "ResourceClaim": "/apis/resource.k8s.io/v1",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1",
    "Lease": "/apis/coordination.k8s.io/v1",
    "Event": "/apis/events.k8s.io/v1",
}
_PLURALS = {
    "PriorityClass": "priorityclasses",
    "StorageClass": "storageclasses",
    "DeviceClass": "deviceclasses",
    "RuntimeClass": "runtimeclasses",
}
_CLUSTER_WIDE = {
    "Node",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "StorageClass",
    "CSINode",
    "DeviceClass",
    "ResourceSlice",
    "RuntimeClass",
}
PARALLEL = 8
PAGE = "2000"


class Refused(Exception):
    """The API server's answer was not one of success; `code` is its HTTP status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Api:
    """Requests to one API server. Safe to use from several threads: a connection is taken for one exchange and put back."""

    def __init__(self, port: int, token: str, certificate: Path) -> None:
        self.port = port
        self._token = token
        self._certificate = certificate
        self._context: ssl.SSLContext | None = None
        self._idle: deque[http.client.HTTPSConnection] = deque()

    def close(self) -> None:
        """Closes the connections; the next request opens one again."""
        while self._idle:
            self._idle.pop().close()

    def request(self, method: str, path: str, body: object = None, *, content_type: str = "application/json") -> Any:
        """The decoded answer. Raises `Refused` for a status of 400 and more, OSError when there is no server."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type, "Accept": "application/json"}
        status, text = self._exchange(method, path, content, headers)
        if status >= http.client.BAD_REQUEST:
            raise Refused(status, text.decode("utf-8", "replace"))
        return json.loads(text) if text.startswith((b"{", b"[")) else text.decode()

    def _exchange(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        try:
            return self._exchange_over(self._idle.pop(), method, path, content, headers)
        except (IndexError, http.client.HTTPException, OSError):
            self.close()  # none was idle, or the server has closed them meanwhile
        return self._exchange_over(self._connection(), method, path, content, headers)

    def _exchange_over(
        self, connection: http.client.HTTPSConnection, method: str, path: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return status, text

    def _connection(self) -> http.client.HTTPSConnection:
        if self._context is None:
            self._context = ssl.create_default_context(cafile=str(self._certificate))
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self._context, timeout=60)

    def get(self, kind: str, name: str, namespace: str = "default") -> Any:
        """One object."""
        return self.request("GET", f"{collection(kind, namespace)}/{name}")

    def protobuf(self, kind: str, name: str, namespace: str = "default") -> bytes:
        """One object in protocol buffers, without the envelope: `k8s`, a zero byte, and field 2 of runtime.Unknown."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/vnd.kubernetes.protobuf"}
        status, found = self._exchange("GET", f"{collection(kind, namespace)}/{name}", None, headers)
        if status >= http.client.BAD_REQUEST:
            raise Refused(status, repr(found))
        fields = dict(_length_delimited(found.removeprefix(b"k8s\0")))
        return fields[2]

    def list(self, kind: str, namespace: str | None = None, **query: str) -> list[Any]:
        """All objects of a kind, of one namespace or all, read in pages."""
        items: list[Any] = []
        query = {"limit": PAGE, **query}
        while True:
            answer = self.request("GET", f"{collection(kind, namespace)}?{urlencode(query)}")
            items += answer["items"]
            if not (more := answer["metadata"].get("continue")):
                return items
            query["continue"] = more

    def any(self, kind: str) -> bool:
        """True if an object of a kind exists."""
        return bool(self.request("GET", f"{collection(kind, None)}?limit=1")["items"])

    def create(self, obj: dict[str, Any]) -> Any:
        """The object as the server stored it. Of a node that includes the status; the others start without."""
        return self.request("POST", collection(obj["kind"], obj["metadata"].get("namespace", "default")), obj)

    def create_many(self, objs: Iterable[dict[str, Any]]) -> list[Any]:
        """The objects as stored, created over several connections at a time; in the order given."""
        with ThreadPoolExecutor(PARALLEL) as pool:
            return list(pool.map(self.create, objs))

    def delete(self, kind: str, name: str, namespace: str = "default", *, grace: int = 0) -> None:
        """Deletes one object; one that is already deleted is no error."""
        try:
            self.request("DELETE", f"{collection(kind, namespace)}/{name}?gracePeriodSeconds={grace}")
        except Refused as refusal:
            if refusal.code != http.client.NOT_FOUND:
                raise

    def delete_all(self, kind: str, namespace: str | None = None) -> None:
        """Deletes all objects of a kind: one request for a namespace or a cluster-wide kind, one for each namespace otherwise."""
        if kind in _CLUSTER_WIDE or namespace is not None:
            self.request("DELETE", f"{collection(kind, namespace)}?gracePeriodSeconds=0")
            return
        for each in self.list("Namespace"):
            self.delete_all(kind, each["metadata"]["name"])

    def patch(self, kind: str, name: str, body: object, namespace: str = "default") -> Any:
        """The object after a merge patch."""
        return self.request("PATCH", f"{collection(kind, namespace)}/{name}", body, content_type="application/merge-patch+json")

    def evict(self, pod: str, namespace: str = "default", *, dry_run: bool = False, grace: int = 0) -> None:
        """Evicts a pod through the Eviction API, by default without a grace period; `Refused` where a budget forbids it."""
        options = {"gracePeriodSeconds": grace, **({"dryRun": ["All"]} if dry_run else {})}
        metadata = {"name": pod, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        self.request("POST", f"{collection('Pod', namespace)}/{pod}/eviction", body)

    def bind(self, pod: str, node: str, namespace: str = "default", uid: str = "") -> None:
        """Binds as a scheduler does."""
        metadata = {"name": pod, "namespace": namespace, **({"uid": uid} if uid else {})}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self.request("POST", f"{collection('Pod', namespace)}/{pod}/binding", binding)


def collection(kind: str, namespace: str | None) -> str:
    """The path of a kind's objects, in a namespace or (None, or a kind that has none) everywhere."""
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    place = _GROUPS.get(kind, "/api/v1")
    return f"{place}/{plural}" if namespace is None or kind in _CLUSTER_WIDE else f"{place}/namespaces/{namespace}/{plural}"


def _length_delimited(content: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, content) of the fields of a message that has only such fields."""
    at = 0
    while at < len(content):
        tag, at = content[at], at + 1
        length = shift = 0
        while True:
            byte, at = content[at], at + 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield tag >> 3, content[at : at + length]
        at += length
