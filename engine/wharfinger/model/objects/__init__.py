"""Kubernetes objects as frozen structs, in one namespace: `objects.Pod`, `objects.Node` and so on.

Attributes are the snake_case of Kubernetes' own names (`pod.spec.node_selector`). An absent or null field is the zero value of its type;
only if Kubernetes distinguishes absent from empty (a label selector, minDomains, …), the field is Optional. Quantities stay text.

Start with `pods` and `cluster` for the structs; `pod_view` and `node_view` derive what decisions read from them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TypeAlias

from wharfinger.model.objects.cluster import (
    AttachedVolume,
    ContainerImage,
    CronJob,
    CronJobSpec,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    DaemonSet,
    Deployment,
    Job,
    JobSpec,
    JobTemplateSpec,
    LocalVolume,
    Namespace,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    PersistentVolume,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodTemplate,
    PodTemplateSpec,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    RuntimeClass,
    RuntimeClassOverhead,
    Service,
    ServiceSpec,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetSpec,
    StorageClass,
    Taint,
    TopologySelectorRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
    VolumeNodeAffinity,
    VolumeNodeResources,
    WorkloadSpec,
)
from wharfinger.model.objects.devices import (
    AllocatedConfiguration,
    AllocatedDevice,
    AllocatedDevices,
    AllocatedDeviceStatus,
    Allocation,
    CapacityRange,
    CapacityRequestPolicy,
    CapacityRequirements,
    CELSelector,
    ClaimConfiguration,
    ClaimConsumer,
    ClassConfiguration,
    Counter,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceCondition,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    OpaqueConfiguration,
    RequestedDevices,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from wharfinger.model.objects.metadata import (
    KubeStruct,
    LabelSelector,
    LabelSelectorRequirement,
    LocalReference,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Quantities,
    ResourceRequirements,
)
from wharfinger.model.objects.pod_groups import (
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
    GangSchedulingPolicy,
    ObjectCondition,
    PodGroup,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodGroupStatus,
    TopologyConstraint,
)
from wharfinger.model.objects.pods import (
    CLASS_ANNOTATION,
    DEFAULT_SCHEDULER,
    ISCSI,
    RBD,
    Affinity,
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    CinderVolume,
    Container,
    ContainerExtendedResourceRequest,
    ContainerPort,
    ContainerResizePolicy,
    ContainerResources,
    ContainerStatus,
    CSIVolume,
    EmptyDirVolume,
    EphemeralVolume,
    GCEPersistentDisk,
    ImageVolume,
    NodeAffinity,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolume,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSchedulingGate,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
    PortworxVolume,
    PreferredSchedulingTerm,
    ResourceClaimUse,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    VsphereVolume,
    WeightedPodAffinityTerm,
)

AnyObject: TypeAlias = (
    Pod
    | Node
    | Namespace
    | Service
    | ReplicationController
    | ReplicaSet
    | StatefulSet
    | Deployment
    | DaemonSet
    | Job
    | CronJob
    | PodTemplate
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
    | PodDisruptionBudget
    | PriorityClass
    | RuntimeClass
    | ResourceSlice
    | DeviceClass
    | ResourceClaim
    | ResourceClaimTemplate
    | PodGroup
    | CoschedulingPodGroup
)

# Kinds by the API group that defines them: another group may have a kind of the same name (Knative's Service), which is not read.
KINDS: MappingProxyType[tuple[str, str], type[AnyObject]] = MappingProxyType(
    {
        ("", "Pod"): Pod,
        ("", "Node"): Node,
        ("", "Namespace"): Namespace,
        ("", "Service"): Service,
        ("", "ReplicationController"): ReplicationController,
        ("", "PodTemplate"): PodTemplate,
        ("", "PersistentVolume"): PersistentVolume,
        ("", "PersistentVolumeClaim"): PersistentVolumeClaim,
        ("apps", "ReplicaSet"): ReplicaSet,
        ("apps", "StatefulSet"): StatefulSet,
        ("apps", "Deployment"): Deployment,
        ("apps", "DaemonSet"): DaemonSet,
        ("batch", "Job"): Job,
        ("batch", "CronJob"): CronJob,
        ("storage.k8s.io", "StorageClass"): StorageClass,
        ("storage.k8s.io", "CSINode"): CSINode,
        ("storage.k8s.io", "CSIDriver"): CSIDriver,
        ("storage.k8s.io", "CSIStorageCapacity"): CSIStorageCapacity,
        ("storage.k8s.io", "VolumeAttachment"): VolumeAttachment,
        ("policy", "PodDisruptionBudget"): PodDisruptionBudget,
        ("scheduling.k8s.io", "PriorityClass"): PriorityClass,
        ("node.k8s.io", "RuntimeClass"): RuntimeClass,
        ("resource.k8s.io", "ResourceSlice"): ResourceSlice,
        ("resource.k8s.io", "DeviceClass"): DeviceClass,
        ("resource.k8s.io", "ResourceClaim"): ResourceClaim,
        ("resource.k8s.io", "ResourceClaimTemplate"): ResourceClaimTemplate,
        ("scheduling.k8s.io", "PodGroup"): PodGroup,
        ("scheduling.x-k8s.io", "PodGroup"): CoschedulingPodGroup,
    }
)

CLUSTER_SCOPED: frozenset[type[AnyObject]] = frozenset(
    {
        Node,
        Namespace,
        PersistentVolume,
        StorageClass,
        CSINode,
        CSIDriver,
        VolumeAttachment,
        PriorityClass,
        RuntimeClass,
        ResourceSlice,
        DeviceClass,
    }
)


def kind_of(obj: AnyObject) -> str:
    """The kind under which an object is kept: `Pod`, `Node`, …; that of Kubernetes, unless two API groups have a kind of that name."""
    return type(obj).__name__


_WRITTEN_KINDS = MappingProxyType({struct: kind for (_, kind), struct in KINDS.items()})


def written_kind(obj: AnyObject) -> str:
    """The `kind` of an object in a manifest."""
    return _WRITTEN_KINDS[type(obj)]


def key_of(obj: AnyObject) -> str:
    """The name under which an object is found: `namespace/name`, or `name` for what belongs to no namespace; namespace "" is `default`."""
    if type(obj) in CLUSTER_SCOPED:
        return obj.metadata.name
    return f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"


__all__ = [
    "CLASS_ANNOTATION",
    "CLUSTER_SCOPED",
    "DEFAULT_SCHEDULER",
    "ISCSI",
    "KINDS",
    "RBD",
    "AWSElasticBlockStore",
    "Affinity",
    "AllocatedConfiguration",
    "AllocatedDevice",
    "AllocatedDeviceStatus",
    "AllocatedDevices",
    "Allocation",
    "AnyObject",
    "AttachedVolume",
    "AzureDisk",
    "AzureFile",
    "CELSelector",
    "CSIDriver",
    "CSIDriverSpec",
    "CSINode",
    "CSINodeDriver",
    "CSINodeSpec",
    "CSIStorageCapacity",
    "CSIVolume",
    "CapacityRange",
    "CapacityRequestPolicy",
    "CapacityRequirements",
    "CinderVolume",
    "ClaimConfiguration",
    "ClaimConsumer",
    "ClassConfiguration",
    "Container",
    "ContainerExtendedResourceRequest",
    "ContainerImage",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerResources",
    "ContainerStatus",
    "CoschedulingPodGroup",
    "CoschedulingPodGroupSpec",
    "Counter",
    "CounterConsumption",
    "CounterSet",
    "CronJob",
    "CronJobSpec",
    "DaemonSet",
    "Deployment",
    "Device",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceClaim",
    "DeviceClass",
    "DeviceClassSpec",
    "DeviceCondition",
    "DeviceConstraint",
    "DeviceRequest",
    "DeviceSelector",
    "DeviceSubRequest",
    "DeviceTaint",
    "DeviceToleration",
    "EmptyDirVolume",
    "EphemeralVolume",
    "ExactDeviceRequest",
    "GCEPersistentDisk",
    "GangSchedulingPolicy",
    "ImageVolume",
    "Job",
    "JobSpec",
    "JobTemplateSpec",
    "KubeStruct",
    "LabelSelector",
    "LabelSelectorRequirement",
    "LocalReference",
    "LocalVolume",
    "Namespace",
    "Node",
    "NodeAffinity",
    "NodeCondition",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectCondition",
    "ObjectMeta",
    "ObjectReference",
    "OpaqueConfiguration",
    "OwnerReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimVolume",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodCondition",
    "PodDisruptionBudget",
    "PodDisruptionBudgetSpec",
    "PodDisruptionBudgetStatus",
    "PodExtendedResourceClaimStatus",
    "PodGroup",
    "PodGroupSchedulingConstraints",
    "PodGroupSchedulingPolicy",
    "PodGroupSpec",
    "PodGroupStatus",
    "PodResourceClaim",
    "PodResourceClaimStatus",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PodTemplateSpec",
    "PortworxVolume",
    "PreferredSchedulingTerm",
    "PriorityClass",
    "Quantities",
    "ReplicaSet",
    "ReplicationController",
    "ReplicationControllerSpec",
    "RequestedDevices",
    "ResourceClaim",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateSpec",
    "ResourceClaimUse",
    "ResourcePool",
    "ResourceRequirements",
    "ResourceSlice",
    "ResourceSliceSpec",
    "RuntimeClass",
    "RuntimeClassOverhead",
    "Service",
    "ServiceSpec",
    "StatefulSet",
    "StatefulSetOrdinals",
    "StatefulSetSpec",
    "StorageClass",
    "Taint",
    "Toleration",
    "TopologyConstraint",
    "TopologySelectorRequirement",
    "TopologySelectorTerm",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeAttachment",
    "VolumeAttachmentSource",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
    "VolumeNodeAffinity",
    "VolumeNodeResources",
    "VsphereVolume",
    "WeightedPodAffinityTerm",
    "WorkloadSpec",
    "key_of",
    "kind_of",
    "written_kind",
]
