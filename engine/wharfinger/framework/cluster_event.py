"""What happens in a cluster, as far as it can help a pod that was rejected.

Every plugin that can reject a pod says which events may make it think again (`Plugin.wakes_on`), and may look closer at each
(`Plugin.may_help`). An event wakes the pods that a plugin rejected which cares, and leaves the others alone. The events are those of
kube-scheduler's queueing hints (`ActionType` and `EventResource` in pkg/scheduler/framework, Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto

from wharfinger.model import objects
from wharfinger.model.pod import PodView


class ClusterEvent(Flag):
    """Kinds of events; `|` joins them. A pod is "placed" once it is assumed or bound.

    NODE_TAINT includes `spec.unschedulable`. POD_CHANGED: labels, requests or the deletion mark of a placed pod. POLICY: other
    policies decide now, so that what rejected a pod may no longer be there. TIME is none that happens: whoever depends on it is asked again
    after a while.
    """

    NODE_ADD = auto()
    NODE_DELETE = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABEL = auto()
    NODE_ANNOTATION = auto()
    NODE_TAINT = auto()
    NODE_CONDITION = auto()
    NODE_OTHER = auto()
    POD_PLACED = auto()
    POD_CHANGED = auto()
    POD_REMOVED = auto()
    NOMINATION = auto()
    CLAIM = auto()
    VOLUME = auto()
    STORAGE_CLASS = auto()
    CSI_NODE = auto()
    CSI_DRIVER = auto()
    CSI_CAPACITY = auto()
    VOLUME_ATTACHMENT = auto()
    NAMESPACE = auto()
    OTHER_OBJECT = auto()
    METRIC = auto()
    POLICY = auto()
    TIME = auto()


NOTHING = ClusterEvent(0)
NODE_UPDATE = (
    ClusterEvent.NODE_ALLOCATABLE
    | ClusterEvent.NODE_LABEL
    | ClusterEvent.NODE_ANNOTATION
    | ClusterEvent.NODE_TAINT
    | ClusterEvent.NODE_CONDITION
    | ClusterEvent.NODE_OTHER
)
NODE = ClusterEvent.NODE_ADD | NODE_UPDATE
POD = ClusterEvent.POD_PLACED | ClusterEvent.POD_CHANGED | ClusterEvent.POD_REMOVED
STORAGE = ClusterEvent.CLAIM | ClusterEvent.VOLUME | ClusterEvent.STORAGE_CLASS | ClusterEvent.CSI_NODE | ClusterEvent.CSI_DRIVER
ANY = ~ClusterEvent.TIME

OF_KIND: Mapping[str, ClusterEvent] = {
    "PersistentVolumeClaim": ClusterEvent.CLAIM,
    "PersistentVolume": ClusterEvent.VOLUME,
    "StorageClass": ClusterEvent.STORAGE_CLASS,
    "CSINode": ClusterEvent.CSI_NODE,
    "CSIDriver": ClusterEvent.CSI_DRIVER,
    "CSIStorageCapacity": ClusterEvent.CSI_CAPACITY,
    "VolumeAttachment": ClusterEvent.VOLUME_ATTACHMENT,
    "Namespace": ClusterEvent.NAMESPACE,
}
"""The event of any change of an object, by its kind; others are OTHER_OBJECT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that has happened, with what is known of it.

    `label` is what metrics call it. `node` names the node it happened on, and `now` is that node as it is now. `keys` are the keys of
    labels and annotations that were set, changed or taken away. `pod` is the pod that was placed, changed or removed, `was` what a changed
    one was before; None where that is not known.
    """

    events: ClusterEvent
    label: str
    node: str | None = None
    now: objects.Node | None = None
    keys: frozenset[str] = frozenset()
    pod: PodView | None = None
    was: PodView | None = None


def node_added(node: objects.Node) -> Change:
    """The change that a new node is."""
    metadata = node.metadata
    keys = frozenset(metadata.labels) | frozenset(metadata.annotations)
    return Change(events=ClusterEvent.NODE_ADD, label="NodeAdd", node=metadata.name, now=node, keys=keys)


def node_updated(old: objects.Node, new: objects.Node) -> Change | None:
    """What is different about a node; None if it is nothing but a heartbeat."""
    events = NOTHING
    for event, read in _ASPECTS:
        if read(old) != read(new):
            events |= event
    if not events:
        return None
    keys = _changed(old.metadata.labels, new.metadata.labels) | _changed(old.metadata.annotations, new.metadata.annotations)
    return Change(events=events, label="NodeUpdate", node=new.metadata.name, now=new, keys=keys)


_ASPECTS: tuple[tuple[ClusterEvent, Callable[[objects.Node], object]], ...] = (
    (ClusterEvent.NODE_ALLOCATABLE, lambda node: (node.status.allocatable, node.status.capacity)),
    (ClusterEvent.NODE_LABEL, lambda node: node.metadata.labels),
    (ClusterEvent.NODE_ANNOTATION, lambda node: node.metadata.annotations),
    (ClusterEvent.NODE_TAINT, lambda node: (node.spec.unschedulable, node.spec.taints)),
    (ClusterEvent.NODE_CONDITION, lambda node: [(condition.type, condition.status) for condition in node.status.conditions]),
    (ClusterEvent.NODE_OTHER, lambda node: (node.status.images, node.status.volumes_attached, node.status.addresses, node.metadata.uid)),
)


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> frozenset[str]:
    return frozenset(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
