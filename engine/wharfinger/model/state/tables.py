"""The tables of a cluster's state, and the changes that keep them consistent with each other.

`cluster_state` has the state machine of pods; here a pod is on a row or not. In addition to the columns of nodes and pods there are the
nominations (pods for which preemption reserved a node) and the object store: services, claims, volumes, budgets, classes and namespaces.
Few plugins read these objects, and by name, so they are kept as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast

import numpy as np
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
from wharfinger.model.devices.device_table import DeviceTable
from wharfinger.model.devices.shared_gpus import GpuNames, GpuTable, GpuTables, SharedGpus
from wharfinger.model.devices.sliced_devices import SlicedDevices
from wharfinger.model.objects.node_view import changed_parts
from wharfinger.model.objects.pod_view import PodView


class Nominations:
    """The nominated pods by node; a pod is nominated to one node at most."""

    __slots__ = ("_by_node", "_node_of", "version")

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._by_node: dict[str, dict[str, PodView]] = {}
        self.version = 0  # changes with every nomination added or removed

    def __len__(self) -> int:
        return len(self._node_of)

    def on(self, node_name: str) -> Sequence[PodView]:
        """The pods nominated to a node, in order of nomination."""
        return tuple(self._by_node.get(node_name, {}).values())

    def node_of(self, uid: str) -> str | None:
        """The node a pod is nominated to, or None."""
        return self._node_of.get(uid)

    def put(self, pod: PodView, node_name: str) -> None:
        """Nominate a pod; replaces an earlier nomination."""
        self.drop(pod.uid)
        self.version += 1
        self._node_of[pod.uid] = node_name
        self._by_node.setdefault(node_name, {})[pod.uid] = pod

    def drop(self, uid: str) -> str | None:
        """Remove the nomination of a pod; returns its node, or None."""
        node_name = self._node_of.pop(uid, None)
        if node_name is not None:
            self.version += 1
            pods = self._by_node[node_name]
            del pods[uid]
            if not pods:
                del self._by_node[node_name]
        return node_name

    def nodes(self) -> frozenset[str]:
        """The nodes that some pod is nominated to."""
        return frozenset(self._by_node)

    def items(self) -> list[tuple[PodView, str]]:
        """Every nominated pod with its node."""
        return [(pod, node_name) for node_name, pods in self._by_node.items() for pod in pods.values()]


CLUSTER_SCOPED = frozenset(kind.__name__ for kind in objects.CLUSTER_SCOPED)

T = TypeVar("T", bound=objects.AnyObject)

Grouping = Callable[[Any], Hashable]


class NamespaceLabels:
    """The labels of all namespaces; equal to another if all labels are."""

    __slots__ = ("_by_name", "_hash")

    def __init__(self, by_name: Mapping[str, Mapping[str, str]]) -> None:
        self._by_name = by_name
        self._hash = hash(frozenset((name, frozenset(labels.items())) for name, labels in by_name.items()))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, NamespaceLabels) and self._hash == other._hash and self._by_name == other._by_name)

    def __hash__(self) -> int:
        return self._hash

    def of(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; empty if it is not known."""
        return self._by_name.get(name, _NO_LABELS)


_NO_LABELS: Mapping[str, str] = {}


class Follower(Protocol):
    """What is derived from the objects of some kinds, and kept up to date with them (see `ObjectStore.following`)."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]]

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Follow an object of these kinds that was added (`old` is None), changed, or removed (`new` is None)."""


F = TypeVar("F", bound=Follower)


