"""VolumeRestrictions and NodeVolumeLimits: how many nodes or pods may use a volume, and how many volumes a node can attach.

Some disks may be mounted by one node only, and some claims may be used by one pod only. The state's tally of claims has the claims in use.
A selection counts, per node, the pods that mount one of the pod's disks in a way that excludes the pod.

A node can attach a limited number of volumes of each CSI driver. A volume is identified by its driver and handle, and counts once per node.
A claim without a volume counts as one volume of its class's provisioner, with a handle of its own. In-tree volumes count for the CSI driver
that they are migrated to, on nodes that report it (plugins/nodevolumelimits/csi.go and csi-translation-lib, Kubernetes 1.36).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.cluster_event import Change, ClusterEvent
from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.plugins.volumes import volume_claims
from wharfinger.framework.prepared import (
    OUTDATED,
    SKIP_ALWAYS,
    Affected,
    Attempt,
    Changes,
    ObjectWatch,
    PreparedFilter,
    Reason,
    Rejected,
    Rows,
    Skip,
)
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.model.columns.selection import Selection
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.object_store import ObjectStore
    from wharfinger.model.state.snapshot import Snapshot

IN_USE = (
    Reason("node(s) had no available disk"),
    Reason("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"),
)
NO_DISK, CLAIM_IN_USE = 1, 2  # the bits of the reasons
TOO_MANY = (Reason("node(s) exceed max volume count"),)
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


class VolumeRestrictions(FilterPlugin):
    """`pkg/scheduler/framework/plugins/volumerestrictions`, Kubernetes 1.36."""

    name = "VolumeRestrictions"
    filter_volatility = Volatility.GLOBAL
    wakes_on = ClusterEvent.NODE_ADD | ClusterEvent.POD_REMOVED | ClusterEvent.CLAIM

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if something other than a pod changed, or the pod of the change has volumes."""
        return change.pod is None or bool(change.pod.object.spec.volumes)

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip | Rejected:
        """Skip if neither an exclusive disk nor a ReadWriteOncePod claim in use matters; `Rejected` if a claim does not exist."""
        pod, snapshot, _ = attempt
        if not pod.object.spec.volumes:
            return SKIP_ALWAYS
        uses = [use.claim for use in volume_claims.claims_used(pod) if not use.ephemeral]
        for name in uses:
            if snapshot.objects.get(objects.PersistentVolumeClaim, name, pod.namespace) is None:
                return Rejected((Reason(volume_claims.claim_not_found(name), resolvable=False),))
        found = Restrictions(pod, snapshot)
        return found if found.matter else Skip(found.stands)


class Restrictions(PreparedFilter):
    """Bit 0 for nodes that mount one of the pod's disks already; on all others bit 1 if one of its claims is in use."""

    reasons = IN_USE

    def __init__(self, pod: PodView, snapshot: Snapshot) -> None:
        self._pod = pod
        self._watch = ObjectWatch(snapshot, objects.PersistentVolumeClaim)
        self._claims_taken, self._disks_taken = _taken(pod, snapshot)
        self.matter = bool(self._claims_taken) or self._disks_taken is not None

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdicts."""
        bits = np.full(len(snapshot.pod_count[rows]), CLAIM_IN_USE if self._claims_taken else 0, np.uint8)
        if self._disks_taken is not None:
            bits[self._disks_taken[rows]] = NO_DISK
        return bits

    def stands(self, snapshot: Snapshot) -> bool:
        """True if no claim or disk was taken or given back, and no claim has changed."""
        if not self._watch.stands(snapshot):
            return False
        claims_taken, disks_taken = _taken(self._pod, snapshot)
        return self._claims_taken == claims_taken and _equal(self._disks_taken, disks_taken)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:  # noqa: ARG002 — the extension point
        """`OUTDATED` unless everything stands."""
        return None if self.stands(snapshot) else OUTDATED

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...]:
        """The reason against the supposed node: a disk mounted there, otherwise a claim in use by a pod that stays; empty if it passes."""
        if self._disks_taken is not None and any(conflicts(self._pod, placed) for placed in supposed.pods()):
            return IN_USE[:1]
        if not self._claims_taken and not supposed.added:
            return ()
        wanted = exclusive_claims(self._pod, supposed.snapshot)
        more = sum(_uses(placed, wanted) for placed in supposed.added.values())
        fewer = sum(_uses(placed, wanted) for placed in supposed.removed.values())
        return IN_USE[1:] if self._claims_taken + more - fewer > 0 else ()


def _equal(before: NDArray[np.bool_] | None, after: NDArray[np.bool_] | None) -> bool:
    if before is None or after is None:
        return before is after
    return np.array_equal(before, after)


def _uses(placed: PodView, claims: frozenset[str]) -> int:
    return len(claims.intersection(claims_of(placed)))


def _taken(pod: PodView, snapshot: Snapshot) -> tuple[int, NDArray[np.bool_] | None]:
    """The number of the pod's ReadWriteOncePod claims in use, and the nodes that mount one of its exclusive disks.

    The nodes are `(n_nodes,) bool`, None if the pod has no exclusive disk.
    """
    disks = any(map(_exclusive, pod.object.spec.volumes))
    return claims_in_use(pod, snapshot), mounted(pod, snapshot).by_node > 0 if disks else None


def claims_in_use(pod: PodView, snapshot: Snapshot) -> int:
    """The number of the pod's ReadWriteOncePod claims that placed pods use."""
    wanted = exclusive_claims(pod, snapshot)
    if not wanted:
        return 0
    used = snapshot.tally((VolumeRestrictions.name, "claims"), claims_of).found
    return sum(1 for claim in wanted if used.get(claim))


