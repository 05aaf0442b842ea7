"""Events of the cluster, and which of them may help a pod that was rejected.

A rejected pod is tried again only after an event that may help it. Built-in plugins declare these events. For a filter of a policy they are
derived from the values that it reads: a filter that reads the node label `zone` needs changes of that label only, a filter that counts pods
needs changes of pods. Every filter needs new nodes. All filters of a policy whose scope reads the time also need TIME, and NAMESPACE if it
reads labels of namespaces: once the policy no longer governs the pod, none of them rejects it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Flag, auto
from typing import TYPE_CHECKING

from msgspec import Struct

from wharfinger.compiler import reads
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Attribute, Subject, Volatility
from wharfinger.language.semantics.types import Kind
from wharfinger.model import objects
from wharfinger.model.objects.node_view import NodePart, changed_parts
from wharfinger.model.objects.pod_view import PodView

if TYPE_CHECKING:
    from wharfinger.compiler.program import CompiledPolicy


class ClusterEvent(Flag):
    """Kinds of events; `|` joins them. A pod is "placed" once it is assumed or bound.

    NODE_TAINT includes `spec.unschedulable`. POD_CHANGED: labels, requests or the deletion mark of a placed pod. POLICY: the policies
    changed, so the rule that rejected a pod may no longer exist. TIME is no event of the cluster: pods rejected by a plugin that depends on
    it are tried again after a while.
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
    RESOURCE_CLAIM = auto()
    RESOURCE_SLICE = auto()
    DEVICE_CLASS = auto()
    NAMESPACE = auto()
    OTHER_OBJECT = auto()
    METRIC = auto()
    POLICY = auto()
    TIME = auto()


NO_EVENT = ClusterEvent(0)
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
ANY = ~ClusterEvent.TIME

EVENT_OF_KIND: Mapping[str, ClusterEvent] = {
    "PersistentVolumeClaim": ClusterEvent.CLAIM,
    "PersistentVolume": ClusterEvent.VOLUME,
    "StorageClass": ClusterEvent.STORAGE_CLASS,
    "CSINode": ClusterEvent.CSI_NODE,
    "CSIDriver": ClusterEvent.CSI_DRIVER,
    "CSIStorageCapacity": ClusterEvent.CSI_CAPACITY,
    "VolumeAttachment": ClusterEvent.VOLUME_ATTACHMENT,
    "ResourceClaim": ClusterEvent.RESOURCE_CLAIM,
    "ResourceSlice": ClusterEvent.RESOURCE_SLICE,
    "DeviceClass": ClusterEvent.DEVICE_CLASS,
    "Namespace": ClusterEvent.NAMESPACE,
}
"""The event of any change of an object, by its kind; other kinds are OTHER_OBJECT."""


class Change(Struct, frozen=True, kw_only=True):
    """A change of the cluster: its kinds (`events`), and details where they are known.

    `label` is its name in metrics. `node` is the name of the node concerned, `now` the current version of that node. `keys` are the keys of
    labels and annotations that were set, changed or removed. `pod` is the pod that was placed, changed or removed, `was` the former version
    of a changed pod; None if it is not known. `only_marked`: the pod was marked as being deleted, and nothing else of it has changed; it
    still has its place. `claim` is the claim for devices that was added, changed or removed, `claim_was` its former
    version.
    """

    events: ClusterEvent
    label: str
    node: str | None = None
    now: objects.Node | None = None
    keys: frozenset[str] = frozenset()
    pod: PodView | None = None
    was: PodView | None = None
    only_marked: bool = False
    claim: objects.ResourceClaim | None = None
    claim_was: objects.ResourceClaim | None = None
    removed: bool = False

    @property
    def frees_devices(self) -> bool:
        """True if the claim gave devices back: its allocation was cleared, or it was deleted with one and maybe made again."""
        was, now = self.claim_was, self.claim
        if self.removed:
            return now is not None and now.status.allocation is not None
        if was is None or now is None or was.status.allocation is None:
            return False
        return now.status.allocation is None or now.metadata.uid != was.metadata.uid


