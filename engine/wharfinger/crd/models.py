"""The models of the custom resources, each with its specification and its status.

SchedulingPolicy is a policy as an object of the cluster. PolicyApp is an application that runs where its policy says. PlacementPreview is a
question to the scheduler, answered in the object's status for as long as it stands.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from wharfinger.crd.fields import (
    Conditions,
    Count,
    Generation,
    NamespaceName,
    ObjectName,
    Params,
    Part,
    PolicyName,
    PolicyText,
    Reasons,
    Sentence,
    Word,
    map_list,
    rules,
)

MOST_DIAGNOSTICS = 20
MOST_REMEMBERED = 65_536
"""Characters of a text that the status repeats."""


class PolicyMode(StrEnum):
    """What a policy does: decide, only be compared with what is decided, or nothing."""

    ENFORCE = "Enforce"
    SHADOW = "Shadow"
    OFF = "Off"


class SchedulingPolicySpec(Part):
    """What the policy is."""

    source: PolicyText = Field(description="The text of the policy. It may hold tests; it must not import files.")
    mode: PolicyMode = Field(
        default=PolicyMode.ENFORCE,
        description="`Enforce` lets it decide, `Shadow` counts where it would have decided otherwise, `Off` keeps it out.",
    )
    params: Params = Field(
        default_factory=dict, description='Values of its params as in a policy\'s text ("10%", "2Gi"), within their ranges.'
    )
    namespace: NamespaceName | None = Field(
        default=None,
        description="The namespace whose policy it is: it governs and sees the pods of that one only. By default it is the cluster's.",
    )


class PolicyDiagnostic(Part):
    """One finding about the text."""

    line: Count = Field(description="The line, counted from 1.")
    column: Count = Field(description="The column, counted from 1.")
    code: Word = Field(description="The stable code of the finding; docs/errors has a page for each.")
    severity: Word = Field(default="error", description="`error` or `warning`.")
    message: Sentence = Field(description="What is wrong.")
    help: Sentence | None = Field(default=None, description="How to mend it.")


class LastKnownGood(Part):
    """The version that decides, so that a scheduler that starts while `spec` is broken can go on with it."""

    source: Annotated[str, Field(min_length=1, max_length=MOST_REMEMBERED)] = Field(description="The text of the policy.")
    params: Params = Field(default_factory=dict, description="The values of its params.")
    generation: Generation = Field(description="The generation of the object that it was.")
    since: datetime = Field(description="Since when it decides.")


class SchedulingPolicyStatus(Part):
    """What has become of the policy."""

    observed_generation: Generation | None = Field(default=None, description="The generation that all of this is about.")
    policy: PolicyName | None = Field(default=None, description="The name that the text gives to the policy.")
    authority: Word | None = Field(default=None, description="Whose policy it is: `cluster`, or `namespace` and its name.")
    revision: Word | None = Field(default=None, description="The revision (SHA-256) of the policy that is active, if one is.")
    last_known_good: LastKnownGood | None = Field(
        default=None, description="The version that decides, if its text has no more than 65,536 characters."
    )
    conditions: Conditions = Field(default=(), description="`Ready`, `Compiled`, `Tested`, `Active` and `MetricsAvailable`.")
    diagnostics: Annotated[tuple[PolicyDiagnostic, ...], Field(max_length=MOST_DIAGNOSTICS)] = Field(
        default=(), description="What is wrong with the text, the first findings."
    )
    matched: Count | None = Field(default=None, description="How many pods it governs.")
    eligible: Count | None = Field(default=None, description="How many nodes its rules let a typical pod of those go to.")
    nodes: Count | None = Field(default=None, description="How many nodes there are.")


MOST_DRIFTED = 50
_QUANTITY = r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"

Quantity = Annotated[
    str | int,
    Field(json_schema_extra={"anyOf": None, "x-kubernetes-int-or-string": True, "pattern": _QUANTITY, "maxLength": 64}),
]
Quantities = Annotated[dict[str, Quantity], Field(max_length=32)]


class EnvVar(Part):
    """A variable of the container's environment."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")] = Field(description="Its name.")
    value: Annotated[str, Field(max_length=4096)] = Field(default="", description="Its value.")


