"""The custom resources and the objects made for them, as the reconcilers watch and write them.

Objects come with spec and status as plain values; the models of `wharfinger.crd` read them where they are used, so an object that does not
fit its model affects only itself. A kind without a CustomResourceDefinition counts as a kind without objects, and is requested again every
few seconds.

Objects are written by server-side apply: fields that others own stay theirs, fields of ours that others changed become ours again, and
applying the same twice changes nothing. Each call is one attempt; the caller repeats it, and refusals are the exceptions of `refusals`.

API access needed:

    scheduling.wharfinger.dev  schedulingpolicies             get list watch create patch delete   (those of PolicyApps are made)
                               placementpreviews              list watch delete                (deleted when their time is over)
                               policyapps                     get list watch patch             (get: previews; patch: the finalizer)
                               */status                       patch
    apps                       deployments                    get list watch create patch delete
                               statefulsets replicasets       get                              (workloads of previews)
    batch                      jobs                           get                              (workloads of previews)
    "" (core)                  services                       get list watch create patch delete
                               pods                           list watch
                               pods/eviction                  create
    events.k8s.io              events                         create patch

With OwnerReferencesPermissionEnforcement, `policyapps/finalizers` update as well: owned objects block the deletion of their app.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import field

from wharfinger.crd import API_VERSION, GROUP, MANAGED_BY, MANAGER, VERSION, definition
from wharfinger.framework.ports import Reference, WriteFailed
from wharfinger.kube.connection import JSON, MERGE_PATCH, Connection
from wharfinger.kube.reflector import ReflectorSettings
from wharfinger.kube.wire import Resource
from wharfinger.model import objects
from wharfinger.model.objects.metadata import KubeStruct, ObjectMeta

WAIT_FOR_DEFINITION = 5.0
"""Seconds between two checks for a missing definition."""


class PlainObject(KubeStruct, frozen=True):
    """Any object; spec and status as JSON has them."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


class SchedulingPolicy(PlainObject, frozen=True):
    """A SchedulingPolicy."""


class PlacementPreview(PlainObject, frozen=True):
    """A PlacementPreview."""


class PolicyApp(PlainObject, frozen=True):
    """A PolicyApp."""


class Deployment(PlainObject, frozen=True):
    """A Deployment that was made for a PolicyApp."""


class Service(PlainObject, frozen=True):
    """A Service that was made for a PolicyApp."""


Kind: TypeAlias = type[PlainObject]

KINDS: Mapping[str, Kind] = {kind.__name__: kind for kind in (SchedulingPolicy, PlacementPreview, PolicyApp, Deployment, Service)}

_OURS = {"labelSelector": f"{MANAGED_BY}={MANAGER}"}


def _resource(kind: Kind, path: str, params: Mapping[str, str] | None = None) -> Resource:
    return Resource(kind=cast("type[objects.AnyObject]", kind), path=path, params=params or {})


_PLURALS = {made.kind: made.plural for made in definition.DEFINITIONS} | {"Deployment": "deployments", "Service": "services"}
_GROUPS = {"Deployment": "/apis/apps/v1", "Service": "/api/v1"}
_CLUSTER_WIDE = {made.kind for made in definition.DEFINITIONS if not made.namespaced}
API_VERSIONS = {made.kind: API_VERSION for made in definition.DEFINITIONS} | {"Deployment": "apps/v1", "Service": "v1"}


def collection(kind: str, namespace: str = "") -> str:
    """The path of the objects of a kind, of one namespace or all."""
    root = _GROUPS.get(kind, f"/apis/{GROUP}/{VERSION}")
    return f"{root}/namespaces/{namespace}/{_PLURALS[kind]}" if namespace and kind not in _CLUSTER_WIDE else f"{root}/{_PLURALS[kind]}"


CUSTOM = (
    _resource(SchedulingPolicy, collection("SchedulingPolicy")),
    _resource(PlacementPreview, collection("PlacementPreview")),
    _resource(PolicyApp, collection("PolicyApp")),
    _resource(Deployment, collection("Deployment"), _OURS),
    _resource(Service, collection("Service"), _OURS),
)
"""The kinds that the reconcilers watch in addition to those of the scheduler."""


