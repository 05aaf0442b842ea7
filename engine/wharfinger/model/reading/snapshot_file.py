"""The file that `wharf snapshot` writes: a List as `kubectl` prints it, with the time of capture and metric samples.

    {"apiVersion": "v1", "items": […], "kind": "List",
     "capture": {"takenAt": "2026-01-05T10:00:00Z", "notRead": ["CSINode: …"]},
     "metrics": {"cpu_busy": {"node-1": 0.4, "node-2": {"value": 0.9, "time": "2026-01-05T10:00:00Z"}}}}

The `metrics` table may also be a separate document (`kind: MetricSamples`, `apiVersion: wharfinger.dev/v1alpha1`).

Objects are written from the structs of the model, so the file does not contain fields that no decision reads: managed fields, environment
variables, commands, probes, contents of volumes, conditions of nodes beyond their type and status. Annotations are written, because
policies may read them, except the one in which `kubectl apply` keeps the whole object.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.columns.metric_table import Samples
from wharfinger.model.objects.metadata import KubeStruct, Time
from wharfinger.model.reading import decode


class Sample(NamedTuple):
    """A value and its time in seconds since the epoch; None for the time of the snapshot."""

    value: float
    time: float | None = None


class _TimedValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: float
    time: Annotated[datetime, msgspec.Meta(tz=True)] | float | None = None


_LAST_TIME = 100_000_000_000.0  # seconds since 1970: in the year 5138, or milliseconds in 1973


def read_samples(table: msgspec.Raw | Any) -> dict[str, dict[str, Sample]]:
    """Samples by metric name and node; InvalidObject with the metric and node that cannot be read."""
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
    if seconds is not None and seconds > _LAST_TIME:
        raise InvalidObject(f"{where}: a time is in seconds since 1970; {seconds:.0f} looks like milliseconds")
    return Sample(value, seconds)


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Capture(KubeStruct, frozen=True):
    """The time of a snapshot, and a sentence for everything that could not be read."""

    taken_at: Time | None = None
    not_read: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Seconds since 1970."""
        return None if self.taken_at is None else self.taken_at.timestamp()

    def __str__(self) -> str:
        return "an unknown time" if self.taken_at is None else self.taken_at.strftime("%Y-%m-%dT%H:%M:%SZ")


def capture_at(seconds: float, not_read: Iterable[str] = ()) -> Capture:
    """The capture at a time, rounded down to a whole second, as the running scheduler does."""
    return Capture(taken_at=datetime.fromtimestamp(int(seconds), UTC), not_read=tuple(not_read))


def kept(obj: objects.AnyObject) -> objects.AnyObject:
    """The object as the file has it, without the annotation of `kubectl apply`."""
    annotations = obj.metadata.annotations
    if LAST_APPLIED not in annotations:
        return obj
    others = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations=others))


def encoded(obj: objects.AnyObject, api_version: str) -> bytes:
    """The object as an item of the file: JSON that starts with its kind."""
    obj = kept(obj)
    return b'{"apiVersion":"%s","kind":"%s",%s' % (api_version.encode(), objects.written_kind(obj).encode(), msgspec.json.encode(obj)[1:])


def document(items: Iterable[bytes], capture: Capture, metrics: Mapping[str, Samples] | None = None) -> Iterator[bytes]:
    """The file in pieces, one line per item, and one line for the samples of each metric."""
    yield b'{"apiVersion":"v1","items":['
    separator = b"\n"
    for item in items:
        yield separator + item
        separator = b",\n"
    yield b'\n],"kind":"List","capture":%s' % msgspec.json.encode(capture)
    separator = b',"metrics":{\n'
    for name, samples in sorted((metrics or {}).items()):
        by_node = {node: {"value": value, "time": time} for node, (value, time) in sorted(samples.items())}
        yield separator + msgspec.json.encode(name) + b":" + msgspec.json.encode(by_node)
        separator = b",\n"
    yield b"}}\n" if metrics else b"}\n"


def read_capture(plain: msgspec.Raw | Any) -> Capture:
    """The capture of a file; InvalidObject with the field that cannot be read."""
    return decode.decode_json(plain, Capture) if isinstance(plain, msgspec.Raw) else decode.convert(plain, Capture)
