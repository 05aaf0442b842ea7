"""Names, labels and field types of the custom resources.

Every field has bounds: an API server estimates the worst cost of its validation rules and refuses a definition that could cost too much,
and a status must stay small enough to be written often.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUP = "scheduling.wharfinger.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "wharfinger"
"""Who manages what carries `MANAGED_BY`, and the field manager of everything that is applied."""

APP_LABEL = f"{GROUP}/app"
"""On everything made for a PolicyApp: the app's name."""

NAMESPACE_LABEL = f"{GROUP}/app-namespace"
"""On a SchedulingPolicy made for a PolicyApp: the namespace of the app."""

POLICY_LABEL = f"{GROUP}/policy"
"""On the pods of a PolicyApp: the policy it asks for. A policy can say `for pods where` this label has its name."""

FINALIZER = f"{GROUP}/teardown"
"""On a PolicyApp: something is to be removed by us before it may go."""


MAX_CONDITIONS = 16


class Part(BaseModel):
    """Base of all models: camelCase on the wire; fields that a later version has are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, defer_build=True)

    def plain(self) -> dict[str, Any]:
        """The JSON of it, without fields that have no value."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """The schema extension for CEL rules, each with the message that says what is wrong."""
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
    """A pod or node and what speaks against it."""

    reasons: Annotated[tuple[Sentence, ...], Field(max_length=16)] = Field(
        default=(), description="Reasons against the node, one sentence each."
    )


Conditions = Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS, json_schema_extra=map_list("type"))]
