"""Nodes that do not exist yet, made like one that does.

A new node has the labels, the taints and the resources of its model, under a name of its own. It is ready and not cordoned, so taints that
the control plane sets for conditions are left out. Its devices are those of its model: the ResourceSlices of that node alone are copied,
and slices for nodes that a selector names count for it by its labels. What runs on every such node runs there too: the pods of DaemonSets
and the static pods. It holds no images, and metrics have no samples of it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.what_if.leaving_pods import staying

HOSTNAME = "kubernetes.io/hostname"
_PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOf")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """A node, its CSI drivers (None where the model has no CSINode), its devices, and the pods that run on every node of its kind."""

    node: objects.Node
    drivers: objects.CSINode | None
    pods: tuple[PodView, ...]
    slices: tuple[objects.ResourceSlice, ...] = ()

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.metadata.name


def nodes_like(snapshot: Snapshot, model: str, count: int = 1, taken: Container[str] = ()) -> tuple[NewNode, ...]:
    """`count` new nodes like the node of that name, with names that are not `taken`. UnknownObject if there is no such node."""
    row = snapshot.known_row(model)
    found = snapshot.node(row).object
    drivers = snapshot.objects.get(objects.CSINode, model)
    pods = [pod for pod in snapshot.pods_on(row) if staying(pod)]
    slices = [each for each in snapshot.objects.all(objects.ResourceSlice) if each.spec.node_name == model]
    return tuple(node_like(found, name, drivers, pods, slices) for name in itertools.islice(_names(snapshot, model, taken), count))


def _names(snapshot: Snapshot, model: str, taken: Container[str]) -> Iterator[str]:
    names = (f"{model}-new-{number}" for number in itertools.count(1))
    return (name for name in names if snapshot.row(name) is None and name not in taken)


def node_like(
    model: objects.Node,
    name: str,
    drivers: objects.CSINode | None = None,
    pods: Sequence[PodView] = (),
    slices: Sequence[objects.ResourceSlice] = (),
) -> NewNode:
    """A new node of that name like `model`, with its CSI drivers, its devices and copies of the pods that run on every node of its kind."""
    labels = {key: name if key == HOSTNAME else value for key, value in model.metadata.labels.items()}
    metadata = objects.ObjectMeta(name=name, labels=labels, annotations=model.metadata.annotations)
    taints = tuple(taint for taint in model.spec.taints if not taint.key.startswith(_PASSING_TAINTS))
    conditions = tuple(replace(found, status=str(found.type == "Ready")) for found in model.status.conditions)
    status = replace(model.status, conditions=conditions, addresses=(), images=(), volumes_attached=())
    return NewNode(
        node=objects.Node(metadata=metadata, spec=objects.NodeSpec(taints=taints), status=status),
        drivers=None if drivers is None else replace(drivers, metadata=objects.ObjectMeta(name=name)),
        pods=tuple(_on(pod, name) for pod in pods),
        slices=tuple(_slices_on(slices, model.metadata.name, name)),
    )


def _slices_on(slices: Sequence[objects.ResourceSlice], model: str, node: str) -> Iterator[objects.ResourceSlice]:
    """Copies of the slices of a model node for another node, in pools of its own, which have no other slices."""
    sizes = Counter((each.spec.driver, each.spec.pool.name) for each in slices)
    for each in slices:
        own = each.spec.pool
        count = own.resource_slice_count
        whole = sizes[each.spec.driver, own.name]  # of a pool that spans nodes there are fewer than it says
        pool = replace(own, name=node if own.name == model else f"{own.name}-{node}", resource_slice_count=min(count, whole))
        metadata = objects.ObjectMeta(name=f"{each.metadata.name}-{node}")
        yield replace(each, metadata=metadata, spec=replace(each.spec, node_name=node, pool=pool))


def _on(pod: PodView, node: str) -> PodView:
    own = pod.object
    metadata = replace(own.metadata, name=f"{own.metadata.name}-{node}", uid=f"{pod.uid}/{node}", deletion_timestamp=None)
    return PodView(replace(own, metadata=metadata, spec=replace(own.spec, node_name=node)))