def exclusive_claims(pod: PodView, snapshot: Snapshot) -> frozenset[str]:
    """The pod's ReadWriteOncePod claims, `namespace/name`."""
    names = {use.claim for use in volume_claims.claims_used(pod) if not use.ephemeral}
    found = (snapshot.objects.get(objects.PersistentVolumeClaim, name, pod.namespace) for name in names)
    return frozenset(objects.key_of(claim) for claim in found if claim is not None and "ReadWriteOncePod" in claim.spec.access_modes)


def claims_of(placed: PodView) -> Iterator[str]:
    """The claims that a placed pod names, `namespace/name`, each once."""
    yield from {f"{placed.namespace}/{use.claim}" for use in volume_claims.claims_used(placed) if not use.ephemeral}


def mounted(pod: PodView, snapshot: Snapshot) -> Selection:
    """The placed pods that mount a disk in a way that excludes the pod."""
    disks = tuple(volume for volume in pod.object.spec.volumes if _exclusive(volume))
    return snapshot.selection((VolumeRestrictions.name, "disks", disks), lambda placed: conflicts(pod, placed))


def conflicts(pod: PodView, placed: PodView) -> bool:
    """True if a placed pod mounts a disk in a way that excludes the pod (`isVolumeConflict`)."""
    return any(_conflict(volume, other) for volume in pod.object.spec.volumes if _exclusive(volume) for other in placed.object.spec.volumes)


def _exclusive(volume: objects.Volume) -> bool:
    kinds = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.rbd, volume.iscsi)
    return any(kind is not None for kind in kinds)


def _conflict(volume: objects.Volume, other: objects.Volume) -> bool:
    disk, other_disk = volume.gce_persistent_disk, other.gce_persistent_disk
    if disk and other_disk and disk.pd_name == other_disk.pd_name and not (disk.read_only and other_disk.read_only):
        return True
    store, other_store = volume.aws_elastic_block_store, other.aws_elastic_block_store
    if store and other_store and store.volume_id == other_store.volume_id:
        return True
    target, other_target = volume.iscsi, other.iscsi
    if target and other_target and target.iqn == other_target.iqn and not (target.read_only and other_target.read_only):
        return True
    return _same_image(volume.rbd, other.rbd)


def _same_image(image: objects.RBD | None, other: objects.RBD | None) -> bool:
    if image is None or other is None:
        return False
    same = not set(image.monitors).isdisjoint(other.monitors) and image.pool == other.pool and image.image == other.image
    return same and not (image.read_only and other.read_only)


