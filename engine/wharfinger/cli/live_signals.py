"""Signals for commands that end: where their servers are, whose nodes they measure, and what they say at this moment."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

from wharfinger.cli import live_cluster
from wharfinger.errors import UsageError
from wharfinger.language import typed

if TYPE_CHECKING:
    from wharfinger.daemon.settings import Settings
    from wharfinger.model.cluster_state import ClusterState
    from wharfinger.signals.ports import Source


def settings_of(config: str | None, prometheus: str | None) -> Settings:
    """The settings of a file, or the defaults, with a URL as the `default` server; UsageError for what does not fit."""
    from wharfinger.daemon import files  # noqa: PLC0415 — half a second of imports that no other verb needs
    from wharfinger.daemon.settings import Settings  # noqa: PLC0415 — likewise

    settings = Settings() if config is None else files.read(config)
    if prometheus is None:
        return settings
    document = settings.model_dump(by_alias=True)
    document["prometheus"] = {**document["prometheus"], "default": {"url": prometheus}}
    return files.validated(document, "--prometheus")


def state_of(paths: Sequence[str], kubeconfig: str | None, context: str | None, *, live: bool) -> ClusterState | None:
    """The cluster whose nodes are meant; None when none is named."""
    if not paths and not live:
        return None
    return live_cluster.cluster_of(paths, kubeconfig if live else None, context if live else None, live=live, skip_invalid=True).state


@contextlib.asynccontextmanager
async def sources(
    policies: Sequence[typed.Policy], settings: Settings, kubeconfig: str | None, context: str | None
) -> AsyncIterator[Mapping[str, Source]]:
    """The sources of the settings; the cluster is connected to only if a policy asks its Metrics API."""
    from wharfinger.signals.sources import sources_of  # noqa: PLC0415 — imports that no other verb needs

    servers = [server.server(name) for name, server in settings.prometheus.items()]
    metrics = [metric for policy in policies for metric in policy.metrics]
    if not servers and any(metric.source == "prometheus" for metric in metrics):
        raise UsageError("which Prometheus server? Give its URL with --prometheus, or a file with --config that names it")
    if not any(metric.source == "metrics_api" for metric in metrics):
        yield sources_of(servers)
        return
    from wharfinger.daemon.measured import node_metrics  # noqa: PLC0415 — likewise
    from wharfinger.kube.connection import Connection, Limits  # noqa: PLC0415 — likewise
    from wharfinger.kube.credentials import Credentials  # noqa: PLC0415 — likewise
    from wharfinger.runtime.system_clock import SystemClock  # noqa: PLC0415 — likewise

    named = settings.client_connection
    credentials = Credentials(kubeconfig or named.kubeconfig, context or named.context, SystemClock().monotonic)
    async with Connection(credentials, Limits(request_timeout=10.0), user_agent="wharf-signals") as connection:
        yield sources_of(servers, node_metrics(connection))
