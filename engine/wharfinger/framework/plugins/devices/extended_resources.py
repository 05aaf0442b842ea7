"""Extended resources that a device class backs: `nvidia.com/gpu: 2` in a pod that no device plugin serves becomes a claim.

A class backs the extended resource that it names, and always `deviceclass.resource.kubernetes.io/` and its own name. Where a node itself
has the resource as allocatable, its device plugin serves it. On other nodes, the scheduler makes one claim for the pod, with a request for
each container and resource; init containers use again what later long-lived containers get. Sources:
plugins/dynamicresources/extendeddynamicresources.go and deviceclass/extendedresourcecache, Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from wharfinger.model import objects
from wharfinger.model.objects import quantity
from wharfinger.model.objects.devices import EXACT_COUNT, EXTENDED_RESOURCE_CLAIM, IMPLICIT_RESOURCE_PREFIX, IN_MEMORY
from wharfinger.model.objects.requests import is_extended

if TYPE_CHECKING:
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore

ResourceMappings = objects.ContainerExtendedResourceRequest


class BackingClasses:
    """The class that backs each extended resource: of several the newest, then the lower name."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (objects.DeviceClass,)

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: Mapping[str, objects.DeviceClass] | None = None

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:  # noqa: ARG002 — the port
        """Find the classes again at the next call."""
        self._known = None

    @property
    def by_resource(self) -> Mapping[str, objects.DeviceClass]:
        """The classes by the resources that they back; empty in a cluster without device classes."""
        if self._known is None:
            self._known = _backing(self._store.all(objects.DeviceClass))
        return self._known

    def of(self, resource: str) -> objects.DeviceClass | None:
        """The class that backs a resource; None if none does."""
        return self.by_resource.get(resource)


def _backing(classes: Sequence[objects.DeviceClass]) -> Mapping[str, objects.DeviceClass]:
    found = {f"{IMPLICIT_RESOURCE_PREFIX}{each.metadata.name}": each for each in classes}
    for each in sorted(classes, key=lambda each: each.metadata.name.encode(), reverse=True):
        resource = each.spec.extended_resource_name
        if resource is not None and (resource not in found or _created(each) >= _created(found[resource])):
            found[resource] = each
    return found


def _created(each: objects.DeviceClass) -> float:
    created = each.metadata.creation_timestamp
    return 0.0 if created is None else created.timestamp()


def is_candidate(resource: str) -> bool:
    """True if a class may back a resource."""
    return is_extended(resource) or resource.startswith(IMPLICIT_RESOURCE_PREFIX)


def backed(pod: PodView, store: ObjectStore) -> tuple[str, ...]:
    """The resources that a pod requests and a class backs, sorted; nearly always empty."""
    if not pod.demand.may_claim:
        return ()
    classes = store.following(BackingClasses).by_resource
    if not classes:
        return ()
    return tuple(sorted(name for name, amount in pod.requests.items() if amount and name in classes and is_candidate(name)))


