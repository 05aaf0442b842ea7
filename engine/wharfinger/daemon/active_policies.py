"""Connects the policy store with the scheduler, the shadow policies and the metrics of policies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping

from wharfinger.daemon.settings import Settings
from wharfinger.emit import Emit, Subscribers
from wharfinger.framework.ports import Clock
from wharfinger.kube import refusals
from wharfinger.kube.connection import Connection
from wharfinger.language.semantics import typed
from wharfinger.policies.active import ActivePolicies
from wharfinger.policies.candidate import Sample, sample_of
from wharfinger.policies.shadow import Shadows
from wharfinger.policies.store import PolicyStore
from wharfinger.scheduler.events import Decided
from wharfinger.scheduler.scheduler import Scheduler
from wharfinger.signals.ports import Kind, SignalFailed
from wharfinger.signals.query import SignalLimits
from wharfinger.signals.refreshing import Signals
from wharfinger.signals.sources import PATH, ReadNodeMetrics, sources_of

POLICIES = "Policies"
"""The kind that the scheduler waits for until every source of policies was read."""

Follow = Callable[[ActivePolicies], None]

_LOOK = 0.2  # seconds between two looks whether the cluster is known


class _LiveScheduling:
    """The scheduler that follows a policy store, with shadow policies and signals, as the store knows it."""

    def __init__(self, scheduler: Scheduler, shadows: Shadows, follow: Follow) -> None:
        self._scheduler = scheduler
        self._shadows = shadows
        self._follow = follow

    def adopt(self, active: ActivePolicies) -> None:
        """Decide with these policies from now on, compare their shadows, and ask for their metrics."""
        self._follow(active)
        self._scheduler.adopt(active.chains)
        self._shadows.adopt(active)

    def sample(self) -> Sample | None:
        """A part of the live cluster; None before the cluster is known."""
        if self._scheduler.missing_kinds - {POLICIES}:
            return None
        return sample_of(self._scheduler.state.snapshot(), (queued.pod for queued in self._scheduler.queue))

    @property
    def suspended(self) -> Mapping[tuple[str, str], object]:
        """The policies that are suspended, and why, by name and revision."""
        return self._scheduler.budget.suspended


def connect(
    store: PolicyStore, scheduler: Scheduler, clock: Clock, subscribers: Subscribers, follow: Follow = lambda _active: None
) -> Shadows:
    """Gives the scheduler the policies of the store from now on; the shadow policies, which are compared with its decisions.

    `follow` is called with every set of policies before it decides.
    """
    shadows = Shadows(clock, budget=scheduler.settings.budget)
    subscribers.subscribe({Decided: lambda event: shadows.compare(event.profile, event.decision)})
    store.connect(_LiveScheduling(scheduler, shadows, follow))
    return shadows


async def announced(store: PolicyStore, scheduler: Scheduler, clock: Clock) -> None:
    """Tells the scheduler when every source of policies was read, and tries the policies once the cluster is known; never returns."""
    await store.all_sources_known.wait()
    scheduler.sink.synced(POLICIES)
    while scheduler.missing_kinds:
        await clock.sleep(_LOOK)
    await store.review()
    await store.keep_reviewing()


def signals_of(settings: Settings, connection: Connection, scheduler: Scheduler, clock: Clock, emit: Emit) -> Signals:
    """The signals of a process, without a policy yet."""
    servers = [server.server(name) for name, server in settings.prometheus.items()]
    asked = settings.signals
    limits = SignalLimits(shortest_refresh=asked.min_refresh, of_asker=asked.queries_of_asker, of_all=asked.queries)
    return Signals(sources_of(servers, node_metrics(connection)), scheduler.measurements, clock, emit, limits=limits)


async def measure(signals: Signals, nodes_known: Callable[[], Awaitable[None]]) -> None:
    """Queries the metrics of policies once the nodes are known; never returns."""
    await nodes_known()
    await signals.run()


def measuring(active: ActivePolicies) -> Iterator[typed.Policy]:
    """The policies that have metrics, each once; shadow policies are compared on the same samples."""
    shadow_chains = [chain for shadows in active.shadows.values() for chain in shadows.values()]
    policies = {policy.revision: policy.policy for chain in (*active.chains.values(), *shadow_chains) for policy in chain.policies}
    return (policy for policy in policies.values() if policy.metrics)


def node_metrics(connection: Connection) -> ReadNodeMetrics:
    """A function that reads the Metrics API of a cluster."""

    async def read() -> bytes:
        try:
            return await connection.request("GET", PATH)
        except (refusals.Unauthorized, refusals.Forbidden) as error:
            raise SignalFailed(Kind.CREDENTIALS, str(error)) from error
        except refusals.NotFound as error:
            raise SignalFailed(Kind.SETTINGS, "the cluster has no Metrics API; it takes a metrics-server") from error
        except refusals.Unreachable as error:
            raise SignalFailed(Kind.UNREACHABLE, str(error)) from error
        except refusals.ApiError as error:
            raise SignalFailed(Kind.SERVER, str(error)) from error

    return read
