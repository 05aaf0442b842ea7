"""Prometheus as a source: instant queries by `prometheus-api-client`. Everything here blocks and is called in threads."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

import urllib3

from wharfinger.signals.http import PrometheusAdapter, PrometheusSession, failed
from wharfinger.signals.mapping import MAX_CLOCK_SKEW, Mapped, NodeNames, Series, in_portions, in_turn, mapped
from wharfinger.signals.ports import Kind, SignalFailed
from wharfinger.signals.query import PrometheusServer, Query


class Prometheus:
    """The servers of the settings. Each thread keeps its own connections."""

    def __init__(self, servers: Iterable[PrometheusServer]) -> None:
        self.servers: Mapping[str, PrometheusServer] = {server.name: server for server in servers}
        self._clients = threading.local()

    def measured(self, query: Query, nodes: NodeNames) -> Mapped:
        """The samples of a query by node; SignalFailed when there are none."""
        client = self._client(query.server)
        try:
            return _asked(client, query, nodes)
        except SignalFailed as error:
            url = self.servers[query.server].url
            if error.kind is Kind.ANSWER and url not in str(error):  # the decoder does not know the server
                raise SignalFailed(error.kind, f"{url}: {error}") from error
            raise

    def _client(self, name: str) -> Any:
        server = self.servers.get(name)
        if server is None:
            known = ", ".join(sorted(self.servers)) or "none"
            raise SignalFailed(Kind.SETTINGS, f"the settings name no Prometheus server `{name}` (they name {known})")
        clients: dict[str, Any] | None = getattr(self._clients, "known", None)
        if clients is None:
            clients = self._clients.known = {}
        if name not in clients:
            clients[name] = _connected(server)
        return clients[name]


def _connected(server: PrometheusServer) -> Any:
    from prometheus_api_client import PrometheusConnect  # noqa: PLC0415 — takes a second to import, and most runs do not need it

    url = server.url.rstrip("/")
    session = PrometheusSession(server)
    try:
        client = PrometheusConnect(url=url, session=session, timeout=urllib3.Timeout(total=server.timeout))
    except (OSError, ValueError) as error:
        raise failed(server, error) from error
    session.mount(url, PrometheusAdapter(server.most_bytes))  # in place of the one that the library has mounted
    return client


def _asked(client: Any, query: Query, nodes: NodeNames) -> Mapped:
    found = client.custom_query(query.text)
    times = None if query.times is None else client.custom_query(query.times)
    came = time.time()
    with in_turn():
        series = found if times is None else _timed(found, times, query.node)
        return mapped(series, query, nodes, came=came, warnings=found.warnings)


def _timed(values: Iterable[Series], times: Iterable[Series], label: str) -> Iterable[Series]:
    """The values with the times that a second query gives for the same text of the node label; NaN if there is no possible time."""
    measured = {each.labels.get(label): each.value for each in in_portions(times) if each.value <= each.time + MAX_CLOCK_SKEW}
    for series in values:
        yield series._replace(time=measured.get(series.labels.get(label), math.nan))
