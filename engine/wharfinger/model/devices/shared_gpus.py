"""GPUs that pods share: their names in a cluster, the free part of each, and each as a device.

Clusters without DRA count GPUs: whole ones, and shares of one in thousandths. The names differ between clusters, so they are a value. A
node offers `count` GPUs. A pod requests whole GPUs (`count`) or a share of each of some GPUs (`share`). After the decision, `index` on the
pod lists its GPUs of the node ("0", "2-3").

Kubernetes adds a resource up over the node. It does not see that two GPUs with 400 thousandths free have no room for a share of 800. What
is free of each GPU is a function of the node and the pods on it (`free_gpus`), so copies of a cluster agree. `GpuTable` has it for every
node, from the first question on; `SharedGpus` makes devices of it. All other extended resources are whole counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.columns import arrays
from wharfinger.model.devices.counted_devices import CountedDevices
from wharfinger.model.devices.device import MILLI, Device, DeviceDemand, Store
from wharfinger.model.objects import quantity
from wharfinger.model.objects.node_view import amounts
from wharfinger.model.objects.pod_view import PodView

WHOLE: Final = 1000
"""Thousandths of a whole GPU."""

MAX_THOUSANDTHS: Final = 2**31
"""A larger share of a GPU counts as this one. It fits nowhere either, and sums over many pods stay within int64."""

MAX_GPUS: Final = 128
"""A node with more GPUs takes no part: its GPUs are counted by Kubernetes' own rules alone."""

NO_GPUS: Final = -1
"""The number of GPUs of a node that takes no part."""

_INDEXES = re.compile(r"[0-9]{1,4}([-,][0-9]{1,4}){0,127}")
MAX_ANNOTATION_LENGTH: Final = 5 * MAX_GPUS
"""No annotation that lists GPUs is longer."""


class GpuDemand(Struct, frozen=True):
    """GPUs that a pod requests: `milli` thousandths on each of `count` different GPUs."""

    count: int
    milli: int