class AppResources(Part):
    """What the container asks for and may use at most."""

    requests: Quantities = Field(default_factory=dict, description="What scheduling counts: `cpu: 500m`, `memory: 1Gi`, …")
    limits: Quantities = Field(default_factory=dict, description="What the container may use at most.")


class AppPolicy(Part):
    """Which policy decides where the app runs."""

    name: PolicyName | None = Field(
        default=None, description="A policy that the scheduler has, by its name; it must govern the app's pods."
    )
    inline: PolicyText | None = Field(
        default=None, description="The text of a policy for this app alone: it is held to the app's own pods. Tests in it are left out."
    )
    params: Params = Field(default_factory=dict, description="Values of the params of the inline policy.")


class DriftPolicy(StrEnum):
    """What happens to pods that no longer satisfy the policy."""

    REPORT = "Report"
    EVICT = "Evict"


class PolicyAppSpec(Part):
    """What is to run."""

    image: Annotated[str, Field(min_length=1, max_length=512)] = Field(description="The image of its container.")
    replicas: Annotated[int, Field(ge=0, le=10_000, json_schema_extra={"format": "int32"})] = Field(default=1, description="How many pods.")
    port: Annotated[int, Field(ge=1, le=65_535, json_schema_extra={"format": "int32"})] | None = Field(
        default=None, description="The port that it serves; a Service of the app's name leads there."
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64, json_schema_extra=map_list("name"))] = Field(
        default=(), description="The environment of its container."
    )
    resources: AppResources = Field(default_factory=AppResources, description="What its container asks for and may use.")
    scheduler_name: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        default="wharfinger", description="The scheduler that places its pods."
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
    ) = Field(default=None, description="The policy that decides where it runs; without one, whichever policies govern its pods.")
    drift_policy: DriftPolicy = Field(
        default=DriftPolicy.REPORT,
        description="`Report` lists pods that no longer satisfy the policy; `Evict` also evicts them, one at a time, as their disruption "
        "budgets allow.",
    )
    eviction_interval_seconds: Annotated[int, Field(ge=1, le=86_400, json_schema_extra={"format": "int32"})] = Field(
        default=60, description="Seconds between two evictions at least."
    )


