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
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from wharfinger.model.objects_volume import (
    CSIDriver,
    CSINode,
    CSINodeDriver,
    CSIStorageCapacity,
    EphemeralVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolume,
    PersistentVolumeSpec,
    StorageClass,
    TopologySelectorTerm,
    Volume,
    VolumeAttachment,
)
from wharfinger.model.objects_workload import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    PodDisruptionBudget,
    PodTemplate,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
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
    "KINDS",
    "Affinity",
    "AnyObject",
    "AttachedVolume",
    "CSIDriver",
    "CSINode",
    "CSINodeDriver",
    "CSIStorageCapacity",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerResources",
    "ContainerStatus",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "EphemeralVolume",
    "Job",
    "KubeStruct",
    "LabelSelector",
    "LabelSelectorRequirement",
    "LocalReference",
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
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimVolume",
    "PersistentVolumeSpec",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodCondition",
    "PodDisruptionBudget",
    "PodResourceClaim",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PodTemplateSpec",
    "PreferredSchedulingTerm",
    "PriorityClass",
    "Quantities",
    "ReplicaSet",
    "ReplicationController",
    "ResourceRequirements",
    "RuntimeClass",
    "RuntimeClassOverhead",
    "Service",
    "StatefulSet",
    "StorageClass",
    "Taint",
    "Toleration",
    "TopologySelectorTerm",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeAttachment",
    "WeightedPodAffinityTerm",
    "key_of",
    "kind_of",
]
