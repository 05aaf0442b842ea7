"""The Kubernetes Metrics API, `metrics.k8s.io/v1beta1`: what kubelets measured of their nodes, for clusters without Prometheus.

Each item carries its own time, which is the end of the window that it is an average of.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from wharfinger.errors import InvalidObject
from wharfinger.model import quantity
from wharfinger.signals.answer import UNREADABLE
from wharfinger.signals.failure import Kind, SignalFailed
from wharfinger.signals.mapping import Series

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"


class _Named(msgspec.Struct):
    name: str = ""


class _NodeMetrics(msgspec.Struct):
    timestamp: datetime
    metadata: _Named = msgspec.field(default_factory=_Named)
    usage: dict[str, str] = {}


class _List(msgspec.Struct):
    items: list[_NodeMetrics]


_decoder = msgspec.json.Decoder(_List)


def node_series(content: bytes, resource: str) -> Iterator[Series]:
    """The use of cpu in millicores, or of memory in bytes, of each node; SignalFailed if the list cannot be read."""
    try:
        items = _decoder.decode(content).items
    except UNREADABLE as error:
        raise SignalFailed(Kind.ANSWER, f"the list of NodeMetrics cannot be read: {error}") from error
    for item in items:
        used = item.usage.get(resource)
        if used is not None:
            yield Series({"": item.metadata.name}, _amount(resource, used), item.timestamp.timestamp())


def _amount(resource: str, text: str) -> float:
    """Millicores or bytes; cpu comes in nanocores, of which `quantity.milli` would lose the fractions."""
    try:
        exact = quantity.parse_quantity(text)
    except InvalidObject as error:
        raise SignalFailed(Kind.ANSWER, f"usage of {resource}: {error}") from error
    return float(exact * 1000) if resource == "cpu" else float(exact)
