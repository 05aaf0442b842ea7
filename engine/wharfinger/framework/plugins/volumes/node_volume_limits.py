"""NodeVolumeLimits: a node can attach a limited number of volumes of each CSI driver.

A volume is identified by its driver and handle, and counts once per node. A claim without a volume counts as one volume of its class's
provisioner, with a handle of its own. In-tree volumes count for the CSI driver that they are migrated to, on nodes that report it.
Source: plugins/nodevolumelimits/csi.go and csi-translation-lib, Kubernetes 1.36.
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
from wharfinger.framework.prepared import OUTDATED, SKIP_ALWAYS, Affected, Attempt, ObjectWatch, PreparedFilter, Reason, Rows, Skip
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Supposition
    from wharfinger.framework.prepared import Changes
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


REASONS = (Reason("node(s) exceed max volume count"),)
NAME = "NodeVolumeLimits"


class NodeVolumeLimits(FilterPlugin):
    """`pkg/scheduler/framework/plugins/nodevolumelimits`, Kubernetes 1.36."""

    name = NAME
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
        self.reasons = (Reason(self._refusal, resolvable=False),) if self._refusal else REASONS
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
        return REASONS if self._exceeded(supposed.row, supposed.snapshot, supposed.pods()) else ()

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
