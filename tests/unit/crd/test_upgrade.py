"""Objects stored under the former definitions fit the present ones: a spec may gain fields and higher limits, and lose neither."""

from pathlib import Path

import pytest
import yaml

from wharfinger.crd.definition import DEFINITIONS

FORMER = Path(__file__).parents[2] / "cases" / "custom_resources" / "former" / "definitions.yaml"
AT_LEAST = ("minimum", "minLength", "minItems")
AT_MOST = ("maximum", "maxLength", "maxItems", "maxProperties")


def spec_of(definition):
    versions = {version["name"]: version for version in definition["spec"]["versions"]}
    return versions["v1alpha1"]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def narrower(old, new, place="spec"):
    """The places where something that the old schema takes is not taken by the new one, as far as the two show it."""
    if (old.get("type"), old.get("format")) != (new.get("type"), new.get("format")):
        yield f"{place}: another type"
    yield from (f"{place}: {name}" for name in AT_LEAST if new.get(name, 0) > old.get(name, 0))
    yield from (f"{place}: {name}" for name in AT_MOST if new.get(name, float("inf")) < old.get(name, float("inf")))
    if "enum" in new and not set(old.get("enum", ("anything",))) <= set(new["enum"]):
        yield f"{place}: enum"
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        yield f"{place}: pattern"
    yield from (f"{place}.{name}: required" for name in set(new.get("required", ())) - set(old.get("required", ())))
    rules = {rule["rule"] for rule in old.get("x-kubernetes-validations", ())}
    yield from (f"{place}: {each['rule']}" for each in new.get("x-kubernetes-validations", ()) if each["rule"] not in rules)
    for name, schema in old.get("properties", {}).items():
        if name not in new.get("properties", {}):
            yield f"{place}.{name}: gone"
        else:
            yield from narrower(schema, new["properties"][name], f"{place}.{name}")
    for part in ("items", "additionalProperties"):
        if isinstance(old.get(part), dict):
            yield from narrower(old[part], new.get(part, {}), f"{place}.{part}")


@pytest.mark.parametrize("former", list(yaml.safe_load_all(FORMER.read_text("utf-8"))), ids=lambda former: former["spec"]["names"]["kind"])
def test_no_definition_takes_less_than_it_did(former):
    present = next(made.document() for made in DEFINITIONS if made.kind == former["spec"]["names"]["kind"])

    assert list(narrower(spec_of(former), spec_of(present))) == []
    assert present["spec"]["scope"] == former["spec"]["scope"]
    assert present["spec"]["names"]["plural"] == former["spec"]["names"]["plural"]


CHANGES = {
    "a field that is gone": ({"properties": {"a": {"type": "string"}}}, {"properties": {}}),
    "a field that is required now": ({"properties": {}}, {"properties": {}, "required": ["a"]}),
    "less room": ({"type": "string", "maxLength": 9}, {"type": "string", "maxLength": 8}),
    "a new bound": ({"type": "integer"}, {"type": "integer", "minimum": 1}),
    "a value that is gone": ({"enum": ["a", "b"]}, {"enum": ["a"]}),
    "a new rule": ({}, {"x-kubernetes-validations": [{"rule": "false"}]}),
    "another type of items": ({"items": {"type": "string"}}, {"items": {"type": "integer"}}),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES)
def test_a_narrower_schema_is_found(old, new):
    assert len(list(narrower(old, new))) == 1
    assert list(narrower(old, old)) == []
