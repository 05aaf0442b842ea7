"""Pods: spec and status as far as scheduling reads them."""

from __future__ import annotations

from msgspec import field

from wharfinger.model.objects_meta import (
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
from wharfinger.model.objects_volume import Volume


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
    """What a resize of one resource does to the container."""

    resource_name: str = ""
    restart_policy: str = ""


class Container(KubeStruct, frozen=True):
    """A container, an init container, or with `restart_policy` Always among the init containers a sidecar."""

    name: str = ""
    image: str = ""
    resources: ContainerResources = ContainerResources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()


class Toleration(KubeStruct, frozen=True):
    """A taint that a pod puts up with; operator "" is Equal, effect "" is every effect, key "" with Exists every key."""

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
    """The group with which a pod wants to be scheduled."""

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
    service_account_name: str = ""
    runtime_class_name: str | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None


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


class Pod(KubeStruct, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
