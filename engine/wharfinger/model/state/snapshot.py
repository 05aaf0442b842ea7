"""The cluster at one revision, as decisions read it.

A snapshot copies nothing. It is a view of the live tables that raises StaleSnapshot once these have changed, so a cycle never mixes two
states of the cluster; `detach` returns a copy that stays valid. Arrays are read-only views too: to keep one across changes, copy it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.errors import StaleSnapshot, UnknownObject
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.columns.arrays import StringTable
from wharfinger.model.columns.domains import Topology
from wharfinger.model.columns.metric_table import MetricColumn, Samples
from wharfinger.model.columns.node_table import Fact, ImageState
from wharfinger.model.columns.pod_table import ClassIndex, Placement, PlacementIndex, PodClass, Tally
from wharfinger.model.columns.selection import CorrectedSelection, Corrections, Selection
from wharfinger.model.devices.device_table import DeviceTable
from wharfinger.model.devices.held_devices import HeldDevice, held_devices
from wharfinger.model.devices.shared_gpus import GpuNames, GpuTable
from wharfinger.model.objects.node_view import NodeView
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import ObjectStore
from wharfinger.model.state.tables import ClusterTables, ReadGpus


class KnownGroup(NamedTuple):
    """The state of a group: its members, placed or not, and the minimum of its PodGroup; None if nothing."""

    size: int | None
    least: int | None


def _least(store: ObjectStore, namespace: str, name: str) -> int | None:
    group = store.get(objects.PodGroup, name, namespace)
    if group is not None:
        gang = group.spec.scheduling_policy.gang
        return None if gang is None else gang.min_count or None
    older = store.get(objects.CoschedulingPodGroup, name, namespace)
    return None if older is None else older.spec.min_member or None


class Snapshot:
    """The cluster at `revision` and time `now` (seconds since 1970). Rows are 0 … n_nodes-1, in no meaningful order.

    `monotonic` is the same moment in seconds of a clock that is never set, for waits; `now` if there is no such clock.
    """

    __slots__ = ("_tables", "monotonic", "now", "revision")

    def __init__(self, tables: ClusterTables, now: float, monotonic: float | None = None) -> None:
        self._tables = tables
        self.revision = tables.revision
        self.now = now
        self.monotonic = now if monotonic is None else monotonic

    def is_same(self, other: Snapshot) -> bool:
        """True if both show the same state of the same cluster, at the same time."""
        return self._tables is other._tables and self.revision == other.revision and self.now == other.now

    def __repr__(self) -> str:
        return f"Snapshot(revision {self.revision}, {wording.count(self._tables.nodes.rows.count, 'node')})"

    def _current(self) -> ClusterTables:
        tables = self._tables
        if tables.revision != self.revision:
            raise StaleSnapshot(f"snapshot of revision {self.revision} was read at revision {tables.revision}")
        return tables

    def detach(self) -> Snapshot:
        """A copy of the snapshot on its own tables, which do not change; takes time and memory in proportion to the cluster."""
        return Snapshot(self._current().copy(), self.now, self.monotonic)

    # ── nodes ──

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
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
        """The row of a node; None if there is no such node."""
        return self._current().nodes.row_of.get(name)

    def known_row(self, name: str) -> int:
        """The row of a node; UnknownObject, which proposes the nearest name, if there is no such node."""
        row = self.row(name)
        if row is None:
            nearest = wording.closest(name, sorted(self.names))
            raise UnknownObject(f"there is no node {name}" + (f"; did you mean {nearest}?" if nearest else ""))
        return row

    def require_labels(self, keys: Iterable[str]) -> None:
        """Raise UnknownObject, which proposes the nearest label, for a label that no node has."""
        for key in keys:
            if not (self.label(key) >= 0).any():
                known = sorted({label for row in range(self.n_nodes) for label in self.node_object(row).metadata.labels})
                nearest = wording.closest(key, known)
                raise UnknownObject(f"no node has the label {key}" + (f"; did you mean {nearest}?" if nearest else ""))

    def node(self, row: int) -> NodeView:
        """One node in plain Python values."""
        tables = self._current()
        return NodeView(row, tables.nodes.objects[row], self.pods_on(row))

    def node_object(self, row: int) -> objects.Node:
        """The object of one node."""
        return self._current().nodes.objects[row]

    def pods_on(self, row: int) -> Sequence[PodView]:
        """The pods on a node, assumed ones included."""
        return [placement.pod for placement in self._current().pods.by_row[row].values()]

    def placed(self, uid: str) -> tuple[int, PodView] | None:
        """The row a pod is on and the pod itself, assumed ones included; None if it is not placed."""
        placement = self._current().pods.by_uid.get(uid)
        return None if placement is None else (placement.row, placement.pod)

    def placement(self, uid: str) -> Placement | None:
        """The placement of a pod; None if it is not placed. The caller must not change it."""
        return self._current().pods.by_uid.get(uid)

    def leaving(self, pod: PodView) -> bool:
        """True if a pod is terminating, or is being evicted by this scheduler and not seen to be terminating yet."""
        return pod.terminating or pod.uid in self._current().leaving

    @property
    def evicted(self) -> Collection[str]:
        """The uids of the pods that are being evicted by this scheduler."""
        return self._current().leaving

    def nominated(self, row: int) -> Sequence[PodView]:
        """The pending pods that are nominated to a node, in order of nomination."""
        tables = self._current()
        return tables.nominations.on(tables.nodes.names[row])

    def nominated_to(self, uid: str) -> str | None:
        """The node that a pending pod is nominated to, or None."""
        return self._current().nominations.node_of(uid)

    def nominated_row(self, uid: str) -> int:
        """The row that a pending pod is nominated to, -1 for none."""
        node = self.nominated_to(uid)
        row = None if node is None else self.row(node)
        return -1 if row is None else row

    @property
    def nominated_rows(self) -> NDArray[np.intp]:
        """The rows that some pod is nominated to, (n,) intp ascending."""
        return self._current().nominated_rows()

    @property
    def strings(self) -> StringTable:
        """The table of the codes in string columns. If it is a different object, the numbers of `taint_set` have changed too."""
        return self._current().nodes.strings

    # ── resources ──

    def resource_index(self, name: str) -> int | None:
        """The index of a resource in the arrays below (cpu 0, memory 1, ephemeral-storage 2); None if no node or pod names it."""
        return self._current().nodes.resources.index.get(name)

    @property
    def resource_names(self) -> Sequence[str]:
        """The resource names in order of their indexes."""
        return tuple(self._current().nodes.resources.index)

    @property
    def allocatable(self) -> NDArray[np.int64]:
        """The allocatable amounts, (n_resources, n_nodes) int64: millicores, bytes, units; 0 where a node does not have the resource."""
        return self._current().nodes.resources.allocatable.view

    @property
    def capacity(self) -> NDArray[np.int64]:
        """The capacity of nodes, (n_resources, n_nodes) int64."""
        return self._current().nodes.resources.capacity.view

    @property
    def requested(self) -> NDArray[np.int64]:
        """The sum of the requests of placed pods, (n_resources, n_nodes) int64."""
        return self._current().nodes.resources.requested.view

    @property
    def has_allocatable(self) -> NDArray[np.bool_]:
        """True for nodes that name the resource as allocatable, (n_resources, n_nodes) bool."""
        return self._current().nodes.resources.has_allocatable.view

    @property
    def has_capacity(self) -> NDArray[np.bool_]:
        """True for nodes that name the resource in their capacity, (n_resources, n_nodes) bool."""
        return self._current().nodes.resources.has_capacity.view

    @property
    def nonzero(self) -> NDArray[np.int64]:
        """Requests of cpu (millicores) and memory (bytes) with defaults for containers without requests, (2, n_nodes) int64."""
        return self._current().nodes.resources.nonzero.view

    @property
    def pod_count(self) -> NDArray[np.int64]:
        """The number of pods on each node, (n_nodes,) int64."""
        return self._current().nodes.resources.pod_count.view

    @property
    def allowed_pods(self) -> NDArray[np.int64]:
        """The number of pods that each node can run (allocatable `pods`), (n_nodes,) int64."""
        return self._current().nodes.resources.allowed_pods.view

    @property
    def pod_capacity(self) -> NDArray[np.int64]:
        """The capacity `pods` of each node, (n_nodes,) int64."""
        return self._current().nodes.resources.pod_capacity.view

    def gpus(self, names: GpuNames) -> GpuTable:
        """The single GPUs of all nodes, counted by these names."""
        return self._current().gpu_table(names)

    def reading_gpus(self, names: GpuNames) -> ReadGpus:
        """The single GPUs of all nodes, counted in steps by these names."""
        return ReadGpus(self._current(), names)

    # ── facts about nodes ──

    @property
    def unschedulable(self) -> NDArray[np.bool_]:
        """True for nodes that are cordoned, (n_nodes,) bool."""
        return self._current().nodes.unschedulable.view

    def fact(self, name: str, read: Fact, *, text: bool = False) -> NDArray[np.float64] | NDArray[np.int32]:
        """A plain value of each node object, (n_nodes,): float64 with NaN where absent, or with `text` int32 string codes, -1 where absent.

        `name` identifies `read` and `text`, which are used only if the name is new.
        """
        return self._current().nodes.facts.values(name, read, text=text)

    def label(self, key: str) -> NDArray[np.int32]:
        """The string code of each node's label, (n_nodes,) int32; -1 where absent."""
        return self._current().nodes.labels.codes(key)

    def may_have_label(self, key: str) -> bool:
        """False if no node has a label."""
        return self._current().nodes.labels.may_have(key)

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
        """The taints of a number of `taint_set`, in the nodes' own order."""
        return self._current().nodes.taints[number]

    @property
    def n_taint_sets(self) -> int:
        """The number of lists of taints; some may be those of former nodes."""
        return len(self._current().nodes.taints)

    def taint_sets_with(self, key: str) -> Sequence[int]:
        """The numbers in `taint_set` of the lists that have a taint with a key, ascending."""
        return self._current().nodes.taints_by_key.get(key, ())

    def image(self, name: str) -> ImageState:
        """The nodes that hold an image of exactly that name."""
        return self._current().nodes.images.state(name)

    def port_users(self, protocol: str, port: int) -> Mapping[int, tuple[str, ...]]:
        """The host IPs on which a port is in use, by row."""
        return self._current().ports.users(protocol, port)

    # ── devices ──

    @property
    def devices(self) -> DeviceTable:
        """The devices of all nodes. The table is made at the first call for a cluster."""
        return self._current().devices

    def held_devices(self, row: int) -> list[HeldDevice]:
        """The devices of one node with who holds them. They are read again at each call, without a table."""
        tables, node = self._current(), self.node(row)
        return held_devices(node.object, node.pods, tables.objects, tables.device_sources)

    # ── domains and selections ──

    def topology(self, key: str) -> Topology:
        """The domains of a topology key, with their members."""
        return self._current().nodes.topologies.of(key)

    def domain(self, key: str) -> tuple[NDArray[np.int32], int]:
        """The domain of each node, (n_nodes,) int32 with -1 where the label is absent, and the number of domains."""
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
        """Running counts over the placed pods that satisfy a predicate (or sums of their values; a pod whose value is None is left out).

        `key` identifies `predicate`, `value` and everything they depend on apart from the pod; they are used only if the key is new. Unless
        `per_pod`, both are called once per template, so they must not depend on name, uid, times or node. A selection that is unlikely to
        be used again is `passing`, and kept for a short time only.
        """
        return self._current().selections.of(key, predicate, per_pod=per_pod, value=value, passing=passing)

    def corrected(self, selection: Selection, corrections: Corrections) -> CorrectedSelection:
        """The numbers of a selection of this cluster, with corrected weights of some pods."""
        tables = self._current()
        return CorrectedSelection(tables.nodes, tables.pods, selection, corrections)

    def placements_with(self, key: Hashable, value_of: Callable[[PodView], Hashable], value: Hashable) -> Collection[Placement]:
        """The placed pods for which `value_of` returns a value, from a kept index; `key` identifies `value_of`."""
        return self.placement_index(key, value_of).of(value)

    def classes_with(self, key: Hashable, value_of: Callable[[PodView], Hashable], value: Hashable) -> Collection[PodClass]:
        """The classes of placed pods for which `value_of` returns a value; it must be equal for all pods of a template."""
        return self.class_index(key, value_of).of(value)

    def placement_index(self, key: Hashable, value_of: Callable[[PodView], Hashable]) -> PlacementIndex:
        """The index of `placements_with`."""
        return self._current().pod_readers.placements(key, value_of)

    @property
    def n_templates(self) -> int:
        """The number of different templates of placed pods."""
        return len(self._current().pods.classes)

    def class_index(self, key: Hashable, value_of: Callable[[PodView], Hashable]) -> ClassIndex:
        """The index of `classes_with`."""
        return self._current().pod_readers.classes(key, value_of)

    def tally(self, key: Hashable, derive: Callable[[PodView], Iterable[Hashable]]) -> Tally:
        """The running number of placed pods for each thing that `derive` finds in a pod.

        `key` identifies `derive`, which is called once per template.
        """
        return self._current().pod_readers.tally(key, derive)

    # ── metrics and other objects ──

    def metric(self, *names: str) -> MetricColumn | None:
        """The samples of a metric by row, under the first of its names that has samples; None if none has."""
        metrics = self._current().metrics
        name = metrics.known(names)
        return None if name is None else metrics.column(name)

    @property
    def samples(self) -> Mapping[str, Samples]:
        """The samples of every metric as they were set: node name → (value, time)."""
        return self._current().metrics.samples

    def unseen(self, *names: str, window: float = 0.0) -> Mapping[str, NDArray[np.float64]] | None:
        """Requests of pods that started after their node's sample of a metric, or have not started: cpu (millicores), memory (bytes).

        Pods that started within `window` seconds before the sample count too. Each (n_nodes,) float64, 0 without a sample; None if the
        metric has no samples.
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
        """A value that is equal for two snapshots with equal time, metric samples and order of rows."""
        tables = self._current()
        return self.now, tables.metrics.revision, tables.layout_revision

    @property
    def objects(self) -> ObjectStore:
        """The objects that are neither nodes nor placed pods."""
        return self._current().objects

    def group(self, namespace: str, name: str) -> KnownGroup:
        """The state of a group."""
        tables = self._current()
        return KnownGroup(tables.group_sizes.get(f"{namespace}/{name}"), _least(tables.objects, namespace, name))

    @property
    def group_sizes(self) -> Mapping[str, int]:
        """The number of known members of groups, placed or not, by key (`namespace/name`)."""
        return self._current().group_sizes

    # ── what changed ──

    @property
    def layout_revision(self) -> int:
        """The revision in which a row was last added, removed or moved."""
        return self._current().layout_revision

    def node_changes(self, since: int) -> NDArray[np.intp] | None:
        """The rows whose node object changed after a revision, (n,) intp ascending; None if rows were added or removed since."""
        tables = self._current()
        return None if since < tables.layout_revision else tables.node_changes.since(since)

    def usage_changes(self, since: int) -> NDArray[np.intp] | None:
        """The rows whose pods or nominated pods changed after a revision, (n,) intp ascending; None if rows were added or removed since."""
        tables = self._current()
        return None if since < tables.layout_revision else tables.usage_changes.since(since)

    def changed_nodes(self, since: int) -> NDArray[np.intp]:
        """The rows whose node object changed after a revision, and added rows, by their present numbers."""
        tables = self._current()
        return tables.node_changes.since_any_layout(since) if since < tables.layout_revision else tables.node_changes.since(since)

    def changed_pods(self, since: int) -> NDArray[np.intp]:
        """The rows whose pods or nominated pods changed after a revision, by their present numbers; the layout may have changed since."""
        tables = self._current()
        return tables.usage_changes.since_any_layout(since) if since < tables.layout_revision else tables.usage_changes.since(since)

    def __getstate__(self) -> Any:
        raise TypeError("a snapshot is a window on live tables and cannot be pickled")
