"""The single GPUs of every node, with what is free of each.

A table is made when the first reader asks for the GPUs under some names, and follows all changes from then on. Clusters in which nobody
asks have none. A row is a function of the node and the pods on it (`gpu_names.free_gpus`), so copies of a cluster agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.model.columns import arrays
from wharfinger.model.devices.gpu_names import NO_GPUS, GpuNames, free_gpus

if TYPE_CHECKING:
    from wharfinger.model import objects
    from wharfinger.model.objects.pod_view import PodView


class GpuTable:
    """Per row: the number of GPUs, and the free thousandths of each of them."""

    __slots__ = ("_count", "_free", "_rows", "names")

    def __init__(self, rows: arrays.Rows, names: GpuNames) -> None:
        self.names = names
        self._rows = rows
        self._count = rows.column(np.int32, NO_GPUS)
        self._free = rows.column(np.int32, -1, lanes=1)

    @property
    def count(self) -> NDArray[np.int32]:
        """The number of GPUs of each node, (n_nodes,) int32; `NO_GPUS` for a node that takes no part."""
        return self._count.view

    @property
    def free(self) -> NDArray[np.int32]:
        """The free thousandths, (most GPUs of a node, n_nodes) int32; -1 where a node has no such GPU, below 0 for one in too much use."""
        return self._free.view

    def free_on(self, row: int) -> list[int]:
        """The free thousandths of each GPU of one node."""
        found: list[int] = self._free.array[: max(self._count.array.item(row), 0), row].tolist()
        return found

    def set_node(self, row: int, node: objects.Node, pods: Iterable[PodView]) -> None:
        """Count the GPUs of a new or changed node, and what its pods have of them."""
        self._count.array[row] = self.names.offered(node)
        self.count_pods(row, pods)

    def count_pods(self, row: int, pods: Iterable[PodView]) -> None:
        """Count anew what the pods of a node have of its GPUs."""
        count = self._count.array.item(row)
        while (self._free.lanes or 0) < count:
            self._free.add_lane()
        self._free.clear(row)
        if count > 0:
            self._free.array[:count, row] = free_gpus(count, pods, self.names)

    def takes(self, pod: PodView) -> bool:
        """True if a pod wants GPUs."""
        return self.names.wanted(pod) is not None


class GpuTables:
    """The tables of a cluster by names."""

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: dict[GpuNames, GpuTable] = {}

    def __bool__(self) -> bool:
        return bool(self._tables)

    def known(self, names: GpuNames) -> GpuTable | None:
        """The table under these names; None before `add`."""
        return self._tables.get(names)

    def add(self, names: GpuNames, rows: arrays.Rows, nodes: Iterable[tuple[objects.Node, Iterable[PodView]]]) -> GpuTable:
        """A new table of all nodes, each with its pods, in row order."""
        table = self._tables[names] = GpuTable(rows, names)
        for row, (node, pods) in enumerate(nodes):
            table.set_node(row, node, pods)
        return table

    def set_node(self, row: int, node: objects.Node, pods: Iterable[PodView]) -> None:
        """Follow a new or changed node."""
        for table in self._tables.values():
            table.set_node(row, node, pods)

    def count_pods(self, row: int, changed: PodView, pods: Iterable[PodView]) -> None:
        """Follow a pod that came to a node or left it; `pods` are those that are there now."""
        for table in self._tables.values():
            if table.takes(changed):
                table.count_pods(row, pods)
