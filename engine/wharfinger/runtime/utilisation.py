"""How much of a cluster is asked for, as one value that can be compared before and after."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """Requests against allocatable, summed over nodes; cpu in millicores, memory in bytes."""

    resource: str
    requested: int
    allocatable: int

    @property
    def fraction(self) -> float:
        """Requested per allocatable; 0 where nothing is offered."""
        return self.requested / self.allocatable if self.allocatable else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """The use of every resource that some node offers, the pods placed, and the nodes that hold at least one of them."""

    nodes: int
    touched: int
    pods: int
    resources: tuple[ResourceUse, ...]

    def of(self, resource: str) -> ResourceUse:
        """The use of one resource; nothing of nothing where no node offers it."""
        for use in self.resources:
            if use.resource == resource:
                return use
        return ResourceUse(resource=resource, requested=0, allocatable=0)


FIRST = ("cpu", "memory", "ephemeral-storage")


def utilisation(snapshot: Snapshot) -> Utilisation:
    """The use of every resource that some node offers, in the order cpu, memory, ephemeral-storage, then by name."""
    ordered = sorted(snapshot.resource_names, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    return Utilisation(
        nodes=snapshot.n_nodes,
        touched=int((snapshot.pod_count > 0).sum()),
        pods=int(snapshot.pod_count.sum()),
        resources=tuple(use for name in ordered if (use := _use(snapshot, name)).allocatable),
    )


def _use(snapshot: Snapshot, name: str) -> ResourceUse:
    row = snapshot.resource_index(name)
    if row is None:
        return ResourceUse(resource=name, requested=0, allocatable=0)
    return ResourceUse(resource=name, requested=sum(snapshot.requested[row].tolist()), allocatable=sum(snapshot.allocatable[row].tolist()))
