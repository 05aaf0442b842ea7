"""The models of the custom resources, each with its specification and its status.

SchedulingPolicy is a policy as an object of the cluster. PolicyApp is an application that runs where its policy says. PlacementPreview is a
question to the scheduler. The answer is in the object's status, and the object is deleted when its time is over.

Every field has bounds: an API server estimates the worst cost of its validation rules and refuses a definition that could cost too much,
and a status must stay small enough to be written often.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

MAX_CONDITIONS = 16


class Part(BaseModel):
    """Base of all models: camelCase on the wire; fields that a later version has are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, defer_build=True)

    def plain(self) -> dict[str, Any]:
        """The JSON of it, without fields that have no value."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """The schema extension for CEL rules, each with its error message."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def map_list(*keys: str) -> dict[str, Any]:
    """The schema extension for a list whose items are identified by fields, so that several writers can share it."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


PolicyName = Annotated[str, Field(min_length=1, max_length=253)]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
PolicyText = Annotated[str, Field(min_length=1, max_length=262_144)]
Sentence = Annotated[str, Field(max_length=1024)]
Word = Annotated[str, Field(max_length=253)]
Count = Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
Generation = Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
Params = Annotated[
    Mapping[str, Annotated[str, Field(max_length=1024)]],
    Field(
        max_length=64,
        json_schema_extra=rules(
            ("self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]*$'))", "the name of a param is a word of the policy language")
        ),
    ),
]


class Condition(Part):
    """State of one aspect of the object, in the form of `metav1.Condition`."""

    type: Annotated[str, Field(max_length=63, description="Type of the condition, for example `Ready`, `Compiled` or `Active`.")]
    status: Literal["True", "False", "Unknown"] = Field(description="Status of the condition: `True`, `False` or `Unknown`.")
    reason: Annotated[
        str, Field(max_length=253, description="Reason for the last change of the status, as one word in CamelCase for programs.")
    ]
    message: Annotated[
        str, Field(max_length=4096, description="Details about the last change of the status, as a sentence for people.")
    ] = ""
    observed_generation: Generation | None = Field(
        default=None,
        description=(
            "`metadata.generation` of the object when this condition was set. If it is smaller than the current "
            "generation, the condition is out of date."
        ),
    )
    last_transition_time: datetime | None = Field(default=None, description="Time of the last change of `status`.")


class Reasons(Part):
    """A pod or node and the reasons against it."""

    reasons: Annotated[tuple[Sentence, ...], Field(max_length=16)] = Field(
        default=(), description="Reasons against the node, one sentence each."
    )


Conditions = Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS, json_schema_extra=map_list("type"))]

MAX_DIAGNOSTICS = 20
MAX_REPEATED_LENGTH = 65_536
"""Characters of a text that the status repeats."""


class PolicyMode(StrEnum):
    """The effect of a policy: it decides, is only compared with decisions, or has no effect."""

    ENFORCE = "Enforce"
    SHADOW = "Shadow"
    OFF = "Off"


class SchedulingPolicySpec(Part):
    """Desired state of the policy: its text, and how it is used."""

    source: PolicyText = Field(
        description=(
            "Text of the policy in the policy language. It can contain tests, which must pass before the policy "
            "becomes active. It cannot import files."
        )
    )
    mode: PolicyMode = Field(
        default=PolicyMode.ENFORCE,
        description=(
            "Effect of the policy. `Enforce`: it decides. `Shadow`: the scheduler counts where it would have "
            "decided otherwise, and changes nothing. `Off`: it is checked and not used."
        ),
    )
    params: Params = Field(
        default_factory=dict,
        description=(
            "Values for the params that the text declares, written as in the text, for example `keep_free: "
            '"10%"`. Each must be in the range of its param; other params keep their defaults.'
        ),
    )
    namespace: NamespaceName | None = Field(
        default=None,
        description=(
            "Namespace that owns the policy. The policy then governs and reads only pods of this namespace. "
            "Without it, the policy belongs to the cluster."
        ),
    )


class PolicyDiagnostic(Part):
    """One finding of the check of the text."""

    line: Count = Field(description="Line in `spec.source`; the first one is 1.")
    column: Count = Field(description="Column in the line; the first one is 1.")
    code: Word = Field(description="Stable code of the finding, for example P302. docs/errors has a page for each code.")
    severity: Word = Field(default="error", description="`error` or `warning`. A policy with an error does not become active.")
    message: Sentence = Field(description="Description of the problem.")
    help: Sentence | None = Field(default=None, description="Proposed change of the text.")


class LastKnownGood(Part):
    """Active version of the policy, kept so that a scheduler that starts while `spec` is broken can continue with it."""

    source: Annotated[str, Field(min_length=1, max_length=MAX_REPEATED_LENGTH)] = Field(description="Text of this version.")
    params: Params = Field(default_factory=dict, description="Values of its params.")
    generation: Generation = Field(description="`metadata.generation` of the object that had this text.")
    since: datetime = Field(description="Time at which this version became active.")


class SchedulingPolicyStatus(Part):
    """Observed state of the policy, written by the scheduler."""

    observed_generation: Generation | None = Field(default=None, description="`metadata.generation` to which this status belongs.")
    policy: PolicyName | None = Field(default=None, description="Name of the policy, as written in its text.")
    authority: Word | None = Field(default=None, description="Owner of the policy: `cluster`, or `namespace` and its name.")
    revision: Word | None = Field(default=None, description="Revision (SHA-256) of the active version. Empty if no version is active.")
    last_known_good: LastKnownGood | None = Field(
        default=None,
        description=(
            "Version that is active. The scheduler uses it after a restart if `spec.source` cannot be used then. "
            "Texts of more than 65,536 characters are not kept here."
        ),
    )
    conditions: Conditions = Field(
        default=(), description="Conditions of the policy: `Ready`, `Compiled`, `Tested`, `Active` and `MetricsAvailable`."
    )
    diagnostics: Annotated[tuple[PolicyDiagnostic, ...], Field(max_length=MAX_DIAGNOSTICS)] = Field(
        default=(), description="First findings of the check of `spec.source`."
    )
    matched: Count | None = Field(default=None, description="Number of pods that the policy governs.")
    eligible: Count | None = Field(
        default=None, description="Number of nodes that pass the filters of the policy, for a typical one of these pods."
    )
    nodes: Count | None = Field(default=None, description="Number of nodes in the cluster.")


MAX_DRIFTED = 50
_QUANTITY = r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"

Quantity = Annotated[
    str | int,
    Field(json_schema_extra={"anyOf": None, "x-kubernetes-int-or-string": True, "pattern": _QUANTITY, "maxLength": 64}),
]
Quantities = Annotated[dict[str, Quantity], Field(max_length=32)]


class EnvVar(Part):
    """Environment variable of the container."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")] = Field(
        description="Name of the variable."
    )
    value: Annotated[str, Field(max_length=4096)] = Field(default="", description="Value of the variable.")


