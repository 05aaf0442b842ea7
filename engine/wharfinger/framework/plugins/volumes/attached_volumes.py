"""The volumes that drivers attach to nodes: those that a pod uses, and those that count on each node.

A volume is identified by its driver and handle, and counts once per node, whether a pod uses it or it is attached without one. A claim
without a volume counts as one volume of its class's provisioner, with a unique handle. In-tree volumes count for the CSI driver that they
are migrated to, on nodes that report it (plugins/nodevolumelimits/csi.go and csi-translation-lib, Kubernetes 1.36).

Nearly every pod of a StatefulSet has its own claim, so the limit of a node is checked again for each pod. The numbers are therefore kept by
node and driver, and only nodes are read again whose pods changed, or an object that their volumes depend on.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.model import objects
from wharfinger.model.state.node_reader import NodeReader, moved

if TYPE_CHECKING:
    from wharfinger.framework.prepared import Rows
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot

MIGRATED_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"
MIGRATED: Mapping[str, str] = MappingProxyType(
    {
        "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
        "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
        "kubernetes.io/azure-disk": "disk.csi.azure.com",
        "kubernetes.io/cinder": "cinder.csi.openstack.org",
        "kubernetes.io/portworx-volume": "pxd.portworx.com",
    }
)
"""In-tree plugins and the CSI drivers that replace them."""
ALWAYS_MIGRATED = frozenset(MIGRATED) - {"kubernetes.io/portworx-volume"}


Dependency: TypeAlias = tuple[type[objects.AnyObject], str]
"""The kind and the key of an object."""


class Attachable(Struct, frozen=True):
    """A volume that a driver attaches to nodes; `migrated_from` is the in-tree plugin it was written for, "" for none."""

    driver: str
    handle: str
    migrated_from: str = ""

    def counts_on(self, node: objects.CSINode | None) -> bool:
        """True if it counts on a node: a migrated one only where the plugin has been migrated (`isCSIMigrationOn`)."""
        return not self.migrated_from or migration_on(node, self.migrated_from)


def migration_on(node: objects.CSINode | None, plugin: str) -> bool:
    """True if the volumes of an in-tree plugin are its CSI driver's on a node."""
    if node is None:
        return False
    listed = node.metadata.annotations.get(MIGRATED_ANNOTATION, "").split(",")
    return plugin in ALWAYS_MIGRATED or plugin in listed


def may_attach(pod: PodView) -> bool:
    """True if a pod has volumes that could count."""
    return any(True for _ in volume_claims.claims_used(pod)) or any(True for _ in _inline(pod))


def attachables(pod: PodView, store: ObjectStore, depends_on: set[Dependency] | None = None) -> Iterator[Attachable]:
    """The attachable volumes that a pod uses; claims that do not exist, or were not made for it, are left out.

    The claims of the pod and their volumes are added to `depends_on`, whether they exist or not.
    """
    yield from _inline(pod)
    for use in volume_claims.claims_used(pod):
        claim = volume_claims.claim_of(use, pod, store)
        if depends_on is not None:
            depends_on.add((objects.PersistentVolumeClaim, f"{pod.namespace}/{use.claim}"))
            if claim is not None and claim.spec.volume_name:
                depends_on.add((objects.PersistentVolume, claim.spec.volume_name))
        if claim is not None and (not use.ephemeral or volume_claims.is_for(claim, pod)):
            found = of_claim(claim, store)
            if found is not None:
                yield found


