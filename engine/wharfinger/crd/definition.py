"""The CustomResourceDefinitions of Wharfinger, as the API server takes them and as files, made from the models.

`structural` turns the JSON Schema of a model into the subset that `apiextensions.k8s.io/v1` accepts: without references, unions with null
and titles. The result accepts the same objects, as long as they have no nulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct, field
from pydantic import BaseModel

from wharfinger.crd import GROUP, MANAGED_BY, MANAGER, VERSION
from wharfinger.crd.models import (
    PlacementPreviewSpec,
    PlacementPreviewStatus,
    PolicyAppSpec,
    PolicyAppStatus,
    SchedulingPolicySpec,
    SchedulingPolicyStatus,
)

_KEPT = (
    "type",
    "format",
    "description",
    "default",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
)
_EXTENSION = "x-kubernetes-"
_INT_OR_STRING = "x-kubernetes-int-or-string"


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model without references, nulls and titles."""
    whole = model.model_json_schema(by_alias=True)
    return _plain(whole, whole.get("$defs", {}))


def _plain(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    schema = _resolved(schema, definitions)
    kept = {key: schema[key] for key in _KEPT if _has_effect(schema, key)}
    if "const" in schema:
        kept["enum"] = [schema["const"]]
    kept |= {key: value for key, value in schema.items() if key.startswith(_EXTENSION)}
    if kept.get(_INT_OR_STRING):
        kept.pop("type", None)
    if isinstance(kept.get("description"), str):
        kept["description"] = " ".join(kept["description"].split())
    if schema.get("properties"):
        kept["properties"] = {name: _plain(part, definitions) for name, part in schema["properties"].items()}
    if isinstance(schema.get("items"), Mapping):
        kept["items"] = _plain(schema["items"], definitions)
    if isinstance(schema.get("additionalProperties"), Mapping):
        kept["additionalProperties"] = _plain(schema["additionalProperties"], definitions)
    return kept


def _has_effect(schema: Mapping[str, Any], key: str) -> bool:
    """True if a keyword has an effect; an empty default only repeats that the field is optional."""
    value = schema.get(key)
    return value is not None and not (key == "default" and value in ((), [], {}))


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with its reference, or the only member of its union that is not null, merged into it; its own keywords win."""
    found = dict(schema)
    while True:
        members = [member for member in found.get("anyOf") or () if member.get("type") != "null"]
        if "$ref" in found:
            referred = definitions[found.pop("$ref").rpartition("/")[2]]
        elif len(members) == 1:
            referred = members[0]
            del found["anyOf"]
        else:
            return found
        found = {**referred, **found}


_HEADER = "# Made from the models in engine/wharfinger/crd by `make docs`.\n"
_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


class Definition(Struct, frozen=True, kw_only=True):
    """One kind: its models and how it is served. A column is (name, type, JSON path); `rules` are CEL rules over the whole object."""

    kind: str
    plural: str
    short_names: tuple[str, ...]
    namespaced: bool
    spec: type[BaseModel]
    status: type[BaseModel]
    description: str
    columns: Sequence[tuple[str, str, str]]
    rules: Sequence[tuple[str, str]] = ()
    scale: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"

    def document(self) -> dict[str, Any]:
        """The CustomResourceDefinition."""
        names = {
            "kind": self.kind,
            "listKind": f"{self.kind}List",
            "plural": self.plural,
            "singular": self.kind.lower(),
            "shortNames": list(self.short_names),
            "categories": ["wharfinger"],
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name, "labels": {MANAGED_BY: MANAGER}},
            "spec": {
                "group": GROUP,
                "names": names,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "versions": [self._version()],
            },
        }

    def _version(self) -> dict[str, Any]:
        columns = [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in self.columns]
        return {
            "name": VERSION,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": self._schema()},
            "subresources": {"status": {}, **({"scale": dict(self.scale)} if self.scale else {})},
            "additionalPrinterColumns": [*columns, _AGE],
        }

    def _schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "object",
            "description": self.description,
            "required": ["spec"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": structural(self.spec),
                "status": structural(self.status),
            },
        }
        if self.rules:
            schema["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in self.rules]
        return schema

    def text(self) -> str:
        """The file of the definition."""
        return _HEADER + yaml.safe_dump(self.document(), sort_keys=False, allow_unicode=True, width=130)


def _ready(part: str) -> str:
    return f".status.conditions[?(@.type=='Ready')].{part}"


_STATUS = ("Status", "string", _ready("reason"))
_MESSAGE = ("Message", "string", _ready("message"))
"""The first and the last column of every kind: the worst that there is to say of an object, as a word and as a line."""

SCHEDULING_POLICY = Definition(
    kind="SchedulingPolicy",
    plural="schedulingpolicies",
    short_names=("spol",),
    namespaced=False,
    spec=SchedulingPolicySpec,
    status=SchedulingPolicyStatus,
    description="A policy that decides where pods go. Its status shows whether it is active, which pods it governs and its errors.",
    columns=(
        _STATUS,
        ("Mode", "string", ".spec.mode"),
        ("Matched", "integer", ".status.matched"),
        ("Eligible", "integer", ".status.eligible"),
        ("Nodes", "integer", ".status.nodes"),
        _MESSAGE,
    ),
)

PLACEMENT_PREVIEW = Definition(
    kind="PlacementPreview",
    plural="placementpreviews",
    short_names=("pprev",),
    namespaced=True,
    spec=PlacementPreviewSpec,
    status=PlacementPreviewStatus,
    description="Where the scheduler would place some pods now. The answer is in the status and follows the cluster until it expires.",
    columns=(
        _STATUS,
        ("Pods", "integer", ".status.pods"),
        ("Placed", "integer", ".status.placed"),
        ("Node", "string", ".status.placements[0].node"),
        _MESSAGE,
    ),
    rules=(("has(self.spec.template) != has(self.spec.workloadRef)", "give either a template or a workloadRef"),),
)

POLICY_APP = Definition(
    kind="PolicyApp",
    plural="policyapps",
    short_names=("papp",),
    namespaced=True,
    spec=PolicyAppSpec,
    status=PolicyAppStatus,
    description="An application of equal pods that are placed by its policy.",
    columns=(
        _STATUS,
        ("Ready", "integer", ".status.readyReplicas"),
        ("Desired", "integer", ".spec.replicas"),
        ("Policy", "string", ".status.policy"),
        ("Drifted", "integer", ".status.drifted"),
        _MESSAGE,
    ),
    rules=(
        ("self.metadata.name.size() <= 63", "the name is also a label of the app's pods: at most 63 characters"),
        (
            "!has(self.spec.port) || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "with a port the name is also that of a Service: letters, digits and dashes, beginning with a letter",
        ),
    ),
    scale={
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    },
)

DEFINITIONS = (SCHEDULING_POLICY, PLACEMENT_PREVIEW, POLICY_APP)


def files() -> dict[str, str]:
    """The text of each definition by the name of its file."""
    return {f"{definition.name}.yaml": definition.text() for definition in DEFINITIONS}
