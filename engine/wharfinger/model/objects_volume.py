"""Volumes as a pod sees them: what it mounts, and the claims for storage behind it."""

from __future__ import annotations

from msgspec import field

from wharfinger.model.objects_meta import Int32, KubeStruct, LabelSelector, ObjectMeta, Quantities, ResourceRequirements


class AWSElasticBlockStore(KubeStruct, frozen=True):
    """awsElasticBlockStore of a pod or persistent volume."""

    volume_id: str = field(name="volumeID", default="")
    partition: Int32 = 0
    read_only: bool = False


class GCEPersistentDisk(KubeStruct, frozen=True):
    """gcePersistentDisk of a pod or persistent volume."""

    pd_name: str = ""
    partition: Int32 = 0
    read_only: bool = False


class ISCSI(KubeStruct, frozen=True):
    """iscsi of a pod or persistent volume."""

    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    read_only: bool = False


class RBD(KubeStruct, frozen=True):
    """rbd of a pod or persistent volume; `monitors` is `monitors` in both, pool defaults to rbd."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class AzureDisk(KubeStruct, frozen=True):
    """azureDisk of a pod or persistent volume."""

    disk_name: str = ""
    disk_uri: str = field(name="diskURI", default="")


class CinderVolume(KubeStruct, frozen=True):
    """cinder of a pod or persistent volume."""

    volume_id: str = field(name="volumeID", default="")


class VsphereVolume(KubeStruct, frozen=True):
    """vsphereVolume of a pod or persistent volume."""

    volume_path: str = ""


class PortworxVolume(KubeStruct, frozen=True):
    """portworxVolume of a pod or persistent volume."""

    volume_id: str = field(name="volumeID", default="")


class AzureFile(KubeStruct, frozen=True):
    """azureFile of a pod or persistent volume."""

    share_name: str = ""
    secret_namespace: str | None = None


class CSIVolume(KubeStruct, frozen=True):
    """csi of a pod (inline, no handle) or of a persistent volume."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    volume_attributes: dict[str, str] = field(default_factory=dict)


class PersistentVolumeClaimVolume(KubeStruct, frozen=True):
    """persistentVolumeClaim of a pod."""

    claim_name: str = ""
    read_only: bool = False


class ImageVolume(KubeStruct, frozen=True):
    """image of a pod: an image mounted as a volume."""

    reference: str = ""


class PersistentVolumeClaimSpec(KubeStruct, frozen=True):
    """spec of a claim; `storage_class_name` None asks for the default class, "" for none."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(KubeStruct, frozen=True):
    """The claim that a generic ephemeral volume or a StatefulSet asks for."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(KubeStruct, frozen=True):
    """ephemeral of a pod: its claim is named `<pod>-<volume>`."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class AttachedStorage(KubeStruct, frozen=True):
    """The storage that a pod names in a volume of its own, and a persistent volume stands for, in the same fields."""

    csi: CSIVolume | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: CinderVolume | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: PortworxVolume | None = None


class Volume(AttachedStorage, frozen=True):
    """One of spec.volumes; kinds that no scheduling decision looks at keep only their name."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    image: ImageVolume | None = None


class PersistentVolumeClaimStatus(KubeStruct, frozen=True):
    """status of a claim."""

    phase: str = ""
    capacity: Quantities = field(default_factory=dict)


class PersistentVolumeClaim(KubeStruct, frozen=True):
    """A claim for storage."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
