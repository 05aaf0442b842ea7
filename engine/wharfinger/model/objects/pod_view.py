"""A pod with the values that scheduling derives from it: identity, template, requests, ports and images.

Thousands of pods come from a few templates. Requests, ports, images and QoS class are therefore derived once per template and shared;
name, uid, times and node are kept per pod. The template digest covers everything that a decision can depend on apart from the pod's
identity. A field that is not in the digest must have no effect on decisions; a needless field in the digest only reduces sharing.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from wharfinger.model import objects
from wharfinger.model.objects import matching, requests

HostPort: TypeAlias = tuple[str, str, int]
"""(ip, protocol, port)."""

WILDCARD = "0.0.0.0"  # noqa: S104 — Kubernetes' name for "every address of the node"; nothing is bound here

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")  # maps that differ only in order are equal
_SPEC_FIELDS = operator.attrgetter(
    *(name for name in objects.PodSpec.__struct_fields__ if name not in {"node_name", "volumes", "scheduling_group"})
)
_VOLUME_SOURCES = operator.attrgetter(*(name for name in objects.Volume.__struct_fields__ if name not in {"name", "empty_dir"}))
_NO_SOURCES = _VOLUME_SOURCES(objects.Volume())


def digest(pod: objects.Pod) -> bytes:
    """16 bytes that are equal for two pods iff every decision about them is equal apart from their identity."""
    apart, group = digest_without_group(pod), pod.spec.scheduling_group
    return apart if group is None else _with_group(apart, group)


def _with_group(apart: bytes, group: objects.PodSchedulingGroup) -> bytes:
    return hashlib.blake2b(_ENCODER.encode((apart, group)), digest_size=16).digest()


def digest_without_group(pod: objects.Pod) -> bytes:
    """The digest of a pod for decisions that do not depend on the PodGroup that it names."""
    metadata = pod.metadata
    owner = controller(pod)
    parts = (
        metadata.namespace or "default",
        metadata.labels,
        metadata.annotations,
        None if owner is None else (owner.api_version, owner.kind, owner.name),
        metadata.deletion_timestamp is not None,
        pod.status.qos_class,
        _resize_report(pod),
        _volumes(pod),
        _SPEC_FIELDS(pod.spec),
    )
    return hashlib.blake2b(_ENCODER.encode(parts), digest_size=16).digest()


def controller(pod: objects.Pod) -> objects.OwnerReference | None:
    """The owner that is the pod's controller, or None."""
    owners = pod.metadata.owner_references
    return next((owner for owner in owners if owner.controller), None) if owners else None


def deciding_volumes(spec: objects.PodSpec) -> tuple[objects.Volume, ...]:
    """The volumes that a decision can depend on, without tokens, ConfigMaps, empty directories and the like."""
    return tuple(volume for volume in spec.volumes if _VOLUME_SOURCES(volume) != _NO_SOURCES)


def kept_volumes(spec: objects.PodSpec) -> tuple[objects.Volume, ...]:
    """The volumes that are read: those that a decision can depend on, and empty directories, for `wharf drain`."""
    return tuple(volume for volume in spec.volumes if volume.empty_dir is not None or _VOLUME_SOURCES(volume) != _NO_SOURCES)


def _volumes(pod: objects.Pod) -> Sequence[object]:
    """Volumes without their names, which have no effect, except that the claim of an ephemeral volume is named after pod and volume."""
    return pod.spec.volumes and [
        (_VOLUME_SOURCES(volume), None if volume.ephemeral is None else (pod.metadata.name, volume.name))
        for volume in deciding_volumes(pod.spec)
    ]


def _resize_report(pod: objects.Pod) -> object:
    """The resources in the kubelet's report if they can affect requests; None otherwise, which is nearly always."""
    if not status_counts(pod):
        return None
    status = pod.status
    return (status.container_statuses, status.init_container_statuses, status.resources, status.allocated_resources, status.conditions)


