"""Makes model/reading/manifest_fields.json: the fields of the kinds that people hand in, from the official client's models."""

from __future__ import annotations

import json
import re
from typing import Any

from kubernetes.client import models

from wharfinger.model import objects
from wharfinger.model.reading import decode

_NESTED = re.compile(r"(?:list\[)?(\w+)\]?", re.IGNORECASE)
_FREE = {"status"}  # authors of pods do not write it, and the API server takes no status along with a spec


def text() -> str:
    """The file: types by kind, and by type the type of each field ("" where anything may stand), one type a line."""
    kinds = {f"{group}/{kind}" if group else kind: f"V1{kind}" for group, kind in objects.KINDS if (group, kind) in decode.CHECKED_KINDS}
    types: dict[str, dict[str, str]] = {}
    for name in kinds.values():
        _add(name, types)
    lines = [f"    {json.dumps(_short(name))}: {json.dumps(types[name])}" for name in sorted(types)]
    shown = json.dumps({kind: _short(name) for kind, name in sorted(kinds.items())})
    return f'{{\n  "kinds": {shown},\n  "types": {{\n' + ",\n".join(lines) + "\n  }\n}\n"


def _add(name: str, types: dict[str, dict[str, str]]) -> None:
    if name in types:
        return
    model: Any = getattr(models, name)
    nested = {attribute: _nested(attribute, written) for attribute, written in model.openapi_types.items()}
    types[name] = {model.attribute_map[attribute]: _short(found) for attribute, found in sorted(nested.items())}
    for found in nested.values():
        if found:
            _add(found, types)


def _nested(attribute: str, written: str) -> str:
    """The model that a field or the entries of its list are of, "" where they are plain; maps have plain values everywhere."""
    found = _NESTED.fullmatch(written)
    if attribute in _FREE or found is None or not hasattr(getattr(models, found[1], None), "attribute_map"):
        return ""
    return found[1]


def _short(name: str) -> str:
    return name.removeprefix("V1")