class AppPhase(StrEnum):
    """Where an app stands.

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
    """A pod that its policy would not let go to its node now."""

    pod: Word = Field(description="The pod.")
    node: Word = Field(description="The node it runs on.")


class PolicyAppStatus(Part):
    """What has become of the app."""

    observed_generation: Generation | None = Field(default=None, description="The generation that all of this is about.")
    phase: Literal["Pending", "Progressing", "Running", "Degraded", "Failed"] | None = Field(default=None, description="Where it stands.")
    message: Annotated[str, Field(max_length=4096)] | None = Field(default=None, description="Why it stands there.")
    replicas: Count | None = Field(default=None, description="How many pods there are.")
    ready_replicas: Count | None = Field(default=None, description="How many of them are ready.")
    updated_replicas: Count | None = Field(default=None, description="How many of them are as the spec says.")
    selector: Word | None = Field(default=None, description="What selects its pods, for the scale subresource.")
    policy: PolicyName | None = Field(default=None, description="The policy that is meant to decide.")
    drifted: Count | None = Field(default=None, description="How many pods no longer satisfy the policy.")
    drift: Annotated[tuple[DriftedPod, ...], Field(max_length=MOST_DRIFTED)] = Field(default=(), description="The first of those pods.")
    last_eviction: datetime | None = Field(default=None, description="When a drifted pod was last evicted.")
    conditions: Conditions = Field(default=(), description="`Ready`, `Applied`, `Governed` and `Drifted`.")


MOST_PLACEMENTS = 200
MOST_RULES = 50
MOST_PODS = 1000
MOST_NEW_NODES = 100
LONGEST_LIFE = 7 * 24 * 3600

Template = Annotated[
    dict[str, Any],
    Field(json_schema_extra={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "additionalProperties": None}),
]


class WorkloadRef(Part):
    """A workload of the same namespace whose pods are meant."""

    kind: Literal["Deployment", "StatefulSet", "ReplicaSet", "Job", "PolicyApp"] = Field(description="Its kind.")
    name: ObjectName = Field(description="Its name.")


class PreviewPolicy(Part):
    """One policy of the set to try."""

    name: PolicyName | None = Field(default=None, description="A policy that the scheduler has, by its name.")
    source: PolicyText | None = Field(default=None, description="The text of a policy that nobody has yet.")
    params: Params = Field(default_factory=dict, description="Values of its params; only with `source`.")


class PreviewNodes(Part):
    """Nodes to suppose."""

    like: ObjectName = Field(description="The node that they are like.")
    count: Annotated[int, Field(ge=1, le=MOST_NEW_NODES, json_schema_extra={"format": "int32"})] = Field(default=1, description="How many.")


class PlacementPreviewSpec(Part):
    """The question."""

    template: Template | None = Field(default=None, description="The pods in question: a pod template, with metadata and spec.")
    workload_ref: WorkloadRef | None = Field(default=None, description="A workload whose pods are in question.")
    replicas: Annotated[int, Field(ge=1, le=MOST_PODS, json_schema_extra={"format": "int32"})] | None = Field(
        default=None, description="How many pods; by default as many as the workload asks for, or one."
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
    ) = Field(default=None, description="The policy set to try instead of the scheduler's; an empty list for none.")
    nodes: Annotated[tuple[PreviewNodes, ...], Field(max_length=8)] = Field(default=(), description="Nodes that are supposed to be there.")
    drain: Annotated[tuple[ObjectName, ...], Field(max_length=16)] = Field(
        default=(), description="Nodes that are supposed to be drained in this order, as `wharf drain` does."
    )
    capacity: bool | None = Field(default=None, description="True to count how many further pods fit.")
    ttl_seconds: Annotated[int, Field(ge=10, le=LONGEST_LIFE, json_schema_extra={"format": "int32"})] = Field(
        default=3600, description="Seconds after its creation at which the preview is deleted."
    )


class PlacementCount(Part):
    """How many of the pods a node would get."""

    node: Word = Field(description="The node.")
    count: Count = Field(description="How many of the pods.")


class RuleCount(Part):
    """What one filter or policy rule does to the pods that find no node."""

    rule: Word = Field(description="The plugin, or `policy/rule`.")
    rejected: Count = Field(description="How many nodes it rejects by itself.")
    reasons: Annotated[tuple[Sentence, ...], Field(max_length=8)] = Field(default=(), description="What it says, with how many nodes.")


class NearestMiss(Reasons):
    """The node that fewest reasons speak against."""

    node: Word = Field(description="The node.")


class PlacementPreviewStatus(Part):
    """The answer, as of now."""

    observed_generation: Generation | None = Field(default=None, description="The generation of the question that this answers.")
    pods: Count | None = Field(default=None, description="How many pods were asked for.")
    placed: Count | None = Field(default=None, description="How many of them find a node.")
    placements: Annotated[tuple[PlacementCount, ...], Field(max_length=MOST_PLACEMENTS)] = Field(
        default=(), description="Where they go: most pods first, then by name."
    )
    more_nodes: Count | None = Field(default=None, description="How many nodes beyond those listed get pods.")
    message: Annotated[str, Field(max_length=4096)] | None = Field(default=None, description="Why the first pod without a node has none.")
    rules: Annotated[tuple[RuleCount, ...], Field(max_length=MOST_RULES)] = Field(
        default=(), description="What each rule does to the first pod without a node; rules that reject nothing are left out."
    )
    nearest_miss: NearestMiss | None = Field(default=None, description="The node that comes nearest for the first pod without one.")
    further: Count | None = Field(default=None, description="How many further pods fit, with `capacity`; the count ends at 1000.")
    further_message: Annotated[str, Field(max_length=4096)] | None = Field(default=None, description="Why no further pod fits.")
    drained: Count | None = Field(default=None, description="How many pods have to leave the drained nodes and are made again.")
    drained_placed: Count | None = Field(default=None, description="How many of these find a node.")
    drained_forbidden: Count | None = Field(default=None, description="How many pods a PodDisruptionBudget keeps on drained nodes.")
    drained_refused: Count | None = Field(default=None, description="How many pods make `kubectl drain` refuse: it needs a flag for them.")
    policy_revision: Word | None = Field(default=None, description="The revision of the policy set that answered.")
    expires_at: datetime | None = Field(default=None, description="When the preview is deleted.")
    conditions: Conditions = Field(default=(), description="`Ready`, and `Answered`: whether the question could be answered.")
