"""GpuShares: shares of single GPUs, in clusters whose GPUs are counted as extended resources instead of allocated by DRA.

NodeResourcesFit adds up thousandths over a node. This plugin looks at the GPUs one by one: a share needs one GPU with that much free, and k
whole GPUs need k without a share of any pod. It then chooses the GPUs. They count as taken as soon as the pod is assumed. They are
written on the pod in the same request as its binding, and the device plugin of the node reads them there.

Kubernetes has no such plugin; the scheme is that of Alibaba's Open-Gpu-Share. Nothing changes in a cluster whose nodes do not advertise
shares. How such a cluster names things is in the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from wharfinger.framework.arguments import BuiltInArguments
from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import AnnotatingPlugin, CountingPlugin, DevicePlugin, FilterPlugin
from wharfinger.framework.pod_devices import PodDevice, preferred
from wharfinger.framework.prepared import SKIP, Attempt, ClaimAllocation, Mask, PreparedFilter, Reason, Rows, Skip
from wharfinger.language.report.wording import count
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.columns.arrays import first_lanes
from wharfinger.model.devices.device import MILLI
from wharfinger.model.devices.shared_gpus import WHOLE, GpuDemand, GpuNames, free_gpus, holders, room

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.model.columns.pod_table import ReadInSteps
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot

FULL, NEVER = 1, 2


class GpuSharesArguments(BuiltInArguments, frozen=True, kw_only=True):
    """The names of GPUs and shares in the cluster; see `GpuNames`."""

    count_resource: Annotated[str, Meta(min_length=1)] = "nvidia.com/gpu"
    share: Annotated[str, Meta(min_length=1)] = "alibabacloud.com/gpu-milli"
    index_annotation: Annotated[str, Meta(min_length=1)] = "alibabacloud.com/gpu-index"
    shares_are_annotations: bool = False


class GpuShares(FilterPlugin, AnnotatingPlugin, DevicePlugin, CountingPlugin):
    """A filter over single GPUs, and the choice of the GPUs: the first that have room, by `prefer device` of policies or by index."""

    name = "GpuShares"
    arguments_model = GpuSharesArguments
    filter_volatility = Volatility.ROW
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.NODE_ALLOCATABLE | ClusterEvent.POD_REMOVED | ClusterEvent.POD_CHANGED

    def __init__(self, arguments: GpuSharesArguments | None = None) -> None:
        super().__init__(arguments)
        given = self.arguments
        self.names = GpuNames(
            count=given.count_resource, share=given.share, index=given.index_annotation, annotated=given.shares_are_annotations
        )

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if a node was added or changed, or if the removed or changed pod requests GPUs; one that is to be deleted still has them."""
        return not change.only_marked and (change.pod is None or self.names.wanted(change.pod) is not None)

    def counting(self, pod: PodView, snapshot: Callable[[], Snapshot]) -> Iterator[ReadInSteps]:
        """Yield the GPUs of all nodes, for a pod that requests some."""
        if self.names.wanted(pod) is not None:
            yield snapshot().reading_gpus(self.names)

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip:
        """Skip for a pod that requests no GPUs."""
        wanted = self.names.wanted(attempt.pod)
        if wanted is None:
            return SKIP
        return attempt.shared.once(GpusFree, lambda: GpusFree(wanted, self.names, self.names.unreadable(attempt.pod)))

    def annotations(self, attempt: Attempt, row: int) -> Mapping[str, str]:
        """The index annotation of a pod that gets GPUs of a node that takes part."""
        wanted = self.names.wanted(attempt.pod)
        if wanted is None:
            return {}
        chosen = self._chosen(attempt, row, wanted)
        return {self.names.index: self.names.written(chosen)} if chosen else {}

    def pod_devices(self, attempt: Attempt, row: int, claims: Sequence[ClaimAllocation]) -> tuple[PodDevice, ...]:  # noqa: ARG002 — the extension point
        """The GPUs of a pod that gets some of a node that takes part."""
        wanted = self.names.wanted(attempt.pod)
        if wanted is None:
            return ()
        amounts = {} if wanted.milli == WHOLE else {MILLI: str(wanted.milli)}
        names, node = self.names, attempt.snapshot.names[row]
        return tuple(
            PodDevice(claim="", request=names.count, driver=names.count, pool=node, device=str(gpu), capacity=amounts)
            for gpu in sorted(self._chosen(attempt, row, wanted))
        )

    def shortage(self, attempt: Attempt, rows: NDArray[np.intp]) -> tuple[str, ...]:
        """Lines with the number of GPUs that have room, and for one node the free part of each."""
        wanted, table = self.names.wanted(attempt.pod), attempt.snapshot.gpus(self.names)
        rows = rows[table.count[rows] > 0]
        if wanted is None or not len(rows):
            return ()
        fit = int(np.count_nonzero(table.free[:, rows] >= wanted.milli))
        where = f" on {count(len(rows), 'node')}" if len(rows) > 1 else ""
        each = f" (free: {', '.join(map(str, table.free_on(int(rows[0]))))})" if len(rows) == 1 else ""
        has = "has" if fit == 1 else "have"
        n_gpus = int(table.count[rows].sum())
        return (f"{count(wanted.count, 'GPU')} wanted: of {n_gpus:,}{where}, {fit:,} {has} {wanted.milli} thousandths free{each}",)

    def _chosen(self, attempt: Attempt, row: int, wanted: GpuDemand) -> tuple[int, ...]:
        """The GPUs for the pod: the first with room, in the order of the policies if they have preferences, otherwise by index."""
        free = attempt.snapshot.gpus(self.names).free_on(row)
        order = preferred(attempt, row)
        if order is None:
            return holders(free, wanted)
        indexes = [int(device.name) for device in order if device.driver == self.names.count]
        found = [gpu for gpu in indexes if gpu < len(free) and free[gpu] >= wanted.milli][: wanted.count]
        return tuple(found) if len(found) == wanted.count else ()


