"""The nodes as rows: the columns that updates of node objects change. Changes of pods are in `resource_table` and `pod_table`.

Container images have an index from image name to rows instead of columns: ImageLocality reads two or three images out of thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.model import objects
from wharfinger.model.columns import arrays, domains, resource_table
from wharfinger.model.objects.node_view import ALL_PARTS, NodePart, amounts, conditions, image_sizes

MAX_NAMES: Final = 4096  # names of images indexed at a time
MAX_IMAGES: Final = 50
"""The maximum number of images of a pod that are looked up: a new index of a name reads all nodes."""
SPARE_CODES: Final = 4096
"""Unused codes that are kept before strings and taint sets are renumbered."""

Fact = Callable[[objects.Node], float | str | None]
"""Reads a plain value of a node object; None if the node has none."""


class ImageState(Struct, frozen=True, kw_only=True):
    """The nodes that hold one image: `rows` (k,) intp ascending, `sizes` (k,) int64 in bytes as each node reports it."""

    rows: NDArray[np.intp]
    sizes: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        """The number of nodes that hold the image."""
        return len(self.rows)


class Images:
    """Sizes of images in bytes by name and row; only names that were read have an index."""

    __slots__ = ("_by_name", "_by_row", "_states")

    def __init__(self) -> None:
        self._by_row: dict[int, Mapping[str, int]] = {}
        self._by_name: dict[str, dict[int, int]] = {}
        self._states: dict[str, ImageState] = {}

    def state(self, name: str) -> ImageState:
        """The nodes holding an image, and its size there."""
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = _state(self._sizes(name))
        return state

    def _sizes(self, name: str) -> Mapping[int, int]:
        sizes = self._by_name.get(name)
        if sizes is None:
            if len(self._by_name) == MAX_NAMES:  # names come and go in a long-lived process; a new index is cheap
                self._by_name.clear()
                self._states.clear()
            sizes = self._by_name[name] = {row: images[name] for row, images in self._by_row.items() if name in images}
        return sizes

    def set_row(self, row: int, sizes: Mapping[str, int]) -> None:
        """Replace the images of one node (name → bytes)."""
        old = self._by_row.pop(row, {})
        if sizes:
            self._by_row[row] = sizes
        if self._by_name:
            for name in old.keys() | sizes.keys():
                if name in self._by_name and old.get(name) != sizes.get(name):
                    self._set_size(name, row, sizes.get(name))

    def _set_size(self, name: str, row: int, size: int | None) -> None:
        self._states.pop(name, None)
        if size is None:
            del self._by_name[name][row]
        else:
            self._by_name[name][row] = size

    def move(self, source: int, target: int) -> None:
        """Move the images of one row to another, which has none any more."""
        sizes = self._by_row.get(source, {})
        self.set_row(source, {})
        self.set_row(target, sizes)


def _state(sizes: Mapping[int, int]) -> ImageState:
    rows = np.fromiter(sizes.keys(), np.intp, len(sizes))
    order = rows.argsort()
    state = ImageState(rows=rows[order], sizes=np.fromiter(sizes.values(), np.int64, len(sizes))[order])
    state.rows.setflags(write=False)
    state.sizes.setflags(write=False)
    return state


def stable_hash(text: str) -> int:
    """A 64-bit hash of a name, the same on every machine: the first 8 bytes of its BLAKE2b, little-endian."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


