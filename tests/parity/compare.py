"""The differences of two answers, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """One line for every place where they differ: `filters.NodePorts.n03: expected …, found …`; empty if they agree in everything."""
    return list(_walk("", expected, found))


def _walk(place: str, expected: Any, found: Any) -> Iterator[str]:
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in sorted(expected.keys() | found.keys()):
            yield from _walk(f"{place}.{key}" if place else key, expected.get(key), found.get(key))
    elif expected != found or type(expected) is not type(found):
        yield f"{place}: expected {_shown(expected)}, found {_shown(found)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)
