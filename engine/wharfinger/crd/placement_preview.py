"""PlacementPreview: a question to the scheduler, answered in the object's status for as long as it stands."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from wharfinger.crd.fields import (
    Conditions,
    Count,
    Generation,
    ObjectName,
    Params,
    Part,
    PolicyName,
    PolicyText,
    Reasons,
    Sentence,
    Word,
    rules,
)

MOST_PLACEMENTS = 200
MOST_RULES = 50
MOST_PODS = 1000
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
    policy_revision: Word | None = Field(default=None, description="The revision of the policy set that answered.")
    expires_at: datetime | None = Field(default=None, description="When the preview is deleted.")
    conditions: Conditions = Field(default=(), description="`Ready`, and `Answered`: whether the question could be answered.")
