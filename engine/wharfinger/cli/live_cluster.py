"""The live cluster and its metrics, for commands that read once and end: `wharf snapshot`, `wharf signals check`, and `--live`."""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from wharfinger.cli import chosen_policies, streams
from wharfinger.emit import Failed
from wharfinger.errors import UsageError
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import SOURCES
from wharfinger.model.columns.metric_table import Samples
from wharfinger.model.reading import files
from wharfinger.simulate import cluster
from wharfinger.simulate.cluster import Cluster

if TYPE_CHECKING:
    from types import FrameType

    from wharfinger.daemon.settings import Settings
    from wharfinger.framework.ports import Clock
    from wharfinger.kube.connection import Connection
    from wharfinger.kube.wire import Captured
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.signals.refreshing import Source
    from wharfinger.what_if.rebalance.watched_cluster import WatchedCluster


def cluster_of(paths: Sequence[str], kubeconfig: str | None, context: str | None, *, live: bool, skip_invalid: bool) -> Cluster:
    """The cluster that files describe, or the one that a kubeconfig leads to. UsageError unless it is one of the two, or for no node."""
    found = _cluster_of(paths, kubeconfig, context, live=live, skip_invalid=skip_invalid)
    if not live and not found.objects.nodes:
        raise UsageError(
            f"{', '.join(paths)}: the snapshot has no node, so no pod can be placed; `wharf snapshot` saves all that decisions depend on"
        )
    return found


def _cluster_of(paths: Sequence[str], kubeconfig: str | None, context: str | None, *, live: bool, skip_invalid: bool) -> Cluster:
    if paths and live:
        raise UsageError("--snapshot and --live exclude each other: a file, or the cluster as it is now")
    if not live and (kubeconfig is not None or context is not None):
        raise UsageError("--kubeconfig and --context select the cluster of --live; give --live too")
    if live:
        return cluster.cluster_of(_objects(capture(kubeconfig, context)))
    if not paths:
        raise UsageError("no cluster: give a file with --snapshot, or --live for the one that the kubeconfig names")
    return cluster.load_cluster(paths, skip_invalid=skip_invalid)


CAPTURE_TIMEOUT = 60.0
"""Seconds that a request for a page of a list may take."""
CAPTURE_AGENT = "wharf-snapshot"


def capture(kubeconfig: str | None, context: str | None) -> Captured:
    """Everything that a decision depends on; UsageError if it cannot be read."""
    import asyncio  # noqa: PLC0415 — imports that files do not need

    from wharfinger.event_loop import SystemClock  # noqa: PLC0415 — as above
    from wharfinger.kube.credentials import Credentials  # noqa: PLC0415 — as above
    from wharfinger.kube.read_client import ReadClient  # noqa: PLC0415 — as above
    from wharfinger.kube.wire import captured  # noqa: PLC0415 — as above

    found: list[Captured] = []  # not the result of the task: at its end, asyncio.run makes a repr that would contain the whole result

    async def read_cluster() -> None:
        clock = SystemClock()
        credentials = Credentials(kubeconfig, context, clock.monotonic)
        await credentials.load()
        if credentials.proxy is None:
            async with ReadClient(credentials, CAPTURE_TIMEOUT, user_agent=CAPTURE_AGENT) as reads:
                found.append(await captured(reads, clock))
                return
        from wharfinger.kube.connection import Connection, Limits  # noqa: PLC0415 — aiohttp, which most clusters do not need here

        async with Connection(credentials, Limits(request_timeout=CAPTURE_TIMEOUT), user_agent=CAPTURE_AGENT) as connection:
            found.append(await captured(connection, clock))

    asyncio.run(read_cluster())
    return found[0]


def _objects(found: Captured) -> files.Objects:
    return files.of_capture((obj for obj, _ in found.objects), found.word, "the cluster")


SYNC_TIMEOUT = 120.0
"""Seconds within which a watched cluster must have been read."""


