"""The schema of the chart's values: what may be set, and the settings of `wharf run` as their models have them."""

from __future__ import annotations

import json
from typing import Any

from wharfinger.daemon.settings import Settings

SWITCH = {"type": "boolean"}
TEXT = {"type": "string"}
OBJECT = {"type": "object"}
OBJECTS = {"type": "array", "items": OBJECT}
PART = "[a-z0-9]+([-._]+[a-z0-9]+)*"
HOST = r"([a-zA-Z0-9]([-.a-zA-Z0-9]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]+)?"
REPOSITORY = f"^(({HOST}/)?{PART}(/{PART})*)?$"
"""The name of an image without its tag, as github.com/distribution/reference describes it."""
TAG = "^([_a-zA-Z0-9][-._a-zA-Z0-9]{0,127})?$"
"""A tag, in the same way."""
BASE = {"apiVersion", "kind", "policyConfigMap"}
"""Fields of the settings that the chart sets."""


def text() -> str:
    """The text of `deploy/chart/values.schema.json`."""
    settings = Settings.model_json_schema(by_alias=True)
    definitions = {name: _without_titles(made) for name, made in settings["$defs"].items()}
    fields = {name: _without_titles(field) for name, field in settings["properties"].items() if name not in BASE}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart wharfinger",
        **_parts(
            image=_parts(repository=_like(REPOSITORY), tag=_like(TAG), digest=_like("^(sha256:[0-9a-f]{64})?$"), pullSecrets=OBJECTS),
            replicas={"type": "integer", "minimum": 0},
            resources=OBJECT,
            priorityClassName=TEXT,
            nodeSelector={"type": "object", "additionalProperties": TEXT},
            tolerations=OBJECTS,
            policies={
                "type": "object",
                "patternProperties": {r"^[-_a-zA-Z0-9][-._a-zA-Z0-9]*\.policy$": TEXT},
            },  # a template explains what is wrong with others,
            shippedPolicies={"type": "array", "items": TEXT, "uniqueItems": True},
            settings={"type": "object", "additionalProperties": False, "properties": fields},
            crds=_parts(install=SWITCH),
            namespace=_parts(create=SWITCH),
            admission=_parts(enabled=SWITCH, anyCaller=SWITCH, certManager=SWITCH),
            policyApps=_parts(enabled=SWITCH),
            signals=_parts(enabled=SWITCH),
            monitoring=_parts(serviceMonitor=SWITCH, alerts=SWITCH, dashboard=SWITCH),
            overrides={"type": "object", "patternProperties": {"^[A-Z][A-Za-z]*/.+$": OBJECT}, "additionalProperties": False},
        ),
        "$defs": definitions,
    }
    schema["required"] = [
        "admission",
        "crds",
        "image",
        "monitoring",
        "namespace",
        "overrides",
        "policyApps",
        "signals",
    ]  # not null: templates look into them
    schema["properties"]["global"] = OBJECT  # what Helm gives every chart that is a part of another
    return json.dumps(schema, indent=1) + "\n"


def _parts(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _like(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern}


def _without_titles(schema: Any) -> Any:
    """The schema without the names that are made from those of the fields, and without defaults, which stand in the base."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(part) for name, part in value.items()} if key == "properties" else _without_titles(value)
        for key, value in schema.items()
        if key not in {"title", "default"}
    }
