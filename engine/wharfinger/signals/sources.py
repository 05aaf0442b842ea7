"""Sources of samples: Prometheus servers, and the Kubernetes Metrics API.

Each item of the Metrics API (`metrics.k8s.io/v1beta1`) carries its own time, which is the end of the window that it is an average of.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from wharfinger.errors import InvalidObject
from wharfinger.language.semantics.catalogue import METRICS_API, PROMETHEUS
from wharfinger.model.objects import quantity
from wharfinger.signals.fair_queue import Workers
from wharfinger.signals.mapping import Mapped, NodeNames, Series, in_portions, in_turn, mapped
from wharfinger.signals.query import PrometheusServer, Query
from wharfinger.signals.refreshing import UNREADABLE, Kind, SignalFailed, Source

if TYPE_CHECKING:
    from wharfinger.signals.prometheus import Prometheus

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"

MAX_CONCURRENT_QUERIES = 4
"""Concurrent queries to one server; policies of the cluster use at most three, those of all namespaces together too."""

ReadNodeMetrics = Callable[[], Awaitable[bytes]]
"""The list of `metrics.k8s.io/v1beta1` NodeMetrics as JSON; SignalFailed when it cannot be read."""


class _Named(msgspec.Struct):
    name: str = ""


class _NodeMetrics(msgspec.Struct):
    timestamp: datetime
    metadata: _Named = msgspec.field(default_factory=_Named)
    usage: dict[str, str] = {}


class _NamedItem(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


_list = msgspec.json.Decoder(_List)
_item = msgspec.json.Decoder(_NodeMetrics)
_named_item = msgspec.json.Decoder(_NamedItem)


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
        return _named_item.decode(raw).metadata.name or "?"
    except UNREADABLE:
        return "?"


def _amount(resource: str, text: str) -> float:
    """Millicores or bytes, with fractions: the API reports nanocores, and `quantity.milli` rounds. Raises InvalidObject."""
    exact = quantity.parse_quantity(text)
    return float(exact * 1000) if resource == "cpu" else float(exact)


class PrometheusSource:
    """Servers by name; each has its own threads, so one that hangs does not delay the others."""

    def __init__(self, servers: Iterable[PrometheusServer]) -> None:
        self._servers = {server.name: server for server in servers}
        self._workers = {name: Workers(f"prometheus-{name}", MAX_CONCURRENT_QUERIES, time.monotonic) for name in self._servers}
        self._making = threading.Lock()
        self._prometheus: Prometheus | None = None

    async def measured(self, query: Query, nodes: NodeNames) -> Mapped:
        """The samples by node; SignalFailed when there are none."""
        workers = self._workers.get(query.server)
        if workers is None:
            known = ", ".join(sorted(self._workers)) or "none"
            raise SignalFailed(Kind.SETTINGS, f"the settings name no Prometheus server `{query.server}` (they name {known})")
        return await workers.run(partial(self._measured, query, nodes), query.requester)

    def _measured(self, query: Query, nodes: NodeNames) -> Mapped:
        with self._making:
            if self._prometheus is None:
                from wharfinger.signals.prometheus import Prometheus  # noqa: PLC0415 — a hundred modules that most runs do not need

                self._prometheus = Prometheus(self._servers.values())
        return self._prometheus.measured(query, nodes)


class MetricsApiSource:
    """The Metrics API, which `kubectl top nodes` reads too."""

    def __init__(self, read: ReadNodeMetrics) -> None:
        self._read = read
        self._workers = Workers("metrics-api", 1, time.monotonic)

    async def measured(self, query: Query, nodes: NodeNames) -> Mapped:
        """The samples by node; SignalFailed when there are none."""
        content = await self._read()
        return await self._workers.run(partial(_of_api, content, query, nodes), query.requester)


def _of_api(content: bytes, query: Query, nodes: NodeNames) -> Mapped:
    with in_turn():
        return mapped(node_series(content, query.text), query, nodes, came=time.time())


class NoSource:
    """A source that is not available, with the reason."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def measured(self, query: Query, nodes: NodeNames) -> Mapped:  # noqa: ARG002 — there is nothing to ask
        """Raise SignalFailed with the reason."""
        raise SignalFailed(Kind.SETTINGS, self._why)


def sources_of(servers: Iterable[PrometheusServer], read: ReadNodeMetrics | None = None) -> Mapping[str, Source]:
    """The readers by the name of their source in policies."""
    api: Source = NoSource("there is no connection to the Metrics API") if read is None else MetricsApiSource(read)
    return {PROMETHEUS.name: PrometheusSource(servers), METRICS_API.name: api}
