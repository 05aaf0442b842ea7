"""Storage of the cluster: persistent volumes, storage classes, CSI drivers, their capacity and attachments."""

from __future__ import annotations

from msgspec import field

from wharfinger.model.objects_meta import Int32, KubeStruct, LabelSelector, NodeSelector, ObjectMeta, ObjectReference, Quantities, Quantity
from wharfinger.model.objects_volume import AttachedStorage


class VolumeNodeAffinity(KubeStruct, frozen=True):
    """Which nodes can reach a persistent volume."""

    required: NodeSelector | None = None


class LocalVolume(KubeStruct, frozen=True):
    """local of a persistent volume."""

    path: str = ""


class PersistentVolumeSpec(AttachedStorage, frozen=True):
    """spec of a persistent volume."""

    capacity: Quantities = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    local: LocalVolume | None = None


class PersistentVolumeStatus(KubeStruct, frozen=True):
    """status of a persistent volume."""

    phase: str = ""


class PersistentVolume(KubeStruct, frozen=True):
    """A piece of storage in the cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorRequirement(KubeStruct, frozen=True):
    """A label key and the values that are allowed."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(KubeStruct, frozen=True):
    """Requirements that must all hold."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(KubeStruct, frozen=True):
    """How claims of this class get their volumes; binding is Immediate unless said otherwise."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(KubeStruct, frozen=True):
    """How many volumes of a driver a node can attach; None is no limit."""

    count: Int32 | None = None


class CSINodeDriver(KubeStruct, frozen=True):
    """One CSI driver on a node."""

    name: str = ""
    node_id: str = field(name="nodeID", default="")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(KubeStruct, frozen=True):
    """spec of a CSINode."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeStruct, frozen=True):
    """The CSI drivers of the node of the same name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(KubeStruct, frozen=True):
    """spec of a CSIDriver."""

    storage_capacity: bool = False
    attach_required: bool = True


class CSIDriver(KubeStruct, frozen=True):
    """A CSI driver of the cluster; with `storage_capacity` its capacity objects decide where volumes can be made."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(KubeStruct, frozen=True):
    """How much storage of a class can be made in a topology."""

    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(KubeStruct, frozen=True):
    """What is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(KubeStruct, frozen=True):
    """spec of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(KubeStruct, frozen=True):
    """status of a VolumeAttachment."""

    attached: bool = False


class VolumeAttachment(KubeStruct, frozen=True):
    """A volume that is, or is to be, attached to a node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
