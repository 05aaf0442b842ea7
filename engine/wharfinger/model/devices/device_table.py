"""The devices of all nodes as columns: one entry per device, in the order of the rows of their nodes.

Policies ask of devices per node, so the devices of a node are neighbours: `starts[row]:starts[row + 1]`. A column is made when it is first
read. The table is made when a policy or plugin first reads devices, and then follows the log of changed rows: the devices of a changed node
are read from the sources again. If there are as many as before, their entries are overwritten. A cluster whose devices are never read has
no table.

The first reading of the devices, of a column, and of a number per node takes long on a large cluster. Each can be done in steps before it
is needed (`DeviceTable.read_in_steps`, `ReadColumn`, `ReadPerNode`). What changes between the steps is read again at the next question.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol
from weakref import proxy

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.model.columns.arrays import ABSENT, NONE, RowChanges, StringTable
from wharfinger.model.columns.node_table import NodeTable
from wharfinger.model.columns.pod_table import PodTable
from wharfinger.model.devices.device import Device, DeviceDemand, DeviceSource, Store
from wharfinger.model.objects.pod_view import PodView

MIN_KEPT: Final = 32
"""The numbers per node that are kept in any case; those used least recently are dropped first."""
MAX_KEPT_CELLS: Final = 2**22
"""The numbers per node that are kept at most, times the nodes: 32 MB."""
READ_PER_STEP: Final = 96
"""Nodes, their devices, and the pods on them that are read in one step: about 1 ms."""
COLUMN_PER_STEP: Final = 512
"""Devices of which a column is read in one step: about 1 ms."""
CELLS_PER_STEP: Final = 2**15
"""Numbers that are computed in one step for a number per node: about 1 ms."""
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
Evaluate = Callable[[NDArray[np.intp] | slice], NDArray[np.float64]]
"""Computes a number for the nodes of some rows, (n_rows,) float64."""


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
        "_read_at",
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
        self._read_at: NDArray[np.int64] = np.empty(0, dtype=np.int64)  # the revision at which each row was read ahead of the others
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
        return DevicesOf(self, *_entries(self._starts, rows), len(rows))

    def numbers(self, key: Hashable, read: ReadDevice) -> NDArray[np.float64]:
        """A number of each device, (n_devices,) float64 with NaN where `read` returns None; `key` identifies `read`."""
        return self._column(key, read, text=False)

    def codes(self, key: Hashable, read: ReadDevice) -> NDArray[np.int32]:
        """The string code of a text of each device, (n_devices,) int32 with -1 where `read` returns None; `key` identifies `read`."""
        return self._column(key, read, text=True)

    def per_node(self, key: Hashable, evaluate: Evaluate, rows: slice | NDArray[np.intp]) -> NDArray[np.float64]:
        """A number of each node of some rows, (n_rows,) float64, that depends on nothing but the node, its pods and its devices.

        It is kept once it was computed for all rows. `evaluate` computes it for rows that changed, and `key` identifies `evaluate`. The
        caller must not change the result.
        """
        self.follow()
        known = self._kept.pop(key, None)
        if known is None or known.layout != self._tables.layout_revision:
            if not isinstance(rows, slice):
                return evaluate(rows)
            known = self._keeping(evaluate(slice(None)))
        elif len(changed := self._changed_since(known)):
            known.values = known.values.copy()  # readers of the former array keep it unchanged
            known.values[changed] = evaluate(changed)
        known.revision, known.version = self._tables.revision, self.version
        self._keep(key, known)
        return known.values[rows]

    def _keeping(self, values: NDArray[np.float64]) -> _Kept:
        return _Kept(values, self._tables.revision, self.version, self._tables.layout_revision)

    def _keep(self, key: Hashable, known: _Kept) -> None:
        self._kept.pop(key, None)
        while len(self._kept) >= max(MIN_KEPT, MAX_KEPT_CELLS // max(1, len(self._by_row))):
            del self._kept[next(iter(self._kept))]
        self._kept[key] = known

    def _changed_since(self, known: _Kept) -> NDArray[np.intp]:
        """The rows that changed since a number per node was computed; rows have not been added or moved."""
        tables = self._tables
        if known.revision == tables.revision and known.version == self.version:
            return NONE
        changed = [tables.node_changes.since(known.revision), tables.usage_changes.since(known.revision)]
        changed += [np.flatnonzero(self._row_versions > known.version)] if known.version != self.version else []
        return np.unique(np.concatenate(changed))

    # ── in steps ──

    def read_in_steps(self) -> Generator[None]:
        """The steps of reading the devices of all nodes, or of those that changed since the last question."""
        return self._read_changed_in_steps() if self._seen >= 0 else self._read_all_in_steps()

    def _read_all_in_steps(self) -> Generator[None]:
        tables, found, read = self._tables, dict[str, tuple[Device, ...]](), 0
        began = tables.revision, tables.objects.revision, [source.token(tables.objects) for source in self._sources]
        for row in tables.nodes.present_rows():
            devices = found[tables.nodes.names[row]] = self._read(row)
            read += 1 + len(devices) + len(tables.pods.by_row[row])
            if read >= READ_PER_STEP:
                read = 0
                yield
        if self._seen < 0:  # otherwise another caller has read it between two steps
            self._names, self._by_row = list(found), list(found.values())
            self._seen, self._objects_seen, self._tokens = began

    def _read_changed_in_steps(self) -> Generator[None]:
        """The steps of reading changed nodes ahead of the others; they end where rows are added or moved."""
        tables = self._tables
        if self._layout != tables.layout_revision:
            return
        rows = self._changed_rows()
        read = np.array([1 + len(self._by_row[row]) + len(tables.pods.by_row[row]) for row in rows.tolist()], dtype=np.intp)
        for portion in _portions(rows, read, READ_PER_STEP):
            self._read_again(portion.tolist())
            self._read_at[portion] = tables.revision
            yield
            if self._layout != tables.layout_revision:
                return

    def read_column_in_steps(self, key: Hashable, read: ReadDevice, *, text: bool) -> Generator[None]:
        """The steps of `numbers`, or `codes` with `text`, for a column that is not kept yet; they end where devices are laid out again."""
        self.follow()
        self._follow_strings()
        if key in self._columns:
            return
        column, starts, version, portions = _Column(read, text=text), self._starts, self.version, list[NDArray[Any]]()
        strings = self._tables.nodes.strings
        for rows in _portions(np.arange(len(self._by_row)), np.diff(starts), COLUMN_PER_STEP):
            portions.append(self._values(column, [device for row in rows.tolist() for device in self._by_row[row]]))
            yield
            self.follow()
            if self._starts is not starts or self._tables.nodes.strings is not strings:
                return
        if key not in self._columns and portions:
            column.values = np.concatenate(portions)
            self._write_over([column], np.flatnonzero(self._row_versions > version).tolist())
            self._keep_column(key, column)

    def compute_in_steps(self, key: Hashable, evaluate: Evaluate, height: int) -> Generator[None]:
        """The steps of `per_node`, of the rows that changed if it is kept; `height` is how many numbers `evaluate` computes for a device.

        They end where rows are added or moved.
        """
        self.follow()
        tables, known = self._tables, self._kept.get(key)
        if known is not None and known.layout == tables.layout_revision:
            fresh, rows = self._keeping(known.values.copy()), self._changed_since(known)
        else:
            fresh, rows = self._keeping(np.empty(len(self._by_row))), np.arange(len(self._by_row))
        for portion in _portions(rows, np.diff(self._starts)[rows], max(1, CELLS_PER_STEP // height)):
            fresh.values[portion] = evaluate(portion)
            yield
            if tables.layout_revision != fresh.layout:
                return
        if len(rows):
            self._keep(key, fresh)

    # ── following ──

    def follow(self) -> Sequence[int] | None:
        """Read the devices of changed nodes again; returns the rows whose devices are others now, None if rows were added or moved."""
        tables = self._tables
        if self._seen == tables.revision and self._objects_seen == tables.objects.revision and self._layout == tables.layout_revision:
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
        """Follow a change of objects that are neither nodes nor pods: rows whose devices are others now count as changed.

        So do all rows if the change may concern any node. Their devices are read later, in steps.
        """
        tables = self._tables
        tokens = [source.token(tables.objects) for source in self._sources]
        if self._seen >= 0 and self._names_of_changed(tokens) is None:
            tables.usage_changes.record_all(tables.revision)
            self._tokens = tokens
            return
        for row in (self.follow() if self._seen >= 0 else None) or ():
            tables.usage_changes.record(row, tables.revision)

    def _changed(self, tokens: Sequence[Hashable]) -> Collection[int]:
        """The rows to be read again, by the numbers of now."""
        tables = self._tables
        if self._seen < 0:
            return range(tables.nodes.rows.count)
        names = self._names_of_changed(tokens)
        if names is None:
            return range(tables.nodes.rows.count)
        return {*self._changed_rows().tolist(), *(tables.nodes.row_of[name] for name in names if name in tables.nodes.row_of)}

    def _names_of_changed(self, tokens: Sequence[Hashable]) -> Collection[str] | None:
        """The nodes whose devices may be others by these tokens of the sources; None for all nodes."""
        names = set[str]()
        for source, old, new in zip(self._sources, self._tokens, tokens, strict=True):
            changed = source.changed_nodes(self._tables.objects, old) if old != new else ()
            if changed is None:
                return None
            names.update(changed)
        return names

    def _changed_rows(self) -> NDArray[np.intp]:
        """The rows whose node or pods changed since they were read, by the numbers of now."""
        both = self._tables.node_changes, self._tables.usage_changes
        if self._layout != self._tables.layout_revision:
            return np.union1d(*(each.since_any_layout(self._seen) for each in both))
        rows = np.union1d(*(each.since(self._seen) for each in both))
        return rows[np.maximum(*(each.last(rows) for each in both)) > self._read_at[rows]]

    def _read(self, row: int) -> tuple[Device, ...]:
        tables = self._tables
        node, pods = tables.nodes.objects[row], [placement.pod for placement in tables.pods.by_row[row].values()]
        found: list[Device] = []
        for source in self._sources:
            found += source.devices_on(node, pods, tables.objects)
        return tuple(found)

    def _rebuild(self, rows: Collection[int]) -> None:
        """Put the devices into the order of the nodes of now; only those of `rows` are read."""
        names, known = self._tables.nodes.names, dict(zip(self._names, enumerate(self._by_row), strict=True))
        for row in rows:
            known[names[row]] = -1, self._read(row)
        self._names = list(names)
        found = [known[name] for name in names]
        self._by_row = [devices for _, devices in found]
        self._lay_out(np.array([former for former, _ in found], dtype=np.intp))

    def _lay_out(self, former: NDArray[np.intp]) -> None:
        """Number the entries again. `former` has the row in which the devices of each row were before, -1 for those that were read now."""
        before = self._starts
        counts = np.fromiter(map(len, self._by_row), dtype=np.intp, count=len(self._by_row))
        self._starts = np.concatenate((np.zeros(1, dtype=np.intp), np.cumsum(counts)))
        self._owners = np.repeat(np.arange(len(counts), dtype=np.intp), counts)
        self._read_at = np.zeros(len(counts), dtype=np.int64)
        self.version += 1
        self._row_versions = np.full(len(counts), self.version, dtype=np.int64)
        if not self._columns:
            return
        stay = np.flatnonzero(former >= 0)
        (old, _), (new, _) = _entries(before, former[stay]), _entries(self._starts, stay)
        for column in self._columns.values():
            values = np.empty(len(self._owners), dtype=column.values.dtype)
            values[new] = column.values[old]
            column.values = values
        self._write_over(self._columns.values(), np.flatnonzero(former < 0).tolist())

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
            former = np.arange(len(self._by_row))
            former[changed] = -1
            read_at = self._read_at  # rows stay where they are
            self._lay_out(former)
            self._read_at = read_at
        elif changed:
            self.version += 1
            self._row_versions[changed] = self.version
            self._write_over(self._columns.values(), changed)
        return changed

    def _write_over(self, columns: Iterable[_Column], rows: Sequence[int]) -> None:
        for column in columns:
            for row in rows:
                start, end = self._starts[row], self._starts[row + 1]
                column.values[start:end] = self._values(column, self._by_row[row])

    # ── columns ──

    def _column(self, key: Hashable, read: ReadDevice, *, text: bool) -> NDArray[Any]:
        self.follow()
        self._follow_strings()
        column = self._columns.pop(key, None)
        if column is None:
            column = _Column(read, text=text)
            column.values = self._values(column, [device for devices in self._by_row for device in devices])
        self._keep_column(key, column)
        return column.values

    def _keep_column(self, key: Hashable, column: _Column) -> None:
        if len(self._columns) >= MAX_COLUMNS:
            del self._columns[next(iter(self._columns))]
        self._columns[key] = column

    def _follow_strings(self) -> None:
        """Forget codes of another table."""
        strings = self._tables.nodes.strings
        if strings is not self._strings:
            self._strings = strings
            self._columns = {name: column for name, column in self._columns.items() if not column.text}

    def _values(self, column: _Column, devices: Sequence[Device]) -> NDArray[Any]:
        found = [column.read(device) for device in devices]
        if column.text:
            code = self._tables.nodes.strings.code
            return np.array([ABSENT if value is None else code(value) for value in found], dtype=np.int32)
        return np.array([np.nan if value is None else value for value in found], dtype=np.float64)


def _entries(starts: NDArray[np.intp], rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The entries of the devices of some rows, and for each entry the place of its row among `rows`."""
    first = starts[rows]
    counts = starts[rows + 1] - first
    owners = np.repeat(np.arange(len(rows), dtype=np.intp), counts)
    return np.arange(len(owners), dtype=np.intp) + (first - np.cumsum(counts) + counts)[owners], owners


