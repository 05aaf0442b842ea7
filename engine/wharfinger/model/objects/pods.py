"""Pods and their volumes: spec and status as far as scheduling reads them."""

from __future__ import annotations

from msgspec import field

from wharfinger.model.objects.metadata import (
    Int32,
    Int64,
    KubeStruct,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Quantities,
    ResourceRequirements,
    Time,
)

DEFAULT_SCHEDULER = "default-scheduler"
"""The default of an empty `spec.schedulerName`."""


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


CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""The annotation of claims and volumes that names their class, from before the field."""


class PersistentVolumeClaimSpec(KubeStruct, frozen=True):
    """spec of a claim; `storage_class_name` None is the default class, "" no class."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(KubeStruct, frozen=True):
    """The template of a claim, of a generic ephemeral volume or a StatefulSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(KubeStruct, frozen=True):
    """ephemeral of a pod: its claim is named `<pod>-<volume>`."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class AttachedStorage(KubeStruct, frozen=True):
    """The storage of a pod's inline volume or of a persistent volume, which have these fields in common."""

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


class EmptyDirVolume(KubeStruct, frozen=True):
    """emptyDir of a pod: a folder on the node, which is deleted with the pod."""


class Volume(AttachedStorage, frozen=True):
    """One of spec.volumes; kinds that nothing reads keep only their name."""

    name: str = ""
    empty_dir: EmptyDirVolume | None = None
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


class ContainerPort(KubeStruct, frozen=True):
    """A port of a container; `host_port` 0 is none."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(name="hostIP", default="")
    protocol: str = ""


class ResourceClaimUse(KubeStruct, frozen=True):
    """One of a container's resources.claims."""

    name: str = ""
    request: str = ""


class ContainerResources(ResourceRequirements, frozen=True):
    """resources of a container or, at pod level, of a pod."""

    claims: tuple[ResourceClaimUse, ...] = ()


class ContainerResizePolicy(KubeStruct, frozen=True):
    """The effect of a resize of one resource on the container."""

    resource_name: str = ""
    restart_policy: str = ""


class ContainerRestartRule(KubeStruct, frozen=True):
    """The action when a container ends in a certain way: Restart or RestartAllContainers."""

    action: str = ""


class Container(KubeStruct, frozen=True):
    """A container, an init container, or with `restart_policy` Always among the init containers a sidecar."""

    name: str = ""
    image: str = ""
    resources: ContainerResources = ContainerResources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()


class Toleration(KubeStruct, frozen=True):
    """A toleration of taints; operator "" is Equal, effect "" matches every effect, key "" with Exists every key."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class PreferredSchedulingTerm(KubeStruct, frozen=True):
    """A node preference and its weight."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(KubeStruct, frozen=True):
    """affinity.nodeAffinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(KubeStruct, frozen=True):
    """Other pods in the same topology domain.

    `label_selector` None matches no pod; `namespace_selector` None leaves the listed namespaces, or without any the pod's own.
    """

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(KubeStruct, frozen=True):
    """A pod (anti-)affinity preference and its weight."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(KubeStruct, frozen=True):
    """affinity.podAffinity or affinity.podAntiAffinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(KubeStruct, frozen=True):
    """spec.affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(KubeStruct, frozen=True):
    """One of spec.topologySpreadConstraints; policies None are Honor for affinity and Ignore for taints, min_domains None is 1."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(KubeStruct, frozen=True):
    """A gate that keeps a pod from being scheduled until someone removes it."""

    name: str = ""


class PodResourceClaim(KubeStruct, frozen=True):
    """A claim of dynamic resource allocation."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(KubeStruct, frozen=True):
    """The group with which a pod must be scheduled."""

    pod_group_name: str | None = None


class PodSpec(KubeStruct, frozen=True):
    """spec of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    resources: ContainerResources | None = None
    overhead: Quantities = field(default_factory=dict)
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduler_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    service_account_name: str = ""
    runtime_class_name: str | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None


class PodCondition(KubeStruct, frozen=True):
    """One of status.conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: Int64 = 0


class ContainerStatus(KubeStruct, frozen=True):
    """The resources that the kubelet has allocated to and actuated for a container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities = field(default_factory=dict)


class PodResourceClaimStatus(KubeStruct, frozen=True):
    """The claim that was made for one of spec.resourceClaims; None if none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(KubeStruct, frozen=True):
    """The request of the claim that provides an extended resource to a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(KubeStruct, frozen=True):
    """The claim that the scheduler made for the extended resources of a pod."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class PodStatus(KubeStruct, frozen=True):
    """status of a pod."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: Time | None = None
    qos_class: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities = field(default_factory=dict)
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None

    @property
    def unschedulable(self) -> str:
        """The scheduler's message that the pod finds no node; "" if it has not reported so."""
        return next((each.message for each in self.conditions if (each.type, each.status) == ("PodScheduled", "False")), "")


class Pod(KubeStruct, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