class FactColumns:
    """Columns of plain values of node objects, each created when it is first read and kept up to date from then on."""

    __slots__ = ("_by_name", "_nodes", "_rows", "_strings")

    def __init__(self, rows: arrays.Rows, nodes: Sequence[objects.Node], table: arrays.StringTable) -> None:
        self._rows = rows
        self._nodes = nodes
        self._strings = table
        self._by_name: dict[str, tuple[arrays.Column, Fact, bool]] = {}

    def values(self, name: str, read: Fact, *, text: bool) -> NDArray[np.float64] | NDArray[np.int32]:
        """The value on each node, (n_rows,): float64 with NaN where absent, or with `text` int32 string codes with -1 where absent.

        `name` identifies `read` and `text`, which are used only if the name is new.
        """
        known = self._by_name.get(name)
        if known is None:
            column = self._rows.column(np.int32, arrays.ABSENT) if text else self._rows.column(np.float64, np.nan)
            known = self._by_name[name] = (column, read, text)
            column.array[: len(self._nodes)] = [self._encoded(read(node), text=text) for node in self._nodes]
        return known[0].view

    def _encoded(self, value: float | str | None, *, text: bool) -> float:
        if text:
            return self._strings.code(None if value is None else str(value))
        return np.nan if value is None else float(value)

    @property
    def in_use(self) -> Collection[arrays.Column]:
        """The columns of string codes."""
        return [column for column, _, text in self._by_name.values() if text]

    def use(self, table: arrays.StringTable) -> None:
        """Use another string table from now on; the caller has converted the columns to its codes."""
        self._strings = table

    def set_row(self, row: int, node: objects.Node) -> None:
        """Set the values of one node."""
        for column, read, text in self._by_name.values():
            column.array[row] = self._encoded(read(node), text=text)


