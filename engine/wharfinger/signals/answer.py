"""The JSON of an instant query: `{"status": "success", "data": {"resultType": "vector", "result": […]}}`.

An answer is split at once into series, which are decoded one by one as they are read: that can be interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from wharfinger.signals.mapping import Series
from wharfinger.signals.ports import Kind, SignalFailed

MOST_SERIES = 200_000

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of decoding: no JSON or another shape, no UTF-8, too deep nesting."""

_SHOWN = 300
_INSTEAD = {
    "matrix": "the query has a range at its end; take avg_over_time(…) or the like of it",
    "scalar": "the query gives one number for all nodes; a metric has one per node",
    "string": "the query gives a text; a metric is a number per node",
}


class _Found(msgspec.Struct):
    resultType: str = ""  # noqa: N815 — as Prometheus writes it
    result: msgspec.Raw = msgspec.Raw(b"[]")  # some servers write null for an empty result


class _Body(msgspec.Struct):
    status: str = ""
    error: Any = None
    data: _Found | None = None
    warnings: Sequence[str] | None = None


class _Series(msgspec.Struct):
    value: tuple[float, str] = (math.nan, "")  # a native histogram has none
    metric: dict[str, str] = {}


_body = msgspec.json.Decoder(_Body)
_parts = msgspec.json.Decoder(list[msgspec.Raw] | None)
_series = msgspec.json.Decoder(_Series)


class Vector(Sequence[Series]):
    """The series of an answer, decoded as they are read, and the warnings of Prometheus."""

    def __init__(self, parts: list[msgspec.Raw], warnings: Sequence[str] = ()) -> None:
        self._parts = parts
        self.warnings = warnings

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index: Any) -> Any:
        return series_of(self._parts[index])

    def __iter__(self) -> Iterator[Series]:
        return map(series_of, self._parts)


def vector(content: bytes) -> Vector:
    """The series of an answer; SignalFailed if it is not a vector."""
    try:
        body = _body.decode(content)
        data = body.data or _Found()
        if body.status != "success":
            said = f": {body.error[:_SHOWN]}" if isinstance(body.error, str) else ""
            raise SignalFailed(Kind.ANSWER, f"the answer's status is {body.status!r}{said}")
        if data.resultType != "vector":
            raise SignalFailed(Kind.ANSWER, _INSTEAD.get(data.resultType, f"the answer is no vector but {data.resultType[:_SHOWN]!r}"))
        parts = _parts.decode(data.result) or []
    except UNREADABLE as error:
        raise SignalFailed(Kind.ANSWER, f"the answer cannot be read: {error}") from error
    if len(parts) > MOST_SERIES:
        raise SignalFailed(Kind.ANSWER, f"the answer has {len(parts):,} series, more than {MOST_SERIES:,}; aggregate in the query")
    return Vector(parts, body.warnings or ())


def series_of(raw: msgspec.Raw) -> Series:
    """One series; a value that is not a number is NaN."""
    try:
        found = _series.decode(raw)
    except UNREADABLE as error:
        raise SignalFailed(Kind.ANSWER, f"a series cannot be read: {error}") from error
    time, text = found.value
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    return Series(found.metric, value, time)