class GpuNames(Struct, frozen=True, kw_only=True):
    """The names by which a cluster counts GPUs and shares.

    `count` is a resource of nodes and pods. `share` is a resource too, the sum of thousandths over all GPUs; nodes that advertise it take
    part. With `annotated`, pods say their share of each GPU in an annotation of that name instead, and all nodes with GPUs take part.
    """

    count: str = "nvidia.com/gpu"
    share: str = "alibabacloud.com/gpu-milli"
    index: str = "alibabacloud.com/gpu-index"
    annotated: bool = False

    def wanted(self, pod: PodView) -> GpuDemand | None:
        """The GPUs that a pod requests; None for a pod without any."""
        requests = pod.demand.requests
        count, total = requests.get(self.count, 0), requests.get(self.share, 0)
        if not (count or total or self.annotated):
            return None
        if self.annotated and (text := pod.annotations.get(self.share)) is not None:
            each = _number(text)
            return GpuDemand(max(count, 1), each) if each > 0 else _whole_gpus(count)
        if total <= 0:
            return _whole_gpus(count)
        return GpuDemand(max(count, 1), min(-(-total // max(count, 1)), MAX_THOUSANDTHS))

    def unreadable(self, pod: PodView) -> str:
        """The reason why the share in the annotation of a pod cannot be read, so that the pod fits on no node; "" if it can."""
        text = pod.annotations.get(self.share) if self.annotated else None
        try:
            quantity.value(text or "0")
        except InvalidObject as error:
            return f"the annotation {self.share} of the pod cannot be read: {error}"
        return ""

    def offered(self, node: objects.Node) -> int:
        """The number of GPUs of a node; `NO_GPUS` for one that takes no part."""
        allocatable = node.status.allocatable
        if not self.annotated and self.share not in allocatable:
            return NO_GPUS
        named = {name: text for name, text in allocatable.items() if name in {self.count, self.share}}
        offer = amounts(named)
        found = offer[self.count] if self.count in offer else offer.get(self.share, 0) // WHOLE
        return found if found <= MAX_GPUS else NO_GPUS

    def indexes(self, pod: PodView) -> tuple[int, ...] | None:
        """The GPUs of its node that are written on a pod; None if none are, or if they cannot be read."""
        text = pod.annotations.get(self.index)
        return None if text is None or len(text) > MAX_ANNOTATION_LENGTH else _indexes(text)

    def held(self, pod: PodView, wanted: GpuDemand, count: int) -> tuple[int, ...] | None:
        """The GPUs in the annotation of a pod, if they fit its request and are among the `count` of its node; None otherwise."""
        indexes = self.indexes(pod)
        return None if indexes is None or len(set(indexes)) != wanted.count or max(indexes) >= count else indexes

    def written(self, gpus: Iterable[int]) -> str:
        """The text of the annotation for these GPUs."""
        return "-".join(map(str, sorted(gpus)))


@lru_cache(maxsize=1024)
def _indexes(text: str) -> tuple[int, ...] | None:
    """The GPUs that an annotation lists; None if it cannot be read."""
    return None if _INDEXES.fullmatch(text) is None else tuple(int(part) for part in re.split("[-,]", text))


def _whole_gpus(count: int) -> GpuDemand | None:
    return GpuDemand(count, WHOLE) if count > 0 else None


def _number(text: str) -> int:
    """The thousandths of an annotation; more than any GPU has if it cannot be read, so that the pod fits on no node."""
    try:
        return min(quantity.value(text), MAX_THOUSANDTHS)
    except InvalidObject:
        return WHOLE + 1


def room(free: Iterable[int], wanted: GpuDemand) -> list[int]:
    """The GPUs that have room for one share each, in index order; `free` are their free thousandths."""
    return [gpu for gpu, left in enumerate(free) if left >= wanted.milli]


def holders(free: Iterable[int], wanted: GpuDemand) -> tuple[int, ...]:
    """The first GPUs, by index, with enough free thousandths; empty if there are not enough of them."""
    found = room(free, wanted)[: wanted.count]
    return tuple(found) if len(found) == wanted.count else ()


class GpuHolder(Struct, frozen=True):
    """A pod with the GPUs of its node on which it has `milli` thousandths each; not `written` if it is supposed to be there."""

    pod: PodView
    gpus: tuple[int, ...]
    milli: int
    written: bool


def free_gpus(count: int, pods: Iterable[PodView], names: GpuNames, holders: list[GpuHolder] | None = None) -> list[int]:
    """The free thousandths of each of a node's `count` GPUs; less than 0 for one that holds more than it has.

    What is written on pods counts first. Other pods are supposed to be where they leave the least behind: the largest share first, each on
    the fullest GPUs that can hold it, or where none can, on the emptiest ones. Who has which GPUs is added to `holders`.
    """
    free = [WHOLE] * count
    unwritten: list[tuple[GpuDemand, PodView]] = []
    for pod in pods:
        wanted = names.wanted(pod)
        if wanted is None:
            continue
        held = names.held(pod, wanted, count)
        if held is None:
            unwritten.append((wanted, pod))
            continue
        for gpu in held:
            free[gpu] -= wanted.milli
        if holders is not None:
            holders.append(GpuHolder(pod, held, wanted.milli, written=True))
    for wanted, pod in sorted(unwritten, key=lambda each: (-each[0].milli, -each[0].count, each[1].uid)):
        milli = wanted.milli
        fullest = sorted(range(count), key=lambda gpu: (free[gpu] < milli, free[gpu] if free[gpu] >= milli else -free[gpu], gpu))
        gpus = tuple(fullest[: wanted.count])
        for gpu in gpus:
            free[gpu] -= milli
        if holders is not None:
            holders.append(GpuHolder(pod, gpus, milli, written=False))
    return free


class SharedGpus:
    """The devices of all extended resources; for GPUs with these names also their free thousandths."""

    __slots__ = ("_all", "_others", "names")

    def __init__(self, names: GpuNames) -> None:
        self.names = names
        self._all = CountedDevices()
        self._others = CountedDevices(excluded={names.count, names.share})

    def devices_on(self, node: objects.Node, pods: Sequence[PodView], store: Store) -> Sequence[Device]:
        """The GPUs of a node by index, then its other devices."""
        names = self.names
        count = names.offered(node)
        if count < 0:
            return self._all.devices_on(node, pods, store)
        start = f"{names.count}."
        attributes = {key.removeprefix(start): value for key, value in node.metadata.labels.items() if key.startswith(start)}
        whole = {MILLI: float(WHOLE)}
        gpus = [
            Device(names.count, node.metadata.name, str(gpu), attributes, whole, {MILLI: float(max(free, 0))}, free < WHOLE)
            for gpu, free in enumerate(free_gpus(count, pods, names))
        ]
        return [*gpus, *self._others.devices_on(node, pods, store)]

    def demand(self, pod: PodView, store: Store) -> DeviceDemand | None:
        """The GPUs or shares that a pod requests, otherwise the other devices."""
        wanted = self.names.wanted(pod)
        return self._others.demand(pod, store) if wanted is None else DeviceDemand(wanted.count, float(wanted.milli))

    def token(self, store: Store) -> Hashable:
        """A constant: these devices depend on nodes and their pods alone."""
        return self._all.token(store)

    def changed_nodes(self, store: Store, token: Hashable) -> Collection[str] | None:
        """Empty: these devices change only with the node or its pods."""
        return self._all.changed_nodes(store, token)


class GpuTable:
    """Per row: the number of GPUs, and the free thousandths of each of them."""

    __slots__ = ("_count", "_free", "_supposed", "names")

    def __init__(self, rows: arrays.Rows, names: GpuNames) -> None:
        self.names = names
        self._count = rows.column(np.int32, NO_GPUS)
        self._free = rows.column(np.int64, -1, lanes=1)
        self._supposed = rows.column(np.bool_, False)  # True for nodes with a pod on which its GPUs are not written

    @property
    def count(self) -> NDArray[np.int32]:
        """The number of GPUs of each node, (n_nodes,) int32; `NO_GPUS` for a node that takes no part."""
        return self._count.view

    @property
    def free(self) -> NDArray[np.int64]:
        """The free thousandths, (max GPUs per node, n_nodes) int64; -1 if the node has no such GPU, negative if it is overcommitted."""
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
        """Count again the parts of the GPUs of a node that its pods have."""
        count = self._count.array.item(row)
        while (self._free.lanes or 0) < count:
            self._free.add_lane()
        self._free.clear(row)
        self._supposed.clear(row)
        if count > 0:
            holders: list[GpuHolder] = []
            self._free.array[:count, row] = free_gpus(count, pods, self.names, holders)
            self._supposed.array[row] = not all(holder.written for holder in holders)

    def count_pod(self, row: int, pod: PodView, sign: int, pods: Callable[[], Iterable[PodView]]) -> None:
        """Count a pod that was added to a node (`sign` 1) or removed (-1); `pods` returns the present pods of the node."""
        wanted = self.names.wanted(pod)
        if wanted is None:
            return
        held = self.names.held(pod, wanted, self._count.array.item(row))
        if held is None or self._supposed.array.item(row):  # where one pod is supposed to be depends on all others
            self.count_pods(row, pods())
            return
        for gpu in held:
            self._free.array[gpu, row] -= sign * wanted.milli


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

    def add(self, table: GpuTable) -> None:
        """Follow the nodes and pods from now on in a table that counts them as they are now."""
        self._tables[table.names] = table

    def set_node(self, row: int, node: objects.Node, pods: Iterable[PodView]) -> None:
        """Follow a new or changed node."""
        for table in self._tables.values():
            table.set_node(row, node, pods)

    def count_pods(self, row: int, changed: PodView, pods: Callable[[], Iterable[PodView]]) -> None:
        """Follow a pod that is another version of itself now; `pods` returns those that are on its node."""
        for table in self._tables.values():
            if table.names.wanted(changed) is not None:
                table.count_pods(row, pods())

    def count_pod(self, row: int, pod: PodView, sign: int, pods: Callable[[], Iterable[PodView]]) -> None:
        """Count a pod that was added to a node (`sign` 1) or removed (-1); `pods` returns the present pods of the node."""
        for table in self._tables.values():
            table.count_pod(row, pod, sign, pods)
