"""Every attribute that a policy may name: `node.…`, `pod.…` (the pod to be placed) and `it.…` (a placed pod in a selection).

One row per attribute: its type, its documentation, a function that reads it from one object, and for nodes a function that reads it from
the columns of all nodes. The two functions agree on every cluster (tests/property/test_schema.py checks all rows). A row added here is
type-checked, documented, compiled and tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.language.semantics.catalogue import Attribute, Subject, Volatility
from wharfinger.language.semantics.types import Kind, Shape, Type
from wharfinger.model.columns.node_table import Fact
from wharfinger.model.devices.device import WHOLE, Device, Version
from wharfinger.model.objects import node_view, requests
from wharfinger.model.objects.node_view import NodeView
from wharfinger.model.objects.pod_groups import labelled_group, podgroup_name
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot

LOWEST_PRIORITY: Final = -(2.0**31)
HIGHEST_PRIORITY: Final = 2.0**31 - 1
MAX_ANNOTATION_LENGTH: Final = 10_000
"""Characters of an annotation of a pod that policies read.

Each function of a text costs time and memory for its length, once for each node where it is compared with texts of nodes; Kubernetes allows
262,144.
"""
_KINDS: Final = (Kind.CPU, Kind.MEMORY, Kind.MEMORY)
_NATIVE: Final = tuple((resource, name, kind) for (name, resource), kind in zip(requests.NATIVE_BY_FIELD.items(), _KINDS, strict=True))


def _pod_row(path: str, kind: Kind, doc: str, read: Callable[..., Any], **more: Any) -> Attribute:
    type_ = Type(kind, Shape.POD, more.pop("optional", False), more.pop("element", None))
    return Attribute(subject=Subject.POD, path=path, type=type_, doc=doc, read=read, **more)


def _labels(read: Callable[[Any], Mapping[str, str]]) -> Callable[..., Any]:
    """A function of a pod or node that returns the whole mapping, or with a key the value of that key or None."""
    return lambda subject, key=None: read(subject) if key is None else read(subject).get(key)


def _annotation(annotations: Mapping[str, str], key: str) -> str | None:
    found = annotations.get(key)
    return found if found is None or len(found) <= MAX_ANNOTATION_LENGTH else None


def _requests() -> list[Attribute]:
    rows = []
    for resource, name, kind in _NATIVE:
        doc = f"The {resource} that the pod requests, counted as Kubernetes does (init containers, sidecars, overhead); 0 if none."
        rows.append(_pod_row(f"requests.{name}", kind, doc, _requested(resource), low=0.0))
        doc = f"The {resource} that the pod may use; absent if one of its containers has no limit."
        rows.append(_pod_row(f"limits.{name}", kind, doc, _limit(resource), optional=True, low=0.0))
    return rows


def _requested(resource: str) -> Callable[[PodView], int]:
    return lambda pod: pod.requests.get(resource, 0)


def _limit(resource: str) -> Callable[[PodView], int | None]:
    return lambda pod: pod.limits.get(resource)


def _owner(part: str) -> Callable[[PodView], str | None]:
    return lambda pod: getattr(pod.controller, part) if pod.controller is not None else None


COMMON: Final = (
    _pod_row("name", Kind.STRING, "The pod's name.", lambda pod: pod.name, identity=True),
    _pod_row("namespace", Kind.STRING, "The pod's namespace.", lambda pod: pod.namespace),
    _pod_row("uid", Kind.STRING, "The pod's uid; namespace/name where it has none yet.", lambda pod: pod.uid, identity=True),
    _pod_row("labels", Kind.LABELS, "The pod's labels.", _labels(lambda pod: pod.labels), keyed=True),
    _pod_row(
        "namespace_labels",
        Kind.LABELS,
        "The labels of the pod's namespace; none if the cluster does not have it.",
        _labels(lambda labels: labels),  # see `Attribute.of_namespace`
        keyed=True,
        of_namespace=True,
    ),
    _pod_row(
        "annotations",
        Kind.STRING,
        f"An annotation of the pod; missing where it has more than {MAX_ANNOTATION_LENGTH:,} characters.",
        lambda pod, key: _annotation(pod.annotations, key),
        keyed=True,
        optional=True,
    ),
    _pod_row(
        "priority",
        Kind.NUMBER,
        "The pod's priority; 0 when it has none.",
        lambda pod: pod.priority,
        low=LOWEST_PRIORITY,
        high=HIGHEST_PRIORITY,
    ),
    _pod_row(
        "priority_class",
        Kind.STRING,
        "The name of the pod's priority class.",
        lambda pod: pod.object.spec.priority_class_name or None,
        optional=True,
    ),
    _pod_row("qos", Kind.STRING, '"Guaranteed", "Burstable" or "BestEffort".', lambda pod: pod.qos),
    _pod_row(
        "service_account",
        Kind.STRING,
        'The pod\'s service account; "default" unless it names one.',
        lambda pod: pod.object.spec.service_account_name or "default",
    ),
    _pod_row(
        "scheduler_name",
        Kind.STRING,
        'The scheduler name of the pod; "default-scheduler" unless it names one.',
        lambda pod: pod.scheduler_name,
    ),
    _pod_row("owner_kind", Kind.STRING, "The kind of the controller that made the pod: ReplicaSet, Job, ….", _owner("kind"), optional=True),
    _pod_row("owner_name", Kind.STRING, "The name of the controller that made the pod.", _owner("name"), optional=True),
    _pod_row("created", Kind.TIME, "When the pod was created.", lambda pod: pod.created, optional=True, identity=True, low=0.0),
    *_requests(),
    _pod_row(
        "requests",
        Kind.COUNT,
        'An extended resource that the pod requests, in units: `pod.requests["nvidia.com/gpu"]`.',
        lambda pod, key: pod.requests.get(key),
        keyed=True,
        optional=True,
        low=0.0,
    ),
    _pod_row(
        "limits",
        Kind.COUNT,
        "The limit of an extended resource, in units; absent when one of the containers has none.",
        lambda pod, key: pod.limits.get(key),
        keyed=True,
        optional=True,
        low=0.0,
    ),
    _pod_row(
        "node_selector",
        Kind.LABELS,
        "The labels that the pod's `nodeSelector` requires of its node.",
        _labels(lambda pod: pod.object.spec.node_selector),
        keyed=True,
    ),
    _pod_row("host_network", Kind.BOOL, "True if the pod uses the node's network.", lambda pod: pod.object.spec.host_network),
    _pod_row(
        "images",
        Kind.SET,
        "The images of the pod's containers, tagged (`nginx:latest`).",
        lambda pod: frozenset(pod.images),
        element=Kind.STRING,
    ),
    _pod_row(
        "group.name",
        Kind.STRING,
        "The name of the pod's group: its PodGroup, that of a label of the coscheduling plugin, or the value of `group by` of the policy.",
        lambda pod, by="": podgroup_name(pod.object) or labelled_group(pod.object) or by or None,
        optional=True,
        by_group=True,
    ),
)

GROUP_ATTRIBUTES: Final = (
    _pod_row(
        "group.size",
        Kind.COUNT,
        "The number of known members of the pod's group, placed or not; at least the placed ones and the pod itself.",
        lambda group: group.size,
        optional=True,
        by_group=True,
        of_group=True,
        low=1.0,
    ),
    _pod_row(
        "group.min",
        Kind.COUNT,
        "The number of members of the pod's group that are placed at once: of its PodGroup, else the policy's `min_count`; 0 without both.",
        lambda group: group.least,
        optional=True,
        by_group=True,
        of_group=True,
        low=0.0,
    ),
    _pod_row(
        "group.placed",
        Kind.COUNT,
        "The number of members of the pod's group that have a node: `count(group)`.",
        lambda group: None,  # noqa: ARG005 — the checker counts them, because only a policy defines the groups of its `group by`
        optional=True,
        by_group=True,
        of_group=True,
        low=0.0,
    ),
)

PLACED: Final = (
    _pod_row("node_name", Kind.STRING, "The node the pod is on.", lambda pod: pod.node_name, identity=True),
    _pod_row("terminating", Kind.BOOL, "True if the pod is being deleted.", lambda pod: pod.terminating),
    _pod_row(
        "started",
        Kind.TIME,
        "When the kubelet took the pod on; absent until it has.",
        lambda pod: pod.started,
        optional=True,
        identity=True,
        low=0.0,
    ),
)


def _as_item(attribute: Attribute) -> Attribute:
    return replace(attribute, subject=Subject.ITEM, type=attribute.type.shaped(Shape.ITEM))


POD_ATTRIBUTES: Final = (*COMMON, *GROUP_ATTRIBUTES, *(_as_item(attribute) for attribute in (*COMMON, *PLACED)))


# ── devices ──


def _device_row(path: str, kind: Kind, doc: str, read: Callable[..., Any], **more: Any) -> Attribute:
    type_ = Type(kind, Shape.DEVICE, more.pop("optional", False))
    return Attribute(subject=Subject.DEVICE, path=path, type=type_, doc=doc, read=read, **more)


def _of_type(*types: type) -> Callable[[Device, str], Any]:
    """A function that returns an attribute of a device if it is of one of these types; a bool is no number."""

    def read(device: Device, key: str) -> Any:
        value = device.attribute(key)
        return value if type(value) in types else None

    return read


def _version_of(device: Device, key: str) -> str | None:
    value = device.attribute(key)
    return value.partition("+")[0] if isinstance(value, Version) else None  # without build metadata, as `semver` spells it


_OTHER_TYPES: Final = tuple(
    _device_row("attributes", kind, "", read, keyed=True, optional=True)
    for kind, read in ((Kind.BOOL, _of_type(bool)), (Kind.NUMBER, _of_type(int)), (Kind.VERSION, _version_of))
)
DEVICES: Final = (
    _device_row("driver", Kind.STRING, "The driver of the device; of whole counts, the resource.", lambda device: device.driver),
    _device_row("pool", Kind.STRING, "The pool of the device; usually the name of its node.", lambda device: device.pool),
    _device_row("name", Kind.STRING, "The name of the device in its pool.", lambda device: device.name),
    _device_row(
        "attributes",
        Kind.STRING,
        'An attribute of the device, with or without the domain of its driver: `it.attributes["model"]`. It is a text, a number, a bool or '
        "a version, as the place needs it, and absent where it is of another type.",
        _of_type(str, Version),
        keyed=True,
        optional=True,
        alternatives=_OTHER_TYPES,
    ),
    *(
        row
        for table, what in (("capacity", "A capacity of the device"), ("free", "The free part of a capacity of the device"))
        for row in (
            _device_row(
                f"{table}.memory",
                Kind.MEMORY,
                f"{what}: memory, in bytes.",
                partial(getattr(Device, f"{table}_of"), name="memory"),
                optional=True,
            ),
            _device_row(
                table,
                Kind.NUMBER,
                f'{what}: `it.{table}["milli"]`' + ("; absent also where it is not known." if table == "free" else "."),
                getattr(Device, f"{table}_of"),
                keyed=True,
                optional=True,
            ),
        )
    ),
    _device_row(
        "free_share",
        Kind.PERCENT,
        "The free part of the device: the rest of a shared one, else 100% or 0%; of whole counts, the first ones count as taken.",
        lambda device: device.thousandths / WHOLE,
        low=0.0,
        high=1.0,
    ),
    _device_row(
        "taken",
        Kind.BOOL,
        "True if a pod has the device or a part of it; absent if only counts are known.",
        lambda device: device.taken,
        optional=True,
    ),
    _device_row("tainted", Kind.BOOL, "True if the device has a taint that keeps pods away.", lambda device: bool(device.taints)),
)


# ── nodes ──

Rows: TypeAlias = slice | NDArray[np.intp]
Read: TypeAlias = tuple[NDArray[Any], NDArray[np.bool_] | None]  # values per row, and where there is one (None: everywhere)

OFFERS: Final = {"allocatable": "what pods may use", "capacity": "what the node has"}


def _node_row(path: str, kind: Kind, doc: str, read: Callable[..., Any], column: Callable[..., Read], **more: Any) -> Attribute:
    optional = more.pop("optional", False)
    return Attribute(subject=Subject.NODE, path=path, type=Type(kind, Shape.NODE, optional), doc=doc, read=read, column=column, **more)


def _numbers(column: Callable[[Snapshot], NDArray[Any]]) -> Callable[[Snapshot, Rows], Read]:
    return lambda snapshot, rows: (column(snapshot)[rows].astype(np.float64), None)


def _codes(codes: Callable[[Snapshot, str], NDArray[np.int32]]) -> Callable[[Snapshot, Rows, str], Read]:
    def read(snapshot: Snapshot, rows: Rows, key: str) -> Read:
        values = codes(snapshot, key)[rows]
        return values, values >= 0

    return read


def _fact_row(path: str, kind: Kind, doc: str, fact: Fact, **more: Any) -> Attribute:
    """The row of a field of node objects that decisions read in no other way: `fact` reads it, and its column is made from that."""
    text = kind is Kind.STRING

    def column(snapshot: Snapshot, rows: Rows) -> Read:
        values = snapshot.fact(path, fact, text=text)[rows]
        present = values >= 0 if text else ~np.isnan(values)
        return (values == 1.0 if kind is Kind.BOOL else values), present if more.get("optional") else None

    return _node_row(path, kind, doc, lambda node: fact(node.object), column, **more)


FACTS: Final = (
    _node_row("name", Kind.STRING, "The node's name.", lambda node: node.name, lambda snapshot, rows: (snapshot.name_codes[rows], None)),
    _node_row("labels", Kind.LABELS, "The node's labels.", _labels(lambda node: node.labels), _codes(Snapshot.label), keyed=True),
    _node_row(
        "annotations",
        Kind.STRING,
        "An annotation of the node.",
        lambda node, key: node.annotations.get(key),
        _codes(Snapshot.annotation),
        keyed=True,
        optional=True,
        of_cluster=True,
    ),
    _node_row(
        "conditions",
        Kind.STRING,
        'The status of a condition, "True", "False" or "Unknown": `node.conditions["Ready"]`.',
        lambda node, key: node.conditions.get(key),
        _codes(Snapshot.condition),
        keyed=True,
        optional=True,
    ),
    _node_row(
        "unschedulable",
        Kind.BOOL,
        "True if the node is cordoned.",
        lambda node: node.object.spec.unschedulable,
        lambda snapshot, rows: (snapshot.unschedulable[rows], None),
    ),
    _fact_row("created", Kind.TIME, "When the node was created.", node_view.created, optional=True, low=0.0),
)


# ── resources ──


def _native(table: Callable[[Snapshot], NDArray[np.int64]], place: int) -> Callable[[Snapshot, Rows], Read]:
    return lambda snapshot, rows: (table(snapshot)[place][rows].astype(np.float64), None)


def _extended(
    table: Callable[[Snapshot], NDArray[np.int64]], present: Callable[[Snapshot], NDArray[np.bool_]] | None
) -> Callable[[Snapshot, Rows, str], Read]:
    def read(snapshot: Snapshot, rows: Rows, key: str) -> Read:
        place = snapshot.resource_index(key)
        if place is None:
            nothing = np.zeros_like(snapshot.pod_count[rows], dtype=np.float64)
            return nothing, None if present is None else nothing > 0
        return table(snapshot)[place][rows].astype(np.float64), None if present is None else present(snapshot)[place][rows]

    return read


def _free_native(place: int) -> Callable[[Snapshot, Rows], Read]:
    def read(snapshot: Snapshot, rows: Rows) -> Read:
        return (snapshot.allocatable[place][rows] - snapshot.requested[place][rows]).astype(np.float64), None

    return read


def _free_extended(snapshot: Snapshot, rows: Rows, key: str) -> Read:
    place = snapshot.resource_index(key)
    if place is None:
        nothing = np.zeros_like(snapshot.pod_count[rows], dtype=np.float64)
        return nothing, nothing > 0
    free = snapshot.allocatable[place][rows] - snapshot.requested[place][rows]
    return free.astype(np.float64), snapshot.has_allocatable[place][rows]


def _amount(table: str, resource: str) -> Callable[[NodeView], int]:
    return lambda node: getattr(node, table).get(resource, 0)


def _left(resource: str) -> Callable[[NodeView], int]:
    return lambda node: node.allocatable.get(resource, 0) - node.requested.get(resource, 0)


def _amount_if_any(table: str) -> Callable[[NodeView, str], int | None]:
    return lambda node, key: getattr(node, table).get(key)


def _offered() -> list[Attribute]:
    rows = []
    for table, meaning in OFFERS.items():
        whole: Callable[[Snapshot], NDArray[np.int64]] = attrgetter(table)
        has: Callable[[Snapshot], NDArray[np.bool_]] = attrgetter(f"has_{table}")
        for place, (resource, name, kind) in enumerate(_NATIVE):
            doc = f"{resource} by {table}: {meaning}; 0 where the node names none."
            # A node that runs pods has some CPU and memory, so `ratio(…, node.allocatable.memory)` needs no value for a zero divisor.
            least = 0.0 if name == "ephemeral_storage" else 1.0
            rows.append(_node_row(f"{table}.{name}", kind, doc, _amount(table, resource), _native(whole, place), low=least))
        rows.append(
            _node_row(
                table,
                Kind.COUNT,
                f'An extended resource by {table}: `node.{table}["nvidia.com/gpu"]`, in units (huge pages in bytes).',
                _amount_if_any(table),
                _extended(whole, has),
                keyed=True,
                optional=True,
                low=0.0,
            )
        )
    pods = (("allocatable", "allowed_pods"), ("capacity", "pod_capacity"))
    rows += [
        _node_row(f"{table}.pods", Kind.COUNT, f"Pods by {table}.", _amount(table, "pods"), _numbers(attrgetter(column)), low=0.0)
        for table, column in pods
    ]
    return rows


def _used() -> list[Attribute]:
    rows = []
    usage: dict[str, Any] = {"volatility": Volatility.ROW}
    for place, (resource, name, kind) in enumerate(_NATIVE):
        requested = f"{resource} requested by the pods on the node, counted as Kubernetes does."
        free = f"{resource} that is still free: allocatable minus requested; negative where the node is overcommitted."
        column = _native(lambda snapshot: snapshot.requested, place)
        rows.append(_node_row(f"requested.{name}", kind, requested, _amount("requested", resource), column, low=0.0, **usage))
        rows.append(_node_row(f"free.{name}", kind, free, _left(resource), _free_native(place), **usage))
    return rows


USAGE: Final = (
    *_used(),
    _node_row(
        "requested",
        Kind.COUNT,
        "An extended resource requested by the pods on the node, in units; 0 when none requests it.",
        lambda node, key: node.requested.get(key, 0),
        _extended(lambda snapshot: snapshot.requested, None),
        keyed=True,
        low=0.0,
        volatility=Volatility.ROW,
    ),
    _node_row(
        "free",
        Kind.COUNT,
        'An extended resource that is still free, in units: `node.free["nvidia.com/gpu"]`; absent where the node does not offer it.',
        _amount_if_any("free"),
        _free_extended,
        keyed=True,
        optional=True,
        volatility=Volatility.ROW,
    ),
    _node_row(
        "free.pods",
        Kind.COUNT,
        "The number of further pods that the node takes.",
        lambda node: node.allocatable.get("pods", 0) - len(node.pods),
        _numbers(lambda snapshot: snapshot.allowed_pods - snapshot.pod_count),
        volatility=Volatility.ROW,
    ),
    _node_row(
        "pod_count",
        Kind.COUNT,
        "The number of pods on the node.",
        lambda node: len(node.pods),
        _numbers(lambda snapshot: snapshot.pod_count),
        low=0.0,
        volatility=Volatility.ROW,
    ),
)

NODE_ATTRIBUTES: Final = (*FACTS, *_offered(), *USAGE)


ATTRIBUTES: Final[tuple[Attribute, ...]] = (*POD_ATTRIBUTES, *NODE_ATTRIBUTES, *DEVICES)
