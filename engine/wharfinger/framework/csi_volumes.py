"""Which attachable volumes pods use, by CSI driver, and how many of them a node can take.

A volume is known by its driver and handle. A claim without a volume yet counts as one of its class's provisioner with a handle of its
own. In-tree volumes count as those of the CSI driver they have been migrated to, on nodes that say so. Source:
plugins/nodevolumelimits/csi.go and csi-translation-lib, Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from wharfinger.framework import volumes
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.model.object_store import ObjectStore
    from wharfinger.model.pod import PodView

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
"""In-tree plugins and the CSI drivers that have taken their place."""
ALWAYS_MIGRATED = frozenset(MIGRATED) - {"kubernetes.io/portworx-volume"}


@dataclass(frozen=True, slots=True)
class Attachable:
    """A volume that a driver attaches to nodes; `migrated_from` is the in-tree plugin it was written for, "" for none."""

    driver: str
    handle: str
    migrated_from: str = ""

    def counts_on(self, node: objects.CSINode | None) -> bool:
        """Whether it counts on a node: a migrated one only where the plugin has been migrated (`isCSIMigrationOn`)."""
        return not self.migrated_from or migration_on(node, self.migrated_from)


def migration_on(node: objects.CSINode | None, plugin: str) -> bool:
    """Whether the volumes of an in-tree plugin are its CSI driver's on a node."""
    if node is None:
        return False
    listed = node.metadata.annotations.get(MIGRATED_ANNOTATION, "").split(",")
    return plugin in ALWAYS_MIGRATED or plugin in listed


def may_attach(pod: PodView) -> bool:
    """Whether a pod has volumes that could count."""
    return any(True for _ in volumes.claims_used(pod)) or any(True for _ in _inline(pod))


def attachables(pod: PodView, store: ObjectStore) -> Iterator[Attachable]:
    """The attachable volumes that a pod uses; claims that do not exist, or were not made for it, are left out."""
    yield from _inline(pod)
    for use in volumes.claims_used(pod):
        claim = volumes.claim_of(use, pod, store)
        if claim is not None and (not use.ephemeral or volumes.is_for(claim, pod)):
            found = of_claim(claim, store)
            if found is not None:
                yield found


def of_claim(claim: objects.PersistentVolumeClaim, store: ObjectStore) -> Attachable | None:
    """What a claim attaches (`getCSIDriverInfo`); None for volumes that are not attached by a CSI driver."""
    volume = store.get(objects.PersistentVolume, claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        return of_volume(volume)
    storage_class = store.get(objects.StorageClass, volumes.claim_class(claim))
    if storage_class is None:
        return None
    # Kubernetes puts a random prefix before the name, so that no handle of a driver can be the same; a blank does as well.
    handle, provisioner = f" {objects.key_of(claim)}", storage_class.provisioner
    if provisioner in MIGRATED:
        return Attachable(MIGRATED[provisioner], handle, provisioner)
    return Attachable(provisioner, handle) if provisioner else None


def of_volume(volume: objects.PersistentVolume) -> Attachable | None:
    """What a persistent volume attaches, or None."""
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