class NodeVolumeLimits(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodevolumelimits`, Kubernetes 1.36."""

    name = "NodeVolumeLimits"
    filter_volatility = Volatility.GLOBAL
    wakes_on = (
        ClusterEvent.NODE_ADD
        | ClusterEvent.POD_REMOVED
        | ClusterEvent.CSI_NODE
        | ClusterEvent.CLAIM
        | ClusterEvent.VOLUME
        | ClusterEvent.STORAGE_CLASS
        | ClusterEvent.VOLUME_ATTACHMENT
    )

    def may_help(self, pod: PodView, change: Change, snapshot: Snapshot) -> bool:  # noqa: ARG002 — the extension point
        """True if something other than a pod changed, or the pod of the change has volumes."""
        return change.pod is None or bool(change.pod.object.spec.volumes)

    def prepare_filter(self, attempt: Attempt) -> PreparedFilter | Skip:
        """Skip without attachable volumes."""
        return Limits(attempt.pod, attempt.snapshot) if may_attach(attempt.pod) else SKIP_ALWAYS


class Limits(PreparedFilter):
    """Bit 0 if a driver would exceed its limit on a node, or everywhere if a claim is missing."""

    def __init__(self, pod: PodView, snapshot: Snapshot) -> None:
        self._watch = ObjectWatch(snapshot, *volume_claims.KINDS)
        self._refusal = _refusal(pod, snapshot)
        self.reasons = (Reason(self._refusal, resolvable=False),) if self._refusal else TOO_MANY
        self._wanted = frozenset(attachables(pod, snapshot.objects))
        self._drivers = {volume.driver for volume in self._wanted}
        self._attachments = _attachments(snapshot)

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[np.uint8]:
        """The verdicts."""
        places = np.arange(snapshot.n_nodes)[rows] if isinstance(rows, slice) else rows
        if self._refusal:
            return np.ones(len(places), np.uint8)
        bits = [self._exceeded(row, snapshot, snapshot.pods_on(row)) for row in places.tolist()] if self._wanted else [False] * len(places)
        return np.array(bits, np.uint8)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:
        """`OUTDATED` if a storage object changed; otherwise the rows whose pods changed."""
        return changes.rows if self._watch.stands(snapshot) else OUTDATED

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...] | None:
        """The reason against the supposed node if a driver would exceed its limit; empty if it passes."""
        if self._refusal:
            return None
        return TOO_MANY if self._exceeded(supposed.row, supposed.snapshot, supposed.pods()) else ()

    def _exceeded(self, row: int, snapshot: Snapshot, pods: Iterable[PodView]) -> bool:
        """True if a driver would exceed its limit on a node with these pods."""
        name = snapshot.names[row]
        node = snapshot.objects.get(objects.CSINode, name)
        limits = _limits(node)
        if self._drivers.isdisjoint(limits):
            return False
        used = {volume for placed in pods if placed.object.spec.volumes for volume in attachables(placed, snapshot.objects)}
        there = _handles(used | self._attachments.get(name, frozenset()), node)
        new = _handles(self._wanted, node) - there  # a volume that is there already counts once
        present, more = Counter(driver for driver, _ in there), Counter(driver for driver, _ in new)
        return any(present[driver] + count > limits[driver] for driver, count in more.items() if driver in limits)


def _handles(found: Iterable[Attachable], node: objects.CSINode | None) -> set[tuple[str, str]]:
    """(driver, handle) of the volumes that count on a node, each once."""
    return {(volume.driver, volume.handle) for volume in found if volume.counts_on(node)}


def _limits(node: objects.CSINode | None) -> Mapping[str, int]:
    """The number of volumes that each driver of a node can attach; drivers without a limit are left out."""
    drivers = () if node is None else node.spec.drivers
    return {driver.name: driver.allocatable.count for driver in drivers if driver.allocatable and driver.allocatable.count is not None}


def _attachments(snapshot: Snapshot) -> Mapping[str, frozenset[Attachable]]:
    """The volumes that are attached to each node, with or without a pod that uses them."""
    found: defaultdict[str, set[Attachable]] = defaultdict(set)
    for attachment in snapshot.objects.all(objects.VolumeAttachment):
        volume = snapshot.objects.get(objects.PersistentVolume, attachment.spec.source.persistent_volume_name or "")
        attachable = None if volume is None else of_volume(volume)
        if attachable is not None:
            found[attachment.spec.node_name].add(attachable)
    return {node: frozenset(attached) for node, attached in found.items()}


def _refusal(pod: PodView, snapshot: Snapshot) -> str:
    """The reason why the pod cannot be placed on any node; "" if there is none."""
    for use in volume_claims.claims_used(pod):
        if not use.claim:
            return "PersistentVolumeClaim had no name"
        claim = volume_claims.claim_of(use, pod, snapshot.objects)
        if claim is None:
            return f"looking up PVC {pod.namespace}/{use.claim}: {volume_claims.claim_not_found(use.claim)}"
        if use.ephemeral and not volume_claims.is_for(claim, pod):
            return volume_claims.not_for(claim, pod)
    return ""


@dataclass(frozen=True, slots=True)
class Attachable:
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


def attachables(pod: PodView, store: ObjectStore) -> Iterator[Attachable]:
    """The attachable volumes that a pod uses; claims that do not exist, or were not made for it, are left out."""
    yield from _inline(pod)
    for use in volume_claims.claims_used(pod):
        claim = volume_claims.claim_of(use, pod, store)
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
