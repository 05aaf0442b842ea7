"""PodGroups: those of Kubernetes (`scheduling.k8s.io`), and those of the coscheduling plugin (`scheduling.x-k8s.io`).

The structs of Kubernetes' PodGroup have the fields that v1alpha2 (Kubernetes 1.36) and v1beta1 (1.37) share; the disruption mode is text in
the former and an object in the latter. Pods name their group in `spec.schedulingGroup.podGroupName`, or in a label of the plugin.

Source: k8s.io/api, scheduling/v1alpha2 and v1beta1; sigs.k8s.io/scheduler-plugins, apis/scheduling/v1alpha1.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from wharfinger.model.objects.metadata import Int32, Int64, KubeStruct, ObjectMeta, Quantities, Time
from wharfinger.model.objects.pods import Pod, PodResourceClaim

GROUP_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
"""The labels in which pods name their group for the coscheduling plugin; the second is the one before Kubernetes 1.22."""


class TopologyConstraint(KubeStruct, frozen=True):
    """All members run on nodes with one value of the label `key`."""

    key: str = ""


class PodGroupSchedulingConstraints(KubeStruct, frozen=True):
    """schedulingConstraints of a PodGroup."""

    topology: tuple[TopologyConstraint, ...] = ()


class BasicSchedulingPolicy(KubeStruct, frozen=True):
    """schedulingPolicy.basic: pods are placed one by one."""


class GangSchedulingPolicy(KubeStruct, frozen=True):
    """schedulingPolicy.gang: `min_count` pods are placed at once, or none. It is required: 0 would be a group without a condition."""

    min_count: Annotated[int, Meta(ge=1, le=2**31 - 1)]


class PodGroupSchedulingPolicy(KubeStruct, frozen=True):
    """schedulingPolicy of a PodGroup; one of the two is set."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class DisruptionChoice(KubeStruct, frozen=True):
    """An empty object, whose presence is the choice."""


class DisruptionModes(KubeStruct, frozen=True):
    """disruptionMode of v1beta1; one of the two is set."""

    single: DisruptionChoice | None = None
    all: DisruptionChoice | None = None


class PodGroupSpec(KubeStruct, frozen=True):
    """spec of a PodGroup; `disruption_mode` is `Pod` or `PodGroup` in v1alpha2, which has no `preemption_policy`.

    The claims are there if the API server's feature gate `DRAWorkloadResourceClaims` is on.
    """

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: str | DisruptionModes | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()


class ObjectCondition(KubeStruct, frozen=True):
    """One of status.conditions of an object that uses `metav1.Condition`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: Int64 = 0
    last_transition_time: Time | None = None


class PodGroupStatus(KubeStruct, frozen=True):
    """status of a PodGroup."""

    conditions: tuple[ObjectCondition, ...] = ()


class PodGroup(KubeStruct, frozen=True):
    """A PodGroup of Kubernetes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class CoschedulingPodGroupSpec(KubeStruct, frozen=True):
    """spec of a PodGroup of the coscheduling plugin."""

    min_member: Int32 = 0
    min_resources: Quantities = field(default_factory=dict)
    schedule_timeout_seconds: Int32 | None = None


class CoschedulingPodGroup(KubeStruct, frozen=True):
    """A PodGroup of the coscheduling plugin, a custom resource."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CoschedulingPodGroupSpec = CoschedulingPodGroupSpec()


def podgroup_name(pod: Pod) -> str:
    """The PodGroup of Kubernetes that a pod names, or ""."""
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""


def labelled_group(pod: Pod) -> str:
    """The group that a pod names in a label of the coscheduling plugin, or ""."""
    labels = pod.metadata.labels
    return (labels.get(GROUP_LABELS[0]) or labels.get(GROUP_LABELS[1]) or "") if labels else ""
