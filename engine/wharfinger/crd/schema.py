"""Structural schemas, as API servers want them, from models.

JSON Schema says more than `apiextensions.k8s.io/v1` lets one say: references, unions with null, titles. What is left after they are gone
says the same about every object that has no nulls, and the API server drops nulls of fields that may not be null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

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
    kept = {key: schema[key] for key in _KEPT if _given(schema, key)}
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


def _given(schema: Mapping[str, Any], key: str) -> bool:
    """Whether a keyword says anything; an empty default only says that the field may be left out, which it may anyway."""
    value = schema.get(key)
    return value is not None and not (key == "default" and value in ((), [], {}))


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with what it refers to, and the one member of its union that is not null, merged in; its own keywords win."""
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
