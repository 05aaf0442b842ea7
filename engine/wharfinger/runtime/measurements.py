"""Where signals end up: the samples that decisions read, and pods that wait for other samples."""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.model.snapshot import Snapshot
from wharfinger.runtime.queue import SchedulingQueue
from wharfinger.runtime.world import World
from wharfinger.signals.mapping import Mapped
from wharfinger.signals.node_names import NodeNames

_MEASURED = Change(events=ClusterEvent.METRIC, label="MetricUpdate")


class Measurements:
    """A `Sink` of signals, on the event loop that decides."""

    def __init__(self, world: World, queue: SchedulingQueue, stirred: Callable[[], None]) -> None:
        self._world = world
        self._queue = queue
        self._stirred = stirred
        self._nodes: NodeNames | None = None

    def nodes(self) -> NodeNames:
        """The nodes as they are now."""
        layout, names, nodes = self._world.state.nodes_listed()
        self._nodes = NodeNames(layout, names, nodes, self._nodes)
        return self._nodes

    def publish(self, key: str, found: Mapped) -> None:
        """None; decisions read these samples of a signal from now on, and pods that others rejected are tried again."""
        self._world.state.put_metric(key, found.column, found.samples, found.layout)
        self.stir()

    def drop(self, key: str) -> None:
        """None; nobody reads this signal any more."""
        self._world.state.drop_metric(key)

    def stir(self) -> None:
        """None; pods that samples rejected are tried again."""
        self._queue.notify(_MEASURED)
        self._stirred()

    def snapshot(self) -> Snapshot:
        """The cluster as decisions see it now."""
        return self._world.snapshot()