def status_counts(pod: objects.Pod) -> bool:
    """True if the kubelet's report can change the requests of a pod: it is on a node, and the report may differ from the spec."""
    status = pod.status
    if not pod.spec.node_name or not (status.container_statuses or status.init_container_statuses or status.resources):
        return False
    return status.resources is not None or requests.resize_infeasible(pod) or _status_deviates(pod)


def _status_deviates(pod: objects.Pod) -> bool:
    spec, status = pod.spec, pod.status
    wanted = {container.name: container.resources.requests for container in (*spec.containers, *spec.init_containers)}
    for state in (*status.container_statuses, *status.init_container_statuses):
        reported = state.resources
        if reported is None:
            continue
        requested = wanted.get(state.name)
        if reported.requests and reported.requests != requested:
            return True
        if state.allocated_resources and state.allocated_resources != requested:
            return True
    return False


class PodDemand(Struct, frozen=True, kw_only=True, weakref=True):
    """The demand of pods of one template on a node; amounts in the scheduler's units (cpu in millicores, bytes, counts).

    `nonzero` is (cpu, memory) for the non-zero sums of a node, `score_nonzero` for the score of an incoming pod. As in Kubernetes, the two
    may differ for pods with pod-level requests or a resize in progress. `tolerations` are those of taints of nodes. `may_claim`: the pod
    names claims for devices, or resources that a class of devices may back.
    """

    requests: Mapping[str, int]
    nonzero: tuple[int, int]
    score_nonzero: tuple[int, int]
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    qos: str
    tolerations: matching.Tolerations
    may_claim: bool


