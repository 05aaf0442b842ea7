"""What a decision reads: the cluster at one revision.

A snapshot copies nothing. It is a window on the live tables that refuses to be read once they have moved on, so a cycle can never
mix two states of the cluster; `detach` gives one that lives on. Arrays are read-only windows too: whoever wants to keep one across
changes copies it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import StaleSnapshot
from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model.columns.domains import Topology
from wharfinger.model.columns.metric_table import MetricColumn, Samples
from wharfinger.model.columns.node_table import Fact, ImageState
from wharfinger.model.columns.pod_table import Placement, PodClass, Tally
from wharfinger.model.columns.selection import CorrectedSelection, Corrections, Selection
from wharfinger.model.columns.strings import StringTable
from wharfinger.model.objects.node_view import NodeView
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.tables import ClusterTables, ObjectStore


class Snapshot:
    """The cluster at `revision`, as seen at time `now` (seconds since 1970). Rows are 0 … n_nodes-1, in no order that means anything."""

    __slots__ = ("_tables", "now", "revision")

    def __init__(self, tables: ClusterTables, now: float) -> None:
        self._tables = tables
        self.revision = tables.revision
        self.now = now

    def __repr__(self) -> str:
        return f"Snapshot(revision {self.revision}, {count(self._tables.nodes.rows.count, 'node')})"

    def _current(self) -> ClusterTables:
        tables = self._tables
        if tables.revision != self.revision:
            raise StaleSnapshot(f"snapshot of revision {self.revision} was read at revision {tables.revision}")
        return tables

    def detach(self) -> Snapshot:
        """The same snapshot on tables of its own, which nobody changes; takes time and memory in proportion to the cluster."""
        return Snapshot(self._current().copy(), self.now)

    # ── nodes ──

    @property
    def n_nodes(self) -> int:
        """How many nodes there are."""
        return self._current().nodes.rows.count

    @property
    def names(self) -> Sequence[str]:
        """The node names, by row."""
        return self._current().nodes.names

    @property
    def name_hashes(self) -> NDArray[np.uint64]:
        """A stable hash of each node name, (n_nodes,) uint64."""
        return self._current().nodes.name_hashes.view

    @property
    def name_codes(self) -> NDArray[np.int32]:
        """The string code of each node's name, (n_nodes,) int32."""
        return self._current().nodes.name_codes.view

    def row(self, name: str) -> int | None:
        """The row of a node, None if there is no such node."""
        return self._current().nodes.row_of.get(name)

    def node(self, row: int) -> NodeView:
        """One node in plain Python values."""
        tables = self._current()
        return NodeView(row, tables.nodes.objects[row], self.pods_on(row))

    def pods_on(self, row: int) -> Sequence[PodView]:
        """The pods on a node, assumed ones included."""
        return [placement.pod for placement in self._current().pods.by_row[row].values()]

    def placed(self, uid: str) -> tuple[int, PodView] | None:
        """The row a pod is on and the pod itself, assumed ones included; None if it is not placed."""
        placement = self._current().pods.by_uid.get(uid)
        return None if placement is None else (placement.row, placement.pod)

    def placement(self, uid: str) -> Placement | None:
        """Where a pod is, None if it is not placed; not to be changed by the caller."""
        return self._current().pods.by_uid.get(uid)

    def nominated(self, row: int) -> Sequence[PodView]:
        """The pending pods for which preemption makes room on a node."""
        tables = self._current()
        return tables.nominations.on(tables.nodes.names[row])

    def nominated_to(self, uid: str) -> str | None:
        """The node that a pending pod is nominated to, or None."""
        return self._current().nominations.node_of(uid)

    @property
    def nominated_rows(self) -> NDArray[np.intp]:
        """The nodes that some pod is nominated to, ascending."""
        return self._current().nominated_rows()

    @property
    def strings(self) -> StringTable:
        """What the codes in string columns stand for; with another table the numbers of `taint_set` are others too."""
        return self._current().nodes.strings

    # ── resources ──

    def resource_index(self, name: str) -> int | None:
        """The place of a resource in the tables below (cpu 0, memory 1, ephemeral-storage 2); None if no node or pod names it."""
        return self._current().nodes.resources.index.get(name)

    @property
    def resource_names(self) -> Sequence[str]:
        """The resources in order of their places."""
        return tuple(self._current().nodes.resources.index)

    @property
    def allocatable(self) -> NDArray[np.int64]:
        """What pods may use, (n_resources, n_nodes) int64: millicores, bytes, units; 0 where a node does not offer it."""
        return self._current().nodes.resources.allocatable.view

    @property
    def capacity(self) -> NDArray[np.int64]:
        """What nodes have, (n_resources, n_nodes) int64."""
        return self._current().nodes.resources.capacity.view

    @property
    def requested(self) -> NDArray[np.int64]:
        """What placed pods ask for, (n_resources, n_nodes) int64."""
        return self._current().nodes.resources.requested.view

    @property
    def has_allocatable(self) -> NDArray[np.bool_]:
        """True if a node names the resource among its allocatable ones, (n_resources, n_nodes) bool."""
        return self._current().nodes.resources.has_allocatable.view

    @property
    def has_capacity(self) -> NDArray[np.bool_]:
        """True if a node names the resource in its capacity, (n_resources, n_nodes) bool."""
        return self._current().nodes.resources.has_capacity.view

    @property
    def nonzero(self) -> NDArray[np.int64]:
        """Requests of cpu (millicores) and memory (bytes) with defaults for containers that name none, (2, n_nodes) int64."""
        return self._current().nodes.resources.nonzero.view

    @property
    def pod_count(self) -> NDArray[np.int64]:
        """How many pods are on each node, (n_nodes,) int64."""
        return self._current().nodes.resources.pod_count.view

    @property
    def allowed_pods(self) -> NDArray[np.int64]:
        """How many pods each node takes (allocatable `pods`), (n_nodes,) int64."""
        return self._current().nodes.resources.allowed_pods.view

    @property
    def pod_capacity(self) -> NDArray[np.int64]:
        """Capacity `pods`, (n_nodes,) int64."""
        return self._current().nodes.resources.pod_capacity.view

    # ── facts about nodes ──

    @property
    def unschedulable(self) -> NDArray[np.bool_]:
        """True if each node is cordoned, (n_nodes,) bool."""
        return self._current().nodes.unschedulable.view

    def fact(self, name: str, read: Fact, *, text: bool = False) -> NDArray[np.float64] | NDArray[np.int32]:
        """A plain value of each node object, (n_nodes,): float64 with NaN where absent, or with `text` int32 string codes, -1 where absent.

        `name` stands for `read` and `text`, which are used only when the name is new.
        """
        return self._current().nodes.facts.values(name, read, text=text)

    def label(self, key: str) -> NDArray[np.int32]:
        """The string code of each node's label, (n_nodes,) int32; -1 where absent."""
        return self._current().nodes.labels.codes(key)

    def annotation(self, key: str) -> NDArray[np.int32]:
        """The string code of each node's annotation, (n_nodes,) int32; -1 where absent."""
        return self._current().nodes.annotations.codes(key)

    def condition(self, kind: str) -> NDArray[np.int32]:
        """The string code (True, False, Unknown) of each node's condition of a type, (n_nodes,) int32; -1 where absent."""
        return self._current().nodes.conditions.codes(kind)

    @property
    def taint_set(self) -> NDArray[np.int32]:
        """The number of each node's list of taints, (n_nodes,) int32; equal numbers mean equal lists, 0 is the empty one."""
        return self._current().nodes.taint_set.view

    def taints(self, number: int) -> tuple[objects.Taint, ...]:
        """The taints behind a number of `taint_set`, in the nodes' own order."""
        return self._current().nodes.taints[number]

    def image(self, name: str) -> ImageState:
        """The nodes that hold an image of exactly that name."""
        return self._current().nodes.images.state(name)

    def port_users(self, protocol: str, port: int) -> Mapping[int, tuple[str, ...]]:
        """The host IPs on which a port is in use, by row."""
        return self._current().ports.users(protocol, port)

    # ── domains and selections ──

    def topology(self, key: str) -> Topology:
        """The domains of a topology key, with their members."""
        return self._current().nodes.topologies.of(key)

    def domain(self, key: str) -> tuple[NDArray[np.int32], int]:
        """The domain of each node, (n_nodes,) int32 with -1 where the label is absent, and how many domains there are."""
        topology = self.topology(key)
        return topology.ids, topology.n_domains

    def selection(
        self,
        key: Hashable,
        predicate: Callable[[PodView], bool] | None,
        *,
        per_pod: bool = False,
        value: Callable[[PodView], float | None] | None = None,
        passing: bool = False,
    ) -> Selection:
        """Running counts over the placed pods that satisfy a predicate (or the sum of their values; None does not count).

        `key` stands for the predicate, the value and everything they depend on apart from the pod: they are called for a key that
        is new, and kept. Unless `per_pod`, both are asked once per template, so they may not look at what differs within one (name,
        uid, times, node). A selection that is unlikely to be used again is `passing`, and kept for a short while only.
        """
        return self._current().selections.of(key, predicate, per_pod=per_pod, value=value, passing=passing)

    def corrected(self, selection: Selection, corrections: Corrections) -> CorrectedSelection:
        """The numbers of a selection of this cluster, where some pods count otherwise."""
        tables = self._current()
        return CorrectedSelection(tables.nodes, tables.pods, selection, corrections)

    def placements_with(self, key: Hashable, value_of: Callable[[PodView], Hashable], value: Hashable) -> Collection[Placement]:
        """The pods of which `value_of` is equal to a value, by an index that is kept; `key` stands for `value_of`."""
        return self._current().pod_readers.placements(key, value_of).of(value)

    def classes_with(self, key: Hashable, value_of: Callable[[PodView], Hashable], value: Hashable) -> Collection[PodClass]:
        """The same for what is equal for all pods of a template: the classes of pods that have the value, `count` in each."""
        return self._current().pod_readers.classes(key, value_of).of(value)

    def tally(self, key: Hashable, derive: Callable[[PodView], Iterable[Hashable]]) -> Tally:
        """Running counts of what placed pods bring with them: how many pods for each thing that `derive` finds in a pod.

        `key` stands for `derive`, which is asked once per template.
        """
        return self._current().pod_readers.tally(key, derive)

    # ── metrics and other objects ──

    def metric(self, *names: str) -> MetricColumn | None:
        """The samples of a metric by row, of the first of its names that has any; None if none ever had."""
        metrics = self._current().metrics
        name = metrics.known(names)
        return None if name is None else metrics.column(name)

    @property
    def samples(self) -> Mapping[str, Samples]:
        """The samples of every metric as they came: node name → (value, time)."""
        return self._current().metrics.samples

    def unseen(self, *names: str, window: float = 0.0) -> Mapping[str, NDArray[np.float64]] | None:
        """Requests of pods that began after their node's sample of a metric, or have not begun: cpu (millicores), memory (bytes).

        Those that began within `window` seconds before it count as well. Each (n_nodes,) float64, 0 where there is no sample; None if
        the metric never had any.
        """
        metrics = self._current().metrics
        name = metrics.known(names)
        return None if name is None else metrics.unseen(name, window)

    @property
    def metrics_revision(self) -> int:
        """A number that changes with every new set of samples."""
        return self._current().metrics.revision

    @property
    def moment(self) -> Hashable:
        """Something that is equal for two snapshots if the time, the samples of metrics and the order of the rows are."""
        tables = self._current()
        return self.now, tables.metrics.revision, tables.layout_revision

    @property
    def objects(self) -> ObjectStore:
        """Everything that is neither node nor placed pod."""
        return self._current().objects

    # ── what changed ──

    @property
    def layout_revision(self) -> int:
        """The revision in which a row was last added, removed or moved."""
        return self._current().layout_revision

    def node_changes(self, since: int) -> NDArray[np.intp] | None:
        """The rows whose node object changed after a revision, ascending; None if rows have moved since."""
        tables = self._current()
        return None if since < tables.layout_revision else tables.node_changes.since(since)

    def usage_changes(self, since: int) -> NDArray[np.intp] | None:
        """The rows whose pods (or nominated pods) changed after a revision, ascending; None if rows have moved since."""
        tables = self._current()
        return None if since < tables.layout_revision else tables.usage_changes.since(since)

    def __getstate__(self) -> Any:
        raise TypeError("a snapshot is a window on live tables and cannot be pickled")
