"""Arguments of plugins that are parts of Kubernetes objects: an affinity, a spread constraint.

Objects of a cluster may have fields that scheduling does not read. In a file written by hand, such a field is a spelling error.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from wharfinger.language.report import wording

T = TypeVar("T")


def read(value: Any, kind: type[T]) -> T:
    """The part of an object that plain values describe; ValueError names a field that does not exist or has a wrong value."""
    try:
        found = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    _known_fields(value, found)
    return found


def _known_fields(plain: Any, found: Any) -> None:
    if isinstance(found, tuple) and isinstance(plain, list | tuple):
        for each, read_from in zip(plain, found, strict=True):
            _known_fields(each, read_from)
    if not isinstance(found, msgspec.Struct) or not isinstance(plain, dict):
        return
    fields = {field.encode_name: getattr(found, field.name) for field in msgspec.structs.fields(found)}
    for name, inner in plain.items():
        if name not in fields:
            near = wording.closest(name, fields)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(fields)}"
            raise ValueError(f"there is no field {name}; {hint}")
        _known_fields(inner, fields[name])
