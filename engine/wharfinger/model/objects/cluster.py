"""The other kinds that decisions read: nodes, classes, storage, workloads and disruption budgets."""

from __future__ import annotations

from msgspec import field

from wharfinger.model.objects.metadata import (
    Int32,
    Int64,
    KubeStruct,
    LabelSelector,
    NodeSelector,
    ObjectMeta,
    ObjectReference,
    Quantities,
    Quantity,
    Time,
)
from wharfinger.model.objects.pods import AttachedStorage, PersistentVolumeClaimTemplate, PodSpec


class Taint(KubeStruct, frozen=True):
    """A mark on a node that keeps away pods which do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(KubeStruct, frozen=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(name="providerID", default="")


class NodeCondition(KubeStruct, frozen=True):
    """One of status.conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None


class ContainerImage(KubeStruct, frozen=True):
    """An image that a node already has."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class AttachedVolume(KubeStruct, frozen=True):
    """A volume that is attached to a node."""

    name: str = ""


class NodeAddress(KubeStruct, frozen=True):
    """An address of a node: its InternalIP, Hostname and so on."""

    type: str = ""
    address: str = ""


class NodeStatus(KubeStruct, frozen=True):
    """status of a node."""

    capacity: Quantities = field(default_factory=dict)
    allocatable: Quantities = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(KubeStruct, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(KubeStruct, frozen=True):
    """A namespace; its labels are what namespace selectors match."""

    metadata: ObjectMeta = ObjectMeta()


class PriorityClass(KubeStruct, frozen=True):
    """A named priority."""

    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


class RuntimeClassOverhead(KubeStruct, frozen=True):
    """The resources that a runtime itself uses, per pod."""

    pod_fixed: Quantities = field(default_factory=dict)


class RuntimeClass(KubeStruct, frozen=True):
    """A container runtime."""

    metadata: ObjectMeta = ObjectMeta()
    handler: str = ""
    overhead: RuntimeClassOverhead | None = None


class LimitRangeItem(KubeStruct, frozen=True):
    """The limits of one type of object in a namespace: Container, Pod or PersistentVolumeClaim."""

    type: str = ""
    default: Quantities = field(default_factory=dict)
    default_request: Quantities = field(default_factory=dict)
    max: Quantities = field(default_factory=dict)
    min: Quantities = field(default_factory=dict)


class LimitRangeSpec(KubeStruct, frozen=True):
    """spec of a LimitRange."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(KubeStruct, frozen=True):
    """The requests and limits that pods of a namespace get if they have none."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


class VolumeNodeAffinity(KubeStruct, frozen=True):
    """The nodes that can reach a persistent volume."""

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
    """Requirements that must all match."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(KubeStruct, frozen=True):
    """The provisioner and binding mode for claims of this class; the default mode is Immediate."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(KubeStruct, frozen=True):
    """The number of volumes of a driver that a node can attach; None is no limit."""

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
    """The storage of a class that can be provisioned in a topology."""

    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(KubeStruct, frozen=True):
    """The attached volume."""

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


class PodTemplateSpec(KubeStruct, frozen=True):
    """The pods that a controller makes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class WorkloadSpec(KubeStruct, frozen=True):
    """spec of a Deployment, ReplicaSet or DaemonSet."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Deployment(KubeStruct, frozen=True):
    """A Deployment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class ReplicaSet(KubeStruct, frozen=True):
    """A ReplicaSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class DaemonSet(KubeStruct, frozen=True):
    """A DaemonSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSetOrdinals(KubeStruct, frozen=True):
    """The first ordinal of a StatefulSet's pods."""

    start: Int32 = 0


class StatefulSetSpec(WorkloadSpec, frozen=True):
    """spec of a StatefulSet."""

    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()
    ordinals: StatefulSetOrdinals | None = None


class StatefulSet(KubeStruct, frozen=True):
    """A StatefulSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


class ReplicationControllerSpec(KubeStruct, frozen=True):
    """spec of a ReplicationController: its selector is a plain map."""

    replicas: Int32 | None = None
    selector: dict[str, str] = field(default_factory=dict)
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicationController(KubeStruct, frozen=True):
    """A ReplicationController."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class JobSpec(KubeStruct, frozen=True):
    """spec of a Job."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool = False
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Job(KubeStruct, frozen=True):
    """A Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class JobTemplateSpec(KubeStruct, frozen=True):
    """The Job that a CronJob makes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(KubeStruct, frozen=True):
    """spec of a CronJob."""

    suspend: bool = False
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(KubeStruct, frozen=True):
    """A CronJob."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()


class PodTemplate(KubeStruct, frozen=True):
    """A PodTemplate object."""

    metadata: ObjectMeta = ObjectMeta()
    template: PodTemplateSpec = PodTemplateSpec()


class ServiceSpec(KubeStruct, frozen=True):
    """spec of a Service; an empty selector selects nothing."""

    selector: dict[str, str] = field(default_factory=dict)
    type: str = ""


class Service(KubeStruct, frozen=True):
    """A Service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class PodDisruptionBudgetSpec(KubeStruct, frozen=True):
    """spec of a PodDisruptionBudget; selector None selects nothing."""

    selector: LabelSelector | None = None
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(KubeStruct, frozen=True):
    """status of a PodDisruptionBudget; `disrupted_pods` names pods whose eviction is already counted."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] = field(default_factory=dict)
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    observed_generation: Int64 = 0


class PodDisruptionBudget(KubeStruct, frozen=True):
    """A limit on the pods of a selector that may be disrupted at the same time."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