def node_added(node: objects.Node) -> Change:
    """The change for a new node."""
    metadata = node.metadata
    keys = frozenset(metadata.labels) | frozenset(metadata.annotations)
    return Change(events=ClusterEvent.NODE_ADD, label="NodeAdd", node=metadata.name, now=node, keys=keys)


def node_updated(old: objects.Node, new: objects.Node) -> Change | None:
    """The change between two versions of a node; None if only the heartbeat differs."""
    parts = changed_parts(old, new)
    if not parts:
        return None
    events = NO_EVENT
    for part in parts:
        events |= EVENT_OF_PART[part]
    keys = _changed(old.metadata.labels, new.metadata.labels) | _changed(old.metadata.annotations, new.metadata.annotations)
    return Change(events=events, label="NodeUpdate", node=new.metadata.name, now=new, keys=keys)


NODE_REMOVED = Change(events=ClusterEvent.NODE_DELETE, label="NodeDelete")
"""The change for a node that was removed."""


def pod_placed(pod: PodView, node: str) -> Change:
    """The change for a pod that was placed on a node."""
    return Change(events=ClusterEvent.POD_PLACED, label="AssignedPodAdd", node=node, pod=pod)


def pod_changed(was: PodView, pod: PodView) -> Change:
    """The change between two versions of a placed pod."""
    only_marked = pod.terminating and not was.terminating and pod.with_deletion(None).template == was.template
    events = ClusterEvent.POD_CHANGED
    return Change(events=events, label="AssignedPodUpdate", node=pod.node_name, pod=pod, was=was, only_marked=only_marked)


def pod_removed(pod: PodView, node: str | None) -> Change:
    """The change for a pod that has left a node; None if it was on none, but room was reserved for it."""
    return Change(events=ClusterEvent.POD_REMOVED, label="AssignedPodDelete", node=node, pod=pod)


def object_put(kind: str, obj: objects.AnyObject, old: objects.AnyObject | None) -> Change:
    """The change for an object that is neither a node nor a pod; `old` is its former version, None if it is new."""
    return _of_object(kind, f"{kind}{'Add' if old is None else 'Update'}", obj, old, removed=False)


def object_removed(kind: str, obj: objects.AnyObject) -> Change:
    """The change for an object that was removed and is neither a node nor a pod."""
    return _of_object(kind, f"{kind}Delete", obj, None, removed=True)


def _of_object(kind: str, label: str, obj: objects.AnyObject, old: objects.AnyObject | None, *, removed: bool) -> Change:
    events = EVENT_OF_KIND.get(kind, ClusterEvent.OTHER_OBJECT)
    if not isinstance(obj, objects.ResourceClaim):
        return Change(events=events, label=label)
    before = old if isinstance(old, objects.ResourceClaim) else None
    return Change(events=events, label=label, claim=obj, claim_was=before, removed=removed)


