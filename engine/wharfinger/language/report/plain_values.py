"""Answers as plain values for JSON and YAML, with keys in camelCase like the fields of Kubernetes' objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

import msgspec

_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """The value with structs and dataclasses as objects in camelCase, members of enums as their values and sequences as lists.

    The keys of a mapping stay: they are either written as they are printed, or names of the user's, such as labels and params.
    """
    if type(value) in _AS_THEY_ARE:  # most values; the other questions cost ten times as much
        return value
    keys = _keys(value.__class__)
    if keys is not None:
        return {key: plain(getattr(value, name)) for name, key in keys}
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    if isinstance(value, (dict, Mapping)):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return plain(list(value))
    return value.value if isinstance(value, Enum) else value


@cache
def _keys(model: type[Any]) -> tuple[tuple[str, str], ...] | None:
    """(the name, the key) of each field of a struct or dataclass; None for another type."""
    if issubclass(model, msgspec.Struct):
        names = model.__struct_fields__
    elif is_dataclass(model):
        names = tuple(field.name for field in fields(model))
    else:
        return None
    return tuple((name, camel_case(name)) for name in names)


def camel_case(name: str) -> str:
    """The key for the name of a field: `minCount` for `min_count`."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
