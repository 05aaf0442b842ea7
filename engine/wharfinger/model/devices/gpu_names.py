"""GPUs as clusters without DRA count them: whole ones, shares of one in thousandths, and which GPU of its node a pod has.

The names differ between clusters, so they are a value. A node offers `count` GPUs. A pod wants whole GPUs (`count`) or a share of each of
some GPUs (`share`); where it is written on the pod after the decision, `index` says which GPUs of the node it has ("0", "2-3").

Kubernetes adds a resource up over the node. It does not see that two GPUs with 400 thousandths free have no room for a share of 800.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from wharfinger.errors import InvalidObject
from wharfinger.model.objects import quantity
from wharfinger.model.objects.node_view import amounts

if TYPE_CHECKING:
    from wharfinger.model import objects
    from wharfinger.model.objects.pod_view import PodView

WHOLE: Final = 1000
"""Thousandths of a whole GPU."""

MAX_GPUS: Final = 128
"""A node with more GPUs takes no part: its GPUs are counted by Kubernetes' own rules alone."""

NO_GPUS: Final = -1
"""The number of GPUs of a node that takes no part."""

_INDEXES = re.compile(r"[0-9]{1,4}([-,][0-9]{1,4}){0,127}")
MAX_ANNOTATION_LENGTH: Final = 5 * MAX_GPUS
"""No annotation that lists GPUs is longer."""


@dataclass(frozen=True, slots=True)
class GpuDemand:
    """GPUs that a pod wants: `milli` thousandths on each of `count` different GPUs."""

    count: int
    milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNames:
    """The names by which a cluster counts GPUs and shares.

    `count` is a resource of nodes and pods. `share` is a resource too, the sum of thousandths over all GPUs; nodes that advertise it take
    part. With `annotated`, pods say their share of each GPU in an annotation of that name instead, and all nodes with GPUs take part.
    """

    count: str = "nvidia.com/gpu"
    share: str = "alibabacloud.com/gpu-milli"
    index: str = "alibabacloud.com/gpu-index"
    annotated: bool = False

    def wanted(self, pod: PodView) -> GpuDemand | None:
        """The GPUs that a pod wants; None for a pod without any."""
        requests = pod.demand.requests
        count, total = requests.get(self.count, 0), requests.get(self.share, 0)
        if not (count or total or self.annotated):
            return None
        if self.annotated and (text := pod.annotations.get(self.share)) is not None:
            each = _number(text)
            return GpuDemand(max(count, 1), each) if each > 0 else _whole(count)
        if total <= 0:
            return _whole(count)
        return GpuDemand(max(count, 1), -(-total // max(count, 1)))

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

    def written(self, gpus: Iterable[int]) -> str:
        """The text of the annotation for these GPUs."""
        return "-".join(map(str, sorted(gpus)))


@lru_cache(maxsize=1024)
def _indexes(text: str) -> tuple[int, ...] | None:
    """The GPUs that an annotation lists; None if it cannot be read."""
    return None if _INDEXES.fullmatch(text) is None else tuple(int(part) for part in re.split("[-,]", text))


def _whole(count: int) -> GpuDemand | None:
    return GpuDemand(count, WHOLE) if count > 0 else None


def _number(text: str) -> int:
    """The thousandths of an annotation; more than any GPU has if it cannot be read, so that the pod fits nowhere."""
    try:
        return quantity.value(text)
    except InvalidObject:
        return WHOLE + 1


def room(free: Iterable[int], wanted: GpuDemand) -> list[int]:
    """The GPUs that have room for one share each, in index order; `free` are their free thousandths."""
    return [gpu for gpu, left in enumerate(free) if left >= wanted.milli]


def holders(free: Iterable[int], wanted: GpuDemand) -> tuple[int, ...]:
    """The first GPUs in index order that hold what is wanted; empty if they cannot."""
    found = room(free, wanted)[: wanted.count]
    return tuple(found) if len(found) == wanted.count else ()


@dataclass(frozen=True, slots=True)
class GpuHolder:
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
    unwritten: list[tuple[int, int, str, PodView]] = []
    for pod in pods:
        wanted = names.wanted(pod)
        if wanted is None:
            continue
        indexes = names.indexes(pod)
        if indexes is None or len(set(indexes)) != wanted.count or max(indexes) >= count:
            unwritten.append((-wanted.milli, -wanted.count, pod.uid, pod))
            continue
        for gpu in indexes:
            free[gpu] -= wanted.milli
        if holders is not None:
            holders.append(GpuHolder(pod, indexes, wanted.milli, written=True))
    for less_milli, less_count, _, pod in sorted(unwritten, key=itemgetter(0, 1, 2)):
        milli = -less_milli
        fullest = sorted(range(count), key=lambda gpu: (free[gpu] < milli, free[gpu] if free[gpu] >= milli else -free[gpu], gpu))
        for gpu in fullest[:-less_count]:
            free[gpu] -= milli
        if holders is not None:
            holders.append(GpuHolder(pod, tuple(fullest[:-less_count]), milli, written=False))
    return free
