"""Every Kubernetes object that Wharfinger reads, in one namespace: `objects.Pod`, `objects.Node` and so on.

Attributes are the snake_case of Kubernetes' own names (`pod.spec.node_selector`). Absent and null fields are the zero value of their
type, so nobody asks for None where Kubernetes knows no difference; where it does (a label selector, minDomains, …) the field is Optional.
Quantities stay text.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TypeAlias

from wharfinger.model.objects_meta import (
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
from wharfinger.model.objects_node import (
    AttachedVolume,
    ContainerImage,
    Namespace,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    PriorityClass,
    RuntimeClass,
    RuntimeClassOverhead,
    Taint,
)
from wharfinger.model.objects_pod import (
    Affinity,
    Container,
    ContainerPort,
    ContainerResizePolicy,
    ContainerResources,
    ContainerStatus,
    NodeAffinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodResourceClaim,
    PodSchedulingGate,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceClaimUse,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from wharfinger.model.objects_storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    LocalVolume,
    PersistentVolume,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from wharfinger.model.objects_volume import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    CinderVolume,
    CSIVolume,
    EphemeralVolume,
    GCEPersistentDisk,
    ImageVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolume,
    PortworxVolume,
    Volume,
    VsphereVolume,
)
from wharfinger.model.objects_workload import (
    CronJob,
    CronJobSpec,
    DaemonSet,
    Deployment,
    Job,
    JobSpec,
    JobTemplateSpec,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodTemplate,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    Service,
    ServiceSpec,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetSpec,
    WorkloadSpec,
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

# Kinds by the API group that defines them: another group may well have a kind of the same name (Knative's Service), which is none of ours.
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
