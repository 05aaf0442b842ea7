"""Columns for attributes that are looked up by a key: labels, annotations, conditions.

A node has dozens of labels and a policy reads two of them, so a key gets its column when it is first asked for, filled from the
node objects, and is kept up to date from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.model import columns, objects, strings


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
        self._by_key: dict[str, columns.Column] = {}

    def codes(self, key: str) -> NDArray[np.int32]:
        """The code of each node's value for a key, (n_rows,) int32."""
        column = self._by_key.get(key)
        if column is None:
            column = self._by_key[key] = self._rows.column(np.int32, strings.ABSENT)
            for row, node in enumerate(self._nodes):
                column.array[row] = self._strings.code(self._read(node).get(key))
        return column.view

    def set_row(self, row: int, node: objects.Node) -> None:
        """Take over one node's values for every key in use."""
        values: Mapping[str, Any] = self._read(node) if self._by_key else {}
        for key, column in self._by_key.items():
            column.array[row] = self._strings.code(values.get(key))