def reference_of(obj: PlainObject) -> Reference:
    """The reference of an event to an object."""
    kind, meta = type(obj).__name__, obj.metadata
    return Reference(kind=kind, name=meta.name, namespace=meta.namespace, uid=meta.uid, api_version=API_VERSIONS[kind])


def watching() -> ReflectorSettings:
    """The watches of these kinds."""
    return ReflectorSettings(unavailable_wait=WAIT_FOR_DEFINITION)


APPLY_PATCH = "application/apply-patch+yaml"
_APPLY = {"fieldManager": MANAGER, "force": "true"}
_APPLY_STATUS = {"fieldManager": f"{MANAGER}-status", "force": "true"}
_JSON_OBJECT = msgspec.json.Decoder(dict[str, Any])
_NOT_IN_YAML = "".join(map(chr, range(0x7F, 0xA0))) + "\u2028\u2029\ufeff\ufffe\uffff"
"""Characters that JSON allows in strings, but YAML refuses or reads as line breaks (readerc.go and yamlprivateh.go, go.yaml.in/yaml/v2)."""
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in _NOT_IN_YAML}
_has_escapes = re.compile(f"[{_NOT_IN_YAML}]").search


def json_as_yaml(body: Mapping[str, Any]) -> bytes:
    """JSON that has the same meaning if it is read as YAML, as the API server reads what is applied."""
    content = msgspec.json.encode(body)
    if content.isascii() and b"\x7f" not in content:
        return content
    text = content.decode()
    return text.translate(_ESCAPES).encode() if _has_escapes(text) else content


class ObjectWriter:
    """Writes objects while `may_write` is true. Every method raises ApiError, and WriteFailed once this process may not write."""

    def __init__(self, connection: Connection, may_write: Callable[[], bool] = lambda: True) -> None:
        self._connection = connection
        self._may_write = may_write

    async def get(self, path: str) -> dict[str, Any]:
        """The object at a path."""
        return _JSON_OBJECT.decode(await self._connection.request("GET", path))

    async def apply(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The object as stored, created or changed so that it has every field of `body`."""
        metadata = body["metadata"]
        path = f"{collection(body['kind'], metadata.get('namespace', ''))}/{metadata['name']}"
        return _JSON_OBJECT.decode(await self._write("PATCH", path, body, APPLY_PATCH, _APPLY))

    async def apply_status(self, obj: PlainObject, status: Mapping[str, Any]) -> None:
        """Write the status, only if the object still has its uid and is unchanged since it was read."""
        meta = obj.metadata
        kind = type(obj).__name__
        identity = {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}
        if meta.namespace:
            identity["namespace"] = meta.namespace
        body = {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": identity, "status": status}
        await self._write("PATCH", f"{path_of(obj)}/status", body, APPLY_PATCH, _APPLY_STATUS)

    async def set_finalizers(self, obj: PlainObject, finalizers: Sequence[str]) -> None:
        """Set the finalizers; Conflict if the object has changed since it was read."""
        body = {"metadata": {"resourceVersion": obj.metadata.resource_version, "uid": obj.metadata.uid, "finalizers": list(finalizers)}}
        await self._write("PATCH", path_of(obj), body, MERGE_PATCH)

    async def delete(self, obj: PlainObject) -> None:
        """Delete the object of this uid; NotFound or Conflict if it is already deleted.

        Owners of pods are deleted after their pods. Anything else is deleted at once, without waiting for the garbage collector.
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
        """Evict the pod of this uid; TooManyRequests while a disruption budget forbids it."""
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
        content = json_as_yaml(body) if content_type == APPLY_PATCH else msgspec.json.encode(body)
        return await self._connection.request(
            method, path, params=params, body=content, content_type=content_type, before=self._still_leading
        )

    def _still_leading(self) -> None:
        if not self._may_write():
            raise WriteFailed("this process is not the leader any more")


def path_of(obj: PlainObject) -> str:
    """The path of an object."""
    return f"{collection(type(obj).__name__, obj.metadata.namespace)}/{obj.metadata.name}"
