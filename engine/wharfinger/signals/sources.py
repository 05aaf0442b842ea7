"""The readers of every source of metrics: Prometheus servers, and the Metrics API where there is a connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from wharfinger.language.semantics.metric_sources import METRICS_API, PROMETHEUS
from wharfinger.signals.failure import Kind, SignalFailed
from wharfinger.signals.fair_queue import Workers
from wharfinger.signals.mapping import Mapped, NodeNames, in_turn, mapped
from wharfinger.signals.metrics_api import node_series
from wharfinger.signals.ports import Source
from wharfinger.signals.query import PrometheusServer, Query

if TYPE_CHECKING:
    from wharfinger.signals.prometheus import Prometheus

AT_A_TIME = 4
"""Concurrent queries to one server; policies of the cluster use at most three, those of all namespaces together too."""

ReadNodeMetrics = Callable[[], Awaitable[bytes]]
"""The list of `metrics.k8s.io/v1beta1` NodeMetrics as JSON; SignalFailed when it cannot be read."""


class PrometheusSource:
    """Servers by name; each has its own threads, so one that hangs does not delay the others."""

    def __init__(self, servers: Iterable[PrometheusServer]) -> None:
        self._servers = {server.name: server for server in servers}
        self._workers = {name: Workers(f"prometheus-{name}", AT_A_TIME, time.monotonic) for name in self._servers}
        self._making = threading.Lock()
        self._prometheus: Prometheus | None = None

    async def measured(self, query: Query, nodes: NodeNames) -> Mapped:
        """The samples by node; SignalFailed when there are none."""
        workers = self._workers.get(query.server)
        if workers is None:
            known = ", ".join(sorted(self._workers)) or "none"
            raise SignalFailed(Kind.SETTINGS, f"the settings name no Prometheus server `{query.server}` (they name {known})")
        return await workers.run(partial(self._measured, query, nodes), query.asker)

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
        return await self._workers.run(partial(_of_api, content, query, nodes), query.asker)


def _of_api(content: bytes, query: Query, nodes: NodeNames) -> Mapped:
    with in_turn():
        return mapped(node_series(content, query.text), query, nodes, came=time.time())


class NoSource:
    """A source that is not available, with the reason."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def measured(self, query: Query, nodes: NodeNames) -> Mapped:  # noqa: ARG002 — there is nothing to ask
        """Raises SignalFailed with the reason."""
        raise SignalFailed(Kind.SETTINGS, self._why)


def sources_of(servers: Iterable[PrometheusServer], read: ReadNodeMetrics | None = None) -> Mapping[str, Source]:
    """The readers by the name of their source in policies."""
    api: Source = NoSource("there is no connection to the Metrics API") if read is None else MetricsApiSource(read)
    return {PROMETHEUS.name: PrometheusSource(servers), METRICS_API.name: api}
