"""The `metrics:` table of a snapshot: values of metrics by node, given instead of fetched.

    metrics:
      cpu_busy:
        node-1: 0.4
        node-2: {value: 0.9, time: 2026-01-05T10:00:00Z}

It stands beside `items` in a List, or in a document of its own (`kind: MetricSamples`, `apiVersion: wharfinger.dev/v1alpha1`).
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from wharfinger.errors import InvalidObject
from wharfinger.model import decode


class Sample(NamedTuple):
    """A value and when it was taken, in seconds since the epoch; None: when the snapshot was."""

    value: float
    time: float | None = None


class _TimedValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: float
    time: Annotated[datetime, msgspec.Meta(tz=True)] | float | None = None


_Table = dict[str, dict[str, float | _TimedValue]]

_FAR = 100_000_000_000.0  # seconds since 1970: in the year 5138, or milliseconds in 1973


def read_samples(table: msgspec.Raw | Any) -> dict[str, dict[str, Sample]]:
    """Samples by metric name and node; InvalidObject names the metric and node that cannot be read."""
    plain = decode.parse_json(table) if isinstance(table, msgspec.Raw) else table
    if not isinstance(plain, dict):
        raise InvalidObject("expected metric names, each with a value for every node")
    return {str(name): _by_node(str(name), by_node) for name, by_node in plain.items()}


def _by_node(metric: str, by_node: Any) -> dict[str, Sample]:
    if not isinstance(by_node, dict):
        raise InvalidObject(f"{metric}: expected a value for every node")
    return {str(node): _sample(value, f"{metric}.{node}") for node, value in by_node.items() if value is not None}


def _sample(plain: Any, where: str) -> Sample:
    try:
        given: float | _TimedValue = msgspec.convert(plain, float | _TimedValue)
    except msgspec.ValidationError as error:
        raise InvalidObject(f"{where}: {decode.explain(str(error))}; expected a number or {{value: …, time: …}}") from None
    value, time = (given.value, given.time) if isinstance(given, _TimedValue) else (given, None)
    seconds = time.timestamp() if isinstance(time, datetime) else time
    if not math.isfinite(value) or not math.isfinite(seconds or 0.0):
        raise InvalidObject(f"{where}: expected a finite number")
    if seconds is not None and seconds > _FAR:
        raise InvalidObject(f"{where}: a time is in seconds since 1970; {seconds:.0f} looks like milliseconds")
    return Sample(value, seconds)
