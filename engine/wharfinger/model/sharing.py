"""Equal parts of many objects kept once.

The fifty thousand pods of a cluster come from a few hundred templates and most nodes hold the same images. Decoding gives each
object its own copy of everything; here equal parts are replaced by the first one seen, so that a big cluster fits in memory. As
objects never change, nobody can tell.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import structs

from wharfinger.model import objects, template

Part = TypeVar("Part")


class Sharing:
    """What was seen so far."""

    def __init__(self) -> None:
        self._first_of: dict[bytes, objects.Pod] = {}
        self._parts: dict[object, object] = {}

    def _once(self, part: Part) -> Part:
        return self._parts.setdefault(part, part)  # type: ignore[return-value]  # equal hashable parts are of one type

    def node(self, node: objects.Node) -> objects.Node:
        """An equal node that shares its images and conditions with those before it."""
        status = structs.replace(node.status, images=tuple(map(self._once, node.status.images)))
        return structs.replace(node, status=status)

    def pod(self, pod: objects.Pod) -> objects.Pod:
        """An equal pod that shares all but its identity with the first pod of its template; volumes that decide nothing are left out."""
        first = self._first_of.setdefault(template.digest(pod), pod)
        return objects.Pod(
            metadata=self._metadata(pod.metadata, first.metadata),
            spec=self._spec(pod.spec, first.spec),
            status=self._status(pod.status, first.status),
        )

    def _metadata(self, own: objects.ObjectMeta, first: objects.ObjectMeta) -> objects.ObjectMeta:
        return structs.replace(
            own,
            namespace=_same_or_own(own.namespace, first.namespace),
            generate_name=_same_or_own(own.generate_name, first.generate_name),
            labels=first.labels,
            annotations=first.annotations,
            owner_references=_same_or_own(own.owner_references, first.owner_references),
            finalizers=_same_or_own(own.finalizers, first.finalizers),
        )

    def _spec(self, own: objects.PodSpec, first: objects.PodSpec) -> objects.PodSpec:
        volumes = template.deciding_volumes(own)
        shared = template.deciding_volumes(first)
        return structs.replace(first, node_name=self._once(own.node_name), volumes=shared if volumes == shared else volumes)

    def _status(self, own: objects.PodStatus, first: objects.PodStatus) -> objects.PodStatus:
        return structs.replace(
            own,
            phase=_same_or_own(own.phase, first.phase),
            qos_class=first.qos_class,
            conditions=_same_or_own(own.conditions, first.conditions),
            container_statuses=_same_or_own(own.container_statuses, first.container_statuses),
            init_container_statuses=_same_or_own(own.init_container_statuses, first.init_container_statuses),
        )


def _same_or_own(own: Part, first: Part) -> Part:
    return first if own == first else own
