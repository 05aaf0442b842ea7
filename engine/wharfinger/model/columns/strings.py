"""Strings as small integers, and the columns of labels, annotations and conditions made of them.

A cluster repeats the same few hundred strings tens of thousands of times: zone names, label values, taint keys. Columns hold a code
instead, so "which nodes have this value" is one comparison of integers, and equal strings share one object.

A node has dozens of labels and a policy reads two of them. A key therefore gets its column when it is first read, filled from the node
objects; from then on the column is kept up to date.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wharfinger.model import objects
from wharfinger.model.columns import arrays

ABSENT: Final = -1  # the code of a missing string; the empty string has a code of its own
MAX_KEYS: Final = 256
"""The most columns kept of labels, of annotations and of conditions: a pod may name any key, and the least recently used is dropped first.
Clusters use some dozens of keys. A dropped key costs a pass over the nodes when it is read again; each kept key costs a little whenever a
node changes."""


class StringTable:
    """Codes 0, 1, 2, … for strings, in the order in which they are first seen; a code never changes its meaning.

    A table only grows. Texts that change often, such as an annotation with a time, would fill it with unused strings, so a cluster changes
    to a new table from time to time (`NodeTable.tidy`). A caller that keeps codes must keep the table with them, and drop both when the
    cluster's table is another object.
    """

    __slots__ = ("_codes", "_texts")

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []

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


class KeyedColumns:
    """One int32 column of string codes for each key in use; `strings.ABSENT` where a node lacks the key."""

    __slots__ = ("_by_key", "_nodes", "_read", "_rows", "_strings")

    def __init__(
        self,
        rows: arrays.Rows,
        nodes: Sequence[objects.Node],
        table: StringTable,
        read: Callable[[objects.Node], Mapping[str, str]],
    ) -> None:
        self._rows = rows
        self._nodes = nodes
        self._strings = table
        self._read = read
        self._by_key: OrderedDict[str, arrays.Column] = OrderedDict()

    def codes(self, key: str) -> NDArray[np.int32]:
        """The code of each node's value for a key, (n_rows,) int32."""
        column = self._by_key.get(key)
        if column is None:
            column = self._by_key[key] = self._rows.column(np.int32, ABSENT)
            read, code = self._read, self._strings.code
            column.array[: len(self._nodes)] = [code(read(node).get(key)) for node in self._nodes]
            if len(self._by_key) > MAX_KEYS:
                self._rows.drop(self._by_key.popitem(last=False)[1])
        else:
            self._by_key.move_to_end(key)
        return column.view

    @property
    def in_use(self) -> Collection[arrays.Column]:
        """The columns of the keys in use."""
        return self._by_key.values()

    def use(self, table: StringTable) -> None:
        """Use another string table from now on; the caller has converted the columns to its codes."""
        self._strings = table

    def set_row(self, row: int, node: objects.Node) -> None:
        """Set one node's values for every key in use."""
        values: Mapping[str, Any] = self._read(node) if self._by_key else {}
        for key, column in self._by_key.items():
            column.array[row] = self._strings.code(values.get(key))
