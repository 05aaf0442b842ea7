"""The attributes of a node, one row each: type, documentation, how it is read from one node, how from the columns of all.

The two readings agree on every cluster (tests/property/test_schema.py goes through the rows); a row added here is checked,
documented, compiled and tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wharfinger.language.catalogue import Attribute, Subject, Volatility
from wharfinger.language.types import Kind, Shape, Type
from wharfinger.model import resource_table
from wharfinger.model.node_view import NodeView
from wharfinger.model.snapshot import Snapshot

Rows: TypeAlias = slice | NDArray[np.intp]
Read: TypeAlias = tuple[NDArray[Any], NDArray[np.bool_] | None]  # values per row, and where there is one (None: everywhere)

OFFERS: Final = {"allocatable": "what pods may use", "capacity": "what the node has"}
NATIVE: Final = {"cpu": Kind.CPU, "memory": Kind.MEMORY, "ephemeral_storage": Kind.MEMORY}


def _row(path: str, kind: Kind, doc: str, read: Callable[..., Any], column: Callable[..., Read], **more: Any) -> Attribute:
    optional = more.pop("optional", False)
    return Attribute(subject=Subject.NODE, path=path, type=Type(kind, Shape.NODE, optional), doc=doc, read=read, column=column, **more)


def _numbers(column: Callable[[Snapshot], NDArray[Any]]) -> Callable[[Snapshot, Rows], Read]:
    return lambda snapshot, rows: (column(snapshot)[rows].astype(np.float64), None)


def _codes(codes: Callable[[Snapshot, str], NDArray[np.int32]]) -> Callable[[Snapshot, Rows, str], Read]:
    def read(snapshot: Snapshot, rows: Rows, key: str) -> Read:
        values = codes(snapshot, key)[rows]
        return values, values >= 0

    return read


def _labels(read: Callable[[NodeView], Mapping[str, str]]) -> Callable[..., Any]:
    """Without a key the whole mapping, with a key its value or None."""
    return lambda node, key=None: read(node) if key is None else read(node).get(key)


def _created(snapshot: Snapshot, rows: Rows) -> Read:
    values = snapshot.created[rows]
    return values, ~np.isnan(values)


FACTS: Final = (
    _row("name", Kind.STRING, "The node's name.", lambda node: node.name, lambda snapshot, rows: (snapshot.name_codes[rows], None)),
    _row("labels", Kind.LABELS, "The node's labels.", _labels(lambda node: node.labels), _codes(Snapshot.label), keyed=True),
    _row(
        "annotations",
        Kind.STRING,
        "An annotation of the node.",
        lambda node, key: node.annotations.get(key),
        _codes(Snapshot.annotation),
        keyed=True,
        optional=True,
        of_cluster=True,
    ),
    _row(
        "conditions",
        Kind.STRING,
        'The status of a condition, "True", "False" or "Unknown": `node.conditions["Ready"]`.',
        lambda node, key: node.conditions.get(key),
        _codes(Snapshot.condition),
        keyed=True,
        optional=True,
    ),
    _row(
        "unschedulable",
        Kind.BOOL,
        "Whether the node is cordoned.",
        lambda node: node.object.spec.unschedulable,
        lambda snapshot, rows: (snapshot.unschedulable[rows], None),
    ),
    _row("created", Kind.TIME, "When the node was created.", lambda node: node.created, _created, optional=True, low=0.0),
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
        whole: Callable[[Snapshot], NDArray[np.int64]] = getattr(Snapshot, table).fget
        there: Callable[[Snapshot], NDArray[np.bool_]] = getattr(Snapshot, f"has_{table}").fget
        for place, (name, kind) in enumerate(NATIVE.items()):
            resource = resource_table.NATIVE[place]
            doc = f"{resource} by {table}: {meaning}; 0 where the node names none."
            # A node that runs pods has some CPU and memory, so nobody needs to say what `ratio(…, node.allocatable.memory)` is without.
            least = 0.0 if name == "ephemeral_storage" else 1.0
            rows.append(_row(f"{table}.{name}", kind, doc, _amount(table, resource), _native(whole, place), low=least))
        rows.append(
            _row(
                table,
                Kind.COUNT,
                f'An extended resource by {table}: `node.{table}["nvidia.com/gpu"]`, in units (huge pages in bytes).',
                _amount_if_any(table),
                _extended(whole, there),
                keyed=True,
                optional=True,
                low=0.0,
            )
        )
    pods = (("allocatable", Snapshot.allowed_pods), ("capacity", Snapshot.pod_capacity))
    rows += [
        _row(f"{table}.pods", Kind.COUNT, f"Pods by {table}.", _amount(table, "pods"), _numbers(column.fget), low=0.0)  # type: ignore[attr-defined]  # a property of Snapshot
        for table, column in pods
    ]
    return rows


def _used() -> list[Attribute]:
    rows = []
    usage: dict[str, Any] = {"volatility": Volatility.ROW}
    for place, (name, kind) in enumerate(NATIVE.items()):
        resource = resource_table.NATIVE[place]
        requested = f"{resource} requested by the pods on the node, counted as Kubernetes does."
        free = f"{resource} that is still free: allocatable minus requested; negative where the node is overcommitted."
        column = _native(lambda snapshot: snapshot.requested, place)
        rows.append(_row(f"requested.{name}", kind, requested, _amount("requested", resource), column, low=0.0, **usage))
        rows.append(_row(f"free.{name}", kind, free, _left(resource), _free_native(place), **usage))
    return rows


USAGE: Final = (
    *_used(),
    _row(
        "requested",
        Kind.COUNT,
        "An extended resource requested by the pods on the node, in units; 0 when none asks for it.",
        lambda node, key: node.requested.get(key, 0),
        _extended(lambda snapshot: snapshot.requested, None),
        keyed=True,
        low=0.0,
        volatility=Volatility.ROW,
    ),
    _row(
        "free",
        Kind.COUNT,
        'An extended resource that is still free, in units: `node.free["nvidia.com/gpu"]`; absent where the node does not offer it.',
        _amount_if_any("free"),
        _free_extended,
        keyed=True,
        optional=True,
        volatility=Volatility.ROW,
    ),
    _row(
        "free.pods",
        Kind.COUNT,
        "How many more pods the node takes.",
        lambda node: node.allocatable.get("pods", 0) - len(node.pods),
        _numbers(lambda snapshot: snapshot.allowed_pods - snapshot.pod_count),
        volatility=Volatility.ROW,
    ),
    _row(
        "pod_count",
        Kind.COUNT,
        "How many pods are on the node.",
        lambda node: len(node.pods),
        _numbers(lambda snapshot: snapshot.pod_count),
        low=0.0,
        volatility=Volatility.ROW,
    ),
)

ATTRIBUTES: Final = (*FACTS, *_offered(), *USAGE)