class GpusFree(PreparedFilter):
    """`FULL` for nodes on which too few GPUs have room, `NEVER` for nodes on which they would not even if no pod used them.

    `unreadable` is the reason why the share of the pod cannot be read, "" if it can.
    """

    def __init__(self, wanted: GpuDemand, names: GpuNames, unreadable: str) -> None:
        self._wanted = wanted
        self._names = names
        few = _shortage_text(wanted)
        never = f"node(s) had no GPU: {unreadable}" if unreadable else f"node(s) had {few}"
        self.reasons = (Reason(f"node(s) had {few} free"), Reason(never, resolvable=False))

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8] | Mask:
        """The verdicts."""
        table = snapshot.gpus(self._names)
        count = table.count[rows]
        fitting = first_lanes(table.free, len(table.free), rows) >= self._wanted.milli
        short = (np.add.reduce(fitting.view(np.uint8), axis=0) < self._wanted.count) & (count >= 0)
        found: NDArray[np.uint8] = short.view(np.uint8) + (short & self._too_few(count))  # FULL, and NEVER is one more
        return found

    def bits_at(self, snapshot: Snapshot, row: int) -> int:
        """The verdict for one node."""
        table = snapshot.gpus(self._names)
        count = table.count.item(row)
        return 0 if count < 0 else self._verdict(table.free_on(row))

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reason against the supposed node."""
        count = supposed.snapshot.gpus(self._names).count.item(supposed.row)
        verdict = 0 if count < 0 else self._verdict(free_gpus(count, supposed.pods(), self._names))
        return (self.reasons[verdict - 1],) if verdict else ()

    def _verdict(self, free: list[int]) -> int:
        if len(room(free, self._wanted)) >= self._wanted.count:
            return 0
        return NEVER if self._too_few(len(free)) else FULL

    def _too_few(self, count: NDArray[np.int32] | int) -> Mask | bool:
        return (count < self._wanted.count) | (self._wanted.milli > WHOLE)


def _shortage_text(wanted: GpuDemand) -> str:
    """A text about the shortage of a node: `no GPU`, or `fewer than 2 GPUs with 500 thousandths`."""
    if wanted.milli == WHOLE:
        return "no GPU" if wanted.count == 1 else f"fewer than {wanted.count} GPUs"
    share = f"with {wanted.milli} thousandths"
    return f"no single GPU {share}" if wanted.count == 1 else f"fewer than {wanted.count} GPUs {share}"
