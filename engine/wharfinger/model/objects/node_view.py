"""One node, in plain Python values: what the interpreter, explanations and tests read.

The slow, obvious twin of the columns. Its numbers are added up from the objects themselves, so that comparing the two means something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wharfinger.language.counts import count
from wharfinger.model import objects
from wharfinger.model.columns import node_table
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.objects.requests import MOST


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
        return node_table.conditions(self.object)

    @property
    def taints(self) -> tuple[objects.Taint, ...]:
        """The node's taints, in its own order."""
        return self.object.spec.taints

    @property
    def allocatable(self) -> dict[str, int]:
        """What pods may use, by resource name."""
        return node_table.amounts(self.object.status.allocatable)

    @property
    def capacity(self) -> dict[str, int]:
        """What the node has, by resource name."""
        return node_table.amounts(self.object.status.capacity)

    @property
    def requested(self) -> dict[str, int]:
        """What its pods ask for, by resource name, at most `MOST` of each; `pods` is their number."""
        total = {"pods": len(self.pods)}
        for pod in self.pods:
            for resource, amount in pod.requests.items():
                total[resource] = total.get(resource, 0) + amount
        return {resource: min(amount, MOST) for resource, amount in total.items()}

    @property
    def free(self) -> dict[str, int]:
        """Allocatable minus requested, for every resource that the node offers; negative where it is overcommitted."""
        requested = self.requested
        return {resource: amount - requested.get(resource, 0) for resource, amount in self.allocatable.items()}

    @property
    def images(self) -> Mapping[str, int]:
        """Bytes by image name."""
        return node_table.image_sizes(self.object)

    @property
    def created(self) -> float | None:
        """Seconds since the epoch, or None when unknown."""
        created = self.object.metadata.creation_timestamp
        return None if created is None else created.timestamp()
