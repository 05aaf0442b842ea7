"""The file that `wharf snapshot` writes: a List like any that `kubectl` prints, with a word on how it came about.

    {"apiVersion": "v1", "items": […], "kind": "List",
     "capture": {"takenAt": "2026-01-05T10:00:00Z", "notRead": ["CSINode: …"]}, "metrics": {…}}

Objects are written from the structs of the model, so what no decision reads is not in the file: managed fields, environment variables,
commands, probes, contents of volumes, conditions of nodes beyond their type and status. Of the annotations, which policies may read, the
one is left out in which `kubectl apply` keeps the whole object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from wharfinger.model import decode, objects
from wharfinger.model.metric_table import Samples
from wharfinger.model.objects_meta import KubeStruct, Time

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Capture(KubeStruct, frozen=True):
    """When a snapshot was taken, and what could not be read then, in sentences."""

    taken_at: Time | None = None
    not_read: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Seconds since 1970."""
        return None if self.taken_at is None else self.taken_at.timestamp()

    def __str__(self) -> str:
        return "an unknown time" if self.taken_at is None else self.taken_at.strftime("%Y-%m-%dT%H:%M:%SZ")


def capture_at(seconds: float, not_read: Iterable[str] = ()) -> Capture:
    """The word on a capture at a time, of which the whole second counts, as it does where pods are placed for real."""
    return Capture(taken_at=datetime.fromtimestamp(int(seconds), UTC), not_read=tuple(not_read))


def encoded(obj: objects.AnyObject, api_version: str) -> bytes:
    """The object as an item of the file: JSON that says its kind first."""
    annotations = obj.metadata.annotations
    if LAST_APPLIED in annotations:
        kept = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        obj = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations=kept))
    return b'{"apiVersion":"%s","kind":"%s",%s' % (api_version.encode(), objects.kind_of(obj).encode(), msgspec.json.encode(obj)[1:])


def document(items: Iterable[bytes], capture: Capture, metrics: Mapping[str, Samples] | None = None) -> Iterator[bytes]:
    """The file in pieces, one item to a line, and one line for the samples of each metric."""
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
    """What a file says of how it was taken; InvalidObject names the field that cannot be read."""
    return decode.decode_json(plain, Capture) if isinstance(plain, msgspec.Raw) else decode.convert(plain, Capture)