class AppResources(Part):
    """Resource requests and limits."""

    requests: Quantities = Field(
        default_factory=dict, description="Resources that the scheduler reserves for each pod, for example `cpu: 500m` and `memory: 1Gi`."
    )
    limits: Quantities = Field(default_factory=dict, description="Resources that each container can use at most.")


class AppPolicy(Part):
    """Policy that decides where the pods of the app run: either `name` or `inline`."""

    name: PolicyName | None = Field(
        default=None, description="Name of a policy that the scheduler has. It must govern the pods of the app."
    )
    inline: PolicyText | None = Field(
        default=None,
        description=("Text of a policy for this app. It governs only pods of the app, whatever it contains. Tests in it are not run."),
    )
    params: Params = Field(default_factory=dict, description="Values for the params of the inline policy.")


class DriftPolicy(StrEnum):
    """The action for pods that no longer satisfy the policy."""

    REPORT = "Report"
    EVICT = "Evict"


class PolicyAppSpec(Part):
    """Desired state of the app."""

    image: Annotated[str, Field(min_length=1, max_length=512)] = Field(description="Container image.")
    replicas: Annotated[int, Field(ge=0, le=10_000, json_schema_extra={"format": "int32"})] = Field(
        default=1, description="Desired number of pods."
    )
    port: Annotated[int, Field(ge=1, le=65_535, json_schema_extra={"format": "int32"})] | None = Field(
        default=None,
        description=("Port on which the container listens. If it is set, a Service with the name of the app is created for it."),
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64, json_schema_extra=map_list("name"))] = Field(
        default=(), description="Environment variables of the container."
    )
    resources: AppResources = Field(default_factory=AppResources, description="Resource requests and limits of the container.")
    scheduler_name: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        default="wharfinger", description="Scheduler that places the pods."
    )
    policy: (
        Annotated[
            AppPolicy,
            Field(
                json_schema_extra=rules(
                    ("has(self.name) != has(self.inline)", "give either the name of a policy or one inline"),
                    ("has(self.inline) || !has(self.params)", "params are for an inline policy; those of a named one are set where it is"),
                )
            ),
        ]
        | None
    ) = Field(default=None, description="Policy that decides where the pods run. Without it, all policies apply that govern the pods.")
    drift_policy: DriftPolicy = Field(
        default=DriftPolicy.REPORT,
        description=(
            "Treatment of running pods whose node no longer passes the policy. `Report`: they are listed in the "
            "status. `Evict`: they are also evicted, one at a time, within their PodDisruptionBudgets."
        ),
    )
    eviction_interval_seconds: Annotated[int, Field(ge=1, le=86_400, json_schema_extra={"format": "int32"})] = Field(
        default=60, description="Minimum time between two evictions, in seconds."
    )


