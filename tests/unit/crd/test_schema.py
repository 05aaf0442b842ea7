"""The schemas of custom resources: structural, bounded, and saying what the models say."""

import pytest

from wharfinger.crd.definition import DEFINITIONS, structural
from wharfinger.crd.models import PolicyAppSpec

ALLOWED = {
    "type", "format", "description", "default", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems",
    "maxProperties", "required", "properties", "items", "additionalProperties",
}  # fmt: skip


def everywhere(schema, path=""):
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from everywhere(part, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from everywhere(schema[name], f"{path}[]")


def parts():
    return [
        (f"{made.kind}{path}", part)
        for made in DEFINITIONS
        for model in (made.spec, made.status)
        for path, part in everywhere(structural(model))
    ]


@pytest.mark.parametrize(("path", "part"), parts(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_part_is_structural_bounded_and_described(path, part):
    assert {key for key in part if not key.startswith("x-kubernetes-")} <= ALLOWED
    assert "type" in part or part.get("x-kubernetes-int-or-string")
    kind = part.get("type")
    if kind == "string" and "enum" not in part and part.get("format") != "date-time":
        assert "maxLength" in part
    if kind == "array":
        assert "maxItems" in part
    if "additionalProperties" in part:
        assert "maxProperties" in part
    if not path.endswith("[]"):
        assert part.get("description")


def test_defaults_bounds_and_enumerations_are_those_of_the_model():
    spec = structural(PolicyAppSpec)["properties"]

    assert (spec["replicas"]["default"], spec["replicas"]["minimum"], spec["replicas"]["format"]) == (1, 0, "int32")
    assert spec["driftPolicy"]["enum"] == ["Report", "Evict"]
    assert spec["driftPolicy"]["default"] == "Report"
    assert "default" not in spec["env"]
    assert spec["env"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["resources"]["properties"]["requests"]["additionalProperties"]["x-kubernetes-int-or-string"] is True


def test_a_model_gives_back_what_it_was_given():
    plain = {"image": "web:1", "replicas": 3, "env": [{"name": "A", "value": "b"}], "policy": {"name": "gold"}}

    again = PolicyAppSpec.model_validate({**plain, "ofALaterVersion": 1}).plain()

    assert {key: again[key] for key in ("image", "replicas", "env")} == {key: plain[key] for key in ("image", "replicas", "env")}
    assert again["policy"]["name"] == "gold"
    assert "ofALaterVersion" not in again