@contextlib.asynccontextmanager
async def watched(kubeconfig: str | None, context: str | None, agent: str) -> AsyncIterator[tuple[WatchedCluster, Connection, Clock]]:
    """The cluster as it is from now on, once it has been read. UsageError if that takes too long."""
    import asyncio  # noqa: PLC0415 — half a second of imports that files do not need

    from wharfinger.event_loop import SystemClock  # noqa: PLC0415 — as above
    from wharfinger.kube.connection import Connection, Limits  # noqa: PLC0415 — as above
    from wharfinger.kube.credentials import Credentials  # noqa: PLC0415 — as above
    from wharfinger.kube.reflector import Informers  # noqa: PLC0415 — as above
    from wharfinger.what_if.rebalance.watched_cluster import WatchedCluster  # noqa: PLC0415 — as above

    clock = SystemClock()
    credentials = Credentials(kubeconfig, context, clock.monotonic)
    async with Connection(credentials, Limits(request_timeout=10.0), user_agent=agent) as connection:
        live = WatchedCluster()
        informers = Informers(connection, clock, FailureLines(clock))
        watching = asyncio.create_task(informers.run(live))
        try:
            try:
                async with asyncio.timeout(SYNC_TIMEOUT):
                    await informers.wait_synced()
            except TimeoutError:
                raise UsageError(
                    f"the cluster could not be read within {SYNC_TIMEOUT:g} s: {', '.join(sorted(informers.unsynced))}"
                ) from None
            yield live, connection, clock
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching


OUTAGE_SECONDS = 60.0
"""Seconds in which the failures of all watches count as one outage of the API server."""


