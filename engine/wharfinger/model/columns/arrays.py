"""Arrays that share their row axis: one row per node, one column per attribute; rows that changed since a revision; strings as codes.

Rows are dense (0 … n-1). A removed row is filled with the last one, so every vector operation runs over exactly the nodes that exist. A
row number is therefore only valid until the next removal. Capacity doubles, so adding a row is cheap.

Views are read-only windows on the live array, created once per change of its shape. Every row has the revision of its last change, so that
a result can be updated by evaluating only the changed rows. Most callers need the changes since a recent revision, so the latest changes
are also kept in a short list, which is read without a search over all rows.

A cluster repeats the same few hundred strings tens of thousands of times: zone names, label values, taint keys. Columns hold a code
instead, so "which nodes have this value" is one comparison of integers, and equal strings share one object. A node has dozens of labels
and a policy reads two of them. A key therefore gets its column when it is first read, filled from the node objects; from then on the
column is kept up to date.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from weakref import WeakSet

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wharfinger.model import objects
from wharfinger.model.objects import matching

MIN_ROWS: Final = 16  # rows allocated at first
MAX_CHANGES_READ: Final = 256  # changes to read one by one; for more, all rows are compared instead
ABSENT: Final = -1  # the code of a missing string; the empty string has its own code
NONE: Final[NDArray[np.intp]] = np.empty(0, dtype=np.intp)
NONE.setflags(write=False)
MAX_KEYS: Final = 256
"""The most columns kept of labels, of annotations and of conditions: a pod may name any key, and the least recently used is dropped first.

Clusters use some dozens of keys. A dropped key costs a pass over the nodes when it is read again; each kept key costs a little whenever a
node changes.
"""


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view of an array that cannot be written to; it shows later writes to the array itself."""
    view = array.view()
    view.setflags(write=False)
    return view


def first_lanes(view: NDArray[Any], n_lanes: int, rows: slice | NDArray[np.intp]) -> NDArray[Any]:
    """The first lanes of a `Column.view` at some rows, (n_lanes, n_rows).

    The array under the view has no gaps between its lanes; `take` of it takes half as long as an index array of the view.
    """
    if isinstance(rows, slice) or view.base is None:
        return view[:n_lanes, rows]
    found: NDArray[Any] = view.base[:n_lanes].take(rows, axis=1)
    return found