def of_claim(claim: objects.PersistentVolumeClaim, store: ObjectStore) -> Attachable | None:
    """The volume that a claim attaches (`getCSIDriverInfo`); None if no CSI driver attaches it."""
    volume = store.get(objects.PersistentVolume, claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        return of_volume(volume)
    storage_class = store.get(objects.StorageClass, volume_claims.claim_class(claim))
    if storage_class is None:
        return None
    # Kubernetes puts a random prefix before the name, so that it never equals a handle of the driver; a space is enough here.
    handle, provisioner = f" {objects.key_of(claim)}", storage_class.provisioner
    if provisioner in MIGRATED:
        return Attachable(MIGRATED[provisioner], handle, provisioner)
    return Attachable(provisioner, handle) if provisioner else None


def of_volume(volume: objects.PersistentVolume) -> Attachable | None:
    """The volume that a persistent volume attaches; None if no CSI driver attaches it."""
    if volume.spec.csi is not None:
        csi = volume.spec.csi
        return Attachable(csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None
    return _in_tree(volume.spec)


def _inline(pod: PodView) -> Iterator[Attachable]:
    for volume in pod.object.spec.volumes:
        if volume.persistent_volume_claim is None and volume.ephemeral is None:
            found = _in_tree(volume)
            if found is not None:
                yield found


def _in_tree(source: objects.Volume | objects.PersistentVolumeSpec) -> Attachable | None:
    handles = {
        "kubernetes.io/aws-ebs": source.aws_elastic_block_store and source.aws_elastic_block_store.volume_id.rpartition("/")[2],
        "kubernetes.io/gce-pd": source.gce_persistent_disk and source.gce_persistent_disk.pd_name,
        "kubernetes.io/azure-disk": source.azure_disk and source.azure_disk.disk_uri,
        "kubernetes.io/cinder": source.cinder and source.cinder.volume_id,
        "kubernetes.io/portworx-volume": source.portworx_volume and source.portworx_volume.volume_id,
    }
    return next((Attachable(MIGRATED[plugin], handle, plugin) for plugin, handle in handles.items() if handle), None)


Handle: TypeAlias = tuple[str, str]
"""The driver of a volume, and its handle."""
Key = TypeVar("Key", bound=Hashable)
NO_LIMIT: Final = 2**62


class _OnNode(NamedTuple):
    """The values read of a node: its pods with volumes and, if a driver has a limit, the counted volumes and the objects they depend on."""

    pods: list[PodView]
    limits: Mapping[str, int] = MappingProxyType({})
    handles: frozenset[Handle] = frozenset()
    depends_on: frozenset[Dependency] = frozenset()
    migrated: frozenset[str] = frozenset()


class AttachedVolumes(NodeReader):
    """The number of attached volumes of each driver on each node, kept up to date with the pods and objects of one cluster."""

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (
        objects.PersistentVolumeClaim,
        objects.PersistentVolume,
        objects.StorageClass,
        objects.CSINode,
        objects.VolumeAttachment,
    )

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        self._store = store
        self._on: dict[str, _OnNode] = {}
        self._readers: defaultdict[Dependency, set[str]] = defaultdict(set)  # the nodes that depend on an object
        self._nodes_with: defaultdict[Handle, set[str]] = defaultdict(set)
        self._revision = self._layout = -1
        self._used: dict[str, NDArray[np.int64]] = {}  # by driver and row
        self._limits: dict[str, NDArray[np.int64]] = {}
        self._migrated: dict[str, NDArray[np.bool_]] = {}  # by in-tree plugin and row

    @staticmethod
    def follow(store: ObjectStore) -> AttachedVolumes:
        """The attached volumes of a cluster; nodes are read on demand."""
        store.group(objects.VolumeAttachment, _node_of, "")
        return store.following(AttachedVolumes, replay=False)

    @staticmethod
    def of(snapshot: Snapshot) -> AttachedVolumes:
        """The attached volumes of a cluster in a snapshot; made at the first call."""
        found = AttachedVolumes.follow(snapshot.objects)
        found.read_all(snapshot)
        return found

    @staticmethod
    def reading(snapshot: Callable[[], Snapshot]) -> Generator[None, None, bool]:
        """The work of `of` in steps, one for each node; no steps for a few nodes. `snapshot` returns the present cluster."""
        return AttachedVolumes.follow(snapshot().objects).read_in_steps(snapshot)

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:
        """Follow an object: the nodes that depend on it are read again at the next question."""
        for obj in (old, new):
            if isinstance(obj, objects.PersistentVolumeClaim | objects.PersistentVolume):
                self._unread.update(dict.fromkeys(self._readers.get((type(obj), objects.key_of(obj)), ()), True))
            elif isinstance(obj, objects.VolumeAttachment):
                self._unread[obj.spec.node_name] = True
            elif isinstance(obj, objects.CSINode):
                self._unread[obj.metadata.name] = True
            elif isinstance(obj, objects.StorageClass):
                self._unread.update(dict.fromkeys(self._on, True))

    def exceeded(self, wanted: Iterable[Attachable], rows: Rows) -> NDArray[np.bool_]:
        """True for the nodes where these volumes would exceed the limit of a driver, `(len(rows),) bool`."""
        counted: defaultdict[Handle, set[str]] = defaultdict(set)
        for volume in wanted:
            counted[volume.driver, volume.handle].add(volume.migrated_from)
        more: dict[str, NDArray[np.int64]] = {}
        for (driver, handle), plugins in counted.items():
            if driver in self._limits:
                counts = np.logical_or.reduce([self._migrated[plugin] for plugin in plugins])
                counts[[self._rows[name] for name in self._nodes_with.get((driver, handle), ())]] = False
                more[driver] = more.get(driver, 0) + counts.astype(np.int64)
        found = np.zeros(len(self._rows), np.bool_)
        for driver, number in more.items():
            found |= (number > 0) & (self._used[driver] + number > self._limits[driver])
        return found[rows]

    def exceeded_with(self, pods: Iterable[PodView], wanted: Iterable[Attachable], name: str) -> bool:
        """True if a driver could not attach these volumes to a node that had these pods."""
        node = self._store.get(objects.CSINode, name)
        limits = _limits(node)
        used = {volume for placed in pods for volume in attachables(placed, self._store)}
        handles = _handles(used.union(self._without_pods(name)), node)
        new = _handles(wanted, node) - handles  # a volume that is there already counts once
        present, more = Counter(driver for driver, _ in handles), Counter(driver for driver, _ in new)
        return any(present[driver] + number > limits[driver] for driver, number in more.items() if driver in limits)

    def _attached(self, name: str) -> set[str]:
        """The names of the volumes that are attached to a node, with or without a pod that uses them."""
        found = self._store.group(objects.VolumeAttachment, _node_of, name)
        return {volume for attachment in found if (volume := attachment.spec.source.persistent_volume_name)}

    def _without_pods(self, name: str) -> Iterator[Attachable]:
        """The volumes that drivers have attached to a node."""
        for volume_name in self._attached(name):
            volume = self._store.get(objects.PersistentVolume, volume_name)
            found = None if volume is None else of_volume(volume)
            if found is not None:
                yield found

    # ── following nodes ──

    def _note(self, snapshot: Snapshot) -> None:
        """Mark the nodes to read: new ones, and those whose pods may have changed. The value True is for a changed object (`changed`)."""
        if snapshot.revision == self._revision:
            return
        names = snapshot.names
        if snapshot.layout_revision != self._layout:
            self._lay_out(names)
            self._layout = snapshot.layout_revision
        since = self._revision
        for row in np.union1d(snapshot.changed_nodes(since), snapshot.changed_pods(since)).tolist():
            self._unread.setdefault(names[row], False)
        self._revision = snapshot.revision

    def _read_next(self, snapshot: Snapshot) -> None:
        """Read a node that has to be read, if it exists and what it depends on has changed."""
        name, outdated = self._unread.popitem()
        if name not in self._rows:
            return
        pods = [pod for pod in snapshot.pods_on(self._rows[name]) if pod.object.spec.volumes]
        known = self._on.get(name)
        if outdated or known is None or len(pods) != len(known.pods) or any(map(operator.is_not, pods, known.pods)):
            self._read(name, pods)

    def _lay_out(self, names: Sequence[str]) -> None:
        """Put the columns into the order of these nodes."""
        former = self._rows
        rows = self._arrange(names)
        for name in former.keys() - self._rows.keys():
            self._forget(name)
        self._used = {driver: moved(column, rows, 0) for driver, column in self._used.items()}
        self._limits = {driver: moved(column, rows, NO_LIMIT) for driver, column in self._limits.items()}
        none = np.zeros(len(former), np.bool_)
        self._migrated = {plugin: moved(self._migrated.get(plugin, none), rows, False) for plugin in MIGRATED}
        self._migrated[""] = np.ones(len(names), np.bool_)

    def _read(self, name: str, pods: list[PodView]) -> None:
        """Read a node and its attached volumes; volumes are not counted for drivers without a limit."""
        if name in self._on:
            self._forget(name)
        node = self._store.get(objects.CSINode, name)
        limits = _limits(node)
        if not limits:
            self._on[name] = _OnNode(pods)
            return
        depends_on: set[Dependency] = {(objects.PersistentVolume, volume_name) for volume_name in self._attached(name)}
        volumes = set(self._without_pods(name))
        for pod in pods:
            volumes.update(attachables(pod, self._store, depends_on))
        migrated = frozenset(plugin for plugin in MIGRATED if migration_on(node, plugin))
        found = _OnNode(pods, limits, frozenset(_handles(volumes, node)), frozenset(depends_on), migrated)
        self._on[name] = found
        for key in found.depends_on:
            self._readers[key].add(name)
        for handle in found.handles:
            self._nodes_with[handle].add(name)
        self._write(name, found)

    def _forget(self, name: str) -> None:
        found = self._on.pop(name, None)
        if found is not None:
            for key in found.depends_on:
                _discard(self._readers, key, name)
            for handle in found.handles:
                _discard(self._nodes_with, handle, name)
            if found.limits and name in self._rows:
                self._write(name, _OnNode([]))

    def _write(self, name: str, found: _OnNode) -> None:
        """Set the values of a node in all columns."""
        row = self._rows[name]
        used = Counter(driver for driver, _ in found.handles)
        for driver in found.limits.keys() - self._limits.keys():
            self._used[driver] = np.zeros(len(self._rows), np.int64)
            self._limits[driver] = np.full(len(self._rows), NO_LIMIT)
        for driver, limit in self._limits.items():
            self._used[driver][row] = used[driver]
            limit[row] = min(found.limits.get(driver, NO_LIMIT), NO_LIMIT)
        for plugin in MIGRATED:
            self._migrated[plugin][row] = plugin in found.migrated


def _node_of(attachment: objects.VolumeAttachment) -> str:
    return attachment.spec.node_name


def _discard(sets: dict[Key, set[str]], key: Key, name: str) -> None:
    """Remove a name from a set, and the set if it is empty then."""
    sets[key].discard(name)
    if not sets[key]:
        del sets[key]


def _handles(found: Iterable[Attachable], node: objects.CSINode | None) -> set[Handle]:
    """The driver and handle of the volumes that count on a node, each once."""
    return {(volume.driver, volume.handle) for volume in found if volume.counts_on(node)}


def _limits(node: objects.CSINode | None) -> Mapping[str, int]:
    """The number of volumes that each driver of a node can attach; drivers without a limit are left out."""
    drivers = () if node is None else node.spec.drivers
    return {driver.name: driver.allocatable.count for driver in drivers if driver.allocatable and driver.allocatable.count is not None}
