"""Objects that make or group pods: workload controllers, services, disruption budgets."""

from __future__ import annotations

from msgspec import field

from wharfinger.model.objects_meta import Int32, KubeStruct, LabelSelector, ObjectMeta
from wharfinger.model.objects_pod import PodSpec
from wharfinger.model.objects_volume import PersistentVolumeClaimTemplate


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
    """Where the numbering of a StatefulSet's pods starts."""

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


class PodDisruptionBudgetStatus(KubeStruct, frozen=True):
    """status of a PodDisruptionBudget; `disrupted_pods` names pods whose eviction is already counted."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] = field(default_factory=dict)
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0


class PodDisruptionBudget(KubeStruct, frozen=True):
    """How many of some pods may be disrupted at once."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