class PodView:
    """A pod and the values derived from it.

    `assigned` are the annotations that the scheduler has given the pod for its node; they are written with the binding.

    Two pods with equal `template` get equal decisions, apart from their identity. The template covers namespace, labels, annotations, the
    controller, the spec without nodeName, a resize in progress, and the deletion mark. It does not cover name, uid, times and the rest of
    the status, except that the name is included if generic ephemeral volumes are named after it. A pending pod with a nodeName has the same
    template as one without, so a cache of decisions by template must add `node_name` to its key.
    """

    __slots__ = (
        "_apart_from_group",
        "_demand",
        "_limits",
        "_template",
        "annotations",
        "assigned",
        "key",
        "labels",
        "name",
        "namespace",
        "node_name",
        "object",
        "priority",
        "uid",
    )

    def __init__(self, pod: objects.Pod, template: bytes | None = None) -> None:
        """A view of the pod; `template` is its `digest` if that is known."""
        metadata = pod.metadata
        self.object = pod
        self.name = metadata.name
        self.namespace = metadata.namespace or "default"
        self.key = f"{self.namespace}/{self.name}"
        self.uid = metadata.uid or self.key
        self.labels: Mapping[str, str] = metadata.labels
        self.annotations: Mapping[str, str] = metadata.annotations
        self.assigned: Mapping[str, str] = {}
        self.priority = pod.spec.priority or 0
        self.node_name = pod.spec.node_name
        self._template = template
        self._apart_from_group: bytes | None = None
        self._demand: PodDemand | None = None
        self._limits: Mapping[str, int] | None = None

    def __repr__(self) -> str:
        return f"PodView({self.key})"

    def placed_on(self, node_name: str) -> PodView:
        """The same pod with another `node_name`, used until the API server confirms the binding; derived values are shared."""
        placed = PodView.__new__(PodView)  # once for every pod that is placed: a loop over `__slots__` takes ten times the calls
        placed._apart_from_group = self._apart_from_group  # noqa: SLF001 — of the same class
        placed._demand = self._demand  # noqa: SLF001 — of the same class
        placed._limits = self._limits  # noqa: SLF001 — of the same class
        placed._template = self._template  # noqa: SLF001 — of the same class
        placed.annotations = self.annotations
        placed.assigned = self.assigned
        placed.key = self.key
        placed.labels = self.labels
        placed.name = self.name
        placed.namespace = self.namespace
        placed.object = self.object
        placed.priority = self.priority
        placed.uid = self.uid
        placed.node_name = node_name
        return placed

    def assigning(self, annotations: Mapping[str, str]) -> PodView:
        """The same pod with these annotations, which are written with its binding; the pod itself without annotations."""
        if not annotations:
            return self
        metadata = msgspec.structs.replace(self.object.metadata, annotations={**self.annotations, **annotations})
        assigned = PodView(msgspec.structs.replace(self.object, metadata=metadata))
        assigned.node_name, assigned._demand = self.node_name, self.demand
        assigned.assigned = {**self.assigned, **annotations}
        return assigned

    def with_deletion(self, since: datetime | None) -> PodView:
        """The same pod on the same node, marked as being deleted since a time; with None, without that mark."""
        return self._with_metadata(deletion_timestamp=since)

    def with_uid(self, uid: str) -> PodView:
        """A pod that is equal except for its uid, on the same node."""
        return self._with_metadata(uid=uid)

    def _with_metadata(self, **changes: str | datetime | None) -> PodView:
        metadata = msgspec.structs.replace(self.object.metadata, **changes)
        found = PodView(msgspec.structs.replace(self.object, metadata=metadata))
        found.node_name = self.node_name
        return found

    @property
    def template(self) -> bytes:
        """The digest of everything that decisions depend on, 16 bytes; see the class."""
        if self._template is None:
            group = self.object.spec.scheduling_group
            self._template = self.apart_from_group if group is None else _with_group(self.apart_from_group, group)
        return self._template

    @property
    def apart_from_group(self) -> bytes:
        """The `template` without the PodGroup that the pod names: equal for pods of many groups."""
        if self._apart_from_group is None:
            known = self._template if self.object.spec.scheduling_group is None else None
            self._apart_from_group = known or digest_without_group(self.object)
        return self._apart_from_group

    @property
    def demand(self) -> PodDemand:
        """The demand of the pod on a node; InvalidObject if a quantity cannot be read."""
        if self._demand is None:
            self._demand = _shared_demand(self)
        return self._demand

    @property
    def requests(self) -> Mapping[str, int]:
        """Requests by resource name: cpu in millicores, memory and ephemeral-storage in bytes, others in units."""
        return self.demand.requests

    @property
    def limits(self) -> Mapping[str, int]:
        """Limits by resource name, in the same units; a resource without a limit in some container is absent."""
        if self._limits is None:
            self._limits = requests.pod_limits(self.object)
        return self._limits

    @property
    def nonzero(self) -> tuple[int, int]:
        """(cpu in millicores, memory in bytes) for the non-zero sums of a node, with defaults for containers without requests."""
        return self.demand.nonzero

    @property
    def score_nonzero(self) -> tuple[int, int]:
        """(cpu in millicores, memory in bytes) for the score of the incoming pod; may differ from `nonzero` (see `PodDemand`)."""
        return self.demand.score_nonzero

    @property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The host ports of the pod as (ip, protocol, port), each once."""
        return self.demand.host_ports

    @property
    def images(self) -> tuple[str, ...]:
        """Images of init containers, containers and image volumes, in that order and as often as they are used, tagged (`nginx:latest`)."""
        return self.demand.images

    @property
    def qos(self) -> str:
        """Guaranteed, Burstable or BestEffort."""
        return self.demand.qos

    @property
    def tolerations(self) -> matching.Tolerations:
        """The tolerations of the pod."""
        return self.demand.tolerations

    @property
    def created(self) -> float | None:
        """Seconds since the epoch, or None when unknown."""
        created = self.object.metadata.creation_timestamp
        return None if created is None else created.timestamp()

    @property
    def started(self) -> float | None:
        """The time at which the kubelet accepted the pod, in seconds since the epoch, or None."""
        started = self.object.status.start_time
        return None if started is None else started.timestamp()

    @property
    def terminating(self) -> bool:
        """True once the pod is being deleted."""
        return self.object.metadata.deletion_timestamp is not None

    def claim_name(self, use: objects.PodResourceClaim) -> str | None:
        """The name of the claim for one of the pod's `resourceClaims`: named, or made from its template; None if there is none."""
        made = {status.name: status.resource_claim_name for status in self.object.status.resource_claim_statuses}
        return use.resource_claim_name or made.get(use.name)

    @property
    def finished(self) -> bool:
        """True if the pod has ended and uses no resources any more."""
        return self.object.status.phase in {"Succeeded", "Failed"}

    @property
    def nominated_node(self) -> str:
        """The node that preemption nominated for this pod, or ""."""
        return self.object.status.nominated_node_name

    @property
    def scheduler_name(self) -> str:
        """The scheduler name of the pod."""
        return self.object.spec.scheduler_name or objects.DEFAULT_SCHEDULER

    @property
    def controller(self) -> objects.OwnerReference | None:
        """The owner that is the pod's controller, or None."""
        return controller(self.object)


