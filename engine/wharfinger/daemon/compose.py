"""The running scheduler, put together: the ports to the API server, the scheduling loop, leader election, and an orderly stop.

Informers and the event recorder run from start to end. The scheduler runs while this process leads. A stop lets work in progress finish
before the lease is given back. A process that loses the lease stops writing at once and ends with an error, as kube-scheduler does; its
supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import secrets
import socket

from msgspec import Struct

from wharfinger.daemon.policies import POLICIES, connect, measure, notify_when_loaded, policies_with_metrics, signals_of
from wharfinger.daemon.settings import Settings
from wharfinger.emit import Emit, Subscribers, ignore
from wharfinger.errors import WharfingerError
from wharfinger.event_loop import Backoff, Tasks
from wharfinger.framework.ports import Clock, ClusterSink
from wharfinger.garbage_collection import collect_when_idle
from wharfinger.kube.api_server import ApiServer, ServerVersion, ports_of
from wharfinger.kube.connection import Connection, Limits, keep_checking_server
from wharfinger.kube.credentials import Credentials
from wharfinger.kube.events import EventSettings
from wharfinger.kube.lease import LeaseSettings
from wharfinger.kube.wire import COSCHEDULING_PODGROUPS, SCHEDULING
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.operator.compose import Operator, StorePolicies
from wharfinger.policies.budget import BudgetSettings
from wharfinger.policies.store import PolicyStore
from wharfinger.scheduler.ports import DryRunBinder, DryRunClaimWriter, DryRunSink, DryRunWriter, NoEvents, Ports, StopwatchOf, not_measured
from wharfinger.scheduler.queue.sub_queues import QueueSettings
from wharfinger.scheduler.scheduler import Scheduler, SchedulerSettings
from wharfinger.telemetry.logs import Log
from wharfinger.telemetry.policies import PolicyEvents, SignalEvents


def identity() -> str:
    """A name that no other process has: the host, and something random, as kube-scheduler makes it."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"


class SchedulerPorts(Struct, frozen=True, kw_only=True):
    """The ports, and the sink between the watches and the scheduler, if there is one."""

    ports: Ports
    filter_sink: DryRunSink | None = None

    def sink(self, scheduler: ClusterSink) -> ClusterSink:
        """The sink for the watches, through which the scheduler gets its updates."""
        if self.filter_sink is None:
            return scheduler
        self.filter_sink.connect(scheduler)
        return self.filter_sink


def writing_ports(server: ApiServer, clock: Clock, emit: Emit, stopwatch: StopwatchOf) -> SchedulerPorts:
    """The ports of a scheduler that writes to the API server."""
    ports = Ports(
        binder=server.binder,
        writer=server.writer,
        volumes=server.volumes,
        claims=server.claims,
        groups=server.groups,
        events=server.events,
        leadership=server.leadership,
        clock=clock,
        emit=emit,
        stopwatch=stopwatch,
    )
    return SchedulerPorts(ports=ports)


def read_only_ports(clock: Clock, emit: Emit, stopwatch: StopwatchOf = not_measured) -> SchedulerPorts:
    """The ports of a dry run, which writes nothing."""
    supposed = DryRunSink()
    writer = DryRunWriter(supposed)
    ports = Ports(
        binder=DryRunBinder(),
        writer=writer,
        volumes=writer,
        claims=DryRunClaimWriter(supposed),
        events=NoEvents(),
        clock=clock,
        emit=emit,
        stopwatch=stopwatch,
    )
    return SchedulerPorts(ports=ports, filter_sink=supposed)


CONTROLLER = "wharfinger"
"""`reportingController` of events."""


class LeadershipLost(WharfingerError):
    """Another process leads now, or the lease could not be renewed."""