def owner_uid(claim: objects.ResourceClaim) -> str:
    """The uid of the pod for which the scheduler made a claim for extended resources; "" for other claims."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return ""
    return next((owner.uid for owner in claim.metadata.owner_references if owner.controller), "")


def written_claim(pod: PodView, store: ObjectStore) -> objects.ResourceClaim | None:
    """The claim that was written for a pod in an earlier cycle; None if there is none."""
    found = store.group(objects.ResourceClaim, owner_uid, pod.object.metadata.uid) if pod.object.metadata.uid else ()
    names = ((claim, [owner.name for owner in claim.metadata.owner_references]) for claim in found)
    return next((claim for claim, owners in names if pod.name in owners), None)


def in_memory_claim(pod: PodView, requests: tuple[objects.DeviceRequest, ...] = ()) -> objects.ResourceClaim:
    """The claim for the extended resources of a pod, as it would be written."""
    owner = objects.OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.object.metadata.uid, controller=True)
    return objects.ResourceClaim(
        metadata=objects.ObjectMeta(
            name=IN_MEMORY,
            generate_name=f"{pod.name}-extended-resources-",
            namespace=pod.namespace,
            uid=f"{pod.uid}{IN_MEMORY}",  # while it is in flight; the API server gives another
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
            owner_references=(owner,),
        ),
        spec=objects.ResourceClaimSpec(devices=objects.DeviceClaim(requests=requests)),
    )


def requests_of(
    pod: objects.Pod, class_of: Mapping[str, str]
) -> tuple[tuple[objects.DeviceRequest, ...], tuple[objects.ContainerExtendedResourceRequest, ...]]:
    """The requests for these resources, each with the name of its class, and which of them serve which container."""
    requests: list[objects.DeviceRequest] = []
    mappings: list[ResourceMappings] = []
    for resource in sorted(class_of, key=str.encode):
        found, mapped = _of_resource(pod, resource, class_of[resource])
        requests += found
        mappings += mapped
    return tuple(sorted(requests, key=lambda request: request.name.encode())), tuple(mappings)


def _of_resource(pod: objects.Pod, resource: str, class_name: str) -> tuple[list[objects.DeviceRequest], list[ResourceMappings]]:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    n_init = len(pod.spec.init_containers)
    short_lived = [index for index in range(n_init) if containers[index].restart_policy != "Always"]
    lasting: list[objects.DeviceRequest | None] = [None] * len(containers)
    lasting_mapped: list[ResourceMappings] = []
    for index in range(len(containers)):
        if index not in short_lived:
            lasting[index], mapped = _of_container(containers[index], index, resource, class_name, ())
            lasting_mapped += mapped
    largest: objects.DeviceRequest | None = None
    own_names: set[str] = set()
    passing_mapped: list[ResourceMappings] = []
    for index in short_lived:
        own, mapped = _of_container(containers[index], index, resource, class_name, [each for each in lasting[index:] if each is not None])
        if own is not None:
            own_names.add(own.name)
            if largest is None or _count(largest) < _count(own):
                largest = own
        passing_mapped += mapped
    if largest is not None:  # init containers run in sequence, so the largest request serves all of them
        passing_mapped = [
            ResourceMappings(container_name=each.container_name, resource_name=each.resource_name, request_name=largest.name)
            if each.request_name in own_names
            else each
            for each in passing_mapped
        ]
    found = [*([] if largest is None else [largest]), *(each for each in lasting if each is not None)]
    return found, [*lasting_mapped, *passing_mapped]


def _of_container(
    container: objects.Container, index: int, resource: str, class_name: str, reusable: Sequence[objects.DeviceRequest]
) -> tuple[objects.DeviceRequest | None, list[ResourceMappings]]:
    """The request that a container needs in addition to reusable ones (None if these are enough), and all requests that serve it."""
    wanted = _whole_number(container.resources.requests.get(resource, "0"))
    if not wanted:
        return None, []
    mapped = []
    had = 0
    for request in reusable:
        had += _count(request)
        mapped.append(ResourceMappings(container_name=container.name, resource_name=resource, request_name=request.name))
        if had >= wanted:
            return None, mapped
    place = sorted(container.resources.requests, key=str.encode).index(resource)
    exactly = objects.ExactDeviceRequest(device_class_name=class_name, allocation_mode=EXACT_COUNT, count=wanted - had)
    own = objects.DeviceRequest(name=f"container-{index}-request-{place}", exactly=exactly)
    return own, [*mapped, ResourceMappings(container_name=container.name, resource_name=resource, request_name=own.name)]


def _count(request: objects.DeviceRequest) -> int:
    assert request.exactly is not None  # noqa: S101 — all of them are made here
    return request.exactly.count


def _whole_number(text: str) -> int:
    """A quantity as a whole number; 0 for another quantity (`AsInt64`)."""
    nanos = quantity.nano(text)
    return nanos // quantity.NANO if nanos % quantity.NANO == 0 and nanos < 2**63 * quantity.NANO else 0
