"""Connects the policy store with the scheduler, the shadow policies and the metrics of policies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from wharfinger.daemon.settings import Settings
from wharfinger.framework.ports import Clock
from wharfinger.kube import refusals
from wharfinger.kube.connection import Connection
from wharfinger.language import typed
from wharfinger.policies.active import ActivePolicies
from wharfinger.policies.budget import Suspension
from wharfinger.policies.candidate import Sample, sample_of
from wharfinger.policies.shadow import Shadows
from wharfinger.policies.store import PolicyStore
from wharfinger.scheduler.scheduler import Scheduler
from wharfinger.signals.failure import Kind, SignalFailed
from wharfinger.signals.metrics_api import PATH
from wharfinger.signals.ports import SignalObserver
from wharfinger.signals.query import SignalLimits
from wharfinger.signals.refreshing import Signals
from wharfinger.signals.sources import ReadNodeMetrics, sources_of

POLICIES = "Policies"
"""What the scheduler waits for besides the kinds of objects, until every source of policies has spoken."""

_LOOK = 0.2  # seconds between two looks whether the cluster is known


def connect(store: PolicyStore, scheduler: Scheduler, clock: Clock) -> Shadows:
    """What shadow policies would have done: from now on the scheduler has the store's policies, and shows them its decisions."""
    shadows = Shadows(clock, budget=scheduler.settings.budget)
    scheduler.show_decisions(shadows.compare)

    def adopt(active: ActivePolicies) -> None:
        scheduler.adopt(active.chains)
        shadows.adopt(active)

    def sample() -> Sample | None:
        if scheduler.missing_kinds - {POLICIES}:
            return None
        return sample_of(scheduler.state.snapshot(), (queued.pod for queued in scheduler.queue))

    def suspended(suspension: Suspension, _suspended: bool) -> None:
        store.suspension_changed(*suspension.key)

    store.adopt = adopt
    store.suspended = lambda: scheduler.budget.suspended
    scheduler.budget.changed = suspended
    store.sample = sample
    scheduler.rest = store.beside.rest
    adopt(store.active)
    return shadows


async def announced(store: PolicyStore, scheduler: Scheduler, clock: Clock) -> None:
    """Never returns: tells the scheduler as soon as every source of policies has spoken, and tries them once the cluster is known."""
    await store.heard.wait()
    scheduler.sink.synced(POLICIES)
    while scheduler.missing_kinds:
        await clock.sleep(_LOOK)
    await store.review()
    await store.keep_reviewing()


def signals_of(settings: Settings, connection: Connection, scheduler: Scheduler, clock: Clock, observer: SignalObserver) -> Signals:
    """The signals of a process, of no policy yet."""
    servers = [server.server(name) for name, server in settings.prometheus.items()]
    asked = settings.signals
    limits = SignalLimits(shortest_refresh=asked.min_refresh, of_asker=asked.queries_of_asker, of_all=asked.queries)
    return Signals(sources_of(servers, node_metrics(connection)), scheduler.measurements, clock, observer, limits=limits)


def connect_signals(signals: Signals, store: PolicyStore) -> None:
    """None; from now on there are signals for the policies that the store holds."""
    adopted = store.adopt

    def adopt(active: ActivePolicies) -> None:
        signals.follow(measuring(active))
        adopted(active)

    store.adopt = adopt
    signals.follow(measuring(store.active))


async def measure(signals: Signals, nodes_known: Callable[[], Awaitable[None]]) -> None:
    """Never returns: asks for the metrics of policies, once it is known which nodes there are."""
    await nodes_known()
    await signals.run()


def measuring(active: ActivePolicies) -> Iterator[typed.Policy]:
    """The policies that have metrics, each once; those in the shadow are compared on the same samples."""
    beside = [chain for shadows in active.shadows.values() for chain in shadows.values()]
    policies = {policy.revision: policy.policy for chain in (*active.chains.values(), *beside) for policy in chain.policies}
    return (policy for policy in policies.values() if policy.metrics)


def node_metrics(connection: Connection) -> ReadNodeMetrics:
    """What reads the Metrics API of a cluster."""

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
