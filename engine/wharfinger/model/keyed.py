"""Columns for attributes that are looked up by a key: labels, annotations, conditions.

A node has dozens of labels and a policy reads two of them, so a key gets its column when it is first asked for, filled from the
node objects, and is kept up to date from then on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wharfinger.model import columns, objects, strings

MOST_KEYS: Final = 256
"""Columns kept at a time of labels, of annotations and of conditions: a pod may ask for any key, and what has not been asked for the
longest is forgotten first. Clusters use some dozens. A key that was forgotten costs a walk over the nodes when it is asked for again, and
each key that is kept costs a little whenever a node changes."""


class KeyedColumns:
    """One int32 column of string codes for each key in use; `strings.ABSENT` where a node lacks the key."""

    __slots__ = ("_by_key", "_nodes", "_read", "_rows", "_strings")

    def __init__(
        self,
        rows: columns.Rows,
        nodes: Sequence[objects.Node],
        table: strings.StringTable,
        read: Callable[[objects.Node], Mapping[str, str]],
    ) -> None:
        self._rows = rows
        self._nodes = nodes
        self._strings = table
        self._read = read
        self._by_key: OrderedDict[str, columns.Column] = OrderedDict()

    def codes(self, key: str) -> NDArray[np.int32]:
        """The code of each node's value for a key, (n_rows,) int32."""
        column = self._by_key.get(key)
        if column is None:
            column = self._by_key[key] = self._rows.column(np.int32, strings.ABSENT)
            read, code = self._read, self._strings.code
            column.array[: len(self._nodes)] = [code(read(node).get(key)) for node in self._nodes]
            if len(self._by_key) > MOST_KEYS:
                self._rows.drop(self._by_key.popitem(last=False)[1])
        else:
            self._by_key.move_to_end(key)
        return column.view

    @property
    def in_use(self) -> Collection[columns.Column]:
        """The columns of the keys in use."""
        return self._by_key.values()

    def use(self, table: strings.StringTable) -> None:
        """Take codes from another table from now on; the columns have them already."""
        self._strings = table

    def set_row(self, row: int, node: objects.Node) -> None:
        """Take over one node's values for every key in use."""
        values: Mapping[str, Any] = self._read(node) if self._by_key else {}
        for key, column in self._by_key.items():
            column.array[row] = self._strings.code(values.get(key))
