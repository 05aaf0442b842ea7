"""The tables of a cluster's state, and the changes that keep them consistent with each other.

`cluster_state` has the state machine of pods; here a pod is on a row or not. In addition to the columns of nodes and pods there are the
nominations (pods for which preemption reserved a node), the other objects, and what groups and evictions need to know.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from functools import partial
from typing import Generic, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.model import objects
from wharfinger.model.columns.arrays import RowChanges
from wharfinger.model.columns.metric_table import MetricColumn, MetricTable, Samples
from wharfinger.model.columns.node_table import NodeTable
from wharfinger.model.columns.pod_table import Placement, PodReaders, PodTable
from wharfinger.model.columns.resource_table import HostPorts
from wharfinger.model.columns.selection import Selections
from wharfinger.model.devices import allocated
from wharfinger.model.devices.device import DeviceSource
from wharfinger.model.devices.device_table import READ_PER_STEP, DeviceTable
from wharfinger.model.devices.shared_gpus import GpuNames, GpuTable, GpuTables, SharedGpus
from wharfinger.model.devices.sliced_devices import SlicedDevices
from wharfinger.model.objects.node_view import NodePart, changed_parts
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import ObjectStore
from wharfinger.steps import at_once

V = TypeVar("V")


class PodsByNode(Generic[V]):
    """Values of pods by node name, known or not. A pod has at most one node. `version` changes with every pod added or removed."""

    __slots__ = ("_by_node", "_node_of", "version")

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._by_node: dict[str, dict[str, V]] = {}
        self.version = 0

    def __contains__(self, uid: object) -> bool:
        return uid in self._node_of

    def get(self, uid: str) -> V | None:
        """The value of a pod; None if it is not here."""
        node = self._node_of.get(uid)
        return None if node is None else self._by_node[node][uid]

    def node_of(self, uid: str) -> str | None:
        """The node of a pod, or None."""
        return self._node_of.get(uid)

    def on(self, node: str) -> Sequence[V]:
        """The values of the pods of a node, in the order in which they were put."""
        return tuple(self._by_node.get(node, {}).values())

    def nodes(self) -> frozenset[str]:
        """The nodes that have a pod."""
        return frozenset(self._by_node)

    def items(self) -> list[tuple[V, str]]:
        """The value of every pod, with its node."""
        return [(value, node) for node, pods in self._by_node.items() for value in pods.values()]

    def put(self, uid: str, node: str, value: V) -> None:
        """Put a pod on a node; replaces an earlier entry of the pod."""
        self.take(uid)
        self.version += 1
        self._node_of[uid] = node
        self._by_node.setdefault(node, {})[uid] = value

    def take(self, uid: str) -> str | None:
        """Remove a pod; returns its node, or None if it is not here."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            self.version += 1
            pods = self._by_node[node]
            del pods[uid]
            if not pods:
                del self._by_node[node]
        return node

    def take_all(self, node: str) -> list[V]:
        """Remove the pods of a node; returns their values."""
        pods = self._by_node.pop(node, {})
        self.version += len(pods)
        for uid in pods:
            del self._node_of[uid]
        return list(pods.values())