class NodeTable:
    """One row per node; `objects[row]` is the node object that the row was made from."""

    __slots__ = (
        "_max_codes",
        "annotations",
        "conditions",
        "facts",
        "images",
        "labels",
        "name_codes",
        "name_hashes",
        "names",
        "objects",
        "resources",
        "row_of",
        "rows",
        "strings",
        "taint_set",
        "taint_sets",
        "taints",
        "taints_by_key",
        "topologies",
        "unschedulable",
    )

    def __init__(self) -> None:
        self.rows = arrays.Rows()
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.objects: list[objects.Node] = []
        self.strings = arrays.StringTable()
        self.resources = resource_table.ResourceTable(self.rows)
        self.labels = self._keyed(lambda node: node.metadata.labels)
        self.annotations = self._keyed(lambda node: node.metadata.annotations)
        self.conditions = self._keyed(conditions)
        self.topologies = domains.Topologies(self.rows, self.labels.codes)
        self.images = Images()
        self.unschedulable = self.rows.column(np.bool_, False)
        self.facts = FactColumns(self.rows, self.objects, self.strings)
        self.name_hashes = self.rows.column(np.uint64, 0)
        self.name_codes = self.rows.column(np.int32, arrays.ABSENT)
        self.taint_set = self.rows.column(np.int32, 0)
        self.taints: list[tuple[objects.Taint, ...]] = [()]
        self.taint_sets: dict[tuple[objects.Taint, ...], int] = {(): 0}
        self.taints_by_key: dict[str, list[int]] = {}  # the numbers of the lists that have a taint with the key, ascending
        self._max_codes = SPARE_CODES

    def _keyed(self, read: Callable[[objects.Node], Mapping[str, str]]) -> arrays.KeyedColumns:
        return arrays.KeyedColumns(self.rows, self.objects, self.strings, read)

    @property
    def _made_of_objects(self) -> tuple[arrays.KeyedColumns | FactColumns, ...]:
        return self.labels, self.annotations, self.conditions, self.facts

    def present_rows(self) -> Iterator[int]:
        """The row of each node, by the numbers of the moment at which it is asked for: nodes may come, go and move meanwhile.

        Nodes that come meanwhile are left out.
        """
        for name in list(self.names):
            row = self.row_of.get(name)
            if row is not None:
                yield row

    def add(self, node: objects.Node) -> int:
        """Add a new node; returns its row. InvalidObject if a quantity cannot be read."""
        offer, capacity = amounts(node.status.allocatable), amounts(node.status.capacity)  # first: a bad quantity must change nothing
        row = self.rows.add()
        name = node.metadata.name
        self.names.append(name)
        self.row_of[name] = row
        self.objects.append(node)
        self.name_hashes.array[row] = stable_hash(name)
        self.name_codes.array[row] = self.strings.code(name)
        self.resources.set_amounts(row, offer, capacity)
        self._set(row, node, ALL_PARTS)
        self.topologies.added(row)
        return row

    def update(self, node: objects.Node, changed: Container[NodePart]) -> int:
        """Apply the new object of a node, in which only some parts have changed; returns its row. Raises what `add` raises."""
        row = self.row_of[node.metadata.name]
        if NodePart.ALLOCATABLE in changed:
            self.resources.set_amounts(row, amounts(node.status.allocatable), amounts(node.status.capacity))
        self.objects[row] = node
        self._set(row, node, changed)
        if NodePart.LABEL in changed:
            self.topologies.changed(row)
        return row

    def _set(self, row: int, node: objects.Node, changed: Container[NodePart]) -> None:
        """Set what is read of the changed parts, but for the amounts."""
        for part, keyed in ((NodePart.LABEL, self.labels), (NodePart.ANNOTATION, self.annotations), (NodePart.CONDITION, self.conditions)):
            if part in changed:
                keyed.set_row(row, node)
        if NodePart.TAINT in changed:
            self.unschedulable.array[row] = node.spec.unschedulable
            self.taint_set.array[row] = self._taint_set(node.spec.taints)
        if NodePart.OTHER in changed:
            self.images.set_row(row, image_sizes(node))
        self.facts.set_row(row, node)

    def _taint_set(self, taints: tuple[objects.Taint, ...]) -> int:
        code = self.taint_sets.get(taints)
        if code is None:
            code = self.taint_sets[taints] = len(self.taints)
            self.taints.append(taints)
            self._index_taints(code)
        return code

    def _index_taints(self, number: int) -> None:
        for key in {taint.key for taint in self.taints[number]}:
            self.taints_by_key.setdefault(key, []).append(number)

    def compact(self) -> None:
        """Renumber strings, taint sets and resources once more than half of the codes may be unused.

        Must be called right after a change, while no snapshot is read.
        """
        self.resources.compact()
        if len(self.strings) + len(self.taints) <= self._max_codes:
            return
        self._renumber_strings()
        self._renumber_taints()
        self._max_codes = 2 * (len(self.strings) + len(self.taints)) + SPARE_CODES

    def _renumber_strings(self) -> None:
        columns_ = [self.name_codes, *(column for kind in self._made_of_objects for column in kind.in_use)]
        codes = arrays.distinct(np.concatenate([column.view for column in columns_] + [np.array(self.topologies.codes, dtype=np.int32)]))
        fresh, renumbered = arrays.StringTable(), np.full(len(self.strings) + 1, arrays.ABSENT, dtype=np.int32)  # the last is absent's
        for code in codes[codes != arrays.ABSENT].tolist():
            renumbered[code] = fresh.code(self.strings.text(code))
        for column in columns_:
            column.array[: self.rows.count] = renumbered[column.view]
        for kind in self._made_of_objects:
            kind.use(fresh)
        self.topologies.renumber(renumbered)
        self.strings = fresh

    def _renumber_taints(self) -> None:
        used = [self.taints[number] for number in np.unique(self.taint_set.view).tolist()]
        taints = [(), *(taints for taints in used if taints)]
        numbers = {found: number for number, found in enumerate(taints)}
        renumbered = np.array([numbers.get(found, 0) for found in self.taints], dtype=np.int32)
        self.taint_set.array[: self.rows.count] = renumbered[self.taint_set.view]
        self.taints, self.taint_sets = taints, numbers
        self.taints_by_key = {}
        for number in range(len(taints)):
            self._index_taints(number)

    def remove(self, row: int) -> int:
        """Remove a row and move the last row into its place; returns the former number of the moved row (`row` if it was the last)."""
        self.topologies.removing(row)
        self.images.set_row(row, {})
        del self.row_of[self.names[row]]
        last = self.rows.remove(row)
        self.resources.removed(row, last)
        if last != row:
            self.images.move(last, row)
            self.names[row], self.objects[row] = self.names[last], self.objects[last]
            self.row_of[self.names[row]] = row
        self.names.pop()
        self.objects.pop()
        return last
