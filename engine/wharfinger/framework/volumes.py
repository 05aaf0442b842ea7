"""What the volume plugins share: from a pod's volumes to claims, persistent volumes and storage classes.

Sources, Kubernetes 1.36: component-helpers/storage/volume, component-helpers/storage/ephemeral, and the texts of client-go's listers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.model.object_store import ObjectStore
    from wharfinger.model.pod import PodView

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_BOUND_ANNOTATION = "pv.kubernetes.io/bind-completed"
KINDS = (
    objects.PersistentVolumeClaim,
    objects.PersistentVolume,
    objects.StorageClass,
    objects.CSINode,
    objects.CSIDriver,
    objects.CSIStorageCapacity,
    objects.VolumeAttachment,
)
"""The kinds of objects that a decision about volumes may depend on."""


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A volume of a pod that stands for a claim in the pod's namespace; an ephemeral one's claim must have been made for the pod."""

    claim: str
    ephemeral: bool


def claims_used(pod: PodView) -> Iterator[ClaimUse]:
    """The claims that a pod uses, in the order of its volumes; one used twice comes twice."""
    for volume in pod.object.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.persistent_volume_claim.claim_name, ephemeral=False)
        elif volume.ephemeral is not None:
            yield ClaimUse(f"{pod.name}-{volume.name}", ephemeral=True)


def claim_of(use: ClaimUse, pod: PodView, store: ObjectStore) -> objects.PersistentVolumeClaim | None:
    """The claim that a pod uses, or None if there is none of that name."""
    return store.get(objects.PersistentVolumeClaim, use.claim, pod.namespace)


def is_for(claim: objects.PersistentVolumeClaim, pod: PodView) -> bool:
    """Whether a claim was made for the pod's own ephemeral volume (`VolumeIsForPod`)."""
    return any(owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references)


def not_for(claim: objects.PersistentVolumeClaim, pod: PodView) -> str:
    """What is said of a claim that was not made for the pod."""
    return f"PVC {objects.key_of(claim)} was not created for pod {pod.key} (pod is not owner)"


def claim_class(claim: objects.PersistentVolumeClaim) -> str:
    """The name of a claim's storage class, "" for none."""
    return claim.metadata.annotations.get(_CLASS_ANNOTATION) or claim.spec.storage_class_name or ""


def volume_class(volume: objects.PersistentVolume) -> str:
    """The name of a persistent volume's storage class, "" for none."""
    return volume.metadata.annotations.get(_CLASS_ANNOTATION) or volume.spec.storage_class_name


def bound_to(claim: objects.PersistentVolumeClaim, volume: objects.PersistentVolume) -> objects.PersistentVolumeClaim:
    """The claim as the volume controller leaves it when it has bound it to a volume."""
    metadata = replace(claim.metadata, annotations={**claim.metadata.annotations, _BOUND_ANNOTATION: "yes"})
    spec = replace(claim.spec, volume_name=volume.metadata.name)
    return replace(claim, metadata=metadata, spec=spec, status=replace(claim.status, phase="Bound"))


def waiting_claims(pod: PodView, store: ObjectStore) -> list[objects.PersistentVolumeClaim]:
    """The pod's claims that are there and not bound yet, each once."""
    found: list[objects.PersistentVolumeClaim] = []
    for use in claims_used(pod):
        claim = claim_of(use, pod, store)
        if claim is not None and not fully_bound(claim) and claim not in found:
            found.append(claim)
    return found


def fully_bound(claim: objects.PersistentVolumeClaim) -> bool:
    """Whether a claim has its volume, and the volume controller is done with it."""
    return bool(claim.spec.volume_name) and _BOUND_ANNOTATION in claim.metadata.annotations


def claim_not_found(name: str) -> str:
    """What a lister says of a claim that is not there."""
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    """What a lister says of a persistent volume that is not there."""
    return f'persistentvolume "{name}" not found'


def class_not_found(name: str) -> str:
    """What a lister says of a storage class that is not there."""
    return f'storageclass.storage.k8s.io "{name}" not found'