class AppPhase(StrEnum):
    """The phase of an app.

                      ┌──────────────── spec changes, pods go ────────────────┐
                      ▼                                                       │
        Pending ─▶ Progressing ─────── all replicas ready, up to date ────▶ Running
           │          │    ▲                                                  │
           │          │    └────── it moves again ──────┐                     │ fewer ready than asked for
           │          └── no progress in time ──▶ Degraded ◀──────────────────┘
           │                                            │
           └──────────────▶ Failed ◀────────────────────┘   what is asked for cannot be made: refused by the API server, policy broken

    Pending: nothing of it is there yet. Failed is left as soon as what is asked for can be made.
    """

    PENDING = "Pending"
    PROGRESSING = "Progressing"
    RUNNING = "Running"
    DEGRADED = "Degraded"
    FAILED = "Failed"


class DriftedPod(Reasons):
    """Running pod whose node no longer passes the policy."""

    pod: Word = Field(description="Name of the pod.")
    node: Word = Field(description="Name of the node on which it runs.")


class PolicyAppStatus(Part):
    """Observed state of the app, written by the scheduler."""

    observed_generation: Generation | None = Field(default=None, description="`metadata.generation` to which this status belongs.")
    phase: Literal["Pending", "Progressing", "Running", "Degraded", "Failed"] | None = Field(
        default=None,
        description=(
            "Summary of the state. `Pending`: nothing runs yet. `Progressing`: pods are being created or "
            "replaced. `Running`: all pods are ready. `Degraded`: fewer pods than desired are ready. `Failed`: "
            "the app cannot run; see `message`."
        ),
    )
    message: Annotated[str, Field(max_length=4096)] | None = Field(default=None, description="Reason for the phase, as a sentence.")
    replicas: Count | None = Field(default=None, description="Number of pods.")
    ready_replicas: Count | None = Field(default=None, description="Number of pods that are ready.")
    updated_replicas: Count | None = Field(default=None, description="Number of pods that match the current spec.")
    selector: Word | None = Field(default=None, description="Label selector of the pods, for the scale subresource.")
    policy: PolicyName | None = Field(default=None, description="Name of the policy that decides where the pods run.")
    drifted: Count | None = Field(default=None, description="Number of running pods whose node no longer passes the policy.")
    drift: Annotated[tuple[DriftedPod, ...], Field(max_length=MAX_DRIFTED)] = Field(
        default=(), description="First of these pods, with the reasons."
    )
    last_eviction: datetime | None = Field(default=None, description="Time of the last eviction of such a pod.")
    conditions: Conditions = Field(default=(), description="Conditions of the app: `Ready`, `Applied`, `Governed` and `Drifted`.")


MAX_PLACEMENTS = 200
MAX_PODS_WITH_DEVICES = 8
MAX_RULES = 50
MAX_PODS = 1000
MAX_NEW_NODES = 100
MAX_LIFETIME = 7 * 24 * 3600

Template = Annotated[
    dict[str, Any],
    Field(json_schema_extra={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "additionalProperties": None}),
]


class WorkloadRef(Part):
    """Workload in the namespace of the preview."""

    kind: Literal["Deployment", "StatefulSet", "ReplicaSet", "Job", "PolicyApp"] = Field(description="Kind of the workload.")
    name: ObjectName = Field(description="Name of the workload, in the namespace of the preview.")


class PreviewPolicy(Part):
    """One policy to decide by: either `name` or `source`."""

    name: PolicyName | None = Field(default=None, description="Name of a policy that the scheduler has.")
    source: PolicyText | None = Field(default=None, description="Text of a policy that the scheduler does not have.")
    params: Params = Field(default_factory=dict, description="Values for the params of `source`.")


class PreviewNodes(Part):
    """Nodes that do not exist, like one that does."""

    like: ObjectName = Field(
        description=(
            "Name of an existing node. The supposed nodes have its labels, taints and resources, and the pods of DaemonSets and "
            "static pods of such a node."
        )
    )
    count: Annotated[int, Field(ge=1, le=MAX_NEW_NODES, json_schema_extra={"format": "int32"})] = Field(
        default=1, description="Number of supposed nodes."
    )