class ClusterTables:
    """The tables of one cluster.

    `revision` grows with every change; `layout_revision` is the one in which a row was last added, removed or moved. `newest` is
    the latest time in any object or sample, the best estimate of the present time of the cluster. `device_sources` say which devices nodes
    have; their table is made when it is first read.
    """

    __slots__ = (
        "__weakref__",
        "_devices",
        "_nominated",
        "_nominated_at",
        "device_sources",
        "gpus",
        "group_sizes",
        "layout_revision",
        "leaving",
        "metrics",
        "newest",
        "node_changes",
        "nodes",
        "nominations",
        "objects",
        "pod_readers",
        "pods",
        "ports",
        "revision",
        "selections",
        "usage_changes",
    )

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self.pods = PodTable()
        self.ports = HostPorts()
        self.gpus = GpuTables()
        self.selections = Selections(self.nodes, self.pods)
        self.pod_readers = PodReaders(self.pods)
        self.metrics = MetricTable(self.nodes, self.pods)
        self.nominations = PodsByNode[PodView]()
        self._nominated_at = (-1, -1)
        self._nominated: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self.objects = ObjectStore()
        self.node_changes = RowChanges(self.nodes.rows)
        self.usage_changes = RowChanges(self.nodes.rows)
        self.group_sizes: dict[str, int] = {}
        self.leaving: set[str] = set()
        self.revision = 0
        self.layout_revision = 0
        self.newest = 0.0
        self.device_sources: tuple[DeviceSource, ...] = (SlicedDevices(), SharedGpus(GpuNames()))
        self._devices: DeviceTable | None = None

    @property
    def devices(self) -> DeviceTable:
        """The devices of all nodes; made at the first call, and kept up to date from then on."""
        if self._devices is None:
            self._devices = DeviceTable(self, self.device_sources)
        return self._devices

    def read_devices(self, sources: Sequence[DeviceSource]) -> None:
        """Set the sources of the devices of nodes, in order: devices of an earlier source come first."""
        self.revision += 1
        self.device_sources, self._devices = tuple(sources), None
        for row in range(self.nodes.rows.count):
            self.usage_changes.record(row, self.revision)

    def objects_changed(self) -> None:
        """Record the rows whose devices are others because of an object that is neither node nor pod."""
        if self._devices is not None:
            self._devices.follow_objects()

    def add_node(self, node: objects.Node) -> int:
        """Add a new node; returns its row."""
        row = self.nodes.add(node)
        self.pods.row_added()
        self.gpus.set_node(row, node, ())
        self.revision += 1
        self.layout_revision = self.revision
        self.node_changes.record(row, self.revision)
        self._note_node_times(node)
        self.nodes.compact()
        return row

    def update_node(self, node: objects.Node) -> None:
        """Apply a node's new object; a heartbeat is not recorded as a change of its row."""
        row = self.nodes.row_of[node.metadata.name]
        changed = changed_parts(self.nodes.objects[row], node)
        if changed:
            self.nodes.update(node, changed)  # first: a bad quantity must change nothing
        else:
            self.nodes.objects[row] = node
        self.revision += 1
        self._note_node_times(node)
        if NodePart.ALLOCATABLE in changed:
            self.gpus.set_node(row, node, self._pods_on(row))
        if changed:
            self.node_changes.record(row, self.revision)
            self.nodes.compact()

    def remove_node(self, name: str) -> list[Placement]:
        """Remove a node and its pods; returns the placements of these pods."""
        row = self.nodes.row_of[name]
        orphans = list(self.pods.by_row[row].values())
        for placement in orphans:
            self.take_out(placement)
        self.revision += 1
        self.layout_revision = self.revision
        last = self.nodes.remove(row)
        self.pods.row_removed(row, last)
        if last != row:
            self._move_ports(last, row)
        return orphans

    def _move_ports(self, source: int, target: int) -> None:
        for placement in self.pods.by_row[target].values():
            ports = placement.pod.host_ports
            self.ports.remove(source, ports)
            self.ports.take(target, ports)

    def put(self, pod: PodView, row: int, *, assumed: bool) -> None:
        """Place a pod that is on no row."""
        demand = pod.demand
        self.revision += 1
        self.nodes.resources.take(row, demand.requests, demand.nonzero)
        if demand.host_ports:
            self.ports.take(row, demand.host_ports)
        self.pods.add(pod, row, assumed=assumed)
        if self.gpus:
            self.gpus.count_pod(row, pod, 1, partial(self._pods_on, row))
        self.usage_changes.record(row, self.revision)
        self.nodes.compact()  # decisions add codes too

    def take_out(self, placement: Placement) -> None:
        """Remove a pod from its row."""
        demand, row = placement.pod.demand, placement.row
        self.revision += 1
        self.nodes.resources.remove(row, demand.requests, demand.nonzero)
        if demand.host_ports:
            self.ports.remove(row, demand.host_ports)
        self.pods.remove(placement)
        if self.gpus:
            self.gpus.count_pod(row, placement.pod, -1, partial(self._pods_on, row))
        self.usage_changes.record(row, self.revision)

    def renew(self, placement: Placement, pod: PodView) -> None:
        """Replace a placed pod by a later version with the same demand; it is not assumed any more."""
        row = placement.row
        self.revision += 1
        self.pods.renew(placement, pod)
        if self.gpus:
            self.gpus.count_pods(row, pod, partial(self._pods_on, row))
        self.usage_changes.record(row, self.revision)

    def _pods_on(self, row: int) -> list[PodView]:
        return [placement.pod for placement in self.pods.by_row[row].values()]

    def gpu_table(self, names: GpuNames) -> GpuTable:
        """The single GPUs of all nodes, counted by these names; kept from the first call on."""
        return self.gpus.known(names) or at_once(self.gpu_table_in_steps(names))

    def gpu_table_in_steps(self, names: GpuNames) -> Generator[None, None, GpuTable]:
        """`gpu_table` in steps; no steps if the table is known."""
        known = self.gpus.known(names)
        if known is not None:
            return known
        table, began, read = GpuTable(self.nodes.rows, names), self.revision, 0
        for row in self.nodes.present_rows():
            table.set_node(row, self.nodes.objects[row], pods := self._pods_on(row))
            read += 1 + len(pods)
            if read >= READ_PER_STEP:
                read = 0
                yield
        known = self.gpus.known(names)
        if known is not None:  # another caller finished between two steps
            return known
        changed = self.node_changes.since_any_layout(began), self.usage_changes.since_any_layout(began)
        for row in np.union1d(*changed).tolist():
            table.set_node(row, self.nodes.objects[row], self._pods_on(row))
        self.gpus.add(table)
        self._count_gpus_by(names)
        return table

    def _count_gpus_by(self, names: GpuNames) -> None:
        """Give policies the GPUs under these names, a setting of the plugin that chooses among them."""
        if any(isinstance(source, SharedGpus) and source.names != names for source in self.device_sources):
            sources = [SharedGpus(names) if isinstance(source, SharedGpus) else source for source in self.device_sources]
            self.device_sources, self._devices = tuple(sources), None

    def nominate(self, pod: PodView, node_name: str) -> None:
        """Nominate a node, known or not, for a pending pod; its row counts as changed, so filters run on it again."""
        self.remove_nomination(pod.uid)
        self.revision += 1
        self.nominations.put(pod.uid, node_name, pod)
        self._touch(node_name)

    def nominated_rows(self) -> NDArray[np.intp]:
        """The rows that some pod is nominated to, ascending; recomputed only when nominations or rows have changed."""
        at = (self.nominations.version, self.layout_revision)
        if self._nominated_at != at:
            rows = [self.nodes.row_of[name] for name in self.nominations.nodes() if name in self.nodes.row_of]
            self._nominated_at, self._nominated = at, np.array(sorted(rows), dtype=np.intp)
            self._nominated.setflags(write=False)
        return self._nominated

    def remove_nomination(self, uid: str) -> bool:
        """Remove the nomination of a pod; True if it had one."""
        node_name = self.nominations.take(uid)
        if node_name is None:
            return False
        self.revision += 1
        self._touch(node_name)
        return True

    def set_leaving(self, uid: str, *, leaves: bool) -> bool:
        """Set whether a pod is being evicted by this scheduler; True if that is new. Its row counts as changed."""
        if leaves == (uid in self.leaving):
            return False
        (self.leaving.add if leaves else self.leaving.discard)(uid)
        self.revision += 1
        placement = self.pods.by_uid.get(uid)
        if placement is not None:
            self.usage_changes.record(placement.row, self.revision)
        return True

    def _touch(self, node_name: str) -> None:
        row = self.nodes.row_of.get(node_name)
        if row is not None:
            self.usage_changes.record(row, self.revision)

    def set_metric(self, name: str, samples: Samples) -> None:
        """Replace the samples of a metric."""
        self.revision += 1
        self.metrics.set(name, samples)
        for _, time in samples.values():
            self.note_time(time)

    def put_metric(self, name: str, column: MetricColumn, samples: Samples, layout: int) -> None:
        """Replace the samples of a metric by finite ones, with their column, which was built for that layout of rows."""
        self.revision += 1
        self.metrics.put(name, column, samples, layout)
        self.note_time(float(np.max(column.times, where=column.present, initial=-math.inf)))

    def drop_metric(self, name: str) -> None:
        """Remove a metric."""
        self.revision += 1
        self.metrics.drop(name)

    def set_group_size(self, key: str, size: int) -> None:
        """Set how many members of a group (`namespace/name`) are known, placed or not; 0 forgets the group."""
        if self.group_sizes.get(key, 0) == size:
            return
        self.revision += 1
        if size:
            self.group_sizes[key] = size
        else:
            del self.group_sizes[key]

    def note_time(self, time: float | None) -> None:
        """Set `newest` to a time if it is later."""
        if time is not None and time > self.newest:
            self.newest = time

    def _note_node_times(self, node: objects.Node) -> None:
        created = node.metadata.creation_timestamp
        stamps = [
            stamp for condition in node.status.conditions for stamp in (condition.last_heartbeat_time, condition.last_transition_time)
        ]
        for stamp in (created, *stamps):
            if stamp is not None:
                self.note_time(stamp.timestamp())

    def copy(self) -> ClusterTables:
        """A copy of the tables with rows in the same order."""
        twin = ClusterTables()
        twin.device_sources = self.device_sources
        for node in self.nodes.objects:
            twin.add_node(node)
        for row, placements in enumerate(self.pods.by_row):
            for placement in placements.values():
                twin.put(placement.pod, row, assumed=placement.assumed)
        for pod, node_name in self.nominations.items():
            twin.nominations.put(pod.uid, node_name, pod)
        for obj in self.objects:
            twin.objects.put(obj)
        allocated.copy_in_flight(self.objects, twin.objects)
        for name, samples in self.metrics.samples.items():
            twin.metrics.set(name, samples)
        twin.group_sizes = dict(self.group_sizes)
        twin.leaving = set(self.leaving)
        twin.revision = twin.layout_revision = self.revision
        twin.newest = self.newest
        return twin


class ReadGpus(Struct, frozen=True):
    """The single GPUs of all nodes, counted in steps by these names (`ReadInSteps`)."""

    tables: ClusterTables
    names: GpuNames

    def read_in_steps(self) -> Generator[None]:
        """The steps of counting them; none if they are known."""
        yield from self.tables.gpu_table_in_steps(self.names)
