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
from wharfinger.model.objects.pods import (
    ISCSI,
    RBD,
    Affinity,
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    CinderVolume,
    Container,
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
    PodResourceClaim,
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
    }
)

CLUSTER_SCOPED = frozenset(
    {Node, Namespace, PersistentVolume, StorageClass, CSINode, CSIDriver, VolumeAttachment, PriorityClass, RuntimeClass}
)


def kind_of(obj: AnyObject) -> str:
    """The Kubernetes kind of an object: `Pod`, `Node`, …."""
    return type(obj).__name__


def key_of(obj: AnyObject) -> str:
    """The name under which an object is found: `namespace/name`, or `name` for what belongs to no namespace; namespace "" is `default`."""
    if type(obj) in CLUSTER_SCOPED:
        return obj.metadata.name
    return f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"


__all__ = [
    "CLUSTER_SCOPED",
    "ISCSI",
    "KINDS",
    "RBD",
    "AWSElasticBlockStore",
    "Affinity",
    "AnyObject",
    "AttachedVolume",
    "AzureDisk",
    "AzureFile",
    "CSIDriver",
    "CSIDriverSpec",
    "CSINode",
    "CSINodeDriver",
    "CSINodeSpec",
    "CSIStorageCapacity",
    "CSIVolume",
    "CinderVolume",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerResources",
    "ContainerStatus",
    "CronJob",
    "CronJobSpec",
    "DaemonSet",
    "Deployment",
    "EmptyDirVolume",
    "EphemeralVolume",
    "GCEPersistentDisk",
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
    "ObjectMeta",
    "ObjectReference",
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
    "PodResourceClaim",
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
    "ResourceClaimUse",
    "ResourceRequirements",
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
]
