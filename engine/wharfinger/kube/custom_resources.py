"""The custom resources, and what is made for them, as the reconcilers watch and write them.

Objects come with spec and status as plain values: the models of `wharfinger.crd` read them where they are used, so that one object that
does not fit its model is that object's trouble. A kind whose definition is not there yet counts as a kind without objects and is asked for
again every few seconds.

What is used of the API, for whoever grants it:

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

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from msgspec import field

from wharfinger.crd import definition
from wharfinger.crd.fields import API_VERSION, GROUP, MANAGED_BY, MANAGER, VERSION
from wharfinger.framework.ports import Reference
from wharfinger.kube.reflector import ReflectorSettings
from wharfinger.kube.resources import Resource
from wharfinger.model import objects
from wharfinger.model.objects_meta import KubeStruct, ObjectMeta

WAIT_FOR_DEFINITION = 5.0
"""Seconds between two looks whether a definition has appeared."""


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
"""What the reconcilers watch besides what the scheduler watches."""


def reference_of(obj: PlainObject) -> Reference:
    """The reference of an event to an object."""
    kind, meta = type(obj).__name__, obj.metadata
    return Reference(kind=kind, name=meta.name, namespace=meta.namespace, uid=meta.uid, api_version=API_VERSIONS[kind])


def watching() -> ReflectorSettings:
    """How these kinds are watched."""
    return ReflectorSettings(unavailable_wait=WAIT_FOR_DEFINITION)