class FailureLines:
    """Prints the failures of a watched cluster: one line for an outage, which all kinds have, and each other failure once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quiet_until = -math.inf
        self._printed: set[str] = set()

    def __call__(self, event: object) -> None:
        """Print the failure unless it was printed; do nothing for other events."""
        from wharfinger.kube import api_errors  # noqa: PLC0415 — imports that files do not need

        if not isinstance(event, Failed):
            return
        text = f"{event.where}: {event.error}"
        if isinstance(event.error, api_errors.TRANSIENT):
            now = self._clock.monotonic()
            if now >= self._quiet_until:
                self._quiet_until = now + OUTAGE_SECONDS
                streams.print_stderr(f"{text}; all watches are tried again")
        elif text not in self._printed:
            self._printed.add(text)
            streams.print_stderr(text)


@contextlib.contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """A context in which SIGTERM, and SIGHUP of a terminal that is closed, end the command as Ctrl-C does, so that clean-up runs."""
    with contextlib.ExitStack() as handled:
        handled.enter_context(streams.handled(signal.SIGTERM, _interrupt))
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
            handled.enter_context(streams.handled(signal.SIGHUP, _interrupt))
        yield


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Call the present handler of Ctrl-C: within `asyncio.run` it cancels the main task, otherwise it raises."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # Ctrl-C is ignored, as under nohup
        handler = signal.default_int_handler
    handler(signal.SIGINT, frame)


def settings_of(config: str | None, prometheus: str | None) -> Settings:
    """The settings of a file, or the defaults, with a URL as the `default` server; UsageError for what does not fit."""
    from wharfinger.daemon.settings import (  # noqa: PLC0415 — half a second of imports that no other command needs
        Settings,
        read_settings,
        validated,
    )

    settings = Settings() if config is None else read_settings(config)
    if prometheus is None:
        return settings
    document = settings.model_dump(by_alias=True)
    document["prometheus"] = {**document["prometheus"], "default": {"url": prometheus}}
    return validated(document, "--prometheus")


def state_of(paths: Sequence[str], kubeconfig: str | None, context: str | None, *, live: bool) -> ClusterState | None:
    """The cluster that the flags name; None without flags. Objects that cannot be read are left out with a warning."""
    if not paths and not live:
        return None
    found = _cluster_of(paths, kubeconfig if live else None, context if live else None, live=live, skip_invalid=True)
    streams.warn(found.skipped)
    return found.state


def policy_paths(settings: Settings) -> list[str]:
    """The files and folders with the policies of all profiles."""
    return list(dict.fromkeys(path for profile in settings.profiles for path in (*profile.policies, *profile.shadow_policies)))


class Measured(Struct, frozen=True, kw_only=True):
    """The samples of signals, and a sentence for each that could not be read."""

    samples: Mapping[str, Samples] = field(default_factory=dict)
    not_read: Sequence[str] = ()


def measured(  # noqa: PLR0913, PLR0917 — one parameter per flag
    found: Captured,
    paths: Sequence[str] | None,
    config: str | None,
    prometheus: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> Measured:
    """The samples of the metrics that policies read of a captured cluster; none if no policy is named. Raises UsageError or PolicyError."""
    if not paths and config is None:
        if prometheus is not None:
            raise UsageError("--prometheus is the server of metrics; name the metrics with --policy or --config")
        return Measured()
    settings = settings_of(config, prometheus)
    chosen = list(paths or policy_paths(settings))
    policies = [policy for policy in chosen_policies.loaded(chosen) if policy.metrics] if chosen else []
    if not policies:
        return Measured()
    import asyncio  # noqa: PLC0415 — imports that files do not need

    return asyncio.run(_read_samples(found, policies, settings, kubeconfig, context))


async def _read_samples(
    found: Captured, policies: Sequence[typed.Policy], settings: Settings, kubeconfig: str | None, context: str | None
) -> Measured:
    from wharfinger.event_loop import SystemClock  # noqa: PLC0415 — imports that no other command needs
    from wharfinger.signals.mapping import NodeNames  # noqa: PLC0415 — as above
    from wharfinger.signals.query import queries_of  # noqa: PLC0415 — as above
    from wharfinger.signals.survey import samples_of, send_queries  # noqa: PLC0415 — as above

    nodes = NodeNames(*cluster.cluster_of(_objects(found)).state.nodes_listed())
    async with sources(policies, settings, kubeconfig, context) as opened:
        answers = await send_queries(queries_of(policies).values(), opened, nodes, SystemClock())
    lost = [f"no samples of {', '.join(each.query.users)}: {each.failure}" for each in answers.values() if each.failure is not None]
    return Measured(samples=samples_of(answers), not_read=lost)


@contextlib.asynccontextmanager
async def sources(
    policies: Sequence[typed.Policy], settings: Settings, kubeconfig: str | None, context: str | None
) -> AsyncIterator[Mapping[str, Source]]:
    """The sources of the settings; connects to the cluster only if a policy reads its Metrics API."""
    from wharfinger.signals.sources import sources_of  # noqa: PLC0415 — imports that no other command needs

    servers = [server.server(name) for name, server in settings.prometheus.items()]
    used = [SOURCES[metric.source] for policy in policies for metric in policy.metrics]
    if not servers and any(source.has_servers for source in used):
        raise UsageError("no Prometheus server: give its URL with --prometheus, or a file with --config that names it")
    if not any(source.through_api_server for source in used):
        yield sources_of(servers)
        return
    from wharfinger.daemon.policies import node_metrics  # noqa: PLC0415 — as above
    from wharfinger.event_loop import SystemClock  # noqa: PLC0415 — as above
    from wharfinger.kube.connection import Connection, Limits  # noqa: PLC0415 — as above
    from wharfinger.kube.credentials import Credentials  # noqa: PLC0415 — as above

    named = settings.client_connection
    credentials = Credentials(kubeconfig or named.kubeconfig, context or named.context, SystemClock().monotonic)
    async with Connection(credentials, Limits(request_timeout=10.0), user_agent="wharf-signals") as connection:
        yield sources_of(servers, node_metrics(connection))