class Column:
    """One value per row; with `lanes`, one row of values per lane (an array of shape (lanes, rows))."""

    __slots__ = ("__weakref__", "_rows", "_shape", "_view", "array", "fill", "lanes")

    def __init__(self, rows: Rows, dtype: DTypeLike, fill: Any, lanes: int | None) -> None:
        self._rows = rows
        self.fill = fill
        self.lanes = lanes
        shape = (rows.capacity,) if lanes is None else (lanes, rows.capacity)
        self.array: NDArray[Any] = np.full(shape, fill, dtype=dtype)
        self._shape: tuple[int, int | None] = (-1, None)
        self._view: NDArray[Any] = self.array

    @property
    def view(self) -> NDArray[Any]:
        """The values of the existing rows, (n_rows,) or (n_lanes, n_rows), read-only; it shows later writes."""
        shape = (self._rows.count, self.lanes)
        if self._shape != shape:
            self._shape = shape
            self._view = self.array[..., : self._rows.count] if self.lanes is None else self.array[: self.lanes, : self._rows.count]
            self._view.setflags(write=False)
        return self._view

    def resize(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._reallocate((*self.array.shape[:-1], capacity))

    def add_lane(self) -> int:
        """Add a lane, filled with the column's fill value; returns its number."""
        if self.lanes is None:
            raise TypeError("a column without lanes cannot get one more")
        if self.lanes == self.array.shape[0]:
            self._reallocate((2 * self.lanes, self.array.shape[1]))
        self.lanes += 1
        return self.lanes - 1

    def keep_lanes(self, lanes: Sequence[int]) -> None:
        """Keep these lanes only, numbered in this order."""
        if self.lanes is None:
            raise TypeError("a column without lanes has none to keep")
        self.array = self.array[list(lanes)]
        self.lanes = len(lanes)
        self._shape = (-1, None)

    def _reallocate(self, shape: tuple[int, ...]) -> None:
        larger = np.full(shape, self.fill, dtype=self.array.dtype)
        larger[tuple(slice(0, size) for size in self.array.shape)] = self.array
        self.array = larger
        self._shape = (-1, None)

    def clear(self, row: int) -> None:
        """Set a row back to the fill value."""
        self.array[..., row] = self.fill

    def move(self, source: int, target: int) -> None:
        """Copy one row over another."""
        self.array[..., target] = self.array[..., source]


class Rows:
    """The row axis: the number of rows (`count`), and every column in use that has one value for each row.

    Columns are referenced weakly: one that is not read any more is freed at once, and so are the tables of a cluster that is not needed
    any more.
    """

    __slots__ = ("capacity", "columns", "count", "layout")

    def __init__(self) -> None:
        self.count = 0
        self.layout = 0  # changes whenever a row is added, removed or moved
        self.capacity = MIN_ROWS
        self.columns: WeakSet[Column] = WeakSet()

    def column(self, dtype: DTypeLike, fill: Any, lanes: int | None = None) -> Column:
        """A new column that grows and shrinks with the axis, holding `fill` everywhere."""
        column = Column(self, dtype, fill, lanes)
        self.columns.add(column)
        return column

    def add(self) -> int:
        """Add a last row, with the fill value in every column; returns its number."""
        if self.count == self.capacity:
            self.capacity *= 2
            for column in tuple(self.columns):
                column.resize(self.capacity)
        self.count += 1
        self.layout += 1
        return self.count - 1

    def remove(self, row: int) -> int:
        """Remove a row and move the last row into its place; returns the former number of the moved row (`row` if it was the last)."""
        last = self.count - 1
        for column in tuple(self.columns):
            if row != last:
                column.move(last, row)
            column.clear(last)
        self.count = last
        self.layout += 1
        return last


def distinct(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows ascending and each once, sorted in place; several times faster than `np.unique` for the few hundred rows of a change."""
    rows.sort()
    first = np.empty(len(rows), np.bool_)
    first[:1] = True
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    return rows[first]


class RowChanges:
    """The last change of every row, by revision of the state."""

    __slots__ = ("_column", "_floor", "_last", "_recent_rows", "_revisions")

    def __init__(self, rows: Rows) -> None:
        self._column = rows.column(np.int64, 0)
        self._recent_rows = np.empty(4 * MAX_CHANGES_READ, np.intp)  # the row of each recent change
        self._revisions: list[int] = []  # and its revision
        self._floor = 0  # they hold every change after this revision
        self._last = 0

    def record(self, row: int, revision: int) -> None:
        """Record that a row changed in this revision."""
        self._column.array[row] = revision
        self._last = revision
        recent, revisions = self._recent_rows, self._revisions
        if len(revisions) == len(recent):
            recent[:MAX_CHANGES_READ] = recent[-MAX_CHANGES_READ:]
            del revisions[:-MAX_CHANGES_READ]
            self._floor = revisions[0]
        recent[len(revisions)] = row
        revisions.append(revision)

    def record_all(self, revision: int) -> None:
        """Record that all rows changed in this revision."""
        self._column.array[: len(self._column.view)] = revision
        self._last = self._floor = revision
        self._revisions.clear()

    def since(self, revision: int) -> NDArray[np.intp]:
        """The rows that changed after a revision, `(n,) intp` ascending. Rows must not have been removed since then."""
        if revision >= self._last:
            return NONE
        if revision >= self._floor:
            end = len(self._revisions)
            first = bisect_right(self._revisions, revision)
            if end - first <= MAX_CHANGES_READ:
                later = self._recent_rows[first:end].copy()
                return distinct(later) if len(later) > 1 else later
        return np.flatnonzero(self._column.view > revision)

    def last(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """The revision of the last change of some rows, (n_rows,) int64."""
        found: NDArray[np.int64] = self._column.array[rows]
        return found

    def since_any_layout(self, revision: int) -> NDArray[np.intp]:
        """The rows that changed after a revision, by their present numbers; rows may have been added, removed or moved since then."""
        return np.flatnonzero(self._column.view > revision)


class StringTable:
    """Codes 0, 1, 2, … for strings, in the order in which they are first seen; a code never changes its meaning.

    A table only grows. Texts that change often, such as an annotation with a time, would fill it with unused strings, so a cluster changes
    to a new table from time to time (`NodeTable.tidy`). A caller that keeps codes must keep the table with them, and drop both when the
    cluster's table is another object.
    """

    __slots__ = ("__weakref__", "_codes", "_numbers", "_parsed", "_spells", "_texts")

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._numbers = np.zeros(1, np.int64)  # by code, with room for more; the last one is that of `ABSENT`, as in the two others
        self._spells = np.zeros(1, np.bool_)  # True if the string spells a number
        self._parsed = np.ones(1, np.bool_)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"StringTable({len(self._texts)} strings)"

    def code(self, text: str | None) -> int:
        """The code of a string, added to the table if it is new; `ABSENT` for None."""
        if text is None:
            return ABSENT
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return code

    def find(self, text: str | None) -> int:
        """The code of a string; `ABSENT` if it is not in the table, so that no column can contain it."""
        return self._codes.get(text, ABSENT) if text is not None else ABSENT

    def text(self, code: int) -> str | None:
        """The string of a code; None for `ABSENT`."""
        return self._texts[code] if code >= 0 else None

    def int64s(self, codes: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The whole numbers that strings spell (`matching.parse_int64`), and True where one does; each string is parsed once."""
        if len(self._parsed) <= len(self._texts):
            more = 2 * len(self._texts) + 1 - len(self._parsed)
            self._numbers, self._spells = np.pad(self._numbers, (0, more)), np.pad(self._spells, (0, more))
            self._parsed = np.append(self._parsed[:-1], np.zeros(more + 1, np.bool_))
            self._parsed[-1] = True
        for code in set(codes[~self._parsed[codes]].tolist()):
            number = matching.parse_int64(self._texts[code])
            self._parsed[code] = True
            if number is not None:
                self._numbers[code], self._spells[code] = number, True
        return self._numbers[codes], self._spells[codes]


class KeyedColumns:
    """One int32 column of string codes per key in use; `ABSENT` where a node lacks the key. Keys that no node has share a column."""

    __slots__ = ("_absent", "_by_key", "_keys", "_nodes", "_read", "_rows", "_strings")

    def __init__(
        self,
        rows: Rows,
        nodes: Sequence[objects.Node],
        table: StringTable,
        read: Callable[[objects.Node], Mapping[str, str]],
    ) -> None:
        self._rows = rows
        self._nodes = nodes
        self._strings = table
        self._read = read
        self._by_key: OrderedDict[str, Column] = OrderedDict()
        self._keys: set[str] = set()
        self._absent = rows.column(np.int32, ABSENT)

    def may_have(self, key: str) -> bool:
        """False if no node has a key."""
        return key in self._keys

    def codes(self, key: str) -> NDArray[np.int32]:
        """The code of each node's value for a key, (n_rows,) int32."""
        column = self._by_key.get(key)
        if column is None and key not in self._keys:
            return self._absent.view
        if column is None:
            column = self._by_key[key] = self._rows.column(np.int32, ABSENT)
            read, code = self._read, self._strings.code
            column.array[: len(self._nodes)] = [code(read(node).get(key)) for node in self._nodes]
            if len(self._by_key) > MAX_KEYS:
                self._by_key.popitem(last=False)
        else:
            self._by_key.move_to_end(key)
        return column.view

    @property
    def in_use(self) -> Collection[Column]:
        """The columns of the keys in use."""
        return self._by_key.values()

    def use(self, table: StringTable) -> None:
        """Use another string table from now on; the caller has converted the columns to its codes."""
        self._strings = table
        self._keys = {key for node in self._nodes for key in self._read(node)}

    def set_row(self, row: int, node: objects.Node) -> None:
        """Set one node's values for every key in use."""
        values = self._read(node)
        self._keys.update(values)
        for key, column in self._by_key.items():
            column.array[row] = self._strings.code(values.get(key))
