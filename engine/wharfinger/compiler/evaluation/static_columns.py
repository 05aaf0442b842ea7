"""Columns that depend on node objects alone, kept longer than an evaluation and updated row by row.

A node object changes seldom; pods come and go all the time. The columns belong to one policy and one cluster and are shared by all pods
whose values in them are equal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.builtins.signature import Rows
from wharfinger.model.state.snapshot import Snapshot

MAX_CELLS = 2**22  # 32 MB at most per policy and cluster


@dataclass(slots=True)
class _Kept:
    revision: int
    values: NDArray[Any]


class StaticColumns:
    """A bounded cache of columns; the least recently used ones are dropped."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, snapshot: Snapshot, evaluate: Callable[[Rows], Any]) -> NDArray[Any]:
        """The column of a key for all rows; `evaluate` computes it for the rows that changed since the last call."""
        kept = self._kept.get(key)
        changed = None if kept is None else snapshot.node_changes(kept.revision)
        if kept is None or changed is None:
            kept = self._kept[key] = _Kept(snapshot.revision, whole(evaluate(slice(None)), snapshot.n_nodes))
            self._drop_oldest(snapshot.n_nodes)
        elif len(changed):
            kept.values = kept.values.copy()  # readers of the former array keep it unchanged
            kept.values[changed] = evaluate(changed)
        kept.revision = snapshot.revision
        self._kept.move_to_end(key)
        return kept.values

    def _drop_oldest(self, n_nodes: int) -> None:
        while len(self._kept) > max(8, MAX_CELLS // max(1, n_nodes)):
            self._kept.popitem(last=False)


def whole(values: Any, n_nodes: int) -> NDArray[Any]:
    """A new column; a single value is repeated for all rows."""
    return np.array(np.broadcast_to(values, (n_nodes,)))