EVENT_OF_PART: Mapping[NodePart, ClusterEvent] = {part: ClusterEvent[f"NODE_{part.name}"] for part in NodePart}
"""The event of a change of a part of a node object."""


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> frozenset[str]:
    return frozenset(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


KEYED = ClusterEvent.NODE_LABEL | ClusterEvent.NODE_ANNOTATION

_EVENT_OF_ATTRIBUTE = {
    "name": NO_EVENT,
    "created": ClusterEvent.NODE_OTHER,
    "labels": ClusterEvent.NODE_LABEL,
    "annotations": ClusterEvent.NODE_ANNOTATION,
    "conditions": ClusterEvent.NODE_CONDITION,
    "unschedulable": ClusterEvent.NODE_TAINT,
    "taints": ClusterEvent.NODE_TAINT,
    "allocatable": ClusterEvent.NODE_ALLOCATABLE,
    "capacity": ClusterEvent.NODE_ALLOCATABLE,
    "requested": POD,
    "free": POD | ClusterEvent.NODE_ALLOCATABLE,
    "pod_count": POD,
}
"""Events by the first word of a node attribute; for others see `_EVENT_OF_VOLATILITY` (tests/property/test_node_changes.py checks both)."""

_EVENT_OF_VOLATILITY = {Volatility.STATIC: NODE, Volatility.ROW: NODE | POD, Volatility.TIMED: ANY, Volatility.GLOBAL: ANY}


class Wakes(Struct, frozen=True, kw_only=True):
    """The `events` that may help a rejected pod; for labels and annotations only these `keys` (None: any)."""

    events: ClusterEvent
    keys: frozenset[str] | None

    def concern(self, change: Change) -> bool:
        """True if a change is one of `events` and, if it concerns labels or annotations only, has one of `keys`."""
        concerning = change.events & self.events
        if not concerning:
            return False
        return bool(concerning & ~KEYED) or self.keys is None or not self.keys.isdisjoint(change.keys)


def of_filter(policy: CompiledPolicy, rule: typed.Filter) -> Wakes:
    """The events that may help a pod which a filter or permit of the policy has rejected."""
    lets = {let.name: let.value for let in policy.policy.lets}
    roots = [*([] if rule.when is None else [rule.when]), *(clause.condition for clause in rule.clauses)]
    events = ClusterEvent.NODE_ADD | (ClusterEvent.TIME if policy.scope_reads_time else NO_EVENT)
    events |= ClusterEvent.NAMESPACE if policy.scope_reads_namespaces else NO_EVENT
    keys: set[str | None] = set()
    for part in reads.walk(roots, lets):
        events |= _events(part)
        keys |= set(_keys(part))
    return Wakes(events=events, keys=None if None in keys else frozenset(key for key in keys if key is not None))


def _events(part: typed.Expr) -> ClusterEvent:  # noqa: PLR0911 — one case per kind of expression
    match part:
        case typed.AttributeRef(attribute=attribute) if attribute.subject is Subject.NODE:
            return events_of_node_attribute(attribute)
        case typed.AttributeRef(attribute=attribute) if attribute.of_namespace:
            return POD | ClusterEvent.NAMESPACE if attribute.subject is Subject.ITEM else ClusterEvent.NAMESPACE
        case typed.AttributeRef(attribute=attribute) if attribute.of_group:
            return ANY
        case typed.AttributeRef(attribute=attribute) if attribute.subject is Subject.ITEM:
            return POD
        case typed.Aggregate() | typed.Call() if _reads_devices(part):
            return ANY
        case typed.Aggregate(per=per):
            return POD | (ClusterEvent.NODE_DELETE | ClusterEvent.NODE_LABEL if per is typed.Per.DOMAIN else ClusterEvent.NODE_DELETE)
        case typed.MetricRef():
            return ClusterEvent.METRIC | ClusterEvent.TIME
        case typed.Call(function=function) if function.clock:
            return ClusterEvent.TIME
        case typed.Call(function=function) if function.context:
            return _EVENT_OF_VOLATILITY[function.volatility]
        case _:
            return NO_EVENT


def _reads_devices(part: typed.Aggregate | typed.Call) -> bool:
    """True if an aggregate is over devices, or a function computes with those of the node."""
    if isinstance(part, typed.Aggregate):
        return part.selection.type.kind is Kind.DEVICES
    return any(Kind.WORKLOAD in parameter.kinds for parameter in part.function.parameters)


def events_of_node_attribute(attribute: Attribute) -> ClusterEvent:
    """The events after which a node attribute may have another value on an existing node."""
    return _EVENT_OF_ATTRIBUTE.get(attribute.path.partition(".")[0], _EVENT_OF_VOLATILITY[attribute.volatility])


def _keys(part: typed.Expr) -> Iterator[str | None]:
    """The keys of labels and annotations of nodes that an expression reads; None for any."""
    match part:
        case typed.Matches(labels=typed.AttributeRef(attribute=attribute), requirements=requirements) if _of_node(attribute):
            yield from (requirement.key for requirement in requirements)
        case typed.AttributeRef(attribute=attribute, key=typed.Const(value=str(key))) if _of_node(attribute):
            yield key
        case typed.AttributeRef(attribute=attribute, key=typed.Expr()) if _of_node(attribute):
            yield None
        case typed.Aggregate(topology_key=str(key)):
            yield key
        case typed.Call(function=function) if function.context and not function.clock:
            yield None
        case _:
            return


def _of_node(attribute: Attribute) -> bool:
    return attribute.subject is Subject.NODE and attribute.keyed