class ObjectStore:
    """Objects by kind and key (`namespace/name`, or `name` for cluster-scoped kinds); `revision` changes with every change."""

    __slots__ = ("_by_kind", "_followers", "_following", "_groups", "_namespaces", "_revisions", "revision")

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, objects.AnyObject]] = {}
        self._revisions: dict[str, int] = {}
        self._groups: dict[str, dict[Grouping, dict[Hashable, dict[str, objects.AnyObject]]]] = {}
        self._namespaces: tuple[int, NamespaceLabels] = (0, NamespaceLabels({}))  # as of a revision of the namespaces
        self._followers: dict[Hashable, Follower] = {}
        self._following: dict[str, list[Follower]] = {}  # by kind
        self.revision = 0

    def __iter__(self) -> Iterator[objects.AnyObject]:
        for by_key in self._by_kind.values():
            yield from by_key.values()

    def put(self, obj: objects.AnyObject) -> None:
        """Add an object; replaces an earlier one of that kind and key."""
        kind, key = objects.kind_of(obj), objects.key_of(obj)
        by_key = self._by_kind.setdefault(kind, {})
        old = by_key.get(key)
        self._ungroup(kind, key, old)
        by_key[key] = obj
        for grouping, groups in self._groups.get(kind, {}).items():
            groups.setdefault(grouping(obj), {})[key] = obj
        for follower in self._following.get(kind, ()):
            follower.changed(old, obj)
        self._touch(kind)

    def drop(self, kind: str, key: str) -> bool:
        """Remove an object; True if it was there."""
        obj = self._by_kind.get(kind, {}).pop(key, None)
        if obj is None:
            return False
        self._ungroup(kind, key, obj)
        for follower in self._following.get(kind, ()):
            follower.changed(obj, None)
        self._touch(kind)
        return True

    def following(self, make: Callable[[ObjectStore], F]) -> F:
        """What a class derives from the objects, made at the first call and kept up to date from then on; `make` is the class."""
        known = self._followers.get(make)
        if known is None:
            known = self._followers[make] = make(self)
            for kind in known.kinds:
                self._following.setdefault(kind.__name__, []).append(known)
                for obj in self._by_kind.get(kind.__name__, {}).values():
                    known.changed(None, obj)
        return cast("F", known)

    def followed(self, make: Callable[[ObjectStore], F]) -> F | None:
        """The same if it has been made already, otherwise None."""
        return cast("F | None", self._followers.get(make))

    def touch(self, kind: type[objects.AnyObject]) -> None:
        """Count a change of a kind that is none of its objects: of what is decided and not written yet."""
        self._touch(kind.__name__)

    def _ungroup(self, kind: str, key: str, obj: objects.AnyObject | None) -> None:
        for grouping, groups in self._groups.get(kind, {}).items():
            if obj is not None:
                group = grouping(obj)
                del groups[group][key]
                if not groups[group]:
                    del groups[group]

    def _touch(self, kind: str) -> None:
        self.revision += 1
        self._revisions[kind] = self.revision

    def revision_of(self, *kinds: type[objects.AnyObject]) -> int:
        """The revision of the last change of some kinds; 0 if there was none."""
        return max((self._revisions.get(kind.__name__, 0) for kind in kinds), default=0)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """The object of that name; namespaced kinds need the namespace."""
        key = name if kind.__name__ in CLUSTER_SCOPED else f"{namespace or 'default'}/{name}"
        return cast("T | None", self._by_kind.get(kind.__name__, {}).get(key))

    @property
    def namespace_labels(self) -> NamespaceLabels:
        """The labels of all namespaces; the same object until a label changes."""
        revision, (known_at, known) = self.revision_of(objects.Namespace), self._namespaces
        if revision != known_at:
            found = NamespaceLabels({each.metadata.name: each.metadata.labels for each in self.all(objects.Namespace)})
            self._namespaces = revision, known if found == known else found
        return self._namespaces[1]

    def all(self, kind: type[T], namespace: str | None = None) -> Sequence[T]:
        """Every object of a kind sorted by key; only those of one namespace if it is given."""
        found = cast("dict[str, T]", self._by_kind.get(kind.__name__, {}))
        prefix = "" if namespace is None else f"{namespace}/"
        return tuple(found[key] for key in sorted(found) if key.startswith(prefix))

    def group(self, kind: type[T], grouping: Callable[[T], Hashable], group: Hashable) -> Sequence[T]:
        """The objects of a kind that `grouping` puts into a group, sorted by key; groups are kept up to date from the first call on.

        `grouping` must be a function of a module, the same object at every call, because it is the key of the groups.
        """
        kept = self._groups.setdefault(kind.__name__, {})
        groups = kept.get(cast("Grouping", grouping))
        if groups is None:
            groups = kept[cast("Grouping", grouping)] = {}
            for key, obj in self._by_kind.get(kind.__name__, {}).items():
                groups.setdefault(grouping(cast("T", obj)), {})[key] = obj
        found = cast("dict[str, T]", groups.get(group, {}))
        return tuple(found[key] for key in sorted(found))


class Circumstances(Protocol):
    """What can be known without a look at nodes and pods: the time (seconds since 1970), and the other objects. A snapshot is one."""

    @property
    def now(self) -> float:
        """The time, in seconds since 1970."""

    @property
    def objects(self) -> ObjectStore:
        """The objects that are neither nodes nor placed pods."""


class TimeAndObjects(NamedTuple):
    """Circumstances apart from any snapshot: the objects are followed as they change."""

    now: float
    objects: ObjectStore


