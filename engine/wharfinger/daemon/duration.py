"""Durations as Kubernetes' configuration files have them: `15s`, `1m30s`, `500ms`. Plain numbers are seconds."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

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
