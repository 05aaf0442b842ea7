"""The running scheduler, put together: the API server's ports, the scheduler's loop, the election, and an orderly end.

The informers and the event recorder run from the start to the very end. The scheduler runs while this process leads: it starts with the
election, and a stop lets it finish what is under way before the lease is given back. Who loses the lease stops writing at that moment and
ends with an error, as kube-scheduler does: whoever supervises the process starts it again, with a picture of the cluster that is fresh.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from wharfinger.daemon.chains import chains_of
from wharfinger.daemon.connecting import first_contact
from wharfinger.daemon.health import Health
from wharfinger.daemon.identity import identity
from wharfinger.daemon.observing import LoggedFailures
from wharfinger.daemon.ports import reporting, writing
from wharfinger.daemon.settings import Settings
from wharfinger.daemon.tasks import Tasks
from wharfinger.errors import WharfingerError
from wharfinger.framework.chain import Chain
from wharfinger.framework.ports import Clock, Observer
from wharfinger.kube.api_server import ApiServer, ports_of
from wharfinger.kube.connection import Connection, Limits
from wharfinger.kube.credentials import Credentials
from wharfinger.kube.discovery import ServerVersion
from wharfinger.kube.events import EventSettings
from wharfinger.kube.lease import LeaseSettings
from wharfinger.kube.resources import SCHEDULING
from wharfinger.runtime.scheduler import Scheduler, SchedulerSettings
from wharfinger.runtime.system_clock import SystemClock
from wharfinger.web.app import application
from wharfinger.web.debug import Debug
from wharfinger.web.server import Server

CONTROLLER = "wharfinger"
"""`reportingController` of events."""


class LeadershipLost(WharfingerError):
    """Another process leads now, or none can tell."""


class Daemon:
    """The parts of a running scheduler on one connection; `run` runs them once."""

    def __init__(  # noqa: PLR0913 — what the parts need from outside
        self,
        settings: Settings,
        chains: Mapping[str, Chain],
        connection: Connection,
        version: ServerVersion,
        *,
        observer: Observer,
        clock: Clock,
        log: Any,
    ) -> None:
        self._settings = settings
        self._log = log
        self.identity = identity()
        self.server: ApiServer = ports_of(
            connection,
            clock,
            observer.failed,
            events=EventSettings(controller=CONTROLLER, instance=self.identity),
            lease=lease_of(settings, self.identity),
            version=version,
        )
        ways = reporting(clock, observer) if settings.dry_run else writing(self.server, clock, observer)
        self.scheduler = Scheduler(chains, ways.ports, limits_of(settings))
        self._sink = ways.sink(self.scheduler.sink)

    async def run(self, stop: asyncio.Event) -> None:
        """None, after `stop`, when everything under way has ended or the grace period is over; LeadershipLost when the lease is lost."""
        elected = asyncio.Event()
        async with Tasks() as tasks:
            tasks.start(self.server.recorder.run(), "events")
            tasks.start(self.server.informers.run(self._sink), "informers")
            tasks.start(self._lead(elected), "election")
            await tasks.until(elected, stop)
            if stop.is_set():
                return
            self._log.info("scheduling", profiles=[profile.name for profile in self.scheduler.profiles], identity=self.identity)
            scheduling = tasks.start(self.scheduler.run(), "scheduling")
            await tasks.until(stop)
            self._log.info("stopping", binding=self.scheduler.n_binding, writing=self.scheduler.n_writing)
            self.scheduler.stop()
            await tasks.until(scheduling)

    async def _lead(self, elected: asyncio.Event) -> None:
        """Never returns: leads until cancelled, or raises LeadershipLost."""
        await self.server.leadership.run(elected.set, self.scheduler.abandon)
        if not self.server.leadership.is_leader:
            lease = self._settings.leader_election
            raise LeadershipLost(f"lost the lease {lease.resource_namespace}/{lease.resource_name}; nothing more is bound by this process")
        await asyncio.Event().wait()


async def serve(settings: Settings, *, stop: asyncio.Event) -> None:
    """None, after `stop`: schedules until then. PolicyError or UsageError before anything is connected to, LeadershipLost later."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    log = structlog.get_logger()
    chains = chains_of(settings, log.warning)
    clock, health = SystemClock(), Health()
    async with AsyncExitStack() as opened:
        if settings.port:
            server = await opened.enter_async_context(Server(_application(health), settings.bind_address, settings.port))
            log.info("serving", url=server.url)
        connection = await opened.enter_async_context(connection_of(settings, clock))
        version = await _reached(connection, clock, log, stop)
        if version is None:
            return
        log.info("connected", server=connection.credentials.server, version=version.text, dry_run=settings.dry_run)
        daemon = Daemon(settings, chains, connection, version, observer=LoggedFailures(log), clock=clock, log=log)
        health.watch(daemon)
        await daemon.run(stop)


async def _reached(connection: Connection, clock: Clock, log: Any, stop: asyncio.Event) -> ServerVersion | None:
    """The version of the API server as soon as it answers, None when told to stop before that."""
    contact = asyncio.ensure_future(first_contact(connection, clock, log.warning))
    async with Tasks() as tasks:
        await tasks.until(contact, stop)
    if contact.done():
        return contact.result()
    contact.cancel()
    return None


def _application(health: Health) -> Any:
    return application(health.checks, CollectorRegistry(), Debug())


def lease_of(settings: Settings, name: str) -> LeaseSettings | None:
    """The lease to hold, or None when this process always leads: it has no rivals, or writes nothing."""
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
    """The scheduler's limits; nothing is decided before every kind that is watched is known."""
    limits = settings.limits
    return SchedulerSettings(
        needed=frozenset(resource.name for resource in SCHEDULING),
        most_binds=limits.binds,
        most_writes=limits.writes,
        stop_seconds=limits.grace_period,
    )


def connection_of(settings: Settings, clock: Clock) -> Connection:
    """The connection that the settings name, not opened yet."""
    named = settings.client_connection
    credentials = Credentials(named.kubeconfig, named.context, clock.monotonic)
    return Connection(credentials, Limits(connections=settings.limits.connections), user_agent="wharfinger")
