"""PolicyApp: an application that runs where its policy says."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from wharfinger.crd.fields import Conditions, Count, Generation, Params, Part, PolicyName, PolicyText, Reasons, Word, map_list, rules

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