class PlacementPreviewSpec(Part):
    """The question: which pods to place, and on which supposed cluster."""

    template: Template | None = Field(
        default=None,
        description=("Template of the pods to place, with metadata and spec, as in a Deployment. Either this or `workloadRef` is needed."),
    )
    workload_ref: WorkloadRef | None = Field(
        default=None, description="Existing workload whose pods are to be placed. Either this or `template` is needed."
    )
    replicas: Annotated[int, Field(ge=1, le=MAX_PODS, json_schema_extra={"format": "int32"})] | None = Field(
        default=None, description="Number of pods to place. Default: the replicas of the workload, or 1 for a template."
    )
    policies: (
        Annotated[
            tuple[
                Annotated[
                    PreviewPolicy,
                    Field(
                        json_schema_extra=rules(
                            ("has(self.name) != has(self.source)", "give either the name of a policy or the source of one")
                        )
                    ),
                ],
                ...,
            ],
            Field(max_length=16),
        ]
        | None
    ) = Field(
        default=None,
        description=(
            "Policies that decide, in place of the policies of the scheduler. With an empty list, only the rules of Kubernetes apply."
        ),
    )
    nodes: Annotated[tuple[PreviewNodes, ...], Field(max_length=8)] = Field(
        default=(), description="Nodes that do not exist, to be added for the answer."
    )
    drain: Annotated[tuple[ObjectName, ...], Field(max_length=16)] = Field(
        default=(),
        description=("Names of nodes that are drained before the pods are placed, in this order and by the rules of `wharf drain`."),
    )
    capacity: bool | None = Field(default=None, description="If true, the answer also counts how many further pods fit.")
    ttl_seconds: Annotated[int, Field(ge=10, le=MAX_LIFETIME, json_schema_extra={"format": "int32"})] = Field(
        default=3600, description="Time after creation at which the preview is deleted, in seconds."
    )


class PlacementCount(Part):
    """Number of pods that a node would get."""

    node: Word = Field(description="Name of the node.")
    count: Count = Field(description="Number of these pods on the node.")
    devices: Annotated[tuple[Word, ...], Field(max_length=MAX_PODS_WITH_DEVICES)] | None = Field(
        default=None, description="Devices that these pods get, a line `pod: request: device` for each; of the first pods only."
    )


class RuleCount(Part):
    """Result of one rule for a pod without a node."""

    rule: Word = Field(description="Name of the plugin of Kubernetes, or `policy/rule`.")
    rejected: Count = Field(description="Number of nodes that this rule rejects, independent of other rules.")
    reasons: Annotated[tuple[Sentence, ...], Field(max_length=8)] = Field(
        default=(), description="Messages of the rule, each with the number of nodes."
    )


class NearestMiss(Reasons):
    """Node with the fewest reasons against it."""

    node: Word = Field(description="Name of the node.")


class PlacementPreviewStatus(Part):
    """The answer for the current state of the cluster, renewed until the preview expires."""

    observed_generation: Generation | None = Field(default=None, description="`metadata.generation` to which this answer belongs.")
    pods: Count | None = Field(default=None, description="Number of pods to place.")
    placed: Count | None = Field(default=None, description="Number of these pods that get a node.")
    placements: Annotated[tuple[PlacementCount, ...], Field(max_length=MAX_PLACEMENTS)] = Field(
        default=(), description="Nodes with the number of pods that they get, in descending order of this number, then by name."
    )
    more_nodes: Count | None = Field(default=None, description="Number of nodes that get pods and are not listed in `placements`.")
    message: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="Reason why the first pod without a node has none."
    )
    rules: Annotated[tuple[RuleCount, ...], Field(max_length=MAX_RULES)] = Field(
        default=(), description="Result of each rule for the first pod without a node. Rules that reject no node are left out."
    )
    nearest_miss: NearestMiss | None = Field(
        default=None, description="Node with the fewest reasons against it, for the first pod without a node."
    )
    further: Count | None = Field(
        default=None, description="Number of further pods that fit, if `spec.capacity` is true. The count ends at 1000."
    )
    further_message: Annotated[str, Field(max_length=4096)] | None = Field(default=None, description="Reason why no further pod fits.")
    drained: Count | None = Field(
        default=None, description="Number of pods that leave the drained nodes and are created again by their controllers."
    )
    drained_placed: Count | None = Field(default=None, description="Number of these pods that get another node.")
    drained_forbidden: Count | None = Field(
        default=None, description="Number of pods that stay on drained nodes because a PodDisruptionBudget forbids their eviction."
    )
    drained_refused: Count | None = Field(default=None, description="Number of pods for which `kubectl drain` stops and requires a flag.")
    policy_revision: Word | None = Field(default=None, description="Revision of the set of policies that gave the answer.")
    expires_at: datetime | None = Field(default=None, description="Time at which the preview is deleted.")
    conditions: Conditions = Field(
        default=(), description="Conditions of the preview: `Ready`, and `Answered` if the question could be answered."
    )
