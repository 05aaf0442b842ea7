"""The Kubernetes Metrics API, `metrics.k8s.io/v1beta1`: measurements of nodes by their kubelets, for clusters without Prometheus.

Each item has its own time: the end of the window that it is an average of.
"""

from __future__ import annotations

import math
from datetime import datetime

import msgspec

from wharfinger.errors import InvalidObject
from wharfinger.model.objects import quantity
from wharfinger.signals.answer import UNREADABLE
from wharfinger.signals.failure import Kind, SignalFailed
from wharfinger.signals.mapping import Series, in_portions

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"


class _Named(msgspec.Struct):
    name: str = ""


class _NodeMetrics(msgspec.Struct):
    timestamp: datetime
    metadata: _Named = msgspec.field(default_factory=_Named)
    usage: dict[str, str] = {}


class _Whose(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


_list = msgspec.json.Decoder(_List)
_item = msgspec.json.Decoder(_NodeMetrics)
_whose = msgspec.json.Decoder(_Whose)


def node_series(content: bytes, resource: str) -> list[Series]:
    """The use of cpu in millicores, or of memory in bytes, of each node; SignalFailed if the list or all its items cannot be read.

    An item that cannot be read becomes a series with the value NaN; the others stay valid.
    """
    try:
        items = _list.decode(content).items
    except UNREADABLE as error:
        raise SignalFailed(Kind.ANSWER, f"the list of NodeMetrics cannot be read: {error}") from error
    found: list[Series] = []
    wrong: list[str] = []
    for raw in in_portions(items):
        try:
            item = _item.decode(raw)
            used = item.usage.get(resource)
            if used is not None:
                found.append(Series({"": item.metadata.name}, _amount(resource, used), item.timestamp.timestamp()))
        except (*UNREADABLE, InvalidObject, OverflowError, OSError) as error:
            wrong.append(f"{_name(raw)}: {error}")
            found.append(Series({"": _name(raw)}, math.nan, math.nan))
    if wrong and len(wrong) == len(items):
        raise SignalFailed(Kind.ANSWER, f"none of {len(items)} NodeMetrics can be read, such as that of {wrong[0]}")
    return found


def _name(raw: msgspec.Raw) -> str:
    """The node name of an item, "?" if that cannot be read either."""
    try:
        return _whose.decode(raw).metadata.name or "?"
    except UNREADABLE:
        return "?"


def _amount(resource: str, text: str) -> float:
    """Millicores or bytes; cpu comes in nanocores, of which `quantity.milli` would lose the fractions. InvalidObject for no quantity."""
    exact = quantity.parse_quantity(text)
    return float(exact * 1000) if resource == "cpu" else float(exact)