_demands: WeakValueDictionary[bytes, PodDemand] = WeakValueDictionary()  # by template, as long as a pod with that template exists


def _shared_demand(view: PodView) -> PodDemand:
    template = view.apart_from_group
    demand = _demands.get(template)
    if demand is None:
        demand = _demands[template] = derive_demand(view.object)
    return demand


def derive_demand(pod: objects.Pod) -> PodDemand:
    """The demand of one pod, computed without the cache; InvalidObject if a quantity cannot be read."""
    use_status = status_counts(pod)
    exact = requests.pod_requests(pod, use_status=use_status)
    nonzero = requests.pod_requests(pod, use_status=use_status, missing=requests.non_zero_defaults(pod, exact))
    # NodeResourcesFit builds its scorer without the options for pod-level resources and resizes (fit.go, NewFit), so its score uses the
    # requests of the containers.
    same = pod.spec.resources is None and not use_status
    scored = nonzero if same else requests.pod_requests(pod, missing=requests.NON_ZERO, pod_level=False)
    return PodDemand(
        requests=requests.in_scheduler_units(exact),
        nonzero=requests.cpu_and_memory(nonzero),
        score_nonzero=requests.cpu_and_memory(scored),
        host_ports=_host_ports(pod.spec),
        images=_images(pod.spec),
        qos=pod.status.qos_class or requests.compute_qos(pod.spec),
        tolerations=matching.Tolerations(pod.spec.tolerations),
        may_claim=bool(pod.spec.resource_claims) or any("/" in name and amount for name, amount in exact.items()),
    )


def _host_ports(spec: objects.PodSpec) -> tuple[HostPort, ...]:
    """Sidecars' and containers' host ports; on the host network every container port is one (the API server's own default)."""
    running = (*(container for container in spec.init_containers if requests.is_sidecar(container)), *spec.containers)
    ports = (
        (port.host_ip or WILDCARD, port.protocol or "TCP", port.host_port or (port.container_port if spec.host_network else 0))
        for container in running
        for port in container.ports
    )
    return tuple(dict.fromkeys(port for port in ports if port[2] > 0))


def _images(spec: objects.PodSpec) -> tuple[str, ...]:
    containers = [container.image for container in (*spec.init_containers, *spec.containers)]
    volumes = [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return tuple(normalized_image(image) for image in containers + volumes)


def normalized_image(name: str) -> str:
    """An image name with `:latest` added when it has neither tag nor digest (plugins/imagelocality, Kubernetes 1.36)."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name


def taken_ports(pod: PodView, others: Iterable[PodView]) -> Iterator[tuple[HostPort, PodView]]:
    """The host ports of a pod that collide with another pod's, each with the other pod."""
    for other in others:
        used: dict[tuple[str, int], set[str]] = {}
        for ip, protocol, port in other.host_ports:
            used.setdefault((protocol, port), set()).add(ip)
        for mine in pod.host_ports if used else ():
            theirs = used.get(mine[1:], ())
            if theirs and (mine[0] == WILDCARD or mine[0] in theirs or WILDCARD in theirs):
                yield mine, other
