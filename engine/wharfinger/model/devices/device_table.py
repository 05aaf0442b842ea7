"""The devices of all nodes as columns: one entry per device, in the order of the rows of their nodes.

Policies ask of devices per node, so the devices of a node are neighbours: `starts[row]:starts[row + 1]`. A column is made when it is first
read. The table is made when a policy or plugin first reads devices, and then follows the log of changed rows: the devices of a changed node
are read from the sources again. If there are as many as before, their entries are overwritten. A cluster whose devices are never read has
no table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Final, NamedTuple, Protocol
from weakref import proxy

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.model.columns.arrays import ABSENT, RowChanges, StringTable
from wharfinger.model.columns.node_table import NodeTable
from wharfinger.model.columns.pod_table import PodTable
from wharfinger.model.devices.device import Device, DeviceDemand, DeviceSource, Store
from wharfinger.model.objects.pod_view import PodView

MAX_KEPT: Final = 32
"""The numbers per node that are kept at most."""
MAX_COLUMNS: Final = 256
"""The columns kept at most; a pod may name any attribute, and the one used least recently is dropped first."""


class Cluster(Protocol):
    """The part of a cluster that the table reads (`model.state.tables.ClusterTables`)."""

    nodes: NodeTable
    pods: PodTable
    node_changes: RowChanges
    usage_changes: RowChanges
    revision: int
    layout_revision: int

    @property
    def objects(self) -> Store:
        """The objects that are neither nodes nor pods."""


class DevicesOf(NamedTuple):
    """The devices of some rows: their entries in the table, and for each which of the rows it is on."""

    table: DeviceTable
    entries: NDArray[np.intp] | slice
    owners: NDArray[np.intp]
    n_rows: int


ReadDevice = Callable[[Device], Any]


class _Column:
    __slots__ = ("read", "text", "values")

    def __init__(self, read: ReadDevice, *, text: bool) -> None:
        self.read = read
        self.text = text
        self.values: NDArray[Any] = np.empty(0)


class _Kept(Struct):
    """Numbers per node, as of a revision of the cluster and a version of the devices."""

    values: NDArray[np.float64]
    revision: int
    version: int
    layout: int


class DeviceTable:
    """The devices of a cluster; every question first follows the changes of the cluster."""

    __slots__ = (
        "_by_row",
        "_columns",
        "_kept",
        "_layout",
        "_names",
        "_objects_seen",
        "_owners",
        "_row_versions",
        "_seen",
        "_sources",
        "_starts",
        "_strings",
        "_tables",
        "_tokens",
        "version",
    )

    def __init__(self, tables: Cluster, sources: Sequence[DeviceSource]) -> None:
        self._tables: Cluster = proxy(tables)  # they own this table, and without a cycle both are freed at once
        self._sources = tuple(sources)
        self._by_row: list[tuple[Device, ...]] = []
        self._names: list[str] = []
        self._starts: NDArray[np.intp] = np.zeros(1, dtype=np.intp)
        self._owners: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._columns: dict[Hashable, _Column] = {}
        self._tokens: list[Hashable] = []
        self._kept: dict[Hashable, _Kept] = {}
        self._row_versions: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._layout = -1
        self._seen = self._objects_seen = -1
        self._strings: StringTable | None = None
        self.version = 0

    # ── queries ──

    def on(self, row: int) -> Sequence[Device]:
        """The devices of a node, in their order."""
        self.follow()
        return self._by_row[row]

    def demand(self, pod: PodView) -> DeviceDemand | None:
        """The request of a pod for devices, by the first source that has one; None if nothing."""
        store = self._tables.objects
        return next((asked for source in self._sources if (asked := source.demand(pod, store)) is not None), None)

    def of(self, rows: slice | NDArray[np.intp]) -> DevicesOf:
        """The devices of some rows: `slice(None)` for all, or an index array."""
        self.follow()
        if isinstance(rows, slice):
            return DevicesOf(self, slice(None), self._owners, len(self._by_row))
        if len(rows) == 1:
            start, end = self._starts[rows.item()], self._starts[rows.item() + 1]
            return DevicesOf(self, np.arange(start, end), np.zeros(end - start, dtype=np.intp), 1)
        starts = self._starts[rows]
        counts = self._starts[rows + 1] - starts
        owners = np.repeat(np.arange(len(rows), dtype=np.intp), counts)
        entries = np.arange(len(owners), dtype=np.intp) + (starts - np.cumsum(counts) + counts)[owners]
        return DevicesOf(self, entries, owners, len(rows))

    def numbers(self, key: Hashable, read: ReadDevice) -> NDArray[np.float64]:
        """A number of each device, (n_devices,) float64 with NaN where `read` returns None; `key` identifies `read`."""
        return self._column(key, read, text=False)

    def codes(self, key: Hashable, read: ReadDevice) -> NDArray[np.int32]:
        """The string code of a text of each device, (n_devices,) int32 with -1 where `read` returns None; `key` identifies `read`."""
        return self._column(key, read, text=True)

    def per_node(self, key: Hashable, evaluate: Callable[[slice | NDArray[np.intp]], NDArray[np.float64]]) -> NDArray[np.float64]:
        """A number of each node, (n_nodes,) float64, that depends on nothing but the node, its pods and its devices.

        It is kept; `evaluate` computes it for rows that changed, and `key` identifies `evaluate`. The caller must not change the result.
        """
        self.follow()
        tables, known = self._tables, self._kept.pop(key, None)
        if known is None or known.layout != tables.layout_revision:
            if len(self._kept) >= MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            known = _Kept(evaluate(slice(None)), tables.revision, self.version, tables.layout_revision)
        elif known.revision != tables.revision or known.version != self.version:
            changed = [tables.node_changes.since(known.revision), tables.usage_changes.since(known.revision)]
            changed += [np.flatnonzero(self._row_versions > known.version)] if known.version != self.version else []
            rows = np.unique(np.concatenate(changed))
            if len(rows):
                known.values = known.values.copy()  # readers of the former array keep it unchanged
                known.values[rows] = evaluate(rows)
            known.revision, known.version = tables.revision, self.version
        self._kept[key] = known
        return known.values

    # ── following ──

    def follow(self) -> Sequence[int] | None:
        """Read the devices of changed nodes again; returns the rows whose devices are others now, None if rows were added or moved."""
        tables = self._tables
        if self._seen == tables.revision and self._objects_seen == tables.objects.revision:
            return ()
        tokens = [source.token(tables.objects) for source in self._sources]
        rows = self._changed(tokens)
        changed = None
        if self._layout == tables.layout_revision:
            changed = self._read_again(rows)
        else:
            self._rebuild(rows)
        self._tokens = tokens
        self._seen, self._objects_seen, self._layout = tables.revision, tables.objects.revision, tables.layout_revision
        return changed

    def follow_objects(self) -> None:
        """Follow a change of objects that are neither nodes nor pods: rows whose devices are others now count as changed."""
        tables = self._tables
        for row in self.follow() or ():
            tables.usage_changes.record(row, tables.revision)

    def _changed(self, tokens: Sequence[Hashable]) -> Collection[int]:
        """The rows to be read again, by the numbers of now."""
        tables = self._tables
        if self._seen < 0:
            return range(tables.nodes.rows.count)
        moved = self._seen < tables.layout_revision
        both = tables.node_changes, tables.usage_changes
        rows = {row for each in both for row in (each.since_any_layout if moved else each.since)(self._seen).tolist()}
        for source, old, new in zip(self._sources, self._tokens, tokens, strict=True):
            if old == new:
                continue
            names = source.changed_nodes(tables.objects, old)
            if names is None:
                return range(tables.nodes.rows.count)
            rows |= {tables.nodes.row_of[name] for name in names if name in tables.nodes.row_of}
        return rows

    def _read(self, row: int) -> tuple[Device, ...]:
        tables = self._tables
        node, pods = tables.nodes.objects[row], [placement.pod for placement in tables.pods.by_row[row].values()]
        found: list[Device] = []
        for source in self._sources:
            found += source.devices_on(node, pods, tables.objects)
        return tuple(found)

    def _rebuild(self, rows: Collection[int]) -> None:
        """Put the devices into the order of the nodes of now; only those of `rows` are read."""
        names, known = self._tables.nodes.names, dict(zip(self._names, self._by_row, strict=True))
        for row in rows:
            known[names[row]] = self._read(row)
        self._names = list(names)
        self._by_row = [known[name] for name in names]
        self._lay_out()

    def _lay_out(self) -> None:
        counts = np.fromiter(map(len, self._by_row), dtype=np.intp, count=len(self._by_row))
        self._starts = np.concatenate((np.zeros(1, dtype=np.intp), np.cumsum(counts)))
        self._owners = np.repeat(np.arange(len(counts), dtype=np.intp), counts)
        self._columns.clear()
        self.version += 1
        self._row_versions = np.full(len(counts), self.version, dtype=np.int64)

    def _read_again(self, rows: Collection[int]) -> list[int]:
        as_many = True
        changed: list[int] = []
        for row in rows:
            devices = self._read(row)
            if devices != self._by_row[row]:
                as_many &= len(devices) == len(self._by_row[row])
                self._by_row[row] = devices
                changed.append(row)
        if not as_many:
            self._lay_out()
        elif changed:
            self.version += 1
            self._row_versions[changed] = self.version
            self._write_over(changed)
        return changed

    def _write_over(self, rows: Sequence[int]) -> None:
        for column in self._columns.values():
            for row in rows:
                start, end = self._starts[row], self._starts[row + 1]
                column.values[start:end] = self._values(column, self._by_row[row])

    # ── columns ──

    def _column(self, key: Hashable, read: ReadDevice, *, text: bool) -> NDArray[Any]:
        self.follow()
        strings = self._tables.nodes.strings
        if strings is not self._strings:  # codes of another table
            self._strings = strings
            self._columns = {name: column for name, column in self._columns.items() if not column.text}
        column = self._columns.pop(key, None)
        if column is None:
            column = _Column(read, text=text)
            column.values = self._values(column, [device for devices in self._by_row for device in devices])
            if len(self._columns) >= MAX_COLUMNS:
                del self._columns[next(iter(self._columns))]
        self._columns[key] = column
        return column.values

    def _values(self, column: _Column, devices: Sequence[Device]) -> NDArray[Any]:
        found = [column.read(device) for device in devices]
        if column.text:
            code = self._tables.nodes.strings.code
            return np.array([ABSENT if value is None else code(value) for value in found], dtype=np.int32)
        return np.array([np.nan if value is None else value for value in found], dtype=np.float64)