def _portions(rows: NDArray[np.intp], sizes: NDArray[np.intp], largest: int) -> Iterator[NDArray[np.intp]]:
    """Some rows in portions whose sizes add up to `largest` at most; at least one row, and at most `largest` of them, in each."""
    sums = np.cumsum(np.maximum(sizes, 1))
    first = 0
    while first < len(rows):
        before = sums[first - 1] if first else 0
        end = max(first + 1, int(np.searchsorted(sums, before + largest, side="right")))
        yield rows[first:end]
        first = end


class ReadColumn(Struct, frozen=True):
    """A column of a table of devices, read in steps; with `text` one of codes."""

    table: DeviceTable
    key: Hashable
    read: ReadDevice
    text: bool = False

    @property
    def values(self) -> NDArray[Any]:
        """The column: `DeviceTable.numbers`, or `DeviceTable.codes` with `text`."""
        return (self.table.codes if self.text else self.table.numbers)(self.key, self.read)

    def read_in_steps(self) -> Generator[None]:
        """The steps of reading it; none if it is kept."""
        return self.table.read_column_in_steps(self.key, self.read, text=self.text)


class ReadPerNode(Struct, frozen=True):
    """A number of each node in a table of devices, computed in steps: `height` numbers for each device."""

    table: DeviceTable
    key: Hashable
    evaluate: Evaluate
    height: int

    def read_in_steps(self) -> Generator[None]:
        """The steps of computing it; of the nodes that changed if it is kept."""
        return self.table.compute_in_steps(self.key, self.evaluate, self.height)
