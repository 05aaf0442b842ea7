"""The digest of everything in a pod that a decision can depend on, apart from its identity.

Two pods of equal digest are placed alike, so decisions, demands and counts are worked out once for both. What is left out has to be truly
without consequence: names, uids, times, the node, most of the status, names of volumes. What is put in costs at worst some sharing.
"""

from __future__ import annotations

import hashlib
import operator

import msgspec

from wharfinger.model import objects, requests

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")  # maps that differ only in order are equal
_SPEC_FIELDS = operator.attrgetter(*(name for name in objects.PodSpec.__struct_fields__ if name not in {"node_name", "volumes"}))
_VOLUME_SOURCES = operator.attrgetter(*(name for name in objects.Volume.__struct_fields__ if name != "name"))
_NO_SOURCES = _VOLUME_SOURCES(objects.Volume())


def digest(pod: objects.Pod) -> bytes:
    """16 bytes that are equal for two pods iff every decision about them is equal apart from their identity."""
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
    """The owner that made a pod, or None."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def deciding_volumes(spec: objects.PodSpec) -> tuple[objects.Volume, ...]:
    """The volumes that a decision can depend on: not tokens, config maps and the like."""
    return tuple(volume for volume in spec.volumes if _VOLUME_SOURCES(volume) != _NO_SOURCES)


def _volumes(pod: objects.Pod) -> list[object]:
    """Volumes without their names, which tell nothing; only an ephemeral one's claim is named by pod and volume."""
    return [
        (_VOLUME_SOURCES(volume), None if volume.ephemeral is None else (pod.metadata.name, volume.name))
        for volume in deciding_volumes(pod.spec)
    ]


def _resize_report(pod: objects.Pod) -> object:
    """All that the kubelet reports of resources, if it can count; None when it says no more than the spec, which is nearly always."""
    if not status_counts(pod):
        return None
    status = pod.status
    return (status.container_statuses, status.init_container_statuses, status.resources, status.allocated_resources, status.conditions)


def status_counts(pod: objects.Pod) -> bool:
    """Whether what the kubelet reports can change the requests of a pod: it is on a node, and the report is not just the spec again."""
    status = pod.status
    if not pod.spec.node_name or not (status.container_statuses or status.init_container_statuses or status.resources):
        return False
    return status.resources is not None or requests.resize_infeasible(pod) or _status_deviates(pod)


def _status_deviates(pod: objects.Pod) -> bool:
    wanted = {container.name: container.resources.requests for container in (*pod.spec.containers, *pod.spec.init_containers)}
    return any(
        state.resources is not None
        and any(reported and reported != wanted.get(state.name) for reported in (state.resources.requests, state.allocated_resources))
        for state in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