class Daemon:
    """The parts of a running scheduler on one connection; `run` runs them once."""

    def __init__(  # noqa: PLR0913 — its collaborators and settings
        self,
        settings: Settings,
        policies: PolicyStore,
        connection: Connection,
        version: ServerVersion,
        *,
        subscribers: Subscribers,
        clock: Clock,
        log: Log,
        custom: Operator | None = None,
        state: ClusterState | None = None,
        stopwatch: StopwatchOf = not_measured,
    ) -> None:
        emit = subscribers.emit
        self._settings = settings
        self._log = log
        self._clock = clock
        self._connection = connection
        self.contact = connection.contact
        self.identity = identity()
        self.server: ApiServer = ports_of(
            connection,
            clock,
            emit,
            events=EventSettings(controller=CONTROLLER, instance=self.identity),
            lease=lease_of(settings, self.identity),
            version=version,
        )
        scheduler_ports = (
            read_only_ports(clock, emit, stopwatch) if settings.dry_run else writing_ports(self.server, clock, emit, stopwatch)
        )
        self.policies = policies
        self.scheduler = Scheduler(
            policies.active.chains,
            scheduler_ports.ports,
            limits_of(settings),
            state,
            rest=policies.build_thread.rest,
            suspension_changed=policies.suspension_changed,
            coscheduling=lambda: self.server.informers.serves(COSCHEDULING_PODGROUPS),
        )
        if not settings.dry_run:
            subscribers.subscribe(PolicyEvents(self.server.recorder, lambda: self.leads).handlers)
            subscribers.subscribe(SignalEvents(self.server.recorder, policies, lambda: self.leads).handlers)
        self.signals = signals_of(settings, connection, self.scheduler, clock, emit)
        self.shadows = connect(
            policies, self.scheduler, clock, subscribers, lambda active: self.signals.follow(policies_with_metrics(active))
        )
        self._sink = scheduler_ports.sink(self.scheduler.sink)
        self.custom = custom
        if custom is not None and not settings.dry_run:
            subscribers.subscribe(custom.reconcile(self.scheduler, self.server, StorePolicies(policies, self.signals.metrics_of)))

    @property
    def leads(self) -> bool:
        """True if this process may act now."""
        return self.server.leadership.is_leader

    @property
    def leader(self) -> str:
        """The identity of the process that leads as last seen, "" if not known."""
        return self.server.leadership.holder

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` and the end of work in progress or of the grace period; LeadershipLost if the lease is lost."""
        elected = asyncio.Event()
        async with Tasks() as tasks:
            tasks.start(keep_checking_server(self._connection, self._clock), "contact")
            tasks.start(self.server.recorder.run(), "events")
            tasks.start(self.server.informers.run(self._sink), "informers")
            tasks.start(self.policies.run(), "policies")
            tasks.start(notify_when_loaded(self.policies, self.scheduler, self._clock), "first policies")
            tasks.start(measure(self.signals, self.server.informers.wait_synced), "signals")
            tasks.start(collect_when_idle(self._is_idle, self._clock, self.server.informers.wait_synced), "garbage")
            tasks.start(self._lead(elected, stop), "election")
            if self.custom is not None:
                self.custom.start(tasks)
            await tasks.until(elected, stop)
            if stop.is_set():
                return
            self._log.info("scheduling", profiles=[profile.name for profile in self.scheduler.profiles], identity=self.identity)
            scheduling = tasks.start(self.scheduler.run(), "scheduling")
            await tasks.until(stop)
            self._log.info("stopping", binding=self.scheduler.n_binding, writing=self.scheduler.n_writing)
            self.scheduler.stop()
            if self.custom is not None:
                await self.custom.stop()
            await tasks.until(scheduling)

    def _is_idle(self) -> bool:
        """True if no list is being read, and no pod waits for a decision or a binding."""
        return not (self.server.informers.unsynced or self.scheduler.n_binding or self.scheduler.queue.depths["active"])

    async def _lead(self, elected: asyncio.Event, stop: asyncio.Event) -> None:
        """Lead until cancelled; raise LeadershipLost unless the process is already stopping."""
        await self.server.leadership.run(elected.set, self.scheduler.abandon)
        if not self.leads and not stop.is_set():
            lease = self._settings.leader_election
            raise LeadershipLost(f"lost the lease {lease.resource_namespace}/{lease.resource_name}; nothing more is bound by this process")
        await asyncio.Event().wait()


def lease_of(settings: Settings, name: str) -> LeaseSettings | None:
    """The lease to hold, or None if this process always leads, because election is off or it writes nothing."""
    election = settings.leader_election
    if settings.dry_run or not election.leader_elect:
        return None
    return LeaseSettings(
        identity=name,
        resource_namespace=election.resource_namespace,
        resource_name=election.resource_name,
        lease_duration=election.lease_duration,
        renew_deadline=election.renew_deadline,
        retry_period=election.retry_period,
    )


def limits_of(settings: Settings) -> SchedulerSettings:
    """The scheduler's limits; nothing is decided before every kind that is watched, and every policy, is known."""
    limits = settings.limits
    backoff = Backoff(initial=settings.pod_initial_backoff_seconds, maximum=settings.pod_max_backoff_seconds)
    return SchedulerSettings(
        needed=frozenset({POLICIES, *(resource.name for resource in SCHEDULING)}),
        max_binds=limits.binds,
        max_writes=limits.writes,
        stop_seconds=limits.grace_period,
        queue=QueueSettings(backoff=backoff),
        budget=BudgetSettings(seconds=limits.policy_budget),
    )


def connection_of(settings: Settings, clock: Clock, emit: Emit = ignore) -> Connection:
    """The connection that the settings name, not opened yet."""
    named = settings.client_connection
    credentials = Credentials(named.kubeconfig, named.context, clock.monotonic)
    return Connection(credentials, Limits(connections=settings.limits.connections), user_agent="wharfinger", emit=emit)
