"""Field types of the settings: the base class, durations such as `15s`, and URLs of servers."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel


class Part(BaseModel):
    """A part of the settings: names in camelCase, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, defer_build=True)


_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(value: Any) -> Any:
    """The seconds of a duration's text, numbers and the like as they are; ValueError for a text that is none, and for `true`."""
    if isinstance(value, bool):  # a number to Python
        value = str(value).lower()
    if not isinstance(value, str):
        return value
    parts = _PART.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"expected a duration such as 15s or 1m30s, not {value!r}")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def text(value: float) -> str:
    """A duration in seconds, as it is written in a file."""
    return f"{f'{value:.9f}'.rstrip('0').rstrip('.')}s"  # never 1e-05s, which nobody reads


Duration = Annotated[float, BeforeValidator(seconds), PlainSerializer(text)]
"""Seconds in the program, `15s` in the file."""


def split(url: str) -> SplitResult | None:
    """The parts of a URL; None if it has none, or characters that no URL has."""
    if not url.isprintable() or " " in url:
        return None
    try:
        return urlsplit(url)
    except ValueError:  # brackets that are not around an IPv6 address
        return None


def is_http(parts: SplitResult) -> bool:
    """Whether a host is to be asked over HTTP."""
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def has_port(parts: SplitResult) -> bool:
    """Whether the port can be one, if there is one."""
    try:
        return parts.port != 0
    except ValueError:
        return False