class ClusterTables:
    """The tables of one cluster.

    `revision` grows with every change; `layout_revision` is the one in which a row was last added, removed or moved. `newest` is
    the latest time in any object or sample, the best estimate of the present time of the cluster. `device_sources` say which devices nodes
    have; their table is made when it is first read.
    """

    __slots__ = (
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
        self.nominations = Nominations()
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
        """Ask these sources for the devices of nodes from now on; a device of an earlier one comes first."""
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
        self._see_node(node)
        self.nodes.compact()
        return row

    def update_node(self, node: objects.Node) -> None:
        """Apply a node's new object; a heartbeat is not recorded as a change of its row."""
        row = self.nodes.row_of[node.metadata.name]
        self._see_node(node)
        self.revision += 1
        if not changed_parts(self.nodes.objects[row], node):
            self.nodes.objects[row] = node
        else:
            self.nodes.update(node)
            self.gpus.set_node(row, node, self._pods_on(row))
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
            self.ports.give_back(source, ports)
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
            self.gpus.count_pods(row, pod, self._pods_on(row))
        self.usage_changes.record(row, self.revision)
        self.nodes.compact()  # decisions add codes too

    def take_out(self, placement: Placement) -> None:
        """Remove a pod from its row."""
        demand, row = placement.pod.demand, placement.row
        self.revision += 1
        self.nodes.resources.give_back(row, demand.requests, demand.nonzero)
        if demand.host_ports:
            self.ports.give_back(row, demand.host_ports)
        self.pods.remove(placement)
        if self.gpus:
            self.gpus.count_pods(row, placement.pod, self._pods_on(row))
        self.usage_changes.record(row, self.revision)

    def renew(self, placement: Placement, pod: PodView) -> None:
        """Replace a placed pod by a later version with the same demand; it is not assumed any more."""
        row = placement.row
        self.revision += 1
        self.pods.renew(placement, pod)
        if self.gpus:
            self.gpus.count_pods(row, pod, self._pods_on(row))
        self.usage_changes.record(row, self.revision)

    def _pods_on(self, row: int) -> list[PodView]:
        return [placement.pod for placement in self.pods.by_row[row].values()]

    def gpu_table(self, names: GpuNames) -> GpuTable:
        """The single GPUs of all nodes, counted by these names; kept from the first call on."""
        known = self.gpus.known(names)
        if known is None:
            pairs = ((node, self._pods_on(row)) for row, node in enumerate(self.nodes.objects))
            known = self.gpus.add(names, self.nodes.rows, pairs)
            self._count_gpus_by(names)
        return known

    def _count_gpus_by(self, names: GpuNames) -> None:
        """Show policies the GPUs under these names, which are a setting of the plugin that chooses among them."""
        if any(isinstance(source, SharedGpus) and source.names != names for source in self.device_sources):
            sources = [SharedGpus(names) if isinstance(source, SharedGpus) else source for source in self.device_sources]
            self.device_sources, self._devices = tuple(sources), None

    def nominate(self, pod: PodView, node_name: str) -> None:
        """Nominate a node, known or not, for a pending pod; its row counts as changed, so filters run on it again."""
        self.denominate(pod.uid)
        self.revision += 1
        self.nominations.put(pod, node_name)
        self._touch(node_name)

    def nominated_rows(self) -> NDArray[np.intp]:
        """The rows that some pod is nominated to, ascending; recomputed only when nominations or rows have changed."""
        at = (self.nominations.version, self.layout_revision)
        if self._nominated_at != at:
            rows = [self.nodes.row_of[name] for name in self.nominations.nodes() if name in self.nodes.row_of]
            self._nominated_at, self._nominated = at, np.array(sorted(rows), dtype=np.intp)
            self._nominated.setflags(write=False)
        return self._nominated

    def denominate(self, uid: str) -> bool:
        """Remove the nomination of a pod; True if it had one."""
        node_name = self.nominations.drop(uid)
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
            self.see(time)

    def put_metric(self, name: str, column: MetricColumn, samples: Samples, layout: int) -> None:
        """Replace the samples of a metric by finite ones, with their column, which was built for that layout of rows."""
        self.revision += 1
        self.metrics.put(name, column, samples, layout)
        self.see(float(np.max(column.times, where=column.present, initial=-math.inf)))

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

    def see(self, time: float | None) -> None:
        """Set `newest` to a time if it is later."""
        if time is not None and time > self.newest:
            self.newest = time

    def _see_node(self, node: objects.Node) -> None:
        created = node.metadata.creation_timestamp
        stamps = [
            stamp for condition in node.status.conditions for stamp in (condition.last_heartbeat_time, condition.last_transition_time)
        ]
        for stamp in (created, *stamps):
            if stamp is not None:
                self.see(stamp.timestamp())

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
            twin.nominations.put(pod, node_name)
        for obj in self.objects:
            twin.objects.put(obj)
        allocated.carry(self.objects, twin.objects)
        for name, samples in self.metrics.samples.items():
            twin.metrics.set(name, samples)
        twin.group_sizes = dict(self.group_sizes)
        twin.leaving = set(self.leaving)
        twin.revision = twin.layout_revision = self.revision
        twin.newest = self.newest
        return twin
