"""One node in plain Python values, and the parts of a node object that can change separately.

The interpreter, explanations and tests read a `NodeView`: the slow, plain definition that the columns must agree with. It computes its
numbers from the objects themselves, independently of the columns, so that tests can compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import Final

from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model.objects import quantity
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.objects.requests import MAX_AMOUNT


def amounts(quantities: Mapping[str, str]) -> dict[str, int]:
    """Resource amounts as Kubernetes' integers: cpu in millicores, others in whole units, both rounded up and within 0 and `MAX_AMOUNT`.

    InvalidObject with the name of the resource if a quantity cannot be read.
    """
    return {resource: _bounded(quantity.amount_at(resource, text)) for resource, text in quantities.items()}


def _bounded(amount: int) -> int:
    """An amount limited to 0..`MAX_AMOUNT`: no negative amounts, and none that sums cannot hold exactly."""
    return min(max(amount, 0), MAX_AMOUNT)


def conditions(node: objects.Node) -> dict[str, str]:
    """The status (True, False, Unknown) of each condition type."""
    return {condition.type: condition.status for condition in node.status.conditions}


def image_sizes(node: objects.Node) -> dict[str, int]:
    """Bytes by image name, for every name of each image."""
    return {name: _bounded(image.size_bytes) for image in node.status.images for name in image.names}


def created(node: objects.Node) -> float | None:
    """The creation time of a node in seconds since 1970; None if it is not known."""
    stamp = node.metadata.creation_timestamp
    return None if stamp is None else stamp.timestamp()


class NodePart(Enum):
    """The parts of a node object that change separately. OTHER is every field of spec and status that no other part names."""

    ALLOCATABLE = "allocatable"
    LABEL = "label"
    ANNOTATION = "annotation"
    TAINT = "taint"
    CONDITION = "condition"
    OTHER = "other"


ALL_PARTS: Final = frozenset(NodePart)

_NAMED: Final = ("spec.unschedulable", "spec.taints", "status.allocatable", "status.capacity", "status.conditions")
_OTHER: Final = [
    "metadata.uid",
    "metadata.creation_timestamp",
    *(f"spec.{name}" for name in objects.NodeSpec.__struct_fields__),
    *(f"status.{name}" for name in objects.NodeStatus.__struct_fields__),
]

_READ: Final[Mapping[NodePart, Callable[[objects.Node], object]]] = {
    NodePart.ALLOCATABLE: attrgetter("status.allocatable", "status.capacity"),
    NodePart.LABEL: attrgetter("metadata.labels"),
    NodePart.ANNOTATION: attrgetter("metadata.annotations"),
    NodePart.TAINT: attrgetter("spec.unschedulable", "spec.taints"),
    NodePart.CONDITION: conditions,
    NodePart.OTHER: attrgetter(*(path for path in _OTHER if path not in _NAMED)),
}


def changed_parts(old: objects.Node, new: objects.Node) -> frozenset[NodePart]:
    """The parts in which two versions of a node differ; empty if the update is only a heartbeat."""
    return frozenset(part for part, read in _READ.items() if read(old) != read(new))


class NodeView:
    """A node with its pods; amounts in the scheduler's units (cpu in millicores, others in whole units)."""

    __slots__ = ("object", "pods", "row")

    def __init__(self, row: int, node: objects.Node, pods: Sequence[PodView]) -> None:
        self.row = row
        self.object = node
        self.pods = pods

    def __repr__(self) -> str:
        return f"NodeView({self.name}, {count(len(self.pods), 'pod')})"

    @property
    def name(self) -> str:
        """The node's name."""
        return self.object.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.object.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """The node's annotations."""
        return self.object.metadata.annotations

    @property
    def conditions(self) -> Mapping[str, str]:
        """Status (True, False, Unknown) by condition type."""
        return conditions(self.object)

    @property
    def taints(self) -> tuple[objects.Taint, ...]:
        """The node's taints, in its own order."""
        return self.object.spec.taints

    @property
    def allocatable(self) -> dict[str, int]:
        """The amounts that pods may use, by resource name."""
        return amounts(self.object.status.allocatable)

    @property
    def capacity(self) -> dict[str, int]:
        """The capacity of the node, by resource name."""
        return amounts(self.object.status.capacity)

    @property
    def requested(self) -> dict[str, int]:
        """The sum of its pods' requests by resource name, each at most `MAX_AMOUNT`; `pods` is the number of pods."""
        total = {"pods": len(self.pods)}
        for pod in self.pods:
            for resource, amount in pod.requests.items():
                total[resource] = total.get(resource, 0) + amount
        return {resource: min(amount, MAX_AMOUNT) for resource, amount in total.items()}

    @property
    def free(self) -> dict[str, int]:
        """Allocatable minus requested, for every allocatable resource; negative if it is overcommitted."""
        requested = self.requested
        return {resource: amount - requested.get(resource, 0) for resource, amount in self.allocatable.items()}

    @property
    def images(self) -> Mapping[str, int]:
        """Bytes by image name."""
        return image_sizes(self.object)

    @property
    def created(self) -> float | None:
        """Seconds since the epoch, or None when unknown."""
        return created(self.object)
